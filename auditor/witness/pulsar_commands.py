"""Whose ledger it is, which topic it is of, and the `pulsar-admin` commands for it.

The custom metadata answers "which topic is this?". Pulsar writes `application`, `component` and
names under `pulsar/` (LedgerMetadataUtils).

Pulsar names a managed ledger `tenant/namespace/persistent/topic`, with the topic's local name URL-
encoded. In the old form the cluster follows the tenant (TopicName.getPersistenceNamingEncoding,
Codec). The name of a schema is `tenant/namespace/topic`, encoded likewise
(TopicName.getSchemaName). A compacted ledger has its topic's whole name (LedgerMetadataUtils).

For findings on what topics reference, the advice is to save everything, then look. A broker that
loads a topic "repairs" it: it rewrites cursors and deletes schemas that it cannot read.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import unquote_plus

from auditor.errors import ConfigError
from auditor.model.facts import (
    DroppedLedgerFacts,
    MissingLedgerFacts,
    NewestMissingFacts,
    OrphanedFacts,
    PositionBeyondFacts,
    TruncatedLedgerFacts,
)
from auditor.model.finding import Finding
from auditor.model.finding_record import Owner
from auditor.model.ledger import LedgerMetadata
from auditor.model.topic import Role, TopicName
from auditor.pulsar.topic_paths import (
    MANAGED_LEDGERS,
    PERSISTENT,
    SCHEMAS,
    encode_name,
    parse_topic,
    schema_path,
    topic_path,
)
from auditor.witness.ledger_commands import (
    LEDGERS_MAX,
    SAVE_ZOOKEEPER,
    Commands,
    Steps,
    dump_command,
    quote_word,
    shell,
)

TEXT_CHARS_MAX = 512
"""A longer value is cut. Anybody may write anything there."""

_NAMES = (
    "pulsar/managed-ledger",
    "pulsar/compactedTopic",
    "pulsar/schemaId",
    "pulsar/delayedIndexTopic",
)


def owner_of(metadata: LedgerMetadata | None) -> Owner | None:
    """Return the owner as far as the ledger says, None if it does not."""
    if metadata is None:
        return None
    said = {
        key: value.decode("utf-8", "replace")[:TEXT_CHARS_MAX]
        for key, value in metadata.custom_metadata
    }
    name = next((said[key] for key in _NAMES if key in said), None)
    application, component, cursor = (
        said.get("application"),
        said.get("component"),
        said.get("pulsar/cursor"),
    )
    if name is None and application is None and component is None:
        return None
    if name is not None and cursor is not None:
        name = f"{name} cursor {cursor}"
    return Owner(application, component, name)


_COMPONENTS = {
    Role.DATA: "managed-ledger",
    Role.CURSOR: "managed-ledger",
    Role.SCHEMA: "schema",
    Role.COMPACTED: "compacted-ledger",
    Role.DELAYED: "delayed-index-bucket",
}


def owner_by_use(topic: TopicName, role: Role, name: str) -> Owner:
    """Return the owner of a ledger that a topic references, in the words that Pulsar itself writes.

    `name` is the subscription of a cursor.
    """
    local, namespace = encode_name(topic.local_name), [part for part in topic[:-1] if part]
    if role in (Role.COMPACTED, Role.DELAYED):
        said = str(topic)
    elif role is Role.SCHEMA:
        said = "/".join((*namespace, local))
    else:
        said = "/".join((*namespace, "persistent", local))
    if role is Role.CURSOR:
        said = f"{said} cursor {name}"
    return Owner("pulsar", _COMPONENTS[role], said[:TEXT_CHARS_MAX])


_PREFIX = "persistent://"
_CURSOR = " cursor "
"""Separates a managed ledger and its cursor in an owner's name."""
_COMPACTION = "__compaction"
"""The subscription whose cursor names the ledger of compacted messages."""


class Use(StrEnum):
    """Uses of a ledger in Pulsar."""

    MESSAGES = "messages"
    CURSOR = "cursor"
    SCHEMA = "schema"
    COMPACTED = "compacted"
    DELAYED = "delayed"


class PulsarLedger(NamedTuple):
    """The topic of a ledger, decoded, and what Pulsar uses the ledger for.

    A topic is written `persistent://tenant/namespace/topic`. `znodes` are the paths at which
    Pulsar's metadata store records this use.
    """

    topic: str
    use: Use
    znodes: tuple[str, ...]


def pulsar_ledger(owner: Owner | None) -> PulsarLedger | None:
    """Return the topic that an owner names, and what it uses the ledger for.

    Return None if there is no topic, or if its name may have been cut.
    """
    name = None if owner is None or owner.application != "pulsar" else owner.name
    if owner is None or not name or len(name) >= TEXT_CHARS_MAX:
        return None
    component = owner.component
    if component == "managed-ledger":
        base, _, cursor = name.partition(_CURSOR)
        topic_znode = f"{MANAGED_LEDGERS}/{base}"
        cursors = (f"{topic_znode}/{encode_name(cursor)}",) if cursor else ()
        use = Use.CURSOR if cursor else Use.MESSAGES
        found = PulsarLedger(_of_managed_ledger(base), use, (topic_znode, *cursors))
    elif component == "schema":
        topic = _of_parts(name.split("/"), range(3, 4))
        found = PulsarLedger(topic, Use.SCHEMA, (f"{SCHEMAS}/{name}",))
    elif component == "compacted-ledger" and name.startswith(_PREFIX):
        found = PulsarLedger(name, Use.COMPACTED, _znodes_of(name, _COMPACTION))
    elif component == "delayed-index-bucket" and name.startswith(_PREFIX):
        found = PulsarLedger(name, Use.DELAYED, _znodes_of(name))
    else:
        return None
    return found if found.topic else None


def _znodes_of(topic: str, *cursors: str) -> tuple[str, ...]:
    """Return the znodes of a topic and of some of its cursors."""
    *namespace, local_name = topic.removeprefix(_PREFIX).split("/")
    path = "/".join((MANAGED_LEDGERS, *namespace, PERSISTENT, encode_name(local_name)))
    return (path, *(f"{path}/{cursor}" for cursor in cursors))


def _of_managed_ledger(name: str) -> str:
    """Return the topic of a managed ledger's name.

    Return "" if the name has another form, as for ledgers of other plugins.
    """
    parts = name.split("/")
    return (
        _of_parts([*parts[:-2], parts[-1]], range(3, 5)) if parts[-2:-1] == ["persistent"] else ""
    )


def _of_parts(parts: list[str], wanted: range) -> str:
    if len(parts) not in wanted or not all(parts):
        return ""
    return f"{_PREFIX}{'/'.join(parts[:-1])}/{unquote_plus(parts[-1])}"


def look_commands(topic: str) -> list[str]:
    """Return the command that shows the topic's metadata.

    It asks no broker. Each request of `pulsar-admin` on a topic, even one that reads, may make a
    broker load it.
    """
    return [f"auditor topic {quote_word(topic)}"]


def save_commands(znodes: Iterable[str]) -> list[str]:
    """Return the commands that print znodes in base64, because their bytes are not text.

    PULSAR_ZOOKEEPER stands for the address and chroot of Pulsar's metadata store.
    """
    return [f"zkCli.sh -server PULSAR_ZOOKEEPER get -b {quote_word(path)}" for path in znodes]


def znodes_of_use(topic: str, role: Role, name: str) -> list[str]:
    """Return the znodes that a broker may rewrite if it cannot read a ledger of this use.

    `name` is a subscription, or "".
    """
    try:
        parsed = parse_topic(topic)
    except ConfigError:  # a name that no znode can have: the copy of ZooKeeper's data has all
        return []
    if role is Role.SCHEMA:
        return [schema_path(parsed)]
    path = topic_path(parsed)
    return [path, f"{path}/{encode_name(name)}"] if name else [path]


def unload_commands(ledger: PulsarLedger) -> list[str]:
    """Return the command that makes a broker load the topic again, which closes an open ledger.

    It changes something. Return no command unless the ledger holds messages or a cursor.
    """
    if ledger.use not in (Use.MESSAGES, Use.CURSOR):
        return []
    return [f"pulsar-admin topics unload {quote_word(ledger.topic)}"]


TOPICS_MAX = 2
"""At most this many topics of a ledger get commands of their own."""


def missing_ledger_steps(finding: Finding) -> Steps:
    """Suggest to restore the metadata from a backup: nothing else brings such a ledger back."""
    look, save = _topic_steps(finding)
    back = shell(f"ledgermetadata -l {finding.ledger_id} -restorefromfile BACKUP_OF_ITS_METADATA")
    return Steps([_metadata(finding), *look], [back], [SAVE_ZOOKEEPER, *save])


def truncated_ledger_steps(finding: Finding) -> Steps:
    """Suggest no change: metadata with the right end must be made by hand."""
    look, save = _topic_steps(finding)
    save = [SAVE_ZOOKEEPER, dump_command(finding.ledger_id), *save]
    return Steps([_metadata(finding), shell("listbookies -a -h"), *look], [], save)


def dropped_ledger_steps(finding: Finding) -> Steps:
    """Suggest no change: a topic's list must be made whole by hand, from a backup."""
    facts = finding.facts
    assert isinstance(facts, DroppedLedgerFacts), finding
    topics = facts.some_topics[:TOPICS_MAX]
    paths = [path for topic in topics for path in znodes_of_use(topic, Role.DATA, "")]
    save = [SAVE_ZOOKEEPER, *save_commands(paths)]
    if facts.is_listed:
        save.insert(1, dump_command(finding.ledger_id))
    look = [command for topic in topics for command in look_commands(topic)]
    return Steps([_metadata(finding), *look], [], save)


def position_steps(finding: Finding) -> Steps:
    """Suggest no change: the bookies may still have the entries."""
    facts = finding.facts
    assert isinstance(facts, PositionBeyondFacts), finding
    topics = list(dict.fromkeys(one.topic for one in facts.some_positions))[:TOPICS_MAX]
    paths = [
        path
        for one in facts.some_positions
        if one.topic in topics
        for path in znodes_of_use(one.topic, Role.CURSOR, one.subscription)
    ]
    save = [SAVE_ZOOKEEPER, dump_command(finding.ledger_id)]
    save += save_commands(list(dict.fromkeys(paths))[: 2 * TOPICS_MAX])
    look = [command for topic in topics for command in look_commands(topic)]
    return Steps([_metadata(finding), *look], [], save)


def orphan_steps(finding: Finding) -> Steps:
    """Suggest no deletion: others may use the bookies too."""
    facts = finding.facts
    assert isinstance(facts, OrphanedFacts), finding
    return Steps(
        [shell(f"ledgermetadata -l {ledger}") for ledger in facts.some_ledgers[:LEDGERS_MAX]], []
    )


def _topic_steps(finding: Finding) -> tuple[Commands, Commands]:
    """Return commands that look at the topics of the finding, and those that save their znodes.

    The list of a shadow topic is in the znode of its source, which is saved before its own.
    """
    facts = finding.facts
    assert isinstance(facts, MissingLedgerFacts | NewestMissingFacts | TruncatedLedgerFacts), (
        finding
    )
    topics = list(dict.fromkeys(use.topic for use in facts.some_uses))[:TOPICS_MAX]
    paths = [
        path
        for use in facts.some_uses
        if use.topic in topics
        for topic in filter(None, (use.shadow_source, use.topic))
        for path in znodes_of_use(topic, use.role, use.name)
    ]
    look = [command for topic in topics for command in look_commands(topic)]
    return look, save_commands(list(dict.fromkeys(paths))[: 2 * TOPICS_MAX])


def _metadata(finding: Finding) -> str:
    return shell(f"ledgermetadata -l {finding.ledger_id}")

"""The topic of a ledger that Apache Pulsar owns, and the `pulsar-admin` commands for it.

Pulsar names a managed ledger `tenant/namespace/persistent/topic`, with the topic's local name
URL-encoded. In the old form the cluster follows the tenant (TopicName.getPersistenceNamingEncoding,
Codec). The name of a schema is `tenant/namespace/topic`, encoded likewise
(TopicName.getSchemaName). A compacted ledger has its topic's whole name (LedgerMetadataUtils).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import unquote_plus

from auditor.errors import ConfigError
from auditor.model.finding_record import Owner
from auditor.model.topic import Role
from auditor.wire.topic_paths import (
    MANAGED_LEDGERS,
    PERSISTENT,
    SCHEMAS,
    encode_name,
    parse_topic,
    schema_path,
    topic_path,
)
from auditor.witness.command_words import quote_word
from auditor.witness.owner import TEXT_CHARS_MAX

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

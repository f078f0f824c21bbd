"""The topic of a ledger that Apache Pulsar owns, and the `pulsar-admin` commands for it.

Pulsar names a managed ledger `tenant/namespace/persistent/topic`, with the topic's local name
URL-encoded. In the old form the cluster follows the tenant (TopicName.getPersistenceNamingEncoding,
Codec). The name of a schema is `tenant/namespace/topic`, encoded likewise
(TopicName.getSchemaName). A compacted ledger has its topic's whole name (LedgerMetadataUtils).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote_plus

from auditor.witness.command_words import quote_word

Owner: TypeAlias = Mapping[str, str | None]
"""`{application, component, name}` as `auditor.witness.owner.owner_of` gives it."""

_PREFIX = "persistent://"
_CURSOR = " cursor "
"""What separates a managed ledger and its cursor in an owner's name."""


class Use(StrEnum):
    """What Pulsar keeps in a ledger."""

    MESSAGES = "messages"
    CURSOR = "cursor"
    SCHEMA = "schema"
    COMPACTED = "compacted"


class PulsarLedger(NamedTuple):
    """The topic of a ledger, decoded, and what Pulsar uses the ledger for.

    A topic is written `persistent://tenant/namespace/topic`.
    """

    topic: str
    use: Use


def pulsar_ledger(owner: Owner | None) -> PulsarLedger | None:
    """Return the topic that an owner names, and what it uses the ledger for.

    Return None if there is no topic, or if its name must not stand on a command line.
    """
    name = None if owner is None or owner.get("application") != "pulsar" else owner.get("name")
    if owner is None or not name:
        return None
    component = owner.get("component")
    if component == "managed-ledger":
        base, _, cursor = name.partition(_CURSOR)
        found = PulsarLedger(_of_managed_ledger(base), Use.CURSOR if cursor else Use.MESSAGES)
    elif component == "schema":
        found = PulsarLedger(_of_parts(name.split("/"), range(3, 4)), Use.SCHEMA)
    elif component == "compacted-ledger":
        found = PulsarLedger(name if name.startswith(_PREFIX) else "", Use.COMPACTED)
    else:
        return None
    return found if found.topic and found.topic.isprintable() else None


def _of_managed_ledger(name: str) -> str:
    """Return the topic of a managed ledger's name.

    Return "" if the name has another form, as with ledgers of other plugins.
    """
    parts = name.split("/")
    return (
        _of_parts([*parts[:-2], parts[-1]], range(3, 5)) if parts[-2:-1] == ["persistent"] else ""
    )


def _of_parts(parts: list[str], wanted: range) -> str:
    if len(parts) not in wanted or not all(parts):
        return ""
    return f"{_PREFIX}{'/'.join(parts[:-1])}/{unquote_plus(parts[-1])}"


def look_commands(ledger: PulsarLedger) -> list[str]:
    """Return commands that show the topic's ledgers and cursors, or schemas, in the broker."""
    topic = quote_word(ledger.topic)
    stats = f"pulsar-admin topics stats-internal {topic}"
    if ledger.use is Use.SCHEMA:
        return [f"pulsar-admin schemas get --all-version {topic}"]
    if ledger.use is Use.COMPACTED:
        return [stats, f"pulsar-admin topics compaction-status {topic}"]
    return [stats]


def read_commands(ledger: PulsarLedger, ledger_id: int | None, entry_id: str) -> list[str]:
    """Return the command that makes the broker read one entry.

    Return no command unless the ledger holds messages.
    """
    if ledger.use is not Use.MESSAGES:
        return []
    return [
        f"pulsar-admin topics get-message-by-id -l {ledger_id} -e {entry_id}"
        f" {quote_word(ledger.topic)}"
    ]


def unload_commands(ledger: PulsarLedger) -> list[str]:
    """Return the command that makes a broker load the topic anew, which closes an open ledger.

    It changes something. Return no command unless the ledger holds messages or a cursor.
    """
    if ledger.use not in (Use.MESSAGES, Use.CURSOR):
        return []
    return [f"pulsar-admin topics unload {quote_word(ledger.topic)}"]

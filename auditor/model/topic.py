"""What Pulsar's metadata says of a topic: its ledgers, its subscriptions, its schemas."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from auditor.model.identity import EntryId, LedgerId

COMPACTION_CURSOR = "__compaction"
"""The subscription of the compactor: the only one whose compacted ledger brokers use."""


class Position(NamedTuple):
    """An entry of a topic. Positions of one topic have the order of its messages."""

    ledger_id: LedgerId
    entry_id: EntryId

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"


class TopicName(NamedTuple):
    """A persistent topic. `cluster` is empty except for topics named as before Pulsar 2.0."""

    tenant: str
    cluster: str
    namespace: str
    local_name: str

    def __str__(self) -> str:
        return "persistent://" + "/".join(part for part in self if part)


@dataclass(frozen=True, slots=True)
class DataLedger:
    """One ledger of a topic's messages.

    `entries` and `size_bytes` were recorded when the broker closed the ledger; None before.
    `offloaded`: a whole copy is in long-term storage. `bookkeeper_deleted`: only that copy is left.
    """

    ledger_id: LedgerId
    entries: int | None = None
    size_bytes: int | None = None
    closed_ms: int | None = None
    offloaded: bool = False
    bookkeeper_deleted: bool = False


@dataclass(frozen=True, slots=True)
class ManagedLedger:
    """The data ledgers of a topic, in the order of their ids.

    A shadow topic has those of its `shadow_source`, whose list a broker reads instead of its own.
    It has none if that source does not exist.
    """

    ledgers: tuple[DataLedger, ...] = ()
    terminated: Position | None = None
    shadow_source: TopicName | None = None
    is_source_missing: bool = False

    @property
    def ledgers_with_ends(self) -> tuple[DataLedger, ...]:
        """The ledgers, with the entries that the terminated position implies if none are recorded.

        A broker that terminates a topic closes the newest ledger, and records its end only in this
        position.
        """
        end = self.terminated
        if end is None:
            return self.ledgers
        return tuple(
            (
                replace(
                    ledger, entries=end.entry_id + 1 if ledger.ledger_id == end.ledger_id else 0
                )
                if ledger.entries is None and ledger.ledger_id >= end.ledger_id
                else ledger
            )
            for ledger in self.ledgers
        )


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position of a subscription as its znode has it.

    Everything up to `mark_delete` is acknowledged. `acknowledged` are ranges beyond it, the lower
    end exclusive. If there is a `ledger_id`, the newest position is in that ledger, and this one is
    what the broker falls back to without it. `compacted_ledger_id` holds the compacted topic: only
    COMPACTION_CURSOR has it. `delayed_ledger_ids`, ascending, record which messages are delivered
    later, and when.
    """

    ledger_id: LedgerId | None
    mark_delete: Position | None
    acknowledged: tuple[tuple[Position, Position], ...] = ()
    compacted_ledger_id: LedgerId | None = None
    delayed_ledger_ids: tuple[LedgerId, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """Where one version of a topic's schema is stored."""

    version: int
    position: Position


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription of a topic. If its znode could not be read, `cursor` is None and `problem`
    says why.
    """

    name: str
    cursor: Cursor | None
    problem: str = ""


class Unread(StrEnum):
    """Parts of a topic's metadata that an audit does not read although they can hold a ledger or
    position.
    """

    NEWEST_POSITION = "newest_position"
    """The newest position of a subscription, in the ledger of its cursor."""
    BATCH_ACKNOWLEDGEMENT = "batch_acknowledgement"
    """An entry of which a subscription has acknowledged only some of the messages."""
    SCHEMA_INDEX = "schema_index"
    """The positions of older versions, in the ledger of a schema."""
    OFFLOADED_COPY = "offloaded_copy"
    """The place of a ledger's copy in long-term storage."""
    PROPERTY = "property"
    """A property of a topic, a ledger or a subscription that no broker reads a ledger from."""
    UNKNOWN_FIELD = "unknown_field"
    """A field that no Pulsar up to 4.0 writes."""


UnreadCounts: TypeAlias = tuple[tuple[Unread, int], ...]
"""How many parts of each kind there are, in the order of Unread, without zeros."""


class TopicStatus(StrEnum):
    """How the znode of a topic could be read."""

    FOUND = "found"
    MISSING = "missing"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """All references of one topic, read at one time.

    `problems` says what could not be read. `managed_ledger` is set if the status is FOUND.
    """

    topic: TopicName
    read_at_ms: int
    status: TopicStatus
    managed_ledger: ManagedLedger | None = None
    subscriptions: tuple[Subscription, ...] = ()
    schemas: tuple[SchemaVersion, ...] = ()
    problems: tuple[str, ...] = ()
    unread: UnreadCounts = ()


class Role(StrEnum):
    """What a topic uses a ledger for."""

    DATA = "data"
    CURSOR = "cursor"
    SCHEMA = "schema"
    COMPACTED = "compacted"
    DELAYED = "delayed"


class Reference(NamedTuple):
    """A ledger that a topic needs.

    `name` is the subscription of a cursor, of compaction and of delayed delivery; empty for others.
    """

    ledger_id: LedgerId
    role: Role
    name: str = ""


def references(record: TopicRecord) -> tuple[Reference, ...]:
    """Return the ledgers that a topic references: data, those of subscriptions, schemas.

    Each use occurs once. Ledgers whose BookKeeper copy was deleted on purpose are left out.
    """
    found: dict[Reference, None] = {}
    for ledger in record.managed_ledger.ledgers if record.managed_ledger else ():
        if not ledger.bookkeeper_deleted:
            found[Reference(ledger.ledger_id, Role.DATA)] = None
    for subscription in record.subscriptions:
        cursor = subscription.cursor
        if cursor is not None and cursor.ledger_id is not None:
            found[Reference(cursor.ledger_id, Role.CURSOR, subscription.name)] = None
        if cursor is not None and cursor.compacted_ledger_id is not None:
            found[Reference(cursor.compacted_ledger_id, Role.COMPACTED, subscription.name)] = None
        for ledger_id in cursor.delayed_ledger_ids if cursor is not None else ():
            found[Reference(ledger_id, Role.DELAYED, subscription.name)] = None
    for schema in record.schemas:
        found[Reference(schema.position.ledger_id, Role.SCHEMA)] = None
    return tuple(found)


def schema_ledgers(record: TopicRecord) -> dict[LedgerId, DataLedger]:
    """Return the ledgers of a topic's schemas by id, each with the newest schema recorded in it."""
    found: dict[LedgerId, DataLedger] = {}
    for ledger_id, entry_id in sorted(schema.position for schema in record.schemas):
        found[ledger_id] = DataLedger(ledger_id, entry_id + 1)
    return found

"""Whether a topic can be read: each of its ledgers, and for each of its subscriptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from auditor.model.codec import Part
from auditor.model.finding import Ranges
from auditor.model.identity import LedgerId
from auditor.model.topic import (
    DataLedger,
    Position,
    Reference,
    Role,
    Subscription,
    TopicRecord,
    TopicStatus,
)


class Condition(StrEnum):
    """What is known of a ledger that a topic references. If several apply, the last one counts."""

    NOTHING_LOST = "nothing_lost"
    OPEN = "open"
    OFFLOADED = "offloaded"
    UNKNOWN = "unknown"
    UNRECOVERABLE = "unrecoverable"
    ENTRIES_UNAVAILABLE = "entries_unavailable"
    ENTRIES_LOST = "entries_lost"
    CLOSED_SHORT = "closed_short"
    TRUNCATED = "truncated"
    NEWEST_MISSING = "newest_missing"
    MISSING = "missing"


LOSSES = frozenset(
    {
        Condition.UNRECOVERABLE,
        Condition.ENTRIES_UNAVAILABLE,
        Condition.ENTRIES_LOST,
        Condition.CLOSED_SHORT,
        Condition.TRUNCATED,
        Condition.NEWEST_MISSING,
        Condition.MISSING,
    }
)
"""Conditions that stop a reader: entries cannot be read now, or never again."""


@dataclass(frozen=True, slots=True)
class LedgerCondition:
    """The condition of a ledger that a topic needs.

    `lost` are entries that cannot be read in BookKeeper, ascending; `lost_more`: there are more, of
    unknown ranges. `is_unknown`: yet others may be lost. `detail` says why something is unknown,
    and what is wrong with the BookKeeper copy of an offloaded ledger.
    """

    ledger_id: LedgerId
    condition: Condition
    lost: Ranges = ()
    lost_more: bool = False
    is_unknown: bool = False
    detail: str = ""


class Answer(StrEnum):
    """Whether a reader gets everything that it still needs."""

    READABLE = "readable"
    BLOCKED = "blocked"
    POSSIBLY_BLOCKED = "possibly_blocked"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one reader finds. `subscription` is None for a reader that starts with the first
    message.

    `position` is the last acknowledged one that ZooKeeper has; None for the beginning. If
    `is_newest` is False, the cursor's ledger has a newer one. `first_loss` is the first lost entry
    after it.
    """

    subscription: Subscription | None
    position: Position | None
    is_newest: bool
    answer: Answer
    first_loss: Position | None = None


@dataclass(frozen=True, slots=True)
class TopicReadability:
    """The results for one topic.

    `data` pairs what the topic recorded of a ledger with its condition; `others` are the ledgers of
    cursors, schemas, compaction and delayed delivery. `start` is a reader that starts with the
    first message; None if the topic could not be read. `blocker` says why no broker can load the
    topic, if that is known.
    """

    record: TopicRecord
    data: tuple[tuple[DataLedger, LedgerCondition], ...] = ()
    others: tuple[tuple[Reference, LedgerCondition], ...] = ()
    start: Reading | None = None
    readings: tuple[Reading, ...] = ()
    blocker: str = ""

    @property
    def conditions(self) -> tuple[LedgerCondition, ...]:
        """The conditions of all ledgers, data first."""
        return (*(one for _, one in self.data), *(one for _, one in self.others))


@dataclass(frozen=True, slots=True)
class TopicLedger(Part):
    """A ledger of a topic, as `auditor topic` reports it: its condition and what it is for.

    `standing` is None if its metadata is gone, or if it is only in long-term storage. The end of a
    range of `lost` is None where its length is not known. Only data ledgers have the fields from
    `entries` on (`DataLedger`).
    """

    ledger_id: LedgerId
    condition: Condition
    standing: str | None
    lost: tuple[tuple[int, int | None], ...]
    lost_more: bool
    is_unknown: bool
    detail: str
    role: Role
    name: str | None
    entries: int | None = None
    size_bytes: int | None = None
    closed_ms: int | None = None
    offloaded: bool = False
    bookkeeper_deleted: bool = False


@dataclass(frozen=True, slots=True)
class TopicSubscription:
    """A subscription of a topic, as `auditor topic` reports it (`Reading`)."""

    name: str
    position: tuple[int, int] | None
    is_newest_position: bool
    cursor_ledger_id: LedgerId | None
    answer: Answer
    first_loss: tuple[int, int] | None
    problem: str


@dataclass(frozen=True, slots=True)
class TopicSchema:
    """A schema of a topic, and where it is."""

    version: int
    position: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class TopicReport:
    """A topic as `auditor topic` reports it. `answer` is that of a reader that starts with the
    first message.
    """

    topic: str
    status: TopicStatus
    is_complete: bool
    answer: Answer
    first_loss: tuple[int, int] | None
    blocker: str
    shadow_source: str | None
    problems: tuple[str, ...]
    unread: Mapping[str, int]
    ledgers: tuple[TopicLedger, ...]
    subscriptions: tuple[TopicSubscription, ...]
    schemas: tuple[TopicSchema, ...]

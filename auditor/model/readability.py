"""Whether a topic can be read: each of its ledgers, and for each of its subscriptions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from auditor.model.finding import Ranges
from auditor.model.identity import LedgerId
from auditor.model.topic import DataLedger, Position, Reference, Subscription, TopicRecord


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

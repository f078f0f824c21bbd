"""Whether a topic can be read: of each of its ledgers, and for each of its subscriptions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from auditor.model.finding import Ranges
from auditor.model.identity import LedgerId
from auditor.model.topic import DataLedger, Position, Reference, Subscription, TopicRecord


class Condition(StrEnum):
    """What is known of a ledger that a topic references. In order: the later wins."""

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
"""Conditions in which a reader stops: entries cannot be read now, or never again."""


@dataclass(frozen=True, slots=True)
class LedgerCondition:
    """A ledger as a topic needs it.

    `lost` are entries that cannot be read in BookKeeper, ascending; `lost_more`: there are more, of
    which the ranges are not known. `is_unknown`: beside these, entries may be lost. `detail` says
    why something is unknown, and what is wrong with the BookKeeper copy of an offloaded ledger.
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
    """What one reader finds. `subscription` is None for a reader from the first message on.

    `position` is the last acknowledged one that ZooKeeper has; None for the beginning. With
    `is_newest` False a newer one is in the ledger of the cursor. `first_loss` is the first entry
    beyond it that is lost.
    """

    subscription: Subscription | None
    position: Position | None
    is_newest: bool
    answer: Answer
    first_loss: Position | None = None


@dataclass(frozen=True, slots=True)
class TopicReadability:
    """All answers about one topic.

    `data` pairs what the topic recorded of a ledger with its condition; `others` are the ledgers of
    cursors, schemas, compaction and delayed delivery. `start` is a reader from the first message
    on; None where the topic could not be read. `blocker` says why no broker can load the topic, as
    far as that is known.
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

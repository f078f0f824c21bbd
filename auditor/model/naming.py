"""The ledgers whose metadata names one bookie."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.model.cluster import BookieRecord
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerState


@dataclass(frozen=True, slots=True)
class NamingLedger:
    """A ledger whose metadata names the bookie, in `segments_naming` of its `segments`.

    `entries` is how many of its entries the bookie should hold; None if the ledger is not closed or
    its metadata contradicts itself. `is_marked` is None if the marks cannot be read.
    """

    ledger_id: LedgerId
    state: LedgerState
    segments: int
    segments_naming: int
    entries: int | None
    is_marked: bool | None

    @property
    def is_waited_for(self) -> bool:
        """Whether a decommission waits for this ledger: the bookie may hold entries of it."""
        return self.entries != 0


@dataclass(frozen=True, slots=True)
class Naming:
    """Which ledgers name one bookie. `bookie` is None if it has neither registration nor cookie.

    `listed` counts the ledger ids. `unread` counts those whose metadata could not be read or
    decoded: they may name the bookie too. `unread_shown` are a few of these, each with the reason.
    """

    bookie_id: BookieId
    bookie: BookieRecord | None
    marks_problem: str = ""
    listed: int = 0
    unread: int = 0
    unread_shown: tuple[tuple[LedgerId, str], ...] = ()
    ledgers: tuple[NamingLedger, ...] = ()

    def count(self, *states: LedgerState) -> int:
        """Return how many of the ledgers that name the bookie are in one of these states."""
        return sum(ledger.state in states for ledger in self.ledgers)

    @property
    def marked_count(self) -> int:
        """How many of the ledgers that name the bookie are known to be marked under-replicated."""
        return sum(ledger.is_marked is True for ledger in self.ledgers)

    @property
    def blocking_count(self) -> int:
        """How many of the ledgers that name the bookie block its decommission."""
        return sum(ledger.is_waited_for for ledger in self.ledgers)

    @property
    def is_complete(self) -> bool:
        """Whether everything is known: at least one ledger was listed, and all could be read."""
        return self.listed > 0 and self.unread == 0 and not self.marks_problem

    @property
    def is_unheard_of(self) -> bool:
        """Whether neither ZooKeeper nor a ledger names the bookie. Its id is probably misspelt."""
        return self.bookie is None and not self.ledgers

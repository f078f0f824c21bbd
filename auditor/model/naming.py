"""The ledgers whose metadata names one bookie."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.model.cluster import BookieRecord
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerState


@dataclass(frozen=True, slots=True)
class NamingLedger:
    """A ledger whose metadata names the bookie, in `segments_naming` of its `segments`.

    `entries` is how many entries the bookie should hold of it; None where that is not clear: the
    ledger is not closed, or its metadata contradicts itself. `is_marked` is None where the marks
    may not be read.
    """

    ledger_id: LedgerId
    state: LedgerState
    segments: int
    segments_naming: int
    entries: int | None
    is_marked: bool | None

    @property
    def is_waited_for(self) -> bool:
        """Whether the bookie may hold entries of it, for which a decommission waits."""
        return self.entries != 0


@dataclass(frozen=True, slots=True)
class Naming:
    """What the metadata of all ledgers says of one bookie. `bookie` is None where it has neither
    registration nor cookie.

    `listed` counts the ledger ids; `unread` those whose metadata could not be read or decoded: they
    may name the bookie too. `unread_shown` are a few of these, each with the reason.
    """

    bookie_id: BookieId
    bookie: BookieRecord | None
    marks_problem: str = ""
    listed: int = 0
    unread: int = 0
    unread_shown: tuple[tuple[LedgerId, str], ...] = ()
    ledgers: tuple[NamingLedger, ...] = ()

    def count(self, *states: LedgerState) -> int:
        """How many of the ledgers that name the bookie are in one of these states."""
        return sum(ledger.state in states for ledger in self.ledgers)

    @property
    def marked(self) -> int:
        """How many of the ledgers that name the bookie are known to be marked under-replicated."""
        return sum(ledger.is_marked is True for ledger in self.ledgers)

    @property
    def waited_for(self) -> int:
        """How many of the ledgers that name the bookie a decommission waits for."""
        return sum(ledger.is_waited_for for ledger in self.ledgers)

    @property
    def is_complete(self) -> bool:
        """Whether every fact that was asked for is known: some ledger was listed, and all could
        be read."""
        return self.listed > 0 and self.unread == 0 and not self.marks_problem

    @property
    def is_unheard_of(self) -> bool:
        """Whether nothing knows the bookie: most likely its id is misspelt."""
        return self.bookie is None and not self.ledgers

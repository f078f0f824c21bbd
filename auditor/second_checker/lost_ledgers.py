"""The ledgers that name an unregistered bookie: which are marked, and since when.

A ledger counts if the newest reading of its metadata found the same write as the last look that
needed the bookie.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerState, RecordStatus

LOWEST_MAX = 10
"""Unmarked ledgers whose ids are kept."""


class Need(NamedTuple):
    """A ledger that needed a bookie at one look."""

    ledger_id: LedgerId
    look: int
    bookie_id: BookieId


class State(NamedTuple):
    """A ledger as it was read at one look.

    `stamp` holds None if the ledger did not exist or could not be read.
    """

    ledger_id: LedgerId
    look: int
    status: str
    stamp: tuple[int | None, int | None]
    ledger_state: str | None
    last_entry_id: int | None
    is_marked: bool


@dataclass(slots=True)
class NamingLedgers:
    """The closed, non-empty ledgers that still name one bookie.

    `unmarked`: needed the bookie at two looks or more, and marked at none; `lowest` has the first
    ids. `marked_always`: marked at the first and at the last look. `marked_since`: marked at the
    last look, not at the first.
    """

    unmarked: int = 0
    lowest: list[LedgerId] = field(default_factory=list)
    marked_always: int = 0
    marked_since: int = 0

    def add(self, ledger: LedgerId, needed_at: set[int], history: list[State]) -> None:
        """Count one ledger. `history` has its states, oldest first."""
        now = history[-1]
        then = next((one for one in history if one.look == max(needed_at)), None)
        is_open = now.ledger_state in (LedgerState.OPEN.value, LedgerState.IN_RECOVERY.value)
        if now.status != RecordStatus.FOUND.value or is_open or now.last_entry_id == -1:
            return
        if then is None or then.stamp != now.stamp:
            return
        if now.is_marked:
            self.marked_always += history[0].is_marked
            self.marked_since += not history[0].is_marked
        elif len(needed_at) > 1 and not any(one.is_marked for one in history):
            self.unmarked += 1
            if len(self.lowest) < LOWEST_MAX:
                self.lowest.append(ledger)


def naming_ledgers(needs: Iterable[Need], states: Iterable[State]) -> dict[BookieId, NamingLedgers]:
    """Return the ledgers that name each bookie.

    `needs` and `states` are sorted by ledger, `states` also by look.
    """
    found: dict[BookieId, NamingLedgers] = {}
    histories = _Histories(groupby(states, lambda one: one.ledger_id))
    for ledger, of_it in groupby(needs, lambda one: one.ledger_id):
        looks: dict[BookieId, set[int]] = {}
        for one in of_it:
            looks.setdefault(one.bookie_id, set()).add(one.look)
        history = histories.of(ledger)
        for bookie in looks if history else ():
            found.setdefault(bookie, NamingLedgers()).add(ledger, looks[bookie], history)
    return found


@dataclass(slots=True)
class _Histories:
    """Reads the states of ledgers, which must be requested in ascending order."""

    rest: Iterator[tuple[LedgerId, Iterator[State]]]
    ledger: LedgerId = -1
    history: list[State] = field(default_factory=list)

    def of(self, ledger: LedgerId) -> list[State]:
        while self.ledger < ledger:
            following = next(self.rest, None)
            if following is None:
                return []
            self.ledger, self.history = following[0], list(following[1])
        return self.history if self.ledger == ledger else []

"""Answer whether bookies can be restarted or decommissioned now.

The copies are those of a stored run, brought up to date with ZooKeeper
(`auditor.after.copies_now`). Bookies that are not registered have lost their copies already. What a
mark names as missing is not sure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from auditor.after.copies_now import CopiesNow, Reading, with_marks, with_missing_bookies
from auditor.after.ledgers_in_use import HarmInUse, Loss, harm_in_use
from auditor.after.margin import Losses, Sort, losses_without, sort_of
from auditor.after.stored_copies import StoredCopies, no_flags
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerMetadata, Mark


class Purpose(StrEnum):
    """What the bookies are to be stopped for."""

    RESTART = "restart"
    DECOMMISSION = "decommission"


class Word(StrEnum):
    """The answer."""

    GO = "GO"
    NO_GO = "NO_GO"
    NOT_KNOWN = "NOT_KNOWN"


@dataclass(frozen=True, slots=True)
class StateNow:
    """What ZooKeeper says of the cluster now, except for its ledgers.

    problem: why not all marks are known, or "". `read_at` is RFC 3339, UTC.
    """

    read_at: str
    bookies: Mapping[BookieId, BookieRecord]
    marks: Mapping[LedgerId, Mark]
    is_replication_disabled: bool
    problem: str = ""

    def registered(self) -> frozenset[BookieId]:
        """Return the bookies that are registered, writable or read-only."""
        return frozenset(
            bookie
            for bookie, record in self.bookies.items()
            if record.registration is not Registration.NONE
        )

    def writable(self) -> frozenset[BookieId]:
        """Return the bookies that are registered as writable."""
        return frozenset(
            bookie
            for bookie, record in self.bookies.items()
            if record.registration is Registration.WRITABLE
        )


def missing_bookies(
    state: StateNow, copies: StoredCopies, in_use: Mapping[LedgerId, LedgerMetadata]
) -> frozenset[BookieId]:
    """Return the bookies that ledgers name or that have a cookie, and that are not registered."""
    named = {*copies.bookies, *state.bookies}
    for metadata in in_use.values():
        for segment in metadata.segments:
            named.update(segment.ensemble)
    return frozenset(named) - state.registered()


def loss_of(
    asked: frozenset[BookieId],
    purpose: Purpose,
    missing: frozenset[BookieId],
    writable: frozenset[BookieId],
) -> Loss:
    """Return the loss to judge. A restart cannot harm through a bookie that is down already."""
    if purpose is Purpose.RESTART:
        return Loss(asked - missing, missing, writable)
    return Loss(asked, missing - asked, writable)


@dataclass(frozen=True, slots=True)
class Harm:
    """What a loss would do to the ledgers of the cluster as they are now.

    losses: of closed ledgers; only the ledgers without a copy are complete, because others are not
    all read again. in_use: of the others. not_replicable: closed ledgers that could not
    be replicated to their full ensemble again, because too few writable bookies would be left; none
    for a restart.
    """

    losses: Losses
    in_use: HarmInUse
    not_replicable: Sort

    @property
    def is_sure(self) -> bool:
        """Whether some ledger would surely be harmed."""
        return bool(
            self.losses.no_copy.ledgers or self.in_use.is_sure or self.not_replicable.ledgers
        )

    @property
    def is_possible(self) -> bool:
        """Whether harm is not ruled out."""
        return self.in_use.is_possible or self.losses.may_have_no_copy.ledgers > 0


def available_copies(now: CopiesNow, state: StateNow, missing: frozenset[BookieId]) -> StoredCopies:
    """Return the copies of closed ledgers without those on missing bookies, marks doubted."""
    return with_missing_bookies(with_marks(now.copies, state.marks), missing)


def harm_of(
    copies: StoredCopies, in_use: Mapping[LedgerId, LedgerMetadata], loss: Loss, purpose: Purpose
) -> Harm:
    """Return the effect of the loss. `copies` has none on missing bookies."""
    is_final = purpose is Purpose.DECOMMISSION
    return Harm(
        losses_without(copies, loss.asked),
        harm_in_use(in_use, loss),
        _not_replicable(copies, loss) if is_final else Sort(0, ()),
    )


def _not_replicable(copies: StoredCopies, loss: Loss) -> Sort:
    """Return the ledgers that name an asked bookie, with too few bookies outside to replace all
    lost ones.
    """
    flags = no_flags(len(copies.ledger_ids))
    is_asked, is_down, is_left = (
        np.array([bookie in bookies for bookie in copies.bookies], bool)
        for bookies in (loss.asked, loss.down, loss.left)
    )
    for block in copies.segments:
        spare = len(loss.left) - is_left[block.ensembles].sum(axis=1)
        lacking = is_down[block.ensembles].sum(axis=1) > spare
        flags[block.ledgers[lacking & is_asked[block.ensembles].any(axis=1)]] = True
    return sort_of(copies, flags)


@dataclass(frozen=True, slots=True)
class NowAnswer:
    """The answer of `auditor margin --now --without`.

    named: the names that were given, which stand for `bookies`. down: those of `bookies` that are
    not registered. unseen: closed ledgers with a copy that no run has seen. unlocated: bookies
    without a known location, if a location was given.
    """

    named: tuple[str, ...]
    bookies: tuple[BookieId, ...]
    purpose: Purpose
    state: StateNow
    loss: Loss
    harm: Harm
    reading: Reading
    in_use: int
    unseen: int
    unlocated: int = 0

    @property
    def down(self) -> tuple[BookieId, ...]:
        """The named bookies that are not registered."""
        return tuple(sorted(set(self.bookies) - self.state.registered()))

    def word(self, is_basis_weak: bool) -> Word:
        """Return the answer.

        `is_basis_weak`: whether the run is too old, of named ledgers, or metadata is not readable.
        """
        if self.harm.is_sure:
            return Word.NO_GO
        is_open = is_basis_weak or self.harm.is_possible
        is_open |= bool(self.state.problem) or self.unlocated > 0
        return Word.NOT_KNOWN if is_open else Word.GO

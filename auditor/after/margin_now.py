"""Answer whether bookies can be restarted or decommissioned now.

The copies are those of a stored run, brought up to date with ZooKeeper
(`auditor.after.copies_now`). Bookies that are not registered have lost their copies already. What a
mark names as missing is not sure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from auditor.after.absorbing import Absorption, absorption_of
from auditor.after.copies_now import (
    CopiesNow,
    Doubts,
    Reading,
    with_marks,
    with_missing_bookies,
)
from auditor.after.ledgers_in_use import HarmInUse, Loss, harm_in_use
from auditor.after.margin import Losses, Sort, losses_without, sort_of
from auditor.after.repairing import MarksSince
from auditor.after.stored_copies import Flags, StoredCopies, no_flags
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
        return frozenset(bookie for bookie, record in self.bookies.items() if record.is_registered)

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


def largest_ensemble(now: CopiesNow) -> int:
    """Return how many bookies the largest ensemble has, 0 without ledgers."""
    closed = (block.ensembles.shape[1] for block in now.copies.segments)
    used = (
        len(metadata.segments[-1].ensemble) for metadata in now.in_use.values() if metadata.segments
    )
    return max((*closed, *used), default=0)


def count_unlocated(
    state: StateNow, now: CopiesNow, location_of: Callable[[BookieId], str | None]
) -> int:
    """Return how many bookies that are registered, or that ledgers name, have no known location."""
    named = {*now.copies.bookies, *state.registered()}
    for metadata in now.in_use.values():
        named.update(*(segment.ensemble for segment in metadata.segments))
    return sum(location_of(bookie) is None for bookie in named)


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

    absorption: whether the others have room for the copies; None for a restart.

    losses: of closed ledgers; only the ledgers without a copy are complete, because others are not
    all read again. in_use: of the others. not_replicable: closed ledgers that could not
    be replicated to their full ensemble again, because too few writable bookies would be left; none
    for a restart.
    """

    losses: Losses
    in_use: HarmInUse
    not_replicable: Sort
    absorption: Absorption | None = None

    @property
    def is_sure(self) -> bool:
        """Whether some ledger would surely be harmed."""
        return bool(
            self.losses.no_copy.ledgers
            or self.in_use.is_sure
            or self.not_replicable.ledgers
            or (self.absorption is not None and self.absorption.is_too_much)
        )

    @property
    def is_possible(self) -> bool:
        """Whether harm is not ruled out."""
        return (
            self.in_use.is_possible
            or self.losses.may_have_no_copy.ledgers > 0
            or (self.absorption is not None and self.absorption.is_open)
        )


def available_copies(now: CopiesNow, state: StateNow, missing: frozenset[BookieId]) -> StoredCopies:
    """Return the copies of closed ledgers without those on missing bookies, marks doubted."""
    return with_missing_bookies(with_marks(now.copies, state.marks), missing)


def harm_of(
    copies: StoredCopies,
    in_use: Mapping[LedgerId, LedgerMetadata],
    doubted: Doubts,
    disks: Mapping[BookieId, BookieRecord],
    locations: Mapping[BookieId, str],
    loss: Loss,
    purpose: Purpose,
) -> Harm:
    """Return the effect of the loss. `copies` has none on missing bookies.

    `doubted` has the copies of ledgers in use that are not sure, `disks` what the run recorded of
    the disks of bookies.
    """
    losses, used = losses_without(copies, loss.asked), harm_in_use(in_use, loss, doubted)
    if purpose is Purpose.RESTART:
        return Harm(losses, used, Sort(0, ()))
    lacking = lacking_replacements(copies, loss.asked, loss.down, loss.left)
    absorption = absorption_of(copies, disks, loss.asked, loss.left, locations)
    return Harm(losses, used, sort_of(copies, lacking), absorption)


def lacking_replacements(
    copies: StoredCopies,
    named: Set[BookieId],
    lost: Set[BookieId],
    writable: Set[BookieId],
) -> Flags:
    """Return the ledgers that name a bookie of `named`, with too few writable bookies outside of
    an ensemble to replace all lost ones.
    """
    flags = no_flags(copies.pattern_count)
    is_named, is_lost, is_writable = (
        np.array([bookie in bookies for bookie in copies.bookies], bool)
        for bookies in (named, lost, writable)
    )
    for block in copies.segments:
        spare = len(writable) - is_writable[block.ensembles].sum(axis=1)
        lacking = is_lost[block.ensembles].sum(axis=1) > spare
        flags[block.patterns[lacking & is_named[block.ensembles].any(axis=1)]] = True
    return flags[copies.patterns]


@dataclass(frozen=True, slots=True)
class Repair:
    """How far the repair of marked ledgers went since the run, and what blocks it.

    locked: ledgers at which a replication worker is. in_use: marked ledgers that are not closed.
    blocked: marked closed ledgers with fewer writable bookies outside of an ensemble than it has
    missing ones. oldest_ms: when the oldest mark was made, by ZooKeeper's clock.
    """

    since: MarksSince
    locked: int
    in_use: int
    blocked: Sort
    oldest_ms: int | None


def repair_now(since: MarksSince, now: CopiesNow, state: StateNow) -> Repair:
    """Return the progress since a run, with what the marks and ledgers of now say."""
    marks = state.marks
    missing = missing_bookies(state, now.copies, {})
    blocked = lacking_replacements(now.copies, missing, missing, state.writable())
    blocked &= np.isin(now.copies.ledger_ids, np.array(sorted(marks), np.int64))
    return Repair(
        since,
        sum(mark.lock is not None for mark in marks.values()),
        len(marks.keys() & now.in_use.keys()),
        sort_of(now.copies, blocked),
        min((mark.created_ms for mark in marks.values()), default=None),
    )


@dataclass(frozen=True, slots=True)
class NowAnswer:
    """The answer of `auditor margin --now`.

    named: the names that were given. bookies: what these stand for, and what --max added. If --max
    found none, `bookies` is empty, and `loss` and `harm` are of the bookie that would harm least.
    unseen: closed ledgers with a copy that no run has seen. new_cookies: bookies whose cookie is
    newer than the run. unlocated: bookies without a known location, if a location was given.
    largest_ensemble: bookies in the largest ensemble of a ledger, 0 without ledgers.
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
    repair: Repair
    together_max: int | None = None
    unlocated: int = 0
    new_cookies: tuple[BookieId, ...] = ()
    largest_ensemble: int = 0

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

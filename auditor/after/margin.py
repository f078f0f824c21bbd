"""Compute how many ledgers would lose their last copy, or their ack quorum, if bookies failed.

The basis is which copies a stored run confirms (`auditor.after.confirmed_copies`). A copy that is
not confirmed may or may not exist. Each answer therefore has a sure part and a possible part.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from auditor.after.stored_copies import Flags, Ints, Segments, StoredCopies, no_flags, zero_counts
from auditor.evidence.ids import distinct_numbers
from auditor.model.identity import BookieId

SHOWN_IDS_MAX = 20
"""At most this many ledger ids are named for each kind of loss; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Sort:
    """Ledgers that a failure would harm in one way: how many, and the first ids."""

    ledgers: int
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Losses:
    """What the failure of some bookies would do to entries of which they may hold a copy.

    no_copy: some entry would have no copy. may_have_no_copy: only unconfirmed copies would be left.
    below_ack and may_be_below_ack: the same with fewer copies than the ack quorum; ledgers that
    would have no copy count here too. A ledger that the run could not judge, or that lacks copies
    already, counts if it may lose another.
    """

    no_copy: Sort
    may_have_no_copy: Sort
    below_ack: Sort
    may_be_below_ack: Sort


@dataclass(frozen=True, slots=True)
class Exposure:
    """What the failure of each single bookie would do: numbers of ledgers, as in `Losses`.

    Bookies whose failure would harm no ledger are left out.
    """

    no_copy: dict[BookieId, int]
    may_have_no_copy: dict[BookieId, int]
    below_ack: dict[BookieId, int]
    may_be_below_ack: dict[BookieId, int]


@dataclass(frozen=True, slots=True)
class _Counts:
    """Distinct copies of the write set that begins at each position, as (n, E) arrays."""

    sure: Ints
    possible: Ints


def losses_without(copies: StoredCopies, down: Collection[BookieId]) -> Losses:
    """Return the effect if all of `down` failed at once. Time is linear in the segments."""
    is_down = no_flags(len(copies.bookies))
    is_down[[code for code, bookie in enumerate(copies.bookies) if bookie in down]] = True
    flags = no_flags((4, copies.pattern_count))
    for block in copies.segments:
        takes = block.is_used & _loses_a_copy(block, is_down)
        for number, hit in enumerate(_harms(block, _count_copies(block, is_down))):
            flags[number, block.patterns[(hit & takes).any(axis=1)]] = True
    no_copy, may_no_copy, below, may_below = flags
    return Losses(
        sort_of(copies, no_copy[copies.patterns]),
        sort_of(copies, (may_no_copy & ~no_copy)[copies.patterns]),
        sort_of(copies, below[copies.patterns]),
        sort_of(copies, (may_below & ~below)[copies.patterns]),
    )


def exposure_by_bookie(copies: StoredCopies) -> Exposure:
    """Return `losses_without` for each single bookie.

    Memory is linear in the segments, and so is time, but for a sort.
    """
    found: tuple[list[Ints], ...] = ([], [], [], [])
    for block in copies.segments:
        now = _count_copies(block, no_flags(len(copies.bookies)))
        for columns, is_first in block.write_sets():
            takes = is_first & ~block.absent[:, columns]
            after = _Counts(now.sure - (takes & ~block.doubtful[:, columns]), now.possible - takes)
            for keys, hit in zip(found, _harms(block, after), strict=True):
                rows, positions = np.nonzero(hit & takes & block.is_used)
                bookies = block.ensembles[rows, columns[positions]]
                keys.append(block.patterns[rows] * len(copies.bookies) + bookies)
    no_copy, may_no_copy, below, may_below = (
        _ledgers_by_bookie(copies, distinct_numbers(np.concatenate([zero_counts(0), *keys])))
        for keys in found
    )
    return Exposure(
        _count_by_name(copies, no_copy),
        _count_by_name(copies, may_no_copy - no_copy),
        _count_by_name(copies, below),
        _count_by_name(copies, may_below - below),
    )


def _harms(block: Segments, after: _Counts) -> tuple[Flags, Flags, Flags, Flags]:
    """Return, for each write set, the four kinds of harm, in the order of `Losses`."""
    ack = block.ack_quorums[:, None]
    return after.possible == 0, after.sure == 0, after.possible < ack, after.sure < ack


def copies_of_worst_entry(copies: StoredCopies) -> dict[int, int]:
    """Return how many ledgers there are by the number of sure copies of their worst entry."""
    ledgers = copies.count_ledgers()
    there = np.flatnonzero(ledgers)
    numbers = np.bincount(_fewest_of_patterns(copies)[there], ledgers[there])
    return {number: int(count) for number, count in enumerate(numbers.tolist()) if count}


def ledgers_in_order(copies: StoredCopies) -> Flags:
    """Return, for each ledger, whether every entry has a sure copy now."""
    return fewest_sure_copies(copies) > 0


def fewest_sure_copies(copies: StoredCopies) -> Ints:
    """Return, for each ledger, the number of sure copies of its worst entry."""
    return _fewest_of_patterns(copies)[copies.patterns]


def _fewest_of_patterns(copies: StoredCopies) -> Ints:
    fewest = np.full(copies.pattern_count, np.iinfo(np.int64).max)
    for block in copies.segments:
        sure = _count_copies(block, no_flags(len(copies.bookies))).sure
        np.minimum.at(
            fewest,
            block.patterns,
            np.where(block.is_used, sure, np.iinfo(np.int64).max).min(axis=1),
        )
    return fewest


def _count_copies(block: Segments, is_down: Flags) -> _Counts:
    """Count distinct live bookies of each write set: one that is named twice holds one copy."""
    sure = zero_counts(block.ensembles.shape)
    possible = zero_counts(block.ensembles.shape)
    for columns, is_first in block.write_sets():
        is_live = is_first & ~is_down[block.ensembles[:, columns]] & ~block.absent[:, columns]
        possible += is_live
        sure += is_live & ~block.doubtful[:, columns]
    return _Counts(sure, possible)


def _loses_a_copy(block: Segments, is_down: Flags) -> Flags:
    """Return, for each write set, whether a bookie that is down may hold a copy of it."""
    loses = np.zeros(block.ensembles.shape, bool)
    for columns, is_first in block.write_sets():
        loses |= is_first & is_down[block.ensembles[:, columns]] & ~block.absent[:, columns]
    return loses


def _ledgers_by_bookie(copies: StoredCopies, keys: Ints) -> Ints:
    """Count the ledgers of each code. A key is the pattern times the bookies, plus the code."""
    size = len(copies.bookies)
    ledgers = copies.count_ledgers()[keys // size]
    return np.bincount(keys % size, ledgers, minlength=size).astype(np.int64)


def _count_by_name(copies: StoredCopies, ledgers: Ints) -> dict[BookieId, int]:
    return {
        bookie: count
        for bookie, count in zip(copies.bookies, ledgers.tolist(), strict=True)
        if count
    }


def sort_of(copies: StoredCopies, hit: Flags) -> Sort:
    """Return the ledgers that a mask selects."""
    ids = copies.ledger_ids[hit]
    return Sort(len(ids), tuple(ids[:SHOWN_IDS_MAX].tolist()))

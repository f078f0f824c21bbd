"""How many ledgers would lose their last copy, or their ack quorum, if bookies failed.

Computed from what a stored run vouches for (`auditor.summary.stored_copies`). A copy that the run
does not vouch for may be there or not, so each answer has a sure part and a possible part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from auditor.model.identity import BookieId
from auditor.summary.stored_copies import Flags, Ints, Segments, StoredCopies

SHOWN_IDS_MAX = 20
"""Ledger ids named for each sort of loss; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Sort:
    """Ledgers that a failure would harm in one way: how many, and the first ids."""

    ledgers: int
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Losses:
    """What the failure of some bookies would do to ledgers that are in order now.

    no_copy: some entry would have no copy. may_have_no_copy: only copies that the run does not vouch
    for would be left. below_ack and may_be_below_ack likewise with fewer copies than the ack quorum;
    ledgers that would have no copy count there too.
    """

    no_copy: Sort
    may_have_no_copy: Sort
    below_ack: Sort
    may_be_below_ack: Sort


@dataclass(frozen=True, slots=True)
class Exposure:
    """How many ledgers each bookie alone holds up. Ledgers by bookie; bookies without any are left out."""

    last_copy: dict[BookieId, int]
    ack_quorum: dict[BookieId, int]


@dataclass(frozen=True, slots=True)
class _Counts:
    """Distinct copies of the write set that begins at each position, as (n, E) arrays."""

    sure: Ints
    possible: Ints


def losses_without(copies: StoredCopies, down: Collection[BookieId]) -> Losses:
    """Return what the failure of all of `down` at once would do. Time is linear in the segments."""
    is_down = np.isin(np.array(copies.bookies, dtype=object), list(down))
    flags = np.zeros((4, len(copies.ledger_ids)), bool)
    in_order, has_ack = ledgers_in_order(copies), _ledgers_with_ack_quorum(copies)
    for block in copies.segments:
        counts = _count_copies(block, is_down)
        ack = block.ack_quorums[:, None]
        for number, hit in enumerate((counts.possible == 0, counts.sure == 0, counts.possible < ack, counts.sure < ack)):
            flags[number, block.ledgers[(hit & block.used).any(axis=1)]] = True
    no_copy, may_no_copy, below, may_below = flags
    return Losses(
        _sort(copies, no_copy & in_order),
        _sort(copies, may_no_copy & ~no_copy & in_order),
        _sort(copies, below & has_ack),
        _sort(copies, may_below & ~below & has_ack),
    )


def exposure_by_bookie(copies: StoredCopies) -> Exposure:
    """Return how many ledgers would lose their last sure copy, or their ack quorum, with each bookie alone."""
    nobody = np.zeros(len(copies.bookies), bool)
    in_order, has_ack = ledgers_in_order(copies), _ledgers_with_ack_quorum(copies)
    last, ack = [], []
    for block in copies.segments:
        sure = _count_copies(block, nobody).sure
        last += list(_pairs(block, (sure == 1) & block.used & in_order[block.ledgers][:, None]))
        at_quorum = (sure == block.ack_quorums[:, None]) & block.used
        ack += list(_pairs(block, at_quorum & has_ack[block.ledgers][:, None]))
    return Exposure(_ledgers_by_bookie(copies, last), _ledgers_by_bookie(copies, ack))


def copies_of_worst_entry(copies: StoredCopies) -> dict[int, int]:
    """Return how many ledgers have so many sure copies of the entry that has the fewest."""
    fewest = _fewest_sure(copies)
    numbers, ledgers = np.unique(fewest, return_counts=True)
    return dict(zip(numbers.tolist(), ledgers.tolist(), strict=True))


def ledgers_in_order(copies: StoredCopies) -> Flags:
    """Return for each ledger whether every entry has a sure copy now. Others are not counted as losses."""
    return _fewest_sure(copies) > 0


def _fewest_sure(copies: StoredCopies) -> Ints:
    fewest = np.full(len(copies.ledger_ids), np.iinfo(np.int64).max)
    for block in copies.segments:
        sure = _count_copies(block, np.zeros(len(copies.bookies), bool)).sure
        np.minimum.at(fewest, block.ledgers, np.where(block.used, sure, np.iinfo(np.int64).max).min(axis=1))
    return np.where(fewest == np.iinfo(np.int64).max, 0, fewest)


def _ledgers_with_ack_quorum(copies: StoredCopies) -> Flags:
    has = np.ones(len(copies.ledger_ids), bool)
    for block in copies.segments:
        sure = _count_copies(block, np.zeros(len(copies.bookies), bool)).sure
        has[block.ledgers[((sure < block.ack_quorums[:, None]) & block.used).any(axis=1)]] = False
    return has & ledgers_in_order(copies)


def _count_copies(block: Segments, is_down: Flags) -> _Counts:
    """Count distinct live bookies of each write set: a bookie twice in one holds one copy."""
    size = block.ensembles.shape[1]
    sure = np.zeros(block.ensembles.shape, np.int64)
    possible = np.zeros(block.ensembles.shape, np.int64)
    for place in range(block.write_quorum):
        columns = (np.arange(size) + place) % size
        bookies = block.ensembles[:, columns]
        is_first = np.ones(bookies.shape, bool)
        for before in range(place):
            is_first &= bookies != block.ensembles[:, (np.arange(size) + before) % size]
        is_live = is_first & ~is_down[bookies]
        possible += is_live
        sure += is_live & ~block.doubtful[:, columns]
    return _Counts(sure, possible)


def _pairs(block: Segments, where: Flags) -> Iterator[npt.NDArray[np.int64]]:
    """Yield (ledger, bookie) rows: the sure bookies of the write sets that begin at these positions."""
    size = block.ensembles.shape[1]
    for place in range(block.write_quorum):
        columns = (np.arange(size) + place) % size
        rows, positions = np.nonzero(where & ~block.doubtful[:, columns])
        yield np.stack([block.ledgers[rows], block.ensembles[rows, columns[positions]]], axis=1)


def _ledgers_by_bookie(copies: StoredCopies, pairs: list[Ints]) -> dict[BookieId, int]:
    if not pairs:
        return {}
    both = np.concatenate(pairs)
    distinct = np.unique(both[:, 0] * len(copies.bookies) + both[:, 1])
    ledgers = np.bincount(distinct % len(copies.bookies), minlength=len(copies.bookies))
    return {bookie: int(count) for bookie, count in zip(copies.bookies, ledgers, strict=True) if count}


def _sort(copies: StoredCopies, hit: Flags) -> Sort:
    ids = copies.ledger_ids[hit]
    return Sort(len(ids), tuple(ids[:SHOWN_IDS_MAX].tolist()))

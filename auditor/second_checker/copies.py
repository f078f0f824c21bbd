"""The second checker's count: for every entry looked at, how many of its bookies hold it, lack it, or did not say."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from auditor.model.finding import RANGES_MAX, Ranges
from auditor.model.identity import BookieId, EntryId
from auditor.second_checker.blocks import Block
from auditor.second_checker.holdings import ABSENT, HELD, UNKNOWN, Marks, Testimony
from auditor.second_checker.schedule import Stretch

Counts: TypeAlias = NDArray[np.int32]
Mask: TypeAlias = NDArray[np.bool_]

RANGES_KEPT_MAX = RANGES_MAX + 1
"""Ranges kept of a ledger that is looked at whole. The first RANGES_MAX are compared: each has ended where one more begins."""


@dataclass(frozen=True, slots=True)
class Counted:
    """One block: for each of its entries the copies that are confirmed, those that can exist, and those of them that are on
    bookies that answered."""

    block: Block
    confirmed: Counts
    possible: Counts
    in_reach: Counts


@dataclass(frozen=True, slots=True)
class Entries:
    """Some entries: how many, and their maximal runs, ascending (of a whole ledger at least the first RANGES_MAX)."""

    ranges: Ranges = ()
    total: int = 0

    @classmethod
    def of(cls, entries: Iterable[EntryId]) -> Entries:
        single = sorted(set(entries))
        ranges: list[tuple[EntryId, EntryId]] = []
        _append(ranges, ((entry, entry) for entry in single))
        return cls(tuple(ranges), len(single))


@dataclass(frozen=True, slots=True)
class Worst:
    """The entry of which the fewest copies can exist, then the fewest are confirmed, then the lowest."""

    entry: EntryId
    possible: int
    confirmed: int
    stretch: Stretch


@dataclass(slots=True)
class Tally:
    """All blocks counted. `expected`: how many entries looked at were written to a bookie; `absent`: those it lacks."""

    counted: list[Counted] = field(default_factory=list)
    expected: dict[BookieId, int] = field(default_factory=dict)
    absent: dict[BookieId, Entries] = field(default_factory=dict)
    unknown_on: set[BookieId] = field(default_factory=set)
    held: dict[BookieId, int] = field(default_factory=dict)
    """How many of the entries written to a bookie it holds."""
    ranges_max: int | None = None
    """Ranges kept of any entries; None: all."""

    def with_at_most(self, copies: int) -> Entries:
        """The entries of which at most so many copies can exist."""
        return _entries(((one.block.low, one.possible <= copies) for one in self.counted), self.ranges_max)

    def can_exist(self, entry: EntryId) -> int | None:
        """How many copies of the entry can exist; None where it was not looked at."""
        one = self.counted_at(entry)
        return None if one is None else int(one.possible[entry - one.block.low])

    def counted_at(self, entry: EntryId) -> Counted | None:
        """The block with the entry; None where it was not looked at. One search: the blocks ascend."""
        at = bisect_left(self.counted, entry, key=lambda one: one.block.high)
        return self.counted[at] if at < len(self.counted) and self.counted[at].block.low <= entry else None

    def worst(self) -> Worst:
        """There must be an entry."""
        return min(_worst_of(self.counted), key=lambda one: (one.possible, one.confirmed, one.entry))


def tally(blocks: Sequence[Block], testimonies: Mapping[BookieId, Testimony], *, is_whole: bool) -> Tally:
    """Count every entry of the blocks on the bookies it was written to. Costs entries times write quorum."""
    found = Tally(ranges_max=RANGES_KEPT_MAX if is_whole else None)
    absent: dict[BookieId, list[tuple[EntryId, Mask]]] = {}
    for block in blocks:
        stretch, length = block.stretch, block.high - block.low + 1
        words = {bookie: testimonies[bookie].words(block.low, block.high) for bookie in stretch.bookies}
        mine = {bookie: np.zeros(length, np.bool_) for bookie in stretch.bookies}
        confirmed, possible, in_reach = (np.zeros(length, np.int32) for _ in range(3))
        for at, bookies in written(block):
            for bookie in bookies:
                said = words[bookie][at]
                mine[bookie][at] = True
                confirmed[at] += said == HELD
                possible[at] += said != ABSENT
                in_reach[at] += (said != ABSENT) & (not testimonies[bookie].is_away)
        found.counted.append(Counted(block, confirmed, possible, in_reach))
        for bookie, its_own in mine.items():
            _note(found, absent, block, bookie, words[bookie], its_own)
    found.absent = {bookie: _entries(masks, found.ranges_max) for bookie, masks in absent.items()}
    return found


def written(block: Block) -> Iterator[tuple[slice, tuple[BookieId, ...]]]:
    """Each place of the block's first round of the ensemble, with every entry that falls on it (none in a block too short
    for it), and their bookies."""
    size = len(block.stretch.ensemble)
    for place in range(size):
        yield slice(place, None, size), block.stretch.bookies_of(block.low + place)


def _note(
    found: Tally, absent: dict[BookieId, list[tuple[EntryId, Mask]]], block: Block, bookie: BookieId, said: Marks, mine: Mask
) -> None:
    found.expected[bookie] = found.expected.get(bookie, 0) + int(np.count_nonzero(mine))
    found.held[bookie] = found.held.get(bookie, 0) + int(np.count_nonzero(mine & (said == HELD)))
    lacks = mine & (said == ABSENT)
    if lacks.any():
        absent.setdefault(bookie, []).append((block.low, lacks))
    if (mine & (said == UNKNOWN)).any():
        found.unknown_on.add(bookie)


def _entries(masks: Iterable[tuple[EntryId, Mask]], ranges_max: int | None) -> Entries:
    """Count the entries of ascending blocks, and join their runs into ranges, across blocks too.

    From the block on that brings the ranges to `ranges_max`, entries are only counted. Fewer than twice as many are kept.
    """
    ranges: list[tuple[EntryId, EntryId]] = []
    total = 0
    for low, mask in masks:
        total += int(np.count_nonzero(mask))
        if ranges_max is None or len(ranges) < ranges_max:
            _append(ranges, _runs(low, mask, ranges_max))
    return Entries(tuple(ranges), total)


def _runs(low: EntryId, mask: Mask, runs_max: int | None) -> list[tuple[EntryId, EntryId]]:
    """The runs of a mask, the first so many."""
    changes = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    changes = changes if runs_max is None else changes[: 2 * runs_max]
    return [(low + int(first), low + int(stop) - 1) for first, stop in zip(changes[::2], changes[1::2], strict=True)]


def _append(ranges: list[tuple[EntryId, EntryId]], runs: Iterable[tuple[EntryId, EntryId]]) -> None:
    """Add ascending runs behind the ranges. A run that touches the last range makes it longer."""
    for first, last in runs:
        if ranges and ranges[-1][1] + 1 == first:
            ranges[-1] = (ranges[-1][0], last)
        else:
            ranges.append((first, last))


def _worst_of(counted: Iterable[Counted]) -> Iterator[Worst]:
    for one in counted:
        fewest = int(one.possible.min())
        confirmed = np.where(one.possible == fewest, one.confirmed, np.iinfo(np.int32).max)
        at = int(confirmed.argmin())
        yield Worst(one.block.low + at, fewest, int(confirmed[at]), one.block.stretch)

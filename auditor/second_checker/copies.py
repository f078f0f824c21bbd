"""Count, for each examined entry, how many of its bookies hold it, lack it, or did not say."""

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
"""Ranges kept of a ledger that is examined whole. The first RANGES_MAX are compared, and the extra
one shows that they have ended."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The copies of each entry of one block, as arrays.

    `confirmed`: copies that were listed, read or assumed. `possible`: copies that can exist.
    `in_reach`: possible copies on bookies that are not away.
    """

    block: Block
    confirmed: Counts
    possible: Counts
    in_reach: Counts


@dataclass(frozen=True, slots=True)
class Entries:
    """A set of entries: their number and their maximal runs, ascending.

    Of a ledger that is examined whole, at least the first RANGES_MAX runs are kept.
    """

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
    """One entry with its copies: a ledger's worst (`Tally.worst`), or one with a corrupt copy."""

    entry: EntryId
    possible: int
    confirmed: int
    stretch: Stretch


@dataclass(slots=True)
class Tally:
    """The counts of all blocks.

    By bookie, `expected` counts the examined entries written to it, and `absent` has those that it
    lacks. `unknown_on`: bookies for which some entry is unknown.
    """

    counted: list[Counted] = field(default_factory=list)
    expected: dict[BookieId, int] = field(default_factory=dict)
    absent: dict[BookieId, Entries] = field(default_factory=dict)
    unknown_on: set[BookieId] = field(default_factory=set)
    held: dict[BookieId, int] = field(default_factory=dict)
    """By bookie, how many of the entries written to it the bookie holds."""
    ranges_max: int | None = None
    """How many ranges are kept of any entries; None: all."""

    def with_at_most(self, copies: int) -> Entries:
        """Return the entries of which at most `copies` copies can exist."""
        return _entries(
            ((one.block.low, one.possible <= copies) for one in self.counted), self.ranges_max
        )

    def block_of(self, entry: EntryId) -> Counted | None:
        """Return the block with the entry, by binary search; None if the entry was not examined."""
        at = bisect_left(self.counted, entry, key=lambda one: one.block.high)
        return (
            self.counted[at]
            if at < len(self.counted) and self.counted[at].block.low <= entry
            else None
        )

    def worst(self) -> Worst:
        """Return the entry with the fewest possible copies; the tally must have an entry.

        Of several, return the one with the fewest confirmed copies, then the lowest.
        """
        return min(
            _worst_of(self.counted), key=lambda one: (one.possible, one.confirmed, one.entry)
        )


def tally(
    blocks: Sequence[Block], testimonies: Mapping[BookieId, Testimony], *, is_whole: bool
) -> Tally:
    """Count every entry of the blocks on the bookies it was written to. Costs entries times write
    quorum.
    """
    found = Tally(ranges_max=RANGES_KEPT_MAX if is_whole else None)
    absent: dict[BookieId, list[tuple[EntryId, Mask]]] = {}
    for block in blocks:
        stretch, length = block.stretch, block.high - block.low + 1
        words = {
            bookie: testimonies[bookie].words(block.low, block.high) for bookie in stretch.bookies
        }
        mine = {bookie: np.zeros(length, np.bool_) for bookie in stretch.bookies}
        confirmed, possible, in_reach = (np.zeros(length, np.int32) for _ in range(3))
        for at, bookies in write_sets(block):
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


def write_sets(block: Block) -> Iterator[tuple[slice, tuple[BookieId, ...]]]:
    """Yield (entries of the block with one write set, as a slice; the bookies of that write set).

    There is one pair for each ensemble position. In a block shorter than the ensemble, the slices
    of the last positions are empty.
    """
    size = len(block.stretch.ensemble)
    for place in range(size):
        yield slice(place, None, size), block.stretch.bookies_of(block.low + place)


def _note(
    found: Tally,
    absent: dict[BookieId, list[tuple[EntryId, Mask]]],
    block: Block,
    bookie: BookieId,
    said: Marks,
    mine: Mask,
) -> None:
    found.expected[bookie] = found.expected.get(bookie, 0) + int(np.count_nonzero(mine))
    found.held[bookie] = found.held.get(bookie, 0) + int(np.count_nonzero(mine & (said == HELD)))
    lacks = mine & (said == ABSENT)
    if lacks.any():
        absent.setdefault(bookie, []).append((block.low, lacks))
    if (mine & (said == UNKNOWN)).any():
        found.unknown_on.add(bookie)


def _entries(masks: Iterable[tuple[EntryId, Mask]], ranges_max: int | None) -> Entries:
    """Return the entries that the masks select; their runs are joined across blocks too.

    The masks ascend. Once `ranges_max` ranges are kept, further blocks are only counted, so fewer
    than twice `ranges_max` are kept.
    """
    ranges: list[tuple[EntryId, EntryId]] = []
    total = 0
    for low, mask in masks:
        total += int(np.count_nonzero(mask))
        if ranges_max is None or len(ranges) < ranges_max:
            _append(ranges, _runs(low, mask, ranges_max))
    return Entries(tuple(ranges), total)


def _runs(low: EntryId, mask: Mask, runs_max: int | None) -> list[tuple[EntryId, EntryId]]:
    """Return the runs of a mask, at most `runs_max` of them."""
    changes = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    changes = changes if runs_max is None else changes[: 2 * runs_max]
    return [
        (low + int(first), low + int(stop) - 1)
        for first, stop in zip(changes[::2], changes[1::2], strict=True)
    ]


def _append(ranges: list[tuple[EntryId, EntryId]], runs: Iterable[tuple[EntryId, EntryId]]) -> None:
    """Add ascending runs to the end of the ranges. A run that touches the last range extends it."""
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

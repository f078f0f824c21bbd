"""Count, for each examined entry, how many of its bookies hold it, lack it, or did not say."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from auditor.model.finding import RANGES_MAX, Ranges
from auditor.model.identity import BookieId, EntryId
from auditor.second_checker.blocks import Block
from auditor.second_checker.entry_bits import (
    BitCounts,
    Bits,
    bits_at,
    block_bits,
    count_repeated,
    lowest_of,
    repeat_bits,
    runs_of,
)
from auditor.second_checker.holdings import Testimony
from auditor.second_checker.schedule import Stretch

RANGES_KEPT_MAX = RANGES_MAX + 1
"""Ranges kept of a ledger that is examined whole. The first RANGES_MAX are compared, and the extra
one shows that they have ended."""


class Counted(NamedTuple):
    """The copies of each entry of one block.

    `confirmed`: copies that were listed, read or assumed. `possible`: copies that can exist.
    `in_reach`: possible copies on bookies that are not away. `servable`: possible copies that some
    look did not find out of service. By bookie, `written` has the entries
    written to it and `absent` those of them that it lacks.
    """

    block: Block
    confirmed: BitCounts
    possible: BitCounts
    in_reach: BitCounts
    servable: BitCounts
    written: Mapping[BookieId, Written]
    absent: Mapping[BookieId, Bits]


class Entries(NamedTuple):
    """A set of entries: their number and their maximal runs, ascending.

    Of a ledger that is examined whole, at least the first RANGES_MAX runs are kept.
    """

    ranges: Ranges = ()
    total: int = 0

    @classmethod
    def of(cls, entries: Iterable[EntryId]) -> Entries:
        single = sorted(set(entries))
        ranges: list[tuple[EntryId, EntryId]] = []
        for entry in single:
            _append(ranges, [(entry, entry)])
        return cls(tuple(ranges), len(single))


class Worst(NamedTuple):
    """One entry with its copies: a ledger's worst (`Tally.worst`), or one with a corrupt copy.

    The smaller one of two is the worse.
    """

    possible: int
    confirmed: int
    entry: EntryId
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
        few = [one.possible.at_most(copies) for one in self.counted]
        for bookie, lacks in self.absent.items():  # often just what one bookie lacks
            if few == [one.absent.get(bookie, 0) for one in self.counted]:
                return lacks
        lows = [one.block.low for one in self.counted]
        return _entries(zip(lows, few, strict=True), self.ranges_max)

    def unserved(self) -> Entries:
        """Return the entries of which no possible copy was served at any look."""
        sets = ((one.block.low, one.servable.at_most(0)) for one in self.counted)
        return _entries(sets, self.ranges_max)

    def worst_unserved(self) -> Worst:
        """Return that one of these entries with the fewest possible copies, then the lowest.

        There must be one.
        """
        found = []
        for one in self.counted:
            if entries := one.servable.at_most(0):
                fewest, entries = one.possible.lowest_among(entries)
                found.append(
                    Worst(fewest, 0, one.block.low + lowest_of(entries), one.block.stretch)
                )
        return min(found)

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
        return min(map(_worst_of, self.counted))


def tally(
    blocks: Sequence[Block], testimonies: Mapping[BookieId, Testimony], *, is_whole: bool
) -> Tally:
    """Count every entry of the blocks on the bookies it was written to.

    Costs a few operations on sets of entries for each bookie of an ensemble.
    """
    found = Tally(ranges_max=RANGES_KEPT_MAX if is_whole else None)
    absent: dict[BookieId, list[tuple[EntryId, Bits]]] = {}
    for block in blocks:
        counted = _count_block(found, block, testimonies)
        found.counted.append(counted)
        for bookie, lacks in counted.absent.items():
            absent.setdefault(bookie, []).append((block.low, lacks))
    found.absent = {bookie: _entries(sets, found.ranges_max) for bookie, sets in absent.items()}
    return found


def _count_block(found: Tally, block: Block, testimonies: Mapping[BookieId, Testimony]) -> Counted:
    """Count the entries of one block, and add what each bookie holds of them to `found`."""
    written = written_to(block)
    absent: dict[BookieId, Bits] = {}
    confirmed, possible, in_reach = list[Bits](), list[Bits](), list[Bits]()
    servable, some_unserved = list[Bits](), False
    some_unknown = some_away = False
    for bookie, mine in written.items():
        testimony = testimonies[bookie]
        held, unknown, lacks = testimony.holding(mine.bits, block.low, block.high)
        found.expected[bookie] = found.expected.get(bookie, 0) + mine.number
        its_number = mine.number if held is mine.bits else held.bit_count()
        found.held[bookie] = found.held.get(bookie, 0) + its_number
        if lacks:
            absent[bookie] = lacks
        if unknown:
            found.unknown_on.add(bookie)
            some_unknown = True
        can_be_there = held | unknown if unknown else held
        confirmed.append(held)
        possible.append(can_be_there)
        unserved = unknown if testimony.is_out else _failed_bits(testimony, block)
        servable.append(can_be_there ^ (can_be_there & unserved))
        some_unserved |= bool(can_be_there & unserved)
        if testimony.is_away:
            some_away = True
        else:
            in_reach.append(can_be_there)
    everything = block_bits(block.high - block.low + 1)
    sure = BitCounts.of(everything, confirmed)
    can_exist = BitCounts.of(everything, possible) if some_unknown else sure
    reachable = BitCounts.of(everything, in_reach) if some_away else can_exist
    served = BitCounts.of(everything, servable) if some_unserved else can_exist
    return Counted(block, sure, can_exist, reachable, served, written, absent)


def _failed_bits(testimony: Testimony, block: Block) -> Bits:
    """Return the entries of the block that the bookie failed to read."""
    failed = testimony.failed
    mine = failed[bisect_left(failed, block.low) : bisect_right(failed, block.high)]
    return bits_at([entry - block.low for entry in mine], block.high - block.low + 1)


class Written(NamedTuple):
    """The entries of a block that were written to one bookie, and their number."""

    bits: Bits
    number: int


def written_to(block: Block) -> dict[BookieId, Written]:
    """Return the entries of the block that were written to each bookie of the ensemble.

    One round of the ensemble is gone through entry by entry. The write sets then begin again.
    """
    stretch, length = block.stretch, block.high - block.low + 1
    size = len(stretch.ensemble)
    in_round = dict.fromkeys(stretch.ensemble, 0)
    for place in range(size):
        for bookie in stretch.bookies_of(block.low + place):
            in_round[bookie] |= 1 << place
    return {
        bookie: Written(repeat_bits(places, size, length), count_repeated(places, size, length))
        for bookie, places in in_round.items()
    }


def _entries(sets: Iterable[tuple[EntryId, Bits]], ranges_max: int | None) -> Entries:
    """Return the entries of sets that begin at these entries; runs are joined across blocks too.

    The sets ascend. Once `ranges_max` ranges are kept, further blocks are only counted, so fewer
    than twice `ranges_max` are kept.
    """
    ranges: list[tuple[EntryId, EntryId]] = []
    total = 0
    for low, bits in sets:
        total += bits.bit_count()
        if ranges_max is None or len(ranges) < ranges_max:
            runs = [(low + first, low + last) for first, last in runs_of(bits, ranges_max)]
            _append(ranges, runs)
    return Entries(tuple(ranges), total)


def _append(ranges: list[tuple[EntryId, EntryId]], runs: list[tuple[EntryId, EntryId]]) -> None:
    """Add ascending maximal runs to the end of the ranges; the first may extend the last range."""
    if ranges and runs and runs[0][0] == ranges[-1][1] + 1:
        ranges[-1] = ranges[-1][0], runs[0][1]
        runs = runs[1:]
    ranges += runs


def _worst_of(one: Counted) -> Worst:
    """Return the worst entry of a block."""
    fewest, entries = one.possible.lowest_among(one.possible.everything)
    confirmed = fewest
    if one.confirmed is not one.possible:
        confirmed, entries = one.confirmed.lowest_among(entries)
    return Worst(fewest, confirmed, one.block.low + lowest_of(entries), one.block.stretch)

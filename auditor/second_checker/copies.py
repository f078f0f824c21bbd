"""Count, for each examined entry, how many of its bookies hold it, lack it, or did not say.

On a bookie that cannot list, entries are read instead: the first and the last of each stretch,
those that a sweep reads by rank (decision 0037), and `probe_entries` more. The latter are drawn by
a hash of the run's seed, the ledger and the bookie (decision 0014). Both checkers use the same hash
and draw the same entries, but each derives the candidates on its own. In a ledger too long to be
examined whole, any `probe_entries` more will do.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from auditor.model.availability import AnswerStatus, EntryRead, ReadStatus
from auditor.model.evidence import Sweep, Terms
from auditor.model.finding import RANGES_MAX, Ranges
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerMetadata
from auditor.second_checker.blocks import (
    BitCounts,
    Bits,
    Block,
    Stretch,
    are_few_enough,
    bits_at,
    block_bits,
    blocks,
    count_repeated,
    first_of,
    last_of,
    lowest_of,
    positions_of,
    repeat_bits,
    runs_of,
    whole_blocks,
)
from auditor.second_checker.holdings import (
    NEVER_DENIED,
    Lists,
    Testimony,
    edges_of,
    failed_list_testimony,
    gone_testimony,
    list_testimony,
    reads_testimony,
    unheard_testimony,
    usable_lists,
)
from auditor.second_checker.looks import Statements

RANGES_KEPT_MAX = RANGES_MAX + 1
"""At most this many ranges are kept of a ledger that is examined whole.

The first RANGES_MAX are compared. The extra one shows that there are more."""


class BlockCount(NamedTuple):
    """The copies of each entry of one block.

    `confirmed`: copies that were listed, read or assumed. `possible`: copies that can exist.
    `in_reach`: possible copies on bookies that are not away. `servable`: possible copies, without
    those that no look could get. By bookie, `written` has the entries written to it, `absent` those
    of them that it lacks, and `lacking` their number where no entry is unknown.
    """

    block: Block
    confirmed: BitCounts
    possible: BitCounts
    in_reach: BitCounts
    servable: BitCounts
    written: Mapping[BookieId, Written]
    absent: Mapping[BookieId, Bits]
    lacking: Mapping[BookieId, int]


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
    """An entry with the numbers of its copies: a ledger's worst entry, or one with a corrupt copy.

    Worse entries sort first.
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

    block_counts: list[BlockCount] = field(default_factory=list)
    expected: dict[BookieId, int] = field(default_factory=dict)
    absent: dict[BookieId, Entries] = field(default_factory=dict)
    unknown_on: set[BookieId] = field(default_factory=set)
    held: dict[BookieId, int] = field(default_factory=dict)
    """By bookie, how many of the entries written to it the bookie holds."""
    ranges_max: int | None = None
    """At most this many ranges are kept of any set of entries; None: all."""

    def with_at_most(self, copies: int) -> Entries:
        """Return the entries of which at most `copies` copies can exist."""
        few = [counts.possible.at_most(copies) for counts in self.block_counts]
        for bookie, lacks in self.absent.items():  # often just what one bookie lacks
            if few == [counts.absent.get(bookie, 0) for counts in self.block_counts]:
                return lacks
        lows = [counts.block.low for counts in self.block_counts]
        return _entries(map(Portion.of, lows, few), self.ranges_max)

    def unserved(self) -> Entries:
        """Return the entries that have no servable copy."""
        none = (
            Portion.of(counts.block.low, counts.servable.at_most(0)) for counts in self.block_counts
        )
        return _entries(none, self.ranges_max)

    def has_unserved_copies(self) -> bool:
        """Return whether some possible copy is not servable."""
        return any(counts.servable is not counts.possible for counts in self.block_counts)

    def worst_unserved(self) -> Worst:
        """Return the entry without servable copies that has the fewest possible ones, then the
        lowest.

        There must be one.
        """
        found = []
        for counts in self.block_counts:
            if entries := counts.servable.at_most(0):
                fewest, entries = counts.possible.lowest_among(entries)
                found.append(
                    Worst(fewest, 0, counts.block.low + lowest_of(entries), counts.block.stretch)
                )
        return min(found)

    def block_of(self, entry: EntryId) -> BlockCount | None:
        """Return the block with the entry, by binary search. Return None if it was not examined."""
        at = bisect_left(self.block_counts, entry, key=lambda block: block.block.high)
        return (
            self.block_counts[at]
            if at < len(self.block_counts) and self.block_counts[at].block.low <= entry
            else None
        )

    def worst(self) -> Worst:
        """Return the entry with the fewest possible copies.

        Ties go to the fewest confirmed copies, then to the lowest entry. The tally must have an
        entry.
        """
        return min(map(_worst_of, self.block_counts))


def tally(
    blocks: Sequence[Block], testimonies: Mapping[BookieId, Testimony], *, is_whole: bool
) -> Tally:
    """Count every entry of the blocks on the bookies to which it was written.

    Costs a few operations on sets of entries for each bookie of an ensemble.
    """
    totals = Tally(ranges_max=RANGES_KEPT_MAX if is_whole else None)
    absent: dict[BookieId, list[Portion]] = {}
    for block in blocks:
        counted = _count_block(totals, block, testimonies)
        totals.block_counts.append(counted)
        for bookie, lacks in counted.absent.items():
            number = counted.lacking.get(bookie, 0) or lacks.bit_count()
            absent.setdefault(bookie, []).append(Portion(block.low, lacks, number))
    totals.absent = {bookie: _entries(sets, totals.ranges_max) for bookie, sets in absent.items()}
    return totals


def _count_block(
    totals: Tally, block: Block, testimonies: Mapping[BookieId, Testimony]
) -> BlockCount:
    """Count the entries of one block, and add what each bookie holds of them to `totals`."""
    written = written_to(block)
    absent, lacking = dict[BookieId, Bits](), dict[BookieId, int]()
    confirmed, possible, in_reach = list[Bits](), list[Bits](), list[Bits]()
    unserved_at: dict[int, Bits] = {}
    some_unknown = some_away = False
    for bookie, mine in written.items():
        testimony = testimonies[bookie]
        held, unknown, lacks = testimony.holding(mine.bits, block.low, block.high)
        totals.expected[bookie] = totals.expected.get(bookie, 0) + mine.number
        its_number = mine.number if held is mine.bits else held.bit_count()
        totals.held[bookie] = totals.held.get(bookie, 0) + its_number
        if lacks:
            absent[bookie] = lacks
            if not unknown:
                lacking[bookie] = mine.number - its_number
        if unknown:
            totals.unknown_on.add(bookie)
            some_unknown = True
        can_be_there = held | unknown if unknown else held
        confirmed.append(held)
        possible.append(can_be_there)
        if testimony.is_out or testimony.failed:
            unserved = unknown if testimony.is_out else _failed_bits(testimony.failed, block)
            unserved_at[len(possible) - 1] = can_be_there & unserved
        if testimony.is_away:
            some_away = True
        else:
            in_reach.append(can_be_there)
    everything = block_bits(block.high - block.low + 1)
    sure = BitCounts.of(everything, confirmed)
    can_exist = BitCounts.of(everything, possible) if some_unknown else sure
    reachable = BitCounts.of(everything, in_reach) if some_away else can_exist
    served = can_exist
    if any(unserved_at.values()):
        without = [sets ^ unserved_at.get(at, 0) for at, sets in enumerate(possible)]
        served = BitCounts.of(everything, without)
    return BlockCount(block, sure, can_exist, reachable, served, written, absent, lacking)


def _failed_bits(failed: tuple[EntryId, ...], block: Block) -> Bits:
    """Return those of the entries that are in the block."""
    if not failed:
        return 0
    mine = failed[bisect_left(failed, block.low) : bisect_right(failed, block.high)]
    return bits_at([entry - block.low for entry in mine], block.high - block.low + 1)


WRITTEN_KEPT_MAX = 16
"""Sets of written entries that are cached for the next bookies and ledgers: some 2 MB at most."""


class Written(NamedTuple):
    """The entries of a block that were written to one bookie, and their number."""

    bits: Bits
    number: int


def written_to(block: Block) -> dict[BookieId, Written]:
    """Return the entries of the block that were written to each bookie of the ensemble.

    Goes through E entries one by one. Later entries repeat their write sets.
    """
    stretch, length = block.stretch, block.high - block.low + 1
    size = len(stretch.ensemble)
    in_round, bit = dict.fromkeys(stretch.ensemble, 0), 1
    for entry in range(block.low, block.low + size):
        for bookie in stretch.bookies_of(entry):
            in_round[bookie] |= bit
        bit <<= 1
    return {bookie: _written(places, size, length) for bookie, places in in_round.items()}


@lru_cache(WRITTEN_KEPT_MAX)
def _written(places: Bits, size: int, length: int) -> Written:
    """Return what a bookie with these places in each round of `size` entries should hold."""
    return Written(repeat_bits(places, size, length), count_repeated(places, size, length))


class Portion(NamedTuple):
    """Some entries of a block: bit 0 of `bits` is entry `low`. `number`: how many they are."""

    low: EntryId
    bits: Bits
    number: int

    @classmethod
    def of(cls, low: EntryId, bits: Bits) -> Portion:
        return cls(low, bits, bits.bit_count())


def _entries(sets: Iterable[Portion], ranges_max: int | None) -> Entries:
    """Join the entries of several sets.

    The sets ascend. Ranges are joined across them. Once `ranges_max` ranges are kept, the entries
    of further sets are only counted, so fewer than twice `ranges_max` ranges are kept.
    """
    ranges: list[tuple[EntryId, EntryId]] = []
    total = 0
    for low, bits, number in sets:
        if not bits:
            continue
        total += number
        if ranges_max is None or len(ranges) < ranges_max:
            _append(ranges, runs_of(bits, ranges_max, low))
    return Entries(tuple(ranges), total)


def _append(ranges: list[tuple[EntryId, EntryId]], runs: list[tuple[EntryId, EntryId]]) -> None:
    """Add ascending maximal runs to the end of the ranges; the first may extend the last range."""
    if ranges and runs and runs[0][0] == ranges[-1][1] + 1:
        ranges[-1] = ranges[-1][0], runs[0][1]
        runs = runs[1:]
    ranges += runs


def _worst_of(counts: BlockCount) -> Worst:
    """Return the worst entry of a block."""
    fewest, entries = counts.possible.fewest
    confirmed = fewest
    if counts.confirmed is not counts.possible:
        confirmed, entries = counts.confirmed.lowest_among(entries)
    block = counts.block
    return Worst(fewest, confirmed, block.low + lowest_of(entries), block.stretch)


RANKED_MAX = 2**31
"""A bookie is read by rank only if it should hold at most this many entries of the ledger."""

ENDS_MAX = 128
"""At most this many ends of stretches are read on one bookie: the outer two, and some drawn ones.
"""


NO_ENTRIES: NDArray[np.int64] = np.empty(0, np.int64)


class Due(NamedTuple):
    """What must be read on one bookie: the ends of stretches, drawn entries, and those by rank.

    `drawn` is None if nobody knows which entries are drawn: then only their number is known.
    """

    ends: frozenset[EntryId]
    drawn: frozenset[EntryId] | None
    drawn_count: int
    ranked: frozenset[EntryId] = frozenset()

    def was_read(self, entries: Collection[EntryId]) -> bool:
        """Return whether `entries` contain everything that must be read."""
        read, surely = set(entries), self.ends | self.ranked
        if self.drawn is not None:
            return surely | self.drawn <= read
        return surely <= read and len(read - surely) >= self.drawn_count


def reads_due(
    ledger: LedgerId,
    bookie: BookieId,
    stretches: Sequence[Stretch],
    blocks: Sequence[Block],
    terms: Terms,
) -> Due:
    """Return what must be read on a bookie. `blocks` are the examined blocks of the stretches.

    Stretches of other bookies add cost, but do not change the result.
    """
    pairs = ((first_of(stretch, bookie), last_of(stretch, bookie)) for stretch in stretches)
    ends = sorted({entry for pair in pairs for entry in pair if entry is not None})
    key = f"{terms.probe_seed}/{ledger}/{bookie}"
    if len(ends) > ENDS_MAX:
        inner = ends[1:-1]
        ends = [
            ends[0],
            *(inner[at] for at in _draw(f"{key}/ends", len(inner), ENDS_MAX - 2)),
            ends[-1],
        ]
    ranked = frozenset(entries_by_rank(ledger, bookie, stretches, terms.sweep))
    surely = ranked | set(ends)
    whole = {
        block.low
        for block in blocks
        if block == Block(block.stretch, block.stretch.first, block.stretch.last)
    }
    if any(bookie in stretch.ensemble for stretch in stretches if stretch.first not in whole):
        others = sum(_Round.of(stretch, bookie).total for stretch in stretches) - len(surely)
        return Due(frozenset(ends), None, min(others, terms.probe_entries), ranked)
    every = np.concatenate([NO_ENTRIES, *(_entries_of(block, bookie) for block in blocks)])
    rest = np.setdiff1d(every, np.array(sorted(surely), np.int64), assume_unique=True)
    chosen = _draw(f"{key}/entries", len(rest), terms.probe_entries)
    drawn = frozenset(rest[sorted(chosen)].tolist())
    return Due(frozenset(ends), drawn, len(drawn), ranked)


def entries_by_rank(
    ledger: LedgerId, bookie: BookieId, stretches: Sequence[Stretch], sweep: Sweep
) -> Iterator[EntryId]:
    """Yield the entries of a bookie that a sweep reads; `stretches` ascend.

    The entries written to the bookie are numbered from 0. A sweep reads every `sweep.step`-th. It
    starts at a hash of the series, the ledger and the bookie, plus the turn with its bits mirrored.
    Costs the number of stretches and of entries returned, not the ledger's length.
    """
    rounds = [_Round.of(stretch, bookie) for stretch in stretches]
    numbered = sum(round_.total for round_ in rounds)
    if sweep.step == 0 or numbered > RANKED_MAX:
        return
    hashed = blake2b(f"{sweep.seed}/{ledger}/{bookie}/sweep".encode(), digest_size=8).hexdigest()
    binary = format(sweep.turn % sweep.step, "b").zfill(sweep.step.bit_length() - 1)
    mirrored = int(binary[::-1], 2)
    number, before = (int(hashed, 16) + mirrored) % sweep.step, 0
    for round_ in rounds:
        while number - before < round_.total:
            yield round_.entry(number - before)
            number += sweep.step
        before += round_.total


class _Round(NamedTuple):
    """Which entries of a stretch were written to one bookie.

    `first`: the stretch's first entry. `size`: the ensemble size, after which write sets repeat.
    `offsets`: which of the first `size` entries are written to the bookie. `total`: how many of the
    whole stretch are.
    """

    first: EntryId
    size: int
    offsets: tuple[int, ...]
    total: int

    @classmethod
    def of(cls, stretch: Stretch, bookie: BookieId) -> _Round:
        size = len(stretch.ensemble)
        offsets = tuple(
            at for at in range(size) if bookie in stretch.bookies_of(stretch.first + at)
        )
        rounds, rest = divmod(stretch.entry_count, size)
        return cls(
            stretch.first, size, offsets, rounds * len(offsets) + sum(at < rest for at in offsets)
        )

    def entry(self, number: int) -> EntryId:
        """Return the entry written to the bookie that has `number` lower ones in the stretch."""
        rounds, at = divmod(number, len(self.offsets))
        return self.first + rounds * self.size + self.offsets[at]


def _entries_of(block: Block, bookie: BookieId) -> NDArray[np.int64]:
    """Return the entries of the block written to the bookie, ascending."""
    mine = written_to(block).get(bookie)
    return NO_ENTRIES if mine is None else block.low + positions_of(mine.bits)


def _draw(key: str, population: int, count: int) -> set[int]:
    """Return `count` distinct numbers below `population`, by Floyd's sampling algorithm.

    For each n of the highest `count` numbers, a hash draws a number up to n. If that was drawn
    before, n itself is taken.
    """
    taken: set[int] = set()
    for highest in range(max(0, population - count), population):
        hashed = blake2b(f"{key}/{highest}".encode(), digest_size=16).hexdigest()
        drawn = int(hashed, 16) % (highest + 1)
        taken.add(highest if drawn in taken else drawn)
    return taken


Reads = Mapping[EntryId, EntryRead]
NO_READS: Reads = MappingProxyType({})
T = TypeVar("T")


@dataclass(slots=True)
class LedgerCount:
    """The counts of a ledger, and what its bookies said.

    `blocks`: the examined entries; `is_whole`: these are all entries. `dues`: what must be read on
    each bookie that cannot list. `corrupt`: each entry with a corrupt copy on a bookie of its write
    set.
    """

    tally: Tally
    blocks: tuple[Block, ...]
    is_whole: bool
    testimonies: Mapping[BookieId, Testimony]
    dues: Mapping[BookieId, Due]
    corrupt: Mapping[EntryId, Worst] = field(default_factory=dict)
    lists: Lists = field(default_factory=dict)
    """The lists of all bookies, also of those that the metadata does not name."""

    @property
    def probes(self) -> tuple[int, int | None] | None:
        """How many reads bookies that cannot list answered, and how many of those were drawn.

        None if no bookie was probed. The second number is None if it is not known.
        """
        if not self.dues:
            return None
        answered = sum(len(self.testimonies[bookie].answered) for bookie in self.dues)
        drawn = 0
        for bookie, due in self.dues.items():
            if due.drawn is None:
                return answered, None
            drawn += len(due.drawn & self.testimonies[bookie].answered)
        return answered, drawn


def count_entries(
    statements: Statements,
    metadata: LedgerMetadata,
    parts: tuple[Stretch, ...],
    terms: Terms,
    claimed: Iterable[EntryId],
) -> LedgerCount:
    """Count what every bookie said of every examined entry.

    `claimed`: entries that are examined even if the ledger is too long to be examined whole.
    """
    if is_whole := are_few_enough(parts):
        chosen = whole_blocks(parts)
    else:
        edges = {bookie: edges_of(answer) for bookie, answer in statements.answers.items()}
        certain = chain(claimed, (entry for _, entry in statements.reads))
        chosen, _ = blocks(statements.record.ledger_id, parts, edges, certain, terms)
    testimonies, dues = dict[BookieId, Testimony](), dict[BookieId, Due]()
    parts_of = _by_bookie([(part, part) for part in parts])
    probed = _probed_bookies(statements, parts_of, terms)
    blocks_of = _by_bookie((block.stretch, block) for block in chosen) if probed else {}
    lists, reads_of = (
        usable_lists(statements.answers, metadata.ensemble_size),
        _reads_by_bookie(statements),
    )
    for bookie, its_parts in parts_of.items():
        reads = reads_of.get(bookie, NO_READS)
        if reads:
            reads = {e: read for e, read in reads.items() if is_written(its_parts, bookie, e)}
        if bookie in probed:
            due = reads_due(
                statements.record.ledger_id, bookie, its_parts, blocks_of[bookie], terms
            )
            dues[bookie] = due
            testimonies[bookie] = reads_testimony(reads, all_due_were_made=due.was_read(reads))
        else:
            testimonies[bookie] = _testimony(statements, bookie, lists, its_parts, reads)
        testimonies[bookie].is_out = bookie in statements.out
        if statements.failed:
            testimonies[bookie].failed = tuple(
                sorted(e for where, e in statements.failed if where == bookie and e in reads)
            )
    counted = tally(chosen, testimonies, is_whole=is_whole)
    return LedgerCount(
        counted, chosen, is_whole, testimonies, dues, _corrupt_entries(statements, counted), lists
    )


def _probed_bookies(
    statements: Statements, parts_of: Mapping[BookieId, Sequence[Stretch]], terms: Terms
) -> set[BookieId]:
    """Return the bookies that cannot list, so that their entries are read instead."""
    if terms.probe_entries <= 0:
        return set()
    answers = statements.answers
    unable = [b for b, said in answers.items() if said.status is AnswerStatus.UNSUPPORTED]
    return {b for b in unable if b in parts_of and _highest_of(parts_of[b], b) >= 0}


def _testimony(
    statements: Statements,
    bookie: BookieId,
    lists: Lists,
    parts: Sequence[Stretch],
    reads: Reads,
) -> Testimony:
    """Return the testimony of a bookie that is not probed."""
    answer = statements.answers.get(bookie)
    if answer is None:
        return unheard_testimony(None)
    has_ledger = answer.status is AnswerStatus.HELD
    if has_ledger or answer.status is AnswerStatus.NO_SUCH_LEDGER:
        was_sent = ReadStatus.PRESENT in [read.status for read in reads.values()]
        highest = _highest_of(parts, bookie) if was_sent else -1
        denied = NEVER_DENIED
        if statements.denied:
            times = {entry: statements.denied.get((bookie, entry), 0) for entry in reads}
            denied = {entry: number for entry, number in times.items() if number}
        return list_testimony(lists.get(bookie), has_ledger, highest, reads, denied)
    if answer.is_gone:
        return gone_testimony()
    if answer.status is AnswerStatus.FAILED:
        return failed_list_testimony(reads)
    return unheard_testimony(answer)


def _highest_of(parts: Sequence[Stretch], bookie: BookieId) -> EntryId:
    """Return the highest entry written to the bookie, -1 if there is none."""
    for part in reversed(parts):  # they ascend
        highest = last_of(part, bookie)
        if highest is not None:
            return highest
    return -1


def _reads_by_bookie(statements: Statements) -> dict[BookieId, dict[EntryId, EntryRead]]:
    found: dict[BookieId, dict[EntryId, EntryRead]] = {}
    for (reader, entry), read in statements.reads.items():
        found.setdefault(reader, {})[entry] = read
    return found


def _corrupt_entries(statements: Statements, counted: Tally) -> dict[EntryId, Worst]:
    """Return each entry with a corrupt copy on a bookie of its write set, and its copies."""
    found = {}
    for bookie, entry in statements.corrupt:
        among = counted.block_of(entry)
        if among is not None and bookie in among.block.stretch.bookies_of(entry):
            at = entry - among.block.low
            found[entry] = Worst(
                among.possible.at(at), among.confirmed.at(at), entry, among.block.stretch
            )
    return found


def _by_bookie(placed: Iterable[tuple[Stretch, T]]) -> dict[BookieId, list[T]]:
    """Group values that belong to stretches by the bookies of their ensembles.

    This saves each bookie a walk through the stretches of all others.
    """
    found: dict[BookieId, list[T]] = {}
    for stretch, value in placed:
        for bookie in stretch.bookies:
            found.setdefault(bookie, []).append(value)
    return found


def is_written(parts: Sequence[Stretch], bookie: BookieId, entry: EntryId) -> bool:
    """Return whether the entry was written to the bookie; `parts` ascend."""
    at = bisect_left(parts, entry, key=_last_of) if len(parts) > 1 else 0
    if at == len(parts):
        return False
    part = parts[at]
    return part.first <= entry <= part.last and bookie in part.bookies_of(entry)


_last_of = attrgetter("last")

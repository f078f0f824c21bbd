"""Where entries belong, and which of them the second checker examines one by one.

Entry e was written to W ensemble positions: e mod E, (e + 1) mod E, and so on, counted with the
absolute entry id (BookKeeper's RoundRobinDistributionSchedule). This derivation starts from the
entry. `auditor.first_checker` starts from the position, and no code is shared.

A ledger of up to ENUMERATED_ENTRIES_MAX entries is examined whole. In a longer ledger, each stretch
in turn is examined whole if it still fits into that number. In a stretch that does not fit, the
following entries are examined, each with E entries on both sides:

- its first and its last entry, and every entry that was read;
- the ends of every range that the first checker claims, and its worst entry;
- some entries drawn by the run's seed;
- the ends of the groups that its bookies listed, at most POINTS_MAX.

The entries between them are not examined, and totals of such a ledger are not compared.

A set of entries of a block is an integer: bit n stands for the block's n-th entry. `&`, `|` and `^`
of two integers go through all entries of a block, some thirty at a time: 50,000 entries take a
microsecond. Counting them (`bit_count`) or shifting them takes ten.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from itertools import accumulate, islice
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from auditor.model.evidence import Terms
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerMetadata, LedgerState

ENSEMBLES_KEPT_MAX = 1_024
"""Ensembles whose write sets are cached for other entries: some hundred bytes each."""
KEPT_PLACES_MAX = 1_000
"""Write sets of larger ensembles are not cached; the size is E times W. 1,000 places take 8 KB.

Metadata may name so many bookies that the write sets of one ensemble would fill a task's memory."""


@lru_cache(ENSEMBLES_KEPT_MAX)
def _write_sets(
    ensemble: tuple[BookieId, ...], write_quorum: int
) -> tuple[tuple[BookieId, ...], ...]:
    """Return the distinct bookies of each write set, for entries 0 to E - 1, in write order."""
    return tuple(_write_set(ensemble, write_quorum, entry) for entry in range(len(ensemble)))


def _write_set(
    ensemble: tuple[BookieId, ...], write_quorum: int, entry: EntryId
) -> tuple[BookieId, ...]:
    size = len(ensemble)
    return tuple(dict.fromkeys(ensemble[(entry + copy) % size] for copy in range(write_quorum)))


class Stretch(NamedTuple):
    """Entries `first` to `last` (inclusive, at least one) of one ensemble and write quorum."""

    first: EntryId
    last: EntryId
    ensemble: tuple[BookieId, ...]
    write_quorum: int

    def bookies_of(self, entry: EntryId) -> tuple[BookieId, ...]:
        """Return the distinct bookies to which the entry was written, in write order."""
        _, _, ensemble, write_quorum = self
        size = len(ensemble)
        if size * write_quorum > KEPT_PLACES_MAX:
            return _write_set(ensemble, write_quorum, entry)
        return _write_sets(ensemble, write_quorum)[entry % size]

    @property
    def entry_count(self) -> int:
        """The number of entries."""
        return self.last - self.first + 1

    @property
    def bookies(self) -> tuple[BookieId, ...]:
        """The distinct bookies of the ensemble."""
        return tuple(dict.fromkeys(self.ensemble))


def stretches(metadata: LedgerMetadata) -> tuple[Stretch, ...]:
    """Return the parts of a ledger where it is clear which bookies hold which entries, ascending.

    Only a closed ledger with 1 <= W <= E has such parts. A segment is one if it has entries, names
    E bookies, starts at 0 or above, and its firstEntryId is in order and unique. Without a
    lastEntryId the last segment is left out: its end is unknown.
    """
    size, write, segments = metadata.ensemble_size, metadata.write_quorum, metadata.segments
    if metadata.state is not LedgerState.CLOSED or write < 1 or size < write:
        return ()
    firsts = [segment.first_entry_id for segment in segments]
    lowest_yet_above = list(accumulate(reversed(firsts), min))[::-1]
    highest_yet_below = [*accumulate(firsts, max, initial=-1)]
    found: list[Stretch] = []
    for place, segment in enumerate(segments):
        first, is_last = segment.first_entry_id, place == len(segments) - 1
        ends = [] if metadata.last_entry_id is None else [metadata.last_entry_id]
        if not is_last:
            ends.append(lowest_yet_above[place + 1] - 1)
        is_above = highest_yet_below[place] < first
        if ends and is_above and first <= min(ends) and len(segment.ensemble) == size:
            found.append(Stretch(first, min(ends), segment.ensemble, write))
    return tuple(found)


def copies_due(metadata: LedgerMetadata, parts: tuple[Stretch, ...]) -> int:
    """Return how many copies the writer promised: W of every entry up to lastEntryId.

    Unclear segments and bookies named twice are included. Without lastEntryId, only the entries in
    `parts` count.
    """
    size, write, last = metadata.ensemble_size, metadata.write_quorum, metadata.last_entry_id
    if metadata.state is not LedgerState.CLOSED or write < 1 or size < write:
        return 0
    return write * (sum(part.entry_count for part in parts) if last is None else max(-1, last) + 1)


def entries_from_below(stretch: Stretch) -> range:
    """Return the first E entries of the stretch, or all if there are fewer. Later write sets
    repeat.
    """
    return range(stretch.first, stretch.last + 1)[: len(stretch.ensemble)]


def first_of(stretch: Stretch, bookie: BookieId) -> EntryId | None:
    """Return the lowest entry of the stretch written to the bookie; None if there is none."""
    return next(
        (entry for entry in entries_from_below(stretch) if bookie in stretch.bookies_of(entry)),
        None,
    )


def last_of(stretch: Stretch, bookie: BookieId) -> EntryId | None:
    """Return the highest entry of the stretch written to the bookie; None if there is none."""
    return next(
        (entry for entry in _from_above(stretch) if bookie in stretch.bookies_of(entry)), None
    )


def _from_above(stretch: Stretch) -> Iterator[EntryId]:
    return iter(range(stretch.last, stretch.first - 1, -1)[: len(stretch.ensemble)])


Bits: TypeAlias = int
Marks: TypeAlias = NDArray[np.bool_]
"""A set as an array, one byte an entry. Used for sets that are built in pieces."""

PATTERNS_KEPT_MAX = 32
"""Repeated patterns that are cached for the next ledgers: at most some 8 MB."""
BLOCKS_KEPT_MAX = 8
"""Lengths whose set of all entries is cached: the bookies of a ledger share its blocks."""
FEW = 16
"""At most this many pieces of a set are combined by shifting. More are written into an array."""
WINDOW = 128
"""Bits of the first window in which runs are looked for: a stripe has there the runs that a finding
shows. Each further window is twice as long."""
WINDOW_MAX = 65_536
"""Bits of the longest window, which becomes a text of as many characters."""

_RUN = re.compile("1+")
_FIRST = (1 << WINDOW) - 1


def all_bits(length: int) -> Bits:
    """Return the set of all entries of a block with `length` entries."""
    return (1 << length) - 1


block_bits = lru_cache(BLOCKS_KEPT_MAX)(all_bits)
"""The same, cached for the next bookie."""


def repeat_bits(pattern: Bits, period: int, length: int) -> Bits:
    """Repeat a pattern every `period` entries, and return the first `length` bits."""
    return _tiles(pattern, period, length.bit_length()) & block_bits(length)


def count_repeated(pattern: Bits, period: int, length: int) -> int:
    """Return how many entries `repeat_bits` would return."""
    rounds, rest = divmod(length, period)
    return rounds * pattern.bit_count() + (pattern & all_bits(rest)).bit_count()


@lru_cache(PATTERNS_KEPT_MAX)
def _tiles(pattern: Bits, period: int, doublings: int) -> Bits:
    """Return a pattern, repeated over 2 ** `doublings` entries or more."""
    found, filled = pattern, period
    while filled < 1 << doublings:
        found |= found << filled
        filled *= 2
    return found


def bits_at(positions: Sequence[int], length: int) -> Bits:
    """Return the set of entries at these positions, which are below `length`."""
    if not positions:
        return 0
    packed = bytearray(length // 8 + 1)
    for position in positions:
        packed[position >> 3] |= 1 << (position & 7)
    return int.from_bytes(packed, "little")


def pack_marks(marks: Marks) -> Bits:
    """Return the set of the entries that are marked."""
    return int.from_bytes(np.packbits(marks, bitorder="little").tobytes(), "little")


def positions_of(bits: Bits) -> NDArray[np.intp]:
    """Return the positions of a set's entries, ascending. Costs some bytes for each entry."""
    packed = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
    return np.flatnonzero(np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little"))


def lowest_of(bits: Bits) -> int:
    """Return the position of the lowest entry of a set that is not empty."""
    among = bits & _FIRST or bits
    return (among & -among).bit_length() - 1


def runs_of(bits: Bits, runs_max: int | None = None, low: EntryId = 0) -> list[tuple[int, int]]:
    """Return the first and last entries of the maximal ranges of a set, ascending.

    `low` is the entry of bit 0. At most the first `runs_max` are returned. Costs entries up to the
    end of the last one.
    """
    found: list[tuple[int, int]] = []
    at, width = low, WINDOW
    while bits:
        window = bits & all_bits(width)
        if not window:
            skipped = lowest_of(bits)
            bits, at = bits >> skipped, at + skipped
            continue
        runs = _RUN.finditer(bin(window)[:1:-1])
        if runs_max is not None:
            runs = islice(runs, runs_max - len(found) + 2)
        before = at - 1
        spans = [(at + run.start(), before + run.end()) for run in runs]
        if found and found[-1][1] == spans[0][0] - 1:  # it began in an earlier window
            found[-1] = found[-1][0], spans.pop(0)[1]
        if runs_max is not None and len(found) + len(spans) > runs_max:  # the last one has ended
            return found + spans[: runs_max - len(found)]
        found += spans
        bits, at, width = bits >> width, at + width, min(2 * width, WINDOW_MAX)
    return found


@dataclass(slots=True)
class BitCounts:
    """A number for each entry of a block, as binary digits.

    `digits[n]` is the set of entries whose number has binary digit n.
    """

    everything: Bits
    digits: list[Bits] = field(default_factory=list)
    kept: tuple[int, Bits] | None = field(default=None, init=False, compare=False)
    """What `fewest` returned."""

    @classmethod
    def of(cls, everything: Bits, sets: Iterable[Bits]) -> BitCounts:
        """Count, for each entry, how many of the sets contain it. Costs a carry for each set and
        digit.
        """
        digits: list[Bits] = []
        for carry in sets:
            if not carry:
                continue
            for place, digit in enumerate(digits):
                digits[place], carry = digit ^ carry, digit & carry
                if not carry:
                    break
            if carry:
                digits.append(carry)
        return cls(everything, digits)

    def at(self, position: int) -> int:
        """Return the number of one entry."""
        return sum((digit >> position & 1) << place for place, digit in enumerate(self.digits))

    def at_most(self, number: int) -> Bits:
        """Return the entries whose number is at most `number`."""
        if number < 0:
            return 0
        if number >> len(self.digits):
            return self.everything
        fewest, with_fewest = self.fewest
        if number <= fewest:
            return with_fewest if number == fewest else 0
        below, equal = 0, self.everything
        for place in reversed(range(len(self.digits))):
            has_digit = equal & self.digits[place]
            if number >> place & 1:
                below |= equal ^ has_digit
                equal = has_digit
            else:
                equal ^= has_digit
        return below | equal

    @property
    def fewest(self) -> tuple[int, Bits]:
        """The lowest number that any entry has, and the entries that have it. It is kept."""
        if self.kept is None:
            self.kept = self.lowest_among(self.everything)
        return self.kept

    def lowest_among(self, entries: Bits) -> tuple[int, Bits]:
        """Return the lowest number that any of `entries` has, and the entries that have it."""
        number = 0
        for place in reversed(range(len(self.digits))):
            without = entries ^ (entries & self.digits[place])
            if without:
                entries = without
            else:
                number |= 1 << place
        return number, entries


Edges = Mapping[BookieId, Iterable[EntryId]]
"""By bookie, the entries at which the groups of its list begin and end."""

ENUMERATED_ENTRIES_MAX = 1_000_000
"""A ledger with at most this many entries is examined whole.

With six bookies, it takes some 4 ms and 4 MB, and a microsecond for each group that they list. A
Pulsar ledger usually has fewer entries (it rolls at 50,000). Metadata may claim 2^63."""

POINTS_MAX = 1_000
"""At most this many ends of listed groups are examined in one long stretch: some 50 ms.

The bookies of the stretch have equal shares: thousands of groups in one list do not displace a few
holes in another."""

DRAWN_POINTS = 32
"""Points of a ledger drawn by the run's seed, so that each run examines other entries.

Each long stretch has at least one."""


class Block(NamedTuple):
    """Consecutive entries `low` to `high` (inclusive) of one stretch, examined one by one."""

    stretch: Stretch
    low: EntryId
    high: EntryId


def are_few_enough(parts: tuple[Stretch, ...]) -> bool:
    """Return whether a ledger with these parts is examined whole."""
    return sum([part.last - part.first + 1 for part in parts]) <= ENUMERATED_ENTRIES_MAX


def whole_blocks(parts: tuple[Stretch, ...]) -> tuple[Block, ...]:
    """Return one block for each part."""
    return tuple([Block(part, part.first, part.last) for part in parts])


def blocks(
    ledger: LedgerId,
    parts: tuple[Stretch, ...],
    edges: Edges,
    certain: Iterable[EntryId],
    terms: Terms,
) -> tuple[tuple[Block, ...], bool]:
    """Return (the blocks, ascending and disjoint; whether they are the whole ledger).

    `certain`: entries that are always examined. They were read or claimed, and are therefore few.
    """
    if are_few_enough(parts):
        return whole_blocks(parts), True
    room, found = ENUMERATED_ENTRIES_MAX, list[Block]()
    ordered, certain = (
        {bookie: sorted(set(its_own)) for bookie, its_own in edges.items()},
        sorted(set(certain)),
    )
    whole = set[Stretch]()
    for part in parts:
        if part.entry_count <= room:
            room -= part.entry_count
            whole.add(part)
    drawn = _Drawn(terms.probe_seed, ledger, max(1, DRAWN_POINTS // (len(parts) - len(whole))))
    for part in parts:
        if part in whole:
            found.append(Block(part, part.first, part.last))
        else:
            found += _around(part, _points(part, ordered, certain, drawn))
    return tuple(found), False


class _Drawn(NamedTuple):
    """Draws `each` points from a long stretch."""

    seed: int
    ledger: LedgerId
    each: int

    def of(self, part: Stretch) -> Iterator[EntryId]:
        for number in range(self.each):
            drawn = sha256(f"{self.seed} {self.ledger} {part.first} {number}".encode()).digest()
            yield part.first + int.from_bytes(drawn) % part.entry_count


def _points(
    part: Stretch, edges: Mapping[BookieId, list[EntryId]], certain: list[EntryId], drawn: _Drawn
) -> Iterator[EntryId]:
    yield from (part.first, part.last)
    yield from _within(part, certain)
    yield from drawn.of(part)
    for bookie in part.bookies:
        mine = _within(part, edges.get(bookie, []))
        count = min(len(mine), POINTS_MAX // len(part.bookies))
        yield from (mine[len(mine) * number // count] for number in range(count))


def _within(part: Stretch, entries: list[EntryId]) -> list[EntryId]:
    """Return the entries that lie in the stretch; `entries` ascend."""
    return entries[bisect_left(entries, part.first) : bisect_right(entries, part.last)]


def _around(part: Stretch, points: Iterable[EntryId]) -> Iterator[Block]:
    """Yield E entries on both sides of each point. Blocks that touch are joined."""
    reach = len(part.ensemble)
    rounds = (
        (max(part.first, point - reach), min(part.last, point + reach)) for point in sorted(points)
    )
    low, high = next(rounds)
    for begin, end in rounds:
        if begin > high + 1:
            yield Block(part, low, high)
            low = begin
        high = end
    yield Block(part, low, high)

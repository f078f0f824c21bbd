"""Sets of entries in closed form: their cost is the number of groups, not of entries.

An `EntrySet` is a sequence of disjoint, ascending pieces. A piece is periodic: within `[start,
end]`, entry `e` belongs to the set if `(e - start) mod period` falls into one of its runs. A stripe
of a billion entries is one piece.

Every operation walks the pieces of both sides once. `&` walks only the pieces of each side within
reach of the other, and `-` only those of the right side within reach of the left. This matters when
a bookie's list of thousands of pieces is compared with thousands of segments. Integers are
Python's: no id is too large.

If two periodic pieces overlap, the result repeats with the least common multiple of their periods.
If that pattern costs more to write down than to walk the runs of the sparser piece, the runs are
walked. Either way the cost is that of groups and runs, never that of entries.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import lcm
from operator import attrgetter
from typing import NamedTuple

from auditor.model.availability import SequenceGroup
from auditor.model.finding import Ranges
from auditor.model.identity import EntryId

Run = tuple[int, int]
"""(offset within the period, size): offset >= 0, size >= 1."""


class Piece(NamedTuple):
    """Entries of `[start, end]` (inclusive) whose offset from `start`, modulo `period`, lies in
    `runs`.

    The runs are ascending, disjoint and not empty.
    """

    start: EntryId
    end: EntryId
    period: int
    runs: tuple[Run, ...]


WHOLE: tuple[Run, ...] = ((0, 1),)
"""With period 1: every entry."""


class Rule(NamedTuple):
    """Which entries to keep: those on the left only, on both sides, on the right only.

    Entries on neither side are never kept.
    """

    left_only: bool
    both: bool
    right_only: bool


UNION = Rule(True, True, True)
COMMON = Rule(False, True, False)
MINUS = Rule(True, False, False)


def whole(start: EntryId, end: EntryId) -> list[Piece]:
    return [Piece(start, end, 1, WHOLE)] if start <= end else []


def trim(start: EntryId, end: EntryId, period: int, runs: tuple[Run, ...]) -> list[Piece]:
    """Return the entries of `[start, end]` that lie in `runs` as one piece, or as none.

    A single run becomes a plain span (period 1) if it fills the period, or if `[start, end]` is no
    longer than the period.
    """
    length = end - start + 1
    if length < period:
        runs = tuple(
            (offset, min(size, length - offset)) for offset, size in runs if offset < length
        )
    if not runs:
        return []
    if len(runs) == 1 and (runs[0][1] == period or length <= period):
        offset, size = runs[0]
        if size == period:
            return [Piece(start, end, 1, WHOLE)]
        return [Piece(start + offset, start + offset + size - 1, 1, WHOLE)]
    return [Piece(start, end, period, runs)]


def clip(piece: Piece, low: EntryId, high: EntryId) -> list[Piece]:
    """Return the part of `piece` within `[low, high]`, which must lie within the piece."""
    if piece.period == 1:
        return [Piece(low, high, 1, WHOLE)]
    return trim(low, high, piece.period, _turn(piece, low))


def _turn(piece: Piece, start: EntryId) -> tuple[Run, ...]:
    """Return the piece's runs as offsets from `start` instead of its own start."""
    turn = (start - piece.start) % piece.period
    if turn == 0:
        return piece.runs
    turned: list[Run] = []
    for offset, size in piece.runs:
        begin = (offset - turn) % piece.period
        overhang = begin + size - piece.period
        if overhang > 0:
            turned.extend(((0, overhang), (begin, size - overhang)))
        else:
            turned.append((begin, size))
    return _join_runs(sorted(turned))


def _join_runs(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Return ascending runs with touching neighbours merged."""
    joined: list[Run] = []
    for offset, size in runs:
        if joined and joined[-1][0] + joined[-1][1] == offset:
            joined[-1] = (joined[-1][0], joined[-1][1] + size)
        else:
            joined.append((offset, size))
    return tuple(joined)


def _gaps(runs: Iterable[Run], length: int) -> tuple[Run, ...]:
    """Return the parts of `[0, length)` that `runs` do not cover."""
    gaps: list[Run] = []
    at = 0
    for offset, size in runs:
        if offset > at:
            gaps.append((at, offset - at))
        at = offset + size
    if at < length:
        gaps.append((at, length - at))
    return tuple(gaps)


def combine(left: tuple[Piece, ...], right: tuple[Piece, ...], rule: Rule) -> Iterator[Piece]:
    """Walk both sides once, cut wherever one of them begins or ends, and apply the rule to each
    cut.
    """
    i = j = 0
    at = min(left[0].start, right[0].start)
    while i < len(left) or j < len(right):
        a = left[i] if i < len(left) else None
        b = right[j] if j < len(right) else None
        in_a = a is not None and a.start <= at
        in_b = b is not None and b.start <= at
        cut = min(edge for edge in (_edge(a, in_a), _edge(b, in_b)) if edge is not None)
        if in_a and in_b:
            assert a is not None and b is not None
            yield from _overlap(a, b, at, cut, rule)
        elif in_a and rule.left_only:
            assert a is not None
            yield from clip(a, at, cut)
        elif in_b and rule.right_only:
            assert b is not None
            yield from clip(b, at, cut)
        at = cut + 1
        i += int(a is not None and a.end <= cut)
        j += int(b is not None and b.end <= cut)


def _edge(piece: Piece | None, inside: bool) -> EntryId | None:
    """Return the last entry before this side changes."""
    if piece is None:
        return None
    return piece.end if inside else piece.start - 1


def _overlap(a: Piece, b: Piece, low: EntryId, high: EntryId, rule: Rule) -> Iterator[Piece]:
    """Apply the rule to `[low, high]`. Each side has one piece, or none, over all of it."""
    if a.period == 1 or b.period == 1:
        yield from _against_whole(a, b, low, high, rule)
        return
    length = high - low + 1
    common = lcm(a.period, b.period)
    pattern_cost = common // a.period * len(a.runs) + common // b.period * len(b.runs)
    sparse = a if a.period >= b.period else b
    walk_cost = length // sparse.period * len(sparse.runs) + 1
    if common <= length and pattern_cost <= walk_cost:
        pattern = _pattern(
            _unroll(_turn(a, low), a.period, common), _unroll(_turn(b, low), b.period, common), rule
        )
        yield from trim(low, high, common, pattern)
    else:
        yield from _walk(a, b, low, high, rule, sparse_is_left=sparse is a)


def _against_whole(a: Piece, b: Piece, low: EntryId, high: EntryId, rule: Rule) -> Iterator[Piece]:
    """Apply the rule if one side holds every entry: no entry is on the other side only."""
    if a.period == 1 and b.period == 1:
        if rule.both:
            yield Piece(low, high, 1, WHOLE)
        return
    other = b if a.period == 1 else a
    whole_only = rule.left_only if a.period == 1 else rule.right_only
    if rule.both and whole_only:
        yield Piece(low, high, 1, WHOLE)
    elif rule.both:
        yield from clip(other, low, high)
    elif whole_only:
        yield from trim(low, high, other.period, _gaps(_turn(other, low), other.period))


def _walk(
    a: Piece, b: Piece, low: EntryId, high: EntryId, rule: Rule, *, sparse_is_left: bool
) -> Iterator[Piece]:
    """Apply the rule by cutting at each run of the sparser side.

    Between the cuts only the other side is periodic.
    """
    sparse, dense = (a, b) if sparse_is_left else (b, a)
    sparse_only, dense_only = (
        (rule.left_only, rule.right_only) if sparse_is_left else (rule.right_only, rule.left_only)
    )
    at = low
    for clipped in clip(sparse, low, high):
        for first, last in runs_of(clipped):
            if dense_only and at < first:
                yield from clip(dense, at, first - 1)
            if sparse_only and rule.both:
                yield Piece(first, last, 1, WHOLE)
            elif rule.both:
                yield from clip(dense, first, last)
            elif sparse_only:
                yield from trim(first, last, dense.period, _gaps(_turn(dense, first), dense.period))
            at = last + 1
    if dense_only and at <= high:
        yield from clip(dense, at, high)


def _unroll(runs: tuple[Run, ...], period: int, length: int) -> list[Run]:
    """Return the runs written out over `length`, a multiple of `period`."""
    return [(base + offset, size) for base in range(0, length, period) for offset, size in runs]


def _pattern(left: list[Run], right: list[Run], rule: Rule) -> tuple[Run, ...]:
    """Apply the rule to two explicit lists of runs by a sweep over their edges."""
    edges: list[tuple[int, int]] = []
    for side, runs in ((1, left), (2, right)):
        for offset, size in runs:
            edges.append((offset, side))
            edges.append((offset + size, -side))
    edges.sort()
    keep = (False, rule.left_only, rule.right_only, rule.both)
    kept: list[Run] = []
    inside = at = 0
    for edge, side in edges:
        if edge > at and keep[inside]:
            kept.append((at, edge - at))
        inside += side
        at = edge
    return _join_runs(kept)


def runs_of(piece: Piece) -> Iterator[tuple[EntryId, EntryId]]:
    """Yield the piece's runs as inclusive ranges, cut at its end."""
    if piece.period == 1:
        yield piece.start, piece.end
        return
    for base in range(piece.start, piece.end + 1, piece.period):
        for offset, size in piece.runs:
            if base + offset > piece.end:
                return
            yield base + offset, min(base + offset + size - 1, piece.end)


def size_of(piece: Piece) -> int:
    length = piece.end - piece.start + 1
    if piece.period == 1:
        return length
    periods, rest = divmod(length, piece.period)
    return periods * sum(size for _, size in piece.runs) + sum(
        min(size, rest - offset) for offset, size in piece.runs if offset < rest
    )


def _nth_of(piece: Piece, index: int) -> EntryId:
    periods, rest = divmod(index, sum(size for _, size in piece.runs))
    for offset, size in piece.runs:
        if rest < size:
            return piece.start + periods * piece.period + offset + rest
        rest -= size
    raise IndexError(index)


def last_of(piece: Piece) -> EntryId:
    if piece.period == 1:
        return piece.end
    within = (piece.end - piece.start) % piece.period
    base = piece.end - within
    inside = [
        base + min(offset + size - 1, within) for offset, size in piece.runs if offset <= within
    ]
    return (
        max(inside) if inside else base - piece.period + piece.runs[-1][0] + piece.runs[-1][1] - 1
    )


_START, _END = attrgetter("start"), attrgetter("end")


@dataclass(frozen=True, slots=True)
class EntrySet:
    """A set of entry ids.

    Build it with `of_groups`, `span`, `stripe` or `of_entries`; combine it with `|`, `&` and `-`.
    """

    pieces: tuple[Piece, ...] = ()

    @classmethod
    def span(cls, first: EntryId, last: EntryId) -> EntrySet:
        """Return every entry from `first` to `last`, both included. Empty when last < first."""
        return cls((Piece(first, last, 1, WHOLE),)) if first <= last else EMPTY

    @classmethod
    def stripe(cls, first: EntryId, last: EntryId, period: int, runs: Iterable[Run]) -> EntrySet:
        """Return the entries of `[first, last]` that lie in one of `runs`.

        The runs are offsets from `first`, modulo `period`.
        """
        return cls(tuple(trim(first, last, period, tuple(runs))))

    @classmethod
    def of_groups(cls, groups: Iterable[SequenceGroup]) -> EntrySet:
        """Return the entries of canonical groups: ascending, not overlapping, not interleaved."""
        found: list[Piece] = []
        for first, last, size, period in groups:
            assert not found or found[-1].end < first, "groups ascend and do not interleave"
            found.extend(
                trim(first, last + size - 1, period, ((0, size),))
                if period
                else whole(first, first + size - 1)
            )
        return cls(tuple(found))

    @classmethod
    def of_entries(cls, entries: Iterable[EntryId]) -> EntrySet:
        """Return the set of a few single entries."""
        return cls(tuple(Piece(e, e, 1, WHOLE) for e in sorted(set(entries))))

    @classmethod
    def join(cls, sets: Iterable[EntrySet]) -> EntrySet:
        """Return the union of sets that ascend, like the segments of a ledger.

        Each set begins behind the end of those before it. Costs the number of pieces. Adding the
        sets one by one would cost its square.
        """
        return cls(tuple(piece for part in sets for piece in part.pieces))

    def __bool__(self) -> bool:
        return bool(self.pieces)

    def __or__(self, other: EntrySet) -> EntrySet:
        if not self.pieces or not other.pieces:
            return self if self.pieces else other
        return EntrySet(tuple(combine(self.pieces, other.pieces, UNION)))

    def __and__(self, other: EntrySet) -> EntrySet:
        if not self.pieces or not other.pieces:
            return EMPTY
        left, right = self._near(other), other._near(self)
        return EntrySet(tuple(combine(left, right, COMMON))) if left and right else EMPTY

    def __sub__(self, other: EntrySet) -> EntrySet:
        if not self.pieces or not other.pieces:
            return self
        right = other._near(self)
        return EntrySet(tuple(combine(self.pieces, right, MINUS))) if right else self

    def _near(self, other: EntrySet) -> tuple[Piece, ...]:
        """Return the pieces within the range of the other set. Neither set may be empty.

        Costs the number of these pieces, and two searches.
        """
        begin = bisect_left(self.pieces, other.pieces[0].start, key=_END)
        return self.pieces[begin : bisect_right(self.pieces, other.pieces[-1].end, key=_START)]

    def __contains__(self, entry: EntryId) -> bool:
        at = bisect_right(self.pieces, entry, key=_START) - 1
        if at < 0 or entry > self.pieces[at].end:
            return False
        piece = self.pieces[at]
        within = (entry - piece.start) % piece.period
        return any(offset <= within < offset + size for offset, size in piece.runs)

    def count(self) -> int:
        """Return the number of entries. Costs the number of pieces."""
        return sum(size_of(piece) for piece in self.pieces)

    def first(self) -> EntryId:
        """Return the lowest entry. The set must not be empty."""
        piece = self.pieces[0]
        return piece.start + piece.runs[0][0]

    def last(self) -> EntryId:
        """Return the highest entry. The set must not be empty."""
        return last_of(self.pieces[-1])

    def nth(self, index: int) -> EntryId:
        """Return the entry with `index` lower ones in the set. IndexError if there is none."""
        for piece in self.pieces:
            size = size_of(piece)
            if index < size:
                return _nth_of(piece, index)
            index -= size
        raise IndexError(index)

    def every(self, step: int, first: int) -> Iterator[EntryId]:
        """Yield the entries at the indexes `first`, `first + step`, `first + 2 * step` ... of the
        set.

        Costs pieces and the entries yielded.
        """
        index = first
        for piece in self.pieces:
            size = size_of(piece)
            while index < size:
                yield _nth_of(piece, index)
                index += step
            index -= size

    def runs(self) -> Iterator[tuple[EntryId, EntryId]]:
        """Yield the maximal runs as inclusive ranges, ascending."""
        open_first = open_last = -1
        for piece in self.pieces:
            for first, last in runs_of(piece):
                if open_first >= 0 and first == open_last + 1:
                    open_last = last
                    continue
                if open_first >= 0:
                    yield open_first, open_last
                open_first, open_last = first, last
        if open_first >= 0:
            yield open_first, open_last

    def ranges(self, count_max: int) -> Ranges:
        """Return the first `count_max` maximal runs."""
        return tuple(run for run, _ in zip(self.runs(), range(count_max), strict=False))


EMPTY = EntrySet()

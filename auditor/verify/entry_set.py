"""Sets of entries in closed form: what is held, expected and lacking costs its number of groups, not of entries.

An `EntrySet` is a sequence of disjoint, ascending pieces. A piece is periodic: within `[start, end]` the entry `e` belongs
to the set when `(e - start) mod period` falls into one of the piece's runs. A stripe of a billion entries is one piece.

Every operation walks the pieces of both sides once. Where two periodic pieces overlap, the result repeats with the least
common multiple of their periods; if writing that pattern down would cost more than walking the runs of the sparser
piece, the runs are walked. Either way the cost is that of groups and runs, never that of entries. Integers are Python's:
no id is too large.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import lcm
from typing import NamedTuple

from auditor.model.availability import SequenceGroup
from auditor.model.finding import Ranges
from auditor.model.identity import EntryId

Run = tuple[int, int]
"""(offset within the period, size): offset >= 0, size >= 1."""


class Piece(NamedTuple):
    """Entries of `[start, end]` (inclusive) whose offset modulo `period` lies in `runs` (ascending, disjoint, not empty)."""

    start: EntryId
    end: EntryId
    period: int
    runs: tuple[Run, ...]


WHOLE: tuple[Run, ...] = ((0, 1),)
"""With period 1: every entry."""


class _Rule(NamedTuple):
    """What to keep, by membership on the left and on the right. Entries on neither side are never kept."""

    left_only: bool
    both: bool
    right_only: bool


_UNION = _Rule(True, True, True)
_COMMON = _Rule(False, True, False)
_MINUS = _Rule(True, False, False)


@dataclass(frozen=True, slots=True)
class EntrySet:
    """A set of entry ids. Build it with `of_groups`, `span`, `stripe` or `of_entries`; combine it with `|`, `&` and `-`."""

    pieces: tuple[Piece, ...] = ()

    @classmethod
    def span(cls, first: EntryId, last: EntryId) -> EntrySet:
        """Every entry from `first` to `last`, both included; empty when last < first."""
        return cls((Piece(first, last, 1, WHOLE),)) if first <= last else EMPTY

    @classmethod
    def stripe(cls, first: EntryId, last: EntryId, period: int, runs: Iterable[Run]) -> EntrySet:
        """Entries of `[first, last]` whose distance from `first`, modulo `period`, lies in one of `runs`."""
        return cls(tuple(_piece(first, last, period, tuple(runs))))

    @classmethod
    def of_groups(cls, groups: Iterable[SequenceGroup]) -> EntrySet:
        """The entries of canonical groups (ascending, neither overlapping nor interleaved)."""
        pieces: list[Piece] = []
        for first, last, size, period in groups:
            assert not pieces or pieces[-1].end < first, "groups ascend and do not interleave"
            pieces.extend(_piece(first, last + size - 1, period, ((0, size),)) if period else _whole(first, first + size - 1))
        return cls(tuple(pieces))

    @classmethod
    def of_entries(cls, entries: Iterable[EntryId]) -> EntrySet:
        """A few single entries."""
        return cls(tuple(Piece(e, e, 1, WHOLE) for e in sorted(set(entries))))

    def __bool__(self) -> bool:
        return bool(self.pieces)

    def __or__(self, other: EntrySet) -> EntrySet:
        if not self.pieces or not other.pieces:
            return self if self.pieces else other
        return EntrySet(tuple(_combine(self.pieces, other.pieces, _UNION)))

    def __and__(self, other: EntrySet) -> EntrySet:
        if not self.pieces or not other.pieces:
            return EMPTY
        return EntrySet(tuple(_combine(self.pieces, other.pieces, _COMMON)))

    def __sub__(self, other: EntrySet) -> EntrySet:
        if not self.pieces or not other.pieces:
            return self
        return EntrySet(tuple(_combine(self.pieces, other.pieces, _MINUS)))

    def __contains__(self, entry: EntryId) -> bool:
        at = bisect_right(self.pieces, entry, key=lambda piece: piece.start) - 1
        if at < 0 or entry > self.pieces[at].end:
            return False
        piece = self.pieces[at]
        within = (entry - piece.start) % piece.period
        return any(offset <= within < offset + size for offset, size in piece.runs)

    def count(self) -> int:
        """How many entries. Costs the number of pieces."""
        return sum(_count(piece) for piece in self.pieces)

    def first(self) -> EntryId:
        """The lowest entry; the set must not be empty."""
        piece = self.pieces[0]
        return piece.start + piece.runs[0][0]

    def last(self) -> EntryId:
        """The highest entry; the set must not be empty."""
        return _last(self.pieces[-1])

    def nth(self, index: int) -> EntryId:
        """The entry with `index` lower ones in the set; 0 <= index < count()."""
        for piece in self.pieces:
            size = _count(piece)
            if index < size:
                return _nth(piece, index)
            index -= size
        raise IndexError(index)

    def runs(self) -> Iterator[tuple[EntryId, EntryId]]:
        """Maximal runs as inclusive ranges, ascending, one at a time: take as many as are needed."""
        open_first = open_last = -1
        for piece in self.pieces:
            for first, last in _piece_runs(piece):
                if open_first >= 0 and first == open_last + 1:
                    open_last = last
                    continue
                if open_first >= 0:
                    yield open_first, open_last
                open_first, open_last = first, last
        if open_first >= 0:
            yield open_first, open_last

    def ranges(self, count_max: int) -> Ranges:
        """The first `count_max` maximal runs."""
        return tuple(run for run, _ in zip(self.runs(), range(count_max), strict=False))


EMPTY = EntrySet()


def _whole(start: EntryId, end: EntryId) -> list[Piece]:
    return [Piece(start, end, 1, WHOLE)] if start <= end else []


def _piece(start: EntryId, end: EntryId, period: int, runs: tuple[Run, ...]) -> list[Piece]:
    """At most one piece: trimmed so that it starts and ends with an entry of the set, and plain where it is a span."""
    length = end - start + 1
    if length < period:
        runs = tuple((offset, min(size, length - offset)) for offset, size in runs if offset < length)
    if length <= 0 or not runs:
        return []
    if len(runs) == 1 and (runs[0][1] == period or length <= period):
        offset, size = runs[0]
        if size == period:
            return [Piece(start, end, 1, WHOLE)]
        return [Piece(start + offset, start + offset + size - 1, 1, WHOLE)]
    return [Piece(start, end, period, runs)]


def _clip(piece: Piece, low: EntryId, high: EntryId) -> list[Piece]:
    """The part of `piece` within `[low, high]`, which lies within the piece."""
    if piece.period == 1:
        return [Piece(low, high, 1, WHOLE)]
    return _piece(low, high, piece.period, _turned(piece, low))


def _turned(piece: Piece, start: EntryId) -> tuple[Run, ...]:
    """The piece's runs as offsets from `start` instead of its own start."""
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
    return _joined(sorted(turned))


def _joined(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Ascending runs with touching neighbours made one."""
    joined: list[Run] = []
    for offset, size in runs:
        if joined and joined[-1][0] + joined[-1][1] == offset:
            joined[-1] = (joined[-1][0], joined[-1][1] + size)
        else:
            joined.append((offset, size))
    return tuple(joined)


def _gaps(runs: Iterable[Run], length: int) -> tuple[Run, ...]:
    """What `runs` leave out of `[0, length)`."""
    gaps: list[Run] = []
    at = 0
    for offset, size in runs:
        if offset > at:
            gaps.append((at, offset - at))
        at = offset + size
    if at < length:
        gaps.append((at, length - at))
    return tuple(gaps)


def _combine(left: tuple[Piece, ...], right: tuple[Piece, ...], rule: _Rule) -> Iterator[Piece]:
    """Walk both sides once, cutting where either begins or ends, and apply the rule to each cut."""
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
            yield from _clip(a, at, cut)
        elif in_b and rule.right_only:
            assert b is not None
            yield from _clip(b, at, cut)
        at = cut + 1
        i += int(a is not None and a.end <= cut)
        j += int(b is not None and b.end <= cut)


def _edge(piece: Piece | None, inside: bool) -> EntryId | None:
    """The last entry up to which nothing changes on this side."""
    if piece is None:
        return None
    return piece.end if inside else piece.start - 1


def _overlap(a: Piece, b: Piece, low: EntryId, high: EntryId, rule: _Rule) -> Iterator[Piece]:
    """Both sides are periodic over all of `[low, high]`."""
    if a.period == 1 or b.period == 1:
        yield from _against_whole(a, b, low, high, rule)
        return
    length = high - low + 1
    common = lcm(a.period, b.period)
    pattern_cost = common // a.period * len(a.runs) + common // b.period * len(b.runs)
    sparse = a if a.period >= b.period else b
    walk_cost = length // sparse.period * len(sparse.runs) + 1
    if common <= length and pattern_cost <= walk_cost:
        pattern = _pattern(_unrolled(_turned(a, low), a.period, common), _unrolled(_turned(b, low), b.period, common), rule)
        yield from _piece(low, high, common, pattern)
    else:
        yield from _walked(a, b, low, high, rule, sparse_is_left=sparse is a)


def _against_whole(a: Piece, b: Piece, low: EntryId, high: EntryId, rule: _Rule) -> Iterator[Piece]:
    """One side holds every entry, so each entry is on both sides or on that one only."""
    if a.period == 1 and b.period == 1:
        if rule.both:
            yield Piece(low, high, 1, WHOLE)
        return
    other = b if a.period == 1 else a
    whole_only = rule.left_only if a.period == 1 else rule.right_only
    if rule.both and whole_only:
        yield Piece(low, high, 1, WHOLE)
    elif rule.both:
        yield from _clip(other, low, high)
    elif whole_only:
        yield from _piece(low, high, other.period, _gaps(_turned(other, low), other.period))


def _walked(a: Piece, b: Piece, low: EntryId, high: EntryId, rule: _Rule, *, sparse_is_left: bool) -> Iterator[Piece]:
    """Cut at each run of the sparser side; between the cuts only the other side is periodic."""
    sparse, dense = (a, b) if sparse_is_left else (b, a)
    sparse_only, dense_only = (rule.left_only, rule.right_only) if sparse_is_left else (rule.right_only, rule.left_only)
    at = low
    for clipped in _clip(sparse, low, high):
        for first, last in _piece_runs(clipped):
            if dense_only and at < first:
                yield from _clip(dense, at, first - 1)
            if sparse_only and rule.both:
                yield Piece(first, last, 1, WHOLE)
            elif rule.both:
                yield from _clip(dense, first, last)
            elif sparse_only:
                yield from _piece(first, last, dense.period, _gaps(_turned(dense, first), dense.period))
            at = last + 1
    if dense_only and at <= high:
        yield from _clip(dense, at, high)


def _unrolled(runs: tuple[Run, ...], period: int, length: int) -> list[Run]:
    """The runs written out over `length`, a multiple of `period`."""
    return [(base + offset, size) for base in range(0, length, period) for offset, size in runs]


def _pattern(left: list[Run], right: list[Run], rule: _Rule) -> tuple[Run, ...]:
    """The rule applied to two explicit lists of runs: a sweep over their edges."""
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
    return _joined(kept)


def _piece_runs(piece: Piece) -> Iterator[tuple[EntryId, EntryId]]:
    """The piece's runs as inclusive ranges, cut at its end."""
    if piece.period == 1:
        yield piece.start, piece.end
        return
    for base in range(piece.start, piece.end + 1, piece.period):
        for offset, size in piece.runs:
            if base + offset > piece.end:
                return
            yield base + offset, min(base + offset + size - 1, piece.end)


def _count(piece: Piece) -> int:
    length = piece.end - piece.start + 1
    if piece.period == 1:
        return length
    periods, rest = divmod(length, piece.period)
    return periods * sum(size for _, size in piece.runs) + sum(
        min(size, rest - offset) for offset, size in piece.runs if offset < rest
    )


def _nth(piece: Piece, index: int) -> EntryId:
    periods, rest = divmod(index, sum(size for _, size in piece.runs))
    for offset, size in piece.runs:
        if rest < size:
            return piece.start + periods * piece.period + offset + rest
        rest -= size
    raise IndexError(index)


def _last(piece: Piece) -> EntryId:
    if piece.period == 1:
        return piece.end
    within = (piece.end - piece.start) % piece.period
    base = piece.end - within
    inside = [base + min(offset + size - 1, within) for offset, size in piece.runs if offset <= within]
    return max(inside) if inside else base - piece.period + piece.runs[-1][0] + piece.runs[-1][1] - 1

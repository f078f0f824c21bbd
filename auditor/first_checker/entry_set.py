"""Sets of entries in closed form: their cost is the number of groups, not of entries.

An `EntrySet` is a sequence of disjoint, ascending pieces (see `pieces`): a stripe of a billion
entries is one piece. Every operation walks the pieces of both sides once. `&` walks only the pieces
of each side within reach of the other, and `-` only those of the right side within reach of the
left. This matters when a bookie's list of thousands of pieces is compared with thousands of
segments. Integers are Python's: no id is too large.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from auditor.first_checker.pieces import (
    COMMON,
    MINUS,
    UNION,
    WHOLE,
    Piece,
    Run,
    combine,
    last_of,
    nth_of,
    runs_of,
    size_of,
    trim,
    whole,
)
from auditor.model.availability import SequenceGroup
from auditor.model.finding import Ranges
from auditor.model.identity import EntryId

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
        return cls(tuple(piece for one in sets for piece in one.pieces))

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
                return nth_of(piece, index)
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
                yield nth_of(piece, index)
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

"""Choose the entries that the second checker examines one by one.

A ledger of up to ENUMERATED_ENTRIES_MAX entries is examined whole. In a longer ledger, each stretch
in turn is examined whole if it still fits into that number. In a stretch that does not fit, one
round of the ensemble to both sides of certain entries is examined:

- its first and its last entry, and every entry that was read;
- the ends of every range that the first checker claims, and its worst entry;
- some entries drawn by the run's seed;
- the ends of the groups that its bookies listed, at most POINTS_MAX.

The entries between them are not examined, so totals of such a ledger are not compared.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import NamedTuple

from auditor.model.evidence import Terms
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.second_checker.schedule import Stretch

Edges = Mapping[BookieId, Iterable[EntryId]]
"""Where the groups of each bookie's list begin and end."""

ENUMERATED_ENTRIES_MAX = 1_000_000
"""Entries of one ledger that are examined whole: some 4 ms and 4 MB for a ledger of six bookies,
and a microsecond for each group that they list.

A Pulsar ledger usually holds fewer (it rolls at 50,000). A ledger may claim 2^63.
"""

POINTS_MAX = 1_000
"""Ends of listed groups in one long stretch around which entries are examined: some 50 ms.

The bookies of the stretch have equal shares, so that a few holes in one list show beside thousands
in another.
"""

DRAWN_POINTS = 32
"""Points of a ledger drawn by the run's seed, so that each run examines other entries.

Each long stretch has at least one.
"""


class Block(NamedTuple):
    """Consecutive entries `low` to `high` (inclusive) of one stretch, examined one by one."""

    stretch: Stretch
    low: EntryId
    high: EntryId


def blocks(
    ledger: LedgerId,
    parts: tuple[Stretch, ...],
    edges: Edges,
    certain: Iterable[EntryId],
    terms: Terms,
) -> tuple[tuple[Block, ...], bool]:
    """Return (the blocks, ascending and disjoint; whether they are the whole ledger).

    `certain`: entries that are always examined. They were read or claimed, which bounds their
    number.
    """
    if sum(part.entry_count for part in parts) <= ENUMERATED_ENTRIES_MAX:
        return tuple(Block(part, part.first, part.last) for part in parts), True
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
    """Yield one round of the ensemble to both sides of each point; blocks that touch are joined."""
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

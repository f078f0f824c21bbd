"""Which entries the second checker looks at one by one: all of them, or of very long stretches those where anything may change.

A stretch of up to ENUMERATED_ENTRIES_MAX entries is looked at whole. Of a longer one, a whole round of the ensemble to both
sides of each of these: its two ends; every entry that was read; the ends of every range and the worst entry that the first
checker claims; some entries drawn by the run's seed; and the ends of the groups that its bookies listed, of many only some of
each bookie. Not looked at there: what lies between, so totals are not compared where a stretch is that long.
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
"""Entries of one ledger that are looked at whole: some 20 ms and 10 MB a ledger of six bookies, and more than a Pulsar ledger
usually holds (it rolls at 50,000). A ledger may claim 2^63."""

POINTS_MAX = 1_000
"""Ends of listed groups in one long stretch around which entries are looked at: some 50 ms. Its bookies have equal parts of
them, so that the few holes of one list show beside the thousands of another."""

DRAWN_POINTS = 32
"""Points of a ledger drawn by the run's seed, so that every run looks somewhere else; at least one of each long stretch."""


class Block(NamedTuple):
    """Consecutive entries `low` to `high` of one stretch, looked at one by one."""

    stretch: Stretch
    low: EntryId
    high: EntryId


def blocks(
    ledger: LedgerId, parts: tuple[Stretch, ...], edges: Edges, certain: Iterable[EntryId], terms: Terms
) -> tuple[tuple[Block, ...], bool]:
    """Return (the blocks, ascending and disjoint; whether they are the whole ledger).

    `certain`: entries that are looked at however many there are. They were read or claimed, so they are bounded already.
    """
    if sum(part.entry_count for part in parts) <= ENUMERATED_ENTRIES_MAX:
        return tuple(Block(part, part.first, part.last) for part in parts), True
    room, found = ENUMERATED_ENTRIES_MAX, list[Block]()
    ordered, certain = {bookie: sorted(set(its_own)) for bookie, its_own in edges.items()}, sorted(set(certain))
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
    """How points are drawn: `each` of every long stretch."""

    seed: int
    ledger: LedgerId
    each: int

    def of(self, part: Stretch) -> Iterator[EntryId]:
        for number in range(self.each):
            drawn = sha256(f"{self.seed} {self.ledger} {part.first} {number}".encode()).digest()
            yield part.first + int.from_bytes(drawn) % part.entry_count


def _points(part: Stretch, edges: Mapping[BookieId, list[EntryId]], certain: list[EntryId], drawn: _Drawn) -> Iterator[EntryId]:
    yield from (part.first, part.last)
    yield from _within(part, certain)
    yield from drawn.of(part)
    for bookie in part.bookies:
        mine = _within(part, edges.get(bookie, []))
        count = min(len(mine), POINTS_MAX // len(part.bookies))
        yield from (mine[len(mine) * number // count] for number in range(count))


def _within(part: Stretch, entries: list[EntryId]) -> list[EntryId]:
    """Those of the entries, which ascend, that are in the stretch."""
    return entries[bisect_left(entries, part.first) : bisect_right(entries, part.last)]


def _around(part: Stretch, points: Iterable[EntryId]) -> Iterator[Block]:
    """A round of the ensemble to both sides of each point; what touches is one block."""
    reach = len(part.ensemble)
    rounds = ((max(part.first, point - reach), min(part.last, point + reach)) for point in sorted(points))
    low, high = next(rounds)
    for begin, end in rounds:
        if begin > high + 1:
            yield Block(part, low, high)
            low = begin
        high = end
    yield Block(part, low, high)

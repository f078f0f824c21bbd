"""Which entries the second checker looks at one by one: all of them, or of very long stretches those where anything may change.

A stretch of up to ENUMERATED_ENTRIES_MAX entries is looked at whole. Of a longer one, a whole round of the ensemble to both
sides of each of these: its two ends; the ends of each group that a bookie listed and of each round at its ends; every entry
that was read; the ends of every range and the worst entry that the first checker claims; and some entries drawn by the run's
seed. Not looked at there: what lies between, so totals are not compared where a stretch is that long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import NamedTuple

from auditor.confirm.enumerated_schedule import Stretch
from auditor.model.evidence import Terms
from auditor.model.identity import EntryId, LedgerId

ENUMERATED_ENTRIES_MAX = 1_000_000
"""Entries of one ledger that are looked at whole: some 20 ms and 10 MB a ledger of six bookies, and more than a Pulsar ledger
usually holds (it rolls at 50,000). A ledger may claim 2^63."""

POINTS_MAX = 1_000
"""Points of one long stretch around which entries are looked at, beside those that the first checker claims: some 50 ms."""

DRAWN_POINTS = 32
"""Of these, points drawn by the run's seed, so that every run looks somewhere else."""


class Block(NamedTuple):
    """Consecutive entries `low` to `high` of one stretch, looked at one by one."""

    stretch: Stretch
    low: EntryId
    high: EntryId


def blocks(
    ledger: LedgerId, parts: tuple[Stretch, ...], edges: Iterable[EntryId], claimed: Iterable[EntryId], terms: Terms
) -> tuple[tuple[Block, ...], bool]:
    """(the blocks, ascending and disjoint; whether they are the whole ledger)."""
    if sum(part.last - part.first + 1 for part in parts) <= ENUMERATED_ENTRIES_MAX:
        return tuple(Block(part, part.first, part.last) for part in parts), True
    room, found = ENUMERATED_ENTRIES_MAX, list[Block]()
    edges, claimed = sorted(set(edges)), sorted(set(claimed))
    for part in parts:
        length = part.last - part.first + 1
        if length <= room:
            room -= length
            found.append(Block(part, part.first, part.last))
        else:
            found += _around(part, _points(ledger, part, edges, claimed, terms))
    return tuple(found), False


def _points(ledger: LedgerId, part: Stretch, edges: list[EntryId], claimed: list[EntryId], terms: Terms) -> Iterator[EntryId]:
    yield from (part.first, part.last)
    yield from (entry for entry in claimed if part.first <= entry <= part.last)
    length = part.last - part.first + 1
    for number in range(DRAWN_POINTS):
        drawn = sha256(f"{terms.probe_seed} {ledger} {part.first} {number}".encode()).digest()
        yield part.first + int.from_bytes(drawn[:16], "little") % length
    mine = [entry for entry in edges if part.first <= entry <= part.last]
    yield from mine if len(mine) <= POINTS_MAX else (mine[len(mine) * n // POINTS_MAX] for n in range(POINTS_MAX))


def _around(part: Stretch, points: Iterable[EntryId]) -> Iterator[Block]:
    """A round of the ensemble to both sides of each point; what touches is one block."""
    reach = len(part.ensemble)
    low = high = part.first - 2
    for point in sorted(points):
        begin, end = max(part.first, point - reach), min(part.last, point + reach)
        if begin <= high + 1:
            high = max(high, end)
            continue
        if high >= part.first:
            yield Block(part, low, high)
        low, high = begin, end
    yield Block(part, low, high)

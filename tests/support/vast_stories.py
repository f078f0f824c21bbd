"""Stories of ledgers too long for the second checker to look at each entry: millions of entries in
up to 200 segments.

A bookie holds what was written to it, except a set of holes. These cannot be judged entry by entry,
so there is no truth to compare with, only two checkers that look at different entries. `vast` makes
a story from a seed.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from struct import iter_unpack
from typing import Any

from support.stories import GRACE_MS, NOW_MS, Bookie, State, Story

from auditor.first_checker.schedule import expected_groups
from auditor.model.availability import AnswerStatus, ReadStatus, SequenceGroup
from auditor.model.cluster import Surroundings
from auditor.model.evidence import Sweep
from auditor.model.ledger import LedgerMetadata, LedgerState, Mark, Segment
from auditor.wire.entry_availability import canonical

Holes = Mapping[str, Collection[int]]


class Written(frozenset[int]):
    """The entries written to one bookie, except its holes: a set that supports only tests of single
    entries.
    """

    metadata: LedgerMetadata
    name: str
    holes: frozenset[int]

    @classmethod
    def but_for(cls, metadata: LedgerMetadata, name: str, holes: Collection[int]) -> Written:
        one = cls()
        one.metadata, one.name, one.holes = metadata, name, frozenset(holes)
        return one

    def __contains__(self, entry: object) -> bool:
        assert isinstance(entry, int)
        metadata = self.metadata
        if entry in self.holes or not 0 <= entry <= (metadata.last_entry_id or 0):
            return False
        at = bisect_right([segment.first_entry_id for segment in metadata.segments], entry) - 1
        ensemble, size = metadata.segments[at].ensemble, metadata.ensemble_size
        return self.name in {
            ensemble[(entry + copy) % size] for copy in range(metadata.write_quorum)
        }


@dataclass(frozen=True)
class VastStory(Story):
    """A story whose reads are not counted: the expected entries of a bookie would have to be
    written out.
    """

    def reads_allowed(self, look: int, bookie: str) -> int:
        return 10**9


def listed(metadata: LedgerMetadata, name: str, holes: Collection[int]) -> bytes:
    """Return the canonical list of a bookie that lacks the holes."""
    size, write, cuts = metadata.ensemble_size, metadata.write_quorum, sorted(holes)
    firsts = [
        *(segment.first_entry_id for segment in metadata.segments),
        (metadata.last_entry_id or 0) + 1,
    ]
    found: list[SequenceGroup] = []
    for (first, stop), segment in zip(pairwise(firsts), metadata.segments, strict=True):
        if name not in segment.ensemble:
            continue
        inner = cuts[bisect_right(cuts, first - 1) : bisect_right(cuts, stop - 1)]
        for before, hole in pairwise([first - 1, *inner, stop]):
            if before + 1 < hole:
                packed = expected_groups(
                    before + 1, hole - 1, segment.ensemble.index(name), size, write
                )
                assert packed is not None, "no run is that long"
                found += [SequenceGroup(*group) for group in iter_unpack(">qqii", packed)]
    return canonical(found)


def with_holes(metadata: LedgerMetadata, holes: Holes) -> dict[str, Bookie]:
    """Return each bookie of the ledger with what it holds and lists."""
    names = dict.fromkeys(bookie for segment in metadata.segments for bookie in segment.ensemble)
    return {
        name: Bookie(
            Written.but_for(metadata, name, gaps := holes.get(name, ())),
            groups=listed(metadata, name, gaps),
        )
        for name in names
    }


def scattered(
    draw: random.Random, last: int, count: int, borders: Collection[int] = ()
) -> set[int]:
    """Return entries all over the ledger, and around borders."""
    near = sorted(borders)
    return {
        min(
            last,
            max(
                0,
                (
                    draw.choice(near) + draw.randint(-6, 6)
                    if near and draw.random() < 0.4
                    else draw.randint(0, last)
                ),
            ),
        )
        for _ in range(count)
    }


def vast(seed: int) -> Story:
    """Return the story of this seed: a long ledger of up to 200 segments, with few holes or
    many.
    """
    draw = random.Random(f"vast {seed}")
    metadata = _metadata(draw)
    last, borders = (
        metadata.last_entry_id or 0,
        [segment.first_entry_id for segment in metadata.segments],
    )
    names = sorted({bookie for segment in metadata.segments for bookie in segment.ensemble})
    holes: dict[str, set[int]] = {name: set() for name in names}
    unlisted: dict[str, set[int]] = {name: set() for name in names}
    for _ in range(draw.choice((0, 1, 1, 2, 3))):
        lost = scattered(draw, last, draw.choice((1, 3, 30, 300, 2500)), borders)
        for name in draw.sample(names, min(len(names), draw.choice((1, 1, 2, len(names))))):
            some = lost if draw.random() < 0.6 else scattered(draw, last, len(lost), borders)
            (unlisted if draw.random() < 0.1 else holes)[name].update(some)
    bookies = with_holes(metadata, holes)
    for name, left_out in unlisted.items():
        bookies[name] = replace(
            bookies[name], groups=listed(metadata, name, holes[name] | left_out)
        )
    for name in names:
        if draw.random() < 0.2:
            bookies[name] = _otherwise(draw, metadata, bookies[name], last, borders)
    mark = Mark(NOW_MS - draw.choice((0, 2 * GRACE_MS))) if draw.random() < 0.2 else None
    if mark is not None and draw.random() < 0.5:
        name = draw.choice(names)
        bookies[name] = replace(bookies[name], answer=AnswerStatus.UNREGISTERED, is_forgotten=True)
    terms: dict[str, Any] = {
        "probe_entries": draw.choice((0, 1, 3, 30)),
        "probe_seed": seed,
        "sweep": _sweep(seed, last),
    }
    if draw.random() < 0.4:  # some lost entries are readable on a bookie that should hold none
        lost = set.intersection(*holes.values())
        bookies["outside"] = Bookie(frozenset(entry for entry in lost if draw.random() < 0.8))
        terms |= {
            "around": Surroundings(writable=frozenset((*names, "outside"))),
            "stranded_entries_max": 16,
        }
    return VastStory(
        f"vast {seed}",
        (State(metadata, bookies, mark=mark),),
        reads_max=draw.choice((5, 16)),
        more_terms=terms,
    )


def _sweep(seed: int, last: int) -> Sweep:
    """Return a sweep that reads some hundred entries of a ledger that ends with `last`; half of all
    runs have none.
    """
    draw = random.Random(f"sweep {seed}")
    step = 1 << max(0, last // draw.choice((100, 500))).bit_length()
    return Sweep(seed, draw.randrange(100), 10_000, step if draw.random() < 0.5 else 0)


def vasts(count: int, first_seed: int = 0) -> Iterator[Story]:
    """Return a seeded strategy of such stories."""
    return (vast(seed) for seed in range(first_seed, first_seed + count))


def _metadata(draw: random.Random) -> LedgerMetadata:
    size = draw.randint(1, 5)
    write = draw.choice((size, draw.randint(1, size)))
    number = draw.choice((1, 2, draw.randint(2, 8), draw.randint(5, 40), 200))
    lengths = [
        (
            draw.choice((999_999, 1_000_000, 10**7))
            if draw.random() < 3 / number
            else draw.choice((5, 60, draw.randint(1, 3000)))
        )
        for _ in range(number)
    ]
    if sum(lengths) <= 1_000_000:
        lengths[draw.randrange(number)] = draw.choice((1_000_001, 3_000_000))
    pool = [f"b{n}" for n in range(size + draw.choice((1, 2, 4)))]
    ensemble, first, segments = draw.sample(pool, size), 0, []
    for length in lengths:
        segments.append(Segment(first, tuple(ensemble)))
        first += length
        ensemble[draw.randrange(size)] = draw.choice([one for one in pool if one not in ensemble])
    return LedgerMetadata(
        3, LedgerState.CLOSED, size, write, draw.randint(1, write), first - 1, 8, tuple(segments)
    )


def _otherwise(
    draw: random.Random, metadata: LedgerMetadata, one: Bookie, last: int, borders: list[int]
) -> Bookie:
    """Return a bookie that cannot list, gives no answer, knows no such ledger, or has copies that
    do not match their digest.
    """
    return draw.choice(
        (
            replace(one, answer=AnswerStatus.UNSUPPORTED),
            replace(
                one,
                answer=AnswerStatus.UNSUPPORTED,
                corrupt=frozenset(scattered(draw, last, 40, borders)),
            ),
            replace(one, answer=draw.choice((AnswerStatus.SILENT, AnswerStatus.REFUSED))),
            replace(one, read=ReadStatus.TIMED_OUT),
            Bookie(knows_ledger=False),
        )
    )

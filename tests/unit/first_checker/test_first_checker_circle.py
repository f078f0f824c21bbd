"""Laws of the circle on which each copy has its place."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from auditor.first_checker.circle import (
    BLAKE2B,
    CIRCLE,
    MIXED,
    NO_ARC,
    UNITS,
    WHOLE,
    Arc,
    Starts,
    arc_entries,
    arc_from,
    arc_of,
)
from auditor.first_checker.entry_set import EntrySet
from auditor.first_checker.probing import Draw, place, start_of, swept_entries
from auditor.model.evidence import Sweep

BITS = CIRCLE.bit_length() - 1
SHARE = EntrySet.span(5, 900)


def place_of(rank: int, start: int) -> int:
    """Return the place of a copy, by its definition."""
    return int(f"{(rank - start) % CIRCLE:0{BITS}b}"[::-1], 2)


def some_arc(random: Random) -> Arc:
    size = 1 << random.randrange(BITS + 1)
    length = min(CIRCLE, size * random.randint(1, 12))
    return Arc(random.randrange(CIRCLE // size) * size, length)


@pytest.mark.parametrize("seed", range(20))
def test_an_arc_reads_the_copies_that_have_their_places_in_it(seed: int) -> None:
    """Also where it goes on at place 0."""
    arc, start = some_arc(Random(seed)), start_of(seed, 7, "b1")
    due = [
        entry
        for rank, entry in enumerate(range(5, 901))
        if (place_of(rank, start) - arc.first) % CIRCLE < arc.length
    ]
    assert due[::-1] == arc_entries(arc, start, SHARE)


@pytest.mark.parametrize("seed", range(20))
def test_a_sweep_reads_its_arc(seed: int) -> None:
    """The sweeps of bookies that cannot list are arcs as well."""
    random = Random(seed)
    sweep = Sweep(seed, random.randrange(1000), 100, 1 << random.randrange(8))
    read = list(swept_entries(sweep, 7, "b1", SHARE))
    arc = arc_of(Draw(sweep.step, sweep.turn))
    assert read[::-1] == arc_entries(arc, start_of(seed, 7, "b1"), SHARE)


@pytest.mark.parametrize("seed", range(20))
def test_the_draws_of_an_arc_share_no_place_and_leave_none_out(seed: int) -> None:
    """Each draw is an arc of its own."""
    arc = some_arc(Random(seed))
    parts = sorted(arc_of(draw) for draw in arc.draws())
    assert sum(part.length for part in parts) == arc.length
    assert all(one.first + one.length <= other.first for one, other in pairwise(parts))
    assert all(place(draw) < draw.step for draw in arc.draws())


@pytest.mark.parametrize("seed", range(50))
def test_an_arc_in_units_is_hardly_longer_than_asked(seed: int) -> None:
    """It has all that was asked for, in few pieces."""
    random = Random(seed)
    first, length = random.randrange(CIRCLE), 1 << random.randrange(BITS)
    length += random.randrange(length)
    arc = arc_from(first, length)
    assert length <= arc.length <= min(CIRCLE, max(length + 2, length * (1 + 2 / UNITS)))
    before = (first - arc.first) % CIRCLE
    assert arc == WHOLE or before + length <= arc.length
    assert len(list(arc.draws())) <= 2 * UNITS


def test_nothing_and_all() -> None:
    """The two ends."""
    assert NO_ARC == arc_from(77, 0) == arc_of(Draw(0, 3))
    assert WHOLE == arc_from(77, CIRCLE) == arc_of(Draw(1, 3))
    assert [] == arc_entries(NO_ARC, 9, SHARE) == list(NO_ARC.draws())
    assert list(range(900, 4, -1)) == arc_entries(WHOLE, 9, SHARE)


@pytest.mark.parametrize("way", [BLAKE2B, MIXED])
def test_a_start_is_the_same_for_one_ledger_and_for_many(way: int) -> None:
    """The starts of runs that continue one of an earlier version are those of its sweeps."""
    ids = np.array([0, 7, 2**31, 2**63 - 1])
    starts = Starts(5, way)
    assert [starts.of(one, "b1") for one in ids.tolist()] == starts.of_ledgers(ids, "b1").tolist()
    assert (start_of(5, 7, "b1") == starts.of(7, "b1")) is (way == BLAKE2B)
    assert 0 == len(starts.of_ledgers(ids[:0], "b1"))


def test_the_starts_of_a_series_do_not_change() -> None:
    """They are stored nowhere: arcs of earlier runs would mean other copies."""
    assert [14984515636176151493, 556667587665164690] == [
        Starts(281474976710655, MIXED).of(ledger_id, "bk-1:3181") for ledger_id in (0, 2**40 + 3)
    ]


@pytest.mark.parametrize("stride", [1, 3, 40, 1 << 12, 1 << 40])
def test_starts_are_drawn_evenly(stride: int) -> None:
    """Whatever the ids of ledgers have in common. So are the differences of neighbours, and of two
    bookies: chi-squared with 63 degrees of freedom is above 127 once in 250,000 draws.
    """
    ids = np.arange(6_400) * stride
    one, other = (Starts(9).of_ledgers(ids, bookie) for bookie in ("b1", "b2"))
    for drawn in (one, np.diff(one), one - other, Starts(10).of_ledgers(ids, "b1") - one):
        for shift in (0, 3, 16):
            counts = np.bincount((drawn >> np.uint64(shift)).astype(np.int64) % 64, minlength=64)
            mean = len(drawn) / 64
            assert ((counts - mean) ** 2 / mean).sum() < 127

"""Laws of the circle on which each copy has its place."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from auditor.first_checker.circle import (
    CIRCLE,
    NO_ARC,
    UNITS,
    WHOLE,
    Arc,
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

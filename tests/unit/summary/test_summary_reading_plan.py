"""Laws of the plan by which each copy is read within a period."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from auditor.first_checker.circle import BLAKE2B, CIRCLE, MIXED, WHOLE, Arc, Starts
from auditor.model.summary import CopiesByAge, Verification, VerifiedBookie, VerifiedBy
from auditor.summary.due_copies import Due
from auditor.summary.reading_plan import (
    BookieReads,
    ReadArc,
    ReadingPlan,
    UnansweredPlace,
    copies_before,
    reads_before,
    starts_before,
)

DAY = 24 * 60 * 60 * 1000
PERIOD = 30 * DAY
CELLS = 512
"""As many places, evenly spread, stand for all."""
LARGE = Due(1e9, 10, 1e12, 10)
NO_BOUND = 2**50


def plan_at(at: int, before: BookieReads | None, rate: int = NO_BOUND) -> ReadingPlan:
    return ReadingPlan(1, at, PERIOD, rate, 2000.0, {"b1": before} if before else {})


def has(arc: Arc, cell: int) -> bool:
    return (cell * (CIRCLE // CELLS) - arc.first) % CIRCLE < arc.length


def run_series(
    times: list[int], rate: int = NO_BOUND, due: Due = LARGE, unanswered: Collection[int] = ()
) -> list[list[int]]:
    """Return for each cell when it was read, in runs at these times, and that of the others.

    The cells in `unanswered` never answer.
    """
    reads = [[times[0]] for _ in range(CELLS)]
    series = BookieReads(times[0])
    for at in times:
        known = series if at > times[0] else None
        arc = plan_at(at, known, rate).arc("b1", due, 500)
        if arc.length:
            apart = [cell * (CIRCLE // CELLS) for cell in unanswered if has(arc, cell)]
            series = series.with_arc(arc, at, PERIOD, apart)
        for cell in set(range(CELLS)) - set(unanswered):
            if has(arc, cell):
                reads[cell].append(at)
    return reads


def intervals(random: Random) -> list[int]:
    """Return times between runs: each is at most a quarter of the period, or as the one before."""
    found = [random.randint(1, DAY)]
    while sum(found) < 4 * PERIOD:
        limit = max(PERIOD // 4, found[-1])
        kind = random.random()
        found.append(random.randint(1, limit) if kind < 0.3 else random.randint(1, 2 * DAY))
    return found


@pytest.mark.parametrize("seed", range(25))
def test_each_copy_is_read_within_the_period(seed: int) -> None:
    """Whatever the times of the runs, up to a quarter of the period apart."""
    times = [1_000]
    for one in intervals(Random(seed)):
        times.append(times[-1] + one)
    for mine in run_series(times):
        assert all(later - earlier <= PERIOD for earlier, later in pairwise([*mine, times[-1]]))


@pytest.mark.parametrize("seed", range(15))
def test_entries_that_never_answer_delay_no_others(seed: int) -> None:
    """However many they are and whenever the runs are, without a bound and with a sufficient one.

    Before, the arc that had one of them was read again each night, and no other.
    """
    random, times = Random(seed), [1_000]
    never = set(random.sample(range(CELLS), random.choice([1, 5, 60])))
    nightly = [DAY] * 120
    for one in random.choice([nightly, intervals(random)]):
        times.append(times[-1] + one)
    rates = [NO_BOUND]
    if times[-1] - times[-2] == DAY == times[1] - times[0]:
        rates.append(int(plan_at(DAY, None).rate_needed(LARGE, DAY) * 1.05))
    for rate in rates:
        found = run_series(times, rate, LARGE, never)
        for cell in set(range(CELLS)) - never:
            mine = [*found[cell], times[-1]]
            assert all(later - earlier <= PERIOD for earlier, later in pairwise(mine))


def test_a_read_that_is_not_answered_is_made_again_once() -> None:
    """By the next run, if the bound allows. What answers then counts as read."""
    series = BookieReads(1_000).with_arc(Arc(0, CIRCLE // 16), 1_000 + DAY, PERIOD, [70, 90])
    plan = plan_at(1_000 + 2 * DAY, series)
    arc = plan.arc("b1", LARGE, 500)
    assert {70, 90, CIRCLE // 16} <= {place for place in (70, 90, CIRCLE // 16) if place in arc}
    bound = replace(plan, bytes_per_second=int(plan.rate_needed(LARGE, DAY)) + 1)
    assert CIRCLE // 16 in bound.arc("b1", LARGE, 500)
    assert 90 not in bound.arc("b1", LARGE, 500)
    later = series.with_arc(arc, 1_000 + 2 * DAY, PERIOD, [90])
    assert (UnansweredPlace(90, 1_000 + DAY, 0),) == later.unanswered
    assert 0 == later.length_unanswered
    assert 90 not in plan_at(1_000 + 3 * DAY, later).arc("b1", LARGE, 500)
    again = later.with_arc(WHOLE, 1_000 + 3 * DAY, PERIOD, [80])
    assert (UnansweredPlace(80, 1_000 + 3 * DAY, 1_000 + 2 * DAY),) == again.unanswered


def test_runs_each_hour_read_no_more_than_runs_each_night() -> None:
    """Some eleven of them count as one: each reads for the hour since the last, not since the
    first of these.
    """
    series, read, apart = BookieReads(1_000), 0, []
    for hour in range(1, 10 * 24 + 1):
        at = 1_000 + hour * DAY // 24
        arc = plan_at(at, series).arc("b1", LARGE, 0)
        read += arc.length
        here = [cell * (CIRCLE // CELLS) for cell in range(CELLS) if has(arc, cell)]
        apart += here[:1] if hour % 24 == 0 else []
        series = series.with_arc(arc, at, PERIOD, here[:1] if hour % 24 == 0 else ())
        assert at == series.newest_ms
        assert hour % 24 or series.length_unanswered > 0
        assert hour % 24 != 2 or series.length_unanswered == 0, "asked for again once"
    assert len(series.arcs) < 30
    assert 1 <= read / (10 * CIRCLE / 22.5) < 1.6


def test_runs_with_time_outs_each_night_read_at_most_about_twice_as_much() -> None:
    """Of what was read the night before, nothing is read again for them."""
    random, series, lengths = Random(3), BookieReads(1_000), []
    for night in range(1, 90):
        at = 1_000 + night * DAY
        arc = plan_at(at, series).arc("b1", LARGE, 500)
        lengths.append(arc.length)
        here = [cell * (CIRCLE // CELLS) for cell in range(CELLS) if has(arc, cell)]
        series = series.with_arc(arc, at, PERIOD, random.sample(here, 2))
    assert max(lengths) <= 2.7 * CIRCLE / 22.5


@pytest.mark.parametrize("days", [9, 12, 16, 20, 30])
def test_runs_that_are_far_apart_read_more(days: int) -> None:
    """As long as they are equally far apart, and no farther than the period."""
    times = [1_000 + number * days * DAY for number in range(12)]
    for mine in run_series(times):
        assert all(later - earlier <= PERIOD for earlier, later in pairwise([*mine, times[-1]]))


def test_nightly_runs_read_about_the_same_each_night() -> None:
    """A pass takes three quarters of the period."""
    series, lengths = BookieReads(1_000), []
    for night in range(1, 60):
        at = 1_000 + night * DAY
        arc = plan_at(at, series).arc("b1", LARGE, 500)
        lengths.append(arc.length)
        series = series.with_arc(arc, at, PERIOD)
    assert max(lengths) <= 1.3 * CIRCLE / 22.5
    assert min(lengths) >= CIRCLE // 22.5
    assert len(series.arcs) < 30


def test_the_bytes_of_a_run_stay_within_the_rate() -> None:
    """The lists of 400,000 segments take 200 s: at 1 MB a second, 200 MB of a bookie are read."""
    due = Due(1e8, 10, 1e12, 400_000)
    arc = plan_at(9 * DAY, BookieReads(1_000), 10**6).arc("b1", due, 500)
    cost = arc.length / CIRCLE * (1e12 + 1e8 * 4096)
    assert 150e6 < cost <= 200e6


def test_the_rate_that_is_said_to_suffice_suffices() -> None:
    """With it the bound does not shorten what the period needs."""
    due, series = Due(1e7, 10, 1e11, 400_000), BookieReads(1_000)
    plan = plan_at(1_000 + DAY, series)
    rate = plan.rate_needed(due, DAY)
    assert plan.length_needed(series) <= plan_at(0, series, int(rate) + 1).length_allowed(due)
    assert plan.length_needed(series) > plan_at(0, series, int(rate / 1.1)).length_allowed(due)


@pytest.mark.parametrize("copies", [7, 499, 4_000, 10**7])
def test_lists_are_tested_whatever_the_period(copies: int) -> None:
    """With a rate of 0, the reads that test lists remain, and go round the circle."""
    due, places = Due(copies, 2, copies * 100.0, 1), set()
    series = BookieReads(1_000)
    for night in range(1, 4):
        arc = plan_at(1_000 + night * DAY, series, 0).arc("b1", due, 500)
        assert 0 < copies * arc.length / CIRCLE <= 500
        places.add(arc.first)
        series = series.with_arc(arc, 1_000 + night * DAY, PERIOD)
    assert len(places) == (1 if copies < 500 else 3)


def test_a_bookie_that_is_new_is_only_tested() -> None:
    """Nothing of it can be overdue."""
    arc = plan_at(9 * DAY, None).arc("b1", Due(1e7, 2, 1e9, 9), 500)
    assert 1e7 * arc.length / CIRCLE <= 500


def test_a_bookie_of_which_the_first_shard_says_little_is_read_like_the_others() -> None:
    """It holds newer ledgers. The count of the last run says how many entries."""
    plan = replace(plan_at(9 * DAY, None), copies={"b2": 10**6, "b3": 10**6, "b4": 9})
    few = Due(3, 2, 300, 1)
    first = {"b1": Due(10**5, 2, 10**7, 9), "b2": few, "b5": few}
    arcs = plan.for_bookies(first, 10, 500).arcs
    assert arcs["b1"] == arcs["b2"] == arcs["b3"]
    assert arcs["b1"].length < arcs["b5"].length < CIRCLE // 100
    assert (0, CIRCLE) == (arcs["b4"].first, arcs["b4"].length)
    alone = plan.for_bookies(first, 1, 500).arcs
    assert (first.keys(), CIRCLE) == (alone.keys(), alone["b2"].length)
    assert {} == plan.for_bookies({}, 10, 500).arcs == plan.for_bookies(first, 1, 0).arcs
    row = VerifiedBookie("b1", VerifiedBy.READS, "", (), CopiesByAge(7))
    assert {"b1": 7} == copies_before(Verification(1, 1, 1, None, (row,)))


@pytest.mark.parametrize("off", [{"period_ms": 0}, {}], ids=["no period", "no spot reads"])
def test_the_reads_can_be_switched_off(off: dict[str, int]) -> None:
    """Without a period lists are tested where the last run ended; without spot reads nothing is
    read.
    """
    plan = replace(plan_at(9 * DAY, BookieReads(1, (ReadArc(Arc(64, 64), 2),))), **off)
    arc = plan.arc("b1", LARGE, 500 if off else 0)
    assert (arc.first, 0 < arc.length < CIRCLE / 10**6) == (128 if off else 0, bool(off))


@pytest.mark.parametrize("seed", range(25))
def test_what_is_kept_of_a_series_says_when_each_place_was_read(seed: int) -> None:
    """Arcs that were read again are dropped. Runs soon after one another count as the first."""
    random, at = Random(seed), 1_000
    series, last = BookieReads(at), dict.fromkeys(range(CELLS), 0)
    for _ in range(40):
        at += random.choice([DAY, PERIOD // 100, 3 * DAY])
        unit = CIRCLE // CELLS * random.choice([1, 4, 32])
        first = series.next_place // unit * unit
        arc = Arc(first, min(CIRCLE, unit * random.randint(1, 20)))
        series = series.with_arc(arc, at, PERIOD)
        last.update({cell: at for cell in range(CELLS) if has(arc, cell)})
    for cell in range(CELLS):
        kept = max((read.at_ms for read in series.arcs if has(read.arc, cell)), default=0)
        assert last[cell] - PERIOD / 64 <= kept <= last[cell]
    fresh = at - PERIOD // 2
    length = 0
    while length < CELLS:
        cell = (series.next_place * CELLS // CIRCLE - length - 1) % CELLS
        if max((r.at_ms for r in series.arcs if has(r.arc, cell)), default=0) < fresh:
            break
        length += 1
    assert length == series.length_since(fresh) * CELLS // CIRCLE


def test_the_whole_circle_and_an_arc_are_the_whole_circle() -> None:
    """Where runs soon after one another count as one."""
    for arcs in ((WHOLE, Arc(CIRCLE // 2, 64)), (Arc(CIRCLE // 2, 64), WHOLE)):
        series = BookieReads(1).with_arc(arcs[0], 5, PERIOD).with_arc(arcs[1], 6, PERIOD)
        assert (ReadArc(WHOLE, 5),) == series.arcs


def test_an_impossible_summary_begins_anew() -> None:
    """As one that was written by hand."""
    row = VerifiedBookie("b1", VerifiedBy.READS, "2026-01-01T00:00:00.000Z", ((64, 64, 7),))
    one = Verification(1, PERIOD, 0, None, (row,))
    series = BookieReads(1_767_225_600_000, (ReadArc(Arc(64, 64), 7),))
    assert {"b1": series} == reads_before(one)
    for arc in ((CIRCLE, 64, 7), (0, 0, 7), (0, CIRCLE + 1, 7)):
        assert {} == reads_before(replace(one, bookies=(replace(row, arcs=(arc,)),)))
    apart = replace(row, unanswered=((70, 7, 0),))
    known = replace(series, unanswered=(UnansweredPlace(70, 7, 0),))
    assert {"b1": known} == reads_before(replace(one, bookies=(apart,)))
    outside = replace(row, unanswered=((CIRCLE, 7, 0),))
    assert {} == reads_before(replace(one, bookies=(outside,)))
    assert {} == reads_before(None)


def test_a_series_goes_on_as_it_began() -> None:
    """An arc means other copies under another seed, and under another way to draw starts. What an
    unknown version drew says nothing about a copy.
    """
    row = VerifiedBookie("b1", VerifiedBy.READS, "2026-01-01T00:00:00.000Z", ((64, 64, 7),))
    for way in (BLAKE2B, MIXED):
        stored = Verification(9, PERIOD, 0, None, (row,), way)
        assert Starts(9, way) == starts_before(stored)
        assert ["b1"] == list(reads_before(stored))
        plan = ReadingPlan(9, 1, PERIOD, before=reads_before(stored), way=way)
        assert plan.starts == starts_before(stored)
    unknown = Verification(9, PERIOD, 0, None, (row,), MIXED + 1)
    assert starts_before(unknown) is None and {} == reads_before(unknown)
    unread = Verification(9, PERIOD, 0, None, (replace(row, arcs=()),), BLAKE2B)
    assert starts_before(unread) is None is starts_before(None)

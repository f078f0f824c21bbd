"""The sweep: which ranks a run reads, and the probability that it hits a run of lost entries."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from random import Random

import pytest

from auditor.first_checker.entry_set import EMPTY, EntrySet
from auditor.first_checker.probing import (
    STEP_MAX,
    SWEPT_ENTRIES_MAX,
    Draw,
    first_rank,
    hit_probability,
    place,
    step_within,
    swept_entries,
)
from auditor.model.evidence import Sweep

LEDGER, BOOKIE = 7, "b1"
LENGTHS = (1, 2, 3, 5, 8, 10, 16, 40)


def hits(draws: Iterable[Draw], start: int, first: int, length: int) -> bool:
    """Return whether some run reads one of `length` ranks from `first` on, by the definition of a
    draw.
    """
    lost = range(first, first + length)
    return any((rank - start - place(draw)) % draw.step == 0 for draw in draws for rank in lost)


def enumerated(draws: list[Draw], length: int, first: int) -> Fraction:
    """Return the share of all starting ranks with which this run of lost ranks is hit."""
    circle = max(draw.step for draw in draws)
    return Fraction(sum(hits(draws, start, first, length) for start in range(circle)), circle)


@pytest.mark.parametrize("step", [1, 2, 4, 8, 32])
def test_one_run_hits_a_run_of_lost_entries_as_often_as_promised(step: int):
    """The probability is min(1, L / step) over every starting rank, wherever the loss lies:
    enumerated.
    """
    for turn, length, first in itertools.product((0, 1, 5), LENGTHS, (0, 1, 17)):
        due = min(Fraction(1), Fraction(length, step))
        assert due == enumerated([Draw(step, turn)], length, first)
        assert float(due) == hit_probability([Draw(step, turn)], length)


@pytest.mark.parametrize("seed", range(40))
def test_runs_together_hit_as_often_as_promised(seed: int):
    """This holds for any runs with any steps, gaps and repetitions: enumerated, for losses at any
    place.
    """
    draw = Random(f"draws {seed}")
    draws = [Draw(2 ** draw.randrange(7), draw.randrange(200)) for _ in range(draw.randrange(1, 9))]
    for length in LENGTHS:
        first = draw.randrange(1_000)
        assert float(enumerated(draws, length, first)) == hit_probability(draws, length), (
            seed,
            draws,
            length,
        )


@pytest.mark.parametrize("step", [1, 2, 8, 64])
def test_as_many_turns_as_the_step_read_every_entry(step: int):
    """This holds from any turn on. Half as many turns find two neighbours for certain."""
    for begin in (0, 1, 5, 1_000_003):
        turns = [Draw(step, begin + n) for n in range(step)]
        assert list(range(step)) == sorted(map(place, turns))
        assert 1.0 == hit_probability(turns, 1)
    aligned = [Draw(64, n) for n in range(32)]
    assert (0.5, 1.0) == (hit_probability(aligned, 1), hit_probability(aligned, 2))


def test_further_runs_never_lower_the_probability_and_longer_losses_never_do():
    """A bound that adds up over runs only becomes tighter."""
    draw = Random("monotone")
    for _ in range(50):
        draws = [Draw(2 ** draw.randrange(9), draw.randrange(300)) for _ in range(6)]
        by_runs = [hit_probability(draws[:n], 3) for n in range(len(draws) + 1)]
        by_length = [hit_probability(draws, length) for length in LENGTHS]
        assert (by_runs, by_length) == (sorted(by_runs), sorted(by_length))


def test_turns_in_a_row_beat_independent_draws():
    """After half a series a single entry was read with probability 1/2; independent draws would
    give at most 1 - 1/sqrt(e).
    """
    assert 0.5 == hit_probability([Draw(1024, n) for n in range(512)], 1)
    assert 1 - (1 - 1 / 1024) ** 512 < 0.4


def test_without_runs_nothing_is_hit():
    assert 0.0 == hit_probability([], 1_000)


def test_what_is_read_is_what_the_draw_says():
    """Every step-th entry that the bookie should hold is read, in stripes and across segments."""
    share = EntrySet.join([EntrySet.stripe(0, 59, 3, [(0, 2)]), EntrySet.span(100, 139)])
    entries = [entry for first, last in share.runs() for entry in range(first, last + 1)]
    for step, turn in itertools.product((1, 2, 8, 32), (0, 1, 7)):
        sweep = Sweep(11, turn, 100, step)
        start = (first_rank(sweep, LEDGER, BOOKIE) - place(Draw(step, turn))) % step
        due = [
            entry for rank, entry in enumerate(entries) if hits([Draw(step, turn)], start, rank, 1)
        ]
        assert due == list(swept_entries(sweep, LEDGER, BOOKIE, share))
    assert [] == list(swept_entries(Sweep(11, 0, 100, 2), LEDGER, BOOKIE, EMPTY))
    assert [] == list(swept_entries(Sweep(11, 0, 100, 0), LEDGER, BOOKIE, share))


def test_counting_starts_everywhere_equally_often():
    """Over ledgers, bookies and series: a chi-squared test with a bound that chance passes once in
    10^6.
    """
    sweeps = (
        (Sweep(seed, 3, 1, 16), ledger, f"b{bookie}")
        for seed in range(20)
        for ledger in range(40)
        for bookie in range(4)
    )
    found = Counter(first_rank(*one) for one in sweeps)
    due = 20 * 40 * 4 / 16
    assert 16 == len(found) and 57 > sum((count - due) ** 2 / due for count in found.values())


def test_an_upgrade_does_not_change_where_counting_starts():
    """Otherwise the runs of a series would not add up: a bound is about what all of them read."""
    seen = [first_rank(Sweep(11, turn, 100, 1 << 20), LEDGER, BOOKIE) for turn in (0, 1, 6)]
    assert [550482, 26194, 943698] == seen


def test_losses_of_simulated_clusters_are_found_as_often_as_promised():
    """A fixed loss and many series: the share that reads it in the first three turns is right
    within five sigma.
    """
    share, step, length, series = EntrySet.span(0, 999), 128, 10, 3_000
    lost, found = range(333, 333 + length), 0
    for seed in range(series):
        read = {
            e
            for turn in range(3)
            for e in swept_entries(Sweep(seed, turn, 1, step), LEDGER, BOOKIE, share)
        }
        found += not read.isdisjoint(lost)
    due = hit_probability([Draw(step, turn) for turn in range(3)], length)
    assert abs(found / series - due) < 5 * math.sqrt(due * (1 - due) / series), (
        f"seeds 0 to {series}: {found}, due {due}"
    )


def test_a_ledger_that_claims_too_many_entries_is_not_swept():
    """Otherwise metadata with a few wrong bits could use up the budget of all ledgers."""
    assert [] == list(
        swept_entries(Sweep(1, 0, 1, STEP_MAX), 1, "b", EntrySet.span(0, SWEPT_ENTRIES_MAX))
    )
    most = list(
        swept_entries(Sweep(1, 0, 1, STEP_MAX), 1, "b", EntrySet.span(0, SWEPT_ENTRIES_MAX - 1))
    )
    assert SWEPT_ENTRIES_MAX // STEP_MAX == len(most)


@pytest.mark.parametrize(
    ("budget", "copies", "step"),
    [
        (0, 100, 0), (100, 0, 0), (100, 100, 1), (100, 101, 4), (10_000, 10_000, 1),
        (10_000, 10_001, 2), (10_000, 18_700, 2),
        (10_000, 20_000, 4), (10_000, 33_000_000, 4096), (10_000, 9_000.0 * STEP_MAX, STEP_MAX),
        (10_000, 10_000.0 * STEP_MAX, 0), (5, 6, 0), (1, 1, 1), (25, 29.6, 8), (25, 32, 16),
        (-1, 100, 0),
    ],
)  # fmt: skip
def test_the_step_is_the_smallest_that_keeps_the_budget(budget: int, copies: float, step: int):
    """The step is 1 if the entries fit; otherwise the densest sweep that stays within the budget
    almost certainly; or none.
    """
    assert step == step_within(budget, copies)


def test_draws_stay_within_the_budget():
    """For ledgers of all sizes, by whole sweeps of one bookie."""
    draw, sizes = Random("budget"), [1, 3, 10, 50, 300, 2_000]
    for budget in (50, 200, 1_000):
        shares = [EntrySet.span(0, draw.choice(sizes)) for _ in range(200)]
        step = step_within(budget, sum(share.count() for share in shares))
        for turn in range(20):
            sweep = Sweep(3, turn, budget, step)
            read = sum(
                len(list(swept_entries(sweep, n, BOOKIE, share))) for n, share in enumerate(shares)
            )
            assert 0 < read <= budget

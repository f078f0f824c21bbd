"""The search for a period returns the one that is least likely by chance, with exact ends, or
none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from auditor.evidence.ids import Ids
from auditor.summary.causes.contrast import Contrast
from auditor.summary.causes.exact_test import upper_tail
from auditor.summary.causes.periods import PERIOD_EDGES_MAX, Births, Period, find_period

Moment = tuple[int, int, int]
"""A time in ms; how many of the ledgers created then are hit, and how many there are."""


def period_in(moments: Sequence[Moment], candidates: int = 1) -> Period | None:
    hit_ms = np.array([at for at, hit, _ in moments for _ in range(hit)], np.int64)

    def all_in(edges: Ids) -> Ids:
        counts = np.zeros(len(edges) + 1, np.int64)
        for at, _, there in moments:
            counts[np.searchsorted(edges, at, side="right")] += there
        return counts

    return find_period(np.sort(hit_ms), all_in, candidates, 3)


def ends_of(moments: Sequence[Moment]) -> tuple[int, int] | None:
    found = period_in(moments)
    return found and (found.first_ms, found.last_ms)


@pytest.mark.parametrize(
    ("expected", "moments"),
    [
        (
            (5, 5),
            [(5, 75, 100), (9, 250, 1_000)],
        ),  # three quarters, and three times the others' share: just enough
        (None, [(5, 74, 100), (9, 240, 1_000)]),  # less than three quarters
        (None, [(5, 75, 100), (9, 251, 1_000)]),  # less than three times
        ((5, 5), [(5, 2_000, 2_000), (9, 0, 1)]),  # one other ledger is enough to compare with
        (None, [(5, 2_000, 2_000)]),  # there are no others to compare with
        (
            (6, 6),
            [(5, 760, 1_000), (6, 20, 20), (9, 2_600, 10_000)],
        ),  # (5, 6) is less likely, but has too little contrast
        (
            (3, 4),
            [(1, 0, 500), (3, 30, 30), (4, 30, 30), (5, 0, 1), (9, 0, 500)],
        ),  # the next ms is outside
        ((3, 3), [(3, 30, 30), (7, 0, 900), (9, 30, 30)]),  # the earliest of equals
        (
            (3, 7),
            [(1, 0, 500), (3, 40, 40), (5, 4, 5), (7, 40, 40), (9, 1, 500)],
        ),  # ledgers between the ends belong to it
        (None, [(1, 0, 500), (3, 1, 1), (9, 0, 400)]),  # one of nine hundred may be chance
        ((3, 3), [(1, 0, 500_000), (3, 1, 1), (9, 0, 500_000)]),  # one of a million may not
    ],
)
def test_the_period_is_the_least_likely_with_enough_contrast(
    expected: tuple[int, int] | None, moments: Sequence[Moment]
):
    """At least three quarters of its ledgers are hit, and their share is at least three times the
    share at other times.
    """
    assert expected == ends_of(moments)


def log_likelihood(hit: int, of: int) -> float:
    """Return the log-likelihood of `hit` hits among `of` ledgers that are each hit with that
    share.
    """
    parts = [(hit, hit), (of - hit, of - hit)]
    return sum(number * np.log(part / of) for number, part in parts if number)


def test_the_period_agrees_with_trying_each():
    """Each period that begins and ends at a hit ledger is compared. The seed is in the message."""
    found_any = 0
    for seed in range(200):
        draw = np.random.default_rng(seed)
        there = draw.integers(1, 12, 9)
        low, high = sorted(draw.integers(0, 9, 2).tolist())
        share = np.where(
            (np.arange(9) >= low) & (np.arange(9) <= high),
            draw.choice([0.85, 0.97, 1.0]),
            draw.choice([0, 0.05]),
        )
        hit = draw.binomial(there, share)
        moments = [(10 * n, int(hit[n]), int(there[n])) for n in range(9)] + [(100, 0, 200)]
        best: tuple[float, tuple[int, int] | None] = (1e-9, None)
        all_hit, every = sum(h for _, h, _ in moments), sum(c for _, _, c in moments)
        at = [n for n in range(9) if hit[n]]
        for first, last in ((one, other) for one in at for other in at if one <= other):
            mine, here = int(hit[first : last + 1].sum()), int(there[first : last + 1].sum())
            rest_hit, rest = all_hit - mine, every - here
            ratio = (
                log_likelihood(mine, here)
                + log_likelihood(rest_hit, rest)
                - log_likelihood(all_hit, every)
            )
            if (
                mine * rest >= 3 * rest_hit * here
                and 4 * mine >= 3 * here
                and ratio > best[0] + 1e-9
            ):
                best = ratio, (10 * first, 10 * last)
        found = period_in(moments)
        found_any += found is not None
        assert found is None or best[1] == (found.first_ms, found.last_ms), seed
    assert found_any > 100, "too few periods were found to compare"


def test_every_period_that_was_searched_counts_as_a_candidate():
    """Hit ledgers at three moments make six periods. A ledger created 1 ms after a period is
    outside.
    """
    found = period_in([(1, 1, 400), (3, 30, 30), (4, 0, 1), (9, 1, 499)], candidates=7)
    assert found is not None
    chance = 6 * 7 * upper_tail(30, 30, 32, 930)
    assert (30, 30, 2, 900, 3) == (
        found.contrast.touched_hit, found.contrast.touched, found.contrast.others_hit,
        found.contrast.others, found.explained,
    )  # fmt: skip
    assert chance == pytest.approx(found.contrast.p_value, rel=1e-9, abs=0)


def test_up_to_the_bound_the_ends_are_exact():
    """Below PERIOD_EDGES_MAX hits a period is found to the millisecond between scattered hits."""
    moments = [
        (at, 1, 1 if 3_000 <= at < 3_400 else 20)
        for at in (*range(0, 3_000, 10), *range(3_000, 3_400), *range(3_400, 6_000, 10))
    ]
    assert 400 < len(moments) < PERIOD_EDGES_MAX
    assert (3_000, 3_399) == ends_of(moments)


def test_without_hits_there_is_no_period():
    """The only ledgers are sound."""
    assert None is ends_of([(1, 0, 100)])


def test_the_ledgers_of_a_period_are_those_created_in_it():
    """Both ends belong to it. Ledgers whose birth is unknown do not."""
    births = Births(np.array([1, 2, 3, 4, 5]), np.array([10, 20, 30, 40, 25]))
    period = Period(20, 30, Contrast(1, 1, 0, 1))
    assert [2, 3] == births.within(np.array([1, 2, 3, 4, 9]), period).tolist()
    assert [20, 25, 40] == births.times_of(np.array([2, 4, 5, 9])).tolist()

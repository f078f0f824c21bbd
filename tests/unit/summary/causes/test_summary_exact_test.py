"""The one-sided exact test: it agrees with counting, and its cost is bounded."""

from __future__ import annotations

import math
import random
import time
from fractions import Fraction
from itertools import pairwise

import pytest

from auditor.summary.causes.exact_test import upper_tail


def count_tail(hit: int, touched: int, all_hit: int, total: int) -> Fraction:
    """Return the probability by its definition: the draws with `hit` hits or more among all
    draws.
    """
    many = range(hit, min(touched, all_hit) + 1)
    draws = sum(math.comb(all_hit, x) * math.comb(total - all_hit, touched - x) for x in many)
    return Fraction(draws, math.comb(total, touched))


def test_every_table_of_up_to_nine_things():
    """The result agrees with counting in each of them."""
    for total in range(10):
        for all_hit in range(total + 1):
            for touched in range(total + 1):
                for hit in range(touched + 1):
                    expected = float(count_tail(hit, touched, all_hit, total))
                    assert upper_tail(hit, touched, all_hit, total) == pytest.approx(expected,
                    rel=1e-9, abs=1e-12), (
                        hit, touched, all_hit, total,
                    )  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_large_tables_agree_with_counting(seed: int):
    """The tables are random, have up to 2,000 things and cover both tails. The seed is in the
    message.
    """
    draw = random.Random(seed)
    for _ in range(60):
        total = draw.randint(10, 2_000)
        all_hit, touched = draw.randint(0, total), draw.randint(0, total)
        hit = draw.randint(max(0, touched + all_hit - total), min(touched, all_hit))
        expected = float(count_tail(hit, touched, all_hit, total))
        found = upper_tail(hit, touched, all_hit, total)
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-12), (
            seed,
            hit,
            touched,
            all_hit,
            total,
        )


def test_the_tail_falls_with_every_hit():
    """More hits are never more likely."""
    tails = [upper_tail(hit, 5_000, 20_000, 1_000_000) for hit in range(400)]
    assert 1.0 == tails[0] and all(more <= fewer + 1e-12 for fewer, more in pairwise(tails))


def test_ten_million_things_cost_milliseconds():
    """The tails are longest at the mode. Far from it the probability is smaller than any double."""
    begun = time.process_time()
    for hit in (1, 2_499_000, 2_500_000, 2_500_001, 2_510_000):
        assert 0 <= upper_tail(hit, 5_000_000, 5_000_000, 10_000_000) <= 1
    assert 0 <= upper_tail(1, 10_000_000, 10_000_000, 20_000_000) <= 1
    assert time.process_time() - begun < 1
    assert 0 == upper_tail(400_000, 400_000, 400_001, 10_000_000)
    assert 0.5 == pytest.approx(upper_tail(2_500_000, 5_000_000, 5_000_000, 10_000_000), abs=1e-3)


def test_what_is_unlikely_is_exact_in_its_first_digits():
    """A probability of 10^-40 is not 0: it is multiplied by the number of candidates later."""
    for hit, touched, all_hit, total in (
        (50, 50, 100, 1_000),
        (40, 60, 100, 1_000),
        (30, 30, 30, 500),
    ):
        expected = float(count_tail(hit, touched, all_hit, total))
        assert upper_tail(hit, touched, all_hit, total) == pytest.approx(expected, rel=1e-6, abs=0)


def test_no_probability_is_above_one():
    """It is not below 0 either, however the logarithms are rounded."""
    for exponent in range(3, 12):
        total = 10**exponent
        for touched in (1, 2, 3):
            assert 0 <= upper_tail(touched, touched, total - 1, total) <= 1

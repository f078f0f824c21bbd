"""Sets of entries as integers, against sets of numbers."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from support.entry_words import bits_of, numbers_of

from auditor.second_checker.blocks import (
    FEW,
    WINDOW,
    WINDOW_MAX,
    BitCounts,
    all_bits,
    bits_at,
    lowest_of,
    positions_of,
    repeat_bits,
    runs_of,
)

SEEDS = range(100)


def runs(entries: set[int]) -> list[tuple[int, int]]:
    """Return the maximal runs of some entries: for each entry, check whether its neighbours are in
    the set.
    """
    firsts = sorted(entry for entry in entries if entry - 1 not in entries)
    lasts = sorted(entry for entry in entries if entry + 1 not in entries)
    return list(zip(firsts, lasts, strict=True))


@pytest.mark.parametrize("period", [1, 2, 3, 7, 64, 257])
def test_a_pattern_begins_again_every_period(period: int) -> None:
    """It repeats up to the length, whether that is shorter than a period or many periods."""
    for seed in range(20):
        draw = Random(seed)
        pattern = draw.getrandbits(period)
        for length in (1, period - 1, period, period + 1, draw.randint(1, 9 * period)):
            expected = {at for at in range(length) if pattern >> at % period & 1}
            assert bits_of(expected) == repeat_bits(pattern, period, length), f"seed {seed}"


@pytest.mark.parametrize("count", [0, 1, FEW, FEW + 1, 99])
def test_positions_in_any_order_are_a_set_and_come_back_ascending(count: int) -> None:
    """This holds for few positions and for many."""
    for seed in range(20):
        positions = Random(seed).sample(range(100), count)
        found = bits_at(positions, 100)
        assert bits_of(positions) == found, f"seed {seed}"
        assert sorted(positions) == positions_of(found).tolist(), f"seed {seed}"
        assert not positions or min(positions) == lowest_of(found), f"seed {seed}"


def test_the_first_runs_of_a_set_are_whole() -> None:
    """As many as are requested are returned, for sets with runs at every place of the first
    windows.
    """
    for seed in SEEDS:
        draw = Random(seed)
        bits = draw.getrandbits(300) & draw.choice([draw.getrandbits(300), (1 << 300) - 1])
        every = runs({at for at in range(300) if bits >> at & 1})
        assert every == runs_of(bits), f"seed {seed}"
        for most in range(len(every) + 2):
            assert every[:most] == runs_of(bits, most), f"seed {seed}"
    assert [(0, 200)] == runs_of((1 << 201) - 1, 1)


def test_the_runs_of_a_set_are_maximal_and_ascend() -> None:
    """Runs are within the first windows, across their borders and far behind them, with gaps longer
    than a window; or there are none.
    """
    assert [] == runs_of(0)
    for seed in SEEDS:
        draw = Random(seed)
        entries, at = set[int](), 0
        for _ in range(draw.randint(1, 40)):
            at += draw.choice([0, 1, 2, WINDOW - 1, WINDOW, 3 * WINDOW])
            length = draw.choice([1, 2, WINDOW, 2 * WINDOW + 1])
            entries |= set(range(at, at + length))
            at += length
        assert runs(entries) == runs_of(bits_of_runs(runs(entries))), f"seed {seed}"


@pytest.mark.parametrize("shift", [0, 1, WINDOW, WINDOW_MAX])
def test_a_run_longer_than_any_window_is_one_run(shift: int) -> None:
    """It may begin anywhere, and another run may follow it."""
    long = (shift, shift + 3 * WINDOW_MAX)
    behind = (shift + 3 * WINDOW_MAX + 2, shift + 3 * WINDOW_MAX + 3)
    assert [long, behind] == runs_of(bits_of_runs([long, behind]))


def bits_of_runs(of: list[tuple[int, int]]) -> int:
    """Return the set of all entries of these runs."""
    return sum(all_bits(last - first + 1) << first for first, last in of)


def test_each_entry_is_counted_once_for_each_set_that_has_it() -> None:
    """None to twenty sets of up to 50 entries."""
    for seed in SEEDS:
        draw = Random(seed)
        length, count = draw.randint(1, 50), draw.randint(0, 20)
        sets = [{at for at in range(length) if draw.random() < 0.6} for _ in range(count)]
        number = Counter(at for one in sets for at in one)
        counts = BitCounts.of(all_bits(length), map(bits_of, sets))
        assert [number[at] for at in range(length)] == numbers_of(counts), f"seed {seed}"
        for most in range(-2, 40):
            few = {at for at in range(length) if number[at] <= most}
            assert bits_of(few) == counts.at_most(most), f"seed {seed}"
        among = {at for at in range(length) if draw.random() < 0.3} or {0}
        lowest = min(number[at] for at in among)
        expected = bits_of({at for at in among if number[at] == lowest})
        assert (lowest, expected) == counts.lowest_among(bits_of(among)), f"seed {seed}"

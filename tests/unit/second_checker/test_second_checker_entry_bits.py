"""Sets of entries as integers, against sets of numbers."""

from __future__ import annotations

import pytest

from auditor.second_checker.blocks import (
    WINDOW,
    WINDOW_MAX,
    all_bits,
    runs_of,
)


def runs(entries: set[int]) -> list[tuple[int, int]]:
    """Return the maximal runs of some entries: for each entry, check whether its neighbours are in
    the set.
    """
    firsts = sorted(entry for entry in entries if entry - 1 not in entries)
    lasts = sorted(entry for entry in entries if entry + 1 not in entries)
    return list(zip(firsts, lasts, strict=True))


@pytest.mark.parametrize("shift", [0, 1, WINDOW, WINDOW_MAX])
def test_a_run_longer_than_any_window_is_one_run(shift: int) -> None:
    """It may begin anywhere, and another run may follow it."""
    long = (shift, shift + 3 * WINDOW_MAX)
    behind = (shift + 3 * WINDOW_MAX + 2, shift + 3 * WINDOW_MAX + 3)
    assert [long, behind] == runs_of(bits_of_runs([long, behind]))


def bits_of_runs(of: list[tuple[int, int]]) -> int:
    """Return the set of all entries of these runs."""
    return sum(all_bits(last - first + 1) << first for first, last in of)

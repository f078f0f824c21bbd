"""Which entries of a block the groups of a list name, against the definition of a group."""

from __future__ import annotations

from random import Random

import pytest
from support.entry_words import bits_of

from auditor.second_checker.blocks import FEW
from auditor.second_checker.holdings import Group, is_listed, listed_bits


def any_groups(draw: Random, count: int) -> tuple[Group, ...]:
    """Return so many disjoint groups from some entry on: single runs, runs that touch, runs
    apart.
    """
    found, at = list[Group](), draw.randint(0, 5)
    for _ in range(count):
        size, runs = draw.randint(1, 5), draw.choice([1, 1, 2, 3, 20])
        period = size + draw.randint(0, 4) if runs > 1 else 0
        found.append(Group(at, at + (runs - 1) * period, size, period))
        at = found[-1].end + 1 + draw.randint(0, 4)
    return tuple(found)


def entries_of(groups: tuple[Group, ...]) -> set[int]:
    """Return every entry that the groups name."""
    return {
        run + place
        for one in groups
        for run in range(one.first, one.last + 1, one.period or 1)
        for place in range(one.size)
    }


@pytest.mark.parametrize("count", [1, 2, FEW, FEW + 1, 60])
def test_a_list_names_the_entries_of_its_groups_in_any_block(count: int) -> None:
    """Lists have few groups or many, and blocks from one entry to all of them. A failure names the
    seed.
    """
    for seed in range(60):
        draw = Random(seed)
        groups = any_groups(draw, count)
        named, end = entries_of(groups), groups[-1].end
        for _ in range(10):
            low = draw.randint(0, end + 3)
            high = low + draw.choice([0, 1, draw.randint(0, 20), draw.randint(0, end + 9)])
            inside = {entry - low for entry in named if low <= entry <= high}
            assert bits_of(inside) == listed_bits(groups, low, high), f"seed {seed}"
            assert (low in named) is is_listed(groups, low), f"seed {seed}"


def test_runs_of_a_billion_entries_are_gone_through_as_far_as_the_block_goes() -> None:
    """Two such runs, one entry apart: a block of five around that entry, and a block of their last
    two entries and of many groups after them.
    """
    size = 10**9
    long = Group(0, size + 1, size, size + 1)
    assert 0b11011 == listed_bits((long,), size - 2, size + 2)
    single = tuple(Group(long.end + at, long.end + at, 1, 0) for at in range(2, 2 * FEW + 2, 2))
    many = bits_of({0, 1, *range(3, 2 * FEW + 3, 2)})
    assert many == listed_bits((long, *single), long.end - 1, long.end + 3 * FEW)

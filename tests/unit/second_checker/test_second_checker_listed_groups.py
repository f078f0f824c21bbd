"""Which entries of a block the groups of a list name, against the definition of a group."""

from __future__ import annotations

from support.entry_words import bits_of

from auditor.second_checker.blocks import FEW
from auditor.second_checker.holdings import Group, listed_bits


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

"""Arrays of numbers, each once and in order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from auditor.evidence.ids import are_among, distinct_numbers, last_of_each, missing_numbers

NUMBERS = st.lists(st.integers(0, 5) | st.integers(-(2**63), 2**63 - 1))


@given(NUMBERS)
def test_distinct_numbers_are_those_of_a_set_in_order(numbers: list[int]) -> None:
    """The least and the largest number of 64 bits count too; an empty array stays empty."""
    assert distinct_numbers(np.array(numbers, np.int64)).tolist() == sorted(set(numbers))


@given(NUMBERS)
def test_the_last_of_equal_numbers_has_another_or_none_behind_it(numbers: list[int]) -> None:
    """Each number is the last of its equals exactly once."""
    in_order = sorted(numbers)
    last = last_of_each(np.array(in_order, np.int64)).tolist()
    assert [
        index + 1 == len(in_order) or in_order[index + 1] != number
        for index, number in enumerate(in_order)
    ] == last


@given(NUMBERS, NUMBERS)
def test_missing_numbers_are_the_difference_of_two_sets(one: list[int], other: list[int]) -> None:
    found = missing_numbers(np.array(one, np.int64), np.array(other, np.int64))
    assert found.tolist() == sorted(set(one) - set(other))


def test_numbers_that_are_given_stay_as_they_were() -> None:
    """The caller's array is not sorted in place: rows beside it would be of other ledgers."""
    numbers = np.array([3, 1, 3], np.int64)
    assert ([1, 3], [3, 1, 3]) == (distinct_numbers(numbers).tolist(), numbers.tolist())


@given(NUMBERS, NUMBERS)
def test_the_numbers_among_ids_are_those_that_a_set_has(some: list[int], ids: list[int]) -> None:
    """Numbers may come twice and in any order; none is among no ids."""
    found = are_among(np.array(some, np.int64), distinct_numbers(np.array(ids, np.int64)))
    assert [number in set(ids) for number in some] == found.tolist()

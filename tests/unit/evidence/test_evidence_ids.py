"""Arrays of numbers, each once and in order."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from auditor.evidence.ids import (
    Shard,
    are_among,
    cut_shards,
    distinct_numbers,
    first_of_each_group,
    join_shards,
    last_of_each,
    missing_numbers,
    places_by_code,
)
from auditor.model.identity import LEDGER_ID_MAX

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


COUNTS = st.lists(st.integers(0, 12), min_size=1, max_size=12)


@given(COUNTS, st.integers(0, 20))
def test_groups_are_as_long_as_their_sum_allows(counts: list[int], sum_max: int) -> None:
    """A group holds more than the limit only if it is a single one, and none could take the first
    of the next.
    """
    firsts = first_of_each_group(counts, sum_max)
    ends = [*firsts[1:], len(counts)]
    groups = [counts[first:end] for first, end in zip(firsts, ends, strict=True)]
    assert counts == [count for group in groups for count in group] and all(groups)
    assert all(sum(group) <= sum_max or len(group) == 1 for group in groups)
    for group, after in pairwise(groups):
        assert sum(group) + after[0] > sum_max
    assert first_of_each_group(counts, sum_max) == firsts


@given(COUNTS, st.integers(0, 20))
def test_joined_shards_cover_every_id_once(counts: list[int], sum_max: int) -> None:
    """They begin at the first id, end at the last, and each has the number of its first shard."""
    ids = pa.chunked_array([pa.array(range(1, 3 * len(counts) + 1), pa.int64())])
    shards = cut_shards(ids, 3)
    joined = join_shards(shards, first_of_each_group(counts, sum_max))
    assert (0, LEDGER_ID_MAX) == (joined[0].first, joined[-1].last)
    assert [one.last + 1 for one in joined[:-1]] == [one.first for one in joined[1:]]
    assert {one.first: one.number for one in joined}.items() <= {
        one.first: one.number for one in shards
    }.items()
    assert join_shards(shards, range(len(shards))) == shards


def test_neighbours_with_few_go_together() -> None:
    """One with more than the limit goes alone; those without any go with what is before them."""
    firsts = first_of_each_group([400, 600, 1, 0, 5000, 0, 999], 1000)
    assert [0, 2, 4, 5] == firsts
    shards = [Shard(number, 10 * number, 10 * number + 9) for number in range(7)]
    assert [Shard(0, 0, 19), Shard(2, 20, 39), Shard(4, 40, 49), Shard(5, 50, 69)] == join_shards(
        shards, firsts
    )


@given(st.lists(st.integers(-1, 5)), st.integers(0, 4) | st.just(2**15))
def test_the_places_of_each_code_are_those_where_it_stands(codes: list[int], count: int) -> None:
    """Codes for which no place is wanted are left out. There may be more than 16 bits can count."""
    found = [some.tolist() for some in places_by_code(np.array(codes, np.int64), count)]
    assert count == len(found)
    wanted = [[at for at, one in enumerate(codes) if one == code] for code in range(min(6, count))]
    assert wanted == found[:6]
    assert not any(found[6:])


def test_codes_may_be_many() -> None:
    """A cluster with more bookies than 16 bits can count has each of them."""
    codes = np.arange(2**16, dtype=np.int64)[::-1]
    *_, last = places_by_code(codes, 2**16)
    assert [0] == last.tolist()

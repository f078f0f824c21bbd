"""Arrays of distinct, sorted ledger ids, and ranges of ids.

A run handles such ranges (shards) one by one. A killed run keeps the shards that are done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from auditor.model.identity import LEDGER_ID_MAX, LedgerId

Ids: TypeAlias = npt.NDArray[np.int64]
"""Ledger ids, distinct and ascending."""


def distinct_numbers(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the distinct numbers, ascending. Costs a sort.

    `numpy.unique` hashes them before it sorts, which takes some 40 times as long for millions of
    distinct ones.
    """
    in_order = np.sort(numbers)
    return in_order[last_of_each(in_order)]


def missing_numbers(
    numbers: npt.NDArray[np.int64], others: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the distinct numbers that are not among the others, ascending. Costs a sort of both:
    `numpy.setdiff1d` hashes them before.
    """
    found: npt.NDArray[np.int64] = np.setdiff1d(
        distinct_numbers(numbers), distinct_numbers(others), assume_unique=True
    )
    return found


def are_among(numbers: npt.NDArray[np.int64], ids: Ids) -> npt.NDArray[np.bool_]:
    """Return a mask of the numbers that are among the ids. Costs a search for each number, however
    often it is called: `numpy.isin` and the set functions sort or hash all ids at each call.
    """
    if not len(ids):
        return np.zeros(len(numbers), np.bool_)
    found: npt.NDArray[np.bool_] = (
        ids[np.minimum(np.searchsorted(ids, numbers), len(ids) - 1)] == numbers
    )
    return found


def places_by_code(
    codes: npt.NDArray[np.integer[Any]], count: int
) -> Iterator[npt.NDArray[np.intp]]:
    """Yield the places of each code from 0 to `count - 1`, ascending. Those of -1 are left out.

    All codes are between these. Costs a sort of them. That of 16-bit numbers takes a tenth of the
    time of others.
    """
    few = codes.astype(np.int16 if count < 2**15 else np.int64)
    in_order = np.argsort(few, kind="stable")
    bounds = np.searchsorted(few, np.arange(count + 1), sorter=in_order)
    for first, end in pairwise(bounds):
        yield in_order[first:end]


def last_of_each(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return a mask of the last of each group of equal numbers. `numbers` are sorted."""
    return np.append(numbers[1:] != numbers[:-1], True)[: len(numbers)]


def newest_rows(rows: pa.Table) -> pa.Table:
    """Return the row of the last look of each ledger, by ascending ledger id.

    `rows` have the columns `ledger_id` and `look`, and come in any order. Costs a sort.
    """
    return rows.take(pa.array(newest_row_numbers(rows)))


def newest_row_numbers(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Return the numbers of the rows that `newest_rows` returns, in their order."""
    ids = rows["ledger_id"].to_numpy()
    if bool((ids[1:] > ids[:-1]).all()):
        return np.arange(len(ids))
    order = np.lexsort((rows["look"].to_numpy(), ids))
    newest: npt.NDArray[np.int64] = order[last_of_each(ids[order])]
    return newest


@dataclass(frozen=True, slots=True)
class Shard:
    """The ledgers from `first` to `last`, inclusive.

    The shards of a run cover every possible ledger id exactly once.
    """

    number: int
    first: LedgerId = 0
    last: LedgerId = LEDGER_ID_MAX

    @property
    def is_all(self) -> bool:
        """Whether this is the only shard of its run."""
        return self.first == 0 and self.is_last

    @property
    def is_last(self) -> bool:
        """Whether the run has no shard behind this one."""
        return self.last == LEDGER_ID_MAX

    def part_of(self, ids: Ids) -> Ids:
        """Return those of the ascending ids that are of the shard. Costs two searches."""
        first, end = np.searchsorted(ids, self.first), np.searchsorted(ids, self.last, "right")
        return ids[first:end]


EVERYTHING = Shard(0)
"""The only shard of a run that is not divided."""


SHARDS_MAX = 1_000
"""A run has at most this many shards. A larger cluster gets larger shards.

Every stage lists the files of all shards, which is slow for many shards."""


def cut_shards(listed: pa.ChunkedArray, ledgers_max: int) -> list[Shard]:
    """Return the fewest shards of at most `ledgers_max` listed ledgers, in order of ledger id.

    The shards have nearly equal numbers of ledgers. Without listed ledgers there is one shard. At
    SHARDS_MAX shards they may hold more than `ledgers_max`. `listed` has the ids in any order.
    Costs sorting them: 8 bytes a ledger.
    """
    assert ledgers_max > 0, ledgers_max
    ids = distinct_numbers(listed.to_numpy())
    shards = min(SHARDS_MAX, max(1, -(-len(ids) // ledgers_max)))
    firsts = [0, *(int(ids[len(ids) * number // shards]) for number in range(1, shards))]
    lasts = [first - 1 for first in firsts[1:]] + [LEDGER_ID_MAX]
    return [
        Shard(number, first, last)
        for number, (first, last) in enumerate(zip(firsts, lasts, strict=True))
    ]


def first_of_each_group(counts: Sequence[int], sum_max: int) -> list[int]:
    """Return the place at which each group of neighbours begins, the first one at 0.

    The counts of a group are at most `sum_max` together, or it has a single one. Each group is as
    long as it may be.
    """
    firsts, together = [0], 0
    for place, count in enumerate(counts):
        together += count
        if together > sum_max and place > firsts[-1]:
            firsts.append(place)
            together = count
    return firsts


def join_shards(shards: Sequence[Shard], firsts: Sequence[int]) -> list[Shard]:
    """Return one shard for each group of neighbours, with the number of the first of them.

    `firsts` has the place in `shards` at which each group begins.
    """
    lasts = [first - 1 for first in firsts[1:]] + [len(shards) - 1]
    return [
        Shard(shards[first].number, shards[first].first, shards[last].last)
        for first, last in zip(firsts, lasts, strict=True)
    ]

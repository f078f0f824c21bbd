"""The groups of entries that a bookie lists, and which entries of a block they name."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from struct import iter_unpack
from typing import NamedTuple, TypeAlias

import numpy as np

from auditor.model.availability import Answer, AnswerStatus
from auditor.model.identity import BookieId, EntryId
from auditor.second_checker.entry_bits import (
    FEW,
    Bits,
    Marks,
    all_bits,
    pack_marks,
    repeat_bits,
)

STRANGE_RUNS_MAX = 10_000
STRANGE_FROM_RUNS = 17
KNOWN_STRIDES = 16
"""Bounds on what a list may claim, the same as the first checker's.

A progression is strange if it has STRANGE_FROM_RUNS runs or more, and a period that is not one of
the first KNOWN_STRIDES multiples of the ensemble size. All strange progressions of a list may have
STRANGE_RUNS_MAX runs, or as many as the received bytes can carry one by one.
"""

_LISTED = (AnswerStatus.HELD, AnswerStatus.NO_SUCH_LEDGER)


class Group(NamedTuple):
    """Runs of `size` entries, `period` apart: the first begins at `first`, the last at `last`."""

    first: EntryId
    last: EntryId
    size: int
    period: int

    @property
    def end(self) -> EntryId:
        return self.last + self.size - 1


def groups_of(answer: Answer) -> tuple[Group, ...]:
    """Return the groups of a list, ascending."""
    return tuple(map(Group._make, iter_unpack(">qqii", answer.groups)))


Lists: TypeAlias = Mapping[BookieId, tuple[Group, ...]]
"""The groups of each bookie that gave a usable list."""


def usable_lists(answers: Mapping[BookieId, Answer], ensemble_size: int) -> Lists:
    """Return the groups of each bookie whose list does not claim too much.

    A bookie that has no such ledger lists nothing.
    """
    found: dict[BookieId, tuple[Group, ...]] = {}
    for bookie, answer in answers.items():
        if answer.status in _LISTED:
            groups = groups_of(answer)
            if not claims_too_much(answer, groups, ensemble_size):
                found[bookie] = groups
    return found


def edges_of(answer: Answer) -> Iterator[EntryId]:
    """Yield the first and last entry of each group's first run, then of its last run."""
    for first, last, size, _ in iter_unpack(">qqii", answer.groups):
        yield from (first, first + size - 1, last, last + size - 1)


def names(groups: tuple[Group, ...], entry: EntryId) -> bool:
    """Return whether a run of the groups contains the entry; the groups ascend."""
    at = bisect_left(groups, entry, key=lambda group: group.end)
    if at == len(groups) or entry < groups[at].first:
        return False
    group = groups[at]
    return group.period == 0 or (entry - group.first) % group.period < group.size


def claims_too_much(answer: Answer, groups: tuple[Group, ...], ensemble_size: int) -> bool:
    """Return whether a list claims more strange runs than can be judged (see STRANGE_RUNS_MAX)."""
    strange = 0
    for group in groups:
        is_known = (
            group.period % ensemble_size == 0 and group.period // ensemble_size <= KNOWN_STRIDES
        )
        if group.period == group.size or is_known:  # a single run has period 0, which is known
            continue
        runs = (group.last - group.first) // group.period + 1
        strange += runs if runs >= STRANGE_FROM_RUNS else 0
    return strange > max(STRANGE_RUNS_MAX, answer.received_bytes // 24)


def listed_bits(groups: tuple[Group, ...], low: EntryId, high: EntryId) -> Bits:
    """Return which entries of [low, high] the groups name; the groups ascend."""
    if len(groups) > FEW:
        begin = bisect_left(groups, low, key=lambda group: group.end)
        groups = groups[begin : bisect_right(groups, high, key=lambda group: group.first)]
    if len(groups) > FEW:
        marks = np.zeros(high - low + 1, np.bool_)
        for group in groups:
            _mark(marks, low, high, group)
        return pack_marks(marks)
    found = 0
    for group in groups:
        if group.first <= high and group.end >= low:
            bits = _group_bits(group, low, high)
            found = found | bits if found else bits
    return found


def _group_bits(group: Group, low: EntryId, high: EntryId) -> Bits:
    """Return which entries of [low, high] a group names; it ends at `low` or above."""
    if group.period == 0:
        first = max(group.first, low)
        return all_bits(min(group.end, high) - first + 1) << (first - low)
    start, step = _first_run(group, low)
    if step > high - low:  # two runs at most, each of which may be far longer than the block
        runs = range(start, min(group.last, high) + 1, step)
        bits = 0
        for run in runs:
            begin, end = max(run, low), min(run + group.size - 1, high)
            bits |= all_bits(end - begin + 1) << (begin - low)
        return bits
    run_bits, skipped = all_bits(group.size), start - low
    if skipped >= 0:
        reach = high if group.last + step > high else group.end
        return repeat_bits(run_bits << skipped, step, reach - low + 1)
    bits = repeat_bits(run_bits, step, min(group.end, high) - start + 1)
    return bits >> -skipped


def _first_run(group: Group, low: EntryId) -> tuple[EntryId, int]:
    """Return where the first run begins that ends at `low` or above, and how far runs are apart."""
    if group.period == 0:
        return group.first, group.size
    skipped = max(0, -((group.first + group.size - 1 - low) // group.period))
    return group.first + skipped * group.period, group.period


def _mark(marks: Marks, low: EntryId, high: EntryId, group: Group) -> None:
    """Mark the group's entries within the block.

    This goes run by run or, if runs are short and many, place by place within the run.
    """
    start, step = _first_run(group, low)
    starts = range(start, min(group.last, high) + 1, step)
    if len(starts) <= group.size:
        for run in starts:
            marks[max(run, low) - low : min(run + group.size - 1, high) - low + 1] = True
        return
    for place in range(group.size):
        begin, end = starts[0] + place, min(starts[-1] + place, high)
        if begin < low:
            begin += step
        marks[begin - low : end - low + 1 : step] = True

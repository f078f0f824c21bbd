"""Find or mend what breaks the order of entries in the sequence groups of a list.

No real bookie sends such a list: `check_order` says why one is rejected. `make_disjoint` is for
groups of our own. Those that stand clear of each other are only sorted; those that overlap or
interleave are expanded into runs, up to a bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from auditor.errors import MalformedAvailability
from auditor.model.identity import ENTRY_ID_MAX

DISORDER_MAX = 1_000_000
"""Most groups in a list out of order, and most runs in its groups that overlap; else rejected."""

Group = tuple[int, int, int, int]
"""First entry of the first and of the last run, size of each run, and period; 0 for one run."""


def check_order(groups: Iterable[Group]) -> None:
    """Raise MalformedAvailability for the first group that breaks a rule, or that does not begin
    behind the groups before it.
    """
    end = -1
    for index, group in enumerate(groups):
        first, last, size, _ = _check_group(index, group)
        if first <= end:
            raise MalformedAvailability(
                f"sequence group {index} begins at entry {first}, and a group before it ends at"
                f" entry {end}: groups overlap or are out of order, which no bookie sends"
            )
        end = last + size - 1


def make_disjoint(groups: Iterable[Group]) -> Iterator[Group]:
    """Yield the same entries in ascending groups that do not overlap; expand those that interleave.

    Raises MalformedAvailability for a group that breaks a rule, or if DISORDER_MAX is exceeded.
    """
    checked: set[Group] = set()
    for index, group in enumerate(groups):
        checked.add(_check_group(index, group))
        if len(checked) > DISORDER_MAX:
            raise MalformedAvailability(
                f"the list is out of order and has more than {DISORDER_MAX} groups: too many to"
                " sort"
            )
    knot: list[Group] = []
    knot_end = -1
    budget = DISORDER_MAX
    for group in sorted(checked):
        if knot and group[0] > knot_end:
            yield from _untangle(knot)
            knot = []
        knot.append(group)
        knot_end = max(knot_end, group[1] + group[2] - 1)
        if len(knot) > 1:
            budget -= _run_count(group) + (_run_count(knot[0]) if len(knot) == 2 else 0)
        if budget < 0:
            raise MalformedAvailability(
                f"groups from entry {knot[0][0]} on interleave: more than {DISORDER_MAX} runs to"
                " sort"
            )
    yield from _untangle(knot)


def _run_count(group: Group) -> int:
    first, last, _, period = group
    return (last - first) // period + 1 if period else 1


def _untangle(knot: list[Group]) -> Iterator[Group]:
    """Yield the union of groups that overlap or interleave, run by run; a lone group unchanged."""
    if len(knot) == 1:
        yield knot[0]
        return
    runs = sorted(
        (start, size)
        for first, last, size, period in knot
        for start in range(first, last + 1, period or 1)
    )
    start, end = -1, -1
    for first, size in runs:
        if first > end:
            if start >= 0:
                yield start, start, end - start, 0
            start, end = first, first + size
        else:
            end = max(end, first + size)
    if start >= 0:
        yield start, start, end - start, 0


def _check_group(index: int, group: Group) -> Group:
    """Return the group, with a period only if it repeats. Raises MalformedAvailability."""
    first, last, size, period = group
    problem = None
    if first < 0:
        problem = "begins before entry 0"
    elif last < first:
        problem = "ends before it begins"
    elif size <= 0:
        problem = "has runs of no entry"
    elif period < 0:
        problem = "has a negative period"
    elif period == 0 and last != first:
        problem = "has several runs and no period"
    elif period and (last - first) % period:
        problem = "does not end on one of its own runs"
    elif 0 < period < size:
        problem = "has runs that overlap each other"
    elif last + size - 1 > ENTRY_ID_MAX:
        problem = "goes beyond the largest entry id"
    if problem:
        raise MalformedAvailability(
            f"sequence group {index} (first {first}, last {last}, size {size}, period {period})"
            f" {problem}"
        )
    if period == size or last == first:
        return first, first, last - first + size, 0
    return group

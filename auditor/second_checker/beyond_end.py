"""Count entries above lastEntryId for the second checker, by the starts and ends of listed runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from auditor.model.facts import BeyondEndFacts
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata, LedgerState
from auditor.second_checker.copies import Entries
from auditor.second_checker.listed_groups import Group, Lists

RUNS_MAX = 100_000
"""Runs above the end of one bookie's list that are compared. A few bytes can claim more."""


@dataclass(frozen=True, slots=True)
class Beyond:
    """What lies above the end. `is_open`: too many runs to count; the rest is meaningless."""

    entries: Entries
    facts: BeyondEndFacts | None
    is_open: bool = False


NOTHING = Beyond(Entries(), None)


def beyond_end(lists: Lists, metadata: LedgerMetadata) -> Beyond:
    """Return the entries above the end that at least ack-quorum bookies of the last ensemble
    list.
    """
    last, ack = metadata.last_entry_id, metadata.ack_quorum
    if metadata.state is not LedgerState.CLOSED or last is None or not metadata.segments or ack < 1:
        return NOTHING
    runs: dict[BookieId, list[tuple[EntryId, EntryId]]] = {}
    for bookie in set(metadata.segments[-1].ensemble) & lists.keys():
        groups = [group for group in lists[bookie] if group.end > last]
        if sum(_runs_above(group, last) for group in groups) > RUNS_MAX:
            return Beyond(Entries(), None, is_open=True)
        if groups:
            runs[bookie] = [run for group in groups for run in _above(group, last)]
    if len(runs) < ack:
        return NOTHING
    ranges = tuple(_ranges_listed(ack, [run for of_bookie in runs.values() for run in of_bookie]))
    if not ranges:
        return NOTHING
    listing = [
        b
        for b, mine in runs.items()
        if any(a <= high and z >= low for a, z in mine for low, high in ranges)
    ]
    entries = Entries(ranges, sum(high - low + 1 for low, high in ranges))
    return Beyond(entries, BeyondEndFacts(last, ack, tuple(sorted(listing))))


def _runs_above(group: Group, last: EntryId) -> int:
    """Return an upper bound on the runs that reach above `last`, of a group that does."""
    return (
        1
        if group.period == 0
        else (group.last - max(group.first, last - group.size)) // group.period + 2
    )


def _above(group: Group, last: EntryId) -> Iterator[tuple[EntryId, EntryId]]:
    """Yield the runs of a group that reaches above `last`, cut to the part above."""
    step = group.period or 1
    skipped = max(0, (last + 1 - group.size - group.first) // step)
    for start in range(group.first + skipped * step, group.last + 1, step):
        if start + group.size - 1 > last:
            yield max(start, last + 1), start + group.size - 1


def _ranges_listed(
    count: int, runs: list[tuple[EntryId, EntryId]]
) -> Iterator[tuple[EntryId, EntryId]]:
    """Yield the maximal ranges that at least `count` of the runs cover.

    The runs of one bookie must be disjoint.
    """
    steps: dict[EntryId, int] = {}
    for low, high in runs:
        steps[low] = steps.get(low, 0) + 1
        steps[high + 1] = steps.get(high + 1, 0) - 1
    depth, begins = 0, None
    for at in sorted(steps):
        depth += steps[at]
        if depth >= count and begins is None:
            begins = at
        elif depth < count and begins is not None:
            yield begins, at - 1
            begins = None

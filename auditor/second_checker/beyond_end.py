"""Count entries above lastEntryId for the second checker, by the starts and ends of listed runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

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
        above = _runs_above(lists[bookie], last)
        mine = list(islice(above, RUNS_MAX))
        if any(above):
            return Beyond(Entries(), None, is_open=True)
        if mine:
            runs[bookie] = mine
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


def _runs_above(groups: tuple[Group, ...], last: EntryId) -> Iterator[tuple[EntryId, EntryId]]:
    """Yield the runs that reach above `last`, cut to the part above; the groups ascend."""
    for group in groups[bisect_right(groups, last, key=lambda group: group.end) :]:
        step = max(1, group.period)
        lowest = last + 2 - group.size  # a run that begins here ends directly above
        skipped = max(0, -((group.first - lowest) // step))
        for start in range(group.first + skipped * step, group.last + 1, step):
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

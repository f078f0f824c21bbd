"""The worst entry: fewest possible copies, then fewest confirmed copies, then the lowest id."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from auditor.first_checker.entry_set import EntrySet
from auditor.model.identity import EntryId


class Worst(NamedTuple):
    """The rank of an entry: worse entries sort first.

    `possible` counts confirmed and unknown copies.
    """

    possible: int
    confirmed: int
    entry_id: EntryId


def levels(sets: Iterable[EntrySet]) -> list[EntrySet]:
    """Return sets: number n - 1 holds the entries that lie in at least n of `sets`.

    There is no empty level.
    """
    found: list[EntrySet] = []
    for one in sets:
        carried = one
        for index, level in enumerate(found):
            if not carried:
                break
            found[index], carried = level | carried, level & carried
        if carried:
            found.append(carried)
    return found


def worst_entry(
    lost: list[EntrySet], unknown: Iterable[EntrySet], write_quorum: int
) -> Worst | None:
    """Return the worst of the entries that lost a copy, or None if none did.

    `lost[n - 1]` holds the entries that lost at least n of `write_quorum` copies. In each set of
    `unknown`, the entries have one confirmed copy less. Costs set operations, at most the square of
    the number of bookies.
    """
    if not lost:
        return None
    possible = write_quorum - len(lost)
    candidates, unknown_count = lost[-1], 0
    for level in levels(unknown):
        narrowed = candidates & level
        if not narrowed:
            break
        candidates, unknown_count = narrowed, unknown_count + 1
    return Worst(possible, possible - unknown_count, candidates.first())

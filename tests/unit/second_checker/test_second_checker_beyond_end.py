"""Which entries above the end of a ledger the second checker finds in lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from support.ends import NOTHING_BEYOND, WHOLE

from auditor.model.facts import BeyondEndFacts
from auditor.model.ledger import LedgerMetadata
from auditor.second_checker import beyond_end as module
from auditor.second_checker.beyond_end import NOTHING, Beyond, beyond_end
from auditor.second_checker.copies import Entries
from auditor.second_checker.listed_groups import Group

LISTS = {
    "b1": (Group(0, 0, 13, 0),),
    "b2": (Group(12, 12, 3, 0),),
    "b3": (Group(3, 3, 2, 0), Group(20, 20, 2, 0)),
    "x1": (Group(12, 12, 9, 0),),
}


def test_entries_that_an_ack_quorum_lists_are_beyond_the_end() -> None:
    """Entry 12 ends one list and begins another. Entries that only one bookie lists do not count,
    nor those that a bookie outside the last ensemble lists.
    """
    facts = BeyondEndFacts(9, 2, ("b1", "b2"))
    assert Beyond(Entries(((12, 12),), 1), facts) == beyond_end(LISTS, WHOLE)


@pytest.mark.parametrize("metadata", NOTHING_BEYOND)
def test_nothing_is_beyond_an_end_that_is_not_known(metadata: LedgerMetadata) -> None:
    """Nothing is beyond an end that is above everything two bookies list, either."""
    assert NOTHING == beyond_end(LISTS, metadata)


def drawn_groups(draw: Random) -> Iterator[Group]:
    """Yield a few groups from entry 0 to 40 or so, ascending and apart."""
    at = draw.randint(0, 4)
    while at < 30:
        size, runs = draw.randint(1, 4), draw.choice((1, 1, 2, 3, 5))
        period = 0 if runs == 1 else size + draw.randint(0, 3)
        group = Group(at, at + (runs - 1) * period, size, period)
        yield group
        at = group.end + draw.randint(1, 3)


@pytest.mark.parametrize("seed", range(100))
def test_runs_above_the_end_are_counted_as_if_entry_by_entry(seed: int) -> None:
    """Three bookies list groups of any size and period, with the end anywhere in them."""
    draw = Random(seed)
    lists = {bookie: tuple(drawn_groups(draw)) for bookie in ("b1", "b2", "b3")}
    last, ack = draw.randint(0, 30), draw.randint(1, 3)
    listed = {
        bookie: {
            start + nth
            for group in groups
            for start in range(group.first, group.last + 1, group.period or 1)
            for nth in range(group.size)
            if start + nth > last
        }
        for bookie, groups in lists.items()
    }
    count = Counter(entry for mine in listed.values() for entry in mine)
    entries = {entry for entry, bookies in count.items() if bookies >= ack}
    facts = BeyondEndFacts(last, ack, tuple(b for b, mine in listed.items() if mine & entries))
    found = beyond_end(lists, replace(WHOLE, last_entry_id=last, ack_quorum=ack))
    assert (Beyond(Entries.of(entries), facts) if entries else NOTHING) == found


@pytest.mark.parametrize(("runs_max", "is_open"), [(1, False), (0, True)])
def test_more_runs_than_are_compared_leave_the_end_open(
    runs_max: int, is_open: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each bookie lists one run above the end. The four below it do not count."""
    monkeypatch.setattr(module, "RUNS_MAX", runs_max)
    found = beyond_end({**LISTS, "b1": (Group(0, 12, 1, 3),)}, WHOLE)
    assert is_open is found.is_open
    assert not is_open or Beyond(Entries(), None, is_open=True) == found

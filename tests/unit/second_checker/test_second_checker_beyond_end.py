"""What the second checker finds above the end of a ledger, in lists and in reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random

import pytest
from support.ends import ENDS, WHOLE, WITHOUT_END, End
from support.looks import looks

from auditor.model.facts import HeldBeyondEnd
from auditor.model.finding import RANGES_MAX
from auditor.model.ledger import LedgerMetadata
from auditor.second_checker import beyond_end as module
from auditor.second_checker.beyond_end import NOTHING, Beyond, beyond_end
from auditor.second_checker.copies import Entries
from auditor.second_checker.holdings import Group, usable_lists
from auditor.second_checker.looks import Statements

RECORD = looks("A")[0].record
SILENCE = Statements(RECORD, (), {}, {}, frozenset())


def found(end: End, metadata: LedgerMetadata | None = None) -> Beyond:
    """Return what lies above the end, by the second checker."""
    heard = Statements(RECORD, (), end.answers, end.reads, frozenset())
    return beyond_end(heard, usable_lists(end.answers, 3), metadata or end.metadata)


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_what_bookies_hold_above_the_end_is_found_with_what_headers_prove(end: End) -> None:
    """Of several headers the one counts that names the highest entry as acknowledged."""
    beyond = found(end)
    assert end.facts == beyond.facts
    assert end.entries == beyond.entries.ranges
    assert end.cut_off == (beyond.cut_off and beyond.cut_off.ranges)


@pytest.mark.parametrize("metadata", WITHOUT_END)
def test_nothing_is_beyond_an_end_that_is_not_known(metadata: LedgerMetadata) -> None:
    """The ledger is open, has no last entry, or no segment."""
    assert NOTHING == found(ENDS["a header names an entry above the end"], metadata)


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
    last = draw.randint(0, 30)
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
    of_each = {bookie: Entries.of(mine) for bookie, mine in listed.items() if mine}
    held = tuple(
        HeldBeyondEnd(bookie, mine.ranges[:RANGES_MAX], mine.total, True)
        for bookie, mine in of_each.items()
    )
    beyond = beyond_end(SILENCE, lists, replace(WHOLE, last_entry_id=last))
    every = Entries.of(entry for mine in listed.values() for entry in mine)
    assert (every, held) == (beyond.entries, beyond.facts.held_on if beyond.facts else ())


LISTS: Mapping[str, tuple[Group, ...]] = {
    "b1": (Group(0, 12, 1, 3),),
    "b2": (Group(12, 12, 3, 0),),
    "b3": (Group(3, 3, 2, 0), Group(20, 20, 2, 0)),
}


@pytest.mark.parametrize(("runs_max", "is_open"), [(1, False), (0, True)])
def test_more_runs_than_are_compared_leave_the_end_open(
    runs_max: int, is_open: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each bookie lists one run above the end. The four below it do not count."""
    monkeypatch.setattr(module, "RUNS_MAX", runs_max)
    beyond = beyond_end(SILENCE, LISTS, WHOLE)
    assert is_open is beyond.is_open
    assert not is_open or Beyond(is_open=True) == beyond

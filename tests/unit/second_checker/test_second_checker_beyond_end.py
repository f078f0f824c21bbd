"""Which entries above the end of a ledger the second checker finds in lists."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.model.facts import BeyondEndFacts
from auditor.model.ledger import LedgerMetadata, LedgerState
from auditor.sandbox.notation import ledger
from auditor.second_checker import beyond_end as module
from auditor.second_checker.beyond_end import NOTHING, Beyond, beyond_end
from auditor.second_checker.copies import Entries
from auditor.second_checker.listed_groups import Group

WHOLE = ledger("e3 w2 a2 0:[b1 b2 b3] closed 9")
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


@pytest.mark.parametrize(
    "metadata",
    [
        replace(WHOLE, state=LedgerState.OPEN),
        replace(WHOLE, last_entry_id=None),
        replace(WHOLE, segments=()),
        replace(WHOLE, ack_quorum=0),
        replace(WHOLE, last_entry_id=12),
    ],
)
def test_nothing_is_beyond_an_end_that_is_not_known(metadata: LedgerMetadata) -> None:
    """Nothing is beyond an end that is above everything two bookies list, either."""
    assert NOTHING == beyond_end(LISTS, metadata)


@pytest.mark.parametrize(("runs_max", "is_open"), [(1, False), (0, True)])
def test_more_runs_than_are_compared_leave_the_end_open(
    runs_max: int, is_open: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each bookie lists one run above the end."""
    monkeypatch.setattr(module, "RUNS_MAX", runs_max)
    found = beyond_end(LISTS, WHOLE)
    assert is_open is found.is_open
    assert not is_open or Beyond(Entries(), None, is_open=True) == found

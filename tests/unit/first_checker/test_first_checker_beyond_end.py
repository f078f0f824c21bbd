"""Which entries above the end of a ledger the first checker remarks."""

from __future__ import annotations

import pytest
from support.ends import NOTHING_BEYOND, WHOLE
from support.stories import LEDGER, groups

from auditor.first_checker.beyond_end import beyond_end
from auditor.first_checker.coverage import coverage
from auditor.model.availability import Answer, AnswerStatus
from auditor.model.facts import BeyondEndFacts
from auditor.model.finding import Finding, Kind
from auditor.model.ledger import LedgerMetadata

LISTS = {"b1": {*range(13)}, "b2": {12, 13, 14}, "b3": {3, 4, 20, 21}, "x1": {*range(12, 21)}}


def found(metadata: LedgerMetadata) -> list[Finding]:
    """Return the findings on a ledger whose bookies gave LISTS."""
    answers = {
        b: Answer(b, LEDGER, 0, 0, AnswerStatus.HELD, groups(held)) for b, held in LISTS.items()
    }
    return beyond_end(LEDGER, metadata, coverage(metadata, answers, {}))


def test_bookies_of_the_last_ensemble_that_list_such_an_entry_are_named() -> None:
    """b3 lists other entries above the end, and x1 is outside the ensemble: neither is named."""
    facts = BeyondEndFacts(9, 2, ("b1", "b2"))
    assert [
        Finding(Kind.ENTRIES_BEYOND_END, facts, LEDGER, entries=((12, 12),), entries_total=1)
    ] == found(WHOLE)


@pytest.mark.parametrize("metadata", NOTHING_BEYOND)
def test_nothing_is_beyond_an_end_that_is_not_known(metadata: LedgerMetadata) -> None:
    """Nothing is beyond an end that is above everything two bookies list, either."""
    assert [] == found(metadata)

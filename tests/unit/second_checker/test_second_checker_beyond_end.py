"""What the second checker finds above the end of a ledger, in lists and in reads."""

from __future__ import annotations

import pytest
from support.ends import ENDS, End
from support.looks import looks

from auditor.model.ledger import LedgerMetadata
from auditor.second_checker.beyond_end import Beyond, beyond_end
from auditor.second_checker.holdings import usable_lists
from auditor.second_checker.looks import Statements

RECORD = looks("A")[0].record


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

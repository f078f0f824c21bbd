"""The second checker on what two looks leave unknown of a reference."""

from __future__ import annotations

import pytest

from auditor.second_checker.references import AGAIN, FIRST, LedgerLook, TopicRow
from auditor.second_checker.unknown_references import Doubt, doubt_about

TOPIC = "persistent://t/n/x"
ROWS = [
    row
    for look in (FIRST, AGAIN)
    for row in (
        TopicRow(TOPIC, look, "topic", "found"),
        TopicRow(TOPIC, look, "data", ledger_id=7, entries=10),
    )
]
"""A topic that references ledger 7 with ten entries, at both looks."""

CLOSED_SHORT = LedgerLook(100, "found", "CLOSED", 4, 90)
CLOSED_WHOLE = LedgerLook(100, "found", "CLOSED", 9, 90)
GONE = LedgerLook(100, "gone")


@pytest.mark.parametrize("state", ["OPEN", "IN_RECOVERY"])
@pytest.mark.parametrize("first", [CLOSED_WHOLE, None])
def test_a_ledger_that_is_not_closed_leaves_no_doubt_whatever_end_it_names(
    state: str, first: LedgerLook | None
) -> None:
    """Only the last entry of a closed ledger says that a topic references more than there is."""
    not_closed = LedgerLook(100, "found", state, 4, 90)
    looks = {FIRST: first or not_closed, AGAIN: not_closed._replace(read_at_ms=1_350)}
    assert doubt_about(7, ROWS, looks, is_said_elsewhere=False) is None


@pytest.mark.parametrize("first", [CLOSED_SHORT, GONE])
def test_a_loss_that_was_not_looked_for_again_is_unknown(first: LedgerLook) -> None:
    """Closed before what the topic references, or gone, at the first look only."""
    assert Doubt.UNKNOWN is doubt_about(7, ROWS, {FIRST: first}, is_said_elsewhere=False)


def test_a_ledger_that_has_what_is_referenced_leaves_no_doubt() -> None:
    """Closed with ten entries at both looks."""
    looks = {FIRST: CLOSED_WHOLE, AGAIN: CLOSED_WHOLE._replace(read_at_ms=1_350)}
    assert doubt_about(7, ROWS, looks, is_said_elsewhere=False) is None

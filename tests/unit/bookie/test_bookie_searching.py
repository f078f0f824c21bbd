"""How often one bookie is read for entries that it should not hold."""

from __future__ import annotations

import pytest

from auditor.bookie.address_table import SearchBudget, unread
from auditor.bookie.questions import ReadQuestion
from auditor.model.availability import EntryRead, ReadStatus


def searches(count: int) -> list[ReadQuestion]:
    return [ReadQuestion(7, entry, is_search=True) for entry in range(count)]


@pytest.mark.parametrize(
    ("left", "sent"), [(None, 5), ({"b1": 3}, 3), ({"b1": 0}, 0), ({"b2": 3}, 0), ({"b1": 9}, 5)]
)
def test_a_bookie_is_searched_as_often_as_is_left(left: dict[str, int] | None, sent: int) -> None:
    """The first questions go out; one that nothing is said of has nothing left; without a bound all
    go.
    """
    asked, refused = SearchBudget(left).split("b1", searches(5))
    assert (searches(5)[:sent], searches(5)[sent:]) == (asked, refused)


def test_what_was_sent_is_not_left() -> None:
    """The bound is one for the whole run, not one for each question."""
    budget = SearchBudget({"b1": 3})
    assert [2, 1, 0] == [len(budget.split("b1", searches(2))[0]) for _ in range(3)]


def test_reads_that_are_no_search_are_never_refused() -> None:
    """A confirming read has bounds of its own."""
    confirming = [ReadQuestion(7, entry) for entry in range(9)]
    assert (confirming, []) == SearchBudget({}).split("b1", confirming)


def test_what_was_not_sent_is_evidence_of_that() -> None:
    """With no request counted for it."""
    expected = EntryRead("b1", 7, 4, 2, 99, ReadStatus.NOT_ASKED, is_search=True)
    assert expected == unread("b1", ReadQuestion(7, 4, is_search=True), 2, 99, ReadStatus.NOT_ASKED)
    assert 0 == expected.requests

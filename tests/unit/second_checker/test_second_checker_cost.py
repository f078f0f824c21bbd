"""The cost of the second judging of a ledger of many segments, in calls."""

import pytest
from support.many_segments import HARMS, calls, story
from support.stories import drive

from auditor.second_checker.agreement import differences


@pytest.mark.parametrize("harm", HARMS)
def test_judging_again_costs_what_its_segments_cost(harm: str) -> None:
    """Five times the segments cost at most six times the calls, whatever is lost: the segments
    are not scanned once for each bookie's segments, nor for each read.
    """

    few, many = judged_again(20, harm), judged_again(100, harm)
    assert 0 < many < 6 * few


CALLS_MAX = {
    "nothing is lost": 285,
    "each segment lost a copy": 440,
    "each segment lost an entry": 515,
    "a bookie lost the ledger": 335,
    "a bookie is silent": 275,
    "no bookie can list": 785,
}
"""Calls for a ledger of three segments, some 8 % more than were counted."""


@pytest.mark.parametrize("harm", HARMS)
def test_judging_again_takes_few_calls(harm: str) -> None:
    """Python's own cost of the calls is most of what the second judging costs."""
    judged_again(3, harm)  # what is kept for other ledgers is made here
    assert judged_again(3, harm) <= CALLS_MAX[harm]


def judged_again(segments: int, harm: str) -> int:
    """Return the calls of judging a ledger again, after which the checkers agree."""
    one = story(segments, harm)
    driven = drive(one)
    differ: list[str] = []
    cost = calls(
        lambda: differ.extend(differences(driven.step.verdict, driven.evidence, one.terms))
    )
    assert [] == differ
    return cost

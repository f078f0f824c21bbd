"""The cost of the second judging of a ledger of many segments, in calls."""

import pytest
from support.many_segments import HARMS, calls, story
from support.stories import drive

from auditor.second_checker.agreement import differences


@pytest.mark.parametrize("harm", HARMS)
def test_judging_again_costs_what_its_segments_cost(harm: str) -> None:
    """Five times the segments cost at most seven times the calls, whatever is lost: the segments
    are not scanned once for each bookie's segments, nor for each read.
    """

    def judged_again(segments: int) -> int:
        one = story(segments, harm)
        driven = drive(one)
        differ: list[str] = []
        cost = calls(
            lambda: differ.extend(differences(driven.step.verdict, driven.evidence, one.terms))
        )
        assert [] == differ
        return cost

    few, many = judged_again(20), judged_again(100)
    assert 0 < many < 7 * few

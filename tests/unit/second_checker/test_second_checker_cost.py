"""What judging a ledger of many segments again costs, in calls."""

import pytest
from support.many_segments import HARMS, calls, story
from support.stories import drive

from auditor.second_checker.agreement import differences


@pytest.mark.parametrize("harm", HARMS)
def test_judging_again_costs_what_its_segments_cost(harm: str) -> None:
    """Five times the segments take no more than seven times the work, whatever is lost: nobody
    walks through all segments for each bookie's segments, nor for each of its reads.
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

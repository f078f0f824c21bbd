"""What judging a ledger of many segments costs, in calls."""

import pytest
from support.many_segments import HARMS, calls, story
from support.stories import Story, drive

from auditor.judging.settle import settle


def costliest_step(story: Story) -> int:
    """The calls of the step that takes the most."""
    return max(
        calls(lambda seen=evidence: settle(seen, story.terms)) for evidence, _ in drive(story).steps
    )


@pytest.mark.parametrize("harm", HARMS)
def test_judging_costs_what_its_segments_cost(harm: str) -> None:
    """Five times the segments take no more than seven times the work, whatever is lost: neither a
    bookie's list nor what was found so far is walked through for each segment.
    """
    few, many = (costliest_step(story(segments, harm)) for segments in (20, 100))
    assert 0 < many < 7 * few

"""The cost of judging a ledger of many segments, in calls."""

import pytest
from support.many_segments import HARMS, calls, story
from support.stories import Story, drive

from auditor.judging.settle import settle


def costliest_step(story: Story) -> int:
    """Return the calls of the most expensive step."""
    return max(
        calls(lambda seen=evidence: settle(seen, story.terms)) for evidence, _ in drive(story).steps
    )


@pytest.mark.parametrize("harm", HARMS)
def test_judging_costs_what_its_segments_cost(harm: str) -> None:
    """Five times the segments cost at most seven times the calls, whatever is lost: no bookie's
    list and no list of findings is scanned once for each segment.
    """
    few, many = (costliest_step(story(segments, harm)) for segments in (20, 100))
    assert 0 < many < 7 * few

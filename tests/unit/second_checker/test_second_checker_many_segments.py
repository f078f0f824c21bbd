"""Ledgers of many segments whose losses continue across borders: both checkers reach the same
verdict.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from support.crowded_stories import total_loss
from support.stories import Bookie, State, Story, drive

from auditor.judging.settle import settle_and_check
from auditor.model.cluster import Surroundings
from auditor.model.finding import RANGES_MAX, Finding, Kind
from auditor.model.placement import PlacementRule, Policy
from auditor.model.verdict import Standing
from auditor.sandbox.notation import ledger


def committed(segments: int, size: int, write: int, entries: int) -> Finding:
    """Return the finding that both checkers support, on a ledger that lost everything."""
    story = total_loss(segments, size, write, entries)
    step, why = settle_and_check(drive(story).evidence, story.terms)
    assert ("", Standing.VIOLATED) == (why, step.verdict.standing)
    (finding,) = step.verdict.findings
    return finding


@pytest.mark.parametrize("segments", [21, 22, 23, 40, 90, 200])
def test_a_total_loss_is_one_range_however_many_segments_the_ledger_has(segments: int) -> None:
    """With as many copies as bookies every segment lost one run, and all runs touch. A limit of 22
    unmerged runs once withheld the finding on a ledger of 23.
    """
    finding = committed(segments, size=3, write=3, entries=4)
    whole = ((0, 4 * segments - 1),)
    assert (Kind.ENTRY_WITHOUT_REPLICA, whole, 4 * segments) == (
        finding.kind,
        finding.entries,
        finding.entries_total,
    )
    missing = dict(finding.missing_on)
    assert [whole, whole] == [missing["b0"], missing["b1"]]
    assert (
        tuple((8 * n, 8 * n + 3) for n in range(min(RANGES_MAX, (segments + 1) // 2)))
        == missing["x"]
    )


@pytest.mark.parametrize("segments", [10, 11, 12, 13, 14, 200])
@pytest.mark.parametrize(("size", "write", "entries"), [(3, 2, 3), (5, 2, 5), (4, 3, 4)])
def test_a_striped_total_loss_is_reported_in_ranges_that_cross_segments(
    segments: int, size: int, write: int, entries: int
) -> None:
    """A bookie that keeps its position lost two runs of each segment, and the last one touches the
    first of the next.
    """
    finding = committed(segments, size, write, entries)
    assert (((0, entries * segments - 1),), entries * segments) == (
        finding.entries,
        finding.entries_total,
    )
    ranges = dict(finding.missing_on)["b0"]
    assert min(RANGES_MAX, segments + 1) == len(ranges)
    assert all(before[1] + 1 < after[0] for before, after in pairwise(ranges))


@pytest.mark.parametrize(
    "segments",
    [
        "0:[b1 b2] 0:[b3 b4]",
        "0:[b1 b2] 0:[b1 b2]",
        "0:[b1 b2] 5:[b1 b1] 5:[b3 b4]",
        "5:[b1 b2] 0:[b3 b4] 5:[b3 b4]",
    ],
)
@pytest.mark.parametrize("is_java", [True, False])
def test_segments_that_begin_with_the_same_entry_are_placed_each_for_itself(
    segments: str, is_java: bool
) -> None:
    """The metadata contradicts itself. As Java judges, two failing segments are two findings of one
    kind at one entry.
    """
    assert Standing.VIOLATED is placed(f"{segments} closed 9", is_java=is_java)


def test_a_segment_below_every_entry_ends_where_both_checkers_say() -> None:
    """A negative firstEntryId in a ledger that is closed without lastEntryId: the segment ends at
    -1, like an empty ledger.
    """
    assert Standing.VIOLATED is placed("-5:[b1 b2] closed", is_java=True)


def placed(segments: str, *, is_java: bool) -> Standing:
    """Return the standing, which both checkers support, of a ledger with all bookies in one
    rack.
    """
    bookies = ("b1", "b2", "b3", "b4")
    around = Surroundings(writable=frozenset(bookies), locations=dict.fromkeys(bookies, "/r1"))
    state = State(
        ledger(f"e2 w2 a2 {segments}"), {name: Bookie(frozenset(range(10))) for name in bookies}
    )
    terms = {"placement": PlacementRule(Policy.RACK, java_compatible=is_java), "around": around}
    story = Story("twice", (state,), more_terms=terms)
    step, why = settle_and_check(drive(story).evidence, story.terms)
    assert "" == why
    return step.verdict.standing

"""Ledgers of up to 200 segments: the first checker, the second one and the judgement entry by entry
reach the same verdict.

Every failure names its seed: `support.crowded_stories.crowd(seed)` makes that story again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from support.crowded_stories import SEGMENTS_MAX, crowd, crowds
from support.quick_forms import few_or_all, one_in
from support.stories import Story, drive, with_doubts
from support.vast_stories import vasts
from test_properties_coverage import Plant, _instead, problems
from test_properties_second_checker import with_placement

from auditor.model.finding import RANGES_MAX
from auditor.second_checker.agreement import differences
from auditor.second_checker.copies import Entries

SWARM, FEW = 150, 50
"""A bug in the number of kept ranges shows in every fourth story."""
VAST_SWARM, VAST_FEW = 30, 10


def check(stories: Iterable[Story], *, is_placed: bool = False) -> Counter[str]:
    """Drive each story and compare the three judgements. Raises at the first difference; returns
    what the stories were about.

    The judgement entry by entry does not cover placement.
    """
    seen: Counter[str] = Counter()
    for story in stories:
        driven = drive(story)
        verdict = driven.step.verdict
        wrong = [
            *differences(verdict, driven.evidence, story.terms),
            *([] if is_placed else problems(driven)),
        ]
        assert not wrong, f"{story.name}: {wrong}"
        metadata = story.states[0].metadata
        assert metadata is not None
        seen[verdict.standing.word] += 1
        seen.update(finding.kind.value for finding in verdict.findings)
        seen["as many segments as there are"] += len(metadata.segments) == SEGMENTS_MAX
        seen["striped"] += metadata.write_quorum < metadata.ensemble_size
        ranges = [ranges for finding in verdict.findings for _, ranges in finding.missing_on]
        seen["as many ranges as are shown"] += any(len(one) == RANGES_MAX for one in ranges)
        firsts = {segment.first_entry_id for segment in metadata.segments[1:]}
        crossing = any(
            first < border <= last for one in ranges for first, last in one for border in firsts
        )
        seen["ranges across segments"] += crossing
    return seen


@pytest.fixture(scope="module")
def swarm() -> Counter[str]:
    """Assert that a few stories are judged alike; return what they were about."""
    return check(crowds(FEW))


@pytest.mark.long
def test_all_crowds_are_judged_alike_by_both_checkers_and_entry_by_entry() -> None:
    """The law below, on every seed."""
    assert check(crowds(SWARM))


def test_many_segments_are_judged_alike_by_both_checkers_and_entry_by_entry(
    swarm: Counter[str],
) -> None:
    """Ranges, totals, copies, the worst entry and what each bookie lacks, at every step."""
    assert FEW == swarm["sound"] + swarm["exempt"] + swarm["indeterminate"] + swarm["violated"]


@pytest.mark.parametrize(
    "subject",
    [
        *("sound", "indeterminate", "violated"),
        *(
            "ENTRY_WITHOUT_REPLICA",
            "ENTRY_BELOW_ACK_QUORUM",
            "ENTRY_BELOW_WRITE_QUORUM",
            "UNDERREPLICATED_UNRECOVERABLE",
        ),
        *(
            "as many segments as there are",
            "striped",
            "as many ranges as are shown",
            "ranges across segments",
        ),
    ],
)
def test_the_crowds_are_about_everything(swarm: Counter[str], subject: str) -> None:
    """A standing, kind or shape without a story would not be tested."""
    assert swarm[subject] >= 3


@pytest.mark.parametrize("count", few_or_all(FEW // 5, SWARM // 5))
def test_many_segments_of_copies_that_are_doubted_are_judged_alike(count: int) -> None:
    """Lists, digests and reads of a copy differ from look to look."""
    assert check(with_doubts(story) for story in crowds(count))


@pytest.mark.parametrize("count", few_or_all(FEW // 5, SWARM // 5))
def test_many_segments_are_placed_alike(count: int) -> None:
    """Under each policy, with lost entries looked for elsewhere, each segment has a finding."""
    assert check((with_placement(story) for story in crowds(count)), is_placed=True)


@pytest.mark.parametrize("count", few_or_all(VAST_FEW, VAST_SWARM))
def test_ledgers_too_long_to_be_looked_at_whole_are_judged_alike(count: int) -> None:
    """They have millions of entries, with few holes or many. They cannot be judged entry by entry,
    and the two checkers agree.
    """
    wrong = {}
    for story in vasts(count):
        driven = drive(story)
        wrong[story.name] = differences(driven.step.verdict, driven.evidence, story.terms)
    assert {} == {name: said for name, said in wrong.items() if said}


def _bounded_before_they_are_joined(right: Any) -> Any:
    def entries(masks: Any, ranges_max: int | None) -> Entries:
        pieces = list(masks)
        return Entries(
            right(pieces if ranges_max is None else pieces[:ranges_max], None).ranges,
            right(pieces, None).total,
        )

    return entries


COPIES = "auditor.second_checker.copies"
PLANTED: dict[str, Plant] = {
    "runs are bounded before they are joined": _instead(
        f"{COPIES}._entries", _bounded_before_they_are_joined
    ),
    "the last range compared may go on": _instead(
        f"{COPIES}.RANGES_KEPT_MAX", lambda right: RANGES_MAX
    ),
    "ranges end with their segment": _instead(
        f"{COPIES}._append", lambda right: lambda ranges, runs: ranges.extend(runs)
    ),
}


@pytest.mark.parametrize("bug", one_in(3, PLANTED))
def test_the_check_of_many_segments_notices_a_planted_bug(
    bug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check fails for a second checker with this bug."""
    PLANTED[bug](monkeypatch)
    with pytest.raises(AssertionError, match="crowd"):
        check(map(crowd, range(2 * SWARM)))

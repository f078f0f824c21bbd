"""Laws over stories for the trial of mutants, in small parts: each is cheap to run again.

They are the laws of `tests/properties`, over fewer stories. Pytest does not collect this file by
itself; `try_mutants.py` names it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "properties"))

from support.crowded_stories import crowd
from support.stories import NOW_MS, Story, drive, tails_in_a_crowd, tell, with_doubts
from test_properties_coverage import problems
from test_properties_placement import as_java, java
from test_properties_placement import problems as problems_of_placement
from test_properties_placement import story as placement_story
from test_properties_second_checker import _first, with_placement

from auditor.second_checker.agreement import differences
from auditor.second_checker.placement import adherence as tried

PARTS, STORIES = 8, 20
"""Parts of each law, and the stories of each part."""


def seeds(part: int) -> range:
    return range(part * STORIES, (part + 1) * STORIES)


def wrong(story: Story) -> list[str]:
    """Return the objections of the entry-by-entry contract and of the second checker to the verdict
    on a story.
    """
    driven = drive(story)
    return problems(driven) + list(differences(driven.step.verdict, driven.evidence, story.terms))


def left_open(story: Story) -> Story:
    """Return the same ledger, last changed before or after the time from which an open ledger is
    remarked.
    """
    since = NOW_MS - Random(story.name).choice((5_000, 20_000))
    states = tuple(replace(state, ctime_ms=since, mtime_ms=since) for state in story.states)
    return replace(story, states=states, more_terms={**story.more_terms, "stuck_after_ms": 10_000})


@pytest.mark.parametrize("part", range(PARTS))
def test_stories_are_judged_as_the_contract_says_and_both_checkers_agree(part: int) -> None:
    """The entry-by-entry contract agrees at every step, and the second checker has no objection at
    the end.
    """
    for seed in seeds(part):
        assert [] == wrong(tell(seed)), seed


def test_a_crowd_is_judged_as_the_contract_says() -> None:
    """This is the story that no seed draws."""
    assert [] == wrong(tails_in_a_crowd())


@pytest.mark.parametrize("part", range(PARTS // 2))
def test_ledgers_of_many_segments_are_judged_as_the_contract_says_and_both_checkers_agree(
    part: int,
) -> None:
    """Ledgers have up to 200 segments, with losses across their borders."""
    for seed in range(part * STORIES // 2, (part + 1) * STORIES // 2):
        assert [] == wrong(crowd(seed)), seed


@pytest.mark.parametrize("part", range(PARTS // 4))
def test_stories_of_copies_that_are_doubted_are_judged_as_the_contract_says(part: int) -> None:
    """Lists, digests and reads of a copy differ from look to look."""
    for seed in seeds(part):
        assert [] == wrong(with_doubts(tell(seed))), seed


@pytest.mark.parametrize("part", range(PARTS // 4))
@pytest.mark.parametrize("variant", [with_placement, left_open])
def test_both_checkers_agree_on_placement_and_on_ledgers_left_open(
    variant: Callable[[Story], Story], part: int
) -> None:
    """They agree under each policy; and on open ledgers, whatever their age."""
    for seed in seeds(part):
        story = variant(tell(seed))
        driven = drive(story)
        assert () == differences(driven.step.verdict, driven.evidence, story.terms), seed


@pytest.mark.parametrize("part", range(PARTS))
def test_ensembles_are_judged_as_if_every_place_had_been_tried(part: int) -> None:
    """The first checker, in java mode too, and the second one agree with trying every place."""
    for seed in seeds(part):
        one = placement_story(seed)
        assert [] == problems_of_placement(one), seed
        assert java(one) is as_java(one), seed
        for rule in (one.rule, replace(one.rule, java_compatible=True)):
            second = tried(one.ensemble, one.write_quorum, one.ack_quorum, rule, one.around)
            assert second is None or second is _first(one, rule).adherence, seed

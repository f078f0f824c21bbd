"""The stories themselves: the seed in a failure is only useful if it makes the same story again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.stories import Story, stories

COUNT = 250
"""Stories that are compared. In about a tenth of them a draw used to depend on the order of a
set.
"""
TESTS = Path(__file__).parents[1]
PRINT_STORIES = f"""
import sys
sys.path[:0] = [{str(TESTS)!r}, {str(Path(__file__).parent)!r}]
from support.stories import stories
from test_properties_second_checker import with_placement
from test_properties_stories import as_text
both = [one for story in stories({COUNT}) for one in (story, with_placement(story))]
print(*map(as_text, both), sep="\\n")
"""


def as_text(story: Story) -> str:
    """Return all that the story says of bookies and metadata, with sets sorted."""
    return repr(
        [
            (state.metadata, state.mark, _of_bookies(story, at))
            for at, state in enumerate(story.states)
        ]
    )


def _of_bookies(story: Story, at: int) -> list[object]:
    bookies = story.states[at].bookies
    return [
        (
            name,
            sorted(one.holds),
            sorted(one.unlisted),
            sorted(one.corrupt),
            one.answer,
            one.read,
            one.knows_ledger,
        )
        for name, one in sorted(bookies.items())
    ]


@pytest.fixture(scope="module")
def printed() -> list[str]:
    """Return the output of two processes that hash strings differently."""
    environments = ({**os.environ, "PYTHONHASHSEED": seed} for seed in ("1", "2"))
    command = [sys.executable, "-c", PRINT_STORIES]
    return [
        subprocess.run(command, env=one, capture_output=True, text=True, check=True).stdout
        for one in environments
    ]


def test_a_seed_tells_the_same_story_in_every_process(printed: list[str]) -> None:
    """The order of Python's sets in the process does not matter."""
    one, other = (text.splitlines() for text in printed)
    assert 2 * COUNT == len(one) == len(other)
    assert [] == [n // 2 for n, (a, b) in enumerate(zip(one, other, strict=True)) if a != b], (
        "seeds"
    )


def test_stories_differ() -> None:
    """Hardly any two are alike, so that the number of stories means something."""
    assert 0.9 * COUNT < len({as_text(story) for story in stories(COUNT)})

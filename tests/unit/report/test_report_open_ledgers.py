"""The report's line on open ledgers whose recovery would be blocked."""

from __future__ import annotations

from support import report_stories as stories

from auditor.after.page.page_view import conditions
from auditor.report.first_screen import Whereabouts, render_first_screen
from auditor.report.layout import Screen
from auditor.report.text import render


def flat(**changes: object) -> str:
    text = render(stories.summary(**changes), [], run_dir="/runs/one", screen=Screen(80))
    return " ".join(text.split())


def test_they_are_counted_with_the_bookies_that_block_them() -> None:
    """And the file that has all is named."""
    text = flat(open_recovery_blocked={"ledgers": 4, "some": [3, 5, 7], "bookies": ["b3", "b4"]})
    assert (
        "4 open ledgers (3, 5, 7 ...) could not be recovered if their writers died now: too many"
        " bookies of the last ensemble are not registered or silent (b3, b4)"
    ) in text
    assert "open/ (the open ledgers that could not be recovered now)" in text


def test_one_ledger_has_one_writer() -> None:
    """The sentence is in the singular."""
    text = flat(open_recovery_blocked={"ledgers": 1, "some": [3], "bookies": ["b3"]})
    assert "1 open ledger (3) could not be recovered if its writer died now" in text


def test_they_are_on_the_first_screen_and_on_the_page() -> None:
    """Only where there are some. The page has a sentence of its own below the headline."""
    blocked = {"ledgers": 2, "some": [3, 5], "bookies": ["b3"]}
    said = "2 open ledgers (3, 5) could not be recovered if their writers died now"
    with_some = stories.summary(open_recovery_blocked=blocked)
    where = Whereabouts("/runs/one")
    assert said in " ".join(render_first_screen(with_some, [], where).split())
    assert "recovered" not in render_first_screen(stories.summary(), [], where)
    assert [True] == [one.startswith(said) for one in conditions(with_some)]
    assert [] == conditions(stories.summary())


def test_without_such_a_ledger_there_is_no_line() -> None:
    """This includes the summary of a version that did not look for them."""
    none = {"ledgers": 0, "some": [], "bookies": []}
    assert flat() == flat(open_recovery_blocked=none)
    assert "recovered" not in flat()


def test_what_one_look_leaves_unknown_is_said() -> None:
    """It is not zero."""
    assert "if their writers died is not known: there" in flat(open_recovery_blocked=None)

"""What changed, since when a finding is seen, and what is muted, in words that are true."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from support import report_stories as stories

from auditor.model.finding import Kind
from auditor.report.findings_text import (
    OUTGROWN_SHOWN_MAX,
    changes_words,
    muted_words,
    mutes_sentences,
    render_finding,
    seen_words,
)
from auditor.report.first_screen import Whereabouts, render_first_screen
from auditor.report.layout import PLAIN
from auditor.report.text import render

NOTHING = dict.fromkeys(
    ("new", "worse", "still", "better", "resolved", "not_checked_again", "gone"), 0
)
SINCE = {
    "since": {"run_id": "r", "started_at": "2026-01-04T03:00:12.000Z"},
    "partial": False,
    "new_by_kind": {},
}


def changes(**numbers: Any) -> dict[str, Any]:
    return SINCE | NOTHING | numbers


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ("", None),
        ("nothing new since the run of 2026-01-04 03:00 UTC", changes()),
        (
            "2 new since the run of 2026-01-04 03:00 UTC, 3 resolved, 1 could not be checked again",
            changes(new=2, resolved=3, not_checked_again=1),
        ),
        (
            (
                "nothing new since the run of 2026-01-04 03:00 UTC, 1 worse, 4 as before, 1 better,"
                " 2 on ledgers that are not listed any more"
            ),
            changes(worse=1, still=4, better=1, not_checked_again=2, gone=2),
        ),
        (
            "on the ledgers named: 1 new since the run of 2026-01-04 03:00 UTC",
            changes(new=1, partial=True),
        ),
        (
            "not known: latest.json names no run",
            {"since": None, "problem": "latest.json names no run"},
        ),
    ],
)
def test_what_changed_is_one_sentence(said: str, field: dict[str, Any] | None):
    """A finding that was not checked again is not called resolved. Ledgers that are not listed any
    more are counted.
    """
    assert said == changes_words(stories.summary(changes=field).changes)


def test_what_changed_is_on_the_first_screen_and_in_the_report():
    """The row of a kind has the number of its new findings."""
    summary, found = stories.wiped_bookie(3)
    changed = changes(new=2, new_by_kind={"ENTRY_BELOW_WRITE_QUORUM": 2})
    summary = stories.changed_summary(summary, changes=changed)
    screen = render_first_screen(summary, found, Whereabouts("/r"))
    assert "\nchanged   2 new since the run of 2026-01-04 03:00 UTC\n" in screen
    assert re.search("ENTRY_BELOW_WRITE_QUORUM +3 ledgers, 2 new; worst: ledger 100 of", screen)
    assert re.search(r"\n +findings  new  ledgers .*\n", screen)
    assert re.search(r"\nwarning +3    2        3 .*\n", screen)
    assert "\nChanged: 2 new since the run of 2026-01-04 03:00 UTC.\n" in render(summary, found)


def test_a_finding_says_since_when_it_is_seen():
    """`auditor explain` shows it. Where it is unknown, nothing is shown."""
    found = stories.finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 7)
    assert "seen by 3 runs since that of 2025-12-30 03:00 UTC" == seen_words(found)
    once = stories.changed(found, runs_seen=1)
    assert "first seen by the run of 2025-12-30 03:00 UTC" == seen_words(once)
    unknown = stories.changed(found, first_seen=None, runs_seen=None)
    assert "" == seen_words(unknown) == seen_words(replace(found, history=None))
    assert "seen by 3 runs" in render_finding(found, PLAIN)


def test_a_muted_finding_is_marked_wherever_it_stands():
    """The text has the last day of the mute and its reason. The report says that a muted finding
    does not count for the exit code.
    """
    muted = stories.finding(
        Kind.ENTRY_BELOW_WRITE_QUORUM, 7, muted={"until": "2027-01-31", "why": "drained\x1b"}
    )
    assert "muted until 2027-01-31: drained\\x1b" == muted_words(muted)
    assert "" == muted_words(stories.changed(muted, muted=None))
    summary = stories.summary(
        outcome="VIOLATED", exit_code=0, findings=stories.counted([muted]),
        mutes={"problem": None, "findings": 1, "by_kind": {}, "outgrown": [], "expired": []},
    )  # fmt: skip
    full, screen = (
        render(summary, [muted]),
        render_first_screen(summary, [muted], Whereabouts("/r")),
    )
    assert (
        "(muted until 2027-01-31)" in full
        and "muted until 2027-01-31: drained" in render_finding(muted, PLAIN)
    )
    for text in (full, screen):
        said = "The exit code is 0, because none of the findings that are not muted counts"
        assert f"{said} for --fail-on." in " ".join(text.split())
        assert "1 finding is muted and does not count for the exit code" in text
    assert re.search(r"ledger 7 of \S+, muted\n", screen)


def test_the_worst_finding_that_is_not_muted_comes_next():
    """A muted finding is known already. If every finding is muted, the worst of them comes next."""
    known = stories.finding(
        Kind.ENTRY_WITHOUT_REPLICA, 7, id="known", muted={"until": "2027-01-31", "why": "w"}
    )
    open_one = stories.finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 8, id="open")
    summary = stories.summary(
        outcome="VIOLATED", exit_code=1, findings=stories.counted([known, open_one])
    )
    assert "auditor explain open\n" in render_first_screen(
        summary, [known, open_one], Whereabouts("/r")
    )
    assert "auditor explain known\n" in render_first_screen(summary, [known], Whereabouts("/r"))


def test_a_mute_that_does_not_apply_is_said_with_its_reason():
    """A few are shown and the rest counted. A file of mutes with an error, and mutes that are over,
    have a sentence too.
    """
    outgrown = [
        {"id": f"id{n}", "on": "ledger 7", "why": "it has 2 entries now and had 1"}
        for n in range(9)
    ]
    over = [{"id": "id9", "on": "ledger 9", "until": "2026-01-01"}]
    mutes = {
        "problem": "m mutes nothing: line 1",
        "findings": 0,
        "outgrown": outgrown,
        "expired": over,
    }
    said = mutes_sentences(stories.summary(mutes=mutes))
    assert "m mutes nothing: line 1" == said[0]
    assert "the mute of id0 (ledger 7) does not apply: it has 2 entries now and had 1" == said[1]
    assert f"{9 - OUTGROWN_SHOWN_MAX} more mutes do not apply: see summary.json" == said[-2]
    assert "1 mute of a finding is over (id9)" == said[-1] and [] == mutes_sentences(
        stories.summary()
    )

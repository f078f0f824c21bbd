"""What a diff says of disks and orphans, beside what became of each finding."""

from __future__ import annotations

from typing import Any

import pytest
from support import report_stories as stories

from auditor.after.comparison import growth_notes
from auditor.model.summary import Summary


def summary(free: int | None = None, orphans: dict[str, Any] | None = None) -> Summary:
    """Return the summary of a run: the free bytes of the only bookie's disks, and its orphans."""
    sizes = {"bookie_id": "b1", "location": None, "total_bytes": 4096, "free_bytes": free}
    space = None if free is None else {"fullest": [sizes]}
    return stories.summary(space=space, references=orphans)


ORPHANS = {"orphaned": 3, "orphaned_bytes": 4096}


@pytest.mark.parametrize(
    ("before", "after", "notes"),
    [
        (summary(), summary(), []),
        (summary(2048), summary(), []),
        (summary(2048), summary(2048), []),
        (
            summary(2048),
            summary(1024),
            [
                "On the 1 bookie of which both runs know how full the disks are, 1.0 KiB more is"
                " used."
            ],
        ),
        (
            summary(2048),
            summary(4096),
            [
                "On the 1 bookie of which both runs know how full the disks are, 2.0 KiB less is"
                " used."
            ],
        ),
        (summary(orphans=ORPHANS), summary(orphans=ORPHANS), []),
        (
            summary(orphans=ORPHANS),
            summary(orphans={"orphaned": 1, "orphaned_bytes": 1024}),
            ["There are 2 fewer orphans, with 3.0 KiB less in all copies."],
        ),
        (
            summary(orphans=ORPHANS),
            summary(orphans={"orphaned": 4, "orphaned_bytes": 5120}),
            ["There are 1 more orphans, with 1.0 KiB more in all copies."],
        ),
    ],
)
def test_a_diff_says_how_disks_and_orphans_grew(
    before: Summary, after: Summary, notes: list[str]
) -> None:
    """It says nothing of what did not change, or what one of the runs does not know."""
    assert notes == growth_notes(before, after)


def test_the_growth_that_a_run_stored_is_that_since_another_run() -> None:
    """A diff counts anew: it may be of any two runs."""
    since = {"run_id": "r-1", "started_at": "2026-01-01T00:00:00.000Z"}
    grown = {"since": since, "ledgers": 9, "stored_bytes": 9}
    later = summary(orphans={**ORPHANS, "orphaned_growth": grown})
    assert [] == growth_notes(summary(), later)
    assert [] == growth_notes(summary(orphans=ORPHANS), later)

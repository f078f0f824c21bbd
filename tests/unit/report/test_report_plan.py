"""What `--dry-run` says of a run before it asks anything."""

from __future__ import annotations

import pytest
from support.hostile_names import HOSTILE, unprintable

from auditor.report.plan import OPEN_FILES, OPEN_FILES_OF_ANY_PROCESS, plan_text
from auditor.summary.costs import BookieCost


@pytest.mark.parametrize(
    ("lists", "warns"), [(OPEN_FILES_OF_ANY_PROCESS, False), (OPEN_FILES_OF_ANY_PROCESS + 1, True)]
)
def test_the_plan_warns_of_index_files_that_lists_leave_open(lists: int, warns: bool) -> None:
    """It does so where one bookie is asked for more lists than any process may have files open."""
    said = plan_text([BookieCost("b1", 1, 24), BookieCost("b2", lists, 24 * lists)], 0, 64)
    assert warns is (OPEN_FILES[-1] in said)
    assert not warns or said.endswith("\n\n" + "\n".join(OPEN_FILES) + "\n")


def test_a_plan_without_bookies_needs_no_minutes_and_no_warning() -> None:
    """An empty cluster has nobody to ask."""
    said = plan_text([], 2000, 64)
    assert "would ask 0 bookies for 0 lists" in said and "about 0.0 minutes" in said
    assert OPEN_FILES[0] not in said


def test_a_name_of_a_bookie_forges_no_line_of_the_plan() -> None:
    """Any client may write the metadata that names it."""
    said = plan_text([BookieCost("b" + HOSTILE, 1_035, 24)], 2000, 64)
    assert [] == unprintable(said) and "\nauditor:" not in said
    assert "would ask 1 bookie for 1,035 lists, some 0.0 MiB" in said

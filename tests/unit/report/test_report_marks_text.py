"""Marks in the report: how many, how old, and which mean nothing any more."""

from __future__ import annotations

from support import report_stories as stories

from auditor.report.text import render

MARKS = {"total": 12, "within_grace": 10, "beyond_grace": 2, "stale": 3, "without_ledger": 1}
AGES = {"under_1h": 4, "under_1d": 6, "under_1w": 0, "older": 2}


def flat(**changes: object) -> str:
    return " ".join(render(stories.summary(**changes), [], run_dir="./audits/x").split())


def test_marks_are_counted_by_grace_and_by_age() -> None:
    """A class without a mark is left out; where the ids are is said under the files."""
    told = flat(marks=MARKS, marks_by_age=AGES)
    assert "12 marks: 10 within grace, 2 beyond it by age: under 1 h 4, 1 h to 1 d 6, older 2" in told
    assert "3 marks are stale: every copy is where the metadata says 1 mark has no ledger" in told
    assert "marks/ (the ledgers of stale marks, and of marks without a ledger)" in told


def test_a_run_of_a_part_speaks_of_its_ledgers_alone() -> None:
    """It has not counted the marks of others."""
    assert "12 marks of the named ledgers: 10" in flat(marks=MARKS, marks_by_age=AGES, partial=True)


def test_where_nothing_is_marked_nothing_is_said() -> None:
    """Nor by a summary of a version that did not count marks."""
    none = dict.fromkeys(MARKS, 0)
    assert "Marks" not in flat(marks=none, marks_by_age=dict.fromkeys(AGES, 0)) and "Marks" not in flat()

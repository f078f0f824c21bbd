"""Marks in the report: how many, how old, which are stale, and which have no ledger."""

from __future__ import annotations

from support import report_stories as stories

from auditor.model.finding import Kind
from auditor.report.text import render

MARKS = {"total": 12, "within_grace": 10, "beyond_grace": 2, "stale": 3, "without_ledger": 1}
AGES = {"under_1h": 4, "under_1d": 6, "under_1w": 0, "older": 2}


def flat(**changes: object) -> str:
    return " ".join(render(stories.summary(**changes), [], run_dir="./audits/x").split())


def test_marks_are_counted_by_grace_and_by_age() -> None:
    """An age without a mark is left out. The list of files says where the ids are."""
    text = flat(marks=MARKS, marks_by_age=AGES)
    assert (
        "12 marks: 10 within grace, 2 beyond it by age: under 1 h 4, 1 h to 1 d 6, older 2" in text
    )
    assert (
        "3 marks are stale: every copy was listed or read where the metadata says "
        "1 mark has no ledger: its"
        " metadata does not exist" in text
    )
    assert "marks/ (the ledgers of stale marks, and those of MARK_WITHOUT_LEDGER)" in text


def test_the_file_of_ids_is_that_of_the_finding() -> None:
    """The directory is named only with the finding. A young mark without a ledger is counted, and
    its ledger is in no file.
    """
    young = MARKS | {"stale": 0, "within_grace": 12, "beyond_grace": 0}
    assert "marks/" not in flat(marks=young, marks_by_age=AGES)
    found = stories.counted(
        [stories.finding(Kind.MARK_WITHOUT_LEDGER, "cluster", witness="Ledger 7 is marked.")]
    )
    assert "marks/ (the ledgers" in flat(marks=young, marks_by_age=AGES, findings=found)


def test_several_marks_without_a_ledger_have_a_sentence_in_the_plural() -> None:
    """Each mark has its own ledger id."""
    text = flat(marks=MARKS | {"without_ledger": 4}, marks_by_age=AGES)
    assert "4 marks have no ledger: their metadata does not exist" in text


def test_a_run_of_a_part_speaks_of_its_ledgers_alone() -> None:
    """A run over named ledgers has not counted the marks of others."""
    assert "12 marks of the named ledgers: 10" in flat(marks=MARKS, marks_by_age=AGES, partial=True)


def test_where_nothing_is_marked_nothing_is_said() -> None:
    """This includes the summary of a version that did not count marks."""
    none = dict.fromkeys(MARKS, 0)
    assert (
        "Marks" not in flat(marks=none, marks_by_age=dict.fromkeys(AGES, 0))
        and "Marks" not in flat()
    )

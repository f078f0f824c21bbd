"""Marks whose ledgers were not listed, from values to rows and back."""

from __future__ import annotations

import pyarrow as pa

from auditor.evidence.rows import Row, table
from auditor.evidence.schemas import MARKS
from auditor.findings.on_cluster import (
    FIRST_LOOK,
    LAST_LOOK,
    LISTED,
    SeenMarks,
    malformed_row,
    mark_row,
    problem_row,
    seen_marks,
    suspects_of,
)
from auditor.first_checker.underreplication import MarkLook, SeenMark
from auditor.model.evidence import Terms
from auditor.model.ledger import Mark
from auditor.summary.counts import UnlistedMark

TERMS = Terms(
    judged_at_ms=10_000, underreplication_grace_ms=1_000, confirming_reads_max=1, looks_max=2
)
OLD, YOUNG = Mark(2_000, 3_000), Mark(9_500)


def rows(*cells: Row) -> pa.Table:
    return pa.Table.from_batches([table(MARKS, cells)])


def test_what_was_seen_is_read_as_it_was() -> None:
    """Marks that were looked at twice, once, or only listed are sorted by id. The problem says why
    not all were listed.
    """
    read = seen_marks(
        rows(
            mark_row(9, LAST_LOOK, 70, None, None),
            mark_row(9, FIRST_LOOK, 30, YOUNG, True),
            problem_row(80, "no permission"),
            mark_row(5, LISTED, 20, OLD, None),
            mark_row(7, LAST_LOOK, 60, OLD, False),
            mark_row(7, LISTED, 20, OLD, None),
            mark_row(7, FIRST_LOOK, 40, OLD, False),
            mark_row(8, FIRST_LOOK, 50, OLD, False),
        )
    )
    twice = SeenMark(7, MarkLook(40, 2_000, 3_000, False), MarkLook(60, 2_000, 3_000, False))
    once = SeenMark(8, MarkLook(50, 2_000, 3_000, False))
    gone = SeenMark(9, MarkLook(30, 9_500, None, True), MarkLook(70, None, None, None))
    assert (
        SeenMarks(
            (twice, once, gone), (SeenMark(5, MarkLook(20, 2_000, 3_000, None)),), "no permission"
        )
        == read
    )
    assert SeenMarks() == seen_marks(rows())


def test_a_row_has_each_value_in_its_column() -> None:
    """The times of a mark that was gone are null. A problem and a malformed mark have no ledger."""
    some, none, problem, malformed = rows(
        mark_row(7, FIRST_LOOK, 40, OLD, False),
        mark_row(9, LAST_LOOK, 70, None, True),
        problem_row(80, "no permission"),
        malformed_row(90, "/marks/urL-1"),
    ).to_pylist()
    names = MARKS.names
    assert [7, FIRST_LOOK, 40, 2_000, 3_000, False, "", None] == [some[name] for name in names]
    assert [9, LAST_LOOK, 70, None, None, True, "", None] == [none[name] for name in names]
    assert [None, LISTED, 80, None, None, None, "no permission", None] == [
        problem[name] for name in names
    ]
    assert [None, LISTED, 90, None, None, None, "", "/marks/urL-1"] == [
        malformed[name] for name in names
    ]


def test_malformed_marks_are_no_problem_of_the_listing() -> None:
    """They are paths of their own, sorted: all other marks are known."""
    seen = seen_marks(rows(malformed_row(90, "/marks/b"), malformed_row(90, "/marks/a")))
    assert SeenMarks(malformed=("/marks/a", "/marks/b")) == seen


def test_a_mark_beyond_grace_without_metadata_is_looked_at_again() -> None:
    """Only the first look counts. Each mark comes with the time of that look."""
    seen = rows(
        mark_row(1, FIRST_LOOK, 41, OLD, False),
        mark_row(2, FIRST_LOOK, 42, YOUNG, False),
        mark_row(3, FIRST_LOOK, 43, OLD, True),
        mark_row(4, LISTED, 44, OLD, False),
        mark_row(5, LAST_LOOK, 45, OLD, False),
        mark_row(6, FIRST_LOOK, 46, Mark(8_500), False),
        mark_row(7, FIRST_LOOK, 47, None, False),
    )
    assert {1: 41, 6: 46} == suspects_of(seen, TERMS)


def test_marks_that_were_there_last_count_with_their_age() -> None:
    """Marks that were looked at and marks that were only listed count. A mark that was gone at the
    last look does not.
    """
    marks = (SeenMark(7, MarkLook(40, 2_000, 3_000, None), MarkLook(60, 2_500, None, False)),)
    gone = SeenMark(9, MarkLook(30, 9_500, None, True), MarkLook(70, None, None, None))
    seen = SeenMarks((*marks, gone), (SeenMark(5, MarkLook(20, 4_000, 3_000, None)),))
    assert (UnlistedMark(7_500, False), UnlistedMark(7_000, None)) == seen.as_unlisted(10_000)

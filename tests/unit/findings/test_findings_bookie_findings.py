"""Bookies that fail requests or lost their content, as they are read from the evidence of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pyarrow as pa
import pytest
from support.tables_in_memory import Tables

from auditor.evidence.rows import answer_row, read_row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, READS, VERDICTS
from auditor.evidence.table_scan import scan_rows
from auditor.findings.bookies import by_look
from auditor.findings.failing_requests import judge_failing, refusals_of
from auditor.findings.lost_content import gather_heard, judge_content
from auditor.model.availability import (
    Answer,
    AnswerStatus,
    EntryRead,
    Greeting,
    ReadStatus,
)
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.finding import Finding, Kind

UP = BookieRecord("b1", 1, 0, Registration.WRITABLE, "h", 3181, True, "", Greeting.ANSWERED)
RECORDS = [replace(UP, bookie_id=bookie, look=look) for bookie in ("b1", "b2") for look in (1, 2)]
REFUSED = Answer("b1", 1, 1, 0, AnswerStatus.REFUSED, detail="EIO: x")
READ = EntryRead("b1", 1, 0, 1, 0, ReadStatus.PRESENT)
FAILING = [replace(REFUSED, ledger_id=n, look=look) for n in (1, 2, 3) for look in (1, 2)]


def evidence(answers: Sequence[Answer] = (), reads: Sequence[EntryRead] = ()) -> Tables:
    run = Tables()
    run.write_table("evidence/answers", table(ANSWERS, [answer_row(one) for one in answers]), "a")
    run.write_table("evidence/reads", table(READS, [read_row(one) for one in reads]), "a")
    return run


def verdicts_lacking(
    bookie: str, expected: int, absent: int, standing: str = "violated"
) -> pa.Table:
    """Return the verdicts on ledgers 1 to 3, where a bookie lacks `absent` of `expected`
    entries.
    """
    lacks = [{"bookie_id": bookie, "expected": expected, "absent": absent}]
    rows = [
        {"ledger_id": n, "standing": standing, "unknowns": [], "findings": [], "lacks": lacks}
        for n in (1, 2, 3)
    ]
    return pa.Table.from_pylist(rows, schema=VERDICTS)


def judge(
    tables: Tables, verdicts: pa.Table | None = None, away: frozenset[str] = frozenset()
) -> list[Finding]:
    """Return the findings on bookies that fail requests or lost their content."""
    run = cast(Place, tables)
    scanned = scan_rows(VERDICTS.empty_table() if verdicts is None else verdicts)
    looks = by_look(RECORDS)
    contents = gather_heard(run, scanned, RECORDS).contents
    first = judge_content(looks, {b: one for b, one in contents.items() if b not in away})
    first += judge_failing(looks, refusals_of(run), away)
    return first


@pytest.mark.parametrize(
    ("lists", "reads", "is_found"),
    [
        ([AnswerStatus.HELD], [], True),
        ([AnswerStatus.NO_SUCH_LEDGER], [], True),
        ([], [ReadStatus.PRESENT], True),
        ([AnswerStatus.UNSUPPORTED], [ReadStatus.NO_ENTRY], False),
        ([], [], False),
    ],
)
def test_a_bookie_fails_requests_where_another_serves_them(
    lists: list[AnswerStatus], reads: list[ReadStatus], is_found: bool
) -> None:
    """A list or an entry of another bookie counts. An entry that this bookie sent in a search does
    not.
    """
    others = [replace(REFUSED, bookie_id="b2", status=status) for status in lists]
    read = [replace(READ, bookie_id="b2", status=status) for status in reads]
    run = evidence([*FAILING, *others], [*read, replace(READ, is_search=True)])
    found = [(one.kind, one.bookie_id) for one in judge(run)]
    assert [(Kind.BOOKIE_FAILING_REQUESTS, "b1")] * is_found == found


HELD = [
    replace(REFUSED, bookie_id=bookie, ledger_id=n, look=look, status=AnswerStatus.HELD)
    for bookie in ("b1", "b9")
    for n in (1, 2, 3)
    for look in (1, 2)
]


def test_a_bookie_lost_its_content_where_the_ledgers_are_violated() -> None:
    """There is no finding on a bookie in maintenance, nor on a bookie that no look saw."""
    run = evidence(HELD)
    (found,) = judge(run, verdicts_lacking("b1", 10, 6))
    assert (Kind.BOOKIE_LOST_CONTENT, "b1") == (found.kind, found.bookie_id)
    assert [] == judge(run, verdicts_lacking("b1", 10, 6, "indeterminate"))
    assert [] == judge(run, verdicts_lacking("b1", 10, 6), frozenset({"b1"}))
    assert [] == judge(run, verdicts_lacking("b9", 10, 6))

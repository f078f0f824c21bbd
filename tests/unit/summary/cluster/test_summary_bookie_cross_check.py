"""The second checker on bookies: what it reads of the evidence, and what it does not read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
import pytest
from support.night_stories import night
from support.tables_in_memory import Tables

from auditor.evidence.rows import answer_row, ledger_row, read_row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, LEDGERS, LISTING, READS, VERDICTS
from auditor.evidence.table_scan import scan_rows
from auditor.first_checker.content import judge_content
from auditor.first_checker.failing import judge_failing
from auditor.model.availability import (
    NO_COOKIE,
    Answer,
    AnswerStatus,
    EntryRead,
    Greeting,
    ReadStatus,
)
from auditor.model.cluster import BookieRecord, Registration, Surroundings
from auditor.model.finding import Finding, Kind
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    RecordStatus,
    Segment,
    ZnodeStamp,
)
from auditor.run.conclusion import conclude
from auditor.second_checker.finding_comparison import Agreed
from auditor.summary.causes.grouping import gather_heard
from auditor.summary.cluster.bookie_cross_check import bookies_agreed
from auditor.summary.cluster.bookies import by_look
from auditor.summary.cluster.refusals import refusals_of
from auditor.summary.previous_run import NO_PREVIOUS


def test_open_and_empty_ledgers_do_not_need_a_lost_bookie() -> None:
    """Bookies are not asked about them. If the evidence has answers on them nevertheless, the
    checkers differ and the finding is withheld.
    """
    ensemble = (Segment(0, ("b1", "g")),)
    written = [
        (1, LedgerState.CLOSED, 9),
        (2, LedgerState.CLOSED, 9),
        (3, LedgerState.OPEN, None),
        (4, LedgerState.CLOSED, -1),
    ]
    states = [
        LedgerRecord(
            n,
            look,
            0,
            RecordStatus.FOUND,
            ZnodeStamp(1, 0, 0),
            LedgerMetadata(3, state, 2, 2, 1, last, 9, ensemble),
        )
        for n, state, last in written
        for look in (1, 2, 3)
    ]
    gone = [
        Answer("g", n, look, 0, AnswerStatus.UNREGISTERED, detail=NO_COOKIE)
        for n, *_ in written
        for look in (1, 2)
    ]
    records = [
        BookieRecord("b1", k, k, Registration.WRITABLE, "h", 1, True, "", Greeting.ANSWERED)
        for k in (1, 20_000)
    ]
    records += [
        BookieRecord("g", k, k, Registration.NONE, greeting=Greeting.UNREGISTERED)
        for k in (1, 20_000)
    ]
    records = [replace(one, look=1 if one.read_at_ms == 1 else 2) for one in records]
    rows = {
        "listing": (LISTING, [(n,) for n, *_ in written]),
        "ledgers": (LEDGERS, [ledger_row(one) for one in states]),
    }
    rows |= {"answers": (ANSWERS, [answer_row(one) for one in gone])}
    run = Tables(
        {f"evidence/{name}": pa.Table.from_batches([table(*one)]) for name, one in rows.items()}
    )
    verdicts = [
        {"ledger_id": n, "standing": "sound", "unknowns": [], "findings": [], "lacks": []}
        for n, *_ in written
    ]
    scanned = scan_rows(pa.Table.from_pylist(verdicts, schema=VERDICTS))
    about = replace(
        night(0).about, partial=False, previous_population=None, unregistered_since_ms={}
    )
    done = conclude(
        cast(Place, run),
        about,
        records,
        NO_PREVIOUS,
        verdicts=scanned,
        finished_at="2026-01-01T03:01:00Z",
        duration_s={},
    )
    (sentence,) = done.summary["withheld"]
    assert [] == done.findings
    assert (
        "unmarked ledgers: the first says 4, the second 2; some ledgers: the first says (1, 2, 3,"
        " 4), the second (1, 2)" in sentence
    )


UP = BookieRecord("b1", 1, 0, Registration.WRITABLE, "h", 3181, True, "", Greeting.ANSWERED)
RECORDS = [replace(UP, bookie_id=bookie, look=look) for bookie in ("b1", "b2") for look in (1, 2)]
REFUSED = Answer("b1", 1, 1, 0, AnswerStatus.REFUSED, detail="EIO: x")
READ = EntryRead("b1", 1, 0, 1, 0, ReadStatus.PRESENT)
FAILING = [replace(REFUSED, ledger_id=n, look=look) for n in (1, 2, 3) for look in (1, 2)]


class Counted(Tables):
    """Tables that count the rows that were read into memory."""

    held = 0

    def read_table(self, *args: Any, **more: Any) -> pa.Table:
        rows = super().read_table(*args, **more)
        self.held += rows.num_rows
        return rows


def evidence(answers: Sequence[Answer] = (), reads: Sequence[EntryRead] = ()) -> Counted:
    run = Counted()
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


def judge_agreed(
    tables: Tables, verdicts: pa.Table | None = None, away: frozenset[str] = frozenset()
) -> list[Finding]:
    """Return the findings of the first checker, after the second checker has confirmed them."""
    run = cast(Place, tables)
    scanned = scan_rows(VERDICTS.empty_table() if verdicts is None else verdicts)
    looks = by_look(RECORDS)
    contents = gather_heard(run, scanned, RECORDS).contents
    first = judge_content(looks, {b: one for b, one in contents.items() if b not in away})
    first += judge_failing(looks, refusals_of(run), away)
    about = night(0).about
    terms = replace(about.terms, around=Surroundings(maintenance=away))
    about = replace(about, partial=False, terms=terms, unregistered_since_ms={})
    assert Agreed(first, []) == bookies_agreed(run, about, RECORDS, scanned, first)
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
    found = [(one.kind, one.bookie_id) for one in judge_agreed(run)]
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
    (found,) = judge_agreed(run, verdicts_lacking("b1", 10, 6))
    assert (Kind.BOOKIE_LOST_CONTENT, "b1") == (found.kind, found.bookie_id)
    assert [] == judge_agreed(run, verdicts_lacking("b1", 10, 6, "indeterminate"))
    assert [] == judge_agreed(run, verdicts_lacking("b1", 10, 6), frozenset({"b1"}))
    assert [] == judge_agreed(run, verdicts_lacking("b9", 10, 6))


def test_answers_without_a_refusal_are_not_read_into_memory() -> None:
    """In a healthy cluster the tables are only scanned."""
    run = evidence(HELD, [READ])
    about = replace(night(0).about, partial=False)
    none = scan_rows(VERDICTS.empty_table())
    bookies_agreed(cast(Place, run), about, RECORDS, none, [])
    assert 0 == run.held

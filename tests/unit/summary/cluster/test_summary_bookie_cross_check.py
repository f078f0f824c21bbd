"""The second opinion on which ledgers need a lost bookie."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pyarrow as pa
from support.night_stories import night
from support.tables_in_memory import Tables

from auditor.evidence.rows import answer_row, ledger_row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, LEDGERS, LISTING, VERDICTS
from auditor.evidence.table_scan import scan_rows
from auditor.model.availability import NO_COOKIE, Answer, AnswerStatus, Greeting
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    RecordStatus,
    Segment,
    ZnodeStamp,
)
from auditor.run.conclusion import conclude
from auditor.summary.previous_run import NO_PREVIOUS


def test_open_and_empty_ledgers_do_not_need_a_lost_bookie() -> None:
    """Nobody asks bookies about them. Where the evidence says that somebody did, the finding is
    withheld.
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

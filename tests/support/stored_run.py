"""A small finished run on disk, with evidence that `replay` judges again. This process makes it,
without a cluster.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from auditor.evidence import findings_file
from auditor.evidence.rows import answer_row, bookie_row, ledger_row, read_row, table
from auditor.evidence.run_directory import Place, place, write_json
from auditor.evidence.schemas import ANSWERS, BOOKIES, LEDGERS, LISTING, READS, VERDICTS
from auditor.evidence.table_scan import scan_rows
from auditor.model.availability import (
    Answer,
    AnswerStatus,
    EntryRead,
    Greeting,
    ReadStatus,
    SequenceGroup,
)
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.evidence import Terms
from auditor.model.ledger import LedgerRecord, RecordStatus, ZnodeStamp
from auditor.run.conclusion import conclude
from auditor.run.replay import judge_again
from auditor.sandbox import cluster
from auditor.summary.about import About
from auditor.summary.previous_run import NO_PREVIOUS
from auditor.wire.entry_availability import canonical

RUN_NAME = "run-20260101T030000Z-000001"
FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", "inst", False, None)
ABOUT = About(
    "20260101T030000Z-000001",
    "2026-01-01T03:00:00Z",
    FACTS,
    Terms(9_000, 1_000, 16, 5),
    "warning",
    False,
)
TEXT = "e2 w2 a2 0:[b1 b2] closed 9"
WHOLE, LACKING = ((0, 9),), ((0, 3), (5, 9))
BOOKIE_IDS = ("b1", "b2", "b3")


def store_run(home: Path) -> Path:
    """Write a run of three ledgers below `home`: 7 and 9 are sound, of 8 bookie b2 lacks entry
    4.
    """
    run = replace(place(str(home / RUN_NAME)), missing_is_empty=True)
    run.create()
    write_json(run, "run.json", ABOUT.as_json())
    _write_evidence(run)
    bookies = [
        BookieRecord(bookie, look, look * 1000, Registration.WRITABLE, greeting=Greeting.ANSWERED)
        for bookie in BOOKIE_IDS
        for look in (1, 2)
    ]
    run.write_table("evidence/bookies", table(BOOKIES, map(bookie_row, bookies)), "all")
    verdicts = judge_again(run, ABOUT)
    conclusion = conclude(
        run,
        ABOUT,
        bookies,
        NO_PREVIOUS,
        verdicts=scan_rows(verdicts),
        finished_at="2026-01-01T03:05:00Z",
        duration_s={"ask": 1.0},
    )
    run.write_table("verdicts", verdicts.select(VERDICTS.names), "all")
    run.write_text("findings.jsonl", findings_file.text(conclusion.findings))
    run.write_text("summary.json", json.dumps(conclusion.summary.as_json()))
    return home / RUN_NAME


def _write_evidence(run: Place) -> None:
    records, answers, reads = [], [], []
    for ledger_id, looks in ((7, (1,)), (8, (1, 2, 3)), (9, (1,))):
        for look in looks:
            stamp = ZnodeStamp(ledger_id, 1, 5)
            records.append(
                ledger_row(
                    LedgerRecord(
                        ledger_id,
                        look,
                        look * 1000,
                        RecordStatus.FOUND,
                        stamp,
                        cluster.ledger(TEXT),
                    )
                )
            )
            if look == 3:
                continue
            answers += [
                _answer("b1", ledger_id, look, WHOLE),
                _answer("b2", ledger_id, look, LACKING if ledger_id == 8 else WHOLE),
            ]
            if ledger_id == 8:
                reads.append(
                    read_row(
                        EntryRead("b2", 8, 4, look, look * 1000, ReadStatus.NO_ENTRY, requests=1)
                    )
                )
    for name, schema, rows in (
        ("listing", LISTING, [(7,), (8,), (9,)]),
        ("ledgers", LEDGERS, records),
        ("answers", ANSWERS, answers),
        ("reads", READS, reads),
    ):
        run.write_table(f"evidence/{name}", table(schema, rows), "all")


def _answer(bookie: str, ledger_id: int, look: int, runs: tuple[tuple[int, int], ...]) -> Any:
    groups = canonical(SequenceGroup(first, first, last - first + 1, 0) for first, last in runs)
    return answer_row(
        Answer(bookie, ledger_id, look, look * 1000, AnswerStatus.HELD, groups, requests=1)
    )

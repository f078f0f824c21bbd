"""Read from a run's evidence which entry logs listers left out, and what reads of them showed."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.gathered import missing_logs
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, READS
from auditor.first_checker.lost_logs import Logs, logs_of
from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.identity import BookieId

LEFT_OUT = pc.is_valid(pc.field("missing_logs"))
"""Selects the answers of listers that left entry logs out: none in a healthy cluster."""
_SAID = [
    "bookie_id",
    "ledger_id",
    "look",
    "asked_at_ms",
    "status",
    "detail",
    "missing_logs",
    "read_unlisted",
]
_READ = ["bookie_id", "ledger_id", "entry_id", "look", "asked_at_ms", "status", "detail"]


def lost_logs(run: Place) -> dict[BookieId, Logs]:
    """Return what is known of missing entry logs, by bookie. Costs a scan of one column, mostly
    null.
    """
    rows = run.read_table("evidence/answers", ANSWERS, LEFT_OUT, _SAID).to_pylist()
    if not rows:
        return {}
    answers = [
        Answer(
            row["bookie_id"],
            row["ledger_id"],
            row["look"],
            row["asked_at_ms"],
            AnswerStatus(row["status"]),
            detail=row["detail"],
            missing_logs=missing_logs(row["missing_logs"]),
            read_unlisted=tuple(row["read_unlisted"] or ()),
        )
        for row in rows
    ]
    bookies = pa.array(sorted({one.bookie_id for one in answers}))
    ledgers = pa.array(sorted({one.ledger_id for one in answers}))
    mine = pc.field("bookie_id").isin(bookies) & pc.field("ledger_id").isin(ledgers)
    reads = run.read_table(
        "evidence/reads", READS, mine & ~pc.field("is_search").isin([True]), _READ
    )
    read = (
        EntryRead(b, ledger, entry, look, at, ReadStatus(status), detail)
        for b, ledger, entry, look, at, status, detail in zip(
            *reads.to_pydict().values(), strict=True
        )
    )
    return logs_of(answers, read)

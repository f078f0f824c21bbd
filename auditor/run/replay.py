"""Judging written evidence again: no cluster, no Java, and the same findings to the byte."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.config import JudgingLimits
from auditor.evidence.gathered import gathered
from auditor.evidence.rows import Row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, LEDGERS, LISTING, READS, SEEN, VERDICTS
from auditor.judging.judge import Judge
from auditor.judging.judged_rows import judged, set_aside
from auditor.model.evidence import LedgerEvidence
from auditor.run.poison_evidence import stopped_ledgers
from auditor.summary.about import About

LEDGERS_AT_ONCE = 100_000
"""Ledgers gathered in memory at a time: some hundred bytes each."""


DEFAULT_LIMITS = JudgingLimits()


def judge_again(run: Place, about: About, limits: JudgingLimits = DEFAULT_LIMITS) -> pa.Table:
    """A verdict for every ledger that the evidence has, as VERDICTS rows in order of ledger id.

    Evidence that stops half way is judged as it is: what was not asked is unknown. A ledger on which the run had to be stopped
    is set aside again in the same words; a new one is found in a child, which may die of it. Costs one scan of each table for
    every LEDGERS_AT_ONCE ledgers. Raises TooManyPoisoned.
    """
    batches = [table(VERDICTS, rows) for rows in _rows(run, about, limits)]
    return pa.Table.from_batches(batches, schema=VERDICTS)


def _rows(run: Place, about: About, limits: JudgingLimits) -> Iterator[list[Row]]:
    def aside(evidence: LedgerEvidence, why: str) -> Row:
        return set_aside(evidence, why, about.terms, about.facts)[1]

    judge = Judge(lambda evidence: judged(evidence, about.terms, about.facts)[1], aside, limits, careful=True)
    stopped = stopped_ledgers(run)
    ids = np.unique(run.read_table("evidence/listing", LISTING)["ledger_id"].to_numpy())
    for start in range(0, len(ids), LEDGERS_AT_ONCE):
        portion = ids[start : start + LEDGERS_AT_ONCE]
        for batch in _seen(run, int(portion[0]), int(portion[-1])):
            ledgers = list(gathered(batch))
            rows = iter(judge.each([one for one in ledgers if one.ledger_id not in stopped]))
            yield [aside(one, stopped[one.ledger_id]) if one.ledger_id in stopped else next(rows) for one in ledgers]


def _seen(run: Place, low: int, high: int) -> list[pa.RecordBatch]:
    """SEEN rows of the ledgers from `low` to `high`."""
    within = (pc.field("ledger_id") >= low) & (pc.field("ledger_id") <= high)
    records = run.read_table("evidence/ledgers", LEDGERS, within).sort_by([("ledger_id", "ascending"), ("look", "ascending")])
    ids = pc.unique(records["ledger_id"])
    columns = [
        ids,
        _lists(records, ids),
        _lists(run.read_table("evidence/answers", ANSWERS, within).sort_by("ledger_id"), ids),
        _lists(run.read_table("evidence/reads", READS, within).sort_by("ledger_id"), ids),
    ]
    batches: list[pa.RecordBatch] = pa.Table.from_arrays(columns, schema=SEEN).to_batches()
    return batches


def _lists(rows: pa.Table, ids: pa.Array) -> pa.ListArray:
    """Sorted rows as one list of structs for each id."""
    combined = rows.combine_chunks()
    structs = pa.StructArray.from_arrays([_flat(column) for column in combined.columns], fields=list(rows.schema))
    ends = np.searchsorted(_flat(combined["ledger_id"]).to_numpy(), ids.to_numpy(), side="right")
    starts = np.searchsorted(_flat(combined["ledger_id"]).to_numpy(), ids.to_numpy(), side="left")
    spans = [np.arange(a, b) for a, b in zip(starts, ends, strict=True)]
    kept = np.concatenate([np.empty(0, np.int64), *spans])
    offsets = np.concatenate([[0], np.cumsum(ends - starts)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs.take(pa.array(kept, pa.int64())))


def _flat(column: pa.ChunkedArray) -> pa.Array:
    """The whole column as one array."""
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)

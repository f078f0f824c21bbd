"""Judge written evidence again: without a cluster or Java, with the same findings to the byte."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.config import JudgingLimits
from auditor.evidence.gathered import evidence_by_ledger
from auditor.evidence.ids import are_among, distinct_numbers
from auditor.evidence.rows import Row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.run_tables import read_seen_rows
from auditor.evidence.schemas import LISTING, VERDICTS
from auditor.judging.judge import Judge
from auditor.judging.verdict_rows import judge_to_row, set_aside, spoil_rows
from auditor.model.evidence import LedgerEvidence
from auditor.run.poison_evidence import stopped_ledgers
from auditor.summary.about import About
from auditor.summary.carried import read_carried_ids
from auditor.summary.doubted_lists import spoiled_ledgers

LEDGERS_AT_ONCE = 100_000
"""Ledgers gathered in memory at a time: some hundred bytes each."""


DEFAULT_LIMITS = JudgingLimits()


def judge_again(run: Place, about: About, limits: JudgingLimits = DEFAULT_LIMITS) -> pa.Table:
    """Return a verdict for every ledger in the evidence, as VERDICTS rows.

    They are in order of ledger id, and behind them those that the run carried over from earlier
    runs: these are not judged again, because the evidence on them is not in this run.

    Incomplete evidence is judged as it is: what was not asked is unknown. A ledger on which the run
    had to stop judging is set aside again in the same words. Further ones are judged in a child
    process, which may die. Costs one scan of each table for every LEDGERS_AT_ONCE ledgers. Raises
    TooManyPoisoned.
    """
    spoiled = spoiled_ledgers(run)
    batches = [spoil_rows(table(VERDICTS, rows), spoiled) for rows in _rows(run, about, limits)]
    carried = read_carried_ids(run)
    if len(carried):
        stored = run.stream("verdicts", VERDICTS, VERDICTS.names)
        batches += [
            batch.filter(pa.array(are_among(batch["ledger_id"].to_numpy(), carried)))
            for batch in stored
        ]
    return pa.Table.from_batches(batches, schema=VERDICTS)


def _rows(run: Place, about: About, limits: JudgingLimits) -> Iterator[list[Row]]:
    def aside(evidence: LedgerEvidence, why: str) -> Row:
        return set_aside(evidence, why, about.terms, about.facts)[1]

    judge = Judge(
        lambda evidence: judge_to_row(evidence, about.terms, about.facts)[1],
        aside,
        limits,
        careful=True,
    )
    stopped = stopped_ledgers(run)
    listing = run.read_table("evidence/listing", LISTING)["ledger_id"].to_numpy()
    carried = read_carried_ids(run)
    ids = np.setdiff1d(distinct_numbers(listing), carried, assume_unique=True)
    for start in range(0, len(ids), LEDGERS_AT_ONCE):
        portion = ids[start : start + LEDGERS_AT_ONCE]
        for batch in _evidence_batches(run, int(portion[0]), int(portion[-1])):
            if len(carried):
                is_carried = are_among(batch["ledger_id"].to_numpy(), carried)
                batch = batch.filter(pa.array(~is_carried))
            ledgers = list(evidence_by_ledger(batch))
            rows = iter(
                judge.judge_all([ledger for ledger in ledgers if ledger.ledger_id not in stopped])
            )
            yield [
                aside(ledger, stopped[ledger.ledger_id])
                if ledger.ledger_id in stopped
                else next(rows)
                for ledger in ledgers
            ]


def _evidence_batches(run: Place, low: int, high: int) -> list[pa.RecordBatch]:
    """Return SEEN rows of the ledgers from `low` to `high`."""
    within = (pc.field("ledger_id") >= low) & (pc.field("ledger_id") <= high)
    return read_seen_rows(run, within)

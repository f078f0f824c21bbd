"""Make rows of VERDICTS: the same bytes in run and replay.

A ledger is judged or set aside. Rows that rest on lists which turned out not to count are corrected
as `summary.doubted_lists` corrects verdicts.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.rows import Row
from auditor.first_checker.underreplication import age_ms
from auditor.judging.judge import poison_step
from auditor.judging.settle import Step, Todo, end_unjudged, settle_and_check
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.verdict import CopyCounts, Exempt, Standing, Unknown, Verdict, cap_copies
from auditor.witness.finding_lines import assurance, ledger_testimony

ENTRIES_MAX = 2**63 - 1
"""Largest count of entries that a column holds. Metadata may claim one entry more."""


def verdict_row(
    evidence: LedgerEvidence, step: Step, terms: Terms, facts: ClusterFacts, detail: str = ""
) -> Row:
    """Return one row of VERDICTS.

    The row has findings only if nothing is left to do: until then the verdict is provisional.
    """
    verdict = step.verdict
    mark = evidence.looks[-1].record.mark
    reported = verdict.findings if step.todo is Todo.NOTHING else ()
    return (
        verdict.ledger_id,
        verdict.standing.word,
        verdict.exempt.value if verdict.exempt else None,
        [unknown.value for unknown in verdict.unknowns],
        [
            ledger_testimony(finding, evidence.looks, facts, verdict.probes).line()
            for finding in reported
        ],
        verdict.listing_false_negatives,
        None if mark is None else age_ms(mark, terms.judged_at_ms),
        len(evidence.looks),
        step.todo.value,
        detail,
        assurance(verdict.probes),
        verdict.probes.read if verdict.probes else 0,
        verdict.probes.random if verdict.probes else 0,
        [
            (lack.bookie_id, min(lack.expected, ENTRIES_MAX), min(lack.absent, ENTRIES_MAX))
            for lack in verdict.lacks
        ],
        verdict.only_maintenance,
        *_copies(verdict.copies),
        verdict.is_mark_stale,
    )


def _copies(counts: CopyCounts | None) -> Row:
    """Return the four counts, each at most COPIES_MAX, or nulls if no bookie had to be asked."""
    if counts is None:
        return (None, None, None, None)
    counts = cap_copies(counts)
    return (counts.expected, counts.listed, counts.read, counts.assumed)


def judge_to_row(evidence: LedgerEvidence, terms: Terms, facts: ClusterFacts) -> tuple[Step, Row]:
    """Return where the ledger stands and its VERDICTS row. Raises whatever a ledger may cause."""
    step, detail = settle_and_check(evidence, terms)
    return step, verdict_row(evidence, step, terms, facts, detail)


def judge_claimed(
    evidence: LedgerEvidence, claimed: Verdict, terms: Terms, facts: ClusterFacts
) -> tuple[Step, Row]:
    """Judge a ledger whose verdict was `claimed` from the columns of its evidence.

    Like `judge_to_row`, but the ledger is withheld if its verdict is another one or not final.
    """
    step, row = judge_to_row(evidence, terms, facts)
    found = step.verdict
    if (
        found == claimed and step.todo is Todo.NOTHING
    ) or Unknown.CHECKERS_DISAGREE in found.unknowns:
        return step, row
    detail = (
        f"by its columns it is {_words(claimed)}; the first checker says {_words(found)}, and next"
        f" {step.todo.value}"
    )
    return withheld(evidence, detail, terms, facts)


def _words(verdict: Verdict) -> str:
    copies = verdict.copies
    listed = (
        "no copies" if copies is None else f"{copies.listed} copies listed of {copies.expected}"
    )
    return f"{verdict.standing.word} with {listed}"


def withheld(
    evidence: LedgerEvidence, detail: str, terms: Terms, facts: ClusterFacts
) -> tuple[Step, Row]:
    """Return the step and the row of a ledger on which the checkers differ.

    The ledger is not judged again. `detail` goes into the row unchanged.
    """
    step = end_unjudged(evidence.ledger_id, Unknown.CHECKERS_DISAGREE)
    return step, verdict_row(evidence, step, terms, facts, detail)


def set_aside(
    evidence: LedgerEvidence, detail: str, terms: Terms, facts: ClusterFacts
) -> tuple[Step, Row]:
    """Return the step and the row of a ledger that could not be judged. `detail` says why."""
    step = poison_step(evidence.ledger_id)
    return step, verdict_row(evidence, step, terms, facts, detail)


_ORDER = {unknown.value: number for number, unknown in enumerate(Unknown)}


def spoil_rows(rows: pa.RecordBatch, spoiled: Mapping[Unknown, pa.Array]) -> pa.RecordBatch:
    """Return the rows, with those of these ledgers corrected like by `spoil_verdict`.

    `spoiled` has the ids of the ledgers by the reason that their rows get. The mark of such a
    ledger is not stale: nobody knows whether every copy exists.
    """
    for reason, ledger_ids in spoiled.items():
        if len(ledger_ids):
            rows = _spoil_for(reason, rows, ledger_ids)
    return rows


def _spoil_for(reason: Unknown, rows: pa.RecordBatch, ledger_ids: pa.Array) -> pa.RecordBatch:
    hit = pc.and_(
        pc.is_in(rows["ledger_id"], ledger_ids),
        pc.invert(pc.fill_null(pc.equal(rows["exempt"], Exempt.DELETED.value), False)),
    )
    if not pc.any(hit).as_py():
        return rows
    columns = {name: rows[name] for name in rows.schema.names}
    weaker = pc.is_in(rows["standing"], pa.array([Standing.SOUND.word, Standing.EXEMPT.word]))
    unknown = pa.scalar(Standing.INDETERMINATE.word)
    columns["standing"] = pc.if_else(pc.and_(hit, weaker), unknown, rows["standing"])
    columns["unknowns"] = pa.array(
        [
            (
                sorted({*(reasons or ()), reason.value}, key=_ORDER.__getitem__)
                if is_hit
                else reasons
            )
            for reasons, is_hit in zip(rows["unknowns"].to_pylist(), hit.to_pylist(), strict=True)
        ]
    )
    for name in ("is_mark_stale", "only_maintenance"):
        columns[name] = pc.if_else(hit, False, rows[name])
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema)


def mark_waiting(rows: pa.RecordBatch, ledger_ids: pa.Array) -> pa.RecordBatch:
    """Return the rows, with `only_maintenance` for these ledgers where they are indeterminate."""
    waits = pc.and_(
        pc.is_in(rows["ledger_id"], ledger_ids),
        pc.equal(rows["standing"], Standing.INDETERMINATE.word),
    )
    columns = {name: rows[name] for name in rows.schema.names}
    columns["only_maintenance"] = pc.if_else(waits, True, rows["only_maintenance"])
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema)

"""Judge a ledger or set it aside, and make its VERDICTS row, the same in run and replay."""

from __future__ import annotations

from auditor.evidence.rows import Row
from auditor.judging.set_aside import poison_step
from auditor.judging.settle import Step, Todo, end_unjudged, settle_and_check
from auditor.judging.verdict_rows import verdict_row
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.verdict import Unknown, Verdict


def judge_to_row(evidence: LedgerEvidence, terms: Terms, facts: ClusterFacts) -> tuple[Step, Row]:
    """Return where the ledger stands and its VERDICTS row. Raises whatever a ledger may cause."""
    step, detail = settle_and_check(evidence, terms)
    return step, verdict_row(evidence, step, terms, facts, detail)


def judge_claimed(
    evidence: LedgerEvidence, claimed: Verdict, terms: Terms, facts: ClusterFacts
) -> tuple[Step, Row]:
    """Judge a ledger whose verdict was `claimed` from the columns of its evidence, as
    `judge_to_row` does.

    The ledger is withheld if the verdict is another one or is not final.
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
    """Return the step and the row of a ledger on which the checkers were found to differ.

    The ledger is not judged again. `detail` goes into the row as it is.
    """
    step = end_unjudged(evidence.ledger_id, Unknown.CHECKERS_DISAGREE)
    return step, verdict_row(evidence, step, terms, facts, detail)


def set_aside(
    evidence: LedgerEvidence, detail: str, terms: Terms, facts: ClusterFacts
) -> tuple[Step, Row]:
    """Return the step and the row of a ledger that could not be judged, as `detail` says why."""
    step = poison_step(evidence.ledger_id)
    return step, verdict_row(evidence, step, terms, facts, detail)

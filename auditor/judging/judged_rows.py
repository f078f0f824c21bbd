"""Judge a ledger, or set it aside, and make its row of VERDICTS, equal in run and replay."""

from __future__ import annotations

from auditor.evidence.rows import Row
from auditor.judging.set_aside import poison_step
from auditor.judging.settle import Step, end_unjudged, settle_and_check
from auditor.judging.verdict_rows import verdict_row
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.verdict import Unknown


def judge_to_row(evidence: LedgerEvidence, terms: Terms, facts: ClusterFacts) -> tuple[Step, Row]:
    """Return where the ledger stands, and its row of VERDICTS. Raises what a ledger may cause."""
    step, detail = settle_and_check(evidence, terms)
    return step, verdict_row(evidence, step, terms, facts, detail)


def withheld(evidence: LedgerEvidence, detail: str, terms: Terms, facts: ClusterFacts) -> tuple[Step, Row]:
    """Return the step and the row of a ledger on which the checkers were found to differ.

    The ledger is not judged again. `detail` goes into the row as it is.
    """
    step = end_unjudged(evidence.ledger_id, Unknown.CHECKERS_DISAGREE)
    return step, verdict_row(evidence, step, terms, facts, detail)


def set_aside(evidence: LedgerEvidence, detail: str, terms: Terms, facts: ClusterFacts) -> tuple[Step, Row]:
    """Return the step and the row of a ledger that could not be judged, as `detail` says why."""
    step = poison_step(evidence.ledger_id)
    return step, verdict_row(evidence, step, terms, facts, detail)

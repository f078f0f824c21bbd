"""Judge a ledger, or set it aside, and make its row of VERDICTS, equal in run and replay."""

from __future__ import annotations

from auditor.evidence.rows import Row
from auditor.judging.set_aside import poisoned, settled, stopped_detail
from auditor.judging.settle import Step, unjudged
from auditor.judging.verdict_rows import verdict_row
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.verdict import Unknown


def judged(evidence: LedgerEvidence, terms: Terms, facts: ClusterFacts) -> tuple[Step, Row]:
    """Judge one ledger and return where it stands, with its row of VERDICTS.

    A ledger on which judging or making the row raises is set aside as `poison`. Raises MemoryError,
    which may be the fault of this process or of the ledger, and AssertionError, which is our own.
    """
    try:
        step, detail = settled(evidence, terms)
        return step, verdict_row(evidence, step, terms, facts, detail)
    except (AssertionError, MemoryError):
        raise
    except Exception as error:  # an unforeseen ledger may raise anything
        step = poisoned(evidence.ledger_id)
        return step, verdict_row(evidence, step, terms, facts, f"{type(error).__name__}: {error}")


def withheld(evidence: LedgerEvidence, detail: str, terms: Terms, facts: ClusterFacts) -> tuple[Step, Row]:
    """Return the step and the row of a ledger on which the checkers were found to differ.

    The ledger is not judged again. `detail` goes into the row as it is.
    """
    step = unjudged(evidence.ledger_id, Unknown.CHECKERS_DISAGREE)
    return step, verdict_row(evidence, step, terms, facts, detail)


def set_aside(evidence: LedgerEvidence, why: str, terms: Terms, facts: ClusterFacts) -> tuple[Step, Row]:
    """Return the step and the row of a ledger whose judging was stopped or ended its process."""
    step = poisoned(evidence.ledger_id)
    return step, verdict_row(evidence, step, terms, facts, stopped_detail(why))

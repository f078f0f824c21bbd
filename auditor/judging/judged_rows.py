"""A ledger judged and told as a row, or set aside as a row: the same in run and replay, to the byte."""

from __future__ import annotations

from auditor.evidence.rows import Row
from auditor.judging.set_aside import poisoned, settled, stopped_detail
from auditor.judging.settle import Step, unjudged
from auditor.judging.verdict_rows import verdict_row
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.verdict import Unknown


def judged(evidence: LedgerEvidence, terms: Terms, facts: ClusterFacts) -> tuple[Step, Row]:
    """Where the ledger stands, and its row of VERDICTS. One on which judging or telling raises is set aside.

    Raises MemoryError, which says as much of this process as of the ledger, and AssertionError, which is our own fault.
    """
    try:
        step, detail = settled(evidence, terms)
        return step, verdict_row(evidence, step, terms, facts, detail)
    except (AssertionError, MemoryError):
        raise
    except Exception as error:  # whatever a ledger nobody foresaw may cause
        step = poisoned(evidence.ledger_id)
        return step, verdict_row(evidence, step, terms, facts, f"{type(error).__name__}: {error}")


def withheld(evidence: LedgerEvidence, detail: str, terms: Terms, facts: ClusterFacts) -> tuple[Step, Row]:
    """The row of a ledger on which the checkers were found to differ: not judged again, told as it was."""
    step = unjudged(evidence.ledger_id, Unknown.CHECKERS_DISAGREE)
    return step, verdict_row(evidence, step, terms, facts, detail)


def set_aside(evidence: LedgerEvidence, why: str, terms: Terms, facts: ClusterFacts) -> tuple[Step, Row]:
    """The row of a ledger on which judging had to be stopped, or stopped itself."""
    step = poisoned(evidence.ledger_id)
    return step, verdict_row(evidence, step, terms, facts, stopped_detail(why))

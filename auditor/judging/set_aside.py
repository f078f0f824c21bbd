"""Where a ledger stands, or that it is set aside, and in which words. Needs no Arrow: `auditor ledger` uses it."""

from __future__ import annotations

from auditor.judging.settle import Step, settle_or_set_aside, unjudged
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.identity import LedgerId
from auditor.model.verdict import Unknown

_STOPPED = "judging was stopped: "


def settled(evidence: LedgerEvidence, terms: Terms) -> tuple[Step, str]:
    """`settle_or_set_aside`, also of what would end the process. Raises MemoryError where that is why it set a ledger aside."""
    try:
        step, detail = settle_or_set_aside(evidence, terms)
    except SystemExit as error:
        return poisoned(evidence.ledger_id), f"{type(error).__name__}: {error}"
    if Unknown.POISON in step.verdict.unknowns and detail.startswith(MemoryError.__name__):
        raise MemoryError(detail)
    return step, detail


def poisoned(ledger_id: LedgerId) -> Step:
    """The end of a ledger that could not be judged."""
    return unjudged(ledger_id, Unknown.POISON)


def stopped_detail(why: str) -> str:
    """The column `detail` of a ledger on which judging was stopped. Idempotent."""
    return why if is_stopped(why) else f"{_STOPPED}{why}"


def is_stopped(detail: str) -> bool:
    """Whether judging was stopped rather than raised: then it is not to be tried again without a reason."""
    return detail.startswith(_STOPPED)

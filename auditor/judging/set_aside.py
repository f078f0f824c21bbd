"""The step and the detail of a ledger that is set aside.

This module does not load Arrow, because `auditor ledger` uses it.
"""

from __future__ import annotations

from auditor.judging.settle import Step, end_unjudged
from auditor.model.identity import LedgerId
from auditor.model.verdict import Unknown

_STOPPED = "judging was stopped: "


def poison_step(ledger_id: LedgerId) -> Step:
    """Return the end of a ledger that could not be judged."""
    return end_unjudged(ledger_id, Unknown.POISON)


def stopped_detail(why: str) -> str:
    """Return the column `detail` of a ledger on which judging was stopped."""
    return f"{_STOPPED}{why}"


def is_stopped(detail: str) -> bool:
    """Return whether judging was stopped rather than raised: a replay does not try it again."""
    return detail.startswith(_STOPPED)

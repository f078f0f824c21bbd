"""Witnesses of the placement family."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.confirm.telling import Facts, TellLedger
from auditor.model.evidence import Look
from auditor.model.finding import Finding, Kind


def _duplicate(finding: Finding, facts: Facts, _looks: Sequence[Look]) -> str:
    assert finding.segment is not None, finding
    twice = "; ".join(f"{bookie} at positions {at.replace(' ', ' and ')}" for bookie, at in facts.items())
    return (
        f"Let segment {finding.segment.first_entry_id}-{finding.segment.last_entry_id} of ledger {finding.ledger_id} have the "
        f"ensemble {', '.join(finding.segment.ensemble)}; then {twice}: an entry striped to both positions has one copy there, "
        "not two."
    )


def _placement(finding: Finding, facts: Facts, _looks: Sequence[Look]) -> str:
    assert finding.segment is not None, finding
    return f"Let segment {finding.segment.first_entry_id} of ledger {finding.ledger_id} be judged: {dict(facts)}."


TELL: dict[Kind, TellLedger] = {
    Kind.ENSEMBLE_DUPLICATE_BOOKIE: _duplicate,
    Kind.PLACEMENT_FAILED: _placement,
    Kind.PLACEMENT_SOFT: _placement,
}

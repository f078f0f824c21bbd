"""Witnesses of the placement family: which write sets, where their members stand, and what the policy asks of them."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.confirm.telling import Facts, TellLedger
from auditor.model.evidence import Look
from auditor.model.finding import Finding, Kind

WINDOWS_TOLD_MAX = 2
"""Windows told in words: a witness is read in two or three lines; the others are counted."""


def _duplicate(finding: Finding, facts: Facts, _looks: Sequence[Look]) -> str:
    assert finding.segment is not None, finding
    twice = "; ".join(f"{bookie} at positions {at.replace(' ', ' and ')}" for bookie, at in facts.items())
    return (
        f"Let segment {finding.segment.first_entry_id}-{finding.segment.last_entry_id} of ledger {finding.ledger_id} have the "
        f"ensemble {', '.join(finding.segment.ensemble)}; then {twice}: an entry striped to both positions has one copy there, "
        "not two."
    )


def _placement(finding: Finding, facts: Facts, _looks: Sequence[Look]) -> str:
    told = [text for name, text in finding.facts if name == "window"][:WINDOWS_TOLD_MAX]
    more = int(facts["windows_deciding"]) - len(told)
    unplaced, recorded = facts["without_location"], facts["recorded_policy"]
    return "".join(
        (
            f"Let {_segment(finding)} of ledger {finding.ledger_id} be held to the {facts['policy']}-aware policy with ",
            f"{facts['parameters'].replace(' ', ', ')}, {_MODE[facts['mode']]}; then {'; '.join(told)}",
            f"; and {more} more of its {facts['windows']} write sets are no better" if more else "",
            f"; so the segment {_ADHERES[finding.kind]}.",
            f" No location is assigned to {unplaced.replace(' ', ', ')}." if unplaced else "",
            f" Its writer recorded {recorded}: shown, not judged." if recorded else "",
        )
    )


def _segment(finding: Finding) -> str:
    segment = finding.segment
    assert segment is not None, finding
    if segment.last_entry_id < segment.first_entry_id:
        return f"the empty segment at entry {segment.first_entry_id}"
    return f"segment {segment.first_entry_id}-{segment.last_entry_id}"


_MODE = {"assigned": "by the location assigned to each bookie", "java": "as the Java auditor judges"}
_ADHERES = {Kind.PLACEMENT_FAILED: "does not adhere", Kind.PLACEMENT_SOFT: "adheres only softly"}

TELL: dict[Kind, TellLedger] = {
    Kind.ENSEMBLE_DUPLICATE_BOOKIE: _duplicate,
    Kind.PLACEMENT_FAILED: _placement,
    Kind.PLACEMENT_SOFT: _placement,
}

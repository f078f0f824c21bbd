"""Counts, outcome and exit code, for runs and for single ledgers (docs/names.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from auditor.model.finding import Kind, Severity
from auditor.model.finding_record import FindingRecord
from auditor.model.verdict import Exempt, Standing, Unknown

Json = dict[str, Any]

OUTCOME_SOUND, OUTCOME_VIOLATED, OUTCOME_INCOMPLETE = "SOUND", "VIOLATED", "INCOMPLETE"
OUTCOME_FAULT = "AUDITOR_FAULT"


def findings_by_kind(findings: Sequence[FindingRecord]) -> dict[str, dict[str, int]]:
    """Return how many ledgers, bookies and findings each kind of the catalogue has.

    Findings on the cluster count neither ledgers nor bookies.
    """
    found: dict[str, dict[str, int]] = {}
    for kind in Kind:
        mine = [one for one in findings if one.kind is kind]
        ledgers = {one.ledger_id for one in mine} - {None}
        bookies = {one.bookie_id for one in mine} - {None}
        found[kind.value] = {
            "ledgers": len(ledgers),
            "bookies": len(bookies),
            "findings": len(mine),
        }
    return found


def counts_of(standings: Counter[str], exempt: Counter[str], unknowns: Counter[str]) -> Json:
    """Return the numbers of ledgers by standing and by reason, with every word of docs/names.md."""
    return {
        "ledgers": {
            "listed": standings.total(),
            **{one.word: standings[one.word] for one in Standing},
        },
        "exempt": {reason.value: exempt[reason.value] for reason in Exempt},
        "indeterminate": {reason.value: unknowns[reason.value] for reason in Unknown},
    }


def is_fault(unknowns: Mapping[str, int]) -> bool:
    """Return whether the auditor is wrong: its two checkers differ on some ledger."""
    return unknowns.get(Unknown.CHECKERS_DISAGREE.value, 0) > 0


def outcome_of(findings: Sequence[FindingRecord], *, complete: bool, fault: bool = False) -> str:
    """Return the outcome of a run, whatever --fail-on says.

    `fault`: the auditor is wrong, which takes precedence over everything else.
    """
    if fault:
        return OUTCOME_FAULT
    if any(one.severity >= Severity.WARNING for one in findings):
        return OUTCOME_VIOLATED
    return OUTCOME_SOUND if complete else OUTCOME_INCOMPLETE


def exit_code(
    findings: Sequence[FindingRecord], fail_on: str, *, incomplete: bool, fault: bool = False
) -> int:
    """Return the exit code of a run (docs/names.md, "Exit codes").

    A fault of the auditor takes precedence over a finding that reaches --fail-on, and such a
    finding over what could not be judged.
    """
    if fault:
        return 4
    if reaches(findings, fail_on):
        return 1
    return 3 if incomplete else 0


def reaches(findings: Sequence[FindingRecord], fail_on: str) -> bool:
    """Return whether a finding is at least as severe as --fail-on says."""
    threshold = {"critical": Severity.CRITICAL, "warning": Severity.WARNING}.get(fail_on)
    return threshold is not None and any(one.severity >= threshold for one in findings)

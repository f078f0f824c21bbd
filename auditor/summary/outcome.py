"""Counts by word, the outcome word and the exit code (contract sections 2, 3, 5): the same for a run and single ledgers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from auditor.model.finding import CATALOGUE, Kind, Severity
from auditor.model.verdict import Exempt, Standing, Unknown

Json = dict[str, Any]

OUTCOME_SOUND, OUTCOME_VIOLATED, OUTCOME_INCOMPLETE = "SOUND", "VIOLATED", "INCOMPLETE"
OUTCOME_FAULT = "AUDITOR_FAULT"


def findings_by_kind(findings: Sequence[Json]) -> dict[str, dict[str, int]]:
    """For each kind of the catalogue the ledgers, bookies and findings it hits; on the cluster there are findings alone."""
    found: dict[str, dict[str, int]] = {}
    for kind in Kind:
        mine = [one for one in findings if one["kind"] == kind.value]
        ledgers = {one["ledger_id"] for one in mine} - {None}
        bookies = {one["bookie_id"] for one in mine} - {None}
        found[kind.value] = {"ledgers": len(ledgers), "bookies": len(bookies), "findings": len(mine)}
    return found


def counts_of(standings: Counter[str], exempt: Counter[str], unknowns: Counter[str]) -> Json:
    """Ledgers by standing and by reason, every word of the contract, zero included."""
    return {
        "ledgers": {"listed": standings.total(), **{one.word: standings[one.word] for one in Standing}},
        "exempt": {reason.value: exempt[reason.value] for reason in Exempt},
        "indeterminate": {reason.value: unknowns[reason.value] for reason in Unknown},
    }


def is_fault(unknowns: Mapping[str, int]) -> bool:
    """Whether the auditor itself is wrong: its two checkers differ on the same evidence, for one ledger or more."""
    return unknowns.get(Unknown.CHECKERS_DISAGREE.value, 0) > 0


def outcome_of(findings: Sequence[Json], *, complete: bool, fault: bool = False) -> str:
    """The word for what was found, whatever --fail-on says. `fault`: the auditor is wrong, which goes before all else."""
    if fault:
        return OUTCOME_FAULT
    if any(CATALOGUE[Kind(one["kind"])].severity >= Severity.WARNING for one in findings):
        return OUTCOME_VIOLATED
    return OUTCOME_SOUND if complete else OUTCOME_INCOMPLETE


def exit_code(findings: Sequence[Json], fail_on: str, *, incomplete: bool, fault: bool = False) -> int:
    """Contract section 2: a fault of ours goes before a finding that reaches --fail-on, and that before what could not be
    judged."""
    if fault:
        return 4
    threshold = {"critical": Severity.CRITICAL, "warning": Severity.WARNING}.get(fail_on)
    if threshold is not None and any(CATALOGUE[Kind(one["kind"])].severity >= threshold for one in findings):
        return 1
    return 3 if incomplete else 0

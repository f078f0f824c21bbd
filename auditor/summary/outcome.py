"""Counts, outcome and exit code, for runs and for single ledgers (docs/names.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from auditor.model.finding import CATALOGUE, Kind, Severity, Subject
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import BookieId, LedgerId
from auditor.model.summary import KindCounts, LedgerCounts, SeverityCounts
from auditor.model.verdict import Exempt, Standing, Unknown

OUTCOME_SOUND, OUTCOME_VIOLATED, OUTCOME_INCOMPLETE = "SOUND", "VIOLATED", "INCOMPLETE"
OUTCOME_FAULT = "AUDITOR_FAULT"
FAIL_ON_NEW = "new"
"""The value of --fail-on with which only news count. What is compared with no earlier run is all
new: its threshold is that of `warning`."""
_SOUND, _FINDINGS, _UNKNOWN, _FAULT = 0, 1, 3, 4
"""The exit codes of a verdict (docs/names.md, "Exit codes")."""


def findings_by_kind(findings: Sequence[FindingRecord]) -> dict[str, KindCounts]:
    """Return how many ledgers, bookies and findings each kind of the catalogue has.

    Findings on the cluster count neither ledgers nor bookies.
    """
    found: dict[str, KindCounts] = {}
    for kind in Kind:
        mine = [finding for finding in findings if finding.kind is kind]
        ledgers = {finding.ledger_id for finding in mine} - {None}
        bookies = {finding.bookie_id for finding in mine} - {None}
        found[kind.value] = KindCounts(len(ledgers), len(bookies), len(mine))
    return found


def findings_by_severity(findings: Sequence[FindingRecord]) -> dict[str, SeverityCounts]:
    """Return the findings of each severity, the worst first, zero included.

    Each ledger, each bookie and the cluster counts once, at the severity of its worst finding.
    """
    worst: dict[tuple[Subject, LedgerId | BookieId | None], Severity] = {}
    for one in findings:
        subject = CATALOGUE[one.kind].subject
        key = subject, one.ledger_id if subject is Subject.LEDGER else one.bookie_id
        worst[key] = max(one.severity, worst.get(key, one.severity))
    number = Counter(one.severity for one in findings)
    hit = Counter((severity, subject) for (subject, _), severity in worst.items())
    return {
        severity.word: SeverityCounts(
            number[severity],
            hit[severity, Subject.LEDGER],
            hit[severity, Subject.BOOKIE],
            hit[severity, Subject.CLUSTER],
        )
        for severity in sorted(Severity, reverse=True)
    }


def count_standings(standings: Counter[str]) -> LedgerCounts:
    """Return the numbers of ledgers by standing."""
    return LedgerCounts(standings.total(), *(standings[standing.word] for standing in Standing))


def count_reasons(reasons: type[Exempt | Unknown], counted: Counter[str]) -> dict[str, int]:
    """Return the number of ledgers of each reason, zero included."""
    return {reason.value: counted[reason.value] for reason in reasons}


def is_fault(unknowns: Mapping[str, int]) -> bool:
    """Return whether the auditor is wrong: its two checkers differ on some ledger."""
    return unknowns.get(Unknown.CHECKERS_DISAGREE.value, 0) > 0


def worst_of(findings: Iterable[FindingRecord], *others: Severity | None) -> Severity | None:
    """Return the worst severity of these findings and the other ones; None without any."""
    severities = (*(finding.severity for finding in findings), *others)
    return max((severity for severity in severities if severity is not None), default=None)


def outcome_of(worst: Severity | None, *, is_complete: bool, is_fault: bool = False) -> str:
    """Return the outcome of a command, whatever --fail-on says.

    `worst`: the worst severity of all that was found. `is_fault`: the auditor is wrong, which takes
    precedence over everything else.
    """
    if is_fault:
        return OUTCOME_FAULT
    if worst is not None and worst >= Severity.WARNING:
        return OUTCOME_VIOLATED
    return OUTCOME_SOUND if is_complete else OUTCOME_INCOMPLETE


def exit_code_if_clean(*, is_complete: bool, is_fault: bool = False) -> int:
    """Return the exit code of a command without its findings (docs/names.md, "Exit codes")."""
    return _FAULT if is_fault else _SOUND if is_complete else _UNKNOWN


def exit_code(worst: Severity | None, fail_on: str, if_clean: int) -> int:
    """Return the exit code of a command. `worst`: the worst severity of what is not muted.

    A fault of the auditor takes precedence over a finding that reaches --fail-on, and such a
    finding over what could not be judged.
    """
    thresholds = {
        "critical": Severity.CRITICAL,
        "warning": Severity.WARNING,
        FAIL_ON_NEW: Severity.WARNING,
    }
    threshold = thresholds.get(fail_on)
    is_reached = worst is not None and threshold is not None and worst >= threshold
    return _FINDINGS if is_reached and if_clean != _FAULT else if_clean

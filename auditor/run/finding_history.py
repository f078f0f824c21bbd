"""Add first-seen times and mutes to findings, and changes to the summary.

No verdict depends on this: it is done after the conclusion of a run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date

from auditor.evidence.run_directory import Place
from auditor.evidence.table_scan import TableScan
from auditor.model.cluster import BookieRecord
from auditor.model.finding_record import FindingHistory, FindingRecord
from auditor.model.summary import Summary
from auditor.run.conclusion import Conclusion
from auditor.summary.about import About
from auditor.summary.changes.compared_finding import ComparedFinding
from auditor.summary.changes.history import (
    EarlierRun,
    History,
    UnreadableRun,
    first_history,
    trace,
    unknown_history,
)
from auditor.summary.changes.mutes import (
    Applied,
    Mute,
    apply_mutes,
    mutes_json,
    state_of,
    why_outgrown,
)
from auditor.summary.changes.rechecks import judged_run
from auditor.summary.outcome import reaches


@dataclass(frozen=True, slots=True)
class Mutes:
    """The mutes of a file on a day (UTC). `problem` says why the file could not be read, or is
    "".
    """

    mutes: Sequence[Mute]
    today: date
    problem: str | None = None


def add_history(
    conclusion: Conclusion,
    run: Place,
    about: About,
    verdicts: TableScan,
    bookies: Iterable[BookieRecord],
    earlier: EarlierRun | UnreadableRun | None,
    mutes: Mutes,
) -> Conclusion:
    """Return the conclusion with the history of its findings, the changes and the mutes."""
    found = [ComparedFinding.of(finding) for finding in conclusion.findings]
    try:
        history = _history(conclusion, found, run, about, verdicts, bookies, earlier)
    except Exception as error:  # files of an earlier run must not cost this one its verdicts
        history = unknown_history(
            found, f"the earlier run cannot be used: its files are damaged ({type(error).__name__})"
        )
    applied, problem = _apply(mutes, conclusion.findings)
    findings = [
        replace(one, history=FindingHistory(*chain, applied.of(one)))
        for one, chain in zip(conclusion.findings, history.chains, strict=True)
    ]
    summary = conclusion.summary | {
        "changes": history.changes,
        "mutes": mutes_json(applied, findings, problem),
        "exit_code": _exit_code(conclusion.summary, findings, about.fail_on),
    }
    unchecked = () if about.partial else [json.dumps(one.as_json()) for one in history.unchecked]
    return replace(conclusion, summary=summary, findings=findings, unchecked=unchecked)


def restore_history(
    conclusion: Conclusion,
    about: About,
    stored: Iterable[FindingRecord],
    summary: Summary | None,
) -> Conclusion:
    """Return the conclusion of a replay with the history and the mutes that the run stored.

    The history of a finding that the run did not store is unknown. A run of an earlier version
    stored no history, and none is added.
    """
    if summary is not None and not summary.is_compared:
        return conclusion
    known = {(one.id, one.kind): one for one in stored}
    findings = [
        replace(one, history=_stored_history(known.get((one.id, one.kind)), one))
        for one in conclusion.findings
    ]
    again = conclusion.summary | {
        "changes": summary.get("changes") if summary else None,
        "mutes": summary.get("mutes") if summary else None,
        "exit_code": _exit_code(conclusion.summary, findings, about.fail_on),
    }
    return replace(conclusion, summary=again, findings=findings)


def _stored_history(stored: FindingRecord | None, now: FindingRecord) -> FindingHistory:
    """Return the history of a finding as the run stored it. A mute does not hide a finding that is
    worse now.
    """
    if stored is None or stored.history is None:
        return FindingHistory()
    if stored.is_muted and why_outgrown(stored.kind, state_of(stored), now):
        return replace(stored.history, muted=None)
    return stored.history


def _apply(mutes: Mutes, findings: Sequence[FindingRecord]) -> tuple[Applied, str | None]:
    """Return what is muted, or why nothing is: `auditor mute` did not write this file."""
    try:
        return apply_mutes(mutes.mutes, findings, mutes.today), mutes.problem
    except Exception as error:  # a file of mutes must not cost a run its verdicts
        return (
            Applied({}),
            (
                "nothing is muted: the file of mutes holds what cannot be compared"
                f" ({type(error).__name__})"
            ),
        )


def _history(
    conclusion: Conclusion,
    found: Sequence[ComparedFinding],
    run: Place,
    about: About,
    verdicts: TableScan,
    bookies: Iterable[BookieRecord],
    earlier: EarlierRun | UnreadableRun | None,
) -> History:
    if earlier is None:
        return first_history(found, about.started_at)
    if isinstance(earlier, UnreadableRun):
        return unknown_history(found, earlier.problem)
    others = [one.finding for one in (*earlier.found, *earlier.carried)]
    now = judged_run(run, about, conclusion.summary, verdicts, bookies, others)
    return trace(found, earlier, now, about.started_at)


def _exit_code(summary: Summary, findings: Sequence[FindingRecord], fail_on: str) -> int:
    """Return the exit code of a run in which findings that are muted do not count."""
    code = summary.exit_code
    loud = [one for one in findings if not one.is_muted]
    return code if code != 1 or reaches(loud, fail_on) else summary.exit_code_if_clean

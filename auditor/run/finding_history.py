"""Add to a run's findings since when they are seen and which are muted, and to the summary what
changed.

No verdict depends on it: it is done after the conclusion of a run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from auditor.evidence.findings_file import HISTORY_FIELDS
from auditor.evidence.run_directory import Place
from auditor.evidence.table_scan import TableScan
from auditor.model.cluster import BookieRecord
from auditor.model.finding import Kind
from auditor.run.conclusion import Conclusion
from auditor.summary.about import About
from auditor.summary.changes.earlier_run import EarlierRun, Unreadable, keep_compared
from auditor.summary.changes.history import History, first_history, trace, unknown_history
from auditor.summary.changes.judged_runs import judged_run
from auditor.summary.changes.mute_state import state_of, why_outgrown
from auditor.summary.changes.mutes import Applied, Mute, apply_mutes, mutes_json
from auditor.summary.outcome import reaches

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Mutes:
    """The mutes of a file on a day (UTC). `problem` says why the file could not be read, "" if it
    could.
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
    earlier: EarlierRun | Unreadable | None,
    mutes: Mutes,
) -> Conclusion:
    """Return the conclusion with the history of its findings, the changes and the mutes."""
    found = [keep_compared(json.loads(line)) for line in conclusion.findings]
    try:
        history = _history(conclusion, found, run, about, verdicts, bookies, earlier)
    except Exception as error:  # files of an earlier run must not cost the verdicts of this one
        history = unknown_history(
            found, f"the earlier run cannot be used: its files are damaged ({type(error).__name__})"
        )
    applied, problem = _apply(mutes, conclusion.findings, found)
    rows = [(*chain, applied.of(one)) for chain, one in zip(history.chains, found, strict=True)]
    loud = [one for one in found if applied.of(one) is None]
    summary = {
        **conclusion.summary,
        "changes": history.changes,
        "mutes": mutes_json(applied, found, problem),
        "exit_code": _exit_code(conclusion.summary, loud, about.fail_on),
    }
    unchecked = () if about.partial else [json.dumps(one.as_json()) for one in history.unchecked]
    return replace(
        conclusion,
        summary=summary,
        findings=_with_fields(conclusion.findings, rows),
        unchecked=unchecked,
    )


def restore_history(
    conclusion: Conclusion,
    about: About,
    stored: Iterable[Mapping[str, Any]],
    summary: Mapping[str, Any],
) -> Conclusion:
    """Return the conclusion of a replay with the history and the mutes that the run stored.

    The history fields of a finding that the run did not store are null. A run of an earlier version
    stored no history, and none is added.
    """
    if summary and "changes" not in summary:
        return conclusion
    known = {(one["id"], one["kind"]): one for one in stored}
    findings = [keep_compared(json.loads(line)) for line in conclusion.findings]
    rows = [
        _stored_row(known.get((one["id"], one["kind"])), line)
        for one, line in zip(findings, conclusion.findings, strict=True)
    ]
    loud = [one for one, row in zip(findings, rows, strict=True) if row[-1] is None]
    again = {
        **conclusion.summary,
        "changes": summary.get("changes"),
        "mutes": summary.get("mutes"),
        "exit_code": _exit_code(conclusion.summary, loud, about.fail_on),
    }
    return replace(conclusion, summary=again, findings=_with_fields(conclusion.findings, rows))


def _stored_row(stored: Mapping[str, Any] | None, line: str) -> tuple[Any, ...]:
    """Return HISTORY_FIELDS of a finding as the run stored them. A mute does not hide a finding
    that is worse now.
    """
    if stored is None:
        return (None,) * len(HISTORY_FIELDS)
    first_seen, runs_seen, muted = (stored.get(name) for name in HISTORY_FIELDS)
    is_worse = muted is not None and why_outgrown(
        Kind(stored["kind"]), state_of(stored), json.loads(line)
    )
    return first_seen, runs_seen, None if is_worse else muted


def _apply(mutes: Mutes, lines: Sequence[str], found: Sequence[Json]) -> tuple[Applied, str | None]:
    """Return what is muted, and why nothing is if `auditor mute` did not write this file."""
    try:
        return (
            apply_mutes(mutes.mutes, _read_muted(lines, found, mutes.mutes), mutes.today),
            mutes.problem,
        )
    except Exception as error:  # a file of mutes must not cost the verdicts of a run
        return (
            Applied({}),
            (
                "nothing is muted: the file of mutes holds what cannot be compared"
                f" ({type(error).__name__})"
            ),
        )


def _read_muted(
    lines: Sequence[str], found: Sequence[Json], mutes: Sequence[Mute]
) -> Iterator[Json]:
    """Yield the findings that mutes name, with all fields."""
    ids = {mute.id for mute in mutes}
    return (json.loads(line) for line, one in zip(lines, found, strict=True) if one["id"] in ids)


def _history(
    conclusion: Conclusion,
    found: Sequence[Json],
    run: Place,
    about: About,
    verdicts: TableScan,
    bookies: Iterable[BookieRecord],
    earlier: EarlierRun | Unreadable | None,
) -> History:
    if earlier is None:
        return first_history(found, about.started_at)
    if isinstance(earlier, Unreadable):
        return unknown_history(found, earlier.problem)
    others = [one.finding for one in (*earlier.found, *earlier.carried)]
    now = judged_run(run, about, conclusion.summary, verdicts, bookies, others)
    return trace(found, earlier, now, about.started_at)


def _exit_code(summary: Mapping[str, Any], loud: Sequence[Json], fail_on: str) -> int:
    """Return the exit code of a run in which only the findings in `loud` are not muted."""
    code = int(summary["exit_code"])
    return code if code != 1 or reaches(loud, fail_on) else int(summary["exit_code_if_clean"])


def _with_fields(lines: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> list[str]:
    """Return each line, a JSON object, with HISTORY_FIELDS behind its other fields."""
    added = []
    for line, row in zip(lines, rows, strict=True):
        tail = json.dumps(
            dict(zip(HISTORY_FIELDS, row, strict=True)), ensure_ascii=True, separators=(",", ":")
        )
        added.append(f"{line[:-1]},{tail[1:]}")
    return added

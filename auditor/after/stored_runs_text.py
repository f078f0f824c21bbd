"""Render the runs that OUTPUT holds, for `auditor status`, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from auditor.after.stored_runs import ListedRun, RunState, name_of
from auditor.model.codec import encode
from auditor.model.summary import Summary
from auditor.report.carried_text import carried_words
from auditor.report.layout import Screen, moment, of, printable, share, table
from auditor.report.outcome_text import HUES
from auditor.report.verification_text import verification_sentences

PROBLEMS_SHOWN_MAX = 3
"""At most this many damaged runs are explained. The JSON form has all."""


@dataclass(frozen=True, slots=True)
class RunsStatus:
    """The newest runs of an OUTPUT at a time, and how many there are.

    `latest` is the run that latest.json names. `exit_code` is that of `auditor status`.
    `is_latest_damaged`: latest.json is there and names no run.
    """

    output: str
    now: datetime
    runs: Sequence[ListedRun]
    total: int
    latest: ListedRun | None
    exit_code: int
    is_latest_damaged: bool = False

    def text(self, screen: Screen) -> str:
        """Return a line for each run, and a last line for programs."""
        return "\n".join((*self._lines(screen), self._last_line())) + "\n"

    def as_json(self) -> dict[str, Any]:
        """Return the object of `--format json` (docs/names.md, "The runs of an output")."""
        return {
            "output": self.output,
            "runs_total": self.total,
            "latest": None if self.latest is None else self.latest.run_id,
            "exit_code": self.exit_code,
            "runs": [_run_json(run, self.now) for run in self.runs],
        }

    def _lines(self, screen: Screen) -> Iterator[str]:
        yield from screen.wrap(f"{printable(self.output)} has {of(self.total, 'run')}.")
        latest = self.latest
        if self.is_latest_damaged:
            yield from screen.wrap(
                "latest.json is damaged: it does not say which run is the newest finished one."
            )
        elif latest is None:
            yield from screen.wrap("No run of the whole cluster is finished.")
        elif (summary := latest.summary) is not None:
            outcome = screen.paint(summary.outcome, HUES.get(summary.outcome, "yellow"))
            yield (
                f"The newest finished one ended {_age(latest, self.now)} ago: {outcome},"
                f" exit code {summary.exit_code}."
            )
            said = (carried_words(summary), *verification_sentences(summary))
            if words := " ".join(filter(None, said)):
                yield from screen.wrap(words)
        yield ""
        header = ("RUN", "AGE", "OUTCOME", "EXIT", "NEW", "WORSE", "VERIFIED", "TOOK")
        rows = [header, *(_cells(run, self.now) for run in self.runs)]
        yield from table(rows, "")
        yield ""
        if self.total > len(self.runs):
            yield f"{of(self.total - len(self.runs), 'older run')}: --limit {self.total} lists all."
        yield from _notes(self.runs, screen)

    def _last_line(self) -> str:
        latest = self.latest
        outcome = latest.summary.outcome if latest and latest.summary else "NONE"
        return (
            f"auditor: STATUS runs={self.total} newest={latest.run_id if latest else 'none'}"
            f" outcome={outcome} exit={self.exit_code}"
        )


def _notes(runs: Sequence[ListedRun], screen: Screen) -> Iterator[str]:
    """Yield what the words of some rows mean, and what to do."""
    found = {run.state for run in runs}
    if any(run.summary is not None and run.summary.is_partial for run in runs):
        yield from screen.wrap("(part): a run of named ledgers, which latest.json never names.")
    if RunState.UNFINISHED in found:
        yield from screen.wrap(
            "unfinished: the run is at work, or was killed: auditor run --resume RUN continues it,"
            " unless it had a period (--within). Start a new run instead of such a run."
        )
    if RunState.UNPUBLISHED in found:
        yield from screen.wrap(
            "unpublished: interrupted after its summary and before latest.json named it."
        )
    damaged = [run for run in runs if run.state is RunState.DAMAGED]
    for run in damaged[:PROBLEMS_SHOWN_MAX]:
        yield from screen.wrap(f"damaged: {printable(run.problem, 400)}", hang="  ")


def _cells(run: ListedRun, now: datetime) -> tuple[str, ...]:
    summary = run.summary
    if summary is None:
        return (run.run_id, _age(run, now), run.state.value, *["-"] * 5)
    is_over = run.state is RunState.FINISHED
    outcome = summary.outcome if is_over else run.state.value
    return (
        run.run_id,
        _age(run, now),
        outcome + (" (part)" if summary.is_partial else ""),
        str(summary.exit_code),
        *_changed(summary),
        "-" if summary.verified_ratio is None else share(summary.verified_ratio),
        _short(took_s(summary)),
    )


def _changed(summary: Summary) -> tuple[str, str]:
    """Return how many findings are new, and worse. In a first run nothing is compared."""
    changes = summary.changes
    if changes is None:
        return ("first" if summary.is_compared else "?"), "-"
    return ("?", "?") if changes.since is None else (str(changes.new), str(changes.worse))


def took_s(summary: Summary) -> float:
    """Return how long the stages of a run took, in seconds, without the time it was not at work."""
    return sum(summary.duration_s.values())


def _ended(run: ListedRun) -> datetime:
    """Return when a run ended; of one that is not finished, when it began."""
    ended = None if run.summary is None else moment(run.summary.finished_at)
    return ended or run.began


def _age(run: ListedRun, now: datetime) -> str:
    return _short((now - _ended(run)).total_seconds())


def _short(seconds: float) -> str:
    """Return a duration in its largest unit, rounded down: "14 min". Negative: "0 s"."""
    left = max(0, int(seconds))
    for number, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if left >= number:
            return f"{left // number} {unit}"
    return f"{left} s"


def _run_json(run: ListedRun, now: datetime) -> dict[str, Any]:
    """Return one of `runs`. What is not known of a run is null."""
    summary = run.summary
    changes = None if summary is None else summary.changes
    is_known = changes is not None and changes.since is not None
    return {
        "run_id": run.run_id,
        "name": name_of(run.directory),
        "directory": run.directory.address,
        "state": run.state.value,
        "problem": run.problem or None,
        "is_latest": run.is_latest,
        "partial": None if summary is None else summary.is_partial,
        "started_at": None if summary is None else summary.started_at,
        "finished_at": None if summary is None else summary.finished_at,
        "age_s": round((now - _ended(run)).total_seconds()),
        "took_s": None if summary is None else round(took_s(summary), 1),
        "outcome": None if summary is None else summary.outcome,
        "exit_code": None if summary is None else summary.exit_code,
        "ledgers": None if summary is None else encode(summary.ledgers),
        "findings": None if summary is None else summary.findings_total,
        "new": changes.new if changes is not None and is_known else None,
        "worse": changes.worse if changes is not None and is_known else None,
        "verified_ratio": None if summary is None else summary.verified_ratio,
        "carried": None if summary is None or not summary.carried else summary.carried.ledgers,
    }

"""Print the result of a run: its first screen, the whole report, or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from auditor.context import Context
from auditor.evidence.run_directory import Place
from auditor.model.finding_record import FindingRecord
from auditor.model.summary import Summary
from auditor.report import text
from auditor.report.first_screen import SCREEN_LINES_MAX, Whereabouts, render_first_screen


def show_report(
    context: Context,
    summary: Summary,
    findings: Sequence[FindingRecord],
    run: Place,
    *,
    is_replay: bool = False,
    written: Mapping[str, object] | None = None,
    lines_max: int = SCREEN_LINES_MAX,
) -> None:
    """Print the first screen of a run; with --full the whole report, with --format json both files.

    `is_replay`: the files in the run's directory are not those of this report. `written` is the
    object in summary.json of a stored run, which may have other fields than this version writes.
    `lines_max` limits the first screen.
    """
    if context.settings.format == "json":
        found = [one.as_json() for one in findings]
        both = {"summary": written or summary.as_json(), "findings": found}
        context.say(json.dumps({**both, "run_dir": run.address}) + "\n")
    elif context.settings.full:
        context.say(text.render(summary, findings, run_dir=run.address, screen=context.screen))
    else:
        where = Whereabouts(
            run.address, "replay" if is_replay else "report", is_stored=not is_replay
        )
        context.say(
            render_first_screen(
                summary, findings, where, lines_max=lines_max, screen=context.screen
            )
        )

"""`auditor diff` compares the findings of two stored runs of one cluster."""

from __future__ import annotations

import json
from collections.abc import Iterable

from auditor.after.comparison import compare_runs
from auditor.after.differences import Change, Difference
from auditor.after.differences_text import differences_json, differences_text
from auditor.commands.stored_run import refuse_damaged_run
from auditor.context import EXIT_FINDINGS, EXIT_SOUND, EXIT_UNKNOWN, Context
from auditor.model.finding import Severity
from auditor.model.summary import Summary
from auditor.summary.outcome import OUTCOME_SOUND, OUTCOME_VIOLATED


def diff(context: Context, earlier_dir: str, later_dir: str) -> int:
    """Print what became of each finding, and return the exit code.

    1: a finding of severity warning or above is new or worse. 3: none is, but the later run left
    ledgers unjudged, was limited to named ledgers, or did not check again what the earlier one had
    found. Raises ConfigError if a run cannot be read, or if the two are of different clusters.
    """
    with refuse_damaged_run(context, earlier_dir, later_dir):
        found = compare_runs(earlier_dir, later_dir)
        compared = (found.earlier.as_compared(), found.later.as_compared())
        notes, differences = found.notes, found.differences
        if context.settings.format == "json":
            said = json.dumps(differences_json(*compared, notes, differences)) + "\n"
        else:
            said = differences_text(*compared, notes, differences, context.screen)
        code = _exit_code(differences, is_whole=_is_whole(found.later.summary))
    context.say(said)
    return code


def _is_whole(summary: Summary) -> bool:
    """Return whether a run looked at everything and therefore has every finding."""
    return (
        summary.is_complete
        and not summary.is_partial
        and summary.outcome in (OUTCOME_SOUND, OUTCOME_VIOLATED)
    )


def _exit_code(differences: Iterable[Difference], *, is_whole: bool) -> int:
    changes = {
        difference.change for difference in differences if difference.severity >= Severity.WARNING
    }
    if changes & {Change.NEW, Change.WORSE}:
        return EXIT_FINDINGS
    return EXIT_SOUND if is_whole and Change.NOT_CHECKED_AGAIN not in changes else EXIT_UNKNOWN

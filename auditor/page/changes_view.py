"""What became of each finding since the run before, as `auditor diff` shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from auditor.model.summary import ChangeCounts, Summary
from auditor.page.contents import ChangesSeen
from auditor.report.differences_text import (
    count_changes,
    extent_words,
    kinds_words,
    subject_of_change,
)
from auditor.report.findings_text import PROBLEM_CHARS_MAX
from auditor.report.layout import count, moment, printable
from auditor.summary.changes.differences import Change, Difference

SHOWN_MAX = 100
"""At most this many findings of each change are listed, the most severe first; `auditor diff
--format json` has all."""
_LISTED = [change for change in Change if change is not Change.STILL]
"""Changes that are only counted here: unchanged findings are in the table of findings."""

Json = dict[str, Any]


def changes_view(seen: ChangesSeen, summary: Summary) -> Json:
    """Return the counts, and a table for each change that has a finding."""
    counts = count_changes(seen.differences)
    began = moment(seen.started_at)
    return {
        "since": f"{began:%Y-%m-%d %H:%M}",
        "run_id": printable(seen.run_id),
        "counts": [
            {"words": change.value, "name": _class(change), "count": count(number)}
            for change, number in counts.items()
        ],
        "notes": [
            *(printable(note, PROBLEM_CHARS_MAX) for note in seen.notes),
            *_other_count(counts, summary.changes),
        ],
        "groups": [
            group
            for change in _LISTED
            if (group := _group(change, [d for d in seen.differences if d.change is change]))
        ],
    }


def _class(change: Change) -> str:
    return change.value.replace(" ", "_")


def _other_count(counts: Mapping[Change, int], counted: ChangeCounts | None) -> list[str]:
    """Return why the first screen has other numbers, if it does."""
    if counted is None or counted.since is None or counts == _counted(counted):
        return []
    return [
        "The first screen counts otherwise: it includes findings that earlier runs passed on"
        " because they could not be checked again."
    ]


def _counted(counted: ChangeCounts) -> dict[Change, int]:
    return {
        Change.NEW: counted.new,
        Change.WORSE: counted.worse,
        Change.STILL: counted.still,
        Change.BETTER: counted.better,
        Change.RESOLVED: counted.resolved,
        Change.NOT_CHECKED_AGAIN: counted.not_checked_again,
    }


def _group(change: Change, differences: Sequence[Difference]) -> Json | None:
    if not differences:
        return None
    return {
        "heading": change.value.capitalize(),
        "name": _class(change),
        "count": count(len(differences)),
        "rows": [_row(one) for one in differences[:SHOWN_MAX]],
        "left": len(differences) - len(differences[:SHOWN_MAX]),
    }


def _row(one: Difference) -> Json:
    side = one.after or one.before
    assert side is not None, one
    return {
        "severity": one.severity.word,
        "kinds": kinds_words(one),
        "subject": subject_of_change(one, side),
        "extent": extent_words(one),
        "why": printable(one.why, PROBLEM_CHARS_MAX),
        "id": printable(one.after.ids[0]) if one.after is not None else None,
    }

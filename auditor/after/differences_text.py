"""Render what changed from one run to a later one, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from auditor.after.compared_finding import Subjects
from auditor.after.differences import Change, Difference, Side
from auditor.model.finding import Family, Kind
from auditor.report.findings_text import owner_text
from auditor.report.layout import Screen, of, printable, table

SHOWN_MAX = 20
"""At most this many findings of each change are shown; the JSON form has all of them."""

_COLORS = {Change.NEW: "red", Change.WORSE: "red", Change.BETTER: "green", Change.RESOLVED: "green"}


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One of the two runs, as its summary describes it. Times are RFC 3339, UTC."""

    run_id: str
    finished_at: str
    outcome: str
    auditor_version: str
    is_complete: bool

    def as_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "finished_at": self.finished_at,
            "outcome": self.outcome,
            "auditor_version": self.auditor_version,
            "complete": self.is_complete,
        }


def count_changes(differences: Sequence[Difference]) -> dict[Change, int]:
    """Return how many findings have each change, zero included."""
    return {
        change: sum(difference.change is change for difference in differences) for change in Change
    }


def differences_json(
    earlier: ComparedRun,
    later: ComparedRun,
    notes: Sequence[str],
    differences: Sequence[Difference],
) -> dict[str, Any]:
    """Return the JSON form: the runs, the counts, and every finding of either run."""
    return {
        "earlier": earlier.as_json(),
        "later": later.as_json(),
        "notes": list(notes),
        "counts": {_key(change): count for change, count in count_changes(differences).items()},
        "changes": [_as_json(difference) for difference in differences],
    }


def _as_json(difference: Difference) -> dict[str, Any]:
    ledger_id, bookie_id, family, _ = difference.subjects
    return {
        "change": _key(difference.change),
        "severity": difference.severity.word,
        "ledger_id": ledger_id,
        "bookie_id": bookie_id,
        "family": family.value,
        "before": None if difference.before is None else _side_json(difference.before),
        "after": None if difference.after is None else _side_json(difference.after),
        "why": difference.why or None,
    }


def _side_json(side: Side) -> dict[str, Any]:
    return {
        "kind": side.kind.value,
        "extent": side.extent,
        "ids": list(side.ids),
        "owner": side.owner and side.owner.as_json(),
    }


def differences_text(
    earlier: ComparedRun,
    later: ComparedRun,
    notes: Sequence[str],
    differences: Sequence[Difference],
    screen: Screen,
) -> str:
    """Return the text form. Its last line is for machines, like that of a report."""
    counts = count_changes(differences)
    lines = [", ".join(f"{count:,} {change.value}" for change, count in counts.items())]
    runs = [
        [name, *map(printable, (run.run_id, run.finished_at, run.outcome))]
        for name, run in (("earlier", earlier), ("later", later))
    ]
    lines += list(table(runs, "  "))
    for note in notes:
        lines += screen.wrap(note)
    lines.append("")
    for change in Change:
        lines += _section(
            change,
            [difference for difference in differences if difference.change is change],
            screen,
        )
    words = " ".join(f"{_key(change)}={count}" for change, count in counts.items())
    return "\n".join(
        [
            *lines,
            (
                f"auditor: DIFF earlier={printable(earlier.run_id)} later={printable(later.run_id)}"
                f" {words}"
            ),
            "",
        ]
    )


def _section(change: Change, differences: Sequence[Difference], screen: Screen) -> Iterator[str]:
    """Yield the findings with one change. Unchanged ones are only counted."""
    if not differences or change is Change.STILL:
        return
    heading = change.value.capitalize()
    yield screen.paint(heading, _COLORS[change]) if change in _COLORS else heading
    for difference in differences[:SHOWN_MAX]:
        yield from screen.wrap(_line(difference), "  ", hang="  ")
    if len(differences) > SHOWN_MAX:
        yield f"  ... and {len(differences) - SHOWN_MAX:,} more (--format json has all)"
    yield ""


def _line(difference: Difference) -> str:
    side = difference.after or difference.before
    assert side is not None, difference
    subject = subject_of_change(difference, side)
    parts = [f"{difference.severity.word.upper()} {kinds_words(difference)}  {subject}"]
    if extent := extent_words(difference):
        parts.append(extent)
    return ", ".join(parts) + (f": {printable(difference.why, 400)}" if difference.why else "")


def kinds_words(difference: Difference) -> str:
    """Return the kind, or both where it changed."""
    kinds = dict.fromkeys(
        side.kind.value for side in (difference.before, difference.after) if side is not None
    )
    return " -> ".join(kinds)


def subject_of_change(difference: Difference, side: Side) -> str:
    ledger_id, bookie_id, *_ = difference.subjects
    if ledger_id is not None:
        return f"ledger {ledger_id}" + (f" of {owner_text(side.owner)}" if side.owner else "")
    return "the cluster" if bookie_id is None else f"bookie {printable(bookie_id)}"


def extent_words(difference: Difference) -> str:
    """Return how many entries or segments are hit, before and after, if both findings count the
    same.
    """
    noun, many = _nouns(difference.subjects)
    sides = [side for side in (difference.before, difference.after) if side is not None]
    extents = list(dict.fromkeys(side.extent for side in sides if side.kind is sides[-1].kind))
    if not any(extents):
        return ""
    return (
        of(extents[0], noun, many)
        if len(extents) == 1
        else f"{extents[0]:,} -> {of(extents[1], noun, many)}"
    )


def _nouns(subjects: Subjects) -> tuple[str, str]:
    """Return the unit in which a finding's extent is counted."""
    if subjects.kind is Kind.MARK_WITHOUT_LEDGER:
        return "mark", "marks"
    if subjects.kind is Kind.VERIFICATION_OVERDUE:
        return "bookie", "bookies"
    if subjects.ledger_id is None:
        return "ledger", "ledgers"
    return ("segment", "segments") if subjects.family is Family.PLACEMENT else ("entry", "entries")


def _key(change: Change) -> str:
    return change.value.replace(" ", "_")

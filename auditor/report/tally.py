"""The numbers that the first screen, the page and the metrics show of a run, and that add up.

Each finding counts in exactly one row, and so do each ledger, each bookie and the cluster: at the
severity of their worst finding. `auditor.report.outcome_text` has the colours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from auditor.model.finding import CATALOGUE, Severity
from auditor.model.summary import ChangeCounts, SeverityCounts, Summary
from auditor.report.layout import count, of


@dataclass(frozen=True, slots=True)
class SeverityRow:
    """The findings of one severity. `new` is None if no earlier run can be compared."""

    severity: Severity
    counts: SeverityCounts
    new: int | None

    @property
    def hits(self) -> str:
        """What these findings hit: "14 ledgers, 3 bookies and the cluster"; "" for nothing."""
        counts = self.counts
        parts = [
            *([of(counts.ledgers, "ledger")] if counts.ledgers else ()),
            *([of(counts.bookies, "bookie")] if counts.bookies else ()),
            *(["the cluster"] if counts.cluster else ()),
        ]
        return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


@dataclass(frozen=True, slots=True)
class Tally:
    """The findings by severity, the worst first, the ledgers not judged, and what is new.

    `rows` is empty for a run of a version that did not count severities. `in_part` are ledgers with
    another standing that were not judged in full. `new` counts findings as
    `auditor diff` does, and is None if no earlier run can be compared. `new_ledgers` are those with
    a new finding; None for a version that did not count them.
    """

    rows: tuple[SeverityRow, ...]
    listed: int
    unjudged: int
    in_part: int
    new: int | None
    new_ledgers: int | None

    @property
    def has_findings(self) -> bool:
        """Whether there is any finding in the rows."""
        return any(row.counts.findings for row in self.rows)


def tally_of(summary: Summary) -> Tally:
    """Return the numbers that the first screen shows of a run."""
    changes = _compared(summary)
    rows = tuple(
        SeverityRow(severity, summary.severities[severity.word], _new_of(changes, severity))
        for severity in sorted(Severity, reverse=True)
        if severity.word in summary.severities
    )
    return Tally(
        rows,
        summary.ledgers.listed,
        summary.ledgers.indeterminate,
        summary.unjudged.in_part if summary.unjudged else 0,
        None if changes is None else changes.new,
        changes.new_ledgers if changes is not None and changes.has("new_ledgers") else None,
    )


def _compared(summary: Summary) -> ChangeCounts | None:
    """Return what changed since the earlier run; None if there is none, or it cannot be read."""
    changes = summary.changes
    return changes if changes is not None and changes.since is not None else None


def _new_of(changes: ChangeCounts | None, severity: Severity) -> int | None:
    if changes is None:
        return None
    return sum(
        changes.new_of(kind) for kind, facts in CATALOGUE.items() if facts.severity is severity
    )


UNJUDGED = "unjudged"
COLUMNS_SAY = "each at its worst finding"
"""In which row a ledger or a bookie counts."""


def tally_lines(tally: Tally) -> Iterator[tuple[str, str]]:
    """Yield a heading and the rows as columns, each as a label and the rest of its line.

    Without findings there is at most one line: if ledgers were judged in part, how many.
    """
    if not tally.has_findings:
        if tally.in_part:
            yield UNJUDGED, f"{of(tally.unjudged, 'ledger')}{_in_part_words(tally)}"
        return
    shown = [row for row in tally.rows if row.counts.findings]
    table: dict[str, list[int | None]] = {"findings": [row.counts.findings for row in shown]}
    if tally.new is not None:
        table["new"] = [row.new for row in shown]
    table["ledgers"] = [row.counts.ledgers for row in shown]
    table["bookies"] = [row.counts.bookies for row in shown]
    if any(row.counts.cluster for row in shown):
        table["cluster"] = [row.counts.cluster for row in shown]
    labels = [row.severity.word for row in shown]
    if tally.unjudged or tally.in_part:
        labels.append(UNJUDGED)
        for name, numbers in table.items():
            numbers.append(tally.unjudged if name == "ledgers" else None)
    columns = [
        _right_aligned([name, *("" if one is None else count(one) for one in numbers)])
        for name, numbers in table.items()
    ]
    heading, *rows = ("  ".join(cells).rstrip() for cells in zip(*columns, strict=True))
    yield "", f"{heading}  {COLUMNS_SAY}"
    for label, row in zip(labels, rows, strict=True):
        yield label, row + (_in_part_words(tally) if label == UNJUDGED else "")


def _in_part_words(tally: Tally) -> str:
    return f", and {count(tally.in_part)} more in part" if tally.in_part else ""


def _right_aligned(cells: list[str]) -> list[str]:
    width = max(map(len, cells))
    return [cell.rjust(width) for cell in cells]

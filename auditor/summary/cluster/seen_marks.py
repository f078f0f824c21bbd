"""Convert marks of unlisted ledgers to rows of evidence/marks, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from auditor.evidence.rows import Row
from auditor.first_checker.underreplication import (
    MarkLook,
    SeenMark,
    age_ms,
    is_suspect,
    newest_marks,
)
from auditor.model.evidence import Terms
from auditor.model.identity import LedgerId
from auditor.model.ledger import Mark
from auditor.summary.mark_counts import UnlistedMark

WHERE = "evidence/marks"
LISTED, FIRST, AGAIN = 0, 1, 2
"""The listing of all marks, and the two looks at single marks."""


@dataclass(frozen=True, slots=True)
class SeenMarks:
    """The marks that a run saw.

    `marks` were read one by one, `unchecked` only listed. `problem` says why not all were listed.
    """

    marks: tuple[SeenMark, ...] = ()
    unchecked: tuple[SeenMark, ...] = ()
    problem: str = ""
    malformed: tuple[str, ...] = ()
    """Paths of znodes among the marks that mark no ledger."""

    def as_unlisted(self, now_ms: int) -> tuple[UnlistedMark, ...]:
        """Return each mark that existed when it was last read, with its age."""
        newest = (look for _, look in newest_marks((*self.marks, *self.unchecked)))
        return tuple(
            UnlistedMark(age_ms(look.mark, now_ms), look.has_metadata)
            for look in newest
            if look.mark
        )


def mark_row(
    ledger_id: LedgerId, look: int, read_at_ms: int, mark: Mark | None, has_metadata: bool | None
) -> Row:
    """Return one row of MARKS. `mark` is None if it was gone."""
    times = (None, None) if mark is None else (mark.created_ms, mark.changed_ms)
    return (ledger_id, look, read_at_ms, *times, has_metadata, "", None)


def problem_row(read_at_ms: int, problem: str) -> Row:
    """Return the row of MARKS that says why not all marks could be listed."""
    return (None, LISTED, read_at_ms, None, None, None, problem, None)


def malformed_row(read_at_ms: int, path: str) -> Row:
    """Return the row of MARKS for a znode among the marks that marks no ledger."""
    return (None, LISTED, read_at_ms, None, None, None, "", path)


def suspects_of(rows: pa.Table, terms: Terms) -> dict[LedgerId, int]:
    """Return the ledgers whose marks need another look, each with the time of the first (ms)."""
    seen = [row for row in rows.to_pylist() if row["look"] == FIRST]
    grace_ms = terms.underreplication_grace_ms
    suspects = [row for row in seen if is_suspect(_look(row), terms.judged_at_ms, grace_ms)]
    return {row["ledger_id"]: row["read_at_ms"] for row in suspects}


def seen_marks(rows: pa.Table) -> SeenMarks:
    """Return the rows of MARKS as values, sorted by ledger id."""
    looks: dict[LedgerId, dict[int, MarkLook]] = {}
    problem, malformed = "", []
    for row in rows.sort_by([("ledger_id", "ascending"), ("look", "ascending")]).to_pylist():
        if row["malformed_path"] is not None:
            malformed.append(row["malformed_path"])
        elif row["ledger_id"] is None:
            problem = row["problem"]
        else:
            looks.setdefault(row["ledger_id"], {})[row["look"]] = _look(row)
    marks = tuple(
        SeenMark(i, seen[FIRST], seen.get(AGAIN)) for i, seen in looks.items() if FIRST in seen
    )
    unchecked = tuple(SeenMark(i, seen[LISTED]) for i, seen in looks.items() if FIRST not in seen)
    return SeenMarks(marks, unchecked, problem, tuple(sorted(malformed)))


def _look(row: Mapping[str, Any]) -> MarkLook:
    return MarkLook(row["read_at_ms"], row["created_ms"], row["changed_ms"], row["has_metadata"])

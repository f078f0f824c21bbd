"""The report's section on under-replication marks: number, age, stale marks, missing ledgers."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.model.summary import Summary
from auditor.report.layout import count, of, paint, wrap

_AGES = {
    "under_1h": "under 1 h",
    "under_1d": "1 h to 1 d",
    "under_1w": "1 d to 1 w",
    "older": "older",
}
"""The age classes of `marks_by_age`, in words."""


def marks_section(summary: Summary, width: int, color: bool) -> Iterator[str]:
    """Yield lines on the marks; none if there is no mark or the summary does not count marks."""
    marks = summary.marks
    if marks is None or not marks.total:
        return
    yield paint("Marks (under-replicated)", "bold", color)
    of_what = " of the named ledgers" if summary.is_partial else ""
    head = f"{of(marks.total, 'mark')}{of_what}: {count(marks.within_grace)} within grace, "
    yield from wrap(f"{head}{count(marks.beyond_grace)} beyond it", width, "  ")
    ages = summary.marks_by_age
    ages_text = ", ".join(
        f"{words} {count(ages[name])}" for name, words in _AGES.items() if ages[name]
    )
    yield from wrap(f"by age: {ages_text}", width, "  ")
    if marks.stale:
        are = "mark is" if marks.stale == 1 else "marks are"
        yield from wrap(
            f"{count(marks.stale)} {are} stale: every copy was listed or read where the metadata"
            " says",
            width,
            "  ",
        )
    if marks.without_ledger:
        are = (
            "mark has no ledger: its"
            if marks.without_ledger == 1
            else "marks have no ledger: their"
        )
        yield from wrap(f"{count(marks.without_ledger)} {are} metadata does not exist", width, "  ")
    yield ""

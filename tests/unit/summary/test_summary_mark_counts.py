"""Marks in the summary: the parts add up to the total, and marks without a ledger are counted
beside them.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from auditor.evidence.schemas import VERDICTS
from auditor.evidence.table_scan import TableScan, scan_rows
from auditor.model.codec import encode
from auditor.summary.counts import UnlistedMark, marks_of, oldest_mark_s, stale_ledgers

GRACE_MS = 3 * 24 * 3600 * 1000
HOUR_MS, DAY_MS, WEEK_MS = 3600 * 1000, 24 * 3600 * 1000, 7 * 24 * 3600 * 1000


def rows(*verdicts: dict[str, Any]) -> TableScan:
    ledgers = [{"ledger_id": n, "standing": "sound"} | one for n, one in enumerate(verdicts)]
    return scan_rows(pa.Table.from_pylist(ledgers, schema=VERDICTS))


def marked_row(age_ms: int, **more: Any) -> dict[str, Any]:
    return {"mark_age_ms": age_ms} | more


def test_within_and_beyond_grace_add_up_to_the_total() -> None:
    """Marks of listed and of unlisted ledgers count. A mark as old as the grace is within it."""
    verdicts = rows(
        {}, marked_row(0), marked_row(GRACE_MS), marked_row(GRACE_MS + 1), {"is_mark_stale": False}
    )
    marks, _ = marks_of(
        verdicts,
        [UnlistedMark(GRACE_MS + 1, False), *[UnlistedMark(5, has) for has in (True, True, None)]],
        GRACE_MS,
    )
    expected = {"total": 7, "within_grace": 5, "beyond_grace": 2, "stale": 0, "without_ledger": 1}
    assert expected == encode(marks)


def test_stale_marks_are_counted_at_any_age_and_named() -> None:
    """All copies of their ledgers are back. They are named in the order of ledger ids."""
    verdicts = rows(
        marked_row(1, is_mark_stale=True, ledger_id=2),
        marked_row(1, ledger_id=1),
        marked_row(GRACE_MS * 2, is_mark_stale=True, ledger_id=0),
    )
    assert 2 == marks_of(verdicts, [], GRACE_MS)[0].stale
    assert [0, 2] == stale_ledgers(verdicts).tolist()


def test_the_mark_of_a_ledger_that_was_deleted_has_no_ledger() -> None:
    """The ledger was listed and deleted later. Its mark is counted, but not in the age of the
    oldest mark.
    """
    gone = marked_row(9_000, standing="exempt", exempt="deleted")
    verdicts = rows(marked_row(4_000), gone)
    assert 1 == marks_of(verdicts, [], GRACE_MS)[0].without_ledger
    assert 4.0 == oldest_mark_s(verdicts)
    assert 0.0 == oldest_mark_s(rows(gone))


def test_ages_are_counted_in_four_classes_that_add_up() -> None:
    """Each mark is in one class: under an hour, under a day, under a week, or older."""
    ages = [0, HOUR_MS - 1, HOUR_MS, DAY_MS - 1, DAY_MS, WEEK_MS - 1, WEEK_MS, WEEK_MS * 100]
    marks, by_age = marks_of(rows(*map(marked_row, ages)), [UnlistedMark(HOUR_MS, False)], GRACE_MS)
    assert {"under_1h": 2, "under_1d": 3, "under_1w": 2, "older": 2} == by_age
    assert marks.total == sum(by_age.values())


def test_no_mark_is_a_zero_everywhere() -> None:
    """Each field exists before any ledger is marked."""
    marks, by_age = marks_of(rows(), [], GRACE_MS)
    assert {0} == {*encode(marks).values(), *by_age.values()}


def test_an_age_is_never_rounded() -> None:
    """An age of 2^53 + 1 ms is beyond a grace of 2^53 ms."""
    assert 1 == marks_of(rows(marked_row(2**53 + 1)), [], 2**53)[0].beyond_grace

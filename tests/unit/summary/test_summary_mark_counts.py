"""Marks in the summary: the parts add up to the total, and what has no ledger is counted beside."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from auditor.evidence.schemas import VERDICTS
from auditor.evidence.table_scan import TableScan, scan_rows
from auditor.summary.mark_counts import UnlistedMark, marks_of, oldest_mark_s, stale_ledgers

GRACE_MS = 3 * 24 * 3600 * 1000
HOUR_MS, DAY_MS, WEEK_MS = 3600 * 1000, 24 * 3600 * 1000, 7 * 24 * 3600 * 1000


def rows(*verdicts: dict[str, Any]) -> TableScan:
    ledgers = [{"ledger_id": n, "standing": "sound"} | one for n, one in enumerate(verdicts)]
    return scan_rows(pa.Table.from_pylist(ledgers, schema=VERDICTS))


def marked(age_ms: int, **more: Any) -> dict[str, Any]:
    return {"mark_age_ms": age_ms} | more


def test_within_and_beyond_grace_add_up_to_the_total() -> None:
    """Of listed ledgers and of others alike; at exactly the grace a mark is within it."""
    verdicts = rows({}, marked(0), marked(GRACE_MS), marked(GRACE_MS + 1), {"is_mark_stale": False})
    fields = marks_of(
        verdicts,
        [UnlistedMark(GRACE_MS + 1, False), *[UnlistedMark(5, has) for has in (True, True, None)]],
        GRACE_MS,
    )
    expected = {"total": 7, "within_grace": 5, "beyond_grace": 2, "stale": 0, "without_ledger": 1}
    assert expected == fields["marks"]


def test_stale_marks_are_counted_at_any_age_and_named() -> None:
    """A mark whose copies are all back, within grace or beyond it; in order of ledger ids."""
    verdicts = rows(
        marked(1, is_mark_stale=True, ledger_id=2),
        marked(1, ledger_id=1),
        marked(GRACE_MS * 2, is_mark_stale=True, ledger_id=0),
    )
    assert 2 == marks_of(verdicts, [], GRACE_MS)["marks"]["stale"]
    assert [0, 2] == stale_ledgers(verdicts).tolist()


def test_a_marked_ledger_that_was_deleted_meanwhile_has_no_ledger() -> None:
    """It was listed and is gone, its mark is not: counted, and no measure of how late replication
    is.
    """
    gone = marked(9_000, standing="exempt", exempt="deleted")
    verdicts = rows(marked(4_000), gone)
    assert 1 == marks_of(verdicts, [], GRACE_MS)["marks"]["without_ledger"]
    assert 4.0 == oldest_mark_s(verdicts)
    assert 0.0 == oldest_mark_s(rows(gone))


def test_ages_are_counted_in_four_classes_that_add_up() -> None:
    """Below an hour, a day, a week, and older: each mark in one of them."""
    ages = [0, HOUR_MS - 1, HOUR_MS, DAY_MS - 1, DAY_MS, WEEK_MS - 1, WEEK_MS, WEEK_MS * 100]
    fields = marks_of(rows(*map(marked, ages)), [UnlistedMark(HOUR_MS, False)], GRACE_MS)
    assert {"under_1h": 2, "under_1d": 3, "under_1w": 2, "older": 2} == fields["marks_by_age"]
    assert fields["marks"]["total"] == sum(fields["marks_by_age"].values())


def test_no_mark_is_a_zero_everywhere() -> None:
    """Each name is there before anything is marked."""
    fields = marks_of(rows(), [], GRACE_MS)
    assert {0} == {*fields["marks"].values(), *fields["marks_by_age"].values()}


def test_an_age_is_never_rounded() -> None:
    """However old a mark claims to be."""
    assert 1 == marks_of(rows(marked(2**53 + 1)), [], 2**53)["marks"]["beyond_grace"]

"""Counts of verified copies: only of judged ledgers, without overflow, never rounded up to all."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from auditor.evidence.schemas import VERDICTS
from auditor.evidence.table_scan import TableScan, scan_rows
from auditor.model.verdict import (
    COPIES_MAX,
    CopyCounts,
    Exempt,
    Standing,
    Unknown,
    Verdict,
    copies_of_ledgers,
    verified_ratio,
)
from auditor.summary.counts import copies_of_verdicts

COLUMNS = ("copies_expected", "copies_listed", "copies_read", "copies_assumed")
SOME = CopyCounts(expected=100, listed=40, read=20, assumed=40)


def rows(*counted: tuple[str, CopyCounts | None]) -> TableScan:
    """Return VERDICTS rows with a standing and copies; other columns are null."""
    columns: list[dict[str, Any]] = []
    for number, (standing, counts) in enumerate(counted):
        values = (
            (counts.expected, counts.listed, counts.read, counts.assumed) if counts else (None,) * 4
        )
        columns.append(
            {"ledger_id": number, "standing": standing} | dict(zip(COLUMNS, values, strict=True))
        )
    return scan_rows(pa.Table.from_pylist(columns, schema=VERDICTS))


def test_only_judged_ledgers_count() -> None:
    """Sound and violated ledgers count. Exempt and unknown ledgers do not, nor those without a
    bookie to ask.
    """
    judged = rows(
        ("sound", SOME),
        ("violated", SOME),
        ("exempt", SOME),
        ("indeterminate", SOME),
        ("sound", None),
    )
    counts = copies_of_verdicts(judged)
    assert CopyCounts(expected=200, listed=80, read=40, assumed=80) == counts
    assert 0.6 == verified_ratio(counts)


def test_many_huge_ledgers_do_not_overflow() -> None:
    """Two thousand ledgers of 2^53 copies each are more than 2^63."""
    huge = CopyCounts(COPIES_MAX, COPIES_MAX - 1, 0, 1)
    counts = copies_of_verdicts(rows(*[("sound", huge)] * 2_000))
    assert (2_000 * 2**53, 2_000) == (counts.expected, counts.assumed)


@pytest.mark.parametrize(
    ("ratio", "expected", "listed", "read"),
    [
        (None, 0, 0, 0),
        (1.0, 7, 3, 4),
        (0.0, 10**9, 0, 1),
        (0.999999, 10**9, 10**9 - 1, 0),
        (0.333333, 3, 0, 1),
    ],
)
def test_the_ratio_is_never_rounded_up(
    ratio: float | None, expected: int, listed: int, read: int
) -> None:
    """1.0 means all copies. Null if no copy is expected."""
    counts = CopyCounts(expected, listed, read, assumed=expected - listed - read)
    assert ratio == verified_ratio(counts)


def test_single_ledgers_are_counted_as_a_run_counts_them() -> None:
    """`auditor ledger` and `auditor run` count the same verdicts alike."""
    unknown = (Unknown.BOOKIE_SILENT,)
    verdicts = [
        Verdict(1, Standing.SOUND, copies=SOME),
        Verdict(2, Standing.SOUND, copies=CopyCounts(2**60, 2**60, 0, 0)),
        Verdict(3, Standing.EXEMPT, exempt=Exempt.OPEN),
        Verdict(4, Standing.INDETERMINATE, unknowns=unknown, copies=SOME),
        Verdict(5, Standing.SOUND),
    ]
    capped = CopyCounts(COPIES_MAX, COPIES_MAX, 0, 0)
    table = rows(
        ("sound", SOME),
        ("sound", capped),
        ("exempt", None),
        ("indeterminate", SOME),
        ("sound", None),
    )
    assert copies_of_verdicts(table) == copies_of_ledgers(verdicts)
    assert 100 + COPIES_MAX == copies_of_ledgers(verdicts).expected


def test_where_nothing_was_judged_no_copy_is_counted() -> None:
    """All counts are 0, and there is no ratio."""
    counts = copies_of_verdicts(rows(("exempt", SOME)))
    assert (CopyCounts(0, 0, 0, 0), None) == (counts, verified_ratio(counts))

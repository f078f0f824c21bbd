"""Count the rows that scans of tables return."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from auditor.evidence.table_scan import TableScan


def count_rows_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets, for each table that is read from now on, the number of its rows."""
    read: list[int] = []
    within = TableScan.table_within

    def counted(scan: TableScan, *args: Any) -> pa.Table | None:
        rows = within(scan, *args)
        read.append(0 if rows is None else len(rows))
        return rows

    monkeypatch.setattr(TableScan, "table_within", counted)
    return read

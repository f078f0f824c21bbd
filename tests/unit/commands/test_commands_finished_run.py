"""Rows of some ledgers, read from the tables of a finished run."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from auditor.after.finished_run import read_rows_of
from auditor.errors import OutputError
from auditor.evidence import table_scan
from auditor.evidence.run_directory import place
from auditor.evidence.schemas import LISTING


def test_the_rows_of_ledgers_are_read_however_many_are_looked_up_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is lost or read twice where one lookup ends, and no other ledger's is read."""
    run = place(str(tmp_path))
    ids = pa.array([3, 5, 8, 13, 21], pa.int64())
    run.write_table("listing", pa.table([pa.array(range(30))], schema=LISTING), "all")
    for at_once in range(1, len(ids) + 2):
        monkeypatch.setattr(table_scan, "LEDGERS_AT_ONCE", at_once)
        rows = read_rows_of(run, "listing", LISTING, ids, ["ledger_id"])
        assert ids.to_pylist() == rows["ledger_id"].to_pylist()


def test_a_table_must_be_there_only_for_ledgers(tmp_path: Path) -> None:
    """Without a ledger to look up, a missing table is empty: a run that asked nothing wrote no
    answers.
    """
    run = place(str(tmp_path))
    none = pa.array([], pa.int64())
    assert LISTING.empty_table() == read_rows_of(run, "listing", LISTING, none, ["ledger_id"])
    with pytest.raises(OutputError, match="listing"):
        read_rows_of(run, "listing", LISTING, pa.array([1]), ["ledger_id"])

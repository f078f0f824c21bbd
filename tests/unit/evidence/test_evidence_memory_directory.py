"""Tables in memory: what is written, read, counted and removed is the same as on a disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from auditor.errors import OutputError
from auditor.evidence.journal import Journal
from auditor.evidence.run_directory import MemoryDirectory, Place, place
from auditor.evidence.run_tables import NewRows

WRITTEN = pa.schema([("ledger_id", pa.int64()), ("detail", pa.string()), ("count", pa.int64())])
READ = pa.schema([("detail", pa.string()), ("ledger_id", pa.int64())])
"""What a reader asks for: fewer columns, in another order."""


def rows(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"ledger_id": one, "detail": f"on {one}", "count": 1} for one in ids], schema=WRITTEN
    )


@pytest.fixture(params=["memory", "disk"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return a directory with a table of two files, and another of one."""
    run = MemoryDirectory() if request.param == "memory" else place(str(tmp_path))
    run.write_table("steps/a", rows(3, 1), "first")
    run.write_stream("steps/a", iter([rows(2), rows()]), WRITTEN, "second")
    run.write_table("steps/ab", rows(9), "other")
    return run


@pytest.mark.parametrize(
    "read",
    [
        lambda run: run.read_table("steps/a", READ).to_pylist(),
        lambda run: run.read_table("steps/a", READ, pc.field("ledger_id") > 1).to_pylist(),
        lambda run: run.read_table("steps/a", READ, pc.field("detail") == "on 2", ["ledger_id"]),
        lambda run: run.read_table("steps/a", READ, columns=["detail"]).to_pylist(),
        lambda run: list(run.stream("steps/a/second.parquet", READ, ["ledger_id"])),
        lambda run: run.count("steps/a", READ),
        lambda run: run.count("steps/a", READ, pc.field("ledger_id").isin([1, 9])),
        lambda run: run.scan("steps/a", READ).count(pc.field("ledger_id") < 3),
        lambda run: sorted(run.files_in("steps", "evidence")),
        lambda run: [run.has_table(name) for name in ("steps", "steps/a", "steps/b")],
        lambda run: [run.has_file(f"steps/a/{name}.parquet") for name in ("first", "third")],
    ],
)
def test_a_table_reads_as_on_a_disk(read: Callable[[Place], object], tmp_path: Path) -> None:
    """Both have the same rows, in the same order."""
    there, here = place(str(tmp_path)), MemoryDirectory()
    for one in (there, here):
        one.write_table("steps/a", rows(3, 1), "first")
        one.write_table("steps/a", rows(2), "second")
        one.write_table("steps/ab", rows(9), "other")
    assert read(there) == read(here)


def test_what_is_removed_is_gone_and_nothing_else(run: Place) -> None:
    """A table of a longer name stays."""
    run.remove_file("steps/a/first.parquet")
    assert {"steps/a/second.parquet", "steps/ab/other.parquet"} == run.files_in("steps")
    run.remove("steps/a")
    run.remove("steps/nothing")
    assert {"steps/ab/other.parquet"} == run.files_in("steps")
    with pytest.raises(OutputError, match="is not there"):
        run.read_table("steps/a", READ)


def test_rows_that_cannot_be_made_leave_no_file(run: Place) -> None:
    """What makes them raises through."""

    def broken() -> Iterator[pa.RecordBatch]:
        yield rows(4)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run.write_stream("steps/a", broken(), WRITTEN, "third")
    assert 3 == run.count("steps/a", READ)


def test_new_rows_are_read_once(run: Place) -> None:
    """The next call reads what was added since."""
    new = NewRows(run, "steps/a", READ)
    assert [2, 1] == [len(batch) for batch in new.batches(["ledger_id"]) if len(batch)]
    run.write_table("steps/a", rows(7), "third")
    assert [[7]] == [batch["ledger_id"].to_pylist() for batch in new.batches(["ledger_id"])]


def test_a_journal_is_kept(run: Place) -> None:
    """A stage that is complete is not repeated, and its result is there."""
    journal = Journal(run)
    assert [{"n": 1}, {"n": 1}] == [
        journal.run_once("one", lambda number=number: {"n": number}) for number in (1, 2)
    ]
    assert "" == journal.lost()
    assert '"n": 1' in (run.read_text("journal/000000.json") or "")
    assert run.read_text("journal/000001.json") is None

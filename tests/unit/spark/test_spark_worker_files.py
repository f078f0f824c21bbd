"""Files that the tasks of a Spark job write themselves: of those whose results were taken, each row
is in the table once, and of others none.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auditor.config import BookieLimits
from auditor.errors import OutputError
from auditor.evidence import rows as evidence_rows
from auditor.evidence.local_files import own_umask
from auditor.evidence.run_directory import Place, place
from auditor.spark.worker_files import FILES, WorkerFiles
from auditor.stages.asking import LANE_ANSWERS, Directory, list_asker

ROWS = pa.schema([("ledger_id", pa.int64())])
Batches = Iterator[pa.RecordBatch]


def batches(*parts: range) -> Batches:
    return (pa.RecordBatch.from_arrays([pa.array(part, pa.int64())], schema=ROWS) for part in parts)


@pytest.fixture
def run(tmp_path: Path) -> Place:
    return place(str(tmp_path / "run"))


def write(files: WorkerFiles, *parts: range) -> list[str]:
    """Return what a task says that does nothing else to these rows."""
    said = list(files.writer(lambda rows: rows)(batches(*parts)))
    assert all(batch.schema == FILES for batch in said)
    return [name for batch in said for name in batch["file"].to_pylist()]


def test_what_was_taken_is_in_the_table_once(run: Place) -> None:
    """A file that is not published is not in the table, and is removed: that of a task which Spark
    repeated, or which failed later.
    """
    files = WorkerFiles(run, "evidence/ledgers", ROWS)
    taken = write(files, range(3)) + write(files, range(3, 5), range(5, 6))
    write(files, range(3))
    assert 0 == run.count("evidence/ledgers", ROWS)
    files.publish(taken)
    files.remove_unpublished()
    rows = run.read_table("evidence/ledgers", ROWS)["ledger_id"].to_pylist()
    assert list(range(6)) == sorted(rows)
    assert 2 == len(run.files_in("evidence"))


@pytest.mark.parametrize(("mask", "modes"), [(0o022, (0o755, 0o644)), (0o077, (0o700, 0o600))])
def test_files_of_a_task_have_the_permissions_of_the_run(
    run: Place, mask: int, modes: tuple[int, int]
) -> None:
    """A worker on another machine has a umask of its own, which stays as it is."""
    own = os.umask(0o022)
    try:
        (name,) = write(WorkerFiles(run, "evidence/ledgers", ROWS, mask), range(3))
        assert 0o022 == own_umask()
    finally:
        os.umask(own)
    table = Path(run.path) / "evidence/ledgers"
    found = (table, table / f"{name}.parquet")
    assert modes == tuple(stat.S_IMODE(path.stat().st_mode) for path in found)


def test_the_directory_is_there_before_tasks_write(run: Place) -> None:
    """A task on another machine does not make it. It has no table until a file is published."""
    files = WorkerFiles(run, "evidence/ledgers", ROWS)
    files.prepare()
    assert [] == os.listdir(f"{run.path}/evidence/ledgers")


def test_jobs_add_to_a_table_and_leave_each_others_files(run: Place) -> None:
    """Two jobs may write the same table, one after the other or at once."""
    first, second = (WorkerFiles(run, "evidence/ledgers", ROWS) for _ in range(2))
    of_second = write(second, range(2, 4))
    first.publish(write(first, range(2)))
    first.remove_unpublished()
    second.publish(of_second)
    rows = run.read_table("evidence/ledgers", ROWS)["ledger_id"].to_pylist()
    assert list(range(4)) == sorted(rows)


def test_a_file_that_its_task_removes_meanwhile_is_no_error(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that is cancelled ends its tasks while their files are removed."""
    files = WorkerFiles(run, "evidence/ledgers", ROWS)
    (left,) = write(files, range(3))
    names = [f"evidence/ledgers/.{files.job}-0.parquet", f"evidence/ledgers/{left}.parquet"]
    monkeypatch.setattr(Place, "files_in", lambda *_: names)
    files.remove_unpublished()
    assert [] == os.listdir(f"{run.path}/evidence/ledgers")


def test_a_file_that_a_task_wrote_elsewhere_is_missed(run: Place) -> None:
    """The error says what to do, on a machine that does not share the output."""
    files = WorkerFiles(run, "evidence/ledgers", ROWS)
    files.prepare()
    with pytest.raises(OutputError, match=r"although it was written: .* that all of them share"):
        files.publish([".elsewhere"])


def test_a_file_that_cannot_be_renamed_is_not_said_to_be_missing(run: Place) -> None:
    """The error has the reason of the file system."""
    files = WorkerFiles(run, "evidence/ledgers", ROWS)
    (name,) = write(files, range(3))
    Path(run.path, f"evidence/ledgers/part-00000-{files.job}.parquet").mkdir()
    with pytest.raises(OutputError, match=r"cannot write .*part-00000"):
        files.publish([name])


def test_a_job_without_rows_leaves_a_table(run: Place) -> None:
    """A stage without a file counts as not done. A task without rows writes none."""
    files = WorkerFiles(run, "evidence/ledgers", ROWS)
    assert [] == write(files)
    files.publish([])
    assert 0 == run.count("evidence/ledgers", ROWS)
    assert 1 == len(run.files_in("evidence"))


@pytest.mark.parametrize("rows", [0, 3])
def test_batches_without_rows_are_in_no_row_group(run: Place, rows: int) -> None:
    """Work may yield any number of them. It wrote a file all the same."""
    files = WorkerFiles(run, "evidence/ledgers", ROWS)
    (name,) = write(files, range(0), range(0), range(rows), range(0))
    read = pq.ParquetFile(f"{run.path}/evidence/ledgers/{name}.parquet")
    assert (min(rows, 1), rows) == (read.num_row_groups, read.metadata.num_rows)
    files.publish([name])
    assert list(range(rows)) == run.read_table("evidence/ledgers", ROWS)["ledger_id"].to_pylist()


def test_a_bookie_whose_address_cannot_be_read_says_nothing(run: Place) -> None:
    """It is neither asked nor greeted."""
    files = WorkerFiles(run, "evidence/answers", LANE_ANSWERS)
    directory = Directory({"b1:3181": None}, frozenset())
    work = files.writer(list_asker(directory, BookieLimits(), 1))
    (batch,) = work(iter([directory.greetings()]))
    files.publish(batch["file"].to_pylist())
    assert 0 == run.count("evidence/answers", LANE_ANSWERS)


def test_work_that_fails_leaves_no_file(run: Place) -> None:
    """Its exception is that of the task."""

    def fail(rows: Batches) -> Batches:
        yield next(rows)
        raise ConnectionError("lost")

    files = WorkerFiles(run, "evidence/ledgers", ROWS)
    with pytest.raises(ConnectionError, match="lost"):
        list(files.writer(fail)(batches(range(3))))
    assert set() == run.files_in("evidence")


def test_what_cannot_be_written_is_said_with_its_place(run: Place, tmp_path: Path) -> None:
    """The job fails, and says so."""
    (tmp_path / "run").write_text("a file where the directory should be")
    with pytest.raises(OutputError, match=r"cannot write (to )?file:.*/run/evidence/ledgers"):
        write(WorkerFiles(run, "evidence/ledgers", ROWS), range(3))


@pytest.mark.parametrize(("bound", "value"), [("GROUP_ROWS", 4), ("GROUP_BYTES", 32)])
def test_small_batches_are_gathered(
    run: Place, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    """A row group of a few rows would cost more than what it has. Memory is bounded."""
    monkeypatch.setattr(evidence_rows, bound, value)
    files = WorkerFiles(run, "evidence/ledgers", ROWS)
    (name,) = write(files, *(range(at, at + 2) for at in range(0, 10, 2)))
    read = pq.ParquetFile(f"{run.path}/evidence/ledgers/{name}.parquet")
    groups = range(read.num_row_groups)
    assert [4, 4, 2] == [read.metadata.row_group(group).num_rows for group in groups]
    assert list(range(10)) == read.read()["ledger_id"].to_pylist()

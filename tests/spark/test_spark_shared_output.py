"""An output that Spark's executors do not share with the driver is refused before the audit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from auditor.errors import (
    AuditorError,
    ConfigError,
    LocalFault,
    OutputError,
    SparkStalled,
    SparkUnavailable,
    WorkerDied,
)
from auditor.evidence.run_directory import Place, place
from auditor.spark import store
from auditor.spark.store import Batches, require_shared_output
from auditor.spark.worker_files import WorkerFiles
from auditor.stop import StopRequest

pytestmark = pytest.mark.spark


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return an output that is tried although Spark runs in this machine's one JVM."""
    monkeypatch.setattr(store, "is_local_master", lambda master: False)
    found = place(str(tmp_path / "audits"))
    found.create()
    return found


def test_a_shared_output_is_left_as_it_was(
    spark: SparkSession, root: Place, monkeypatch: pytest.MonkeyPatch
):
    """Both sides read what the other one wrote. Tasks can do so without Spark, which then does not
    try it.
    """
    monkeypatch.setattr(store, "append", lambda *_: pytest.fail("Spark writes"))
    assert require_shared_output(spark, root, StopRequest())
    assert [] == os.listdir(root.path)


@pytest.mark.parametrize("fails", ["reading", "writing", "renaming"])
def test_spark_writes_where_tasks_cannot(
    spark: SparkSession, root: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
):
    """The Python of the executors may see other files than their JVM, or be another user."""
    there = place(str(tmp_path / "elsewhere"))

    class Files(WorkerFiles):
        def writer(self, work: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
            theirs = replace(self, run=there) if fails == "writing" else self
            read = (lambda batches: work(iter([]))) if fails == "reading" else work
            return WorkerFiles(theirs.run, self.table, self.schema, 0, self.job).writer(read)

        def publish(self, hidden: Iterable[str]) -> None:
            if fails == "renaming":
                raise OutputError("not permitted")
            super().publish(hidden)

    monkeypatch.setattr(store, "WorkerFiles", Files)
    assert not require_shared_output(spark, root, StopRequest())
    assert [] == os.listdir(root.path)


def test_a_task_that_fails_does_not_pass_where_spark_repeats_it(
    spark: SparkSession, root: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """An executor without the directory is noticed, although the task is done by another one."""
    failed = tmp_path / "failed"

    class Files(WorkerFiles):
        def writer(self, work: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
            theirs = WorkerFiles(self.run, self.table, self.schema, 0, self.job).writer(work)

            def write(batches: Batches) -> Batches:
                with suppress(FileExistsError):
                    failed.touch(exist_ok=False)
                    raise OutputError("not there")
                yield from theirs(batches)

            return write

    monkeypatch.setattr(store, "WorkerFiles", Files)
    assert not require_shared_output(spark, root, StopRequest())
    assert failed.exists()


def fail_once(monkeypatch: pytest.MonkeyPatch, error: AuditorError) -> None:
    """Make the first job raise an error."""
    errors, do_job = [error], store.run_job

    def job(*given: Any) -> Any:
        if errors:
            raise errors.pop()
        return do_job(*given)

    monkeypatch.setattr(store, "run_job", job)


@pytest.mark.parametrize(
    "error", [LocalFault("no memory"), WorkerDied("exited", ""), SparkUnavailable("unfit")]
)
def test_spark_writes_where_the_python_of_tasks_does_not_run(
    spark: SparkSession, root: Place, monkeypatch: pytest.MonkeyPatch, error: AuditorError
):
    """A run of few ledgers needs no Python there."""
    fail_once(monkeypatch, error)
    assert not require_shared_output(spark, root, StopRequest())


def test_a_cluster_that_hangs_is_not_tried_again(
    spark: SparkSession, root: Place, monkeypatch: pytest.MonkeyPatch
):
    """Its executors may never be granted."""
    fail_once(monkeypatch, SparkStalled("no task finished"))
    with pytest.raises(SparkStalled):
        require_shared_output(spark, root, StopRequest())


@pytest.fixture
def by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the Python of tasks unable to write."""
    monkeypatch.setattr(store, "_can_tasks_write", lambda *_: False)


@pytest.mark.usefixtures("by_spark")
def test_what_executors_do_not_see_is_not_shared(spark: SparkSession, root: Place, tmp_path: Path):
    """The executors' output is another directory here, as on a machine of their own."""
    elsewhere = replace(root, uri=(tmp_path / "elsewhere").as_uri())
    with pytest.raises(ConfigError, match=r"is not shared .* could not read or write there"):
        require_shared_output(spark, elsewhere, StopRequest())
    assert [] == os.listdir(root.path)


@pytest.mark.usefixtures("by_spark")
def test_what_executors_write_elsewhere_is_not_shared(
    spark: SparkSession, root: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """They read the driver's file, but their own files never arrive."""
    append = store.append

    def append_elsewhere(rows: object, path: str) -> None:
        append(rows, (tmp_path / "elsewhere").as_uri())

    monkeypatch.setattr(store, "append", append_elsewhere)
    with pytest.raises(ConfigError, match=r"of \d+ rows that executors wrote, 0 are there"):
        require_shared_output(spark, root, StopRequest())


@pytest.mark.usefixtures("by_spark")
def test_what_executors_cannot_write_is_refused_with_the_reason(
    spark: SparkSession, root: Place, monkeypatch: pytest.MonkeyPatch
):
    """Such as a full disk."""
    fail_once(monkeypatch, OutputError("a Spark task cannot write: No space left on device"))
    with pytest.raises(ConfigError, match="No space left on device"):
        require_shared_output(spark, root, StopRequest())


def test_on_one_machine_a_local_directory_is_not_tried(spark: SparkSession, tmp_path: Path):
    """It costs no Spark job there."""
    assert require_shared_output(spark, place(str(tmp_path / "not-made")), StopRequest())
    assert not (tmp_path / "not-made").exists()

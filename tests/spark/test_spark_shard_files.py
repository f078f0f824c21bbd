"""A stage opens the files of its shard alone: its work does not grow with the shards before it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import cast

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from auditor.errors import OutputError
from auditor.evidence.ids import EVERYTHING, Shard
from auditor.evidence.rows import answer_row, ledger_row, table
from auditor.evidence.run_directory import place
from auditor.evidence.schemas import ANSWERS, LEDGERS, LISTING, READS
from auditor.model.availability import Answer, AnswerStatus
from auditor.model.ledger import LedgerRecord, RecordStatus
from auditor.spark.executor import SparkExecutor, listed_portions
from auditor.spark.store import read_tables
from auditor.stages.selection import Ledgers
from auditor.stop import StopRequest
from auditor.zookeeper.metadata_store import StoreAddress

pytestmark = pytest.mark.spark

SHARDS = [Shard(0, 0, 9), Shard(1, 10, 19), Shard(2, 20, 99)]
"""The last one has no ledger."""
CORES = max(2, os.cpu_count() or 2)
BOOKIES = tuple(f"b{number}" for number in range(CORES))


@pytest.fixture(scope="module")
def executor(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkExecutor:
    """Return an executor over a run with the evidence of two shards, a file for each bookie."""
    run = place(str(tmp_path_factory.mktemp("run")))
    run.write_table("evidence/reads", READS.empty_table(), "none")
    for shard in SHARDS[:2]:
        ids = range(shard.first, shard.last + 1)
        records = (ledger_row(LedgerRecord(i, 1, 0, RecordStatus.FOUND)) for i in ids)
        run.write_table("evidence/ledgers", table(LEDGERS, records), f"shard-{shard.number}")
        for bookie in BOOKIES:
            said = (Answer(bookie, i, 1, 0, AnswerStatus.HELD, b"") for i in ids)
            name = f"shard-{shard.number}-{bookie}"
            run.write_table("evidence/answers", table(ANSWERS, map(answer_row, said)), name)
    address = cast("StoreAddress", None)  # nothing reads ZooKeeper
    return SparkExecutor(spark, StopRequest(), run, address, 1, lambda _: None, float("inf"))


def opened(rows: DataFrame) -> set[str]:
    """Return the shards in the names of the files that a table is read from."""
    return {PurePosixPath(file).stem.partition("-b")[0] for file in rows.inputFiles()}


@pytest.mark.parametrize("shard", SHARDS[:2])
def test_a_shard_is_gathered_from_its_own_files(executor: SparkExecutor, shard: Shard) -> None:
    """Each ledger of the shard has all its answers."""
    rows = executor.evidence(Ledgers(1, shard), answered=True)
    assert {f"shard-{shard.number}"} == opened(rows)
    answers = {
        row.ledger_id: {answer.bookie_id for answer in row.answers}
        for row in executor.evidence(Ledgers(1, shard), answered=True).collect()
    }
    assert {i: set(BOOKIES) for i in range(shard.first, shard.last + 1)} == answers


def test_a_shard_without_rows_opens_nothing(executor: SparkExecutor) -> None:
    """It has the columns of the table all the same."""
    rows = executor.evidence(Ledgers(1, SHARDS[2]), answered=True)
    assert (set(), 0) == (opened(rows), rows.count())


def test_the_only_shard_opens_every_file(executor: SparkExecutor) -> None:
    """It has all ledgers."""
    rows = executor.evidence(Ledgers(1, EVERYTHING), answered=True)
    assert {"shard-0", "shard-1"} <= opened(rows)


def test_small_files_are_read_together(executor: SparkExecutor) -> None:
    """A task for each lane's file would cost more than reading the file."""
    rows = executor.ids(Ledgers(1, listed_by=frozenset(BOOKIES)))
    answers = [file for file in rows.inputFiles() if "-b" in file]
    assert 2 * CORES == len(answers)
    said = read_tables(executor.spark, answers, ANSWERS)
    assert 1 <= said.rdd.getNumPartitions() <= CORES


def test_a_task_that_spark_repeats_has_its_rows_once(
    executor: SparkExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks write their files themselves, and give Spark none of their rows. The first attempt
    fails when its rows are written, and leaves nothing.
    """
    monkeypatch.setattr("auditor.spark.executor.append", lambda *_: pytest.fail("Spark writes"))
    run = place(str(tmp_path / "run"))
    here = SparkExecutor(
        executor.spark, StopRequest(), run, executor.address, 2, lambda _: None, float("inf")
    )
    failed = tmp_path / "failed"

    def once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        if not failed.exists():
            failed.touch()
            raise ConnectionError("lost")

    rows = here.rows(pa.RecordBatch.from_pydict({"ledger_id": range(100)}, schema=LISTING))
    here.write(here.ask(rows, once, LISTING), "evidence/listing", "listed")
    assert failed.exists()
    read = run.read_table("evidence/listing", LISTING)["ledger_id"].to_pylist()
    assert list(range(100)) == sorted(read)
    assert all(name.endswith(".parquet") for name in run.files_in("evidence"))
    assert not any("/." in name for name in run.files_in("evidence"))
    portions = here.ask(here.ids(Ledgers(1)), once, LISTING).rows
    assert here.readers == portions.count(), "Spark moves ids"


@pytest.mark.parametrize("readers", [1, 3])
@pytest.mark.parametrize("shard", [EVERYTHING, *SHARDS])
def test_tasks_read_each_listed_id_once(tmp_path: Path, readers: int, shard: Shard) -> None:
    """However many portions there are, and whatever files the listing has. Each is the same when it
    is made again.
    """
    run = place(str(tmp_path))
    for name, ids in {"a": range(0, 20, 2), "b": range(1, 25, 2)}.items():
        run.write_table("evidence/listing", table(LISTING, ((one,) for one in ids)), name)
    work = listed_portions(run, shard, readers)

    def portion(number: int) -> list[int]:
        numbers = pa.RecordBatch.from_pydict({"id": [number]})
        return [i for batch in work(iter([numbers])) for i in batch["ledger_id"].to_pylist()]

    found = [one for number in range(readers) for one in portion(number)]
    assert [one for one in [*range(20), 21, 23] if shard.first <= one <= shard.last] == found
    assert portion(0) == portion(0)


@pytest.mark.parametrize("shard", [EVERYTHING, *SHARDS])
def test_a_task_on_a_machine_without_the_listing_fails(tmp_path: Path, shard: Shard) -> None:
    """A portion without ids would be a part of the ledgers that nobody reads."""
    work = listed_portions(place(str(tmp_path / "elsewhere")), shard, 2)
    with pytest.raises(OutputError, match="evidence/listing is not there"):
        list(work(iter([pa.RecordBatch.from_pydict({"id": [0]})])))

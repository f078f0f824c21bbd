"""Tables between the stages: each is written once, and read back with its schema checked.

A lazy table that asks the network would ask again at every use. Here every stage reads only what
was written. Before anybody is asked, it is tried whether Spark's executors and this process share
the output.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from auditor.errors import (
    ConfigError,
    LocalFault,
    OutputError,
    SparkJobFailed,
    SparkStalled,
    SparkUnavailable,
)
from auditor.evidence.local_files import own_umask
from auditor.evidence.run_directory import Place
from auditor.spark.installation import is_local_master
from auditor.spark.jobs import run_job
from auditor.spark.worker_files import FILES, WorkerFiles
from auditor.stop import StopRequest

Batches = Iterator[pa.RecordBatch]


def spark_type(schema: pa.Schema) -> StructType:
    """Return the Spark schema of Arrow batches with the schema `schema`."""
    return from_arrow_schema(schema)


def map_batches(
    rows: DataFrame, work: Callable[[Batches], Batches], schema: pa.Schema
) -> DataFrame:
    """Return `work` applied to the rows' Arrow batches, as rows of `schema`.

    The result is lazy: write it, and do nothing else with it.
    """
    return rows.mapInArrow(work, spark_type(schema))


@dataclass(frozen=True, slots=True)
class Mapped:
    """Rows that `work` makes of the Arrow batches of others, wherever these are.

    Nothing is done before they are written or collected. A task that writes them to a file itself
    does not give them to Spark. `are_spread`: the rows are in as many partitions as tasks should
    read ZooKeeper at once.
    """

    rows: DataFrame
    work: Callable[[Batches], Batches]
    schema: pa.Schema
    are_spread: bool = False

    def then(self, work: Callable[[Batches], Batches], schema: pa.Schema) -> Mapped:
        """Return what more work makes of these rows, in the same tasks."""
        first = self.work
        return Mapped(self.rows, lambda batches: work(first(batches)), schema, self.are_spread)


def frame_of(rows: DataFrame | Mapped) -> DataFrame:
    """Return rows that Spark gets."""
    return map_batches(rows.rows, rows.work, rows.schema) if isinstance(rows, Mapped) else rows


def append(rows: DataFrame, path: str) -> None:
    """Append rows to a table. A stage that asks the network may have no other consumer."""
    rows.write.mode("append").parquet(path)


def read_tables(spark: SparkSession, paths: Iterable[str], schema: pa.Schema) -> DataFrame:
    """Return the rows of written tables, with exactly the columns of `schema`."""
    rows = spark.read.schema(spark_type(schema)).parquet(*paths)
    assert rows.columns == schema.names, (rows.columns, schema.names)
    return rows


def local_rows(spark: SparkSession, batch: pa.RecordBatch) -> DataFrame:
    """Return rows that this process holds as a Spark table."""
    return spark.createDataFrame(pa.Table.from_batches([batch]))


TRIED = pa.schema([("n", pa.int64())])
TASKS_MAX = 64
"""Tasks that try the output: one for each free slot of a small cluster, a sample of a large one."""
STALL_MAX_S = 300.0
"""The trial is given up after so long without a task that ends: executors may have to be granted
first."""


def is_on_this_machine(spark: SparkSession, root: Place) -> bool:
    """Return whether `root` is a local directory and Spark runs in this machine's one JVM."""
    is_local = isinstance(root.files, fs.LocalFileSystem)
    return is_local and is_local_master(spark.sparkContext.master)


def require_shared_output(spark: SparkSession, root: Place, stop: StopRequest) -> bool:
    """Raise ConfigError unless executors read what this process writes in `root`, and vice versa.

    Return whether the Python of tasks can do so, in a directory that is mounted everywhere.
    Nothing is tried for a local directory if Spark runs in this machine's one JVM. Costs a Spark
    job of at most TASKS_MAX tasks, or two. Executors that join later are not tried by it.
    """
    if is_on_this_machine(spark, root):
        return True
    name = f".shared-{uuid.uuid4().hex}"
    try:
        is_directory = isinstance(root.files, fs.LocalFileSystem)
        if is_directory and _can_tasks_write(spark, root / name / "tasks", stop):
            return True
        problem = _try(spark, root / name / "spark", stop)
    finally:
        with suppress(OutputError):
            root.remove(name)
    if problem:
        raise ConfigError(
            f"--output {root.address} is not shared by this process and Spark's executors"
            f" ({problem}): give a place that all of them can write, such as s3a://BUCKET/PATH,"
            " hdfs://NAME/PATH or a mounted file system, and give Spark the file system's jars"
            " and credentials (docs/output.md)"
        )
    return False


def _can_tasks_write(spark: SparkSession, place: Place, stop: StopRequest) -> bool:
    """Return whether the Python of tasks reads what this process wrote there, and this process can
    rename and read what they write.

    Then the executors' JVMs, of which they are children, share the directory, too.
    """
    tasks = _write_ours(spark, place)
    files = WorkerFiles(place, "theirs", TRIED, own_umask())

    def read(batches: Batches) -> Batches:
        for batch in batches:
            if place.count("ours", TRIED) == tasks:
                yield pa.RecordBatch.from_arrays([batch.column(0)], schema=TRIED)

    def read_and_write(batches: Batches) -> Batches:
        with suppress(OutputError):  # of a task that fails, Spark makes another try elsewhere
            yield from files.writer(read)(batches)

    def write() -> list[str]:
        numbers = spark.range(0, tasks, 1, tasks)
        names = map_batches(numbers, read_and_write, FILES).toArrow()
        return [str(name) for name in names["file"].to_pylist()]

    try:
        files.prepare()
        files.publish(run_job(spark, stop, write, lambda _: None, STALL_MAX_S))
        return place.count("theirs", TRIED) == tasks
    except SparkStalled:
        raise
    except (LocalFault, OutputError, SparkJobFailed, SparkUnavailable):
        return False


def _try(spark: SparkSession, place: Place, stop: StopRequest) -> str | None:
    """Return the evidence that the place is not shared; None if there is none."""
    tasks = _write_ours(spark, place)

    def copy() -> None:
        rows = read_tables(spark, [f"{place.uri}/ours"], TRIED)
        append(rows.repartition(tasks), f"{place.uri}/theirs")

    try:
        run_job(spark, stop, copy, lambda _: None, STALL_MAX_S)
    except (SparkJobFailed, OutputError) as error:
        return f"an executor could not read or write there: {error}"
    try:
        seen = place.count("theirs", TRIED)
    except OutputError:
        seen = 0
    return None if seen == tasks else f"of {tasks} rows that executors wrote, {seen} are there"


def _write_ours(spark: SparkSession, place: Place) -> int:
    """Write a table for tasks to read. Return its rows, and how many tasks there should be."""
    tasks = min(TASKS_MAX, max(2, spark.sparkContext.defaultParallelism))
    place.write_table("ours", pa.table({"n": range(tasks)}, schema=TRIED), "ours")
    return tasks

"""Carry out stages on Spark: each is one job, whose tasks do the work on Arrow batches.

Each bookie has one Spark partition, a lane: a job keeps one bounded conversation with it. A hash of
the bookie's id would put two bookies into one partition and serialise them. Each lane therefore has
a key of its own: an integer that Spark's hash partitioning puts into the partition of that number.
Keys are found by hashing integers as Spark does. Asking Spark for their hashes takes a job, which
costs half a second of a small audit. A test holds the two hashes equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from auditor.evidence.ids import Shard
from auditor.evidence.local_files import own_umask
from auditor.evidence.run_directory import Place
from auditor.evidence.run_tables import SEEN_TABLES
from auditor.evidence.schemas import ANSWERS, LISTING, READS, SEEN
from auditor.evidence.shard_files import ShardFiles
from auditor.judging.settle import Todo
from auditor.model.availability import AnswerStatus
from auditor.spark.jobs import renew_workers, run_job
from auditor.spark.store import (
    Mapped,
    append,
    frame_of,
    local_rows,
    read_tables,
    spark_type,
)
from auditor.spark.worker_files import FILES, WorkerFiles
from auditor.stages.asking import LANE_ANSWERS, PACED_ANSWERS, WANTED, Directory
from auditor.stages.blocks import unpack_answers
from auditor.stages.reading import Batches, Work
from auditor.stages.selection import Ledgers, first_asked
from auditor.stages.steps import STEPS, packed_answers, steps_name, steps_prefix
from auditor.stop import StopRequest
from auditor.zookeeper.metadata_store import StoreAddress

KEYS_TRIED_PER_LANE = 60
"""Integers hashed for each lane. A given lane gets none of them with a probability of e^-60."""

Rows: TypeAlias = DataFrame | Mapped

SPARK_SEED = 42
"""The seed of Spark's Murmur3Hash expression, by which it partitions."""


def lane_keys(lanes: int) -> list[int]:
    """Return, for each lane, an integer that Spark's hash partitioning puts there."""
    keys: dict[int, int] = {}
    for key in range(lanes * KEYS_TRIED_PER_LANE):
        keys.setdefault(spark_hash(key) % lanes, key)
        if len(keys) == lanes:
            break
    assert len(keys) == lanes, f"no key found for {lanes - len(keys)} of {lanes} lanes"
    return [keys[lane] for lane in range(lanes)]


def spark_hash(key: int) -> int:
    """Return the result of Spark's `hash` of an int: 32 bits of Murmur3 (Murmur3_x86_32.hashInt),
    signed.
    """
    mixed = _times(_rotate(_times(key, 0xCC9E2D51), 15), 0x1B873593)
    word = (_times(_rotate(SPARK_SEED ^ mixed, 13), 5) + 0xE6546B64) & _WORD
    word ^= 4  # the length of an int, in bytes
    word = _times(word ^ word >> 16, 0x85EBCA6B)
    word = _times(word ^ word >> 13, 0xC2B2AE35)
    word ^= word >> 16
    return word - (word >> 31 << 32)


_WORD = 2**32 - 1


def _times(word: int, factor: int) -> int:
    return (word & _WORD) * factor & _WORD


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD


def by_lane(rows: DataFrame, directory: Directory) -> DataFrame:
    """Return the rows with one partition for each registered bookie, and one for all others."""
    bookies = directory.lanes()
    keys = lane_keys(len(bookies) + 1)
    key = f.lit(keys[0])
    if bookies:
        pairs = chain.from_iterable(zip(bookies, keys[1:], strict=True))
        lane_of = f.create_map(*(f.lit(part) for part in pairs))
        key = f.coalesce(lane_of[f.col("bookie_id")], key)
    return rows.withColumn("lane", key).repartition(len(keys), f.col("lane"))


@dataclass(frozen=True, slots=True)
class SparkExecutor:
    """Carries out the stages of a run on Spark.

    `run` is the run's directory. `readers` is how many tasks read ZooKeeper at once.
    """

    spark: SparkSession
    stop: StopRequest
    run: Place
    address: StoreAddress
    readers: int
    tick: Callable[[int], None]
    """Called regularly with the finished tasks of the running job."""
    stall_max_s: float
    """Seconds that a job may run without finishing a task."""
    tasks_write: bool = True
    """Whether tasks read and write the run's directory without Spark."""
    files: ShardFiles = field(init=False)
    mask: int = field(default_factory=own_umask, init=False)
    """This process's umask: reading it sets it for a moment, which other threads must not see."""
    is_careful: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", ShardFiles(self.run))

    @property
    def lane_address(self) -> StoreAddress:
        """The address with the rate that is left to each of all lanes at once."""
        limits = self.address.limits
        whole = limits.zookeeper_reads_per_second * self.readers
        lanes = max(self.readers, self.spark.sparkContext.defaultParallelism)
        return replace(
            self.address, limits=replace(limits, zookeeper_reads_per_second=whole / lanes)
        )

    def distrust_workers(self) -> None:
        """Let later jobs start new workers."""
        renew_workers(self.spark)

    def rows(self, batch: pa.RecordBatch) -> DataFrame:
        """Return rows that this process holds."""
        if not batch.num_rows:
            return self.spark.createDataFrame([], spark_type(batch.schema))
        return local_rows(self.spark, batch)

    def ids(self, which: Ledgers) -> Rows:
        """Return the ids of ledgers: at the first look of all that were listed."""
        if which.are_all and self.tasks_write:
            numbers = self.spark.range(0, self.readers, 1, self.readers)
            work = listed_portions(self.run, which.shard, self.readers)
            return Mapped(numbers, work, LISTING, are_spread=True)
        if which.are_all:
            return self._within(first_asked(self.run), LISTING, which.shard)
        if which.left_by is not None:
            return self._steps(which).select("ledger_id")
        if which.named is not None:
            cells = pa.array(sorted(which.named), pa.int64())
            return self.rows(pa.RecordBatch.from_arrays([cells], schema=LISTING))
        if which.listed_by is not None:
            answers = self._within("evidence/answers", ANSWERS, which.shard)
            is_list = f.col("status") == AnswerStatus.HELD.value
            theirs = f.col("bookie_id").isin(*which.listed_by)
            return answers.where(is_list & theirs).select("ledger_id").distinct()
        if which.are_retested:
            reads = self._within("evidence/reads", READS, which.shard)
            is_more = f.col("is_denser") | f.col("is_named")
            ids = reads.where(is_more).select("ledger_id").distinct()
            return ids.join(self._open(1, which.shard), "ledger_id", "left_anti")
        return self._open(which.look - 1, which.shard)

    def evidence(self, which: Ledgers, *, answered: bool) -> DataFrame:
        """Return SEEN rows of ledgers."""
        tables = self._tables(which, SEEN_TABLES if answered else SEEN_TABLES[:1])
        if not which.are_all:
            ids = frame_of(self.ids(which))
            tables = [table.join(ids, "ledger_id", "left_semi") for table in tables]
        records, answers, reads = (*tables, None, None)[:3]
        assert records is not None
        return gather_evidence(records, answers, reads, first=which.look == 1)

    def wanted(self, which: Ledgers) -> DataFrame:
        """Return the WANTED rows of the judging that left these ledgers."""
        cells = self._steps(which).select(f.explode("wanted").alias("one"))
        return cells.select("one.*").select(*WANTED.names)

    def union(self, first: Rows, second: Rows) -> DataFrame:
        """Return both, in any order."""
        return frame_of(first).unionByName(frame_of(second))

    def derive(self, rows: Rows, work: Work, schema: pa.Schema) -> Mapped:
        """Apply the work to the rows, wherever they are."""
        return Mapped(frame_of(rows), work, schema)

    def ask(
        self, rows: Rows, work: Work, schema: pa.Schema, directory: Directory | None = None
    ) -> Mapped:
        """Apply work that contacts ZooKeeper or bookies to the rows.

        It runs in one task for each bookie, or in as many as read ZooKeeper.
        """
        if isinstance(rows, Mapped) and rows.are_spread and directory is None:
            return rows.then(work, schema)
        frame = frame_of(rows)
        spread = frame.repartition(self.readers) if directory is None else by_lane(frame, directory)
        return Mapped(spread, work, schema)

    def write(self, rows: Rows, table: str, name: str) -> None:
        """Append rows to a table, in files that Spark or its tasks name."""
        if not isinstance(rows, Mapped) or not self.tasks_write:
            self._do(lambda: append(frame_of(rows), f"{self.run.uri}/{table}"))
            return
        files = WorkerFiles(self.run, table, rows.schema, self.mask)
        try:
            files.prepare()
            written = self.collect(Mapped(rows.rows, files.writer(rows.work), FILES))
            files.publish(written["file"].to_pylist())
        finally:
            files.remove_unpublished()

    def pack_answers(self, rows: Rows, name: str) -> None:
        """Make LANE_ANSWERS in one job. A table among the steps has them until they are written."""
        self.run.remove(packed_answers(name))
        self.write(rows, packed_answers(name), "")

    def write_answers(self, rows: Rows, name: str) -> None:
        """Append the packed answers to evidence/answers, a row for each. This process writes them,
        in one file.
        """
        packed = packed_answers(name)
        batches = self.run.stream(packed, LANE_ANSWERS, LANE_ANSWERS.names)
        answers = unpack_answers(batches, PACED_ANSWERS)
        self.run.write_stream("evidence/answers", answers, PACED_ANSWERS, name)
        self.run.remove(packed)

    def collect(self, rows: Rows) -> pa.Table:
        """Return rows, which must fit in memory."""
        found: list[pa.Table] = []
        self._do(lambda: found.append(frame_of(rows).toArrow()))
        return found[0]

    def _tables(self, which: Ledgers, tables: Sequence[tuple[str, pa.Schema]]) -> list[DataFrame]:
        """Return tables of the run, with the rows of a shard's ledgers."""
        return [self._within(name, schema, which.shard) for name, schema in tables]

    def _do(self, action: Callable[[], None]) -> None:
        run_job(self.spark, self.stop, action, self.tick, self.stall_max_s)

    def _open(self, look: int, shard: Shard) -> DataFrame:
        """Return the ledgers for which a look demanded another look."""
        pattern = f"{self.run.uri}/{steps_prefix(look)}*"
        steps = _rows_of(shard, read_tables(self.spark, [pattern], STEPS))
        return steps.where(f.col("todo") == Todo.LOOK.value).select("ledger_id")

    def _steps(self, which: Ledgers) -> DataFrame:
        """Return what the judging that left these ledgers says of them."""
        assert which.left_by is not None
        steps = self._read(steps_name(which.look, which.left_by), STEPS)
        return steps.where(f.col("todo") == which.todo.value)

    def _within(self, name: str, schema: pa.Schema, shard: Shard) -> DataFrame:
        """Return the rows of a shard's ledgers. Opens only the files that may have some."""
        if shard.is_all:
            return self._read(name, schema)
        files = [f"{self.run.uri}/{file}" for file in self.files.of(name, shard)]
        if not files:
            return self.rows(pa.RecordBatch.from_pylist([], schema=schema))
        return _rows_of(shard, read_tables(self.spark, files, schema))

    def _read(self, name: str, schema: pa.Schema) -> DataFrame:
        return read_tables(self.spark, [f"{self.run.uri}/{name}"], schema)


def listed_portions(run: Place, shard: Shard, portions: int) -> Work:
    """Return work on numbers below `portions`: the listed ids of each such part of a shard.

    A task reads the listing itself: Spark would read, shuffle and pass on each id. A portion is the
    same whenever it is made, and the portions together have each listed id once. Raises OutputError
    on a machine that lacks the listing.
    """

    def work(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                table = first_asked(run)
                run.require_table(table)
                listed = ShardFiles(run).scan(table, LISTING, shard)
                keep = pc.field("ledger_id")
                ids = listed.table(["ledger_id"], (keep >= shard.first) & (keep <= shard.last))
                ascending = np.sort(ids["ledger_id"].to_numpy())
                first, end = (len(ascending) * part // portions for part in (number, number + 1))
                portion = pa.array(ascending[first:end], pa.int64())
                yield pa.RecordBatch.from_arrays([portion], schema=LISTING)

    return work


def _rows_of(shard: Shard, rows: DataFrame) -> DataFrame:
    return rows if shard.is_all else rows.where(f.col("ledger_id").between(shard.first, shard.last))


def gather_evidence(
    ledgers: DataFrame, answers: DataFrame | None, reads: DataFrame | None, *, first: bool
) -> DataFrame:
    """Return SEEN rows: each ledger of `ledgers` once, with all its records, answers and reads.

    Greetings are left out. At the first look a ledger has one record, and nothing has to be
    gathered for it.
    """
    record = f.struct(*ledgers.columns)
    if first:
        rows = ledgers.select("ledger_id", f.array(record).alias("records"))
    else:
        rows = ledgers.groupBy("ledger_id").agg(f.collect_list(record).alias("records"))
    for name, said in (("answers", answers), ("reads", reads)):
        if said is None:
            rows = rows.withColumn(name, f.lit(None).cast(spark_type(SEEN)[name].dataType))
            continue
        by_ledger = (
            said.where(f.col("ledger_id").isNotNull())
            .groupBy("ledger_id")
            .agg(f.collect_list(f.struct(*said.columns)).alias(name))
        )
        rows = rows.join(by_ledger, "ledger_id", "left")
    return rows.select(*SEEN.names)

"""The stages of a run on Spark: each reads written tables and writes one more into the run's
directory.

Evidence is under `evidence/`, where every look adds its rows. `steps/` has one table for each
judging until the run is over, with one row a ledger: the next table of the same look replaces a row
that says `reads` or `lists`, the next look one that says `look`. A row that says `nothing` is the
ledger's verdict. Each method handles the ledgers of one shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from auditor.config import BookieLimits, JudgingLimits
from auditor.evidence.ids import EVERYTHING, Shard
from auditor.evidence.schemas import ANSWERS, LEDGERS, LISTING, READS
from auditor.first_checker.spot_reads import ListTests
from auditor.judging.settle import Todo
from auditor.model.availability import AnswerStatus
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import Mark
from auditor.model.topic import TopicName
from auditor.spark import ledgers as ledger_table
from auditor.spark import topic_reading as topic_table
from auditor.spark import verdicts
from auditor.spark.jobs import renew_workers, run_job
from auditor.spark.lane_tasks import entry_reader, list_asker
from auditor.spark.lanes import COUNTED_READS, PACED_ANSWERS, QUESTIONS, WANTED, Directory, by_lane
from auditor.spark.store import append, local_rows, map_batches, read_tables, spark_type
from auditor.stop import StopRequest
from auditor.summary.costs import BookieCost
from auditor.zookeeper.ledgers import ListingPartition
from auditor.zookeeper.metadata_store import StoreAddress
from auditor.zookeeper.topics import TopicsAddress


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of one run. `uri` names the run's directory. `readers` is how many tasks read
    ZooKeeper at once.
    """

    spark: SparkSession
    stop: StopRequest
    uri: str
    address: StoreAddress
    facts: ClusterFacts
    terms: Terms
    limits: BookieLimits
    readers: int
    tick: Callable[[int], None]
    """Called regularly with the finished tasks of the running job."""
    stall_max_s: float
    """Seconds that a job may run without finishing a task."""
    judging: JudgingLimits = field(default_factory=JudgingLimits)

    def list_ledgers(
        self, partitions: Sequence[ListingPartition], name: str = "evidence/listing"
    ) -> None:
        """List every ledger id -> evidence/listing, or another table. Counted before any metadata
        is read.
        """
        portions = pa.RecordBatch.from_arrays(
            [pa.array([list(p.parents) for p in partitions])], schema=ledger_table.PARENTS
        )
        rows = self._spread(local_rows(self.spark, portions))
        self._write(
            map_batches(rows, ledger_table.lister(self.address), ledger_table.COUNTED_LISTING), name
        )

    def read_ledgers(
        self, look: int, shard: Shard = EVERYTHING, marks: Mapping[LedgerId, Mark] | None = None
    ) -> None:
        """Read the listed ledgers, after the first look the open ones -> evidence/ledgers."""
        ids = (
            _within(self._read("evidence/listing", LISTING), shard)
            if look == 1
            else self._open(look - 1, shard)
        )
        work = ledger_table.reader(self.address, look, marks)
        self._write(
            map_batches(self._spread(ids), work, ledger_table.COUNTED_LEDGERS), "evidence/ledgers"
        )

    def read_topics(self, look: int, names: Sequence[TopicName], address: TopicsAddress) -> None:
        """Read what these topics reference -> evidence/references."""
        cells = zip(*(name for name in names), strict=True)
        topics = pa.RecordBatch.from_arrays(
            [pa.array(one, pa.string()) for one in cells], schema=topic_table.NAMES
        )
        shared = replace(address, limits=self.address.limits)
        work = topic_table.reader(shared, look)
        rows = map_batches(
            self._spread(local_rows(self.spark, topics)), work, topic_table.COUNTED_REFERENCES
        )
        self._write(rows, "evidence/references")

    def plan(self) -> list[BookieCost]:
        """Return what the first look would ask each bookie. Nothing is asked."""
        questions = map_batches(
            self._evidence(1, EVERYTHING, asked=False), verdicts.asker_of(self.judging), QUESTIONS
        )
        costs = questions.groupBy("bookie_id").agg(
            f.count("*").alias("requests"), f.sum("expected_bytes").alias("bytes")
        )
        rows = run_job(self.spark, self.stop, costs.collect, self.tick, self.stall_max_s)
        return [BookieCost(row["bookie_id"], row["requests"], row["bytes"]) for row in rows]

    def ask_lists(
        self, look: int, directory: Directory, shard: Shard = EVERYTHING, judging: int | None = None
    ) -> None:
        """Ask each bookie once for every list that is due -> evidence/answers, with each bookie's
        greeting.

        At the first look, these are the lists of every ledger of the shard; later, those that the
        given judging of the look demanded.
        """
        ids = None if judging is None else self._ledgers_left(look, judging, Todo.LISTS)
        asker = verdicts.asker_of(self.judging, has_listers=directory.listers is not None)
        questions = map_batches(self._evidence(look, shard, asked=False, ids=ids), asker, QUESTIONS)
        greetings = (
            local_rows(self.spark, directory.greetings())
            if directory.addresses
            else self._empty(QUESTIONS)
        )
        lanes = by_lane(questions.unionByName(greetings), directory)
        self._write(
            map_batches(lanes, list_asker(directory, self.limits, look), PACED_ANSWERS),
            "evidence/answers",
        )

    def test_lists(self, directory: Directory, shard: Shard, tests: ListTests) -> None:
        """Read the entries that test the lists of some bookies at the first look ->
        evidence/reads.
        """
        draw = verdicts.spots_of(tests, self.judging)
        ids = self._listed_by(tests.bookies, shard) if tests.is_denser else None
        evidence = self._evidence(1, shard, asked=tests.is_denser, ids=ids)
        wanted = map_batches(evidence, draw, WANTED)
        self._write(
            map_batches(
                by_lane(wanted, directory),
                entry_reader(directory, self.limits, 1, self.address),
                COUNTED_READS,
            ),
            "evidence/reads",
        )

    def read_entries(self, look: int, judging: int, directory: Directory) -> None:
        """Make the confirming reads that the given judging of this look demanded ->
        evidence/reads.
        """
        steps = self._steps(look, judging).where(f.col("todo") == Todo.READS.value)
        wanted = steps.select(f.explode("wanted").alias("one")).select("one.*")
        lanes = by_lane(wanted.select(*WANTED.names), directory)
        self._write(
            map_batches(
                lanes, entry_reader(directory, self.limits, look, self.address), COUNTED_READS
            ),
            "evidence/reads",
        )

    def judge(
        self,
        look: int,
        judging: int,
        shard: Shard = EVERYTHING,
        only: tuple[int, Todo] | None = None,
        *,
        retested: bool = False,
        again_without: Mapping[LedgerId, str] | None = None,
    ) -> None:
        """Judge each open ledger -> steps. `only`: those that an earlier judging of this look left
        with that todo. `retested`: the ledgers that the first look had settled before more of them
        was read on bookies in doubt.

        Raises WorkerDied if a ledger ended its worker. `again_without` judges once more without
        trusting a process that judged before: in new workers, each ledger in a child, which sets
        the fatal ledger aside. It has the ledgers on which the checkers are known to differ, and
        how; these are not judged.
        """
        ids = None if only is None else self._ledgers_left(look, *only)
        if retested:
            ids = self._retested(shard)
        if again_without is not None:
            renew_workers(self.spark)
        careful, differing = again_without is not None, dict(again_without or {})
        work = verdicts.judge_of(
            self.terms,
            self.facts,
            self.judging,
            careful=careful,
            were_asked=verdicts.were_bookies_asked(look, only),
            differing=differing,
            by_columns=verdicts.are_columns_trusted(look, only, again_without),
        )
        rows = map_batches(self._evidence(look, shard, asked=True, ids=ids), work, verdicts.STEPS)
        self._write(rows, verdicts.steps_name(look, judging))

    def _evidence(
        self, look: int, shard: Shard, *, asked: bool, ids: DataFrame | None = None
    ) -> DataFrame:
        """Return SEEN rows of the open ledgers, with answers if a bookie was asked at this or an
        earlier look.
        """
        records = _within(self._read("evidence/ledgers", LEDGERS), shard)
        answers = (
            _within(self._read("evidence/answers", ANSWERS), shard) if asked or look > 1 else None
        )
        reads = (
            _within(self._read("evidence/reads", READS), shard)
            if look > 1 or ids is not None or (asked and self.terms.spot_reads)
            else None
        )
        if look > 1 and ids is None:
            ids = self._open(look - 1, shard)
        if ids is not None:
            records = records.join(ids, "ledger_id", "left_semi")
            answers = None if answers is None else answers.join(ids, "ledger_id", "left_semi")
            reads = None if reads is None else reads.join(ids, "ledger_id", "left_semi")
        return verdicts.gather_evidence(records, answers, reads, first=look == 1)

    def _listed_by(self, bookies: Iterable[BookieId], shard: Shard) -> DataFrame:
        """Return the ledgers that one of these bookies listed at the first look."""
        answers = _within(self._read("evidence/answers", ANSWERS), shard)
        is_list = f.col("status") == AnswerStatus.HELD.value
        theirs = f.col("bookie_id").isin(*bookies)
        return answers.where(is_list & theirs).select("ledger_id").distinct()

    def _retested(self, shard: Shard) -> DataFrame:
        """Return the ledgers of which more was read on bookies in doubt after the first look had
        settled them.
        """
        reads = _within(self._read("evidence/reads", READS), shard)
        ids = reads.where(f.col("is_denser")).select("ledger_id").distinct()
        return ids.join(self._open(1, shard), "ledger_id", "left_anti")

    def _open(self, look: int, shard: Shard) -> DataFrame:
        """Return the ledgers for which a look demanded another look."""
        pattern = f"{self.uri}/{verdicts.steps_prefix(look)}*"
        steps = _within(read_tables(self.spark, [pattern], verdicts.STEPS), shard)
        return steps.where(f.col("todo") == Todo.LOOK.value).select("ledger_id")

    def _ledgers_left(self, look: int, judging: int, todo: Todo) -> DataFrame:
        """Return the ledgers that a judging left with that todo."""
        return self._steps(look, judging).where(f.col("todo") == todo.value).select("ledger_id")

    def _steps(self, look: int, judging: int) -> DataFrame:
        return self._read(verdicts.steps_name(look, judging), verdicts.STEPS)

    def _read(self, name: str, schema: pa.Schema) -> DataFrame:
        return read_tables(self.spark, [f"{self.uri}/{name}"], schema)

    def _write(self, rows: DataFrame, name: str) -> None:
        run_job(
            self.spark,
            self.stop,
            lambda: append(rows, f"{self.uri}/{name}"),
            self.tick,
            self.stall_max_s,
        )

    def _spread(self, rows: DataFrame) -> DataFrame:
        """Return the rows in as many partitions as there are readers of ZooKeeper."""
        return rows.repartition(self.readers)

    def _empty(self, schema: pa.Schema) -> DataFrame:
        return self.spark.createDataFrame([], spark_type(schema))


def _within(rows: DataFrame, shard: Shard) -> DataFrame:
    """Return the rows of a shard's ledgers."""
    return rows if shard.is_all else rows.where(f.col("ledger_id").between(shard.first, shard.last))

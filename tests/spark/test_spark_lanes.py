"""Each bookie has one lane: one conversation, each pair asked once a look and stored once, whatever
Spark does twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType
from support.audits import ON_SPARK, Outcome, audit

from auditor.evidence.rows import table
from auditor.sandbox.bookie import Bookie
from auditor.sandbox.cluster import SandboxCluster
from auditor.spark.executor import KEYS_TRIED_PER_LANE, by_lane, spark_hash
from auditor.spark.store import local_rows
from auditor.stages import stages
from auditor.stages.asking import QUESTIONS, Directory
from auditor.zookeeper.ledgers import Listing, ListingPartition
from auditor.zookeeper.metadata_store import MetadataStore

pytestmark = pytest.mark.spark

BOOKIES = 7
"""More than the session has cores: a lane waits for another."""
LEDGERS = range(1, 22)


class Undisturbed(NamedTuple):
    """An audit, the lists asked by (bookie, ledger), the operations sent, and the most open
    connections of each bookie.
    """

    outcome: Outcome
    asked: Counter[tuple[str, int]]
    operations: set[str]
    connections_open_max: list[int]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield seven bookies and ledgers that together name all of them; ledgers 7 and 8 lack
    entries.
    """
    with SandboxCluster(tmp_path_factory.mktemp("lanes"), BOOKIES) as cluster:
        for ledger_id in LEDGERS:
            members = " ".join(f"b{1 + (ledger_id * 3 + place) % BOOKIES}" for place in range(3))
            text = f"e3 w2 a2 0:[{members}] closed 99"
            lose = {f"b{1 + (ledger_id * 3) % BOOKIES}": "3-5 9"} if ledger_id in (7, 8) else {}
            cluster.place(ledger_id, cluster.ledger(text), lose)
        yield cluster


@pytest.fixture(scope="module")
def undisturbed(
    spark: SparkSession, cluster: SandboxCluster, tmp_path_factory: pytest.TempPathFactory
) -> Undisturbed:
    """Return one audit of the seven, and what the bookies counted meanwhile."""
    home = tmp_path_factory.mktemp("undisturbed")
    outcome = audit(cluster, home, **ON_SPARK)
    asked = Counter(
        {(b, i): n for b in cluster.bookie_ids for i, n in cluster.bookie(b).asked.items()}
    )
    operations = {operation.name for bookie in bookies(cluster) for operation in bookie.operations}
    open_max = [cluster.listener(bookie).connections_open_max for bookie in cluster.bookie_ids]
    return Undisturbed(outcome, asked, operations, open_max)


def bookies(cluster: SandboxCluster) -> list[Bookie]:
    return [cluster.bookie(bookie_id) for bookie_id in cluster.bookie_ids]


def answers(outcome: Outcome) -> list[dict[str, Any]]:
    """Return the rows of evidence/answers that are about a ledger."""
    assert outcome.run_dir is not None
    rows = (
        ds.dataset(outcome.run_dir / "evidence" / "answers", format="parquet")
        .to_table()
        .to_pylist()
    )
    return [row for row in rows if row["ledger_id"] is not None]


def lanes(spark: SparkSession, addresses: list[str], asked: list[str]) -> list[set[str]]:
    """Return the bookies in each partition when each of `asked` is asked about a hundred
    ledgers.
    """
    rows = [
        (bookie, ledger, 0, None, False, True, None) for bookie in asked for ledger in range(100)
    ]
    batch = table(QUESTIONS, rows)
    directory = Directory(dict.fromkeys(addresses, ("h", 1)), frozenset())
    parts = by_lane(local_rows(spark, batch), directory).select("bookie_id").rdd.glom().collect()
    return [{row["bookie_id"] for row in part} for part in parts]


def test_integers_are_hashed_as_spark_hashes_them(spark: SparkSession):
    """Our own hash finds lanes: every key that may be tried for 65 lanes has the hash that Spark
    gives it.
    """
    keys = spark.range(65 * KEYS_TRIED_PER_LANE).select(
        f.col("id").cast(IntegerType()).alias("key")
    )
    hashes = {
        row["key"]: row["hash"] for row in keys.select("key", f.hash("key").alias("hash")).collect()
    }
    assert hashes == {key: spark_hash(key) for key in range(65 * KEYS_TRIED_PER_LANE)}


@pytest.mark.parametrize("count", [1, 2, 3, 13, 40])
def test_each_registered_bookie_has_a_partition_of_its_own(spark: SparkSession, count: int):
    """A hash of the bookie's id would put some of them together, and serialise them."""
    registered = [f"10.0.0.{number}:3181" for number in range(count)]
    parts = lanes(spark, registered, [*registered, "gone-1:3181", "gone-2:3181"])
    assert count + 1 == len(parts)
    assert sorted([{bookie} for bookie in registered], key=str) == sorted(
        (part for part in parts if len(part) == 1), key=str
    )
    assert 1 == parts.count({"gone-1:3181", "gone-2:3181"})


def test_without_a_registered_bookie_nobody_has_a_lane(spark: SparkSession):
    """All share the one partition in which no bookie is dialled."""
    assert [{"gone-1:3181", "gone-2:3181"}] == lanes(spark, [], ["gone-1:3181", "gone-2:3181"])


def test_each_pair_is_asked_once_a_look_and_stored_once(undisturbed: Undisturbed):
    """The bookies' own counts are those of the evidence: once for the sound ledgers, at two looks
    for the two suspects.
    """
    assert 1 == undisturbed.outcome.exit_code
    stored = Counter(
        (row["bookie_id"], row["ledger_id"], row["look"]) for row in answers(undisturbed.outcome)
    )
    assert {1} == set(stored.values())
    assert undisturbed.asked == Counter((bookie, ledger) for bookie, ledger, _ in stored)
    twice = {ledger for (_, ledger), n in undisturbed.asked.items() if n == 2}
    assert ({7, 8}, 2) == (twice, max(undisturbed.asked.values()))
    assert len(LEDGERS) * 3 == sum(look == 1 for _, _, look in stored)


def test_each_bookie_has_one_connection_at_a_time(undisturbed: Undisturbed):
    """Each bookie has one conversation over the whole job, so its limits are those of the whole
    run.
    """
    assert [1] * BOOKIES == undisturbed.connections_open_max


def test_only_questions_are_sent(cluster: SandboxCluster, undisturbed: Undisturbed):
    """They are lists, reads and GET_BOOKIE_INFO: no entry is added and no ledger fenced."""
    assert {
        "GET_LIST_OF_ENTRIES_OF_LEDGER",
        "READ_ENTRY",
        "GET_BOOKIE_INFO",
    } == undisturbed.operations
    assert [frozenset()] * BOOKIES == [bookie.fenced for bookie in bookies(cluster)]


def dying(make: Callable[..., Any], deaths: Path) -> Callable[..., Any]:
    """Return the stage's work, in which every fifth task's worker is killed at its first attempt,
    after its first batch.

    It is made inside a function, so that it travels to the workers by value: they do not know test
    modules.
    """

    def made(*arguments: Any, **named: Any) -> Any:
        work = make(*arguments, **named)

        def killed(batches: Any) -> Any:
            import os
            import signal

            from pyspark import TaskContext

            task = TaskContext.get()

            def die() -> None:
                if task.attemptNumber() == 0 and task.partitionId() % 5 == 1:
                    (deaths / f"{task.stageId()}-{task.partitionId()}").touch()
                    os.kill(os.getpid(), signal.SIGKILL)

            for batch in work(batches):
                yield batch
                die()
            die()

        return killed

    return made


def in_two_portions(find: Callable[..., Listing]) -> Callable[..., Listing]:
    """Return a listing with one portion more, whose only parent has vanished: a single portion is
    listed without a task.
    """

    def found(store: MetadataStore) -> Listing:
        listing = find(store)
        return replace(listing, partitions=(*listing.partitions, ListingPartition(("/99/9999",))))

    return found


WORKS = {
    "list": "lister",
    "read": "reader",
    "question": "asker_of",
    "ask": "list_asker",
    "judge": "judge_of",
    "read entries": "entry_reader",
}
"""What each stage does in its tasks."""


@pytest.mark.long
def test_tasks_that_are_killed_are_done_again_and_count_once(
    cluster: SandboxCluster,
    undisturbed: Undisturbed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    """Some tasks of every stage die once; verdicts, counts and findings are those of an undisturbed
    run.
    """
    for stage, name in WORKS.items():
        (tmp_path / stage).mkdir()
        monkeypatch.setattr(stages, name, dying(getattr(stages, name), tmp_path / stage))
    monkeypatch.setattr(
        MetadataStore, "listing_partitions", in_two_portions(MetadataStore.listing_partitions)
    )
    outcome = audit(cluster, tmp_path, **ON_SPARK)
    assert [] == [stage for stage in WORKS if not list((tmp_path / stage).iterdir())], (
        "stages in which no task died"
    )
    assert 1 == outcome.exit_code, outcome.stdout
    assert {1} == set(
        Counter((r["bookie_id"], r["ledger_id"], r["look"]) for r in answers(outcome)).values()
    )
    before = undisturbed.outcome
    assert before.verdicts == outcome.verdicts
    assert before.summary["ledgers"] == outcome.summary["ledgers"]
    assert before.summary["requests"] == outcome.summary["requests"]
    assert [found["id"] for found in before.findings] == [found["id"] for found in outcome.findings]

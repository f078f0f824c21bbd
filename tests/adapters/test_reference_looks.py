"""Looks at what topics reference, against a real ZooKeeper: no change between the looks causes a
finding.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from support.topics import closed, put_topic

from auditor.clock import now_ms
from auditor.config import ZooKeeperLimits
from auditor.errors import StoreUnavailable
from auditor.evidence.rows import ledger_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import LEDGERS, LISTING, READ_COUNTS
from auditor.findings.reference_findings import ReferenceFindings, reference_findings
from auditor.findings.topics import topic_hits
from auditor.model.evidence import Terms
from auditor.model.facts import LOOKS_APART_MIN_MS
from auditor.model.topic import Position, SchemaVersion, TopicName
from auditor.pulsar.metadata import encode_schemas
from auditor.pulsar.topic_paths import parse_topic, topic_path
from auditor.pulsar.topic_store import Partitions, TopicsAddress, open_topics
from auditor.run import reference_looks
from auditor.run.reference_looks import TOPICS_AT, PulsarTopics, ReferenceLooks
from auditor.sandbox.cluster import SandboxCluster
from auditor.sandbox.stories import with_owner
from auditor.stages.reading import TOPIC_NAMES, topic_reader
from auditor.stages.stages import Stages
from auditor.stop import StopRequest
from auditor.summary.about import About
from auditor.wire.service_uri import parse
from auditor.zookeeper.metadata_store import open_store

DELAY_MS = 60_000
TEXT = "e1 w1 a1 0:[b1] closed 9"
LIMITS = ZooKeeperLimits()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield ledgers 1 to 4; topic t references 1, 2 (with more entries than it has) and 70, which
    does not exist.
    """
    with SandboxCluster(tmp_path_factory.mktemp("cluster"), bookies=1, named=True) as made:
        for ledger_id in (1, 2):
            made.add_ledger(ledger_id, made.ledger(TEXT))
        made.add_ledger(3, replace(with_owner(made.ledger(TEXT), "t"), ctime_ms=1))
        yield made


@pytest.fixture(autouse=True)
def references(cluster: SandboxCluster) -> None:
    put_topic(cluster.set_raw, "public/default/t", [closed(1), closed(2, 12), closed(70)])


class Scene:
    """One run's looks at references: `first()`, then `again()`, and what they show."""

    def __init__(self, cluster: SandboxCluster, run: Place) -> None:
        uri = parse(cluster.metadata_service_uri)
        self.store, self.run = open_store(uri, LIMITS), run
        self.topics = open_topics(uri, ("",), LIMITS)
        self.address = TopicsAddress(uri, "", LIMITS)
        terms = Terms(now_ms(), 1_000, 16, 5, orphan_age_ms=3_600_000)
        facts = self.store.cluster_facts()
        self.about = About(
            "20260101T030000Z-000001", "2026-01-01T03:00:00Z", facts, terms, "warning", False
        )
        pulsar = PulsarTopics(self.topics, self.address)
        self.looks = ReferenceLooks(
            pulsar, self.store, run, terms, cast(Stages, None), StopRequest()
        )
        self.waits_s: list[float] = []

    def first(self, listed: tuple[int, ...] = (1, 2, 3)) -> None:
        """Read the references, the listing, the unlisted ledgers, and the metadata of the listed
        ones.
        """
        self.result = self.looks.record_first() or {}
        self.run.write_table(
            "evidence/listing", table(LISTING, [(ledger_id,) for ledger_id in listed]), "all"
        )
        self.looks.read_unlisted()
        records = self.store.read_ledgers(listed, 1, now_ms, with_marks=False)
        self.run.write_table("evidence/ledgers", table(LEDGERS, map(ledger_row, records)), "all")

    def again(
        self, meanwhile: Callable[[], object] = lambda: None, topics_at: str | None = None
    ) -> ReferenceFindings:
        """Take the second look; the change happens while it waits."""

        def wait(seconds: float) -> None:
            self.waits_s.append(seconds)
            time.sleep(1.05 * LOOKS_APART_MIN_MS / 1000)
            meanwhile()

        self.problems = self.looks.look_again(
            DELAY_MS, wait, self.result.get(TOPICS_AT) if topics_at is None else topics_at
        )
        return reference_findings(self.run, self.about)

    def close(self) -> None:
        self.topics.__exit__(None, None, None)
        self.store.close()


@pytest.fixture
def scene(cluster: SandboxCluster, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(cluster, place(str(tmp_path)))
    yield made
    made.close()


def counted(found: ReferenceFindings) -> tuple[int, ...]:
    """Return how many ledgers are missing, truncated, orphaned, unknown."""
    assert found.counts is not None
    return tuple(
        getattr(found.counts, name) for name in ("missing", "truncated", "orphaned", "unknown")
    )


def test_what_stays_so_is_found(scene: Scene) -> None:
    """The second look comes after the whole delay."""
    scene.first()
    assert (1, 1, 1, 0) == counted(scene.again())
    (waited,) = scene.waits_s
    assert 30 < waited <= 60


def test_a_sound_topic_needs_no_second_look(scene: Scene, cluster: SandboxCluster) -> None:
    """There is no delay."""
    put_topic(cluster.set_raw, "public/default/t", [closed(1), closed(2), closed(3)])
    scene.first()
    assert ((0, 0, 0, 0), []) == (counted(scene.again()), scene.waits_s)


def test_what_is_trimmed_meanwhile_is_no_finding(scene: Scene, cluster: SandboxCluster) -> None:
    """The reference is removed first, then the ledger. This includes a ledger that was listed."""
    scene.first()
    found = scene.again(lambda: put_topic(cluster.set_raw, "public/default/t", [closed(1)]))
    assert (0, 0, 1, 0) == counted(found)


def test_what_is_referenced_or_deleted_meanwhile_is_no_orphan(
    scene: Scene, cluster: SandboxCluster
) -> None:
    """At the second look its topic names it."""
    scene.first()
    found = scene.again(
        lambda: put_topic(cluster.set_raw, "public/default/t", [closed(1), closed(3)])
    )
    assert (0, 0, 0, 0) == counted(found)


def test_a_ledger_that_the_listing_lacks_is_read_by_itself(scene: Scene) -> None:
    """It was created or skipped during the listing. It exists, so nothing is missing."""
    scene.first(listed=(2, 3))
    assert (1, 1, 1, 0) == counted(scene.again())


def test_a_second_look_without_orphans_reads_the_same_ledgers(
    scene: Scene, cluster: SandboxCluster
) -> None:
    """Ledgers that came back have no finding; ids are whole numbers, whatever else is looked at."""
    scene.first(listed=(1, 2))
    assert (1, 1, 0, 0) == counted(scene.again())


def test_no_more_suspects_than_fit_are_read_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first ones are read, and as many orphans; the others are unknown."""
    monkeypatch.setattr(reference_looks, "SUSPECTS_MAX", 1)
    scene.first()
    assert (0, 1, 1, 1) == counted(scene.again())


def test_a_topic_that_may_not_be_read_any_more_leaves_unknown(
    scene: Scene, cluster: SandboxCluster
) -> None:
    """What it references now is unknown."""
    scene.first()
    found = scene.again(
        lambda: cluster.set_raw(topic_path(parse_topic("public/default/t")), b"\xff")
    )
    assert ((0, 0, 0, 2), False) == (counted(found), found.is_complete)


def test_without_pulsar_at_the_second_look_everything_is_unknown(scene: Scene) -> None:
    """A resumed run may not reach Pulsar: that is a problem, but does not end the run."""
    scene.first()
    scene.looks.pulsar = PulsarTopics(None, None, "no connection")
    assert (0, 0, 0, 2) == counted(scene.again())
    assert scene.problems is not None and "no connection" in str(scene.problems)


def test_a_run_without_pulsar_writes_and_says_nothing(scene: Scene) -> None:
    """It has no table and no counts."""
    scene.looks.pulsar = None
    scene.first()
    assert ReferenceFindings() == scene.again()


def test_topics_that_cannot_be_listed_are_unreadable(scene: Scene) -> None:
    """The run says so at once, and is not complete."""
    scene.looks.pulsar = PulsarTopics(None, None, "znode /managed-ledgers may not be read")
    scene.first()
    found = scene.again()
    assert found.counts is not None and (0, 1, 0) == tuple(
        getattr(found.counts, name) for name in ("unreadable", "not_listed", "topics")
    )
    assert not found.is_complete


def test_a_znode_with_a_name_that_pulsar_does_not_write_is_a_problem(
    scene: Scene, cluster: SandboxCluster
) -> None:
    """The name decodes to another topic, so its references are not read: the run is not complete,
    and reports no orphan of that namespace.
    """
    path = "/managed-ledgers/public/default/persistent/%74"
    cluster.set_raw(path, b"")
    try:
        scene.first()
        found = scene.again()
    finally:
        cluster.delete_raw(path)
    assert found.counts is not None and (1, 1) == (
        found.counts.topics,
        found.counts.not_listed,
    )
    assert ((1, 1, 0, 0), False) == (counted(found), found.is_complete)


SCHEMA = "/schemas/public/default/u"
PARTITIONED = "/admin/partitioned-topics/public/default/persistent"


def test_a_schema_is_read_where_its_topic_has_no_ledgers(
    scene: Scene, cluster: SandboxCluster
) -> None:
    """Once the ledger of a schema is gone, nothing written with it can be decoded. A topic whose
    partitions were read has been read with its schemas.
    """
    at = encode_schemas((SchemaVersion(0, Position(71, 2)),))
    cluster.set_raw(SCHEMA, at)
    cluster.set_raw(f"{SCHEMA}v", encode_schemas((SchemaVersion(0, Position(1, 2)),)))
    put_topic(cluster.set_raw, "public/default/uv-partition-0", [closed(1)])
    try:
        scene.first()
        found = scene.again()
    finally:
        for path in (SCHEMA, f"{SCHEMA}v", topic_path(parse_topic("uv-partition-0"))):
            cluster.delete_raw(path)
    assert (2, 1, 1, 0) == counted(found)
    assert found.counts is not None and (2, 2) == (found.counts.topics, found.counts.schemas)
    (use,) = next(one.facts.values["some_uses"] for one in found.findings if one.ledger_id == 71)
    assert ("persistent://public/default/u", "schema") == (use["topic"], use["role"])
    hits = topic_hits(scene.run, found.findings)
    assert "persistent://public/default/u" in [json.loads(one)["topic"] for one in hits.lines]


def test_a_schema_that_cannot_be_read_again_clears_nobody(
    scene: Scene, cluster: SandboxCluster
) -> None:
    """This includes a topic without a znode of its own. No orphan is reported in its namespace."""
    cluster.set_raw(SCHEMA, encode_schemas((SchemaVersion(0, Position(71, 2)),)))
    try:
        scene.first()
        found = scene.again(lambda: cluster.set_raw(SCHEMA, b"\xff"))
    finally:
        cluster.delete_raw(SCHEMA)
    assert ((1, 1, 0, 1), False) == (counted(found), found.is_complete)


def test_a_ledger_of_a_partition_without_a_znode_is_no_orphan(
    scene: Scene, cluster: SandboxCluster
) -> None:
    """Pulsar names the partition: its ledgers may be all that is left of it. The run reports
    partitions without a znode, and is complete: Pulsar deletes inactive ones.
    """
    owned = with_owner(cluster.ledger(TEXT), "p-partition-1")
    cluster.add_ledger(4, replace(owned, ctime_ms=1))
    put_topic(cluster.set_raw, "public/default/p-partition-0", [closed(1)])
    cluster.set_raw(f"{PARTITIONED}/p", b'{"partitions":2,"deleted":false,"properties":{}}')
    cluster.set_raw(f"{PARTITIONED}/going", b'{"partitions":9,"deleted":true}')
    try:
        scene.first(listed=(1, 2, 3, 4))
        found = scene.again()
    finally:
        for path in (f"{PARTITIONED}/p", f"{PARTITIONED}/going"):
            cluster.delete_raw(path)
        cluster.delete_raw(topic_path(parse_topic("p-partition-0")))
        cluster.delete_ledger(4)
    assert (1, 1, 1, 0) == counted(found)
    assert found.counts is not None and (1, 1) == (
        found.counts.partitions_without_znode,
        found.counts.orphaned_unknown,
    )
    assert any("persistent://public/default/p-partition-1" in one for one in found.withheld)


def test_partitions_that_cannot_be_read_hide_orphans_alone(
    scene: Scene, cluster: SandboxCluster
) -> None:
    """Which topics own the namespace's ledgers is unknown. The run is complete: a partition without
    a znode references nothing.
    """
    cluster.set_raw(f"{PARTITIONED}/p", b"two")
    try:
        scene.first()
        found = scene.again()
    finally:
        cluster.delete_raw(f"{PARTITIONED}/p")
    check_partitions_in_doubt(found)


def test_partitioned_topics_that_cannot_be_listed_leave_a_run_its_topics(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics were listed: no more is unknown than with one unreadable partitioned topic."""

    def refuse(*_: object) -> Partitions:
        raise StoreUnavailable("znode /admin/partitioned-topics may not be read")

    monkeypatch.setattr(reference_looks, "partitions_in", refuse)
    scene.first()
    check_partitions_in_doubt(scene.again())


def check_partitions_in_doubt(found: ReferenceFindings) -> None:
    assert ((1, 1, 0, 0), True) == (counted(found), found.is_complete)
    assert found.counts is not None and (0, 0, 0, 1) == tuple(
        getattr(found.counts, name)
        for name in ("unreadable", "not_listed", "partitions_without_znode", "orphaned_unknown")
    )
    assert any("partitioned topics of 1 namespace" in one for one in found.withheld)


def test_topics_of_another_place_clear_nobody(scene: Scene) -> None:
    """If a run is resumed with another --pulsar-metadata-uri, its suspects are unknown, not
    cleared.
    """
    scene.first()
    found = scene.again(topics_at="zk:elsewhere:2181 ")
    assert ((0, 0, 0, 2), False) == (counted(found), found.is_complete)
    assert scene.problems is not None and "zk:elsewhere:2181" in str(scene.problems)


def test_topics_that_are_all_gone_clear_nobody(scene: Scene) -> None:
    """Pulsar's metadata was removed during the run: nothing shows that the references were
    dropped.
    """
    scene.first()
    assert scene.looks.pulsar is not None
    scene.topics.prefix = "/nowhere"
    found = scene.again()
    assert ((0, 0, 0, 2), False) == (counted(found), found.is_complete)


def test_topics_that_vanish_before_they_are_listed_are_a_problem(scene: Scene) -> None:
    """This is not a cluster without topics."""
    scene.topics.prefix = "/nowhere"
    scene.first()
    found = scene.again()
    assert found.counts is not None and (1, False) == (
        found.counts.not_listed,
        found.is_complete,
    )


def test_a_task_reads_what_the_driver_reads(scene: Scene, cluster: SandboxCluster) -> None:
    """The rows are the same, except for the time; the last one has the number of reads."""
    names: list[TopicName] = list(scene.topics.topics_in(scene.topics.namespaces()))
    batch = table(TOPIC_NAMES, names)
    (read,) = topic_reader(scene.address, 1)(iter([batch]))
    scene.looks.record_first()
    driver = scene.run.read_table("evidence/references", read.schema)
    moving = {"read_at_ms", *READ_COUNTS.names}
    kept = [name for name in read.schema.names if name not in moving]
    assert driver.select(kept).to_pylist() == read.select(kept).to_pylist()
    assert [None, None, None] == read["zookeeper_reads"].to_pylist()[:3] and read[
        "zookeeper_reads"
    ].to_pylist()[-1] > 0


def test_a_task_without_zookeeper_says_so_of_each_topic(scene: Scene) -> None:
    """No topic is left out, and none seems to reference nothing."""
    nowhere = replace(
        scene.address,
        uri=parse("zk+hierarchical://127.0.0.1:1/ledgers"),
        limits=replace(LIMITS, zookeeper_connect_timeout_ms=200),
    )
    (read,) = topic_reader(nowhere, 1)(iter([table(TOPIC_NAMES, [TopicName("t", "", "n", "x")])]))
    assert [("topic", "unreadable"), ("problem", None)] == list(
        zip(read["row"].to_pylist(), read["status"].to_pylist(), strict=True)
    )

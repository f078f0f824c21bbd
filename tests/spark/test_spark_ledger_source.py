"""The public Spark sources, against an embedded cluster."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, Row
from support.topics import closed, put_topic

from auditor.clock import now_ms
from auditor.config import ZooKeeperLimits
from auditor.errors import ConfigError
from auditor.model.topic import Cursor, DataLedger, Position, SchemaVersion
from auditor.pulsar.metadata import encode_schemas
from auditor.pulsar.topic_paths import parse_topic, schema_path, topic_path
from auditor.sandbox.cluster import SandboxCluster
from auditor.spark import ledger_source
from auditor.spark.ledger_source import (
    OPTIONS,
    READERS_DEFAULT,
    READERS_MAX,
    SOURCES,
    ZOOKEEPER_OPTIONS,
    LedgersReader,
    source_options,
)
from auditor.spark.store import spark_type
from auditor.stages.reading import COUNTED_LEDGERS, reader
from auditor.wire.service_uri import parse as parse_uri
from auditor.zookeeper.metadata_store import open_store

pytestmark = pytest.mark.spark

CLOSED, OPEN, MALFORMED, NEWER, MARKED = 1, 2, 30_000, 40_000, 7_000_000_000
PASSWORD = b"pass-of-the-ledger"
DOCUMENT = Path(__file__).parents[2] / "docs/data-sources.md"

Load = Callable[..., DataFrame]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield a cluster: b1 is writable, b2 read-only, b3 gone with its cookie, b4 without a trace;
    ledgers are below several parents.
    """
    with SandboxCluster(tmp_path_factory.mktemp("sources"), 4, named=True) as cluster:
        text = "e3 w2 a2 0:[b1 b2 b3] 10:[b1 b2 b4] closed 19"
        cluster.place(CLOSED, cluster.ledger(text), password=PASSWORD)
        cluster.place(OPEN, cluster.ledger("e3 w2 a2 0:[b1 b2 b3] open"))
        cluster.place(MARKED, cluster.ledger("e3 w3 a2 0:[b1 b2 b4] closed 9"), format_version=2)
        cluster.mark(MARKED, ["b4"], 1_234)
        cluster.set_raw(MALFORMED, b"BookieMetadataFormatVersion\t3\n\xff\xff\xff\xff\xff")
        cluster.set_raw(NEWER, b"BookieMetadataFormatVersion\t9\n")
        cluster.readonly("b2")
        cluster.lose_bookie("b3", cookie=True)
        cluster.lose_bookie("b4")
        _put_topics(cluster)
        yield cluster


def _put_topics(cluster: SandboxCluster) -> None:
    """Write a topic with everything, one named as before Pulsar 2.0, one that cannot be decoded,
    and two that only have schemas: one of them under a name that Pulsar does not write.
    """
    cursor, schema = Cursor(OPEN, Position(CLOSED, 3)), SchemaVersion(0, Position(CLOSED, 0))
    ledgers = [closed(77, offloaded=True, deleted=True), DataLedger(78), closed(MARKED)]
    put_topic(cluster.set_raw, "acme/shop/orders", ledgers, {"billing": cursor}, (schema,))
    put_topic(cluster.set_raw, "persistent://acme/eu/shop/old", [closed(CLOSED)])
    cluster.set_raw(topic_path(parse_topic("acme/shop/orders")) + "/odd", b"\xff")
    cluster.set_raw(topic_path(parse_topic("other/x/worse")), b"\xff")
    cluster.set_raw(schema_path(parse_topic("idle/x/registered")), encode_schemas((schema,)))
    cluster.set_raw("/schemas/idle/x/%zz", encode_schemas((schema,)))


@pytest.fixture
def load(spark: Any, cluster: SandboxCluster) -> Load:
    """Return a function: `load("ledgers", readers="3")` is the table of bookkeeper_ledgers with
    these options.
    """
    ledger_source.register(spark)

    def loaded(name: str, **options: str) -> DataFrame:
        asked = {"metadataServiceUri": cluster.metadata_service_uri, **options}
        return spark.read.format(f"bookkeeper_{name}").options(**asked).load()

    return loaded


def by_id(rows: list[Row]) -> dict[int, Row]:
    found = {row["ledger_id"]: row for row in rows}
    assert len(found) == len(rows), "a ledger came twice"
    return found


def test_every_ledger_is_one_row_with_what_its_metadata_says(load):
    """As written, segment by segment; ledgers of all parents, each once."""
    before_ms = now_ms()
    rows = by_id(load("ledgers").collect())
    assert {CLOSED, OPEN, MALFORMED, NEWER, MARKED} == set(rows)
    row = rows[CLOSED]
    assert ("found", "", 3, "CLOSED", 3, 2, 2, 19, 3) == (
        row.status, row.detail, row.format_version, row.state, row.ensemble_size, row.write_quorum,
        row.ack_quorum,
        row.last_entry_id, row.digest_type,
    )  # fmt: skip
    assert [
        Row(first_entry_id=0, ensemble=["b1", "b2", "b3"]),
        Row(first_entry_id=10, ensemble=["b1", "b2", "b4"]),
    ] == row.segments
    assert row.malformed is None and before_ms <= row.read_at_ms <= now_ms()
    assert ("OPEN", 2) == (rows[OPEN].state, rows[MARKED].format_version)


def test_a_malformed_ledger_is_a_row_with_its_reason(load):
    """A malformed one says where; a newer format is unreadable and says so; the others are not
    affected.
    """
    rows = by_id(load("ledgers").collect())
    bad = rows[MALFORMED]
    assert ("malformed", None, None) == (bad.status, bad.state, bad.segments)
    assert bad.malformed.reason == bad.detail != ""
    assert (35, 64) == (bad.malformed.length_bytes, len(bad.malformed.sha256))
    assert rows[NEWER].status == "unreadable" and "version 9" in rows[NEWER].detail
    assert rows[NEWER].malformed is None


def test_the_source_and_the_run_read_alike(load, cluster):
    """For the same ledger the source gives what the run writes as evidence, except for the time."""
    uri = parse_uri(cluster.metadata_service_uri)
    with open_store(uri, ZooKeeperLimits()) as store:
        ids = pa.RecordBatch.from_arrays(
            [pa.array([CLOSED, MALFORMED, MARKED])], names=["ledger_id"]
        )
        evidence = pa.Table.from_batches(reader(store.address, 1, {})(iter([ids])), COUNTED_LEDGERS)
    expected = (
        evidence.select(ledger_source.LEDGER_COLUMNS.names).drop_columns("read_at_ms").to_pylist()
    )
    table = (
        load("ledgers").where(f"ledger_id in ({CLOSED}, {MALFORMED}, {MARKED})").drop("read_at_ms")
    )
    assert expected == table.toArrow().sort_by("ledger_id").to_pylist()


def test_no_column_holds_the_password(load):
    """Neither the password nor the raw metadata around it leaves ZooKeeper."""
    rows = load("ledgers").where(f"ledger_id = {CLOSED}").collect()
    assert len(rows) == 1
    text = json.dumps([row.asDict(recursive=True) for row in rows], default=bytes.hex)
    assert PASSWORD.decode() not in text and PASSWORD.hex() not in text


@pytest.mark.parametrize(("readers", "partitions"), [("1", 1), ("2", 2), ("1000", 4)])
def test_ledgers_are_dealt_to_so_many_readers(load, readers, partitions):
    """There are as many partitions as requested, but never more than parents of ledgers; every
    ledger is there.
    """
    table = load("ledgers", readers=readers)
    assert partitions == table.rdd.getNumPartitions()
    assert 5 == len(by_id(table.collect()))


@pytest.mark.parametrize(("readers", "each"), [("1", 6_000), ("3", 2_000)])
def test_readers_share_the_rate(cluster, readers, each):
    """The rate is not exceeded, however many readers there are."""
    options = {
        "metadataServiceUri": cluster.metadata_service_uri,
        "zookeeperReadsPerSecond": "6000",
        "readers": readers,
    }
    partitions = LedgersReader(source_options(options)).partitions()
    assert [each] * int(readers) == [
        p.address.limits.zookeeper_reads_per_second for p in partitions
    ]  # type: ignore[attr-defined]


def test_a_cluster_without_ledgers_is_an_empty_table(spark, tmp_path):
    """Without parents and ledgers there are one partition, no rows, and no error."""
    with SandboxCluster(tmp_path, 1, named=True) as empty:
        for name in ("ledgers", "underreplicated"):
            table = (
                spark.read.format(f"bookkeeper_{name}")
                .option("metadataServiceUri", empty.metadata_service_uri)
                .load()
            )
            assert 0 == table.count()


def test_bookies_are_those_registered_or_with_a_cookie(load, cluster):
    """Writable, read-only, gone with its cookie; one without either is not there."""
    rows = {row.bookie_id: row for row in load("bookies").collect()}
    found = {bookie: (row.registration, row.has_cookie) for bookie, row in rows.items()}
    assert {"b1": ("writable", True), "b2": ("readonly", True), "b3": ("none", True)} == found
    assert cluster.address("b1") == (rows["b1"].host, rows["b1"].port)
    assert (None, None, "") == (rows["b3"].host, rows["b3"].port, rows["b3"].problem)


def test_underreplicated_are_the_marked(load):
    """Each mark has both its times and the missing replicas."""
    before_ms = now_ms()
    (row,) = load("underreplicated").collect()
    assert (MARKED, 1_234, ["b4"], None) == (
        row.ledger_id,
        row.changed_ms,
        row.missing_replicas,
        row.problem,
    )
    assert before_ms - 3_600_000 < row.created_ms < before_ms


def test_topics_are_the_ledgers_they_reference(load):
    """They have data, cursors and schemas of every namespace, also of topics without ledgers; what
    cannot be read is a row that says so.
    """
    rows = load("topics").collect()
    references = {
        (r["topic"], r["role"], r["name"], r["ledger_id"], r["entries"], r["bookkeeper_deleted"])
        for r in rows
    }
    orders, old, worse = (
        "persistent://acme/shop/orders",
        "persistent://acme/eu/shop/old",
        "persistent://other/x/worse",
    )
    assert {
        (orders, "data", None, 77, 10, True),
        (orders, "data", None, 78, None, False),
        (orders, "data", None, MARKED, 10, False),
        (orders, "cursor", "billing", OPEN, None, None),
        (orders, "schema", None, CLOSED, None, None),
        (orders, None, None, None, None, None),
        (old, "data", None, CLOSED, 10, False),
        (worse, None, None, None, None, None),
        ("persistent://idle/x/registered", "schema", None, CLOSED, None, None),
        ("persistent://idle/x/%zz", None, None, None, None, None),
    } == references
    assert 10 == len(rows)
    problems = [row["problem"] for row in rows if row["role"] is None]
    assert 2 == sum("cannot be decoded" in problem for problem in problems)
    assert 1 == sum("a name that Pulsar does not write" in problem for problem in problems)


@pytest.mark.parametrize(("readers", "partitions"), [("1", 1), ("2", 2), ("8", 3)])
def test_namespaces_are_dealt_to_so_many_readers(load, readers, partitions):
    """There are never more than namespaces; every topic is read once."""
    topics = load("topics", readers=readers)
    assert (partitions, 10) == (topics.rdd.getNumPartitions(), topics.count())


def test_topics_may_lie_elsewhere(load, cluster):
    """They are where pulsarMetadataUri says; without topics there the action fails and says where
    it looked.
    """
    put_topic(cluster.set_raw, "t/n/x", [closed(5)], prefix="/elsewhere")
    elsewhere = load("topics", pulsarMetadataUri=f"zk:{cluster.zookeeper_hosts}/elsewhere")
    assert [5] == [row["ledger_id"] for row in elsewhere.collect()]
    with pytest.raises(PySparkException, match="no znode /nowhere/managed-ledgers"):
        load("topics", pulsarMetadataUri=f"zk:{cluster.zookeeper_hosts}/nowhere").count()


def test_every_action_reads_again(load, cluster):
    """The second action shows what changed since the first: the table is not a snapshot."""
    table = (
        load("ledgers")
        .where(f"ledger_id = {OPEN}")
        .select("state", "znode_version", "last_entry_id")
    )
    marks, bookies = (
        load("underreplicated"),
        load("bookies").where("bookie_id = 'b1'").select("registration"),
    )
    first = (table.collect()[0], marks.count(), bookies.collect()[0].registration)
    version = first[0].znode_version
    assert (Row(state="OPEN", znode_version=version, last_entry_id=-1), 1, "writable") == first
    cluster.place(OPEN, cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed 4"))
    cluster.mark(OPEN, ["b3"])
    cluster.readonly("b1")
    try:
        second = (table.collect()[0], marks.count(), bookies.collect()[0].registration)
    finally:
        cluster.place(OPEN, cluster.ledger("e3 w2 a2 0:[b1 b2 b3] open"))
        cluster.unmark(OPEN)
        cluster.register("b1")
    assert (
        Row(state="CLOSED", znode_version=version + 1, last_entry_id=4),
        2,
        "readonly",
    ) == second


def test_what_was_written_stays(load, cluster, tmp_path, spark):
    """A written table is a snapshot, as the documentation tells users."""
    load("ledgers").write.parquet(f"{tmp_path}/ledgers")
    written = spark.read.parquet(f"{tmp_path}/ledgers").where(f"ledger_id = {OPEN}")
    assert "OPEN" == written.collect()[0].state
    cluster.place(OPEN, cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed 4"))
    try:
        assert "OPEN" == written.collect()[0].state
    finally:
        cluster.place(OPEN, cluster.ledger("e3 w2 a2 0:[b1 b2 b3] open"))


def test_sql_may_use_the_sources(spark, load, cluster):
    """A temporary view over a format reads like the table."""
    load("bookies")
    options = f"OPTIONS (metadataServiceUri '{cluster.metadata_service_uri}')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW their_ledgers USING bookkeeper_ledgers {options}")
    try:
        assert (
            5
            == spark.sql("SELECT count(DISTINCT ledger_id) AS n FROM their_ledgers").collect()[0].n
        )
    finally:
        spark.catalog.dropTempView("their_ledgers")


@pytest.mark.parametrize("name", [source.name() for source in SOURCES])
def test_load_refuses_a_missing_uri(spark, name):
    """The error names the option and its form."""
    ledger_source.register(spark)
    with pytest.raises(
        AnalysisException,
        match=r"option metadataServiceUri is not set: write .*zk\+hierarchical://",
    ):
        spark.read.format(name).load()


def test_load_refuses_nonsense_for_a_uri(load):
    """The error names the option, what is wrong, and the right form."""
    with pytest.raises(
        AnalysisException,
        match=r"option metadataServiceUri: .* does not begin with a store .*zk\+hierarchical://",
    ):
        load("bookies", metadataServiceUri="nonsense")


WRONG = [
    ({}, "option metadataServiceUri is not set"),
    ({"metadataServiceUri": "  "}, "option metadataServiceUri is not set"),
    ({"metadataServiceUri": "etcd://h:1/ledgers"}, "option metadataServiceUri: .*is not ZooKeeper"),
    (
        {"metadataServiceUrl": "zk://h/ledgers"},
        "no option metadataServiceUrl: did you mean metadataServiceUri",
    ),
    (
        {"path": "/ledgers"},
        "no option path: there are metadataServiceUri, pulsarMetadataUri, readers",
    ),
    ({"readers": "0"}, "option readers = '0' is out of range: 1 to 1000"),
    ({"readers": str(READERS_MAX + 1)}, "option readers = '1001'"),
    ({"readers": "many"}, "option readers = 'many'"),
    (
        {"zookeeperReadsPerSecond": "fast"},
        "option zookeeperReadsPerSecond = 'fast' is not a number a second",
    ),
    ({"zookeeperBatchPaths": "0"}, "option zookeeperBatchPaths = '0' is out of range: 1 to 1000"),
    ({"zookeeperRetryWait": "5"}, "option zookeeperRetryWait = '5' is not a duration"),
]


@pytest.mark.parametrize(("options", "said"), WRONG)
def test_a_wrong_option_is_named(options, said):
    """The option is unknown, out of range, or without a unit: the error has its name and what to
    write.
    """
    given = options if any(name.startswith("metadata") for name in options) or not options else {
        "metadataServiceUri": "zk://h/ledgers", **options,
    }  # fmt: skip
    with pytest.raises(ConfigError, match=said):
        source_options(given)


def test_a_password_in_the_uri_is_refused_and_not_repeated():
    """No possibly secret part of it is quoted."""
    with pytest.raises(ConfigError) as refused:
        source_options({"metadataServiceUri": "zk://me:s3cret@h/ledgers"})
    assert "s3cret" not in str(refused.value)


def test_options_know_no_case_and_reach_the_limits():
    """Spark's options are case-insensitive; each ZooKeeper option sets the limit of its name."""
    options = {
        "METADATASERVICEURI": "zk://h/ledgers",
        "zookeeperbatchpaths": "7",
        "zookeeperRetryWait": "20ms",
    }
    chosen = source_options(options)
    limits = chosen.settings.zookeeper_limits(1)
    assert (("h:2181",), READERS_DEFAULT, 7, 20) == (
        chosen.uri.hosts,
        chosen.readers,
        limits.zookeeper_batch_paths,
        limits.zookeeper_retry_wait_ms,
    )


def test_columns_cannot_be_chosen_with_a_schema(spark, load, cluster):
    """A user's own schema would be filled with the wrong columns, so it is refused with a
    sentence.
    """
    load("bookies")
    read = spark.read.format("bookkeeper_bookies").option(
        "metadataServiceUri", cluster.metadata_service_uri
    )
    with pytest.raises(PySparkException, match=r"has columns of its own: leave \.schema"):
        read.schema("bookie_id string").load().collect()


def test_a_zookeeper_out_of_reach_fails_the_action(load):
    """The sentence says where and what to check; there is no empty table."""
    with pytest.raises(PySparkException, match="did not let us connect within 200 ms"):
        load(
            "ledgers",
            metadataServiceUri="zk://127.0.0.1:1/ledgers",
            zookeeperConnectTimeout="200ms",
        ).count()


def documented(heading: str) -> list[list[str]]:
    """Return the rows of the one table below `heading` in the document, cells without code
    marks.
    """
    section = DOCUMENT.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name())
def test_the_documented_columns_are_the_columns(source):
    """Names, types and order."""
    fields = spark_type(source.COLUMNS).fields
    assert [(f.name, f.dataType.simpleString()) for f in fields] == [
        (r[0], r[1]) for r in documented(f"`{source.name()}`")
    ]


def test_the_documented_options_are_the_options():
    """Names, order and defaults."""
    defaults = {
        "metadataServiceUri": "required",
        "pulsarMetadataUri": "beside the ledgers",
        "readers": str(READERS_DEFAULT),
    }
    defaults |= {name: setting.default or "not set" for name, setting in ZOOKEEPER_OPTIONS.items()}
    assert [(name, defaults[name]) for name in OPTIONS] == [
        (row[0], row[1]) for row in documented("Options")
    ]


def test_no_option_is_a_command():
    """A user who may write a query must not be able to run programs on the driver and the
    executors.
    """
    assert not [name for name in OPTIONS if "command" in name.lower()]


def test_the_documented_formats_are_the_formats():
    """The first table names the four, and only them."""
    named = re.findall(
        r"^\| `(bookkeeper_\w+)` \|", DOCUMENT.read_text().split("\n## ")[0], re.MULTILINE
    )
    assert [source.name() for source in SOURCES] == named


def test_the_documented_examples_run(spark, load, cluster, tmp_path):
    """Every Python example of the document runs, in order and unchanged except for the cluster and
    the directory.
    """
    load("bookies")
    code = "\n".join(re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL))
    code = code.replace(
        "zk+hierarchical://zk1:2181,zk2:2181,zk3:2181/ledgers", cluster.metadata_service_uri
    )
    code = code.replace("/data/", f"{tmp_path}/").replace(".show()", ".collect()")
    assert 4 <= code.count(".collect()")
    names: dict[str, Any] = {"spark": spark}
    exec(compile(code, str(DOCUMENT), "exec"), names)
    assert 5 == names["ledgers"].count()

"""A small Spark job whose classes go into the class-data archive: a run's stages on invented
evidence.

No cluster is needed and no bookie is asked: the only bookie has a registration that cannot be read.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from auditor.config import BookieLimits, ZooKeeperLimits
from auditor.evidence.rows import ledger_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import LEDGERS, LISTING, READS
from auditor.judging.settle import Todo
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    RecordStatus,
    Segment,
    ZnodeStamp,
)
from auditor.spark.executor import SparkExecutor
from auditor.spark.session import spark_session
from auditor.spark.store import append, local_rows, map_batches, read_tables
from auditor.stages.asking import Directory
from auditor.stages.local import LocalExecutor
from auditor.stages.selection import Suspects
from auditor.stages.stages import Stages
from auditor.stop import StopRequest
from auditor.wire.service_uri import parse
from auditor.wire.znode_paths import LedgerLayout
from auditor.zookeeper.metadata_store import StoreAddress
from auditor.zookeeper.session import ReadCounts

URI = "zk+hierarchical://127.0.0.1:1/ledgers"
BOOKIE = "bookie-1:3181"
LEDGERS_AUDITED = 100
STALL_MAX_S = 300.0
"""After so many seconds without progress the training is given up: it takes half a minute."""


def train(archive: Path) -> None:
    """Run the stages in a JVM that writes `archive` when it ends."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        spark_session(1, None, StopRequest(), archive_to=archive) as spark,
    ):
        uri = Path(scratch).as_uri()
        run = place(scratch)
        stages = _stages(spark, run)
        listed = table(LISTING, [(i,) for i in range(LEDGERS_AUDITED)])
        run.write_table("evidence/listing", listed, "kept")
        append(
            map_batches(read_tables(spark, [f"{uri}/evidence/listing"], LISTING), _read, LEDGERS),
            f"{uri}/evidence/ledgers",
        )
        append(local_rows(spark, table(READS, [])), f"{uri}/evidence/reads")
        directory = Directory({BOOKIE: None}, frozenset())
        stages.ask_lists(1, directory)
        stages.judge(1, 0)
        stages.read_entries(1, 0, directory)
        stages.judge(1, 1, only=(0, Todo.READS))
        stages.judge(2, 0)


def _stages(spark: SparkSession, run: Place) -> Stages:
    """Return stages that Spark carries out, whatever their size."""
    address = StoreAddress(parse(URI), "/ledgers", LedgerLayout.HIERARCHICAL, ZooKeeperLimits())
    facts = ClusterFacts(
        URI, address.uri.hosts, address.root, address.layout.value, None, False, None
    )
    stop, suspects = StopRequest(), Suspects(run)
    executor = SparkExecutor(
        spark, stop, run.uri, address, readers=2, tick=lambda _: None, stall_max_s=STALL_MAX_S
    )
    return Stages(
        on_spark=lambda: executor,
        local=LocalExecutor(stop, run, suspects, address, ReadCounts()),
        suspects=suspects,
        facts=facts,
        terms=Terms(
            judged_at_ms=0, underreplication_grace_ms=0, confirming_reads_max=1, looks_max=2
        ),
        limits=BookieLimits(),
        suspects_max=0,
        ledgers_max=0,
    )


def _read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what reading the listed ledgers would give: closed, of one entry, on the only
    bookie.
    """
    segments = (Segment(0, (BOOKIE,)),)
    metadata = LedgerMetadata(
        3, LedgerState.CLOSED, 1, 1, 1, last_entry_id=0, length=8, segments=segments
    )
    for batch in batches:
        stamps = (
            (ledger_id, ZnodeStamp(ledger_id, 0, 0))
            for ledger_id in batch.column("ledger_id").to_pylist()
        )
        yield table(
            LEDGERS,
            [
                ledger_row(LedgerRecord(i, 1, 0, RecordStatus.FOUND, stamp, metadata))
                for i, stamp in stamps
            ],
        )


if __name__ == "__main__":
    train(Path(sys.argv[1]))

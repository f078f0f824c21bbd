"""A small Spark job whose classes go into the class-data archive.

As in a look, tables of evidence are written, read, joined and handed to Python, and Python's rows
are collected. No cluster is needed and no bookie is asked.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from auditor.evidence.rows import named_row, table
from auditor.evidence.schemas import ANSWERS, LEDGERS, READS, SEEN
from auditor.spark.executor import by_lane, gather_evidence
from auditor.spark.session import spark_session
from auditor.spark.store import append, local_rows, map_batches, read_tables
from auditor.stages.asking import Directory
from auditor.stop import StopRequest


def train(archive: Path) -> None:
    """Run the job in a JVM that writes `archive` when it ends."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        spark_session(1, None, StopRequest(), archive_to=archive) as spark,
    ):
        uri = Path(scratch).as_uri()
        tables = []
        for name, schema in (("ledgers", LEDGERS), ("answers", ANSWERS), ("reads", READS)):
            append(
                local_rows(spark, table(schema, [named_row(schema, ledger_id=1)])), f"{uri}/{name}"
            )
            tables.append(read_tables(spark, [f"{uri}/{name}"], schema))
        ledgers, answers, reads = tables
        lanes = by_lane(answers, Directory({"bookie-1:3181": None}, frozenset()))
        append(map_batches(lanes, _pass_on, ANSWERS), f"{uri}/asked")
        seen = gather_evidence(ledgers, answers, reads, first=False)
        append(map_batches(seen, _pass_on, SEEN), f"{uri}/seen")
        numbers = spark.range(0, 2, 1, 2)
        map_batches(numbers, _pass_on, pa.schema([("id", pa.int64())])).toArrow()
        again = reads.where("look is null").select("ledger_id").distinct()
        append(ledgers.join(again, "ledger_id", "left_semi"), f"{uri}/again")


def _pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__":
    train(Path(sys.argv[1]))

"""The small Spark job whose classes go into the class-data archive: what a run does, without a cluster."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from auditor.stop import StopRequest
from auditor.tables.session import spark_session
from auditor.tables.store import append, mapped, written

NUMBERS = pa.schema([("n", pa.int64()), ("names", pa.list_(pa.string()))])


def train(archive: Path) -> None:
    """Run the job in a JVM that writes `archive` when it ends."""
    with tempfile.TemporaryDirectory() as scratch, spark_session(2, None, StopRequest(), archive_to=archive) as spark:
        table = f"{Path(scratch).as_uri()}/numbers"
        append(mapped(spark.range(100).repartition(2), _named, NUMBERS), table)
        rows = written(spark, [table], NUMBERS)
        rows.groupBy("n").count().join(rows, "n", "left_semi").collect()


def _named(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        numbers = batch.column("id").to_pylist()
        yield pa.RecordBatch.from_arrays([pa.array(numbers), pa.array([[str(n)] for n in numbers])], schema=NUMBERS)


if __name__ == "__main__":
    train(Path(sys.argv[1]))

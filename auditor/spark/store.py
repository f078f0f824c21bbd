"""Tables between the stages: each is written once, and read back with its schema asserted.

A lazy table that asks the network would ask again at every use. Here every stage reads only what
was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from auditor.errors import OutputError

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


def append(rows: DataFrame, path: str) -> None:
    """Append rows to a table. A stage that asks the network may have no other consumer."""
    rows.write.mode("append").parquet(path)


def keep(batch: pa.RecordBatch, path: str) -> None:
    """Write rows that this process holds as a table of one file, without a Spark job. Raises
    OutputError.
    """
    keep_all([batch], batch.schema, path)


def keep_all(batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: str) -> None:
    """Write rows as a table of one file, batch by batch, without a Spark job. Raises
    OutputError.
    """
    try:
        if path.startswith("file://"):
            files, place = fs.LocalFileSystem(), path.removeprefix("file://")
        else:
            files, place = fs.FileSystem.from_uri(re.sub("^s3a:", "s3:", path))
        files.create_dir(place, recursive=True)
        with pq.ParquetWriter(
            f"{place}/kept.parquet", schema, filesystem=files, compression="zstd"
        ) as writer:
            for batch in batches:
                writer.write_batch(batch)
    except (OSError, pa.ArrowException) as error:
        raise OutputError(f"cannot write {path}: {error}") from error


def read_tables(spark: SparkSession, paths: Iterable[str], schema: pa.Schema) -> DataFrame:
    """Return the rows of written tables, with exactly the columns of `schema`."""
    rows = spark.read.schema(spark_type(schema)).parquet(*paths)
    assert rows.columns == schema.names, (rows.columns, schema.names)
    return rows


def local_rows(spark: SparkSession, batch: pa.RecordBatch) -> DataFrame:
    """Return rows that this process holds as a Spark table."""
    return spark.createDataFrame(pa.Table.from_batches([batch]))

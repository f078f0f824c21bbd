"""Tables between the stages: each is written once, and read back with its schema checked.

A lazy table that asks the network would ask again at every use. Here every stage reads only what
was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

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


def read_tables(spark: SparkSession, paths: Iterable[str], schema: pa.Schema) -> DataFrame:
    """Return the rows of written tables, with exactly the columns of `schema`."""
    rows = spark.read.schema(spark_type(schema)).parquet(*paths)
    assert rows.columns == schema.names, (rows.columns, schema.names)
    return rows


def local_rows(spark: SparkSession, batch: pa.RecordBatch) -> DataFrame:
    """Return rows that this process holds as a Spark table."""
    return spark.createDataFrame(pa.Table.from_batches([batch]))

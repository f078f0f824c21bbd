"""One Spark partition for each bookie, a lane: the whole job keeps one bounded conversation with
it.

A hash of the bookie's id would put two bookies into one partition and serialise them. Each lane
therefore has its own key (`auditor.spark.lane_keys`).
"""

from __future__ import annotations

from itertools import chain

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from auditor.spark.lane_keys import lane_keys
from auditor.stages.asking import Directory


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

"""How many tasks of Spark read ZooKeeper at once, and what rate is left to each."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession
from support.zookeeper_znodes import uri

from auditor.config import ZooKeeperLimits
from auditor.evidence.run_directory import place
from auditor.spark.executor import SparkExecutor
from auditor.spark.on_demand import SparkOnDemand
from auditor.stop import StopRequest
from auditor.wire.znode_paths import LedgerLayout
from auditor.zookeeper.metadata_store import StoreAddress

CORES = max(2, os.cpu_count() or 2)
RATE = 12_000.0


def executor(master: str, slots: int, rate: float, tmp_path: Path) -> SparkExecutor:
    context = SimpleNamespace(master=master, defaultParallelism=slots)
    session = cast(SparkSession, SimpleNamespace(sparkContext=context))
    on_demand = SparkOnDemand(lambda _: session, StopRequest(), lambda _: True)

    def address(readers: int) -> StoreAddress:
        limits = ZooKeeperLimits(zookeeper_reads_per_second=rate / readers)
        return StoreAddress(uri("zk.invalid:2181", "/l"), "/l", LedgerLayout.FLAT, limits)

    run = place(str(tmp_path))
    made = on_demand.executor(run, address, None, lambda _: None, float("inf"))
    assert isinstance(made, SparkExecutor)
    return made


@pytest.mark.parametrize(
    ("master", "slots", "readers"),
    [
        ("local[40,2]", 40, CORES),
        ("spark://a:7077", 40, 20),
        ("yarn", 1, 2),
        ("local-cluster[2,4,1024]", 8, 4),
    ],
)
@pytest.mark.parametrize("rate", [RATE, 0.0])
def test_tasks_share_the_rate(
    tmp_path: Path, master: str, slots: int, readers: int, rate: float
) -> None:
    """On one machine as many read as there are cores, whatever Spark takes for one. All lanes at
    once do not exceed the rate either.
    """
    made = executor(master, slots, rate, tmp_path)
    assert readers == made.readers
    assert rate == pytest.approx(made.address.limits.zookeeper_reads_per_second * readers)
    each = made.lane_address.limits.zookeeper_reads_per_second
    assert rate == pytest.approx(each * max(slots, readers))

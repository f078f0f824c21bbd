"""A job in another thread goes on while the driver forks children to judge."""

from __future__ import annotations

from threading import Thread

import pytest
from pyspark.sql import SparkSession

from auditor.config import JudgingLimits
from auditor.judging.judge import judge_in_child
from auditor.spark.jobs import run_job
from auditor.stop import StopRequest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

CHILDREN = 3


def judge_in_children() -> None:
    for _ in range(CHILDREN):
        assert [1, 4] == list(judge_in_child([1, 2], lambda one: one * one, JudgingLimits()))


def test_a_job_of_another_thread_survives_children_at_every_moment(spark: SparkSession):
    """The connections of its threads are not ended: `test_spark_connections` shows why."""
    sums: list[int] = []

    def ask() -> None:
        for _ in range(3):
            rows = spark.range(0, 2_000_000, 1, 2)
            action = lambda: sums.append(rows.selectExpr("sum(id)").first()[0])  # noqa: B023, E731
            run_job(spark, StopRequest(), action, lambda _: None, 60)

    thread = Thread(target=ask)
    thread.start()
    while thread.is_alive():
        judge_in_children()
        thread.join(0.02)
    assert [sum(range(2_000_000))] * 3 == sums

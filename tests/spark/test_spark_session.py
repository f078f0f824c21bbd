"""The session that a run uses: its own, or the one that the process has already."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from auditor.spark.session import spark_session
from auditor.stop import StopRequest

pytestmark = pytest.mark.spark


def test_the_session_of_a_notebook_is_used_from_any_thread_and_left_alone(spark: SparkSession):
    """It is active in the thread that started it alone: a run in another one neither fails nor ends its JVM."""

    def use() -> SparkSession:
        with spark_session(2, None, StopRequest()) as found:
            return found

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(use).result() is spark
    assert 3 == spark.range(3).count()

"""The session that a run uses: its own, or that of the process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark import __version__ as installed
from pyspark.sql import SparkSession

from auditor.errors import ConfigError
from auditor.evidence.run_directory import Place, place
from auditor.spark import session as session_module
from auditor.spark import store
from auditor.spark.executor import SparkExecutor
from auditor.spark.on_demand import spark_on_demand
from auditor.spark.session import spark_session
from auditor.stop import StopRequest


@pytest.mark.spark
def test_the_session_of_a_notebook_is_used_from_any_thread_and_left_alone(spark: SparkSession):
    """It is active only in the thread that started it: a run in another one neither fails nor ends
    its JVM.
    """

    def use() -> SparkSession:
        with spark_session(2, None, StopRequest()) as found:
            return found

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(use).result() is spark
    assert 3 == spark.range(3).count()


@pytest.mark.spark
def test_the_session_of_a_notebook_is_the_one_that_is_had_on_demand(spark: SparkSession):
    """A run in it starts no other session, and leaves it unchanged."""
    with spark_on_demand(None, StopRequest(), OUTPUT) as demand:
        assert demand.session() is spark
    assert 3 == spark.range(3).count()


OUTPUT = place("/nowhere")
"""Not tried where Spark runs on this machine."""
EXECUTORS_OPTIONS = "spark.executor.extraJavaOptions"


@pytest.mark.parametrize(
    ("master", "has_executors"), [("spark://a:7077", True), ("yarn", True), ("local[4]", False)]
)
def test_executors_compile_quickly(master: str, has_executors: bool):
    """A run ends before better code would pay. Where the driver's JVM runs the tasks there are no
    executors.
    """
    options = session_module._executors(master)
    assert has_executors == ("-XX:TieredStopAtLevel=1" in options.get(EXECUTORS_OPTIONS, ""))


@pytest.mark.spark
def test_rows_of_the_driver_are_in_as_many_parts_as_there_are_cores(tmp_path: Path):
    """In local mode Spark takes each lane for a core: it would start a task for each."""
    done = subprocess.run(
        [sys.executable, "-c", COUNTS_PARTS],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert [str(max(2, os.cpu_count() or 2))] == done.stdout.split()


COUNTS_PARTS = """
import pyarrow as pa
from auditor.spark.session import spark_session
from auditor.spark.store import local_rows
from auditor.stop import StopRequest
with spark_session(40, None, StopRequest()) as session:
    rows = local_rows(session, pa.RecordBatch.from_pydict({"n": list(range(100))}))
    print(rows.rdd.getNumPartitions())
"""
STARTS_A_SESSION = """
from auditor.spark.session import spark_session
from auditor.stop import StopRequest
with spark_session(2, "local[1]", StopRequest()) as session:
    conf = session.sparkContext.getConf()
    for key in ("endpoint", "path.style.access", "endpoint.region"):
        print(conf.get("spark.hadoop.fs.s3a." + key))
"""


@pytest.mark.spark
@pytest.mark.long
def test_settings_of_s3a_that_the_operator_gives_to_spark_stand(tmp_path: Path):
    """The variables of the AWS SDK set only the others."""
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.hadoop.fs.s3a.endpoint https://theirs.example\n"
    )
    environment = {
        **os.environ,
        "SPARK_CONF_DIR": str(tmp_path),
        "AWS_ENDPOINT_URL": "https://ours.example",
        "AWS_REGION": "eu-central-1",
    }
    done = subprocess.run(
        [sys.executable, "-c", STARTS_A_SESSION],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert ["https://theirs.example", "true", "eu-central-1"] == done.stdout.split()


class Sessions:
    """A substitute for `spark_session` that records what was done with it, in order."""

    def __init__(self) -> None:
        self.done: list[object] = []

    @contextmanager
    def __call__(self, *given: object, **options: object) -> Iterator[Any]:
        self.done.append((given, options))
        yield SimpleNamespace(version="4.9", sparkContext=SimpleNamespace(defaultParallelism=2))
        self.done.append("stopped")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Sessions:
    """Return a process that spark-submit did not start."""
    for name in ("SPARK_ENV_LOADED", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    made = Sessions()
    monkeypatch.setattr(session_module, "spark_session", made)
    monkeypatch.setattr(store, "require_shared_output", lambda *_: True)
    return made


def test_a_session_that_nobody_needs_is_not_started(made: Sessions):
    """The version is that of the Spark that is installed."""
    with spark_on_demand(None, StopRequest(), OUTPUT) as demand:
        pass
    assert ([], installed) == (made.done, demand.version)


def test_a_session_is_started_once_as_it_is_asked_for_and_stopped(made: Sessions):
    """Its own version counts, also after it ended."""
    stop = StopRequest()
    with spark_on_demand("local[3]", stop, OUTPUT, verbose=True, lock=7) as demand:
        demand.bookies = 2
        assert demand.session() is demand.session()
        started = ((2, "local[3]", stop), {"verbose": True, "lock": 7})
        assert [started] == made.done
    assert ([started, "stopped"], "4.9") == (made.done, demand.version)


@pytest.mark.parametrize("variable", ["SPARK_ENV_LOADED", "PYSPARK_GATEWAY_PORT"])
def test_under_spark_submit_the_session_is_started_at_once(
    made: Sessions, monkeypatch: pytest.MonkeyPatch, variable: str
):
    """YARN takes an application without a Spark context for one that failed."""
    monkeypatch.setenv(variable, "1")
    with spark_on_demand(None, StopRequest(), OUTPUT):
        assert 1 == len(made.done)


def test_the_output_is_tried_again_if_executors_have_joined(
    made: Sessions, monkeypatch: pytest.MonkeyPatch
):
    """The first executor alone may have done all tasks of the trial."""
    said = [False, True]
    monkeypatch.setattr(store, "require_shared_output", lambda *_: said.pop())
    with spark_on_demand("spark://host:7077", StopRequest(), OUTPUT) as demand:
        context = cast(Any, demand.session().sparkContext)
        context.master = "spark://host:7077"
        for slots, tasks_write in ((2, True), (4, False), (4, False), (2, False)):
            context.defaultParallelism = slots
            address = cast(Any, lambda _: None)
            executor = demand.executor(OUTPUT, address, 1, lambda _: None, 1.0)
            assert tasks_write == cast(SparkExecutor, executor).tasks_write
    assert [] == said


def test_on_a_cluster_the_session_is_started_and_checked_at_once(
    made: Sessions, monkeypatch: pytest.MonkeyPatch
):
    """The check runs before any bookie is asked; its error passes through."""

    def refuse(session: object, output: Place, stop: StopRequest) -> None:
        raise ConfigError(f"{output.address} is not shared")

    monkeypatch.setattr(store, "require_shared_output", refuse)
    with (
        pytest.raises(ConfigError, match="/nowhere is not shared"),
        spark_on_demand("spark://host:7077", StopRequest(), OUTPUT),
    ):
        pass
    assert 1 == len(made.done)

"""The Spark session of a run, and how its jobs are run: in a thread, watched, cancelled cleanly when asked to stop."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from auditor.errors import SparkUnavailable
from auditor.java import find_java
from auditor.stop import Interrupted, StopRequest
from auditor.tables.class_archive import archive_path

T = TypeVar("T")

JOB_GROUP = "bookkeeper-auditor"
POLL_S = 0.1
"""How often a running job is looked at: for progress, and for a signal."""
LANES_AT_ONCE_MAX = 64
"""Bookies asked at once in local mode: each is a thread that mostly waits."""


@contextmanager
def spark_session(
    bookie_count: int, master: str | None, stop: StopRequest, *, archive_to: Path | None = None
) -> Iterator[SparkSession]:
    """A session for one run, stopped at the end. Raises SparkUnavailable with what to do.

    `archive_to`: write a class-data archive there when the JVM ends, instead of using the one that is there.
    """
    options = [] if _submitted() else _jvm_options(archive_to)
    with _interrupts_kept_from_the_jvm():
        session = _start(bookie_count, master, options)
    try:
        stop.check()
        yield session
    finally:
        session.sparkContext.cancelJobGroup(JOB_GROUP)
        session.stop()
        _end_jvm()


def _start(bookie_count: int, master: str | None, jvm_options: list[str]) -> SparkSession:
    lanes = max(2, min(bookie_count, LANES_AT_ONCE_MAX))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("bookkeeper-auditor")
    settings = dict(_SETTINGS)
    if jvm_options:
        settings["spark.driver.extraJavaOptions"] = " ".join(jvm_options)
    if master or not _submitted():
        settings["spark.master"] = master or f"local[{lanes},2]"
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # whatever py4j or the JVM's launcher raises: to the operator it is one thing
        raise SparkUnavailable(f"Spark could not be started ({error}); `auditor doctor` says what is missing") from error


_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",  # a copy of a lane would double the load on a bookie
    "spark.excludeOnFailure.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",  # it would merge lanes and split what is counted
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.files.openCostInBytes": "134217728",  # one small file, one task: the evidence is few files
    "spark.log.level": "ERROR",
}


def _submitted() -> bool:
    """Whether spark-submit started us and chose the master."""
    return "SPARK_ENV_LOADED" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ


def _jvm_options(archive_to: Path | None) -> list[str]:
    """Options of a local driver's JVM, which is started by us: quick to start, with the class-data archive where there is one."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.path)
    if archive_to is not None:
        return [f"-XX:ArchiveClassesAtExit={archive_to}"]
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
    archive = archive_path(java)
    return [*options, f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else options


@contextmanager
def _interrupts_kept_from_the_jvm() -> Iterator[None]:
    """Keep Ctrl-C from reaching the JVM directly: this process cancels the jobs first and stops the JVM itself."""
    before = signal.getsignal(signal.SIGINT)
    with suppress(ValueError):  # not the main thread: nothing to arrange
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        with suppress(ValueError):
            signal.signal(signal.SIGINT, before)


def _end_jvm() -> None:
    """Leave no JVM behind: PySpark keeps its gateway for the next session, and there is none."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()
        process.wait(timeout=_JVM_END_S)
    SparkContext._gateway = None
    SparkContext._jvm = None


_JVM_END_S = 30
"""How long the JVM may take to end after its input was closed."""


def run_job(spark: SparkSession, stop: StopRequest, action: Callable[[], T], tick: Callable[[int], None] | None = None) -> T:
    """Run one Spark action in a thread. `tick` is told the finished tasks of the group, now and then.

    Raises what the action raised, or Interrupted after cancelling it.
    """
    outcome: list[T] = []
    failure: list[BaseException] = []

    def work() -> None:
        spark.sparkContext.setJobGroup(JOB_GROUP, "audit", interruptOnCancel=True)
        try:
            outcome.append(action())
        except BaseException as error:  # carried to the caller's thread, whatever it is
            failure.append(error)

    thread = InheritableThread(target=work, session=spark)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL_S)
            stop.check()
            if tick is not None:
                tick(_finished_tasks(spark))
    except Interrupted:
        spark.sparkContext.cancelJobGroup(JOB_GROUP)
        thread.join(_CANCEL_S)
        raise
    if failure:
        raise failure[0]
    return outcome[0]


_CANCEL_S = 10.0
"""How long a cancelled job may take to give up its thread."""


def _finished_tasks(spark: SparkSession) -> int:
    tracker = spark.sparkContext.statusTracker()
    stages = (tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds())
    return sum(info.numCompletedTasks for info in stages if info is not None)

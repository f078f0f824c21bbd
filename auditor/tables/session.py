"""The Spark session of a run, and how its jobs are run: in a thread, watched, cancelled cleanly when asked to stop."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TypeVar

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from auditor.errors import SparkUnavailable
from auditor.java import find_java

T = TypeVar("T")

JOB_GROUP = "bookkeeper-auditor"
POLL_S = 0.1
"""How often a running job is looked at: for progress, and for a signal."""
LANES_AT_ONCE_MAX = 64
"""Bookies asked at once in local mode: each is a thread that mostly waits."""
CLASS_ARCHIVE_ENV = "AUDITOR_SPARK_CLASS_ARCHIVE"
"""Where the class-data archive is that set-up made (`auditor.tables.class_archive`); without it Spark starts 5 s slower."""


class Interrupted(BaseException):
    """The process was asked to stop. Not an Exception: nothing may swallow it on the way to the exit code."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number


class StopRequest:
    """Remembers SIGINT and SIGTERM; raising inside a handler would corrupt the conversation with the JVM."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._signal_number = 0

    def install(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._remember)

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self._signal_number = number
        self._event.set()

    def check(self) -> None:
        """Raise Interrupted if a signal came."""
        if self._event.is_set():
            raise Interrupted(self._signal_number)

    def wait(self, seconds: float) -> None:
        """Sleep, or raise Interrupted as soon as a signal comes."""
        self._event.wait(seconds)
        self.check()


@contextmanager
def spark_session(bookie_count: int, master: str | None, stop: StopRequest) -> Iterator[SparkSession]:
    """A session for one run, stopped at the end. Raises SparkUnavailable with what to do."""
    with _java_home(), _own_process_group_for_the_jvm():
        session = _start(bookie_count, master)
    try:
        stop.check()
        yield session
    finally:
        session.sparkContext.cancelJobGroup(JOB_GROUP)
        session.stop()
        _end_jvm()


def _start(bookie_count: int, master: str | None) -> SparkSession:
    lanes = max(2, min(bookie_count, LANES_AT_ONCE_MAX))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("bookkeeper-auditor")
    settings = _SETTINGS | _options()
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


def _options() -> dict[str, str]:
    """JVM options of a local driver: quick to start, and classes from the archive where set-up made one."""
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
    archive = os.environ.get(CLASS_ARCHIVE_ENV, "")
    if archive and Path(archive).is_file():
        options.append(f"-XX:SharedArchiveFile={archive}")
    return {"spark.driver.extraJavaOptions": " ".join(options)}


@contextmanager
def _java_home() -> Iterator[None]:
    if not _submitted():
        os.environ["JAVA_HOME"] = str(find_java().path)
    yield


@contextmanager
def _own_process_group_for_the_jvm() -> Iterator[None]:
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

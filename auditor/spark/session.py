"""The Spark session of a run, and how its jobs are run: in a thread, watched, cancelled cleanly
when asked to stop.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TypeVar

from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark import InheritableThread, SparkConf, SparkContext
from pyspark.sql import SparkSession

from auditor.bookie.client import LANES_AT_ONCE_MAX
from auditor.errors import (
    AuditorError,
    OutputError,
    SparkJobFailed,
    SparkStalled,
    SparkUnavailable,
    StoreUnavailable,
    WorkerDied,
)
from auditor.java import find_java
from auditor.spark.class_archive import MAKING_TIMEOUT_S, reading_options, writing_options
from auditor.spark.private_spark import (
    JVM_END_S,
    end_jvm,
    session_of_this_process,
    silence_accumulators,
    start_jvm,
)
from auditor.spark.stall_watch import StallWatch
from auditor.stop import Interrupted, StopRequest

T = TypeVar("T")

Session = SparkSession
"""What `spark_session` gives, for those who hand it on and do nothing with Spark themselves."""

JOB_GROUP = "bookkeeper-auditor"
POLL_S = 0.1
"""How often a running job is looked at: for progress, and for a signal."""
LAST_WORDS_BYTES = 2_000
"""What is shown of a JVM's output when it could not be started."""


@contextmanager
def spark_session(
    bookie_count: int,
    master: str | None,
    stop: StopRequest,
    *,
    verbose: bool = False,
    archive_to: Path | None = None,
    lock: int | None = None,
    lasting: bool = False,
) -> Iterator[SparkSession]:
    """A session for one run, stopped at the end; one that this process has already (a notebook's)
    is used and left alone.

    `archive_to`: write a class-data archive there when the JVM ends, instead of using the one that
    is there. `lock`: a descriptor that a JVM started here keeps open: where this process is killed,
    the lock lapses when nothing writes any more. `lasting`: it is for many runs, and its code is
    worth compiling well. Raises SparkUnavailable with what to do.
    """
    session = session_of_this_process()
    if session is not None:
        yield session
        return
    with tempfile.TemporaryFile() as spoken:
        try:
            options = [] if is_submitted() else _jvm_options(archive_to, lasting)
            session = _start(bookie_count, master, None if verbose else spoken, options, lock)
        except SparkUnavailable:
            stop.check()  # a signal to the whole group ends the JVM too
            raise
        try:
            stop.check()
            yield session
        finally:
            with suppress(
                Exception
            ):  # a JVM that was ended by a signal cannot be told anything any more
                session.sparkContext.cancelJobGroup(JOB_GROUP)
                session.stop()
            end_jvm(JVM_END_S if archive_to is None else MAKING_TIMEOUT_S)


def _start(
    bookie_count: int,
    master: str | None,
    spoken: IO[bytes] | None,
    options: list[str],
    lock: int | None,
) -> SparkSession:
    """`spoken` takes what the JVM says, which is of no use to an operator unless it fails to
    start.
    """
    settings = dict(_SETTINGS)
    settings["spark.hadoop.fs.permissions.umask-mode"] = (
        f"{_own_umask():03o}"  # Hadoop sets modes itself
    )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master or not is_submitted():
        settings["spark.master"] = (
            master or f"local[{max(2, min(bookie_count, LANES_AT_ONCE_MAX))},2]"
        )
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if not is_submitted():
        settings[_SHUFFLE_PARTITIONS] = str(max(2, os.cpu_count() or 2))
        settings["spark.driver.extraJavaOptions"] = " ".join(options)
        settings["spark.python.daemon.module"] = "auditor.spark.worker_daemon"
    conf = SparkConf().setAppName("bookkeeper-auditor").setAll(list(settings.items()))
    try:
        gateway = start_jvm(conf, spoken, () if lock is None else (lock,))
        context = _with_our_signals(lambda: SparkContext(gateway=gateway, conf=conf))
        silence_accumulators(context)
        session = SparkSession(context)
        if (context.master or "").startswith("local") and not context.getConf().contains(
            _SHUFFLE_PARTITIONS
        ):
            # Submitted to one machine: Spark's own 200 would start 200 Python tasks there for a
            # handful of ledgers.
            session.conf.set(_SHUFFLE_PARTITIONS, str(max(2, context.defaultParallelism)))
        return session
    except (
        Exception
    ) as error:  # whatever py4j or the JVM's launcher raises: to the operator it is one thing
        end_jvm()
        said = _last_words(spoken)
        raise SparkUnavailable(
            f"Spark could not be started ({error}){said}; `auditor doctor` says what is missing"
        ) from error


def _own_umask() -> int:
    """Return the umask of this process. It can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _with_our_signals(start: Callable[[], T]) -> T:
    """What `start` returns. PySpark takes SIGINT for itself and raises wherever it strikes: it is
    put back as it was.
    """
    if threading.current_thread() is not threading.main_thread():
        return start()
    ours = signal.getsignal(signal.SIGINT)
    try:
        return start()
    finally:
        signal.signal(signal.SIGINT, ours)


def _last_words(spoken: IO[bytes] | None) -> str:
    """The end of what the JVM said before it failed."""
    if spoken is None:
        return ""
    size = spoken.seek(0, os.SEEK_END)
    spoken.seek(max(0, size - LAST_WORDS_BYTES))
    return f"; the JVM said: {spoken.read().decode(errors='replace').strip()}"


_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",  # a copy of a lane would double the load on a bookie
    "spark.excludeOnFailure.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",  # it would merge lanes and split what is counted
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",
    "spark.sql.parquet.compression.codec": "zstd",
    # A job that fails leaves nothing behind: what tasks wrote is moved in place when all are done.
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "1",
    "spark.sql.files.openCostInBytes": (
        "134217728"
    ),  # one small file, one task: the evidence is few files
    "spark.log.level": "ERROR",
}


def is_submitted() -> bool:
    """Whether spark-submit started us and chose the master."""
    return "SPARK_ENV_LOADED" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ


def _jvm_options(archive_to: Path | None, lasting: bool) -> list[str]:
    """Options of a driver's JVM that we start: quick to be up, with the class-data archive where
    there is one.
    """
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.path)
    if archive_to is not None:
        return writing_options(java, archive_to)
    options = [
        "-XX:+UseSerialGC",
        *_ARROW_OPTIONS,
        *([] if lasting else ["-XX:TieredStopAtLevel=1"]),
    ]
    return [*options, *reading_options(java)]


_ARROW_OPTIONS = (
    "-Darrow.enable_unsafe_memory_access=true",
    "-Darrow.enable_null_check_for_get=false",
)
"""Arrow's Java side without a bounds check at each value Spark writes: they took a quarter of the
JVM's time in a run.
"""


def run_job(
    spark: SparkSession,
    stop: StopRequest,
    action: Callable[[], T],
    tick: Callable[[int], None],
    stall_max_s: float,
) -> T:
    """Run one Spark action in a thread. `tick` is told the finished tasks of the stages at work,
    now and then.

    Raises what the action raised. Cancels the job and raises Interrupted after a signal, or
    SparkStalled if no task of it finished for `stall_max_s`.
    """
    watch = StallWatch(stall_max_s)
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
            stages, finished = _progress(spark)
            tick(finished)
            if watch.is_stalled((stages, finished)) and thread.is_alive():
                raise SparkStalled(_STALLED.format(stall_max_s))
    except (Interrupted, SparkStalled):
        spark.sparkContext.cancelJobGroup(JOB_GROUP)
        thread.join(_CANCEL_S)
        raise
    stop.check()  # a signal to the whole group ends the JVM first: that is no failure of the job
    if failure:
        raise _ours(failure[0])
    return outcome[0]


def renew_workers(spark: SparkSession) -> None:
    """Let jobs begun from now on use none of the Python workers there are: Spark tells them apart
    by their environment.
    """
    environment = spark.sparkContext.environment
    environment[_WORKERS] = str(int(environment.get(_WORKERS, "0")) + 1)


_WORKERS = "BOOKKEEPER_AUDITOR_WORKERS"
"""Says which generation of workers a process belongs to."""


def _ours(failure: BaseException) -> AuditorError:
    """What failed, as text: Spark's own exceptions cannot be read any more once the session has
    ended.
    """
    text = str(failure)
    if isinstance(failure, (Py4JNetworkError, OSError)) or type(failure) is Py4JError:
        return SparkJobFailed(
            "Spark's JVM does not answer any more: it was killed, or it ran out of memory", text
        )
    found = _STORE_UNAVAILABLE.search(text)
    if found:
        return StoreUnavailable(found.group(1))
    full = _NOT_WRITTEN.search(text)
    if full:
        return OutputError(f"a Spark task cannot write: {full.group(1)}")
    died = _DIED.search(text)
    if died:
        return WorkerDied(died.group(), text)
    raised = _RAISED.findall(text)
    return SparkJobFailed(
        (
            raised[-1]
            if raised
            else f"{type(failure).__name__}: {text.splitlines()[0] if text else ''}"
        ),
        text,
    )


_STORE_UNAVAILABLE = re.compile(
    rf"{StoreUnavailable.__module__}\.{StoreUnavailable.__name__}: (.+)"
)
_NOT_WRITTEN = re.compile(
    r"Exception: ((?:No space left on device|Disk quota exceeded|File too large|Read-only file"
    r" system)\b[^\n]*)"
)
"""What the JVM says of a file system that takes no more: the directory of the run, or Spark's
own.
"""
_DIED = re.compile(r"Python worker exited unexpectedly[^\n]*|ExecutorLostFailure[^\n]*")
"""A process that judged is gone: it was killed, or it ended itself. What it may have printed before
is none of ours.
"""
_RAISED = re.compile(
    r"^(?:pyspark\.errors\.exceptions\.base\.)?([A-Za-z_.]*(?:Error|Exception|Exit)\b.*|auditor\.[A-Za-z_.]+:"
    r" .*)$",
    re.MULTILINE,
)
"""The last lines of Python tracebacks: what was raised in the task."""
_CANCEL_S = 10.0
"""How long a cancelled job may take to give up its thread."""


_STALLED = (
    "no task of a Spark job finished for {:,.0f} s (--spark-stall-max), so the job was cancelled: a"
    " worker or an executor hangs or was stopped; see what its processes do, or raise the limit if"
    " it works"
)


def _progress(spark: SparkSession) -> tuple[frozenset[int], int]:
    """Return the stages at work and how many of their tasks have finished."""
    tracker = spark.sparkContext.statusTracker()
    try:
        active = list(tracker.getActiveStageIds())
        stages = [tracker.getStageInfo(stage) for stage in active]
    except (Py4JError, OSError):
        return frozenset(), 0  # the JVM is gone: the job that was at work says so
    return frozenset(active), sum(info.numCompletedTasks for info in stages if info is not None)

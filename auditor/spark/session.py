"""Start the Spark session of a run, with settings that keep one conversation with each bookie."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TypeVar

from pyspark import SparkConf, SparkContext
from pyspark import __version__ as installed_version
from pyspark.sql import SparkSession

from auditor.bookie.lane import LANES_AT_ONCE_MAX
from auditor.errors import SparkUnavailable, text_of
from auditor.evidence.file_systems import s3_endpoint, s3_region
from auditor.evidence.local_files import own_umask
from auditor.host_limits import require_room_for_spark
from auditor.java import find_java
from auditor.spark.class_archive import MAKING_TIMEOUT_S, reading_options, writing_options
from auditor.spark.installation import check_spark_version, is_local_master, is_submitted
from auditor.spark.jobs import jvm_does
from auditor.spark.private_spark import (
    JVM_END_S,
    end_jvm,
    session_of_this_process,
    silence_accumulators,
    start_jvm,
)
from auditor.stop import StopRequest

T = TypeVar("T")

STOP_S = 30.0
"""How long a session may take to stop its jobs and executors, in seconds. It takes one or two."""
LAST_WORDS_BYTES = 2_000
"""At most this much of the end of a JVM's output is shown if it could not be started."""


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
    """Yield a session for one run, and stop it at the end.

    A session that this process already has (a notebook's) is used and left running. `archive_to`:
    write a class-data archive there when the JVM ends, instead of using an existing one. `lock`: a
    descriptor that a JVM started here keeps open: if this process is killed, the lock ends only
    when nothing writes any more. `lasting`: the session is for many runs, and its code is worth
    compiling well. Raises SparkUnavailable with what to do, also for a version that is not
    supported, and LocalFault for limits under which no JVM starts.
    """
    check_spark_version(installed_version, "PySpark")
    session = session_of_this_process()
    if session is not None:
        yield session
        return
    if not is_submitted():
        require_room_for_spark()
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
            answers = _stop(session)
            end_s = JVM_END_S if archive_to is None else MAKING_TIMEOUT_S
            end_jvm(end_s if answers else 0)


def _stop(session: SparkSession) -> bool:
    """Stop a session. Return whether that took less than STOP_S: its JVM may hang, or be
    stopped.
    """

    def stop() -> None:
        with suppress(Exception):  # a JVM that a signal ended accepts no more calls
            session.sparkContext.cancelAllJobs()
            session.stop()

    return jvm_does(stop, STOP_S)


def _start(
    bookie_count: int,
    master: str | None,
    spoken: IO[bytes] | None,
    options: list[str],
    lock: int | None,
) -> SparkSession:
    """Start a session. `spoken` gets the JVM's output, which matters only if it fails to start."""
    conf = _configuration(bookie_count, master, options)
    try:
        gateway = start_jvm(conf, spoken, () if lock is None else (lock,))
        theirs = SparkConf(_jvm=gateway.jvm)  # with spark-defaults.conf and --conf
        chosen = conf.get(_MASTER, theirs.get(_MASTER))
        added = {**_s3_settings(), **_authentication(chosen), **_executors(chosen)}
        conf.setAll([(key, v) for key, v in added.items() if not theirs.contains(key)])
        context = _with_our_signals(lambda: SparkContext(gateway=gateway, conf=conf))
        silence_accumulators(context)
        session = SparkSession(context)
        check_spark_version(session.version, "the Spark of SPARK_HOME or spark-submit")
        if is_local_master(context.master) and not context.getConf().contains(_SHUFFLE_PARTITIONS):
            # Submitted to one machine: Spark's default would start 200 Python tasks for a handful
            # of ledgers.
            session.conf.set(_SHUFFLE_PARTITIONS, str(max(2, context.defaultParallelism)))
        return session
    except Exception as error:
        # py4j and the JVM's launcher raise many things: for the operator they are the same.
        end_jvm()
        said = _last_words(spoken)
        raise SparkUnavailable(
            f"Spark could not be started ({text_of(error)}){said};"
            " `auditor doctor` says what is missing"
        ) from error


def _configuration(bookie_count: int, master: str | None, options: list[str]) -> SparkConf:
    """Return the settings of the session. Also sets the path of Python in this process's
    environment.
    """
    # Hadoop sets the modes of files itself.
    settings = {
        **_SETTINGS,
        "spark.hadoop.fs.permissions.umask-mode": f"{own_umask():03o}",
    }
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master or not is_submitted():
        lanes = max(2, min(bookie_count, LANES_AT_ONCE_MAX))
        settings[_MASTER] = master or f"local[{lanes},2]"
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if not is_submitted():
        cores = str(max(2, os.cpu_count() or 2))
        settings[_SHUFFLE_PARTITIONS] = cores
        if is_local_master(settings[_MASTER]):
            settings |= _few_tasks(cores)
        settings["spark.driver.extraJavaOptions"] = " ".join(options)
        settings["spark.python.daemon.module"] = "auditor.spark.worker_daemon"
    return SparkConf().setAppName("bookkeeper-auditor").setAll(list(settings.items()))


def _few_tasks(cores: str) -> dict[str, str]:
    """Return the settings with which Spark on one machine reads small files in few tasks.

    It takes each lane for a core. A table has a small file for each lane, and to read each in a
    task of its own costs more than what it has. To find more than 32 files Spark would start a job
    with a task for each. Rows of the driver would be cut into a task for each lane, too.
    """
    return {
        "spark.sql.files.minPartitionNum": cores,
        "spark.sql.leafNodeDefaultParallelism": cores,
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    }


def _authentication(master: str | None) -> dict[str, str]:
    """Return the setting without which Spark's ports serve whoever connects to them.

    They would send shuffled rows to any user of the machine, and pass any bytes to Java's
    deserialization. In local mode Spark makes the secret itself and keeps it in memory: no
    argument, variable, file or setting has it. On a cluster the operator decides, whose masters and
    workers must know the same secret.
    """
    return {"spark.authenticate": "true"} if is_local_master(master) else {}


def _executors(master: str | None) -> dict[str, str]:
    """Return the settings of executors, unless this machine's one JVM runs every task.

    An executor lives as long as a run. Compiling its code well took half of the time of its
    processor in a run of 100,000 ledgers, and is not paid back. Their Java is not known here.
    """
    if is_local_master(master):
        return {}
    return {"spark.executor.extraJavaOptions": " ".join([_ANY_JAVA, *_ARROW_OPTIONS, _QUICK])}


def _s3_settings() -> dict[str, str]:
    """Return the settings with which Hadoop's S3A uses the server of the AWS SDK's variables.

    S3A reads the credentials from these variables, but neither endpoint nor region. Settings that
    the operator gives to Spark have precedence.
    """
    endpoint, region = s3_endpoint(), s3_region()
    settings: dict[str, str] = {}
    if endpoint:
        settings |= {f"{_S3A}.endpoint": endpoint, f"{_S3A}.path.style.access": "true"}
    if region:
        settings[f"{_S3A}.endpoint.region"] = region
    return settings


def _with_our_signals(start: Callable[[], T]) -> T:
    """Return what `start` returns, and keep our own handler of SIGINT.

    PySpark replaces it by one that raises anywhere.
    """
    if threading.current_thread() is not threading.main_thread():
        return start()
    ours = signal.getsignal(signal.SIGINT)
    try:
        return start()
    finally:
        signal.signal(signal.SIGINT, ours)


def _last_words(spoken: IO[bytes] | None) -> str:
    """Return the end of the JVM's output before it failed."""
    if spoken is None:
        return ""
    size = spoken.seek(0, os.SEEK_END)
    spoken.seek(max(0, size - LAST_WORDS_BYTES))
    return f"; the JVM said: {spoken.read().decode(errors='replace').strip()}"


_MASTER = "spark.master"
_S3A = "spark.hadoop.fs.s3a"
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
    # A failed job leaves nothing behind: tasks' files are moved in place at its end.
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "1",
    "spark.log.level": "ERROR",
}


def _jvm_options(archive_to: Path | None, lasting: bool) -> list[str]:
    """Return the options of a driver's JVM: a quick start, and the class-data archive if there is
    one.
    """
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.path)
    if archive_to is not None:
        return writing_options(java, archive_to)
    options = [
        "-XX:+UseSerialGC",
        *_ARROW_OPTIONS,
        *([] if lasting else [_QUICK]),
    ]
    return [*options, *reading_options(java)]


_QUICK = "-XX:TieredStopAtLevel=1"
"""The option of a JVM that compiles quickly: only with the first of its compilers."""
_ANY_JAVA = "-XX:+IgnoreUnrecognizedVMOptions"
_ARROW_OPTIONS = (
    "-Darrow.enable_unsafe_memory_access=true",
    "-Darrow.enable_null_check_for_get=false",
)
"""Options of Arrow's Java side: no bounds check for each value that Spark writes. The checks took a
quarter of the JVM's time in a run."""

"""Run Spark jobs in a thread, watch them, and cancel them cleanly on a signal.

An exception of a job becomes an operating error, as text. A job in which no task ends any more
shows that a worker or an executor hangs.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from itertools import count
from threading import Event, Thread
from typing import TypeVar

from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark import InheritableThread
from pyspark.sql import SparkSession

from auditor.errors import (
    AuditorError,
    LocalFault,
    OutputError,
    SparkJobFailed,
    SparkStalled,
    SparkUnavailable,
    StoreUnavailable,
    WorkerDied,
)
from auditor.local_faults import UNWRITABLE, exhaustion, local_fault_in
from auditor.spark.private_spark import own_connection
from auditor.stop import Interrupted, StopRequest

PAUSE_MAX_S = 1.0
"""At most so many seconds between two calls count as time in which the job made no progress."""


class StallWatch:
    """Watches the progress of one job. `max_s`: seconds a job may go on without any progress.

    The bound is on the time between two tasks that finish, not on the whole job: a large cluster
    takes long, and each of its lanes ends within `--bookie-deadline`. Call `is_stalled` often: a
    longer pause between two calls means that this process was stopped, and counts as PAUSE_MAX_S
    only.
    """

    def __init__(self, max_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_s, self._clock = max_s, clock
        self._last: Hashable = None
        self._called_s, self._spent_s = clock(), 0.0

    def is_stalled(self, progress: Hashable) -> bool:
        """Record the progress, in any form. Return whether it was the same `max_s` ago."""
        now = self._clock()
        self._spent_s += min(now - self._called_s, PAUSE_MAX_S)
        self._called_s = now
        if progress != self._last:
            self._last, self._spent_s = progress, 0.0
        return self._spent_s >= self._max_s


T = TypeVar("T")

JOB_GROUP = "bookkeeper-auditor"
_NUMBERS = count(1)
POLL_S = 0.1
"""How often a running job is checked: for a signal, and at first for progress."""
PROGRESS_MAX_S = 1.0
"""The progress of a long job is asked for at least so often. Each time costs this process and the
JVM milliseconds."""
_PAUSE_GROWS = 1.2


def run_job(
    spark: SparkSession,
    stop: StopRequest,
    action: Callable[[], T],
    tick: Callable[[int], None],
    stall_max_s: float,
) -> T:
    """Run one Spark action in a thread, and call `tick` regularly with the number of finished
    tasks.

    Raises what the action raised. Cancels the job and raises Interrupted after a signal, or
    SparkStalled if no task finished for `stall_max_s`. This works in time even if the JVM answers
    nothing: only threads that may be abandoned talk to it.

    Two threads may run jobs at once. Each job has a group of its own, and the tasks of both count
    as progress.
    """
    outcome: list[T] = []
    failure: list[BaseException] = []
    group = f"{JOB_GROUP}-{next(_NUMBERS)}"
    try:
        _held = own_connection(spark)
    except (Py4JError, OSError) as error:
        stop.check()
        raise _ours(error) from error

    def work() -> None:
        spark.sparkContext.setJobGroup(group, "audit", interruptOnCancel=True)
        outcome.append(action())

    thread = InheritableThread(target=work, session=spark)
    inherit_and_work = thread.run

    def run() -> None:
        try:
            _held = own_connection(spark)
            inherit_and_work()
        except BaseException as error:  # raised again in the caller's thread
            failure.append(error)

    thread.run = run  # type: ignore[method-assign]
    thread.daemon = True
    thread.start()
    try:
        _watch(thread, spark, stop, tick, stall_max_s)
    except (Interrupted, SparkStalled):
        jvm_does(lambda: spark.sparkContext.cancelJobGroup(group), _CANCEL_S)
        thread.join(_CANCEL_S)
        raise
    stop.check()  # a signal to the whole group ends the JVM first: the job did not fail
    if failure:
        raise _ours(failure[0])
    return outcome[0]


def jvm_does(work: Callable[[], object], within_s: float) -> bool:
    """Return whether the JVM did this in time. If not, a thread still waits for its answer."""
    thread = _start_thread(work)
    thread.join(within_s)
    return not thread.is_alive()


def _start_thread(work: Callable[[], object]) -> Thread:
    """Return a thread that talks to the JVM, and is abandoned if that does not answer.

    Nobody hears of its exception. Python would print it, maybe while this process ends, which would
    abort it. An InheritableThread would ask the JVM something before it starts.
    """

    def run() -> None:
        with suppress(Exception):
            work()

    thread = Thread(target=run, daemon=True)
    thread.start()
    return thread


def _watch(
    thread: Thread,
    spark: SparkSession,
    stop: StopRequest,
    tick: Callable[[int], None],
    stall_max_s: float,
) -> None:
    """Return when the thread of a job has ended. Raises Interrupted or SparkStalled before that."""
    watch = StallWatch(stall_max_s)
    seen: list[tuple[frozenset[int], int]] = [(frozenset(), 0)]
    is_over = Event()

    def follow() -> None:
        with suppress(Py4JError, OSError):  # the JVM is gone, which the running job reports
            _held = own_connection(spark)
        pause = POLL_S
        while not is_over.wait(pause):
            seen[0] = _progress(spark)
            pause = min(pause * _PAUSE_GROWS, PROGRESS_MAX_S)

    follower = _start_thread(follow)
    try:
        while thread.is_alive():
            thread.join(POLL_S)
            stop.check()
            tick(seen[0][1])
            if watch.is_stalled(seen[0]) and thread.is_alive():
                raise SparkStalled(_STALLED.format(stall_max_s))
    finally:
        is_over.set()
        follower.join(_ANSWER_S)


def renew_workers(spark: SparkSession) -> None:
    """Make later jobs start new Python workers: Spark tells workers apart by their environment.

    Another thread may pass the environment of now to its own job.
    """
    context = spark.sparkContext
    generation = int(context.environment.get(_WORKERS, "0")) + 1
    context.environment = {**context.environment, _WORKERS: str(generation)}


_WORKERS = "BOOKKEEPER_AUDITOR_WORKERS"
"""Names the generation of workers to which a process belongs."""


JVM_GONE = (
    "Spark's JVM does not answer any more: it was killed, or it ran out of memory. See the log of"
    " the kernel, and leave it more memory if that was the cause"
)


def has_jvm_ended(failure: BaseException) -> bool:
    """Return whether an exception of Spark or py4j shows that the JVM has ended.

    An exception that Spark captured asks the JVM for its text, and raises once that has ended.
    """
    if isinstance(failure, Py4JNetworkError) or type(failure) is Py4JError:
        return True
    try:
        str(failure)
    except Exception:
        return True
    return False


def _ours(failure: BaseException) -> AuditorError:
    """Return an operating error with the failure as text.

    Spark's own exceptions cannot be read once the session has ended.
    """
    if isinstance(failure, OSError):
        return exhaustion(failure) or SparkUnavailable(JVM_GONE)
    if has_jvm_ended(failure):
        return SparkUnavailable(JVM_GONE)
    text = str(failure)
    limited = _LOCAL_FAULT.search(text)
    if limited:
        return LocalFault(f"in a task of Spark: {limited.group(1)}")
    found = _STORE_UNAVAILABLE.search(text)
    if found:
        return StoreUnavailable(found.group(1))
    full = _NOT_WRITTEN.search(text)
    if full:
        return OutputError(f"a Spark task cannot write: {full.group(1)}")
    unwritten = _OUTPUT_ERROR.search(text)
    if unwritten:
        return OutputError(f"a Spark task {unwritten.group(1)}")
    unfit = _WORKERS_UNFIT.search(text)
    if unfit:
        return SparkUnavailable(_UNFIT.format(unfit.group()))
    fault = local_fault_in(text)
    if fault is not None:
        return LocalFault(f"in a task of Spark: {fault}")
    died = _DIED.search(text)
    if died:
        return WorkerDied(died.group(), text)
    raised = _RAISED.findall(text)
    if raised:
        return SparkJobFailed(raised[-1], text)
    causes = _JAVA.findall(text)
    if causes:
        return SparkJobFailed(causes[-1], text)
    first_line = text.splitlines()[0] if text else ""
    return SparkJobFailed(f"{type(failure).__name__}: {first_line}", text)


_STORE_UNAVAILABLE = re.compile(
    rf"{StoreUnavailable.__module__}\.{StoreUnavailable.__name__}: (.+)"
)
_LOCAL_FAULT = re.compile(rf"{LocalFault.__module__}\.{LocalFault.__name__}: (.+)")
_OUTPUT_ERROR = re.compile(rf"{OutputError.__module__}\.{OutputError.__name__}: (.+)")
_NOT_WRITTEN = re.compile(rf"Exception: ((?:{'|'.join(UNWRITABLE)})\b[^\n]*)")
"""Messages of the JVM for a full file system: that of the run's directory, or Spark's own."""
_WORKERS_UNFIT = re.compile(
    r"\[PYTHON_VERSION_MISMATCH\][^\n]*"
    r"|EOFException occurred while reading the port number from [^\n]*"
)
"""Messages of Spark for a worker whose Python differs from the driver's, or cannot load the
auditor."""
_UNFIT = (
    "the Python of Spark's workers cannot run the auditor ({}): set PYSPARK_PYTHON to a Python of"
    " the driver's version, with the auditor and its dependencies, on every machine"
)
_DIED = re.compile(r"Python worker exited unexpectedly[^\n]*|ExecutorLostFailure[^\n]*")
"""Messages of Spark for a process that is gone while it judged: it was killed, or ended itself.
What it may have printed before is not our text."""
_RAISED = re.compile(
    r"^(?:pyspark\.errors\.exceptions\.base\.)?"
    r"([A-Za-z_.]*(?:Error|Exception|Exit)\b.*|auditor\.[A-Za-z_.]+: .*)$",
    re.MULTILINE,
)
"""The last lines of Python tracebacks: the exception of the task."""
_JAVA = re.compile(r"^(?:Caused by)?: ([\w.$]+(?:Error|Exception)\b.*)$", re.MULTILINE)
"""Java exceptions and their causes: the last one is the root cause."""
_CANCEL_S = 10.0
"""How long a job may take to be cancelled, and then to end its thread, in seconds."""
_ANSWER_S = 1.0
"""How long the last query for progress may take, in seconds. It takes a millisecond."""

_STALLED = (
    "no task of a Spark job finished for {:,.0f} s (--spark-stall-max), so the job was given up:"
    " a worker, an executor or Spark's JVM hangs or was stopped; see what its processes do, or"
    " raise the limit if it works"
)


def _progress(spark: SparkSession) -> tuple[frozenset[int], int]:
    """Return the running stages, and how many of their tasks have finished."""
    tracker = spark.sparkContext.statusTracker()
    try:
        active = list(tracker.getActiveStageIds())
        stages = [tracker.getStageInfo(stage) for stage in active]
    except (Py4JError, OSError):
        return frozenset(), 0  # the JVM is gone, which the running job reports
    return frozenset(active), sum(info.numCompletedTasks for info in stages if info is not None)

"""What becomes of an exception that a Spark job raised."""

from __future__ import annotations

import errno
import signal
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from auditor.errors import (
    LocalFault,
    OutputError,
    SparkJobFailed,
    SparkStalled,
    SparkUnavailable,
    WorkerDied,
)
from auditor.spark import jobs
from auditor.stop import Interrupted, StopRequest

STALL_MAX_S = 60.0
OF_JAVA = """An error occurred while calling o145.parquet.
: java.lang.RuntimeException: java.lang.ClassNotFoundException: Class a.S3AFileSystem not found
\tat org.apache.hadoop.conf.Configuration.getClass(Configuration.java:2737)
Caused by: java.lang.ClassNotFoundException: Class a.S3AFileSystem not found
\tat org.apache.hadoop.conf.Configuration.getClassByName(Configuration.java:2640)
\t... 25 more
"""
MISMATCH = (
    "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver:"
    " 3.11, PySpark cannot run with different minor versions."
)
UNLOADABLE = (
    "EOFException occurred while reading the port number from auditor.spark.worker_daemon's stdout."
)


class Context:
    """A Spark whose jobs have no stages. No thread has a connection of its own to its JVM."""

    _gateway = None

    def setJobGroup(self, *_: object, **__: object) -> None:
        pass

    def statusTracker(self) -> SimpleNamespace:
        return SimpleNamespace(getActiveStageIds=tuple, getStageInfo=lambda _: None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (OF_JAVA, "java.lang.ClassNotFoundException: Class a.S3AFileSystem not found"),
        (
            "An error occurred while calling o1.parquet.\n: java.io.IOException: no host x\n\tat a",
            "java.io.IOException: no host x",
        ),
        ("something else\nand more", "ValueError: something else"),
    ],
)
def test_the_first_cause_in_java_is_named(
    text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator can act on it. Without a cause in Java, the first line of the error is named."""
    with pytest.raises(SparkJobFailed) as raised:
        fail_with(text, monkeypatch)
    assert (said, text) == (str(raised.value), raised.value.detail)


@pytest.mark.parametrize("said", [MISMATCH, UNLOADABLE])
def test_workers_with_an_unfit_python_end_the_run_with_what_to_set(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not a fault of the auditor. The error has Spark's words, and names PYSPARK_PYTHON."""
    with pytest.raises(SparkUnavailable) as unfit:
        fail_with(f"An error occurred while calling o1.parquet.\n: {said}\n\tat a", monkeypatch)
    assert said in str(unfit.value)
    assert "set PYSPARK_PYTHON to a Python of the driver's version" in str(unfit.value)


@pytest.mark.parametrize(
    "said",
    [
        "Python worker exited unexpectedly (crashed)",
        "ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: 137",
    ],
)
def test_workers_that_end_at_every_attempt_are_no_fault_of_our_logic(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who kills a process is outside of it. The sentence has Spark's words and what to do."""
    text = f"An error occurred.\n: org.apache.spark.SparkException: {said}\n\tat a\nOurError: x"
    with pytest.raises(WorkerDied) as died:
        fail_with(text, monkeypatch)
    assert isinstance(died.value, SparkUnavailable)
    assert (said, text) == (died.value.said, died.value.detail)
    assert said in str(died.value)
    assert "leave them more memory" in str(died.value)


def test_what_a_task_cannot_write_is_said_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that writes a file itself raises our error."""
    traceback = (
        "An error occurred.\n: org.apache.spark.api.python.PythonException: Traceback ...:\n"
        "auditor.errors.OutputError: cannot write file:///a/b: No space left on device\n\n\tat a"
    )
    with pytest.raises(OutputError) as raised:
        fail_with(traceback, monkeypatch)
    assert "a Spark task cannot write file:///a/b: No space left on device" == str(raised.value)


def fail_with(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a job that raises an error with this text."""
    raise_in_a_job(ValueError(text), monkeypatch)


def raise_in_a_job(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a job that raises this error."""
    monkeypatch.setattr(jobs, "InheritableThread", lambda target, session: Thread(target=target))

    def fail() -> None:
        raise error

    spark = SimpleNamespace(sparkContext=Context())
    jobs.run_job(spark, StopRequest(), fail, lambda _: None, STALL_MAX_S)  # type: ignore[arg-type]


class Hung(Context):
    """A Spark whose JVM answers nothing."""

    def __init__(self) -> None:
        self.wakes = Event()

    def statusTracker(self) -> SimpleNamespace:
        self.wakes.wait()
        return super().statusTracker()

    def cancelJobGroup(self, _: str) -> None:
        self.wakes.wait()


def test_a_jvm_that_answers_nothing_does_not_hold_up_a_signal_or_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only threads that may be left ask it: the job is given up in time."""
    monkeypatch.setattr(jobs, "InheritableThread", lambda target, session: Thread(target=target))
    monkeypatch.setattr(jobs, "POLL_S", 0.01)
    monkeypatch.setattr(jobs, "_CANCEL_S", 0.01)
    monkeypatch.setattr(jobs, "_ANSWER_S", 0.01)
    hung = Hung()
    spark = SimpleNamespace(sparkContext=hung)
    try:
        with pytest.raises(SparkStalled):
            jobs.run_job(spark, StopRequest(), hung.wakes.wait, lambda _: None, 0.05)  # type: ignore[arg-type]
        stop = StopRequest()
        stop._remember(signal.SIGTERM, None)
        with pytest.raises(Interrupted):
            jobs.run_job(spark, stop, hung.wakes.wait, lambda _: None, STALL_MAX_S)  # type: ignore[arg-type]
    finally:
        hung.wakes.set()


class Grouped(Context):
    """A Spark that records which groups of jobs were begun, and which were cancelled."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.cancelled: list[str] = []

    def setJobGroup(self, group: str, *_: object, **__: object) -> None:
        self.begun.append(group)

    def cancelJobGroup(self, group: str) -> None:
        self.cancelled.append(group)


def test_a_job_that_is_given_up_leaves_that_of_another_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark cancels all jobs of a group: each job has one of its own."""
    monkeypatch.setattr(jobs, "InheritableThread", lambda target, session: Thread(target=target))
    monkeypatch.setattr(jobs, "_CANCEL_S", 0.01)
    context, stop = Grouped(), StopRequest()
    spark = SimpleNamespace(sparkContext=context)
    has_begun, may_end = Event(), Event()

    def wait() -> bool:
        has_begun.set()
        return may_end.wait(STALL_MAX_S)

    def give_up() -> bool:
        stop._remember(signal.SIGTERM, None)
        return wait()

    other = Thread(
        target=lambda: jobs.run_job(spark, StopRequest(), wait, lambda _: None, STALL_MAX_S)  # type: ignore[arg-type]
    )
    other.start()
    try:
        assert has_begun.wait(STALL_MAX_S)
        with pytest.raises(Interrupted):
            jobs.run_job(spark, stop, give_up, lambda _: None, STALL_MAX_S)  # type: ignore[arg-type]
    finally:
        may_end.set()
        other.join()
    theirs, ours = context.begun
    assert theirs != ours
    assert [ours] == context.cancelled


def test_new_workers_have_another_environment_and_that_of_a_job_in_another_thread_stays():
    """PySpark passes the environment on key by key: a key more meanwhile would be an error."""
    context: Any = SimpleNamespace(environment={"A": "1"})
    spark: Any = SimpleNamespace(sparkContext=context)
    passed = [iter(context.environment)]
    for generation in ("1", "2"):
        jobs.renew_workers(spark)
        assert [generation] == [
            context.environment[key] for key in context.environment.keys() - "A"
        ]
        passed.append(iter(context.environment))
    assert [1, 2, 2] == [len(list(keys)) for keys in passed]


def test_a_jvm_that_ends_while_it_is_asked_prints_nothing(monkeypatch: pytest.MonkeyPatch):
    """The thread that asked may be abandoned, and end with this process."""
    printed: list[object] = []
    monkeypatch.setattr("threading.excepthook", printed.append)

    def fail() -> None:
        raise Py4JNetworkError("gone")

    assert jobs.jvm_does(fail, STALL_MAX_S)
    assert [] == printed


class Captured(Exception):
    """What Spark captured of Java: it asks the JVM for its text."""

    def __str__(self) -> str:
        raise AssertionError("the JVM has ended")


def test_an_exception_that_outlives_the_jvm_says_that_the_jvm_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Asking for its text raises: nothing that renders it may raise too."""
    with pytest.raises(SparkUnavailable, match="JVM does not answer any more"):
        raise_in_a_job(Captured(), monkeypatch)


@pytest.mark.parametrize(
    "error", [Py4JNetworkError("gone"), ConnectionResetError("gone"), Py4JError("gone")]
)
def test_a_jvm_that_is_killed_is_no_fault_of_the_auditor(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was killed or ran out of memory, on this host: the run can be resumed."""
    with pytest.raises(SparkUnavailable, match="it was killed, or it ran out of memory"):
        raise_in_a_job(error, monkeypatch)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "JVM does not answer"),
        (Py4JNetworkError("gone"), "JVM does not answer"),
        (OSError(errno.EMFILE, "Too many open files"), "this process has no file descriptor left"),
    ],
)
def test_a_thread_that_gets_no_connection_to_the_jvm_is_no_fault_of_the_auditor(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread of its own connects when its first job begins: the JVM may have ended before."""

    def refuse(_: object) -> None:
        raise error

    monkeypatch.setattr(jobs, "own_connection", refuse)
    spark: Any = SimpleNamespace(sparkContext=Context())
    with pytest.raises((SparkUnavailable, LocalFault), match=said):
        jobs.run_job(spark, StopRequest(), lambda: None, lambda _: None, STALL_MAX_S)
    stop = StopRequest()
    stop._remember(signal.SIGTERM, None)
    with pytest.raises(Interrupted):
        jobs.run_job(spark, stop, lambda: None, lambda _: None, STALL_MAX_S)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Traceback\nauditor.errors.LocalFault: this process has no file descriptor left\n\tat",
            "in a task of Spark: this process has no file descriptor left",
        ),
        ("x\nOSError: [Errno 24] Too many open files\n\tat a", "in a task of Spark: this process"),
        (
            "x\n: java.lang.OutOfMemoryError: unable to create native thread\n\tat a",
            "in a task of Spark: this host lets the auditor start no more threads",
        ),
        (
            "x\nMemoryError\n\tat a",
            "in a task of Spark: this host gives the auditor no more memory",
        ),
    ],
)
def test_what_a_task_lacked_of_its_host_is_a_local_fault(
    text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One cause has one exit code, with and without Spark."""
    with pytest.raises(LocalFault) as raised:
        fail_with(text, monkeypatch)
    assert str(raised.value).startswith(said)

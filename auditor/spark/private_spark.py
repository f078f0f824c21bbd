"""Use Spark's private API where the public one is not enough. No other module uses it.

PySpark has no public way to give descriptors to the JVM that it starts, to end that JVM while this
process goes on, to tell whether the process has a context at all, to be silent when the JVM ends
first, or to keep a thread's connection to it. Each function says why it exists. `tests/house`
checks that no other module uses private names of Spark.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import IO, Any

from py4j.clientserver import JavaClient  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

JVM_END_S = 30
"""How long the JVM may take to end after its input was closed. One that writes an archive takes
longer."""


def start_jvm(conf: SparkConf, spoken: IO[bytes] | None, descriptors: Sequence[int]) -> Any:
    """Start a JVM that keeps `descriptors` open and writes its output to `spoken`.

    Return the gateway to it, for `SparkContext`. `SparkContext` would start a JVM too, but keep
    nothing open: the lock of a run would lapse while the JVM still writes.
    """
    given: dict[str, object] = {"pass_fds": tuple(descriptors)}
    if spoken:
        given |= {"stdout": spoken, "stderr": spoken}
    return launch_gateway(conf, given)  # type: ignore[no-untyped-call]


def silence_accumulators(context: SparkContext) -> None:
    """Keep the server of accumulators from printing a traceback when the JVM ends first.

    This program uses no accumulator. If PySpark has no such server, nothing is done.
    """
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None


def session_of_this_process() -> SparkSession | None:
    """Return the session of this process, even if only another thread's is active, or None.

    A second context cannot be started beside it, and ending the JVM of the attempt would end the
    session. `SparkSession.active` alone would also return one whose context was stopped.
    """
    if SparkContext._active_spark_context is None:
        return None
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def own_connection(spark: SparkSession) -> object:
    """Return the connection to the JVM that py4j has made for this thread, or makes now.

    While the thread holds it, a child that this process forks cannot end it: Python destroys the
    other threads' data in a child, and py4j would then end the connection of a thread that is
    between two calls, although the parent shares it. What a thread's frames hold is not destroyed.
    """
    gateway = spark.sparkContext._gateway
    client = None if gateway is None else gateway._gateway_client
    if not isinstance(client, JavaClient):
        return None  # no thread has a connection of its own
    held = client.get_thread_connection()
    if held is None:
        held = client._create_new_connection()
        client._give_back_connection(held)
    return held


def end_jvm(timeout_s: float = JVM_END_S) -> None:
    """End the JVM of a stopped session, and forget it. Kill it if it does not end in time.

    PySpark keeps its gateway for the next session of this process: the JVM would outlive the run,
    and the next session would use a dead one.
    """
    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()
        try:
            process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None

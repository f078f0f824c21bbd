"""Start the Spark session of a run when a stage needs it: a run of few ledgers needs none.

Importing this module does not load PySpark, which takes half a second.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from auditor.evidence.run_directory import Place
from auditor.spark.installation import is_local_master, is_submitted
from auditor.stages.stages import Executor
from auditor.stop import StopRequest
from auditor.zookeeper.metadata_store import StoreAddress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(slots=True)
class SparkOnDemand:
    """The Spark session of a run, started when a stage needs it for the first time.

    `bookies` is their number: as many are asked at once if Spark runs on one machine.
    """

    start: Callable[[int], SparkSession]
    stop: StopRequest
    try_output: Callable[[SparkSession], bool]
    """Tries the output on the executors that are there, as `require_shared_output` does. Returns
    whether tasks can write it without Spark."""
    bookies: int = 0
    started: SparkSession | None = None
    tasks_write: bool = False
    slots_tried: int = 0
    """How many tasks Spark could do at once when the output was tried last."""

    def session(self) -> SparkSession:
        """Return the session. Raises SparkUnavailable if it cannot be started, and ConfigError for
        an output that executors do not share.
        """
        if self.started is None:
            self.started = self.start(self.bookies)
            self._try_output(self.started)
        return self.started

    def _try_output(self, session: SparkSession) -> None:
        """Try the output, again if executors have joined since it was tried.

        A cluster's executors join one after the other, in seconds: the first alone may do all tasks
        of a trial.
        """
        slots = session.sparkContext.defaultParallelism
        if slots > self.slots_tried:
            self.slots_tried, self.tasks_write = slots, self.try_output(session)

    def executor(
        self,
        run: Place,
        address: Callable[[int], StoreAddress],
        readers: int | None,
        tick: Callable[[int], None],
        stall_max_s: float,
    ) -> Executor:
        """Return Spark's executor, as `ExecutorOnDemand` says."""
        from auditor.spark.executor import SparkExecutor

        session = self.session()
        self._try_output(session)
        readers = readers or _readers(session)
        return SparkExecutor(
            session,
            self.stop,
            run,
            address(readers),
            readers,
            tick,
            stall_max_s,
            tasks_write=self.tasks_write,
        )

    @property
    def version(self) -> str:
        """The version of the session, or of the installed Spark if none was needed."""
        return str(self.started.version) if self.started is not None else _installed_version()


@contextmanager
def spark_on_demand(
    master: str | None,
    stop: StopRequest,
    output: Place,
    *,
    verbose: bool = False,
    lock: int | None = None,
) -> Iterator[SparkOnDemand]:
    """Yield a `spark_session` that is started when it is needed, and stopped at the end.

    Under spark-submit it is started at once: YARN counts an application that never has a Spark
    context as failed. It is also started at once if `master` is a cluster: `output` is then tried
    on its executors before anything is asked. In these cases it raises SparkUnavailable.
    """
    with ExitStack() as stack:

        def start(bookies: int) -> SparkSession:
            from auditor.spark.session import spark_session

            started = spark_session(bookies, master, stop, verbose=verbose, lock=lock)
            return stack.enter_context(started)

        def try_output(session: SparkSession) -> bool:
            from auditor.spark.store import require_shared_output

            return require_shared_output(session, output, stop)

        spark = SparkOnDemand(start, stop, try_output)
        if is_submitted() or (master is not None and not is_local_master(master)):
            spark.session()
        yield spark


def _readers(session: SparkSession) -> int:
    """Return how many tasks read ZooKeeper at once: half of Spark's slots.

    On one machine Spark takes each lane for a core. There as many tasks as cores read as fast as
    more, and each has hundreds of reads in flight.
    """
    context = session.sparkContext
    if is_local_master(context.master):
        return max(2, os.cpu_count() or 2)
    return max(2, context.defaultParallelism // 2)


def jvm_problem(error: Exception) -> str | None:
    """Return a sentence if an exception shows that Spark's JVM has ended, else None."""
    if "pyspark" not in sys.modules:
        return None
    from auditor.spark.jobs import JVM_GONE, has_jvm_ended

    return JVM_GONE if has_jvm_ended(error) else None


def _installed_version() -> str:
    try:
        return version("pyspark")
    except PackageNotFoundError:  # it is on the path of a Spark that was unpacked
        from pyspark import __version__ as of_the_path

        return str(of_the_path)

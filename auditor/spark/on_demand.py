"""Start the Spark session of a run when a stage needs it: a run of few ledgers needs none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from pyspark import __version__ as installed_version
from pyspark.sql import SparkSession

from auditor.spark.session import is_submitted, spark_session
from auditor.stop import StopRequest


@dataclass(slots=True)
class SparkOnDemand:
    """The Spark session of a run, started when a stage needs it for the first time.

    `bookies` is how many there are: as many are asked at once where Spark runs on one machine.
    `check` is called with the new session, and raises what speaks against using it.
    """

    start: Callable[[int], SparkSession]
    check: Callable[[SparkSession], None]
    bookies: int = 0
    started: SparkSession | None = None

    def session(self) -> SparkSession:
        """Return the session. Raises SparkUnavailable if it cannot be started."""
        if self.started is None:
            started = self.start(self.bookies)
            self.check(started)
            self.started = started
        return self.started

    @property
    def version(self) -> str:
        """The version of the session, or of the installed Spark if none was needed."""
        return str(self.started.version) if self.started is not None else installed_version


@contextmanager
def spark_on_demand(
    master: str | None,
    stop: StopRequest,
    *,
    check: Callable[[SparkSession], None],
    verbose: bool = False,
    lock: int | None = None,
) -> Iterator[SparkOnDemand]:
    """Yield a `spark_session` that is started when it is needed, and stopped at the end if it was.

    Under spark-submit it is started at once: YARN counts an application that never has a Spark
    context as failed. It is also started at once where `master` is a cluster: `check` then comes
    before anybody is asked. Raises SparkUnavailable then.
    """
    with ExitStack() as stack:
        spark = SparkOnDemand(
            lambda bookies: stack.enter_context(
                spark_session(bookies, master, stop, verbose=verbose, lock=lock)
            ),
            check,
        )
        if is_submitted() or (master is not None and not master.startswith("local")):
            spark.session()
        yield spark

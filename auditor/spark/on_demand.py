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
    """The Spark session of a run, started when a stage needs it for the first time."""

    start: Callable[[], SparkSession]
    started: SparkSession | None = None

    def session(self) -> SparkSession:
        """Return the session. Raises SparkUnavailable if it cannot be started."""
        if self.started is None:
            self.started = self.start()
        return self.started

    @property
    def version(self) -> str:
        """The version of the session, or of the installed Spark if none was needed."""
        return str(self.started.version) if self.started is not None else installed_version


@contextmanager
def spark_on_demand(
    bookie_count: int,
    master: str | None,
    stop: StopRequest,
    *,
    verbose: bool = False,
    lock: int | None = None,
) -> Iterator[SparkOnDemand]:
    """Yield a `spark_session` that is started when it is needed, and stopped at the end if it was.

    Under spark-submit it is started at once: YARN counts an application that never has a Spark
    context as failed. Raises SparkUnavailable then.
    """
    with ExitStack() as stack:
        spark = SparkOnDemand(
            lambda: stack.enter_context(
                spark_session(bookie_count, master, stop, verbose=verbose, lock=lock)
            )
        )
        if is_submitted():
            spark.session()
        yield spark

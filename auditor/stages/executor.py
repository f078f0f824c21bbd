"""The interface of what carries out a stage: Spark, or this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from auditor.stages.asking import Directory
from auditor.stages.reading import Work
from auditor.stages.selection import Ledgers
from auditor.zookeeper.metadata_store import StoreAddress

Rows: TypeAlias = Any
"""Rows that a stage will read or make, in the executor's own form.

Nothing is done before they are written or collected."""


class Executor(Protocol):
    """Maps the work of stages over rows, and writes what it yields into the run's directory."""

    @property
    def address(self) -> StoreAddress:
        """The metadata service, with the rate of one of its simultaneous readers."""

    @property
    def is_careful(self) -> bool:
        """Whether ledgers are always judged in a child process, which a ledger may end."""

    def distrust_workers(self) -> None:
        """Let no process judge that has judged before."""

    def rows(self, batch: pa.RecordBatch) -> Rows:
        """Return rows that this process holds."""

    def ids(self, which: Ledgers) -> Rows:
        """Return the ids of ledgers: at the first look of all that were listed."""

    def evidence(self, which: Ledgers, *, answered: bool) -> Rows:
        """Return SEEN rows of ledgers. `answered`: with what bookies said."""

    def wanted(self, which: Ledgers) -> Rows:
        """Return the WANTED rows of the judging `which.left_by`."""

    def union(self, first: Rows, second: Rows) -> Rows:
        """Return both, which have the same columns."""

    def derive(self, rows: Rows, work: Work, schema: pa.Schema) -> Rows:
        """Apply work that contacts nothing to the rows."""

    def ask(
        self, rows: Rows, work: Work, schema: pa.Schema, directory: Directory | None = None
    ) -> Rows:
        """Apply work that contacts others to the rows.

        It asks ZooKeeper or, with a `directory`, the bookies in it, each in one conversation.
        """

    def write(self, rows: Rows, table: str, name: str) -> None:
        """Append rows to a table of the run. `name` is the file's name if this process writes
        it.
        """

    def collect(self, rows: Rows) -> pa.Table:
        """Return rows, which must fit in memory."""


class ExecutorOnDemand(Protocol):
    """Spark, which is started when a stage needs it. `bookies` is how many there are."""

    bookies: int

    def executor(
        self,
        uri: str,
        address: Callable[[int], StoreAddress],
        readers: int | None,
        tick: Callable[[int], None],
        stall_max_s: float,
    ) -> Executor:
        """Return the executor for a run's directory. Starts Spark. Raises SparkUnavailable.

        `address` returns the metadata service at the rate of one of so many readers. `readers` is
        how many tasks read it at once; None: as Spark's cores allow. `tick` is called with the
        finished tasks of the running job. A job may run `stall_max_s` without finishing one.
        """

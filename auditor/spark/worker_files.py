"""Tasks write their rows to files themselves, where the output is a directory that they share.

Spark's JVM takes each row from Arrow and gives it to a Parquet writer, which costs 20 CPU
microseconds a ledger. Arrow's own writer takes one. In an object store or HDFS Spark writes: its
executors may have credentials that Python's file systems lack.

A file has a hidden name until its job has succeeded: what a failed task or an interrupted job wrote
belongs to no table. The process that started the job then renames the files of those tasks whose
results Spark took. A task that Spark repeats writes another file.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa

from auditor.errors import OutputError
from auditor.evidence.local_files import restrict_new_files
from auditor.evidence.rows import row_groups
from auditor.evidence.run_directory import Place, make_directory

Batches = Iterator[pa.RecordBatch]

FILES = pa.schema([("file", pa.string())])
"""The hidden name of a file that a task wrote."""


@dataclass(frozen=True, slots=True)
class WorkerFiles:
    """The files that the tasks of one job write for a table of `run`."""

    run: Place
    table: str
    schema: pa.Schema
    mask: int = 0
    """Permissions that no file or directory gets which a task makes, wherever it runs."""
    job: str = field(default_factory=lambda: uuid.uuid4().hex)

    def writer(self, work: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
        """Return work that writes what `work` yields, and yields FILES rows.

        A task whose work yields nothing writes no file; one with only empty batches writes a file
        without rows. Raises OutputError besides what `work` raises.
        """

        def write(batches: Batches) -> Batches:
            made = work(batches)
            first = next(made, None)
            if first is None:
                return
            name = f".{self.job}-{uuid.uuid4().hex}"
            groups = row_groups(chain([first], made))
            with restrict_new_files(self.mask):
                self.run.write_stream(self.table, groups, self.schema, name)
            yield pa.RecordBatch.from_arrays([pa.array([name])], schema=FILES)

        return write

    def prepare(self) -> None:
        """Make the directory of the table, before tasks on other machines write there.

        NFS remembers for some seconds that a directory was not there. This process, which renames
        the files, would not find one that a task has just made.
        """
        make_directory(self.run / self.table)

    def publish(self, hidden: Iterable[str]) -> None:
        """Rename these files. If there is none, write one without rows: the stage was done."""
        names = sorted(hidden)
        for number, name in enumerate(names):
            self.run.rename_file(f"{self.table}/{name}.parquet", f"{self._named(number)}.parquet")
        if not names:
            _, _, name = self._named(0).rpartition("/")
            self.run.write_table(self.table, self.schema.empty_table(), name)

    def remove_unpublished(self) -> None:
        """Remove the files of tasks that failed, or whose results Spark did not take.

        A task that is still being ended may remove its file itself. What stays is in no table.
        """
        for name in self.run.files_in(self.table):
            if name.startswith(f"{self.table}/.{self.job}-"):
                with suppress(OutputError):
                    self.run.remove_file(name)

    def _named(self, number: int) -> str:
        return f"{self.table}/part-{number:05}-{self.job}"

"""Carry out stages in this process: judge in children, ask in a thread that a signal abandons.

A Spark job takes most of a second, whatever it does, and the first one has to start a JVM. Ledgers
are judged in a child process (`auditor.judging.judge`): a ledger that ends the child does not
end the run.

Children are forked only in the main thread. Python destroys the other threads' data in a child, and
py4j would then end a connection to the JVM that such a thread owned, which the parent shares. A
thread that works ahead of this one therefore holds its own (`private_spark.own_connection`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import ClassVar, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import Shard
from auditor.evidence.run_directory import MemoryDirectory, Place
from auditor.evidence.run_tables import SEEN_TABLES, seen_rows
from auditor.evidence.schemas import SEEN
from auditor.evidence.table_scan import are_of
from auditor.judging.counted_answers import COUNTED
from auditor.model.identity import LedgerId
from auditor.stages.asking import PACED_ANSWERS, WANTED, Directory
from auditor.stages.blocks import unpack_answers
from auditor.stages.kept_rows import KeptRows
from auditor.stages.reading import Batches, Work, listed_ids
from auditor.stages.selection import Ledgers, Suspects
from auditor.stop import StopRequest
from auditor.zookeeper.ledgers import ListingPartition
from auditor.zookeeper.metadata_store import StoreAddress
from auditor.zookeeper.session import ReadCounts

T = TypeVar("T")

LEDGERS_READ_AT_ONCE = 10_000
"""Ledgers of which the evidence is in memory at a time. Each scan decodes the files of the whole
shard."""
BYTES_READ_AT_ONCE = 256 * 2**20
"""Evidence of more than LEDGERS_AT_ONCE ledgers is in memory only up to so many bytes. Most ledgers
have less than a kilobyte, and few have megabytes."""
LEDGERS_AT_ONCE = 1_000
"""Ledgers in a batch. Judging makes values of a batch, which take more room."""
QUESTIONS_AT_ONCE = 20_000
"""Questions answered before any answer becomes a row: all bookies work on them in parallel."""
BATCHES_AHEAD = 2
"""A stage may be this many batches of rows ahead of the file that it writes. This limits its
memory."""
POLL_S = 0.1
"""How often a running stage checks for a signal."""
IDS = pa.schema([("ledger_id", pa.int64())])


@dataclass(frozen=True, slots=True)
class LocalRows:
    """Rows of `schema` that `batches` makes. `are_asked`: it asks ZooKeeper or bookies."""

    schema: pa.Schema
    batches: Callable[[], Batches]
    are_asked: bool = False


@dataclass(frozen=True, slots=True)
class LocalExecutor:
    """Carries out the stages of a run in this process: those of few ledgers.

    `address` is read at the whole rate, because there is only one reader. The reads of the listing
    are added to `counts`; those of the other stages are in the rows that they write.
    """

    stop: StopRequest
    run: Place
    suspects: Suspects
    address: StoreAddress
    counts: ReadCounts
    kept: KeptRows = field(init=False)
    is_careful: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "kept", KeptRows(self.suspects.files))

    @property
    def lane_address(self) -> StoreAddress:
        """The address: one task reads all entries."""
        return self.address

    def list_ids(
        self, portions: Sequence[ListingPartition], ids_max: int | None
    ) -> list[LedgerId] | None:
        """Return every ledger id; None as soon as there are more than `ids_max` (None: no limit).

        Raises StoreUnavailable.
        """

        def list_all() -> list[LedgerId] | None:
            with self.address.open() as store:
                store.sync()
                listed = chain.from_iterable(listed_ids(store, portion) for portion in portions)
                ids = list(islice(listed, None if ids_max is None else ids_max + 1))
                self.counts.add(store.counts)
            return None if ids_max is not None and len(ids) > ids_max else ids

        (ids,) = _unless_stopped(self.stop, lambda: iter([list_all()]))
        return ids

    def distrust_workers(self) -> None:
        """Do nothing: each judging here has its own children."""

    def rows(self, batch: pa.RecordBatch) -> LocalRows:
        """Return rows that this process holds."""
        return LocalRows(batch.schema, lambda: iter([batch]))

    def ids(self, which: Ledgers) -> LocalRows:
        """Return the ids of ledgers, ascending: at the first look of all that were listed."""
        found = (
            self.suspects.listed_ledgers(which.shard)
            if which.are_all
            else self.suspects.ledgers(which)
        )
        return self.rows(pa.RecordBatch.from_arrays([pa.array(found, pa.int64())], schema=IDS))

    def evidence(self, which: Ledgers, *, answered: bool) -> LocalRows:
        """Return SEEN rows of ledgers, LEDGERS_AT_ONCE in a batch."""
        return self.evidence_of(self.suspects.ledgers(which), which.shard, answered=answered)

    def evidence_of(self, ids: Sequence[LedgerId], shard: Shard, *, answered: bool) -> LocalRows:
        """Return SEEN rows of ledgers of a shard, LEDGERS_AT_ONCE in a batch.

        `answered`: with what bookies said.
        """

        def batches() -> Batches:
            start, at_once = 0, LEDGERS_READ_AT_ONCE
            while start < len(ids):
                some = pa.array(ids[start : start + at_once], pa.int64())
                bytes_max = BYTES_READ_AT_ONCE if len(some) > LEDGERS_AT_ONCE else None
                tables = self._read(shard, some, bytes_max, answered=answered)
                if tables is None:
                    at_once = max(LEDGERS_AT_ONCE, len(some) // 2)
                    continue
                yield from _gathered(some, tables)
                start += len(some)
                at_once = min(LEDGERS_READ_AT_ONCE, 2 * at_once)

        return LocalRows(SEEN, batches)

    def _read(
        self, shard: Shard, ids: pa.Array, bytes_max: int | None, *, answered: bool
    ) -> list[pa.Table] | None:
        """Return the rows of ledgers of a shard in the SEEN_TABLES.

        None if they have more than `bytes_max` bytes. Opens the files of the shard alone.
        """
        found: list[pa.Table] = []
        for number, (name, schema) in enumerate(SEEN_TABLES):
            rows = schema.empty_table()
            if answered or number == 0:
                left = None if bytes_max is None else bytes_max - sum(one.nbytes for one in found)
                rows = self._rows_of(name, schema, shard, ids, left)
            if rows is None:
                return None
            found.append(rows)
        return found

    def _rows_of(
        self, name: str, schema: pa.Schema, shard: Shard, ids: pa.Array, bytes_max: int | None
    ) -> pa.Table | None:
        if len(ids) <= LEDGERS_READ_AT_ONCE and not isinstance(self.run, MemoryDirectory):
            kept = self.kept.of(name, schema, shard, ids)
            if kept is not None:
                return kept if bytes_max is None or kept.nbytes <= bytes_max else None
        keep = are_of(ids)
        if bytes_max is None and shard.is_all:
            return self.run.read_table(name, schema, keep)
        rows = self.suspects.files.scan(name, schema, shard)
        if bytes_max is None:
            return rows.table(schema.names, keep)
        return rows.table_within(bytes_max, schema.names, keep)

    def counted(self, which: Ledgers) -> LocalRows:
        """Return COUNTED rows of the ledgers of a first look, all at once."""
        return LocalRows(COUNTED, lambda: iter([self.suspects.counted(which.shard)]))

    def wanted(self, which: Ledgers) -> LocalRows:
        """Return the WANTED rows of the judging `which.left_by`."""
        assert which.left_by is not None
        rows = self.suspects.wanted_reads(which.look, which.left_by)
        return LocalRows(WANTED, lambda: iter([rows]))

    def union(self, first: LocalRows, second: LocalRows) -> LocalRows:
        """Return both, one after the other."""
        return LocalRows(first.schema, lambda: chain(first.batches(), second.batches()))

    def derive(self, rows: LocalRows, work: Work, schema: pa.Schema) -> LocalRows:
        """Apply the work to the rows in the main thread: it may fork children."""
        return LocalRows(schema, lambda: work(rows.batches()))

    def ask(
        self, rows: LocalRows, work: Work, schema: pa.Schema, directory: Directory | None = None
    ) -> LocalRows:
        """Apply the work to the rows in a thread. All bookies are asked in parallel."""
        questions = self.collect(rows).combine_chunks().to_batches(QUESTIONS_AT_ONCE)
        return LocalRows(schema, lambda: work(iter(questions)), are_asked=True)

    def apply(self, work: Work, batches: Callable[[], Batches]) -> Batches:
        """Yield what the work makes of the batches, in a thread. Raises Interrupted."""
        return _unless_stopped(self.stop, lambda: work(batches()))

    def write(self, rows: LocalRows, table: str, name: str) -> None:
        """Write rows as one more file of a table. Raises what the work raises."""
        if rows.are_asked:
            batches = _unless_stopped(self.stop, rows.batches)
            self.run.write_stream(table, batches, rows.schema, name)
            return
        with self.stop.raise_at_once():
            self.run.write_stream(table, rows.batches(), rows.schema, name)

    def pack_answers(self, rows: LocalRows, name: str) -> None:
        """Do nothing: the answers are written as they come."""

    def write_answers(self, rows: LocalRows, name: str) -> None:
        """Write LANE_ANSWERS as one more file of evidence/answers, a row for each answer."""
        asked = _unless_stopped(self.stop, rows.batches)
        batches = unpack_answers(asked, PACED_ANSWERS)
        self.run.write_stream("evidence/answers", batches, PACED_ANSWERS, name)

    def collect(self, rows: LocalRows) -> pa.Table:
        """Return derived rows, which must fit in memory."""
        with self.stop.raise_at_once():
            return pa.Table.from_batches(list(rows.batches()), schema=rows.schema)


def _gathered(ids: pa.Array, tables: Sequence[pa.Table]) -> Batches:
    """Yield SEEN rows of ledgers by their rows in the SEEN_TABLES, LEDGERS_AT_ONCE at a time."""
    for start in range(0, len(ids), LEDGERS_AT_ONCE):
        some = ids.slice(start, LEDGERS_AT_ONCE)
        yield from seen_rows(*(rows.filter(pc.is_in(rows["ledger_id"], some)) for rows in tables))


def _unless_stopped(stop: StopRequest, work: Callable[[], Iterator[T]]) -> Iterator[T]:
    """Yield what `work` yields, and raise what it raises. Raises Interrupted after a signal.

    `work` runs in a thread, which is abandoned after a signal: it ends at its next yield, or with
    the process.
    """
    made: Queue[tuple[T] | None] = Queue(BATCHES_AHEAD)
    outcome: Future[None] = Future()
    is_abandoned = Event()

    def hand_over(one: tuple[T] | None) -> None:
        while not is_abandoned.is_set():
            with suppress(Full):
                made.put(one, timeout=POLL_S)
                return

    def fulfil() -> None:
        try:
            for one in work():
                hand_over((one,))
                if is_abandoned.is_set():
                    return
            outcome.set_result(None)
        except BaseException as error:  # raised again in the caller's thread
            outcome.set_exception(error)
        hand_over(None)

    Thread(target=fulfil, name="auditor-stage", daemon=True).start()
    try:
        while (one := _await(made, stop)) is not None:
            yield one[0]
    finally:
        is_abandoned.set()
    outcome.result()


def _await(made: Queue[tuple[T] | None], stop: StopRequest) -> tuple[T] | None:
    while True:
        try:
            one = made.get(timeout=POLL_S)
        except Empty:
            stop.check()
        else:
            stop.check()
            return one

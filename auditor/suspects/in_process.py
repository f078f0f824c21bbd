"""The stages of few ledgers in this process: the same work over the same tables, without Spark.

A Spark job takes most of a second, whatever it does, and the first one has to start a JVM. This
module calls the same functions on Arrow batches as the tasks of `Stages`, and gathers the same
evidence. Ledgers are judged in a child process (`auditor.judging.isolation`), and a ledger that
ends the child does not end the run.

Children are forked only in the main thread. Python destroys the other threads' data in a child, and
py4j ends the connection to the JVM that a thread owned, which the parent shares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from auditor.config import BookieLimits, JudgingLimits
from auditor.evidence.ids import EVERYTHING, Shard
from auditor.evidence.run_directory import Place
from auditor.evidence.run_tables import read_seen_rows
from auditor.first_checker.spot_reads import ListTests
from auditor.judging.settle import Todo
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.model.identity import LedgerId
from auditor.model.ledger import Mark
from auditor.spark import verdicts
from auditor.spark.lane_tasks import entry_reader, list_asker
from auditor.spark.lanes import COUNTED_READS, PACED_ANSWERS, QUESTIONS, WANTED, Directory
from auditor.spark.ledgers import COUNTED_LEDGERS, COUNTED_LISTING, Batches, listed_ids, reader
from auditor.spark.verdicts import (
    STEPS,
    are_columns_trusted,
    asker_of,
    steps_name,
    were_bookies_asked,
)
from auditor.stop import StopRequest
from auditor.summary.costs import BookieCost
from auditor.suspects.remaining import Suspects
from auditor.zookeeper.ledgers import ListingPartition
from auditor.zookeeper.metadata_store import StoreAddress
from auditor.zookeeper.session import ReadCounts

T = TypeVar("T")

LEDGERS_AT_ONCE = 2_000
"""Ledgers gathered in memory at a time. The evidence on one is kilobytes, seldom megabytes."""
QUESTIONS_AT_ONCE = 20_000
"""Questions answered before any answer becomes a row: all bookies work on them in parallel."""
BATCHES_AHEAD = 2
"""Batches of rows that a stage may be ahead of the file it writes. This bounds its memory."""
POLL_S = 0.1
"""How often a running stage checks for a signal."""


@dataclass(frozen=True, slots=True)
class InProcessStages:
    """The stages of few ledgers. `address` is read at the whole rate: there is only one reader.

    `counts` gets the reads of the listing. The reads of the other stages are in the rows they
    write.
    """

    stop: StopRequest
    run: Place
    suspects: Suspects
    address: StoreAddress
    facts: ClusterFacts
    terms: Terms
    limits: BookieLimits
    judging: JudgingLimits
    counts: ReadCounts = field(default_factory=ReadCounts)

    def list_ledgers(
        self, portions: Sequence[ListingPartition], ids_max: int | None, name: str
    ) -> bool:
        """List every ledger id -> evidence/listing, or another table.

        Write nothing and return False as soon as there are more than `ids_max` (None: no limit).
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
        if ids is None:
            return False
        self.take_listing(ids, name)
        return True

    def take_listing(self, ids: Sequence[LedgerId], name: str) -> None:
        """Write ids that are known -> evidence/listing, or another table."""
        none = pa.nulls(len(ids), pa.int64())
        rows = pa.RecordBatch.from_arrays(
            [pa.array(ids, pa.int64()), none, none], schema=COUNTED_LISTING
        )
        self.run.write_table(name, rows, "listed")

    def read_ledgers(
        self, look: int, shard: Shard, marks: Mapping[LedgerId, Mark] | None = None
    ) -> None:
        """Read the listed ledgers, or those that the look before left open -> evidence/ledgers."""
        found = (
            self.suspects.listed_ledgers(shard)
            if look == 1
            else self.suspects.open_ledgers(look - 1, shard)
        )
        ids = pa.array(found, pa.int64())
        rows = iter([pa.RecordBatch.from_arrays([ids], names=["ledger_id"])])
        work = reader(self.address, look, marks)
        self._write(
            lambda: work(rows),
            COUNTED_LEDGERS,
            "evidence/ledgers",
            f"look-{look:02}-shard-{shard.number:04}",
        )

    def plan(self) -> list[BookieCost]:
        """Return what the first look would ask each bookie. Nothing is asked."""
        question = asker_of(self.judging, careful=True)
        with self.stop.raise_at_once():
            seen = self._evidence_batches(self._ledgers_of(1, EVERYTHING), with_answers=False)
            asked = pa.Table.from_batches(question(seen), schema=QUESTIONS)
        costs = asked.group_by("bookie_id").aggregate(
            [("ledger_id", "count"), ("expected_bytes", "sum")]
        )
        return [BookieCost(*row.values()) for row in costs.select(_COST_COLUMNS).to_pylist()]

    def ask_lists(
        self, look: int, directory: Directory, shard: Shard = EVERYTHING, judging: int | None = None
    ) -> None:
        """Ask for the lists of a shard's ledgers -> evidence/answers. Greet every registered
        bookie.

        With a judging of the look, only for those lists that it demanded.
        """
        ids = (
            self._ledgers_of(look, shard)
            if judging is None
            else self.suspects.ledgers_left(look, judging, Todo.LISTS)
        )
        ask = list_asker(directory, self.limits, look)
        question = asker_of(self.judging, careful=True, has_listers=directory.listers is not None)
        with self.stop.raise_at_once():
            asked = question(self._evidence_batches(ids, with_answers=look > 1))
            questions = pa.Table.from_batches([directory.greetings(), *asked], schema=QUESTIONS)
        self._write(
            lambda: ask(iter(questions.combine_chunks().to_batches(QUESTIONS_AT_ONCE))),
            PACED_ANSWERS,
            "evidence/answers",
            f"look-{look:02}-shard-{shard.number:04}",
        )

    def test_lists(self, directory: Directory, shard: Shard, tests: ListTests) -> None:
        """Read the entries that test the lists of some bookies at the first look ->
        evidence/reads.
        """
        draw = verdicts.spots_of(tests, self.judging, careful=True)
        with self.stop.raise_at_once():
            ids = (
                self.suspects.listed_by(tests.bookies, shard)
                if tests.is_denser
                else self.suspects.recorded_ledgers(shard)
            )
            drawn = list(draw(self._evidence_batches(ids, with_answers=tests.is_denser)))
        wanted = pa.Table.from_batches(drawn, schema=WANTED).combine_chunks().to_batches()
        work = entry_reader(directory, self.limits, 1, self.address)
        self._write(
            lambda: work(iter(wanted)),
            COUNTED_READS,
            "evidence/reads",
            f"look-01-shard-{shard.number:04}-{'denser' if tests.is_denser else 'spots'}",
        )

    def read_entries(self, look: int, judging: int, directory: Directory) -> None:
        """Make the reads that the given judging of this look demanded -> evidence/reads."""
        rows = self.suspects.wanted_reads(look, judging)
        work = entry_reader(directory, self.limits, look, self.address)
        self._write(
            lambda: work(iter([rows])),
            COUNTED_READS,
            "evidence/reads",
            f"look-{look:02}-judging-{judging:04}",
        )

    def judge(
        self,
        look: int,
        judging: int,
        shard: Shard = EVERYTHING,
        only: tuple[int, Todo] | None = None,
        *,
        retested: bool = False,
        again_without: Mapping[LedgerId, str] | None = None,
    ) -> None:
        """Judge each open ledger -> steps. `only`, `retested` and `again_without` as in
        `Stages.judge`.
        """
        if retested:
            ids = self.suspects.retested_ledgers(shard)
        elif only is not None:
            ids = self.suspects.ledgers_left(look, *only)
        else:
            ids = self._ledgers_of(look, shard)
        work = verdicts.judge_of(
            self.terms,
            self.facts,
            self.judging,
            careful=True,
            were_asked=were_bookies_asked(look, only),
            differing=dict(again_without or {}),
            by_columns=are_columns_trusted(look, only, again_without),
        )
        with self.stop.raise_at_once():
            steps = work(self._evidence_batches(ids))
            self.run.write_stream(steps_name(look, judging), steps, STEPS, "suspects")

    def _ledgers_of(self, look: int, shard: Shard) -> list[LedgerId]:
        """Return the ledgers of a shard that a look asks about or judges first."""
        return (
            self.suspects.recorded_ledgers(shard)
            if look == 1
            else self.suspects.open_ledgers(look - 1, shard)
        )

    def _evidence_batches(self, ids: list[LedgerId], *, with_answers: bool = True) -> Batches:
        """Yield SEEN rows of some ledgers, given in ascending order, LEDGERS_AT_ONCE at a time.

        The bounds let row groups be passed over that have none of the ledgers.
        """
        for start in range(0, len(ids), LEDGERS_AT_ONCE):
            some, ledger_id = ids[start : start + LEDGERS_AT_ONCE], pc.field("ledger_id")
            of_these = (ledger_id >= some[0]) & (ledger_id <= some[-1]) & ledger_id.isin(some)
            yield from read_seen_rows(self.run, of_these, with_answers=with_answers)

    def _write(
        self, work: Callable[[], Batches], schema: pa.Schema, name: str, file_name: str
    ) -> None:
        """Do the work, and write its rows as one more file of a table. Raises what `work`
        raises.
        """
        self.run.write_stream(name, _unless_stopped(self.stop, work), schema, file_name)


_COST_COLUMNS = ["bookie_id", "ledger_id_count", "expected_bytes_sum"]
"""The columns of `BookieCost`, as Arrow names them."""


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

    Thread(target=fulfil, name="auditor-suspects", daemon=True).start()
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

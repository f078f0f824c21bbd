"""The stages of few suspects in this process: the same work over the same tables, without Spark.

A Spark job costs a good part of a second, whatever it does. What the tasks of `Stages` do with Arrow
batches is done here with the same functions, so the evidence is the same. Ledgers are judged in a
child process (`auditor.judging.isolation`), so a ledger that ends its process does not end the run.

Children are forked in the main thread alone. Python destroys the other threads' data in a child, and
py4j ends the connection to the JVM that a thread owned, which the parent shares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from threading import Thread
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from auditor.config import BookieLimits, JudgingLimits
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS
from auditor.evidence.seen import read_seen_rows
from auditor.evidence.shards import EVERYTHING, Shard
from auditor.judging.settle import Todo
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.model.identity import LedgerId
from auditor.spark import verdicts
from auditor.spark.lanes import COUNTED_READS, Directory, entry_reader, list_asker
from auditor.spark.ledgers import COUNTED_LEDGERS, Batches, reader
from auditor.spark.verdicts import STEPS, asker_of, steps_name, were_bookies_asked
from auditor.stop import StopRequest
from auditor.suspects.remaining import Suspects
from auditor.zookeeper.metadata_store import StoreAddress

T = TypeVar("T")

LEDGERS_AT_ONCE = 1_000
"""Ledgers gathered in memory at a time. What bookies said of one is kilobytes, seldom megabytes."""
POLL_S = 0.1
"""How often a signal is looked for while a stage is at work."""


@dataclass(frozen=True, slots=True)
class InProcessStages:
    """The stages of looks at suspects. `address` is read at the whole rate: there is one reader."""

    stop: StopRequest
    run: Place
    suspects: Suspects
    address: StoreAddress
    facts: ClusterFacts
    terms: Terms
    limits: BookieLimits
    judging: JudgingLimits

    def read_ledgers(self, look: int, shard: Shard) -> None:
        """Read the ledgers that the look before left open -> evidence/ledgers."""
        ids = pa.array(self.suspects.open_ledgers(look - 1, shard), pa.int64())
        rows = iter([pa.RecordBatch.from_arrays([ids], names=["ledger_id"])])
        work = reader(self.address, look, None)
        self._write(
            lambda: work(rows),
            COUNTED_LEDGERS,
            "evidence/ledgers",
            f"look-{look:02}-shard-{shard.number:04}",
        )

    def ask_lists(self, look: int, directory: Directory, shard: Shard, judging: int) -> None:
        """Ask for the lists that the given judging of the look demanded -> evidence/answers.

        Greet every registered bookie.
        """
        ids = self.suspects.ledgers_left(look, judging, Todo.LISTS)
        ask, question = (
            list_asker(directory, self.limits, look),
            asker_of(self.judging, careful=True),
        )
        with self.stop.raised_at_once():
            questions = [directory.greetings(), *question(self._evidence_batches(ids))]
        self._write(
            lambda: ask(iter(questions)),
            ANSWERS,
            "evidence/answers",
            f"look-{look:02}-shard-{shard.number:04}",
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
        again_without: Mapping[LedgerId, str] | None = None,
    ) -> None:
        """Judge each open ledger -> steps. `only` and `again_without` as in `Stages.judge`."""
        ids = self.suspects.open_ledgers(look - 1, shard) if only is None else self.suspects.ledgers_left(look, *only)
        work = verdicts.judge_of(
            self.terms,
            self.facts,
            self.judging,
            careful=True,
            were_asked=were_bookies_asked(look, only),
            differing=dict(again_without or {}),
        )
        with self.stop.raised_at_once():
            steps = list(work(self._evidence_batches(ids)))
        self.run.write_table(steps_name(look, judging), pa.Table.from_batches(steps, schema=STEPS), "suspects")

    def _evidence_batches(self, ids: list[LedgerId]) -> Batches:
        """SEEN rows of some ledgers, LEDGERS_AT_ONCE at a time."""
        for start in range(0, len(ids), LEDGERS_AT_ONCE):
            of_these = pc.field("ledger_id").isin(ids[start : start + LEDGERS_AT_ONCE])
            yield from read_seen_rows(self.run, of_these)

    def _write(self, work: Callable[[], Batches], schema: pa.Schema, name: str, file_name: str) -> None:
        """Do the work and write its rows as one more file of a table. Raises what the work raises."""
        batches = _unless_stopped(self.stop, lambda: list(work()))
        self.run.write_table(name, pa.Table.from_batches(batches, schema=schema), file_name)


def _unless_stopped(stop: StopRequest, work: Callable[[], T]) -> T:
    """Return what `work` returns, or raise what it raises. A signal ends the wait: Interrupted.

    `work` runs in a thread, which is abandoned then. It writes nothing and ends with the process.
    """
    outcome: Future[T] = Future()

    def fulfil() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # carried to the caller's thread, whatever it is
            outcome.set_exception(error)

    Thread(target=fulfil, name="auditor-suspects", daemon=True).start()
    while not wait([outcome], POLL_S).done:
        stop.check()
    stop.check()
    return outcome.result()

"""An executor that Stages take for Spark, although it is this process: runs that ask ahead, without
a JVM. It records who talks to ZooKeeper and to the bookies, and when two do at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Event, Lock, current_thread, main_thread
from typing import Any

import pytest

from auditor.evidence.run_directory import Place
from auditor.run.ahead import Ahead
from auditor.run.bookie_register import BookieRegister
from auditor.run.judging_rounds import Judgings
from auditor.spark.on_demand import SparkOnDemand
from auditor.stages.asking import COUNTED_READS, LANE_ANSWERS, PACED_ANSWERS, Directory
from auditor.stages.blocks import unpack_answers
from auditor.stages.local import LocalExecutor, LocalRows
from auditor.stages.reading import COUNTED_LEDGERS
from auditor.stages.selection import Suspects
from auditor.stages.stages import Request
from auditor.stages.steps import packed_answers
from auditor.zookeeper.metadata_store import MetadataStore, StoreAddress
from auditor.zookeeper.session import ReadCounts

BOOKIES, ZOOKEEPER = "bookies", "ZooKeeper"
WAIT_S = 30.0
"""How long what works ahead waits for the main thread to be where it should be meanwhile."""


@dataclass
class Talks:
    """Who talks to whom. `at_once` are the talks that began while another one with the same was
    going on. `ahead` are those of another thread than the main one.

    `on_ahead` is called by each stage that asks ahead, with the table that it writes, before it
    asks.
    """

    at_once: list[str] = field(default_factory=list)
    ahead: list[str] = field(default_factory=list)
    on_ahead: Callable[[str], None] = lambda _: None
    is_writing: Event = field(default_factory=Event)
    is_judging: Event = field(default_factory=Event)
    main_goes_on: Event = field(default_factory=Event)
    """Set once the main thread waits for what is ahead, or talks to somebody."""
    is_slow: bool = False
    """Whether a talk ahead ends only when the main thread has nothing else to do."""
    _now: dict[str, str] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @contextmanager
    def talk(self, what: str, *whom: str, of_spark: bool = False) -> Iterator[None]:
        with self._lock:
            self.at_once += [f"{what} and {self._now[one]}" for one in whom if one in self._now]
            self._now |= dict.fromkeys(whom, what)
        try:
            if not of_spark:
                self.main_goes_on.set()
            elif self.is_slow and self.ahead:
                assert self.main_goes_on.wait(WAIT_S), "nobody waits for what is ahead"
            yield
        finally:
            with self._lock:
                for one in whom:
                    self._now.pop(one, None)

    def note_ahead(self, table: str) -> None:
        if current_thread() is not main_thread():
            self.ahead.append(table)
            self.on_ahead(table)

    def await_main_thread(self, table: str) -> None:
        """Ask only while the main thread does what it should do meanwhile."""
        happens = self.is_writing if table == "evidence/ledgers" else self.is_judging
        assert happens.wait(WAIT_S), f"{table} is not written while the main thread works"
        happens.clear()


class AsSpark(LocalExecutor):
    """Keeps answers packed until the main thread writes them, as Spark does."""

    def write(self, rows: LocalRows, table: str, name: str) -> None:
        TALKS.note_ahead(table)
        LocalExecutor.write(self, rows, table, name)

    def pack_answers(self, rows: LocalRows, name: str) -> None:
        self.run.remove(packed_answers(name))
        self.write(rows, packed_answers(name), "packed")

    def write_answers(self, _rows: LocalRows, name: str) -> None:
        assert current_thread() is main_thread()
        TALKS.is_writing.set()
        packed = self.run.stream(packed_answers(name), LANE_ANSWERS, LANE_ANSWERS.names)
        answers = unpack_answers(packed, PACED_ANSWERS)
        self.run.write_stream("evidence/answers", answers, PACED_ANSWERS, name)
        self.run.remove(packed_answers(name))


TALKS = Talks()
TALKS_OF = {
    id(COUNTED_LEDGERS): (ZOOKEEPER,),
    id(LANE_ANSWERS): (BOOKIES,),
    id(COUNTED_READS): (BOOKIES, ZOOKEEPER),
}
"""Whom the work asks that makes rows of a schema."""


def as_spark(monkeypatch: pytest.MonkeyPatch) -> Talks:
    """Let runs leave to this process what they leave to Spark. Return their talks from now on."""
    global TALKS
    TALKS = Talks()

    def executor(
        of: SparkOnDemand,
        run: Place,
        address: Callable[[int], StoreAddress],
        *_: object,
    ) -> AsSpark:
        return AsSpark(of.stop, run, Suspects(run), address(1), ReadCounts())

    def ask(
        of: LocalExecutor, rows: LocalRows, work: Any, schema: Any, to: Directory | None = None
    ) -> LocalRows:
        asked = plain_ask(of, rows, work, schema, to)

        def batches() -> Iterator[Any]:
            whom, is_spark = TALKS_OF.get(id(schema), ()), isinstance(of, AsSpark)
            with TALKS.talk(", ".join(schema.names[:3]), *whom, of_spark=is_spark):
                yield from asked.batches()

        return replace(asked, batches=batches)

    def alone(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            with TALKS.talk(name, ZOOKEEPER):
                return plain(*args)

        return call

    def judge(*args: Any, **options: Any) -> None:
        TALKS.is_judging.set()
        plain_judge(*args, **options)

    def begin(of: Ahead, request: Request) -> None:
        TALKS.main_goes_on.clear()
        plain_begin(of, request)

    def finish(of: Ahead) -> None:
        TALKS.main_goes_on.set()
        plain_finish(of)

    plain_ask, plain_judge = LocalExecutor.ask, Judgings.judge
    plain_begin, plain_finish = Ahead.begin, Ahead.finish
    monkeypatch.setattr(Ahead, "begin", begin)
    monkeypatch.setattr(Ahead, "finish", finish)
    monkeypatch.setattr(SparkOnDemand, "executor", executor)
    monkeypatch.setattr(LocalExecutor, "ask", ask)
    monkeypatch.setattr(Judgings, "judge", judge)
    for of, name in ((BookieRegister, "directory"), (MetadataStore, "marks")):
        monkeypatch.setattr(of, name, alone(name, getattr(of, name)))
    return TALKS

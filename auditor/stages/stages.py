"""The stages of a run: each reads written tables and writes one more into the run's directory.

Evidence is under `evidence/`, where every look adds its rows. `steps/` has one table for each
judging until the run is over, with one row a ledger: the next table of the same look replaces a row
that says `reads` or `lists`, the next look one that says `look`. A row that says `nothing` is the
ledger's verdict. Each method handles the ledgers of one shard.

An `Executor` carries a stage out: Spark, or this process (`auditor.stages.local`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import current_thread, main_thread
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from auditor.config import BookieLimits, JudgingLimits
from auditor.evidence.ids import EVERYTHING, Shard
from auditor.evidence.rows import named_row, table
from auditor.evidence.run_directory import Place
from auditor.first_checker.placement import has_no_rule
from auditor.first_checker.spot_reads import ListTests, NamedEntries
from auditor.judging.settle import Todo
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.model.identity import LedgerId
from auditor.model.ledger import Mark
from auditor.model.topic import TopicName
from auditor.pulsar.topic_store import TopicsAddress
from auditor.stages.asking import (
    COUNTED_READS,
    LANE_ANSWERS,
    QUESTIONS,
    WANTED,
    Directory,
    entry_reader,
    list_asker,
)
from auditor.stages.blocks import list_blocks, pack_questions
from auditor.stages.local import LocalExecutor
from auditor.stages.reading import (
    COUNTED_LEDGERS,
    COUNTED_LISTING,
    COUNTED_REFERENCES,
    PARENTS,
    TOPIC_NAMES,
    Batches,
    Work,
    lister,
    reader,
    topic_reader,
)
from auditor.stages.selection import Ledgers, Suspects
from auditor.stages.steps import (
    STEPS,
    Unchanged,
    asker_of,
    count_of,
    judge_of,
    named_of,
    packed_answers,
    spots_of,
    steps_name,
)
from auditor.summary.costs import BookieCost
from auditor.zookeeper.ledgers import ListingPartition
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
    def lane_address(self) -> StoreAddress:
        """The same, with the rate of one of the tasks that read entries at once."""

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

    def pack_answers(self, rows: Rows, name: str) -> None:
        """Make LANE_ANSWERS, and keep them in the table `packed_answers(name)`.

        Does nothing if `write_answers` makes them.
        """

    def write_answers(self, rows: Rows, name: str) -> None:
        """Append LANE_ANSWERS to evidence/answers, a row for each answer, in one file that has the
        given name.

        Call `pack_answers` before. What that kept is removed.
        """

    def collect(self, rows: Rows) -> pa.Table:
        """Return rows, which must fit in memory."""


class ExecutorOnDemand(Protocol):
    """Spark, which is started when a stage needs it. `bookies` is how many there are."""

    bookies: int

    def executor(
        self,
        run: Place,
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


SOUND_A_SUSPECT = 4
"""This process judges so many ledgers that are mostly sound in the time of one suspect, at least.
A suspect goes through a dozen stages. The sample of a shard (1 % of 200,000 ledgers) is more than
the suspects that this process takes, and a Spark job reads all tables of the shard to find it."""
READS_IN_PROCESS_MAX = 50_000
"""This process makes at most this many of the reads of a shard that test lists. Each takes 50 µs. A
Spark job starts a task for each bookie, which takes longer than all its reads."""
SINGLY_MAX = 1_000
"""This process asks about at most so many ledgers of a first look one by one, and gathers their
evidence. In blocks, and by counts of their answers, each takes some 150 µs less: that of a thousand
is not worth another way."""
NO_WANTED = pa.RecordBatch.from_pylist([], schema=WANTED)
NO_QUESTIONS = pa.RecordBatch.from_pylist([], schema=QUESTIONS)


@dataclass(frozen=True, slots=True)
class Request:
    """The part of a stage that asks others, and writes to `table`. Call `ask` once, in any
    thread.
    """

    table: str
    ask: Callable[[], None]


@dataclass(frozen=True, slots=True)
class ListRequest(Request):
    """A request for lists. Call `write` after it, in the main thread -> evidence/answers."""

    write: Callable[[], None]


COSTS = pa.schema(
    [("bookie_id", pa.string()), ("requests", pa.int64()), ("expected_bytes", pa.int64())]
)
"""What some questions to a bookie cost."""


@dataclass(slots=True)
class Stages:
    """The stages of one run, and which executor carries out each: Spark, or this process.

    This process carries out all stages of a run that listed at most `ledgers_max` ledgers. For a
    larger run it carries out the stages that follow a judging and have at most `suspects_max`
    ledgers of the shard. If `ledgers_max` is 0, the first look is left to Spark; if `suspects_max`
    is 0 or the caller is not the main thread, everything is.

    Both executors read and write the same tables: a run may change between them at any stage.
    `on_spark` returns Spark's executor. Its first call may start Spark, and raise SparkUnavailable.
    """

    on_spark: Callable[[], Executor]
    local: LocalExecutor
    suspects: Suspects
    facts: ClusterFacts
    terms: Terms
    limits: BookieLimits
    suspects_max: int
    ledgers_max: int
    judging: JudgingLimits = field(default_factory=JudgingLimits)

    def release(self) -> None:
        """Hold no evidence in memory any more, until it is read again."""
        self.suspects.release()
        self.local.kept.release()

    def set_suspects_aside(self, look: int, shard: Shard) -> None:
        """Hold the evidence of the ledgers of a shard that this look left to another one, as far as
        this process judged them.
        """
        if self._may_work_here():
            self.local.kept.set_aside(shard, self.suspects.open_ledgers(look, shard))

    def list_ledgers(
        self,
        portions: Sequence[ListingPartition],
        name: str = "evidence/listing",
        *,
        is_here: bool = False,
    ) -> bool:
        """List every ledger id -> evidence/listing, or another table. Return whether the rows count
        the reads that this took.

        `is_here`: this process lists them, however many they are, and writes those of a parent
        before it lists the next ones.

        A single portion is always listed here, at once: that takes a moment, a Spark job two
        seconds. Several portions are tried here if they may hold few ledgers: BookKeeper removes a
        parent that has none.
        """
        ids_max = None if len(portions) <= 1 else self._ledgers_max()
        parents = sum(len(portion.parents) for portion in portions)
        if not is_here and (ids_max is None or parents <= ids_max):
            ids = self.local.list_ids(portions, ids_max)
            if ids is not None:
                self.take_listing(ids, name)
                return False
        by = self.local if is_here else self.on_spark()
        cells = pa.array([list(portion.parents) for portion in portions])
        rows = by.rows(pa.RecordBatch.from_arrays([cells], schema=PARENTS))
        by.write(by.ask(rows, lister(by.address), COUNTED_LISTING), name, "listed")
        return True

    def take_listing(self, ids: Sequence[LedgerId], name: str = "evidence/listing") -> None:
        """Write ids that are known -> evidence/listing, or another table."""
        none = pa.nulls(len(ids), pa.int64())
        columns = [pa.array(ids, pa.int64()), none, none]
        rows = pa.RecordBatch.from_arrays(columns, schema=COUNTED_LISTING)
        self.local.write(self.local.rows(rows), name, "listed")

    def read_topics(self, look: int, names: Sequence[TopicName], address: TopicsAddress) -> None:
        """Read what these topics reference, on Spark -> evidence/references."""
        by = self.on_spark()
        cells = [pa.array(part, pa.string()) for part in zip(*names, strict=True)]
        topics = by.rows(pa.RecordBatch.from_arrays(cells, schema=TOPIC_NAMES))
        work = topic_reader(replace(address, limits=by.address.limits), look)
        rows = by.ask(topics, work, COUNTED_REFERENCES)
        by.write(rows, "evidence/references", f"look-{look}")

    def read_ledgers(
        self, look: int, shard: Shard = EVERYTHING, marks: Mapping[LedgerId, Mark] | None = None
    ) -> None:
        """Read the listed ledgers or, after the first look, the open ones -> evidence/ledgers."""
        self.reading(look, shard, marks).ask()

    def reading(
        self, look: int, shard: Shard, marks: Mapping[LedgerId, Mark] | None = None
    ) -> Request:
        """Return what `read_ledgers` asks. It reads nothing yet."""
        which = Ledgers(look, shard)
        by = self._executor(which)
        if marks is not None:  # each task gets them
            marks = {one: mark for one, mark in marks.items() if shard.first <= one <= shard.last}
        rows = by.ask(by.ids(which), reader(by.address, look, marks), COUNTED_LEDGERS)
        return Request(
            "evidence/ledgers", lambda: by.write(rows, "evidence/ledgers", _part(look, shard))
        )

    def plan(self) -> list[BookieCost]:
        """Return what the first look would ask each bookie. Asks nothing."""
        which = Ledgers(1)
        by = self._executor(which)
        questions = self._questions(by, which, with_expected=False)
        costs = _sum_costs(by.collect(by.derive(questions, _costs_of_batches, COSTS)))
        return [BookieCost(*row.values()) for row in costs.to_pylist()]

    def ask_lists(
        self, look: int, directory: Directory, shard: Shard = EVERYTHING, judging: int | None = None
    ) -> None:
        """Ask each bookie once for every list that is due -> evidence/answers, with its greeting.

        Bookies that no ledger names are greeted too if the directory says so. Without `judging` the
        lists are those of all ledgers with which the look begins. Otherwise they are those that
        this judging of the look requested.
        """
        asking = self.asking(look, directory, shard, judging)
        asking.ask()
        asking.write()

    def asking(
        self, look: int, directory: Directory, shard: Shard, judging: int | None = None
    ) -> ListRequest:
        """Return what `ask_lists` asks. It asks nothing yet: the main thread prepares it, because
        children of it may make questions.
        """
        which = Ledgers(look, shard, judging, Todo.LISTS)
        by = asker = self._executor(which)
        rows = by.rows(directory.greetings())
        if which.are_all and (by is not self.local or self._asks_in_blocks(directory)):
            blocks, which = self._blocks(shard)
            rows = by.union(rows, by.rows(blocks))
            asker = self._executor(which) if which.named else by
        if which.named != frozenset():
            with_expected = directory.needs_expected_lists
            questions = self._questions(asker, which, with_expected=with_expected)
            if asker is not by:
                (made,) = asker.collect(questions).combine_chunks().to_batches() or [NO_QUESTIONS]
                questions = by.rows(made)
            rows = by.union(rows, questions)
        more_follow = look == 1 and not shard.is_last
        work = list_asker(directory, self.limits, look, more_follow=more_follow)
        asked, name = by.ask(rows, work, LANE_ANSWERS, directory), _part(look, shard)
        return ListRequest(
            packed_answers(name),
            lambda: by.pack_answers(asked, name),
            lambda: by.write_answers(asked, name),
        )

    def _asks_in_blocks(self, directory: Directory) -> bool:
        """Return whether this process asks about clear ledgers in blocks: about many, and where
        lanes take blocks.
        """
        return not directory.needs_expected_lists and self._are_many()

    def _are_many(self) -> bool:
        """Return whether this process takes the first look at the listed ledgers in columns."""
        return self.suspects.count_listed() > SINGLY_MAX

    def _blocks(self, shard: Shard) -> tuple[pa.RecordBatch, Ledgers]:
        """Return QUESTIONS rows about the clear ledgers of a shard, in blocks, and its other
        ledgers, all at the first look.

        Nothing is done here that a ledger could harm.
        """
        clear, others = self.suspects.clear(shard)
        rows = [
            named_row(QUESTIONS, bookie_id=bookie, block=pack_questions(block))
            for bookie, block in list_blocks(clear, self.terms)
        ]
        return table(QUESTIONS, rows), Ledgers(1, shard, named=frozenset(others))

    def test_lists(self, directory: Directory, shard: Shard, tests: ListTests) -> None:
        """Read the entries that test the lists of some bookies at the first look ->
        evidence/reads.
        """
        bookies = frozenset(tests.bookies) if tests.of_lists else None
        which = Ledgers(1, shard, listed_by=bookies)
        by = self._executor(which)
        name = f"{_part(1, shard)}-{'denser' if tests.is_denser else 'spots'}"
        drawn = self._draw_here(shard, tests) if by is not self.local or self._are_many() else None
        if drawn is not None:
            by = self.local if drawn.num_rows <= READS_IN_PROCESS_MAX else by
            wanted = by.rows(drawn)
        else:
            draw = spots_of(tests, self.judging, careful=by.is_careful)
            wanted = by.derive(by.evidence(which, answered=tests.of_lists), draw, WANTED)
        self._read(by, wanted, 1, directory, name)

    def _draw_here(self, shard: Shard, tests: ListTests) -> pa.RecordBatch | None:
        """Return the WANTED rows of a shard, drawn in this process.

        None if it may not work, or if entries of more than READS_IN_PROCESS_MAX ledgers are read.
        """
        if not self._may_work_here():
            return None
        ids = self.suspects.tested(shard, tests)
        if len(ids) > READS_IN_PROCESS_MAX:
            return None
        here = self.local
        draw = spots_of(tests, self.judging, careful=here.is_careful)
        seen = here.evidence_of(ids, shard, answered=tests.of_lists)
        drawn = here.collect(here.derive(seen, draw, WANTED))
        return (drawn.combine_chunks().to_batches() or [NO_WANTED])[0]

    def read_named(self, directory: Directory, shard: Shard, named: NamedEntries) -> None:
        """Read entries of the shard that scrubs named, at the first look -> evidence/reads.

        The lists, and the reads that test them, must be written.
        """
        which = Ledgers(1, shard, named=frozenset(named))
        by = self._executor(which)
        choose = named_of(named, self.judging, careful=by.is_careful)
        wanted = by.derive(by.evidence(which, answered=True), choose, WANTED)
        self._read(by, wanted, 1, directory, f"{_part(1, shard)}-named")

    def read_here(self, directory: Directory, wanted: Batches) -> Batches:
        """Yield COUNTED_READS rows of each batch of WANTED rows, at the first look. This process
        reads, and takes a batch when the one before is read.
        """
        here = self.local
        return here.apply(
            entry_reader(directory, self.limits, 1, here.lane_address), lambda: wanted
        )

    def read_entries(self, look: int, judging: int, directory: Directory) -> None:
        """Make the reads that the given judging of this look requested -> evidence/reads."""
        which = Ledgers(look, EVERYTHING, judging, Todo.READS)
        by = self._executor(which)
        name = f"look-{look:02}-judging-{judging:04}"
        self._read(by, by.wanted(which), look, directory, name)

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
        """Judge each open ledger -> steps. `only`: those that an earlier judging of this look left
        with that todo. `retested`: the ledgers that the first look had settled before more of them
        was read.

        Of a first look at many ledgers, or where Spark would gather the evidence, this process
        counts the answers instead, whatever it may do besides: counting runs no code that a ledger
        could harm. Only the ledgers that are healthy by the counts are settled. All others are left
        with Todo.EVIDENCE.

        Raises WorkerDied if a ledger ended its worker. `again_without` judges once more without
        trusting a process that judged before: in new workers, each ledger in a child, which sets
        the fatal ledger aside. It has the ledgers on which the checkers are known to differ, and
        how; these are not judged.
        """
        left_by, todo = only or (None, Todo.LOOK)
        which = Ledgers(look, shard, left_by, todo, are_retested=retested)
        by, is_again = self._executor(which), again_without is not None
        if is_again:
            by.distrust_workers()
        is_counted = which.are_all and not is_again
        is_counted = is_counted and (by is not self.local or self._are_many())
        if is_counted and has_no_rule(self.terms.placement):
            by = self.local
            rows = by.derive(by.counted(which), count_of(self.terms, self.facts), STEPS)
        else:
            work = judge_of(
                self.terms,
                self.facts,
                self.judging,
                careful=is_again or by.is_careful,
                were_asked=which.were_asked_about,
                differing=dict(again_without or {}),
                by_columns=which.may_be_healthy and not is_again,
                unchanged=self._unchanged(which) if by is self.local and not is_again else None,
            )
            rows = by.derive(by.evidence(which, answered=True), work, STEPS)
        by.write(rows, steps_name(look, judging), "suspects")

    def _unchanged(self, which: Ledgers) -> Unchanged | None:
        """Return the ledgers of which a look that begins demands lists if it read the same; None if
        it has begun.
        """
        is_beginning = which.look > 1 and which.left_by is None
        return self.suspects.asked_again(which.look, which.shard) if is_beginning else None

    def _questions(self, by: Executor, which: Ledgers, *, with_expected: bool) -> Rows:
        """Return QUESTIONS rows: the lists that ledgers demand."""
        work = asker_of(
            self.terms, self.judging, careful=by.is_careful, with_expected=with_expected
        )
        return by.derive(by.evidence(which, answered=which.look > 1), work, QUESTIONS)

    def _read(self, by: Executor, wanted: Rows, look: int, directory: Directory, name: str) -> None:
        """Read the entries of WANTED rows -> evidence/reads."""
        work = entry_reader(directory, self.limits, look, by.lane_address)
        by.write(by.ask(wanted, work, COUNTED_READS, directory), "evidence/reads", name)

    def may_ask_ahead(self) -> bool:
        """Return whether Spark can read metadata and ask for lists of a first look while this
        process works on another shard.
        """
        return self._may_work_here() and self.suspects.count_listed() > self.ledgers_max

    def _executor(self, which: Ledgers) -> Executor:
        """Return who carries out a stage over these ledgers."""
        ledgers_max = self._ledgers_max()
        if ledgers_max > 0 and self.suspects.count_listed() <= ledgers_max:
            return self.local
        is_large = which.are_first and not which.are_retested and which.named is None
        if is_large or not self._may_work_here():
            return self.on_spark()
        ledgers_max = self.suspects_max * (SOUND_A_SUSPECT if which.are_mostly_sound else 1)
        are_few = len(self.suspects.ledgers(which)) <= ledgers_max
        return self.local if are_few else self.on_spark()

    def _ledgers_max(self) -> int:
        """Return the most listed ledgers of which this process may take a first look."""
        return self.ledgers_max if self._may_work_here() else 0

    def _may_work_here(self) -> bool:
        """Return whether this process may judge. Children are forked only in the main thread: one
        forked elsewhere would end the main thread's connection to the JVM.
        """
        return self.suspects_max > 0 and current_thread() is main_thread()


def _part(look: int, shard: Shard) -> str:
    return f"look-{look:02}-shard-{shard.number:04}"


def _costs_of_batches(batches: Batches) -> Batches:
    """Yield COSTS rows of QUESTIONS batches, which lose their order."""
    for batch in batches:
        ones = pa.array([1] * batch.num_rows, pa.int64())
        columns = [batch["bookie_id"], ones, batch["expected_bytes"]]
        yield from _sum_costs(pa.Table.from_arrays(columns, schema=COSTS)).to_batches()


def _sum_costs(costs: pa.Table) -> pa.Table:
    """Return one COSTS row for each bookie."""
    sums = costs.group_by("bookie_id").aggregate([(name, "sum") for name in COSTS.names[1:]])
    columns = [sums["bookie_id"], *(sums[f"{name}_sum"] for name in COSTS.names[1:])]
    return pa.Table.from_arrays(columns, schema=COSTS)

"""The stages in this process: which ledgers they take, how they ask, and what they write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auditor.config import BookieLimits, JudgingLimits
from auditor.evidence.ids import EVERYTHING, Shard
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import ANSWERS, LEDGERS, READS, SEEN
from auditor.evidence.shard_files import ShardFiles
from auditor.judging.settle import Todo
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import PlacementRule, Policy, Terms
from auditor.model.ledger import Mark
from auditor.stages import local, stages
from auditor.stages.asking import (
    COUNTED_READS,
    LANE_ANSWERS,
    PACED_ANSWERS,
    QUESTIONS,
    WANTED,
    Directory,
)
from auditor.stages.local import LocalExecutor
from auditor.stages.reading import COUNTED_LEDGERS, COUNTED_LISTING
from auditor.stages.selection import Ledgers, Suspects
from auditor.stages.stages import Executor, Stages
from auditor.stages.steps import STEPS, Unchanged
from auditor.stop import StopRequest
from auditor.summary.costs import BookieCost
from auditor.zookeeper.ledgers import ListingPartition
from auditor.zookeeper.metadata_store import StoreAddress
from auditor.zookeeper.session import ReadCounts

DIRECTORY = Directory({"b2": ("127.0.0.1", 2), "b1": None}, frozenset())
SHARD = Shard(3, 1, 19)
ADDRESS, FACTS = cast(StoreAddress, "an address"), cast(ClusterFacts, "facts")
TERMS, LIMITS, JUDGING = cast(Terms, "terms"), cast(BookieLimits, "limits"), JudgingLimits()
WANT = {
    "bookie_id": "b1",
    "ledger_id": 5,
    "entry_id": 42,
    "digest_type": 3,
    "is_search": False,
    "is_spot": False,
    "is_denser": False,
    "is_named": False,
}

Batches = Iterator[pa.RecordBatch]


class LeftOver(Suspects):
    """Suspects by the arguments of the call that asks for them."""

    __slots__ = ("by_call",)

    def __init__(self) -> None:
        object.__setattr__(self, "by_call", {})

    by_call: dict[tuple[object, ...], list[int]]

    def count_listed(self) -> int:
        return 1

    def listed_ledgers(self, shard: Shard) -> list[int]:
        return self.by_call["listed", shard]

    def recorded_ledgers(self, shard: Shard) -> list[int]:
        return self.by_call["recorded", shard]

    def retested_ledgers(self, shard: Shard) -> list[int]:
        return self.by_call["retested", shard]

    def open_ledgers(self, look: int, shard: Shard) -> list[int]:
        return self.by_call[look, shard]

    def asked_again(self, look: int, shard: Shard) -> Unchanged:
        return Unchanged(look, frozenset(self.by_call[look - 1, shard][:1]))

    def ledgers_left(self, look: int, judging: int, todo: Todo) -> list[int]:
        return self.by_call[look, judging, todo]

    def wanted_reads(self, look: int, judging: int) -> pa.RecordBatch:
        assert (2, 1) == (look, judging)
        return pa.RecordBatch.from_pylist([WANT], schema=WANTED)


class Worker:
    """A stand-in for a function that makes work: it records its arguments and batches, and yields
    given rows.
    """

    def __init__(self, schema: pa.Schema, *rows: dict[str, object]) -> None:
        self.schema, self.rows = schema, rows
        self.made_with: list[tuple[tuple[object, ...], dict[str, object]]] = []
        self.given: list[pa.RecordBatch] = []

    def __call__(self, *args: object, **options: object) -> Callable[[Batches], Batches]:
        self.made_with.append((args, options))

        def work(batches: Batches) -> Batches:
            for batch in batches:
                self.given.append(batch)
                if self.rows:
                    yield batch_of(self.schema, *self.rows)

        return work


def batch_of(schema: pa.Schema, *rows: dict[str, object]) -> pa.RecordBatch:
    empty = dict.fromkeys(schema.names)
    return pa.RecordBatch.from_pylist([{**empty, **row} for row in rows], schema=schema)


def table_of(schema: pa.Schema, *rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_batches([batch_of(schema, *rows)])


@pytest.fixture
def run(tmp_path: Path) -> Place:
    """Return a run with ledgers 1 to 5, and an answer and a read of ledgers 2 and 4."""
    run = place(str(tmp_path))
    even = [{"ledger_id": ledger_id, "bookie_id": "b1"} for ledger_id in (2, 4)]
    ledgers = [{"ledger_id": ledger_id, "look": 1} for ledger_id in range(1, 6)]
    run.write_table("evidence/ledgers", table_of(LEDGERS, *ledgers), "first")
    run.write_table("evidence/answers", table_of(ANSWERS, *even), "first")
    run.write_table("evidence/reads", table_of(READS, *even), "first")
    return run


def stages_of(
    run: Place, left: Suspects, address: StoreAddress = ADDRESS, counts: ReadCounts | None = None
) -> Stages:
    """Return the stages of a run that is small enough for this process."""
    object.__setattr__(left, "files", ShardFiles(run))
    here = LocalExecutor(StopRequest(), run, left, address, counts or ReadCounts())
    return Stages(
        on_spark=lambda: pytest.fail("Spark is not needed"),
        local=here,
        suspects=left,
        facts=FACTS,
        terms=TERMS,
        limits=LIMITS,
        suspects_max=1,
        ledgers_max=1,
        judging=JUDGING,
    )


def patch(monkeypatch: pytest.MonkeyPatch, name: str, worker: Worker) -> Worker:
    monkeypatch.setattr(stages, name, worker)
    return worker


def file_of(run: Place, name: str, schema: pa.Schema) -> pa.Table:
    """Return the rows of one file of a table, after checking that it has all columns of the
    schema.
    """
    path = f"{run.path}/{name}.parquet"
    assert schema.names == pq.read_schema(path).names
    return pq.read_table(path, schema=schema)


def seen_by(worker: Worker) -> list[list[int]]:
    """Return the ledgers of each batch of SEEN rows."""
    assert all(batch.schema == SEEN for batch in worker.given)
    return [batch.column("ledger_id").to_pylist() for batch in worker.given]


def test_ledgers_that_the_look_before_left_open_are_read(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of a shard are read in one batch, without the marks of the first look."""
    reader = patch(monkeypatch, "reader", Worker(COUNTED_LEDGERS, {"ledger_id": 12, "reads": 9}))
    left = LeftOver()
    left.by_call[1, SHARD] = [12, 17]
    stages_of(run, left).read_ledgers(2, SHARD)
    assert [((ADDRESS, 2, None), {})] == reader.made_with
    assert [pa.RecordBatch.from_pydict({"ledger_id": [12, 17]})] == reader.given
    rows = file_of(run, "evidence/ledgers/look-02-shard-0003", COUNTED_LEDGERS)
    assert batch_of(COUNTED_LEDGERS, *reader.rows).to_pylist() == rows.to_pylist()


def test_a_shard_without_suspects_has_its_file_too(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is read for it."""
    reader = patch(monkeypatch, "reader", Worker(COUNTED_LEDGERS))
    left = LeftOver()
    left.by_call[1, SHARD] = []
    stages_of(run, left).read_ledgers(2, SHARD)
    assert [] == reader.given
    assert 0 == file_of(run, "evidence/ledgers/look-02-shard-0003", COUNTED_LEDGERS).num_rows


def test_a_stage_that_finds_nothing_has_its_file_too(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has columns and no rows. A stage without a file counts as not done."""
    patch(monkeypatch, "asker_of", Worker(QUESTIONS))
    patch(monkeypatch, "list_asker", Worker(LANE_ANSWERS))
    patch(monkeypatch, "entry_reader", Worker(COUNTED_READS))
    patch(monkeypatch, "judge_of", Worker(STEPS))
    left = LeftOver()
    left.by_call.update({(2, 1, Todo.LISTS): [], (1, EVERYTHING): []})
    these = stages_of(run, left)
    these.ask_lists(2, DIRECTORY, SHARD, 1)
    these.read_entries(2, 1, DIRECTORY)
    these.judge(2, 0)
    assert 0 == file_of(run, "evidence/answers/look-02-shard-0003", PACED_ANSWERS).num_rows
    assert 0 == file_of(run, "evidence/reads/look-02-judging-0001", COUNTED_READS).num_rows
    assert 0 == file_of(run, "steps/look-2-judging-0/suspects", STEPS).num_rows


def test_bookies_are_asked_for_the_lists_that_a_judging_wants(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each registered bookie is greeted first. A child works out whom to ask."""
    question = {"bookie_id": "b1", "ledger_id": 4, "expected_bytes": 7}
    asker = patch(monkeypatch, "asker_of", Worker(QUESTIONS, question))
    answer = {"bookie_id": "b1", "ledger_id": 4}
    lists = patch(monkeypatch, "list_asker", Worker(LANE_ANSWERS, answer))
    left = LeftOver()
    left.by_call[2, 1, Todo.LISTS] = [4]
    stages_of(run, left).ask_lists(2, DIRECTORY, SHARD, 1)
    assert [((TERMS, JUDGING), {"careful": True, "with_expected": False})] == asker.made_with
    assert [[4]] == seen_by(asker)
    assert [1] == [len(row["answers"]) for row in asker.given[0].to_pylist()], (
        "the answer at the first look"
    )
    assert [((DIRECTORY, LIMITS, 2), {"more_follow": False})] == lists.made_with
    greetings = [{"bookie_id": bookie} for bookie in ("b1", "b2")]
    assert [batch_of(QUESTIONS, *greetings, question)] == lists.given
    rows = file_of(run, "evidence/answers/look-02-shard-0003", PACED_ANSWERS)
    assert batch_of(PACED_ANSWERS, *lists.rows).to_pylist() == rows.to_pylist()


def test_questions_are_asked_in_batches_of_a_bounded_size(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All answers to a batch are in memory as rows."""
    monkeypatch.setattr(local, "QUESTIONS_AT_ONCE", 3)
    asked = [
        {"bookie_id": "b1", "ledger_id": ledger_id, "expected_bytes": 7} for ledger_id in (2, 4)
    ]
    patch(monkeypatch, "asker_of", Worker(QUESTIONS, *asked))
    lists = patch(monkeypatch, "list_asker", Worker(LANE_ANSWERS))
    left = LeftOver()
    left.by_call[2, 1, Todo.LISTS] = [4]
    stages_of(run, left).ask_lists(2, DIRECTORY, SHARD, 1)
    assert [3, 1] == [batch.num_rows for batch in lists.given]


@pytest.fixture
def run_without_answers(tmp_path: Path) -> Place:
    """Return a run with ledgers 1 to 5 that has asked no bookie yet."""
    run = place(str(tmp_path / "unasked"))
    ledgers = [{"ledger_id": ledger_id, "look": 1} for ledger_id in range(1, 6)]
    run.write_table("evidence/ledgers", table_of(LEDGERS, *ledgers), "first")
    return run


def test_the_first_look_asks_about_every_ledger_of_the_shard(
    run_without_answers: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table of answers does not exist yet and is not read."""
    asker = patch(monkeypatch, "asker_of", Worker(QUESTIONS, {"bookie_id": "b1", "ledger_id": 4}))
    patch(monkeypatch, "list_asker", Worker(LANE_ANSWERS, {"bookie_id": "b1", "ledger_id": 4}))
    left = LeftOver()
    left.by_call["recorded", SHARD] = [2, 4]
    stages_of(run_without_answers, left).ask_lists(1, DIRECTORY, SHARD)
    assert [[2, 4]] == seen_by(asker)
    assert [0, 0] == [
        len(row["answers"] or row["reads"] or ())
        for batch in asker.given
        for row in batch.to_pylist()
    ]
    assert (
        1
        == file_of(
            run_without_answers, "evidence/answers/look-01-shard-0003", PACED_ANSWERS
        ).num_rows
    )


def test_the_first_look_reads_the_listed_ledgers_with_the_marks(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marks were listed before, all at once. Each task gets those of its shard."""
    reader = patch(monkeypatch, "reader", Worker(COUNTED_LEDGERS, {"ledger_id": 12}))
    marks = {one: cast(Mark, "a mark") for one in (0, 12, SHARD.first, SHARD.last, SHARD.last + 1)}
    left = LeftOver()
    left.by_call["listed", SHARD] = [12, 17]
    stages_of(run, left).read_ledgers(1, SHARD, marks)
    of_shard = {one: marks[one] for one in (12, SHARD.first, SHARD.last)}
    assert [((ADDRESS, 1, of_shard), {})] == reader.made_with
    assert [pa.RecordBatch.from_pydict({"ledger_id": [12, 17]})] == reader.given
    assert 1 == file_of(run, "evidence/ledgers/look-01-shard-0003", COUNTED_LEDGERS).num_rows


def test_the_first_look_judges_ledgers_with_the_answers(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bookies were asked about each ledger that wants lists."""
    worker = Worker(STEPS, {"ledger_id": 2, "todo": Todo.LOOK.value})
    patch(monkeypatch, "judge_of", worker)
    left = LeftOver()
    left.by_call["recorded", SHARD] = [2, 3]
    stages_of(run, left).judge(1, 0, SHARD)
    options = {"careful": True, "were_asked": True, "differing": {}, "by_columns": True}
    assert [((TERMS, FACTS, JUDGING), {**options, "unchanged": None})] == worker.made_with
    assert [[2, 3]] == seen_by(worker)
    assert [1, 0] == [len(row["answers"] or ()) for row in worker.given[0].to_pylist()]


class Gathering:
    """Spark's executor, of which only evidence may be asked for. It writes nothing."""

    is_careful = False
    gathered: tuple[Ledgers, ...] = ()

    def evidence(self, which: Ledgers, *, answered: bool) -> str:
        assert answered
        self.gathered = (*self.gathered, which)
        return "evidence"

    def derive(self, *_: object) -> str:
        return "steps"

    def write(self, *_: object) -> None:
        pass

    def distrust_workers(self) -> None:
        pass


@pytest.mark.parametrize(
    ("options", "rule", "is_counted"),
    [
        ({}, PlacementRule(), True),
        ({}, PlacementRule(Policy.RACK), False),
        ({"again_without": {3: "differs"}}, PlacementRule(), False),
        ({"only": (0, Todo.EVIDENCE)}, PlacementRule(), False),
        ({"retested": True}, PlacementRule(), False),
    ],
)
@pytest.mark.parametrize("suspects_max", [0, 1])
def test_answers_are_counted_here_where_spark_would_gather_all_evidence(
    run: Place,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    rule: PlacementRule,
    is_counted: bool,
    suspects_max: int,
) -> None:
    """Only of all ledgers of a first look, and only once: a judging that is repeated does not trust
    counts. Where placement is judged, no ledger can be settled by counts. The evidence of a shard
    is read, even if this process may judge nothing.
    """
    counter = patch(monkeypatch, "count_of", Worker(STEPS, {"ledger_id": 2}))
    patch(monkeypatch, "judge_of", Worker(STEPS, {"ledger_id": 2}))
    left, spark = Suspects(run), Gathering()
    stages = stages_of(run, left)
    stages.on_spark = lambda: cast("Executor", spark)
    stages.ledgers_max, stages.suspects_max = 0, suspects_max
    monkeypatch.setattr(Suspects, "ledgers", lambda *_: [2] * 9)
    stages.terms = Terms(0, 0, 16, 5, placement=rule)
    stages.judge(1, 1, Shard(1, 2, 3), **options)
    assert [[2, 3]] * is_counted == [rows["ledger_id"].to_pylist() for rows in counter.given]
    assert bool(spark.gathered) is not is_counted
    if is_counted:
        assert 1 == file_of(run, "steps/look-1-judging-1/suspects", STEPS).num_rows


@pytest.mark.parametrize("rule", [PlacementRule(), PlacementRule(Policy.RACK)])
@pytest.mark.parametrize(("listed", "are_many"), [(7, False), (8, True)])
def test_answers_about_many_ledgers_are_counted_without_spark_too(
    run: Place, monkeypatch: pytest.MonkeyPatch, listed: int, are_many: bool, rule: PlacementRule
) -> None:
    """The evidence of few is gathered. So is that of all where placement is judged, and in a
    judging that is repeated.
    """
    monkeypatch.setattr(stages, "SINGLY_MAX", 7)
    monkeypatch.setattr(LeftOver, "count_listed", lambda _: listed)
    counter = patch(monkeypatch, "count_of", Worker(STEPS, {"ledger_id": 2}))
    judge = patch(monkeypatch, "judge_of", Worker(STEPS, {"ledger_id": 2}))
    left, shard = LeftOver(), Shard(0, 2, 3)
    left.by_call["recorded", shard] = [2, 3]
    object.__setattr__(left, "_columns", {})
    here = stages_of(run, left)
    here.ledgers_max, here.terms = 1_000, Terms(0, 0, 16, 5, placement=rule)
    is_counted = are_many and rule == PlacementRule()
    here.judge(1, 0, shard)
    assert [[2, 3]] * is_counted == [rows["ledger_id"].to_pylist() for rows in counter.given]
    assert [[2, 3]] * (not is_counted) == seen_by(judge)
    here.judge(1, 1, shard, again_without={})
    assert ([[2, 3]] * (2 - is_counted), is_counted) == (seen_by(judge), len(counter.given))


def test_the_plan_has_each_bookies_questions(
    run_without_answers: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the number of questions and the bytes of their answers. No bookie is asked."""
    rows = [("b1", 2, 7), ("b2", 2, 5), ("b1", 4, 8)]
    questions = [dict(zip(QUESTIONS.names, row, strict=False)) for row in rows]
    asker = patch(monkeypatch, "asker_of", Worker(QUESTIONS, *questions))
    left = LeftOver()
    left.by_call["recorded", EVERYTHING] = [2, 4]
    plan = stages_of(run_without_answers, left).plan()
    assert [BookieCost("b1", 2, 15), BookieCost("b2", 1, 5)] == sorted(plan)
    assert [((TERMS, JUDGING), {"careful": True, "with_expected": False})] == asker.made_with
    assert {"evidence/ledgers/first.parquet"} == run_without_answers.files_in("evidence")


def test_the_plan_of_a_cluster_without_ledgers_is_empty(
    run_without_answers: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan without a question is not an error."""
    patch(monkeypatch, "asker_of", Worker(QUESTIONS))
    left = LeftOver()
    left.by_call["recorded", EVERYTHING] = []
    assert [] == stages_of(run_without_answers, left).plan()


def test_an_empty_listing_has_its_columns(run: Place) -> None:
    """A cluster without ledgers was listed nevertheless."""
    stages_of(run, LeftOver()).take_listing([])
    rows = file_of(run, "evidence/listing/listed", COUNTED_LISTING)
    assert (0, COUNTED_LISTING) == (
        rows.num_rows,
        pq.read_schema(f"{run.path}/evidence/listing/listed.parquet").remove_metadata(),
    )


class Listed:
    """A store that lists ledgers, together with its address. It records what is done with it."""

    def __init__(self, *ids: int) -> None:
        self.ids, self.said, self.counts = ids, [], ReadCounts(reads=2, reads_ok=2)

    def open(self) -> Listed:
        return self

    def __enter__(self) -> Listed:
        self.said.append("open")
        return self

    def __exit__(self, *_: object) -> None:
        self.said.append("closed")

    def sync(self) -> None:
        self.said.append("sync")

    def list_ids(self, portion: ListingPartition) -> Iterator[Any]:
        self.said.append(portion.parents[0])
        return iter([SimpleNamespace(ledger_ids=self.ids)])


PORTIONS = [ListingPartition(("/a",)), ListingPartition(("/b",))]


@pytest.mark.parametrize("ids_max", [None, 4])
def test_all_portions_are_listed_together(run: Place, ids_max: int | None) -> None:
    """They are listed in one session after a sync, and its reads are counted in the driver."""
    store, counts = Listed(3, 5), ReadCounts(reads=1, reads_ok=1)
    here = stages_of(run, LeftOver(), cast(StoreAddress, store), counts).local
    assert [3, 5, 3, 5] == here.list_ids(PORTIONS, ids_max)
    assert ["open", "sync", "/a", "/b", "closed"] == store.said
    assert (3, 3) == (counts.reads, counts.reads_ok)


def test_a_listing_with_too_many_ledgers_is_given_up(run: Place) -> None:
    """Listing stops with the portion that exceeds the bound."""
    store, counts = Listed(3, 5), ReadCounts()
    here = stages_of(run, LeftOver(), cast(StoreAddress, store), counts).local
    assert here.list_ids([*PORTIONS, ListingPartition(("/c",))], 3) is None
    assert ["open", "sync", "/a", "/b", "closed"] == store.said
    assert 2 == counts.reads


def test_the_reads_that_a_judging_demanded_are_made(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them are in one batch."""
    row = {"bookie_id": "b1", "ledger_id": 5, "entry_id": 42, "reads": 1}
    entries = patch(monkeypatch, "entry_reader", Worker(COUNTED_READS, row))
    stages_of(run, LeftOver()).read_entries(2, 1, DIRECTORY)
    assert [((DIRECTORY, LIMITS, 2, ADDRESS), {})] == entries.made_with
    assert [[WANT]] == [batch.to_pylist() for batch in entries.given]
    rows = file_of(run, "evidence/reads/look-02-judging-0001", COUNTED_READS)
    assert batch_of(COUNTED_READS, row).to_pylist() == rows.to_pylist()


@pytest.mark.parametrize(
    ("look", "only", "were_asked"),
    [
        (1, None, True),
        (2, None, False),
        (1, (0, Todo.READS), True),
        (1, (0, Todo.EVIDENCE), True),
        (2, (0, Todo.LISTS), True),
    ],
)
@pytest.mark.parametrize("differing", [{}, {3: "differs"}])
def test_open_ledgers_are_judged_or_those_that_one_judging_left(
    look: int,
    only: tuple[int, Todo] | None,
    were_asked: bool,
    differing: dict[int, str],
    run: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a first look or after lists bookies were asked for each wanted list. Only the first
    judging of a first look trusts columns, and the one of ledgers that counting answers left,
    unless it is repeated.
    """
    worker = Worker(STEPS, {"ledger_id": 2, "todo": Todo.LOOK.value})
    patch(monkeypatch, "judge_of", worker)
    left = LeftOver()
    first = ("recorded", SHARD) if look == 1 else (look - 1, SHARD)
    left.by_call[first if only is None else (look, *only)] = [2, 3]
    stages_of(run, left).judge(look, 1, SHARD, only, again_without=differing or None)
    options = {
        "careful": True,
        "were_asked": were_asked,
        "differing": differing,
        "by_columns": look == 1 and only in (None, (0, Todo.EVIDENCE)) and not differing,
        "unchanged": None if look == 1 or only or differing else Unchanged(look, frozenset({2})),
    }
    assert [((TERMS, FACTS, JUDGING), options)] == worker.made_with
    assert [[2, 3]] == seen_by(worker)
    rows = file_of(run, f"steps/look-{look}-judging-1/suspects", STEPS)
    assert batch_of(STEPS, *worker.rows).to_pylist() == rows.to_pylist()


def test_by_default_every_open_ledger_is_judged_and_none_is_withheld(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default is all shards, and no ledger on which the checkers differ."""
    worker = Worker(STEPS)
    patch(monkeypatch, "judge_of", worker)
    left = LeftOver()
    left.by_call[1, EVERYTHING] = [1]
    stages_of(run, left).judge(2, 0)
    assert [[1]] == seen_by(worker)
    options = worker.made_with[0][1]
    assert ({}, False) == (options["differing"], options["by_columns"])


def test_ledgers_are_gathered_some_at_a_time_with_all_that_was_seen_of_them(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each ledger comes once, in order, with its own answers and reads."""
    monkeypatch.setattr(local, "LEDGERS_AT_ONCE", 2)
    worker = Worker(STEPS)
    patch(monkeypatch, "judge_of", worker)
    left = LeftOver()
    left.by_call[1, EVERYTHING] = [1, 2, 3, 4, 5]
    stages_of(run, left).judge(2, 0)
    assert [[1, 2], [3, 4], [5]] == seen_by(worker)
    rows: list[dict[str, Any]] = [row for batch in worker.given for row in batch.to_pylist()]
    seen = {row["ledger_id"]: (len(row["answers"] or ()), len(row["reads"] or ())) for row in rows}
    assert {1: (0, 0), 2: (1, 1), 3: (0, 0), 4: (1, 1), 5: (0, 0)} == seen


def test_a_stage_that_fails_writes_nothing(run: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be tried again as if it had not begun."""

    def fails(*_: object) -> Callable[[Batches], Batches]:
        raise ConnectionError("lost")

    left = LeftOver()
    left.by_call[1, SHARD] = [12]
    monkeypatch.setattr(stages, "reader", lambda *_: fails)
    before = run.files_in("evidence")
    with pytest.raises(ConnectionError, match="lost"):
        stages_of(run, left).read_ledgers(2, SHARD)
    assert before == run.files_in("evidence")

"""The stages of few ledgers in this process: which ledgers, asked how, written where."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auditor.config import BookieLimits, JudgingLimits
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import ANSWERS, LEDGERS, READS, SEEN
from auditor.evidence.shards import EVERYTHING, Shard
from auditor.judging.settle import Todo
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.model.ledger import Mark
from auditor.spark.lanes import COUNTED_READS, PACED_ANSWERS, QUESTIONS, WANTED, Directory
from auditor.spark.ledgers import COUNTED_LEDGERS, COUNTED_LISTING
from auditor.spark.verdicts import STEPS
from auditor.stop import StopRequest
from auditor.summary.costs import BookieCost
from auditor.suspects import in_process
from auditor.suspects.in_process import InProcessStages
from auditor.suspects.remaining import Suspects
from auditor.zookeeper.ledger_listing import ListingPartition
from auditor.zookeeper.metadata_store import StoreAddress
from auditor.zookeeper.session import ReadCounts

DIRECTORY = Directory({"b2": ("127.0.0.1", 2), "b1": None}, frozenset())
SHARD = Shard(3, 10, 19)
ADDRESS, FACTS = cast(StoreAddress, "an address"), cast(ClusterFacts, "facts")
TERMS, LIMITS, JUDGING = cast(Terms, "terms"), cast(BookieLimits, "limits"), JudgingLimits()
WANT = {"bookie_id": "b1", "ledger_id": 5, "entry_id": 42, "digest_type": 3, "is_search": False}

Batches = Iterator[pa.RecordBatch]


class LeftOver:
    """Return suspects by their place: the arguments of a call identify the list."""

    def __init__(self) -> None:
        self.by_call: dict[tuple[object, ...], list[int]] = {}

    def listed_ledgers(self, shard: Shard) -> list[int]:
        return self.by_call["listed", shard]

    def recorded_ledgers(self, shard: Shard) -> list[int]:
        return self.by_call["recorded", shard]

    def open_ledgers(self, look: int, shard: Shard) -> list[int]:
        return self.by_call[look, shard]

    def ledgers_left(self, look: int, judging: int, todo: Todo) -> list[int]:
        return self.by_call[look, judging, todo]

    def wanted_reads(self, look: int, judging: int) -> pa.RecordBatch:
        assert (2, 1) == (look, judging)
        return pa.RecordBatch.from_pylist([WANT], schema=WANTED)


class Worker:
    """Stands for a maker of work: remembers what it is given, and gives rows of its own."""

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
    """Ledgers 1 to 5; of each even one an answer and a read."""
    run = place(str(tmp_path))
    even = [{"ledger_id": ledger_id, "bookie_id": "b1"} for ledger_id in (2, 4)]
    ledgers = [{"ledger_id": ledger_id, "look": 1} for ledger_id in range(1, 6)]
    run.write_table("evidence/ledgers", table_of(LEDGERS, *ledgers), "first")
    run.write_table("evidence/answers", table_of(ANSWERS, *even), "first")
    run.write_table("evidence/reads", table_of(READS, *even), "first")
    return run


def stages_of(run: Place, left: LeftOver, stop: StopRequest | None = None) -> InProcessStages:
    suspects = cast(Suspects, left)
    return InProcessStages(
        stop or StopRequest(), run, suspects, ADDRESS, FACTS, TERMS, LIMITS, JUDGING
    )


def patch(monkeypatch: pytest.MonkeyPatch, name: str, worker: Worker) -> Worker:
    monkeypatch.setattr(in_process, name, worker)
    return worker


def file_of(run: Place, name: str, schema: pa.Schema) -> pa.Table:
    """The rows of one file of a table, which has all the columns of the schema."""
    path = f"{run.path}/{name}.parquet"
    assert schema.names == pq.read_schema(path).names
    return pq.read_table(path, schema=schema)


def seen_by(worker: Worker) -> list[list[int]]:
    """The ledgers of each batch of SEEN rows."""
    assert all(batch.schema == SEEN for batch in worker.given)
    return [batch.column("ledger_id").to_pylist() for batch in worker.given]


def test_what_the_look_before_left_open_is_read(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of one shard in one batch, at the whole rate, without the marks of the first look."""
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
    """Ids are integers, also where there are none."""
    reader = patch(monkeypatch, "reader", Worker(COUNTED_LEDGERS))
    left = LeftOver()
    left.by_call[1, SHARD] = []
    stages_of(run, left).read_ledgers(2, SHARD)
    assert [pa.schema([("ledger_id", pa.int64())])] == [batch.schema for batch in reader.given]
    assert 0 == file_of(run, "evidence/ledgers/look-02-shard-0003", COUNTED_LEDGERS).num_rows


def test_a_stage_that_finds_nothing_has_its_file_too(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without rows, but with columns: a stage without a file has not been done."""
    patch(monkeypatch, "asker_of", Worker(QUESTIONS))
    patch(monkeypatch, "list_asker", Worker(PACED_ANSWERS))
    patch(monkeypatch, "entry_reader", Worker(COUNTED_READS))
    monkeypatch.setattr(in_process, "verdicts", SimpleNamespace(judge_of=Worker(STEPS)))
    left = LeftOver()
    left.by_call = {(2, 1, Todo.LISTS): [], (1, EVERYTHING): []}
    stages = stages_of(run, left)
    stages.ask_lists(2, DIRECTORY, SHARD, 1)
    stages.read_entries(2, 1, DIRECTORY)
    stages.judge(2, 0)
    assert 0 == file_of(run, "evidence/answers/look-02-shard-0003", PACED_ANSWERS).num_rows
    assert 0 == file_of(run, "evidence/reads/look-02-judging-0001", COUNTED_READS).num_rows
    assert 0 == file_of(run, "steps/look-2-judging-0/suspects", STEPS).num_rows


def test_what_a_judging_left_wanting_lists_is_asked_about(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each registered bookie is greeted first. Whom to ask is found out in a child."""
    question = {"bookie_id": "b1", "ledger_id": 4, "expected_bytes": 7}
    asker = patch(monkeypatch, "asker_of", Worker(QUESTIONS, question))
    answer = {"bookie_id": "b1", "ledger_id": 4}
    lists = patch(monkeypatch, "list_asker", Worker(PACED_ANSWERS, answer))
    left = LeftOver()
    left.by_call[2, 1, Todo.LISTS] = [4]
    stages_of(run, left).ask_lists(2, DIRECTORY, SHARD, 1)
    assert [((JUDGING,), {"careful": True, "has_listers": False})] == asker.made_with
    assert [[4]] == seen_by(asker)
    assert [1] == [len(row["answers"]) for row in asker.given[0].to_pylist()], (
        "what was said at the first look"
    )
    assert [((DIRECTORY, LIMITS, 2), {})] == lists.made_with
    greetings = [{"bookie_id": bookie} for bookie in ("b1", "b2")]
    assert [batch_of(QUESTIONS, *greetings, question)] == lists.given
    rows = file_of(run, "evidence/answers/look-02-shard-0003", PACED_ANSWERS)
    assert batch_of(PACED_ANSWERS, *lists.rows).to_pylist() == rows.to_pylist()


def test_questions_are_answered_so_many_at_a_time(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What bookies said of more than that is in memory as rows."""
    monkeypatch.setattr(in_process, "QUESTIONS_AT_ONCE", 3)
    asked = [
        {"bookie_id": "b1", "ledger_id": ledger_id, "expected_bytes": 7} for ledger_id in (2, 4)
    ]
    patch(monkeypatch, "asker_of", Worker(QUESTIONS, *asked))
    lists = patch(monkeypatch, "list_asker", Worker(PACED_ANSWERS))
    left = LeftOver()
    left.by_call[2, 1, Todo.LISTS] = [4]
    stages_of(run, left).ask_lists(2, DIRECTORY, SHARD, 1)
    assert [3, 1] == [batch.num_rows for batch in lists.given]


@pytest.fixture
def unasked(tmp_path: Path) -> Place:
    """Ledgers 1 to 5 of a run that has asked no bookie yet."""
    run = place(str(tmp_path / "unasked"))
    ledgers = [{"ledger_id": ledger_id, "look": 1} for ledger_id in range(1, 6)]
    run.write_table("evidence/ledgers", table_of(LEDGERS, *ledgers), "first")
    return run


def test_the_first_look_asks_about_every_ledger_of_the_shard(
    unasked: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answers of bookies are read: there is no such table yet."""
    asker = patch(monkeypatch, "asker_of", Worker(QUESTIONS, {"bookie_id": "b1", "ledger_id": 4}))
    patch(monkeypatch, "list_asker", Worker(PACED_ANSWERS, {"bookie_id": "b1", "ledger_id": 4}))
    left = LeftOver()
    left.by_call["recorded", SHARD] = [2, 4]
    stages_of(unasked, left).ask_lists(1, DIRECTORY, SHARD)
    assert [[2, 4]] == seen_by(asker)
    assert [0, 0] == [
        len(row["answers"] or row["reads"] or ())
        for batch in asker.given
        for row in batch.to_pylist()
    ]
    assert 1 == file_of(unasked, "evidence/answers/look-01-shard-0003", PACED_ANSWERS).num_rows


def test_the_first_look_reads_the_listed_ledgers_with_the_marks(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marks were listed before, all at once."""
    reader = patch(monkeypatch, "reader", Worker(COUNTED_LEDGERS, {"ledger_id": 12}))
    marks = {12: cast(Mark, "a mark")}
    left = LeftOver()
    left.by_call["listed", SHARD] = [12, 17]
    stages_of(run, left).read_ledgers(1, SHARD, marks)
    assert [((ADDRESS, 1, marks), {})] == reader.made_with
    assert [pa.RecordBatch.from_pydict({"ledger_id": [12, 17]})] == reader.given
    assert 1 == file_of(run, "evidence/ledgers/look-01-shard-0003", COUNTED_LEDGERS).num_rows


def test_the_first_look_judges_what_was_read_with_what_was_said(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that want lists were asked about."""
    worker = Worker(STEPS, {"ledger_id": 2, "todo": Todo.LOOK.value})
    monkeypatch.setattr(in_process, "verdicts", SimpleNamespace(judge_of=worker))
    left = LeftOver()
    left.by_call["recorded", SHARD] = [2, 3]
    stages_of(run, left).judge(1, 0, SHARD)
    options = {"careful": True, "were_asked": True, "differing": {}, "by_columns": True}
    assert [((TERMS, FACTS, JUDGING), options)] == worker.made_with
    assert [[2, 3]] == seen_by(worker)
    assert [1, 0] == [len(row["answers"] or ()) for row in worker.given[0].to_pylist()]


def test_the_plan_has_each_bookies_questions(
    unasked: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many there are, and the bytes of their answers. Nobody is asked."""
    rows = [("b1", 2, 7), ("b2", 2, 5), ("b1", 4, 8)]
    questions = [dict(zip(QUESTIONS.names, row, strict=False)) for row in rows]
    asker = patch(monkeypatch, "asker_of", Worker(QUESTIONS, *questions))
    left = LeftOver()
    left.by_call["recorded", EVERYTHING] = [2, 4]
    plan = stages_of(unasked, left).plan()
    assert [BookieCost("b1", 2, 15), BookieCost("b2", 1, 5)] == sorted(plan)
    assert [((JUDGING,), {"careful": True})] == asker.made_with
    assert {"evidence/ledgers/first.parquet"} == unasked.files_in("evidence")


def test_the_plan_of_a_cluster_without_ledgers_is_empty(
    unasked: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No question is a plan too."""
    patch(monkeypatch, "asker_of", Worker(QUESTIONS))
    left = LeftOver()
    left.by_call["recorded", EVERYTHING] = []
    assert [] == stages_of(unasked, left).plan()


def test_an_empty_listing_has_its_columns(run: Place) -> None:
    """A cluster without ledgers was listed all the same."""
    stages_of(run, LeftOver()).take_listing([], "evidence/listing")
    rows = file_of(run, "evidence/listing/listed", COUNTED_LISTING)
    assert (0, COUNTED_LISTING) == (
        rows.num_rows,
        pq.read_schema(f"{run.path}/evidence/listing/listed.parquet").remove_metadata(),
    )


class Listed:
    """A store that lists ledgers, and may be opened once: also its address."""

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
def test_all_portions_are_listed_into_one_file(run: Place, ids_max: int | None) -> None:
    """Behind a sync, in one session, whose reads are counted. The cells for counts stay empty: the
    driver's are elsewhere.
    """
    store, counts = Listed(3, 5), ReadCounts(reads=1, reads_ok=1)
    stages = replace(stages_of(run, LeftOver()), address=cast(StoreAddress, store), counts=counts)
    assert stages.list_ledgers(PORTIONS, ids_max, "evidence/listing")
    assert ["open", "sync", "/a", "/b", "closed"] == store.said
    rows = file_of(run, "evidence/listing/listed", COUNTED_LISTING).to_pylist()
    assert [
        dict(zip(COUNTED_LISTING.names, (i, None, None), strict=True)) for i in (3, 5, 3, 5)
    ] == rows
    assert (3, 3) == (counts.reads, counts.reads_ok)


def test_more_ledgers_than_they_may_be_are_not_written(run: Place) -> None:
    """No portion behind the bound is listed."""
    store, counts = Listed(3, 5), ReadCounts()
    stages = replace(stages_of(run, LeftOver()), address=cast(StoreAddress, store), counts=counts)
    assert not stages.list_ledgers([*PORTIONS, ListingPartition(("/c",))], 3, "evidence/listing")
    assert ["open", "sync", "/a", "/b", "closed"] == store.said
    assert not run.has_table("evidence/listing")
    assert 2 == counts.reads


def test_the_reads_that_a_judging_demanded_are_made(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All in one batch."""
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
    """In a child; behind a first look or lists, what still wants lists was asked about. Columns
    are trusted by the first judging of a first look alone, unless it is repeated.
    """
    worker = Worker(STEPS, {"ledger_id": 2, "todo": Todo.LOOK.value})
    monkeypatch.setattr(in_process, "verdicts", SimpleNamespace(judge_of=worker))
    left = LeftOver()
    first = ("recorded", SHARD) if look == 1 else (look - 1, SHARD)
    left.by_call[first if only is None else (look, *only)] = [2, 3]
    stages_of(run, left).judge(look, 1, SHARD, only, again_without=differing or None)
    options = {
        "careful": True,
        "were_asked": were_asked,
        "differing": differing,
        "by_columns": (look, only, differing) == (1, None, {}),
    }
    assert [((TERMS, FACTS, JUDGING), options)] == worker.made_with
    assert [[2, 3]] == seen_by(worker)
    rows = file_of(run, f"steps/look-{look}-judging-1/suspects", STEPS)
    assert batch_of(STEPS, *worker.rows).to_pylist() == rows.to_pylist()


def test_by_default_every_open_ledger_is_judged_and_none_is_withheld(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of no one shard."""
    worker = Worker(STEPS)
    monkeypatch.setattr(in_process, "verdicts", SimpleNamespace(judge_of=worker))
    left = LeftOver()
    left.by_call[1, EVERYTHING] = [1]
    stages_of(run, left).judge(2, 0)
    options = worker.made_with[0][1]
    assert ({}, False) == (options["differing"], options["by_columns"])


def test_ledgers_are_gathered_some_at_a_time_with_all_that_was_seen_of_them(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once, in order, with its own answers and reads and no others."""
    monkeypatch.setattr(in_process, "LEDGERS_AT_ONCE", 2)
    worker = Worker(STEPS)
    monkeypatch.setattr(in_process, "verdicts", SimpleNamespace(judge_of=worker))
    left = LeftOver()
    left.by_call[1, EVERYTHING] = [1, 2, 3, 4, 5]
    stages_of(run, left).judge(2, 0)
    assert [[1, 2], [3, 4], [5]] == seen_by(worker)
    rows: list[dict[str, Any]] = [row for batch in worker.given for row in batch.to_pylist()]
    seen = {row["ledger_id"]: (len(row["answers"] or ()), len(row["reads"] or ())) for row in rows}
    assert {1: (0, 0), 2: (1, 1), 3: (0, 0), 4: (1, 1), 5: (0, 0)} == seen


def test_a_stage_that_fails_writes_nothing(run: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is as if it had not been tried."""

    def fails(*_: object) -> Callable[[Batches], Batches]:
        raise ConnectionError("lost")

    left = LeftOver()
    left.by_call[1, SHARD] = [12]
    monkeypatch.setattr(in_process, "reader", lambda *_: fails)
    before = run.files_in("evidence")
    with pytest.raises(ConnectionError, match="lost"):
        stages_of(run, left).read_ledgers(2, SHARD)
    assert before == run.files_in("evidence")

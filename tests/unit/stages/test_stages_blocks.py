"""Questions and answers in blocks: the same questions, and the same rows of evidence.

The reference is what is asked and stored of each ledger by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.scripted_bookie import LIST, ScriptedBookie

from auditor.bookie.list_blocks import ListBlock
from auditor.bookie.questions import ListQuestion
from auditor.config import BookieLimits, JudgingLimits
from auditor.evidence.ids import Shard
from auditor.evidence.journal import Journal
from auditor.evidence.rows import Row, ledger_row, named_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import ANSWERS, LEDGERS, SEEN
from auditor.judging.clear_columns import ClearColumns
from auditor.judging.settle import Todo
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.evidence import Terms
from auditor.model.ledger import LedgerRecord, RecordStatus, ZnodeStamp
from auditor.run.bookie_register import BookieRegister
from auditor.sandbox.cluster import ledger
from auditor.second_checker.agreement import is_in_sample
from auditor.stages import asking, blocks
from auditor.stages import stages as stages_module
from auditor.stages.asking import LANE_ANSWERS, PACED_ANSWERS, QUESTIONS, Directory, list_asker
from auditor.stages.blocks import list_blocks, pack_questions, unpack_answers, unpack_questions
from auditor.stages.local import LocalExecutor
from auditor.stages.selection import Suspects
from auditor.stages.stages import Stages
from auditor.stages.steps import STEPS, asker_of, steps_name
from auditor.stop import StopRequest
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb
from auditor.zookeeper.metadata_store import StoreAddress
from auditor.zookeeper.session import ReadCounts

T = TypeVar("T")
TERMS = Terms(1_000, 0, 16, 5)
HALF = replace(TERMS, sound_sample=0.5)
LIMITS = BookieLimits(bookie_requests_per_second=0, rpc_timeout_ms=5_000)


def record(ledger_id: int, shape: str) -> LedgerRecord:
    stamp = ZnodeStamp(1, 0, 0, 0)
    return LedgerRecord(ledger_id, 1, 0, RecordStatus.FOUND, stamp, ledger(shape))


def clear_of(records: Sequence[LedgerRecord]) -> ClearColumns:
    rows = table(LEDGERS, [ledger_row(one) for one in records])
    return ClearColumns.of(pa.Table.from_batches([rows]))


def asked_in_blocks(records: Sequence[LedgerRecord], terms: Terms) -> set[tuple[Any, ...]]:
    """Return the questions of all blocks, after they were packed and unpacked."""
    found = [
        (bookie, *question)
        for bookie, block in list_blocks(clear_of(records), terms)
        for question in unpacked(block).questions()
    ]
    assert len(found) == len(set(found)), "a question is asked once"
    return set(found)


def unpacked(block: ListBlock) -> ListBlock:
    """Return a block as it comes out of a column of Arrow."""
    rows = table(QUESTIONS, [named_row(QUESTIONS, bookie_id="b", block=pack_questions(block))])
    return unpack_questions(rows["block"].to_pylist()[0])


def asked_singly(records: Sequence[LedgerRecord], terms: Terms) -> set[tuple[Any, ...]]:
    """Return the questions that are made of each clear ledger."""
    rows = [(one.ledger_id, [ledger_row(one)], None, None) for one in records]
    work = asker_of(terms, JudgingLimits())
    cells = [row for made in work(iter([table(SEEN, rows)])) for row in made.to_pylist()]
    assert all(row["block"] is None for row in cells)
    return {
        (row["bookie_id"], *ListQuestion(*(row[name] for name in QUESTIONS.names[1:-1])))
        for row in cells
        if row["is_compared"]
    }


@st.composite
def shapes(draw: st.DrawFn) -> str:
    size = draw(st.integers(1, 5))
    quorum = draw(st.integers(1, size))
    names = draw(st.permutations([f"b{number}" for number in range(1, 6)]))[:size]
    return f"e{size} w{quorum} a1 0:[{' '.join(names)}] closed {draw(st.integers(0, 30))}"


UNCLEAR = ("e2 w2 0:[b1 b2] 5:[b1 b3] closed 9", "e2 w2 0:[b1 b1] closed 9", "e2 w2 0:[b1 b2] open")


@settings(max_examples=50)
@given(st.lists(st.one_of(shapes(), st.sampled_from(UNCLEAR)), max_size=12))
def test_the_questions_are_those_of_each_ledger(drawn: list[str]) -> None:
    records = [record(number, shape) for number, shape in enumerate(drawn, 5)]
    assert asked_singly(records, HALF) == asked_in_blocks(records, HALF)


def test_ledgers_that_should_be_whole_on_a_bookie_share_a_block() -> None:
    """Whichever position it has. A block has a bounded number of questions, by ascending id."""
    shapes = ("e3 w3 a2 0:[b1 b2 b3] closed 4", "e3 w3 a2 0:[b3 b1 b2] closed 5")
    records = [record(number, shapes[number % 2]) for number in range(7)]
    made = list(list_blocks(clear_of(records), TERMS))
    assert [("b1", list(range(7))), ("b2", list(range(7))), ("b3", list(range(7)))] == sorted(
        (bookie, block.ledger_ids.tolist()) for bookie, block in made
    )
    assert all(block.is_whole for _, block in made)


def test_a_block_has_a_bounded_number_of_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_QUESTIONS_MAX", 3)
    records = [record(number, "e1 w1 0:[b1] closed 9") for number in range(7)]
    made = list(list_blocks(clear_of(records), TERMS))
    assert [[0, 1, 2], [3, 4, 5], [6]] == [block.ledger_ids.tolist() for _, block in made]


def test_the_sample_is_the_one_that_both_checkers_judge() -> None:
    records = [record(number, "e2 w2 0:[b1 b2] closed 9") for number in range(40)]
    ((_, first), (_, second)) = list_blocks(clear_of(records), HALF)
    drawn = bytes(is_in_sample(number, HALF) for number in range(40))
    assert drawn == first.is_kept == second.is_kept
    assert 0 < sum(drawn) < 40


def test_without_clear_ledgers_there_is_no_block() -> None:
    assert [] == list(list_blocks(clear_of([]), TERMS))


HEALTHY = list(range(1, 40))
LACKING, UNKNOWN = 11, 12


def held() -> dict[int, range]:
    """Return what the bookie holds: all that it should, but for two ledgers."""
    found = {number: range(number + 1) for number in HEALTHY}
    found[LACKING] = range(LACKING)
    del found[UNKNOWN]
    return found


def questions(terms: Terms) -> pa.RecordBatch:
    """Return two blocks about one bookie, and a greeting."""
    ids = np.array(HEALTHY)
    kept = bytes(is_in_sample(number, terms) for number in HEALTHY)
    whole = ListBlock(ids, ids, 3, 3, 0, kept)
    parts = [
        replace(whole, ledger_ids=ids[at], last_entries=ids[at], is_kept=kept[at])
        for at in (slice(0, 20), slice(20, None))
    ]
    rows = [named_row(QUESTIONS, bookie_id="b1", block=pack_questions(block)) for block in parts]
    return table(QUESTIONS, [named_row(QUESTIONS, bookie_id="b1"), *rows])


def rows_of(directory: Directory, asked: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return the rows of evidence about ledgers, without their times."""
    batches = list_asker(directory, LIMITS, 1)(iter([asked]))
    made = [row for rows in unpack_answers(batches, PACED_ANSWERS) for row in rows.to_pylist()]
    (greeting,) = (row for row in made if row["ledger_id"] is None)
    assert greeting["pace"] is not None
    about = [row for row in made if row["ledger_id"] is not None]
    assert all(row.pop("asked_at_ms") > 0 for row in about)
    return sorted(about, key=lambda row: str(row["ledger_id"]))


def singly(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the same questions, a row for each."""
    rows = [
        (row["bookie_id"], *question, None)
        for row in batch.to_pylist()
        if row["block"]
        for question in unpack_questions(row["block"]).questions()
    ]
    return table(QUESTIONS, [named_row(QUESTIONS, bookie_id="b1"), *rows])


def test_answers_to_blocks_become_the_rows_of_answers_one_by_one() -> None:
    """As expected, kept, and others."""
    rows = []
    for asked in (questions(HALF), singly(questions(HALF))):
        with ScriptedBookie(held()) as bookie:
            directory = Directory({"b1": ("127.0.0.1", bookie.port)}, frozenset())
            rows.append(rows_of(directory, asked))
    ours, theirs = rows
    assert ours == theirs
    assert {LACKING, UNKNOWN} == {row["ledger_id"] for row in ours if not row["is_as_expected"]}
    kept = [row["ledger_id"] for row in ours if row["is_as_expected"] and row["groups"] is not None]
    assert {one for one in HEALTHY if is_in_sample(one, HALF)} - {LACKING, UNKNOWN} == set(kept)


@pytest.mark.parametrize(
    ("directory", "status"),
    [
        (Directory({}, frozenset()), "unregistered"),
        (Directory({"b1": None}, frozenset()), "address_unknown"),
    ],
)
def test_a_bookie_that_is_not_dialled_answers_each_question_of_a_block(
    directory: Directory, status: str
) -> None:
    batches = list_asker(directory, LIMITS, 1)(iter([questions(TERMS)]))
    made = [row for rows in unpack_answers(batches, PACED_ANSWERS) for row in rows.to_pylist()]
    assert [(number, status) for number in HEALTHY] == [
        (row["ledger_id"], row["status"]) for row in made
    ]


def test_answers_become_rows_portion_by_portion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many answers that are not as expected are held at once. The largest blocks come
    first, with the questions that are in no block.
    """
    monkeypatch.setattr(asking, "PORTION_QUESTIONS", 10)
    ids = np.split(np.arange(30), [2, 10, 17, 25])
    packed = [pack_questions(ListBlock(n, n, 3, 3, 0, bytes(len(n)))) for n in ids]
    rows = [named_row(QUESTIONS, bookie_id="b1", block=block) for block in packed]
    single = named_row(QUESTIONS, bookie_id="b1", ledger_id=99, is_compared=False, is_kept=False)
    work = list_asker(Directory({}, frozenset()), LIMITS, 1)
    made = list(work(iter([table(QUESTIONS, [*rows, single])])))
    assert [17, 12, 2, 0] == [len(batch) for batch in made]
    found = [row["ledger_id"] for batch in made for row in batch.to_pylist()]
    assert [99, *range(2, 10)] == found[:9]
    assert [*range(30), 99] == sorted(found)


def test_a_bookie_that_cannot_list_answers_each_question_of_a_block() -> None:
    """It is not asked for a list."""
    with ScriptedBookie(held()) as bookie:
        address = {"b1": ("127.0.0.1", bookie.port)}
        rows = rows_of(Directory(address, frozenset({"b1"})), questions(TERMS))
        assert {"unsupported"} == {row["status"] for row in rows}
        assert [] == bookie.asked(11)
    assert len(HEALTHY) == len(rows)


BRIEF = replace(LIMITS, rpc_timeout_ms=300)


@pytest.mark.parametrize("silent", [[1], [1, 2]])
def test_a_few_unanswered_lists_do_not_prove_that_a_bookie_cannot_list_the_rest(
    silent: list[int],
) -> None:
    """They are all of a batch, but not all that the bookie is asked."""

    def ignore(_: Any, request: pb.Request) -> bool:
        return request.getListOfEntriesOfLedgerRequest.ledgerId in silent

    def asked(ids: Sequence[int]) -> pa.RecordBatch:
        rows = [(number, 1, None, False, False, None) for number in ids]
        return table(QUESTIONS, [("b1", *row) for row in rows])

    with ScriptedBookie(held(), ignore) as bookie:
        directory = Directory({"b1": ("127.0.0.1", bookie.port)}, frozenset())
        work = list_asker(directory, BRIEF, 1)
        made = [
            row for rows in work(iter([asked(silent), asked([5, 6])])) for row in rows.to_pylist()
        ]
    assert {"b1": "answered", 5: "held", 6: "held", **dict.fromkeys(silent, "timed_out")} == {
        row["ledger_id"] or row["bookie_id"]: row["status"] for row in made
    }


@pytest.mark.parametrize(
    ("look", "shard", "status"),
    [
        (1, Shard(0, 0, 9), "timed_out"),
        (1, Shard(1, 10), "unsupported"),
        (2, Shard(0, 0, 9), "unsupported"),
    ],
)
def test_a_few_unanswered_lists_of_a_shard_prove_nothing_while_shards_follow(
    look: int, shard: Shard, status: str, tmp_path: Path
) -> None:
    """At a later look, the bookie listed nothing of all shards at the first."""
    one = shard.first + 3
    run = place(str(tmp_path))
    records = [replace(record(one, "e1 w1 0:[b1] closed 4"), look=n) for n in range(1, look + 1)]
    run.write_table("evidence/ledgers", table(LEDGERS, map(ledger_row, records)), "first")
    run.write_table("evidence/listing", pa.table({"ledger_id": [one]}), "first")
    stages = first_look(run, elsewhere=False)
    stages.limits = BRIEF
    if look > 1:
        step = named_row(STEPS, ledger_id=one, todo=Todo.LISTS.value)
        run.write_table(steps_name(look, 0), table(STEPS, [step]), "suspects")
    with ScriptedBookie(held(), lambda _, request: request.header.operation == LIST) as bookie:
        directory = Directory({"b1": ("127.0.0.1", bookie.port)}, frozenset())
        stages.ask_lists(look, directory, shard, None if look == 1 else 0)
    (answer,) = (row for row in evidence_of(run) if row["ledger_id"] is not None)
    assert status == answer["status"]


def test_a_bookie_with_one_ledger_in_each_shard_is_waited_for_three_times(tmp_path: Path) -> None:
    """After the third list it counts as unable to list, and is not asked again."""
    shards = [Shard(number, 10 * number, 10 * number + 9) for number in range(6)]
    ids = [shard.first + 3 for shard in shards]
    run = place(str(tmp_path))
    rows = [ledger_row(record(one, "e1 w1 0:[b1] closed 4")) for one in ids]
    run.write_table("evidence/ledgers", table(LEDGERS, rows), "first")
    run.write_table("evidence/listing", pa.table({"ledger_id": ids}), "first")
    stages = first_look(run, elsewhere=False)
    stages.limits = BRIEF

    class Store:
        """One registered bookie."""

        def sync(self) -> None:
            """Do nothing."""

        def bookies(self, look: int, _: Any) -> list[BookieRecord]:
            return [BookieRecord("b1", look, 0, Registration.WRITABLE, "127.0.0.1", bookie.port)]

    with ScriptedBookie(held(), lambda _, request: request.header.operation == LIST) as bookie:
        register = BookieRegister(cast("Any", Store()), run, Journal(run), FACTS)
        for shard in shards:
            stages.ask_lists(1, register.directory(1), shard)
    said = {row["ledger_id"]: row["status"] for row in evidence_of(run) if row["ledger_id"]}
    waited, rest = ["timed_out"] * 2, ["unsupported"] * 4
    assert dict(zip(ids, waited + rest, strict=True)) == said


def test_a_bookie_that_refuses_a_list_answers_each_question_once() -> None:
    def busy(connection: Any, request: pb.Request) -> bool:
        if request.getListOfEntriesOfLedgerRequest.ledgerId == 5:
            connection.close()
            return True
        return False

    with ScriptedBookie(held(), busy) as bookie:
        address = {"b1": ("127.0.0.1", bookie.port)}
        rows = rows_of(Directory(address, frozenset()), questions(TERMS))
    assert sorted(map(str, HEALTHY)) == [str(row["ledger_id"]) for row in rows]


def test_rows_of_blocks_are_by_ascending_ledger_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind all others. Parts of a file that hold few ledgers need not be decoded to find one."""
    monkeypatch.setattr(blocks, "ROWS_AT_ONCE", 50)
    cells = []
    for bookie, ids in (("b2", range(90)), ("b1", range(30, 60)), ("b2", range(90, 91))):
        numbers = np.array(ids, np.int64)
        block = blocks.pack_answers(asking.ExpectedAnswers(numbers, numbers + 7, numbers + 100))
        cells.append(named_row(LANE_ANSWERS, bookie_id=bookie, look=1, block=block))
    greeting = named_row(LANE_ANSWERS, bookie_id="b3", status="answered")
    made = list(unpack_answers([table(LANE_ANSWERS, [*cells, greeting])], PACED_ANSWERS))
    assert [1, 50, 50, 21] == [rows.num_rows for rows in made]
    assert all(rows.schema == PACED_ANSWERS for rows in made)
    rows = pa.Table.from_batches(made[1:]).to_pylist()
    keys = [(row["ledger_id"], row["bookie_id"]) for row in rows]
    assert sorted(keys) == keys
    assert {(row["ledger_id"] + 7, row["ledger_id"] + 100) for row in rows} == {
        (row["asked_at_ms"], row["received_bytes"]) for row in rows
    }
    assert {("held", None, True, 1, 0, 1)} == {
        (
            row["status"],
            row["groups"],
            row["is_as_expected"],
            row["requests"],
            row["retries"],
            row["look"],
        )
        for row in rows
    }


def test_blocks_in_the_middle_of_a_batch_are_unpacked() -> None:
    """A batch may be a part of another one, whose bytes it shares."""
    cells = []
    for bookie, ids in (("b2", range(9)), ("b1", range(3, 6)), ("b2", range(9, 20)), ("b1", ())):
        numbers = np.array(ids, np.int64)
        block = blocks.pack_answers(asking.ExpectedAnswers(numbers, numbers + 7, numbers + 100))
        cells.append(named_row(LANE_ANSWERS, bookie_id=bookie, look=1, block=block))
    whole = table(LANE_ANSWERS, cells)
    for first, count in ((1, 2), (0, 4), (2, 1), (3, 1)):
        parts = [rows.to_pylist() for rows in unpack_answers([whole.slice(first, count)], ANSWERS)]
        anew = table(LANE_ANSWERS, cells[first : first + count])
        assert parts == [rows.to_pylist() for rows in unpack_answers([anew], ANSWERS)]
        ids = [i for cell in cells[first : first + count] for i in ids_of(cell)]
        assert sorted(ids) == [row["ledger_id"] for rows in parts for row in rows]


def ids_of(cell: Row) -> list[int]:
    found: list[int] = np.frombuffer(cell[-1]["ledger_ids"], np.int64).tolist()
    return found


FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", None, False, None)
ADDRESS = cast(StoreAddress, None)


def first_look(run: Place, *, elsewhere: bool, suspects_max: int = 1_000) -> Stages:
    """Return the stages of a run. `elsewhere`: another executor takes the first look.

    That executor is like the one of this process: what the two say to each other is what Spark and
    this process say.
    """
    suspects = Suspects(run)
    here, other = (
        LocalExecutor(StopRequest(), run, suspects, ADDRESS, ReadCounts()) for _ in range(2)
    )
    return Stages(
        on_spark=lambda: other,
        local=here,
        suspects=suspects,
        facts=FACTS,
        terms=HALF,
        limits=LIMITS,
        suspects_max=suspects_max,
        ledgers_max=0 if elsewhere else 1_000,
    )


def evidence_of(run: Place) -> list[dict[str, Any]]:
    rows = run.read_table("evidence/answers", PACED_ANSWERS).to_pylist()
    for row in rows:
        row.pop("asked_at_ms")
    return sorted(rows, key=lambda row: (str(row["ledger_id"]), row["bookie_id"]))


@pytest.mark.parametrize("suspects_max", [0, 1, 1_000])
def test_the_evidence_is_the_same_whoever_takes_the_first_look(
    suspects_max: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of clear ledgers and others, whole and striped, on bookies that hold them and that do not.
    Others are asked about by this process if they are few, and it may work. It asks about few
    ledgers one by one, and about many in blocks.
    """
    packed: list[int] = []
    pack = stages_module.pack_questions
    monkeypatch.setattr(
        stages_module, "pack_questions", lambda block: (packed.append(len(block)), pack(block))[1]
    )
    shapes = ("e2 w2 a2 0:[b1 b2] closed 4", "e3 w2 a2 0:[b2 b1 gone] closed 5", *UNCLEAR)
    records = [record(number, shapes[number % len(shapes)]) for number in range(10, 60)]
    asked, found = [], []
    ways = ((False, 50), (False, 49), (True, 50))
    for number, (elsewhere, singly_max) in enumerate(ways):
        monkeypatch.setattr(stages_module, "SINGLY_MAX", singly_max)
        run = place(str(tmp_path / str(number)))
        run.write_table("evidence/ledgers", table(LEDGERS, map(ledger_row, records)), "first")
        run.write_table("evidence/listing", pa.table({"ledger_id": range(10, 60)}), "first")
        with ScriptedBookie({n: range(5) for n in range(50)}) as b1, ScriptedBookie() as b2:
            addresses = {"b1": ("127.0.0.1", b1.port), "b2": ("127.0.0.1", b2.port)}
            stages = first_look(run, elsewhere=elsewhere, suspects_max=suspects_max or 1_000)
            if elsewhere:
                stages.suspects_max = suspects_max
            stages.ask_lists(1, Directory(addresses, frozenset()), Shard(7, 15, 55))
            asked.append([sorted(map(str, bookie.asked(11))) for bookie in (b1, b2)])
        found.append(evidence_of(run))
        assert {"evidence/answers/look-01-shard-0007.parquet"} == run.files_in("evidence/answers")
        assert set() == run.files_in("steps")
        assert (number > 0) is bool(packed)
        packed.clear()
    assert asked[0] == asked[1] == asked[2]
    assert found[0] == found[1] == found[2]
    assert {15, 55} <= {row["ledger_id"] for row in found[1]} <= {None, *range(15, 56)}
    assert {True, False} == {row["is_as_expected"] for row in found[1]}


def count_calls(work: Callable[[], T]) -> tuple[T, int]:
    """Return what the work returns, and how many Python functions were called for it."""
    calls = 0

    def on_event(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(on_event)
    try:
        found = work()
    finally:
        sys.setprofile(None)
    return found, calls


MANY = 20_000


def many_clear() -> ClearColumns:
    """Return as many ledgers on four bookies, each with another last entry."""
    ids = np.arange(MANY, dtype=np.int64)
    ensembles = ((ids[:, None] + np.arange(3)) % 4).astype(np.int32).ravel()
    sizes = np.full(MANY, 3)
    return ClearColumns(ids, ids + 7, sizes, sizes, ids * 3, ensembles, ["b0", "b1", "b2", "b3"])


def test_what_is_made_and_moved_does_not_grow_with_the_ledgers(tmp_path: Path) -> None:
    """Counted, not timed: the rows that Spark moves, the calls of Python, the bytes of evidence."""
    clear = many_clear()
    made, calls = count_calls(lambda: list(list_blocks(clear, TERMS)))
    assert 8 == len(made), "two blocks for each bookie"
    assert calls < MANY / 10, f"{calls} calls"
    cells = []
    for bookie, block in made:
        answers = asking.ExpectedAnswers(
            block.ledger_ids, block.ledger_ids // 50 + 1_700_000_000_000, block.ledger_ids % 3 + 111
        )
        packed = blocks.pack_answers(answers)
        cells.append(named_row(LANE_ANSWERS, bookie_id=bookie, look=1, block=packed))
    said = table(LANE_ANSWERS, cells)
    rows, calls = count_calls(lambda: list(unpack_answers([said], PACED_ANSWERS)))
    assert 3 * MANY == sum(batch.num_rows for batch in rows)
    assert calls < MANY / 10, f"{calls} calls"
    run = place(str(tmp_path))
    run.write_stream("evidence/answers", rows, PACED_ANSWERS, "all")
    (size_bytes,) = run.file_sizes("evidence/answers").values()
    assert size_bytes < 6 * 3 * MANY, f"{size_bytes / 3 / MANY:.1f} bytes a copy"

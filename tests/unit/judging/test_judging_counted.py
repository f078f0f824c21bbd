"""Healthy ledgers by the counts of their answers: nothing that is missing makes a ledger sound.

What counts find healthy is compared with what the gathered evidence says.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.entry_by_entry import expected_on

from auditor.config import JudgingLimits
from auditor.errors import AccountingError
from auditor.evidence.gathered import evidence_by_ledger
from auditor.evidence.rows import expected_answer_row, ledger_row, read_row, table
from auditor.evidence.run_tables import seen_rows
from auditor.evidence.schemas import ANSWERS, CLEAR_COLUMNS, LEDGERS, READS
from auditor.judging.clear_columns import ClearColumns
from auditor.judging.counted_answers import (
    ANSWER_COLUMNS,
    SPOT_COLUMNS,
    answer_columns,
    count_answers,
)
from auditor.judging.healthy_ledgers import Healthy, healthy_ledgers, healthy_verdict
from auditor.judging.settle import Todo, settle
from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus, SequenceGroup
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.model.ledger import LedgerMetadata, LedgerRecord, Mark, RecordStatus, ZnodeStamp
from auditor.sandbox.cluster import ledger
from auditor.second_checker.agreement import is_in_sample
from auditor.stages import steps
from auditor.wire.entry_availability import canonical

FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", None, False, None)
LIMITS = JudgingLimits()
TERMS = Terms(1_000, 0, 16, 5)
CLEAR = ledger("e3 w2 a2 0:[b1 b2 b3] closed 29")
WIDE = ledger("e4 w3 a2 0:[b9 b3 b1 b4] closed 6")
Cells = dict[str, Any]
Change = Callable[[list[Cells]], Iterable[Cells]]
Tables = tuple[pa.Table, pa.Table, pa.Table]


def record(ledger_id: int, metadata: LedgerMetadata | None = CLEAR) -> LedgerRecord:
    return LedgerRecord(ledger_id, 1, 0, RecordStatus.FOUND, ZnodeStamp(1, 0, 0, 0), metadata)


def said(ledger_id: int, metadata: LedgerMetadata = CLEAR) -> list[Cells]:
    """Return the answers of the bookies of a ledger, all as expected."""
    lists = {
        bookie: canonical(SequenceGroup(entry, entry, 1, 0) for entry in sorted(entries))
        for bookie, entries in expected_on(metadata).items()
    }
    answers = (
        Answer(bookie, ledger_id, 1, 0, AnswerStatus.HELD, groups)
        for bookie, groups in lists.items()
    )
    rows = (expected_answer_row(answer, is_kept=False) for answer in answers)
    return [dict(zip(ANSWERS.names, row, strict=True)) for row in rows]


def with_cells(**cells: Any) -> Change:
    """Return a change of the first answer."""
    return lambda answers: [{**answers[0], **cells}, *answers[1:]]


UNHEALTHY: dict[str, Change] = {
    "an answer was lost": lambda answers: answers[1:],
    "no answer came": lambda _: [],
    "an answer was doubled": lambda answers: [*answers, answers[0]],
    "all answers were doubled": lambda answers: [*answers, *answers],
    "one came three times": lambda answers: [*answers, answers[0], answers[0]],
    "one was lost and one doubled": lambda answers: [answers[0], *answers[:2]],
    "one was lost and one came twice more": lambda answers: [answers[0]] * 3,
    "another bookie answered too": lambda answers: [*answers, {**answers[0], "bookie_id": "b9"}],
    "another bookie answered instead": with_cells(bookie_id="b9"),
    "a bookie of no ledger answered instead": with_cells(bookie_id="b99"),
    "the answer has no bookie": with_cells(bookie_id=None),
    "one is of another look": with_cells(look=2),
    "one has no look": with_cells(look=None),
    "one was not compared": with_cells(is_as_expected=None),
    "one differs": with_cells(is_as_expected=False, groups=b""),
    "one is no list": with_cells(status="timed_out"),
    "one has no status": with_cells(status=None),
    "one is odd": with_cells(non_canonical=True),
    "it is not said whether one is odd": with_cells(non_canonical=None),
    "one leaves a log out": with_cells(missing_logs=[("1.log", 1, [[0, 0]])]),
    "one lacks an entry that was read": with_cells(read_unlisted=[3]),
    "all are as expected, and one bookie said more": lambda answers: [
        *answers,
        {**answers[0], "is_as_expected": False},
    ],
}
MARKED, NOT_ASKED, READ, SOUND, NO_ENTRY, OTHER_SHAPE = range(1001, 1007)
UNCLEAR = {
    "marked": replace(record(0), mark=Mark(0, 0)),
    "of another look": replace(record(0), look=2),
    "unreadable": replace(record(0, None), status=RecordStatus.UNREADABLE),
    "of two segments": record(0, ledger("e3 w2 a2 0:[b1 b2 b3] 9:[b1 b3 b2] closed 29")),
    "with a bookie that stands twice": record(0, ledger("e3 w2 a2 0:[b1 b2 b2] closed 29")),
    "open": record(0, ledger("e3 w2 a2 0:[b1 b2 b3] open")),
    "empty": record(0, ledger("e3 w2 a2 0:[b1 b2 b3] closed -1")),
}
READS_REFUTE = {
    "an entry did not come": ("b1", 6, ReadStatus.NO_ENTRY),
    "an entry came that belongs elsewhere": ("b1", 7, ReadStatus.PRESENT),
    "it was read on a bookie of another ledger": ("b9", 7, ReadStatus.PRESENT),
    "it was read on a bookie of no ledger": ("b99", 6, ReadStatus.PRESENT),
    "the last entry was read": ("b1", 29, ReadStatus.PRESENT),
    "an entry beyond the end was read": ("b3", 30, ReadStatus.PRESENT),
    "the highest entry was asked for": ("b1", -1, ReadStatus.PRESENT),
}


def tables_of(
    records: Iterable[LedgerRecord], answers: Iterable[Cells], reads: Iterable[EntryRead] = ()
) -> Tables:
    return (
        pa.Table.from_batches([table(LEDGERS, map(ledger_row, records))]),
        pa.Table.from_pylist(list(answers), schema=ANSWERS),
        pa.Table.from_batches([table(READS, map(read_row, reads))]),
    )


@pytest.fixture(scope="module")
def tables() -> Tables:
    """Return evidence in which each ledger of UNHEALTHY has one of its changes; some others."""
    records = [record(i) for i in (SOUND, *range(len(UNHEALTHY)), READ, NO_ENTRY)]
    records.append(replace(record(MARKED), mark=Mark(0, 0)))
    records.append(replace(record(NOT_ASKED, None), status=RecordStatus.UNREADABLE))
    records.append(record(OTHER_SHAPE, WIDE))
    rows = [row for i, change in enumerate(UNHEALTHY.values()) for row in change(said(i))]
    rows += [row for i in (MARKED, READ, SOUND, NO_ENTRY) for row in said(i)]
    rows[-1] = {**rows[-1], "status": "no_such_ledger", "groups": b""}  # as if it should hold none
    rows.append({**rows[0], "ledger_id": None, "status": "answered"})
    rows += said(OTHER_SHAPE, WIDE)
    reads = [
        EntryRead("b1", READ, 6, 1, 0, ReadStatus.PRESENT, is_spot=True),
        EntryRead("b3", READ, 5, 1, 0, ReadStatus.PRESENT, is_spot=True),
        EntryRead("b4", OTHER_SHAPE, 1, 1, 0, ReadStatus.PRESENT, is_spot=True),
    ]
    return tables_of(records, rows, reads)


def seen_of(tables: Tables) -> pa.RecordBatch:
    """Return the evidence as SEEN rows."""
    records, answers, reads = tables
    (batch,) = seen_rows(records, answers.filter(pc.is_valid(answers["ledger_id"])), reads)
    return batch


def counted_of(tables: Tables, rows_at_once: int = 7) -> pa.RecordBatch:
    """Count answers that come in batches of so many rows."""
    records, answers, reads = tables
    batches = answers.select(ANSWER_COLUMNS).to_batches(max_chunksize=rows_at_once)
    spots = reads.select(SPOT_COLUMNS).to_batches(max_chunksize=rows_at_once)
    ids = np.sort(records["ledger_id"].to_numpy())
    clear = ClearColumns.of(records.select(["ledger_id", *CLEAR_COLUMNS]))
    return count_answers(ids, clear, answer_columns(batches), spots)


def healthy_of(counted: pa.RecordBatch) -> dict[int, Healthy]:
    """Return the ledgers that are healthy by the counts."""
    cells = zip(*(column.to_pylist() for column in counted.columns), strict=True)
    return {
        ledger_id: Healthy(copies, read) for ledger_id, copies, read in cells if copies is not None
    }


@pytest.fixture(scope="module")
def counted(tables: Tables) -> pa.RecordBatch:
    return counted_of(tables)


HEALTHY = {
    READ: Healthy(60, 2),
    SOUND: Healthy(60, 0),
    NO_ENTRY: Healthy(60, 0),
    OTHER_SHAPE: Healthy(21, 1),
}


def test_a_ledger_is_healthy_only_if_each_of_its_bookies_was_as_expected_once(
    counted: pa.RecordBatch,
) -> None:
    """Each ledger of the evidence is counted once, in order, whatever was said of it."""
    ids = counted["ledger_id"].to_pylist()
    assert ids == [*range(len(UNHEALTHY)), *range(MARKED, OTHER_SHAPE + 1)]
    found, names = healthy_of(counted), list(UNHEALTHY)
    assert [] == [names[one] for one in found if one < len(names)]
    assert found == HEALTHY


def test_what_counts_call_healthy_the_gathered_evidence_calls_healthy_too(
    counted: pa.RecordBatch, tables: Tables
) -> None:
    """So does the reference that judges each ledger alone."""
    seen = seen_of(tables)
    assert healthy_of(counted) == {
        seen["ledger_id"][number].as_py(): one
        for number, one in healthy_ledgers(seen, TERMS).items()
    }
    these = seen.filter(pc.is_in(seen["ledger_id"], pa.array([READ, SOUND, OTHER_SHAPE])))
    for evidence in evidence_by_ledger(these):
        step = settle(evidence, TERMS)
        verdict = healthy_verdict(evidence.ledger_id, HEALTHY[evidence.ledger_id])
        assert (verdict, Todo.NOTHING) == (step.verdict, step.todo)


@pytest.mark.parametrize("name", READS_REFUTE)
def test_a_ledger_is_not_healthy_of_which_a_read_says_otherwise(name: str) -> None:
    """The ledgers around it are."""
    spot = EntryRead(READS_REFUTE[name][0], 2, READS_REFUTE[name][1], 1, 0, READS_REFUTE[name][2])
    right = EntryRead("b1", 2, 6, 1, 0, ReadStatus.PRESENT)
    of_nobody = EntryRead("b1", 99, 6, 1, 0, ReadStatus.NO_ENTRY)
    answers = [row for i in (1, 2) for row in said(i)] + said(3, WIDE)
    records = [record(1), record(2), record(3, WIDE)]
    found = healthy_of(counted_of(tables_of(records, answers, [right, spot, right, of_nobody])))
    assert {1: Healthy(60, 0), 3: Healthy(21, 0)} == found


@pytest.mark.parametrize("name", UNCLEAR)
def test_a_ledger_that_is_not_clear_is_not_healthy(name: str) -> None:
    """Whatever its bookies said."""
    found = counted_of(tables_of([UNCLEAR[name], record(1)], [*said(0), *said(1)]))
    assert {1: Healthy(60, 0)} == healthy_of(found)
    assert [0, 1] == found["ledger_id"].to_pylist()


def test_more_copies_than_a_column_holds_are_left() -> None:
    """Metadata may claim 2^63 entries."""
    huge = replace(CLEAR, last_entry_id=2**62)
    answers = [{**row, "ledger_id": 0} for row in said(0)]
    assert {} == healthy_of(counted_of(tables_of([record(0, huge)], answers)))


@pytest.mark.parametrize("answers", [[], said(4)])
def test_without_a_clear_ledger_nothing_is_healthy(answers: list[Cells]) -> None:
    reads = [EntryRead("b1", 0, 6, 1, 0, ReadStatus.PRESENT)]
    found = counted_of(tables_of([replace(record(0), mark=Mark(0, 0))], answers, reads))
    assert [(0, None, None)] == [tuple(row.values()) for row in found.to_pylist()]
    assert 0 == counted_of(tables_of([], answers)).num_rows


def test_a_ledger_that_was_read_twice_ends_the_run() -> None:
    """A repeated task of the first look would otherwise judge it twice."""
    with pytest.raises(AccountingError, match="ledger 3 was read twice at the first look"):
        counted_of(tables_of([record(3), record(1), record(3)], said(1)))


def judged(work: steps.Work, *batches: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches(list(work(iter(batches))))


def test_settled_rows_are_those_of_the_gathered_evidence(
    counted: pa.RecordBatch, tables: Tables
) -> None:
    """They are equal in every cell."""
    ids, seen = pa.array([READ, SOUND, OTHER_SHAPE]), seen_of(tables)
    sound = seen.filter(pc.is_in(seen["ledger_id"], ids))
    expected = judged(steps.judge_of(TERMS, FACTS, LIMITS), sound)
    rows = judged(steps.count_of(TERMS, FACTS), counted)
    settled = rows.filter(pc.is_in(rows["ledger_id"], ids)).sort_by("ledger_id")
    assert expected.to_pylist() == settled.to_pylist()
    by_columns = steps.judge_of(TERMS, FACTS, LIMITS, by_columns=True)
    assert expected.to_pylist() == judged(by_columns, sound).to_pylist()


def test_all_that_is_not_settled_is_left() -> None:
    """So is the sample, which both checkers judge. What counts say of it is kept, to compare."""
    half, ids = replace(TERMS, sound_sample=0.5), range(40)
    answers = [row for i in ids for row in said(i)[1 if i % 4 == 0 else 0 :]]
    counted = counted_of(tables_of(map(record, ids), answers))
    found = judged(steps.count_of(half, FACTS), counted).to_pylist()
    settled = {row["ledger_id"] for row in found if row["todo"] == "nothing"}
    assert settled == {i for i in ids if i % 4 and not is_in_sample(i, half)}
    assert set(ids) - settled == {row["ledger_id"] for row in found if row["todo"] == "evidence"}
    assert len(ids) == len(found)
    claimed = {r["ledger_id"] for r in found if r["standing"] == "sound"} - settled
    assert claimed == {i for i in ids if i % 4 and is_in_sample(i, half)}
    assert {("sound", 60)} == {
        (row["standing"], row["copies_listed"]) for row in found if row["ledger_id"] in settled
    }
    assert not any(row["findings"] for row in found)


def python_calls(work: Callable[[], object]) -> int:
    """Return how many calls of Python functions the work makes."""
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def healthy_tables(ids: Sequence[int]) -> Tables:
    records, answers, reads = tables_of([record(0)], said(0))
    columns = [pa.array(np.repeat(ids, rows.num_rows)) for rows in (records, answers)]
    many = (pa.concat_tables([rows] * len(ids)) for rows in (records, answers))
    cells = (
        rows.set_column(rows.column_names.index("ledger_id"), "ledger_id", ids_of)
        for rows, ids_of in zip(many, columns, strict=True)
    )
    first, second = cells
    return first.combine_chunks(), second.combine_chunks(), reads


def test_a_healthy_ledger_costs_no_call_of_its_own() -> None:
    """All calls are for batches of rows."""
    few, many = (healthy_tables(range(count)) for count in (10, 2_000))
    assert 2_000 == len(healthy_of(counted_of(many, 10_000)))
    counts = [python_calls(lambda rows=rows: counted_of(rows, 10_000)) for rows in (few, many)]
    assert counts[0] == counts[1]


def test_clear_ledgers_are_held_by_ascending_id() -> None:
    """Each has its own bookies, whatever the order of the records."""
    records, _, _ = tables_of([record(9, WIDE), record(3), UNCLEAR["open"], record(5, WIDE)], [])
    found = ClearColumns.of(records)
    ensembles = [
        [found.bookies[number] for number in found.ensembles[start : start + size]]
        for start, size in zip(found.starts, found.sizes, strict=True)
    ]
    wide = ["b9", "b3", "b1", "b4"]
    assert [["b1", "b2", "b3"], wide, wide] == ensembles
    assert [[3, 5, 9], [29, 6, 6], [2, 3, 3]] == [
        cells.tolist() for cells in (found.ids, found.last, found.quorums)
    ]
    assert [-1, 0, -1, 1, -1] == found.rows_of(np.array([0, 3, 4, 5, 10])).tolist()


def test_many_bookies_cost_no_search_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ledgers are looked up once for each batch of answers, whoever gave them."""
    looked_up: list[int] = []
    right = ClearColumns.rows_of

    def recorded(self: ClearColumns, ledger_ids: Any) -> Any:
        looked_up.append(len(ledger_ids))
        return right(self, ledger_ids)

    monkeypatch.setattr(ClearColumns, "rows_of", recorded)
    records, answers, reads = healthy_tables(range(100))
    of_others = [f"other-{number}" for number in range(answers.num_rows)]
    extra = answers.set_column(
        answers.column_names.index("bookie_id"), "bookie_id", pa.array(of_others)
    )
    found = counted_of((records, pa.concat_tables([answers, extra]), reads), 300)
    assert {} == healthy_of(found), "somebody else answered, too"
    assert [300, 300] == looked_up


@pytest.mark.parametrize("rows_at_once", [1, 2, 5])
def test_clear_ledgers_are_the_same_in_batches_of_any_size(rows_at_once: int) -> None:
    """Each batch has numbers of its own for bookies."""
    shapes = [
        "e3 w2 a2 0:[b1 b2 b3] closed 9",
        "e2 w2 a2 0:[b9 b1] closed 5",
        "e1 w1 a1 0:[b2] closed 7",
        "e2 w1 a1 0:[b4 b4] closed 7",
        "e3 w2 a2 0:[b3 b5] closed 9",
        "e2 w2 a2 0:[b3 b9] 4:[b1 b2] closed 9",
        "e3 w3 a2 0:[b5 b9 b4] closed 3",
    ]
    records = [
        LedgerRecord(70 - number, 1, 0, RecordStatus.FOUND, None, ledger(shape))
        for number, shape in enumerate(shapes)
    ]
    rows = pa.Table.from_batches([table(LEDGERS, map(ledger_row, records))])
    rows = rows.select(["ledger_id", *CLEAR_COLUMNS])
    clear = ClearColumns.of(pa.Table.from_batches(rows.to_batches(max_chunksize=rows_at_once)))
    assert [64, 68, 69, 70] == clear.ids.tolist()
    ensembles = [
        [clear.bookies[number] for number in clear.ensembles[start : start + size]]
        for start, size in zip(clear.starts, clear.sizes, strict=True)
    ]
    assert [["b5", "b9", "b4"], ["b2"], ["b9", "b1"], ["b1", "b2", "b3"]] == ensembles
    cells = zip(clear.last, clear.sizes, clear.quorums, strict=True)
    assert [(3, 3, 3), (7, 1, 1), (5, 2, 2), (9, 3, 2)] == [tuple(map(int, one)) for one in cells]
    assert not len(ClearColumns.of(rows.slice(0, 0)).ids)

"""Lists are compared when they come, and restored where the evidence is read.

What each bookie should list is counted entry by entry here, without a formula of the product.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.entry_by_entry import expected_on
from support.tables_in_memory import Tables

from auditor.bookie.questions import ListQuestion
from auditor.config import JudgingLimits
from auditor.evidence import gathered
from auditor.evidence.gathered import evidence_by_ledger, has_wrong_comparison, read_answers
from auditor.evidence.rows import Row, answer_row, expected_answer_row, ledger_row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, LEDGERS, SEEN
from auditor.judging.verdict_rows import spoil_rows
from auditor.model.availability import Answer, AnswerStatus, MissingLog, SequenceGroup
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.model.ledger import LedgerMetadata, LedgerRecord, Mark, RecordStatus, ZnodeStamp
from auditor.model.verdict import Unknown
from auditor.sandbox.cluster import ledger
from auditor.second_checker.agreement import is_in_sample
from auditor.stages import asking, steps
from auditor.summary.doubted_lists import spoiled_ledgers
from auditor.wire.entry_availability import canonical

FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", None, False, None)
LIMITS = JudgingLimits()
TERMS = Terms(1_000, 0, 16, 5)
HALF = replace(TERMS, sound_sample=0.5)
STRIPED = ledger("e3 w2 a2 0:[b1 b2 b3] closed 29")
SHAPES = (
    "e1 w1 0:[b1] closed 9",
    "e3 w3 a2 0:[b1 b2 b3] closed 11",
    "e3 w2 a1 0:[b3 b1 b2] closed 0",
    "e5 w2 0:[b5 b4 b3 b2 b1] closed 1",
    "e5 w3 a2 0:[b1 b2 b3 b4 b5] closed 1234",
)
UNCLEAR = (
    "e2 w2 0:[b1 b2] 5:[b1 b3] closed 9",
    "e2 w2 0:[b1 b1] closed 9",
    "e2 w2 0:[b1] closed 9",
    "e2 w2 3:[b1 b2] closed 9",
    "e2 w2 0:[b1 b2] open",
    "e2 w2 0:[b1 b2] closed -1",
)


def lists_of(metadata: LedgerMetadata) -> dict[str, bytes]:
    """Return the list that each bookie should give."""
    return {
        bookie: canonical(SequenceGroup(entry, entry, 1, 0) for entry in sorted(entries))
        for bookie, entries in expected_on(metadata).items()
    }


def record(ledger_id: int, metadata: LedgerMetadata = STRIPED, look: int = 1) -> LedgerRecord:
    return LedgerRecord(ledger_id, look, 0, RecordStatus.FOUND, ZnodeStamp(1, 0, 0, 0), metadata)


def asked(terms: Terms, *records: LedgerRecord) -> list[dict[str, Any]]:
    """Return the questions about ledgers at the first look."""
    rows = [(one.ledger_id, [ledger_row(one)], None, None) for one in records]
    work = steps.asker_of(terms, LIMITS, with_expected=True)
    return [row for rows in work(iter([table(SEEN, rows)])) for row in rows.to_pylist()]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_question_says_what_the_bookie_should_list(shape: str) -> None:
    metadata = ledger(shape)
    found = asked(TERMS, record(7, metadata))
    assert lists_of(metadata) == {row["bookie_id"]: row["expected_groups"] for row in found}
    assert {(True, False)} == {(row["is_compared"], row["is_kept"]) for row in found}


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 40))
def test_questions_by_shape_are_those_of_each_ledger(size: int, quorum: int, last: int) -> None:
    """A mark makes a ledger unclear. Its questions are the same, and its lists are not compared."""
    quorum = min(size, quorum)
    names = " ".join(f"b{number}" for number in range(size))
    clear = record(7, ledger(f"e{size} w{quorum} 0:[{names}] closed {last}"))
    marked = replace(clear, mark=Mark(0, 0))
    ours, theirs = (
        [
            tuple(row[name] for name in ("bookie_id", "expected_bytes", "expected_groups"))
            for row in asked(TERMS, one)
        ]
        for one in (clear, marked)
    )
    assert ours == theirs
    assert {(False, True)} == {(row["is_compared"], row["is_kept"]) for row in asked(TERMS, marked)}


@pytest.mark.parametrize("shape", UNCLEAR)
def test_lists_of_an_unclear_ledger_are_not_compared(shape: str) -> None:
    """They are asked for among those of clear ledgers, in the order of the ids."""
    found = asked(TERMS, record(6), record(7, ledger(shape)), record(8))
    ids = [row["ledger_id"] for row in found]
    assert sorted(ids) == ids
    assert {6, 8} == {row["ledger_id"] for row in found if row["is_compared"]}
    assert {False} >= {row["is_compared"] for row in found if row["ledger_id"] == 7}


def test_the_lists_of_the_sample_are_kept() -> None:
    """It is the sample that the second checker judges."""
    ids = range(40)
    kept = {row["ledger_id"] for row in asked(HALF, *map(record, ids)) if row["is_kept"]}
    assert kept == {one for one in ids if is_in_sample(one, HALF)}
    assert set() < kept < set(ids)


HELD = Answer("b1", 7, 1, 5, AnswerStatus.HELD, b"x" * 24, "by a lister", 2, 1, 99)
NONE = replace(HELD, status=AnswerStatus.NO_SUCH_LEDGER, groups=b"")
QUESTION = ListQuestion(7, 64, HELD.groups, is_compared=True, is_kept=False)
AT = ANSWERS.names.index("groups")


def row_of(answer: Answer, question: ListQuestion) -> dict[str, Any]:
    cells = asking._compared_row(answer, question)
    return dict(zip(ANSWERS.names, cells, strict=True))


def test_a_list_that_is_as_expected_is_left_out() -> None:
    """All else that is known of the answer stays."""
    row = row_of(HELD, QUESTION)
    whole = dict(zip(ANSWERS.names, answer_row(HELD), strict=True))
    assert {**whole, "groups": None, "is_as_expected": True} == row


def test_in_the_sample_the_list_stays_beside_what_is_said_of_it() -> None:
    row = row_of(HELD, QUESTION._replace(is_kept=True))
    assert (HELD.groups, True) == (row["groups"], row["is_as_expected"])


@pytest.mark.parametrize("status", [AnswerStatus.HELD, AnswerStatus.NO_SUCH_LEDGER])
def test_a_bookie_without_an_entry_may_know_the_ledger_or_not(status: AnswerStatus) -> None:
    answer = replace(NONE, status=status)
    assert row_of(answer, QUESTION._replace(expected_groups=b""))["is_as_expected"]
    assert not row_of(answer, QUESTION)["is_as_expected"]


@pytest.mark.parametrize(
    ("answer", "question"),
    [
        (replace(HELD, groups=b"x" * 23 + b"y"), QUESTION),
        (replace(HELD, groups=b"x" * 48), QUESTION),
        (replace(HELD, groups=b""), QUESTION),
        (replace(HELD, non_canonical=True), QUESTION),
        (replace(HELD, missing_logs=(MissingLog("1.log", 1, ((0, 0),)),)), QUESTION),
        (replace(HELD, read_unlisted=(3,)), QUESTION),
        (HELD, QUESTION._replace(is_compared=False)),
        (HELD, QUESTION._replace(expected_groups=None)),
        *(
            (replace(NONE, status=status), QUESTION._replace(expected_groups=b""))
            for status in sorted({*AnswerStatus} - {AnswerStatus.HELD, NONE.status})
        ),
    ],
)
def test_anything_else_is_stored_as_it_came(answer: Answer, question: ListQuestion) -> None:
    assert dict(zip(ANSWERS.names, answer_row(answer), strict=True)) == row_of(answer, question)


def compact_answer_row(answer: Answer) -> Row:
    return expected_answer_row(answer, is_kept=False)


def answers_of(ledger_id: int, metadata: LedgerMetadata, look: int = 1) -> list[Answer]:
    return [
        Answer(bookie, ledger_id, look, 5, AnswerStatus.HELD, groups, is_as_expected=True)
        for bookie, groups in lists_of(metadata).items()
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_list_that_was_left_out_is_restored(shape: str) -> None:
    """The evidence is equal to the evidence with all lists."""
    metadata = ledger(shape)
    whole, compact = (
        table(SEEN, [(7, [ledger_row(record(7, metadata))], list(map(row, said)), None)])
        for said in [answers_of(7, metadata)]
        for row in (answer_row, compact_answer_row)
    )
    assert compact["answers"].flatten().field(AT).null_count == len(expected_on(metadata))
    assert list(evidence_by_ledger(whole)) == list(evidence_by_ledger(compact))


def test_each_look_restores_by_its_own_metadata() -> None:
    """A bookie was replaced between the looks."""
    second = ledger("e3 w2 a2 0:[b3 b2 b4] closed 29")
    records = [ledger_row(record(7)), ledger_row(record(7, second, 2))]
    said = [*answers_of(7, STRIPED), *answers_of(7, second, 2)]
    batch = table(SEEN, [(7, records, list(map(compact_answer_row, said)), None)])
    (evidence,) = evidence_by_ledger(batch)
    for look, metadata in zip(evidence.looks, (STRIPED, second), strict=True):
        assert lists_of(metadata) == {b: a.groups for b, a in look.answers.items()}


@pytest.mark.parametrize(
    "cells",
    [
        {"groups": None, "is_as_expected": False},
        {"groups": None, "is_as_expected": None},
        {"groups": None, "status": "timed_out"},
    ],
)
def test_a_list_that_was_lost_is_not_restored(cells: Mapping[str, Any]) -> None:
    """Only what was said to be as expected is, not whatever is null."""
    (said, *_) = answers_of(7, STRIPED)
    row = {**dict(zip(ANSWERS.names, answer_row(said), strict=True)), **cells}
    batch = table(SEEN, [(7, [ledger_row(record(7))], [tuple(row.values())], None)])
    with pytest.raises(AssertionError, match="neither stored nor as expected"):
        list(evidence_by_ledger(batch))


def run_with(answers: Iterable[tuple[Any, ...]]) -> Place:
    """Return a run with some rows of answers on STRIPED ledgers."""
    run = cast(Place, Tables())
    rows = list(answers)
    ids = sorted({row[1] for row in rows})
    run.write_table("evidence/ledgers", table(LEDGERS, [ledger_row(record(i)) for i in ids]), "1")
    run.write_table("evidence/answers", table(ANSWERS, rows), "1")
    return run


def test_lists_read_from_a_run_are_restored() -> None:
    said = [one for ledger_id in (7, 8) for one in answers_of(ledger_id, STRIPED)]
    run = run_with(map(compact_answer_row, said))
    assert said == read_answers(run, pa.compute.field("ledger_id") > 0)


def test_a_sample_that_confirms_the_comparison_spoils_nothing() -> None:
    kept = map(answer_row, answers_of(7, STRIPED))
    run = run_with([*kept, *map(compact_answer_row, answers_of(8, STRIPED))])
    assert not has_wrong_comparison(run)
    assert [0, 0] == [len(ids) for ids in spoiled_ledgers(run).values()]


def unknown_to(answer: Answer) -> Answer:
    """Return the answer of the same bookie if it does not know the ledger, said to be expected."""
    return replace(answer, status=AnswerStatus.NO_SUCH_LEDGER, groups=b"")


@pytest.mark.parametrize("bookies", [1, None], ids=["one bookie", "all bookies"])
def test_a_bookie_that_should_know_the_ledger_refutes_the_comparison(bookies: int | None) -> None:
    """Its answer is stored, in the sample or not. Ledgers that rest on such answers alone are
    doubted, and those whose lists are stored are not.
    """
    said = answers_of(9, STRIPED)
    lies = [*map(unknown_to, said[:bookies]), *said[len(said) if bookies is None else bookies :]]
    run = run_with([*map(answer_row, answers_of(7, STRIPED)), *map(compact_answer_row, lies)])
    assert has_wrong_comparison(run)
    assert [9] == spoiled_ledgers(run)[Unknown.CHECKERS_DISAGREE].to_pylist()


def test_a_bookie_that_need_not_know_the_ledger_confirms_the_comparison() -> None:
    """It should hold no entry of it."""
    answer, *_ = answers_of(7, STRIPED)
    row = answer_row(unknown_to(replace(answer, bookie_id="b9")))
    assert not has_wrong_comparison(run_with([row]))


def test_of_many_answers_some_of_each_part_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers of two of six ledgers: the first and the fourth, which is wrong."""
    monkeypatch.setattr(gathered, "UNKNOWN_CHECKED_MAX", 2)
    rows = []
    for ledger_id in range(6):
        answer = unknown_to(answers_of(ledger_id, STRIPED)[0])
        is_right = ledger_id < 3
        rows.append(answer_row(replace(answer, bookie_id="b9") if is_right else answer))
    assert has_wrong_comparison(run_with(rows))
    assert not has_wrong_comparison(run_with(rows[:3]))


def test_a_sample_that_refutes_the_comparison_spoils_all_that_was_left_out() -> None:
    """One list of the sample is not what it was said to be. Ledgers whose lists are stored keep
    their verdicts.
    """
    lie, *rest = answers_of(7, STRIPED)
    kept = map(answer_row, [replace(lie, groups=lie.groups[:24]), *rest])
    left_out = [row for i in (8, 9) for row in map(compact_answer_row, answers_of(i, STRIPED))]
    run = run_with([*kept, *left_out])
    assert has_wrong_comparison(run)
    spoiled = {why.value: sorted(ids.to_pylist()) for why, ids in spoiled_ledgers(run).items()}
    assert {"answer_invalid": [], "checkers_disagree": [8, 9]} == spoiled
    seen = table(
        SEEN,
        [(i, [ledger_row(record(i))], list(map(answer_row, answers_of(i, STRIPED))), None)
         for i in (7, 8, 9)],
    )  # fmt: skip
    (verdicts,) = steps.judge_of(TERMS, FACTS, LIMITS)(iter([seen]))
    rows = spoil_rows(verdicts, spoiled_ledgers(run)).to_pylist()
    assert [("sound", []), *[("indeterminate", ["checkers_disagree"])] * 2] == [
        (row["standing"], row["unknowns"]) for row in rows
    ]

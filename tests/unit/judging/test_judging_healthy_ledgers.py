"""Ledgers found healthy in columns: each copy is listed, and nothing else was said.

The expected lists are made entry by entry here, without a formula of the product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.entry_by_entry import expected_on

from auditor.evidence.rows import Row, answer_row, expected_answer_row, ledger_row, read_row, table
from auditor.evidence.schemas import ANSWERS, LEDGERS, SEEN
from auditor.judging.healthy_ledgers import Healthy, healthy_ledgers, healthy_verdict
from auditor.judging.settle import Step, Todo, settle
from auditor.model.availability import (
    Answer,
    AnswerStatus,
    EntryRead,
    MissingLog,
    ReadStatus,
    SequenceGroup,
)
from auditor.model.evidence import LedgerEvidence, Look, PlacementRule, Policy, Terms
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    Malformed,
    Mark,
    RecordStatus,
    Segment,
    ZnodeStamp,
)
from auditor.sandbox.cluster import ledger
from auditor.wire.entry_availability import canonical

LEDGER = 7
TERMS = Terms(1_000, 0, 16, 5)
STRIPED = "e3 w2 a2 0:[b1 b2 b3] closed 29"

Damage = Callable[[LedgerEvidence], LedgerEvidence]


def listing(entries: Sequence[int]) -> bytes:
    """Return the list of a bookie that has these entries."""
    return canonical(SequenceGroup(entry, entry, 1, 0) for entry in entries)


def entries_by_bookie(metadata: LedgerMetadata) -> dict[str, list[int]]:
    """Return what each bookie should hold, entry by entry; some may hold none."""
    return {bookie: sorted(entries) for bookie, entries in expected_on(metadata).items()}


def healthy(metadata: LedgerMetadata, ledger_id: int = LEDGER) -> LedgerEvidence:
    """Return one look at which each bookie lists what it should."""
    record = LedgerRecord(ledger_id, 1, 0, RecordStatus.FOUND, ZnodeStamp(1, 0, 0, 0), metadata)
    answers = {
        bookie: Answer(bookie, ledger_id, 1, 0, AnswerStatus.HELD, listing(entries), requests=1)
        for bookie, entries in entries_by_bookie(metadata).items()
    }
    return LedgerEvidence(ledger_id, (Look(record, answers),))


def seen_row(one: LedgerEvidence) -> Row:
    return (
        one.ledger_id,
        [ledger_row(look.record) for look in one.looks],
        [answer_row(answer) for look in one.looks for answer in look.answers.values()],
        [read_row(read) for look in one.looks for read in look.reads.values()] or None,
    )


def batch_of(*ledgers: LedgerEvidence) -> pa.RecordBatch:
    return table(SEEN, [seen_row(one) for one in ledgers])


def found(*ledgers: LedgerEvidence) -> dict[int, int]:
    return listed(healthy_ledgers(batch_of(*ledgers), TERMS))


def listed(found: Mapping[int, Healthy]) -> dict[int, int]:
    """Return the copies of healthy ledgers, none of which was read."""
    assert all(one.read == 0 for one in found.values())
    return {number: one.copies for number, one in found.items()}


SHAPES = (
    STRIPED,
    "e1 w1 0:[b1] closed 9",
    "e3 w3 a2 0:[b1 b2 b3] closed 11",
    "e3 w2 a1 0:[b3 b1 b2] closed 0",
    "e5 w2 0:[b5 b4 b3 b2 b1] closed 1",
    "e5 w3 a2 0:[b1 b2 b3 b4 b5] closed 1234",
    "v1 e2 w2 crc32 0:[b2 b1] closed 3",
)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_ledger_whose_bookies_list_what_they_should_is_healthy(shape: str) -> None:
    """All promised copies count as listed. Bookies that should hold nothing are not asked. `settle`
    agrees.
    """
    metadata = ledger(shape)
    copies = sum(map(len, entries_by_bookie(metadata).values()))
    assert {0: copies} == found(healthy(metadata))
    verdict = healthy_verdict(LEDGER, Healthy(copies, 0))
    assert Step(verdict, Todo.NOTHING) == settle(healthy(metadata), TERMS)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_copy_that_was_read_counts_as_read(shape: str) -> None:
    """Spot reads that brought what is listed leave a ledger healthy. `settle` agrees."""
    metadata = ledger(shape)
    mine = entries_by_bookie(metadata)
    copies = sum(map(len, mine.values()))
    reads = {
        (bookie, entry): EntryRead(bookie, LEDGER, entry, 1, 0, ReadStatus.PRESENT, is_spot=True)
        for bookie, entries in mine.items()
        for entry in entries[:2]
        if entry != metadata.last_entry_id
    }
    seen = of_look(reads=reads)(healthy(metadata))
    assert {0: Healthy(copies, len(reads))} == healthy_ledgers(batch_of(seen), TERMS)
    assert settle(seen, TERMS).verdict == healthy_verdict(LEDGER, Healthy(copies, len(reads)))


def of_look(**changes: Any) -> Damage:
    def damaged(evidence: LedgerEvidence) -> LedgerEvidence:
        return replace(evidence, looks=(replace(evidence.looks[0], **changes),))

    return damaged


def of_record(**changes: Any) -> Damage:
    def damaged(evidence: LedgerEvidence) -> LedgerEvidence:
        return of_look(record=replace(evidence.looks[0].record, **changes))(evidence)

    return damaged


def of_metadata(**changes: Any) -> Damage:
    def damaged(evidence: LedgerEvidence) -> LedgerEvidence:
        metadata = evidence.looks[0].record.metadata
        assert metadata is not None
        return of_record(metadata=replace(metadata, **changes))(evidence)

    return damaged


def of_answer(bookie: str = "b2", **changes: Any) -> Damage:
    def damaged(evidence: LedgerEvidence) -> LedgerEvidence:
        answers = evidence.looks[0].answers
        return of_look(answers={**answers, bookie: replace(answers[bookie], **changes)})(evidence)

    return damaged


def answers_of(chosen: Callable[[Mapping[str, Answer]], Mapping[str, Answer]]) -> Damage:
    def damaged(evidence: LedgerEvidence) -> LedgerEvidence:
        return of_look(answers=chosen(evidence.looks[0].answers))(evidence)

    return damaged


def swapped(answers: Mapping[str, Answer]) -> Mapping[str, Answer]:
    """Return the answers with the lists of two bookies swapped."""
    one, other = answers["b1"], answers["b2"]
    return {
        **answers,
        "b1": replace(one, groups=other.groups),
        "b2": replace(other, groups=one.groups),
    }


def listed_once_by_a_double(evidence: LedgerEvidence) -> LedgerEvidence:
    """Return evidence in which a bookie stands at two positions and lists only its share of the
    second.
    """
    first = evidence.looks[0].answers
    answers = {"b1": first["b1"], "b2": replace(first["b2"], groups=first["b3"].groups)}
    return of_look(answers=answers)(
        of_metadata(segments=(Segment(0, ("b1", "b2", "b2")),))(evidence)
    )


def above_the_ensemble_size(evidence: LedgerEvidence) -> LedgerEvidence:
    """Return evidence with a write quorum above the ensemble size. Each bookie lists every entry,
    which is still one copy of each entry fewer than promised.
    """
    answers = evidence.looks[0].answers
    whole = listing(range(30))
    return of_look(answers={b: replace(one, groups=whole) for b, one in answers.items()})(
        of_metadata(write_quorum=4)(evidence)
    )


def looked_at_twice(evidence: LedgerEvidence) -> LedgerEvidence:
    first = evidence.looks[0]
    second = Look(
        replace(first.record, look=2), {b: replace(one, look=2) for b, one in first.answers.items()}
    )
    return replace(evidence, looks=(first, second))


ENSEMBLE = ("b1", "b2", "b3")
READ = EntryRead("b1", LEDGER, 0, 1, 0, ReadStatus.PRESENT)
MINE = entries_by_bookie(ledger(STRIPED))["b2"]
STRANGER = Answer("b9", LEDGER, 1, 0, AnswerStatus.HELD, listing([0]))

DAMAGE: Mapping[str, Damage] = {
    "looked at twice": looked_at_twice,
    "a read was denied": of_look(reads={("b1", 0): replace(READ, status=ReadStatus.NO_ENTRY)}),
    "a read failed": of_look(reads={("b1", 0): replace(READ, status=ReadStatus.FAILED)}),
    "a read was not answered": of_look(reads={("b1", 0): replace(READ, status=ReadStatus.SILENT)}),
    "an entry of another bookie was read": of_look(reads={("b1", 1): replace(READ, entry_id=1)}),
    "an entry behind the end was read": of_look(reads={("b1", 30): replace(READ, entry_id=30)}),
    "the last entry was read": of_look(
        reads={("b3", 29): replace(READ, bookie_id="b3", entry_id=29)}
    ),
    "a bookie outside the ensemble was read": of_look(
        reads={("b9", 0): replace(READ, bookie_id="b9")}
    ),
    "a wrong digest was read": of_look(reads={("b1", 0): replace(READ, status=ReadStatus.CORRUPT)}),
    "its znode is gone": of_record(status=RecordStatus.GONE),
    "its metadata is malformed": of_record(status=RecordStatus.MALFORMED),
    "malformed bytes beside metadata": of_record(malformed=Malformed("x", 0, 1, "")),
    "no metadata": of_record(metadata=None),
    "marked": of_record(mark=Mark(0)),
    "marked within grace": of_record(mark=Mark(1_000)),
    "open": of_metadata(state=LedgerState.OPEN),
    "in recovery": of_metadata(state=LedgerState.IN_RECOVERY),
    "empty": of_metadata(last_entry_id=-1),
    "a last entry below that": of_metadata(last_entry_id=-2),
    "no last entry": of_metadata(last_entry_id=None),
    "one entry more promised": of_metadata(last_entry_id=30),
    "one entry less promised": of_metadata(last_entry_id=28),
    "no segment": of_metadata(segments=()),
    "its segment begins behind 0": of_metadata(segments=(Segment(3, ENSEMBLE),)),
    "its segment begins below 0": of_metadata(segments=(Segment(-3, ENSEMBLE),)),
    "two segments of one ensemble": of_metadata(
        segments=(Segment(0, ENSEMBLE), Segment(15, ENSEMBLE))
    ),
    "a segment behind the end": of_metadata(segments=(Segment(0, ENSEMBLE), Segment(31, ENSEMBLE))),
    "a bookie stands twice": of_metadata(segments=(Segment(0, ("b1", "b2", "b2")),)),
    "a bookie stands twice and lists one of its shares": listed_once_by_a_double,
    "a bookie more in the ensemble": of_metadata(segments=(Segment(0, (*ENSEMBLE, "b4")),)),
    "a bookie more that stands twice": of_metadata(segments=(Segment(0, (*ENSEMBLE, "b1")),)),
    "a bookie less in the ensemble": of_metadata(segments=(Segment(0, ("b1", "b2")),)),
    "another order of the ensemble": of_metadata(segments=(Segment(0, ("b2", "b1", "b3")),)),
    "another bookie in the ensemble": of_metadata(segments=(Segment(0, ("b1", "b2", "b4")),)),
    "a larger ensemble size": of_metadata(ensemble_size=4),
    "a larger write quorum": of_metadata(write_quorum=3),
    "a smaller write quorum": of_metadata(write_quorum=1, ack_quorum=1),
    "no write quorum": of_metadata(write_quorum=0, ack_quorum=0),
    "a write quorum above the ensemble size": of_metadata(write_quorum=4),
    "a write quorum above the ensemble size, and every entry everywhere": above_the_ensemble_size,
    "an ack quorum above the write quorum": of_metadata(ack_quorum=3),
    "no ack quorum": of_metadata(ack_quorum=0),
    "nobody answered": of_look(answers={}),
    "one bookie did not answer": answers_of(
        lambda all_: {b: one for b, one in all_.items() if b != "b3"}
    ),
    "one more bookie answered": answers_of(lambda all_: {**all_, "b9": STRANGER}),
    "one more bookie did not list": answers_of(
        lambda all_: {**all_, "b9": replace(STRANGER, status=AnswerStatus.SILENT)}
    ),
    "bookies hold each other's entries": answers_of(swapped),
    "a list lacks its first entry": of_answer(groups=listing(MINE[1:])),
    "a list lacks its last entry": of_answer(groups=listing(MINE[:-1])),
    "a list lacks an entry in the middle": of_answer(
        groups=listing([one for one in MINE if one != MINE[5]])
    ),
    "a list has an entry behind the end": of_answer(groups=listing([*MINE, 30])),
    "a list has an entry that is another's": of_answer(groups=listing(sorted([*MINE, 11]))),
    "an empty list": of_answer(groups=b""),
    "a list cut short": of_answer(groups=listing(MINE)[:-1]),
    "a list that was not canonical": of_answer(non_canonical=True),
    "a list that leaves an entry log out": of_answer(missing_logs=(MissingLog("0.log", 0, ()),)),
    "a list that lacks what was sent": of_answer(read_unlisted=(3,)),
    **{
        f"a bookie's answer is {one.value}": of_answer(status=one)
        for one in AnswerStatus
        if one is not AnswerStatus.HELD
    },
}
assert max(MINE) < 30 and 11 not in MINE


@pytest.mark.parametrize("name", DAMAGE)
def test_a_ledger_with_anything_else_to_it_is_not_found(name: str) -> None:
    """Each case adds one thing to a healthy ledger, or changes one."""
    sound = ledger(STRIPED)
    assert {0: 60, 2: 60} == found(
        healthy(sound, 6), DAMAGE[name](healthy(sound)), healthy(sound, 8)
    )


@pytest.mark.parametrize("size", [1, 2])
def test_no_ledger_is_found_whose_list_has_no_form(size: int) -> None:
    """A run of 2^31 entries or more fits no group: such a ledger is always judged."""
    shape = {1: "e1 w1 0:[b1] closed 29", 2: "e2 w2 0:[b1 b2] closed 29"}[size]
    endless = of_metadata(last_entry_id=2**31 - 1)(healthy(ledger(shape)))
    cut = of_answer("b1", groups=None)(endless)
    silent = of_answer("b1", status=AnswerStatus.SILENT, groups=None)(endless)
    assert {} == found(endless, cut, silent)


def test_an_answer_with_an_empty_cell_is_no_list_of_a_ledger_whose_list_has_no_form() -> None:
    """The expected list is null, and so is the flag that says whether the answer is canonical. Two
    nulls are not equal.
    """
    endless = of_metadata(last_entry_id=2**31 - 1)(healthy(ledger("e1 w1 0:[b1] closed 29")))
    row = seen_row(endless)
    answer = list(row[2][0])
    answer[ANSWERS.names.index("non_canonical")] = None
    assert {} == healthy_ledgers(table(SEEN, [(row[0], row[1], [tuple(answer)], None)]), TERMS)


def test_a_ledger_may_promise_more_than_a_column_can_count() -> None:
    """Its copies are counted in full: a bookie can list that many entries in 72 bytes."""
    last = 2**63 - 1
    seen = of_metadata(last_entry_id=last)(healthy(ledger("e3 w2 0:[b1 b2 b3] closed 29")))
    count, *_ = (last + 1) // 3, 0
    lists = {
        "b1": [(0, 0, 1, 0), (2, 2 + 3 * (count - 1), 2, 3)],
        "b2": [(0, 3 * (count - 1), 2, 3), (3 * count, 3 * count, 2, 0)],
        "b3": [(1, 1 + 3 * (count - 1), 2, 3), (3 * count + 1, 3 * count + 1, 1, 0)],
    }
    assert 3 * count + 1 == last
    for bookie, groups in lists.items():
        seen = of_answer(bookie, groups=canonical(SequenceGroup(*one) for one in groups))(seen)
    assert settle(seen, TERMS).verdict == healthy_verdict(LEDGER, Healthy(2**64, 0))
    assert {0: 2**64} == found(seen)


@pytest.mark.parametrize(
    ("said", "is_found"),
    [
        ({"status": AnswerStatus.NO_SUCH_LEDGER}, True),
        ({"groups": b""}, True),
        ({"groups": listing([1])}, False),
        ({"status": AnswerStatus.UNSUPPORTED}, False),
        ({"status": AnswerStatus.SILENT}, False),
    ],
)
def test_a_bookie_without_an_entry_lists_none_or_does_not_know_the_ledger(
    said: dict[str, object], is_found: bool
) -> None:
    """Entry 0 is on b1 and b2. A list of b3 shows whether the end cut off what came behind."""
    seen = of_answer("b3", **said)(healthy(ledger("e3 w2 0:[b1 b2 b3] closed 0")))
    assert ({0: 2} if is_found else {}) == found(seen)


@pytest.mark.parametrize("policy", [Policy.RACK, Policy.ZONE, Policy.REGION])
def test_nothing_is_found_where_placement_is_judged(policy: Policy) -> None:
    """The columns do not have the locations of bookies. A policy to which every ensemble adheres
    counts as no policy.
    """
    terms = replace(TERMS, placement=PlacementRule(policy))
    assert {} == healthy_ledgers(batch_of(healthy(ledger(STRIPED))), terms)
    lenient = replace(
        TERMS, placement=PlacementRule(Policy.REGION, repp_minimum_regions_for_durability=1)
    )
    assert {0: 60} == listed(healthy_ledgers(batch_of(healthy(ledger(STRIPED))), lenient))


def test_a_ledger_whose_metadata_has_no_version_was_not_read() -> None:
    """Whatever its other columns say, it has no metadata for `settle` either."""
    row = seen_row(healthy(ledger(STRIPED)))
    record = list(row[1][0])
    record[LEDGERS.names.index("format_version")] = None
    assert {} == healthy_ledgers(table(SEEN, [(row[0], [tuple(record)], *row[2:])]), TERMS)


@pytest.mark.parametrize("again", ["b1", "b9"])
def test_a_ledger_on_which_a_bookie_answered_twice_is_not_found(again: str) -> None:
    """Even if both answers are the same: such evidence is our own fault."""
    (row,) = [seen_row(healthy(ledger(STRIPED)))]
    twice = Answer(again, LEDGER, 1, 0, AnswerStatus.HELD, row[2][0][ANSWERS.names.index("groups")])
    said = [*row[2], *([answer_row(twice)] if again == "b1" else [answer_row(twice)] * 2)]
    assert {} == healthy_ledgers(table(SEEN, [(row[0], row[1], said, None)]), TERMS)


ANSWER_AT = {name: at for at, name in enumerate(ANSWERS.names)}


def compared(*changes: Mapping[str, Any]) -> dict[int, int]:
    """Return what is found of a ledger whose lists were compared and left out, with these changes
    to the cells of its answers, bookie by bookie.
    """
    said = healthy(ledger(STRIPED)).looks[0].answers.values()
    rows = [list(expected_answer_row(answer, is_kept=False)) for answer in said]
    for row, change in zip(rows, changes, strict=False):
        for name, cell in change.items():
            row[ANSWER_AT[name]] = cell
    seen = seen_row(healthy(ledger(STRIPED)))
    batch = table(SEEN, [(seen[0], seen[1], list(map(tuple, rows)), None)])
    return listed(healthy_ledgers(batch, TERMS))


def test_a_ledger_whose_lists_were_as_expected_when_they_came_is_healthy() -> None:
    """A list of the sample counts by what was said of it. Both checkers judge what is stored."""
    assert {0: 60} == compared()
    assert {0: 60} == compared({"groups": listing([0])})


@pytest.mark.parametrize(
    "change",
    [
        {"is_as_expected": False},
        {"is_as_expected": None},
        {"bookie_id": "b9"},
        {"bookie_id": "b2"},
        {"look": 2},
        {"look": None},
        {"non_canonical": True},
        {"read_unlisted": [3]},
        {"missing_logs": [("1.log", 1, [[0, 0]])]},
        *({"status": status.value} for status in AnswerStatus if status is not AnswerStatus.HELD),
    ],
    ids=str,
)
def test_what_is_missing_is_not_as_expected(change: Mapping[str, Any]) -> None:
    """An empty cell alone says nothing; nor does the word of another bookie or of another look."""
    assert {} == compared(change)


def test_a_bookie_that_was_not_heard_is_missed_beside_lists_that_were_as_expected() -> None:
    """Whether its answer was lost, or another one was doubled."""
    seen = seen_row(healthy(ledger(STRIPED)))
    said = [
        expected_answer_row(answer, is_kept=False)
        for answer in healthy(ledger(STRIPED)).looks[0].answers.values()
    ]
    for rows in (said[:2], said[:0], [*said, said[0]], [*said[:2], said[0]]):
        assert {} == healthy_ledgers(table(SEEN, [(seen[0], seen[1], rows, None)]), TERMS)


def test_rows_are_found_by_their_numbers_in_any_part_of_a_batch() -> None:
    """This holds in slices, in slices of slices, and where a null cell covers values."""
    sound = ledger(STRIPED)
    ledgers = [
        DAMAGE["marked"](healthy(sound, n)) if n % 3 == 1 else healthy(sound, n) for n in range(12)
    ]
    batch = batch_of(*ledgers)
    assert [n for n in range(12) if n % 3 != 1] == list(healthy_ledgers(batch, TERMS))
    assert [n - 4 for n in range(4, 9) if n % 3 != 1] == list(
        healthy_ledgers(batch.slice(2).slice(2, 5), TERMS)
    )
    answers = batch["answers"]
    covered = pa.ListArray.from_arrays(
        answers.offsets, answers.values, mask=pa.array([n == 5 for n in range(12)])
    )
    columns = [covered if name == "answers" else batch[name] for name in SEEN.names]
    hidden = pa.RecordBatch.from_arrays(columns, schema=SEEN)
    assert [n for n in range(12) if n % 3 != 1 and n != 5] == list(healthy_ledgers(hidden, TERMS))
    assert {} == healthy_ledgers(batch.slice(0, 0), TERMS)


@st.composite
def said_of_one(draw: st.DrawFn) -> tuple[LedgerEvidence, bool]:
    """Draw a ledger on which one bookie lists something, and whether the list is the expected
    one.
    """
    size = draw(st.integers(1, 6))
    write = draw(st.integers(1, size))
    last = draw(st.integers(0, 40))
    ensemble = tuple(draw(st.permutations([f"b{n}" for n in range(size)])))
    metadata = LedgerMetadata(
        3, LedgerState.CLOSED, size, write, write, last, 0, (Segment(0, ensemble),)
    )
    seen = healthy(metadata)
    mine = entries_by_bookie(metadata)
    bookie = draw(st.sampled_from(sorted(mine)))
    there = draw(
        st.just(set(mine[bookie]))
        | st.sets(st.integers(0, 42))
        | st.sets(st.sampled_from(mine[bookie] or [0]))
    )
    return of_answer(bookie, groups=listing(sorted(there)))(seen), there == set(mine[bookie])


@given(st.lists(said_of_one(), max_size=5))
def test_a_ledger_is_found_when_each_copy_is_listed_and_only_then(
    cases: list[tuple[LedgerEvidence, bool]],
) -> None:
    """Compared entry by entry, and with `settle`."""
    batch = batch_of(*(one for one, _ in cases))
    got = healthy_ledgers(batch, TERMS)
    assert [number for number, (_, is_whole) in enumerate(cases) if is_whole] == list(got)
    assert [healthy_verdict(LEDGER, one) for one in got.values()] == [
        settle(cases[number][0], TERMS).verdict for number in got
    ]

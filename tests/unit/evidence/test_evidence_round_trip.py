"""From values to columns and back: nothing is lost, invented or shifted."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.evidence.gathered import evidence_by_ledger, evidence_of, ledger_records
from auditor.evidence.rows import (
    answer_row,
    bookie_records,
    bookie_row,
    greeting_row,
    ledger_row,
    read_row,
    repeat_row,
    table,
)
from auditor.evidence.schemas import ANSWERS, BOOKIES, LEDGERS, READS, SEEN
from auditor.model.availability import (
    Answer,
    AnswerStatus,
    EntryRead,
    Greeting,
    MissingLog,
    ReadStatus,
)
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.evidence import LedgerEvidence, Look
from auditor.model.ledger import (
    DigestType,
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    Malformed,
    Mark,
    RecordStatus,
    ReplicationLock,
    Segment,
    ZnodeStamp,
)

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
COUNT = st.integers(0, 2**31 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
BOOKIE = st.sampled_from(["b1", "bookie-2.example:3181", "a;b", "Ä"])

METADATA = st.builds(
    LedgerMetadata,
    INT32,
    st.sampled_from(LedgerState),
    INT32,
    INT32,
    INT32,
    st.none() | INT64,
    INT64,
    st.lists(st.builds(Segment, INT64, st.lists(BOOKIE, max_size=4).map(tuple)), max_size=4).map(
        tuple
    ),
    st.none() | st.sampled_from(DigestType),
    st.none() | INT64,
    st.lists(st.tuples(TEXT, st.binary(max_size=5)), max_size=3).map(tuple),
)
LOCK = st.builds(ReplicationLock, TEXT, INT64)
MARK = st.builds(
    Mark,
    INT64,
    st.none() | INT64,
    st.lists(BOOKIE, max_size=3).map(tuple),
    st.none() | TEXT,
    st.none() | LOCK,
)
RANGES = st.lists(st.tuples(INT64, INT64), max_size=3).map(tuple)
MISSING_LOGS = st.just(()) | st.lists(st.builds(MissingLog, TEXT, INT64, RANGES), max_size=3).map(
    tuple
)
MALFORMED = st.builds(Malformed, TEXT, COUNT, COUNT, TEXT)


@st.composite
def seen(draw: st.DrawFn, ledger_id: int) -> LedgerEvidence:
    """Looks of every kind at one ledger."""
    looks = []
    for number in range(draw(st.integers(1, 3))):
        record = LedgerRecord(
            ledger_id,
            number,
            draw(INT64),
            draw(st.sampled_from(RecordStatus)),
            draw(st.none() | st.builds(ZnodeStamp, INT64, INT32, INT64, INT64)),
            draw(st.none() | METADATA),
            draw(st.none() | st.none() | MALFORMED),
            draw(st.none() | MARK),
            draw(TEXT),
        )
        answers = {
            bookie: Answer(
                bookie,
                ledger_id,
                number,
                draw(INT64),
                draw(st.sampled_from(AnswerStatus)),
                draw(st.binary(max_size=30)),
                draw(TEXT),
                draw(COUNT),
                draw(COUNT),
                draw(INT64),
                draw(st.booleans()),
                draw(MISSING_LOGS),
                draw(st.lists(INT64, max_size=3).map(tuple)),
            )
            for bookie in draw(st.lists(BOOKIE, unique=True, max_size=3))
        }
        reads = {
            (bookie, entry): EntryRead(
                bookie,
                ledger_id,
                entry,
                number,
                draw(INT64),
                draw(st.sampled_from(ReadStatus)),
                draw(TEXT),
                1,
                0,
                draw(INT64),
            )
            for bookie, entry in draw(st.lists(st.tuples(BOOKIE, INT64), unique=True, max_size=3))
        }
        looks.append(Look(record, answers, reads))
    return LedgerEvidence(ledger_id, tuple(looks))


def seen_batch(ledgers: Sequence[LedgerEvidence], *, empty_as_null: bool = False) -> pa.RecordBatch:
    """The ledgers as one SEEN batch, by way of their rows."""

    def cell(rows: list[tuple[object, ...]], schema: pa.Schema) -> object:
        return (
            None
            if empty_as_null and not rows
            else [dict(zip(schema.names, row, strict=True)) for row in rows]
        )

    columns = {
        "ledger_id": [one.ledger_id for one in ledgers],
        "records": [
            cell([ledger_row(look.record) for look in one.looks], LEDGERS) for one in ledgers
        ],
        "answers": [
            cell([answer_row(a) for look in one.looks for a in look.answers.values()], ANSWERS)
            for one in ledgers
        ],
        "reads": [
            cell([read_row(r) for look in one.looks for r in look.reads.values()], READS)
            for one in ledgers
        ],
    }
    return pa.RecordBatch.from_arrays(
        [pa.array(columns[f.name], type=f.type) for f in SEEN], schema=SEEN
    )


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_row_is_repeated_but_for_some_columns(count: int) -> None:
    """As often as these have cells; the nested ones too, in the order of the schema."""
    answer = Answer(
        "b1", 7, 1, 2, AnswerStatus.HELD, b"x", missing_logs=(MissingLog("0.log", 1, ((1, 2),)),)
    )
    ids, looks = [9, 8, None][:count], [3, 4, 5][:count]
    logs = [None, [("1.log", 2, [(3, 4)])], []][:count]
    rows = repeat_row(
        ANSWERS,
        answer_row(answer),
        {"look": looks, "ledger_id": pa.array(ids, pa.int64()), "missing_logs": logs},
    )
    cells = [dict(zip(ANSWERS.names, answer_row(answer), strict=True)) for _ in range(count)]
    repeated_rows = [
        cell | {"ledger_id": one, "look": look, "missing_logs": missing}
        for cell, one, look, missing in zip(cells, ids, looks, logs, strict=True)
    ]
    assert pa.RecordBatch.from_pylist(repeated_rows, schema=ANSWERS).equals(rows)


LEDGERS_SEEN = st.integers(0, 8).flatmap(
    lambda count: st.tuples(*(seen(2**62 + n) for n in range(count)))
)


@settings(max_examples=60, deadline=None)
@given(LEDGERS_SEEN, st.booleans(), st.data())
def test_what_was_seen_comes_back_as_it_was(
    ledgers: tuple[LedgerEvidence, ...], empty_as_null: bool, data: st.DataObject
) -> None:
    """Every ledger, look, answer and read; whole, in any slice, and in slices of slices; null lists
    are empty ones.
    """
    batch = seen_batch(ledgers, empty_as_null=empty_as_null)
    assert list(ledgers) == list(evidence_by_ledger(batch))
    start = data.draw(st.integers(0, len(ledgers)))
    length = data.draw(st.integers(0, len(ledgers)))
    assert list(ledgers[start : start + length]) == list(
        evidence_by_ledger(batch.slice(start, length))
    )
    assert list(ledgers[start : start + length][1:3]) == list(
        evidence_by_ledger(batch.slice(start, length).slice(1, 2))
    )


@settings(max_examples=20, deadline=None)
@given(LEDGERS_SEEN)
def test_what_was_seen_survives_parquet_and_arrow_streams(
    ledgers: tuple[LedgerEvidence, ...],
) -> None:
    """Written and read again, as a run and its replay do."""
    batch = seen_batch(ledgers)
    file = io.BytesIO()
    pq.write_table(pa.Table.from_batches([batch], schema=SEEN), file)
    again = pq.read_table(io.BytesIO(file.getvalue()), schema=SEEN)
    assert list(ledgers) == [
        one for part in again.to_batches(max_chunksize=3) for one in evidence_by_ledger(part)
    ]


def sample(count: int) -> list[LedgerEvidence]:
    """Ledgers that differ in every column, without drawing them."""
    found = []
    for n in range(count):
        metadata = LedgerMetadata(
            3,
            LedgerState.CLOSED,
            3,
            2,
            2,
            n,
            n,
            tuple(Segment(k, (f"b{n}", f"c{k}")) for k in range(n % 3)),
            DigestType(n % 4 + 1),
        )
        record = LedgerRecord(
            n,
            0,
            n,
            RecordStatus.FOUND,
            ZnodeStamp(n, n, n),
            metadata,
            mark=Mark(n) if n % 2 else None,
        )
        answers = {
            f"b{k}": Answer(f"b{k}", n, 0, n, AnswerStatus.HELD, bytes([n])) for k in range(n % 4)
        }
        reads = {
            (f"b{k}", n): EntryRead(f"b{k}", n, n, 0, n, ReadStatus.NO_ENTRY) for k in range(n % 2)
        }
        found.append(LedgerEvidence(n, (Look(record, answers, reads),)))
    return found


@pytest.mark.parametrize(("start", "length"), [(0, 12), (3, 5), (11, 1), (5, 0), (12, 3)])
def test_a_slice_is_read_at_its_own_rows(start: int, length: int) -> None:
    """batch.slice keeps offsets into shared columns; nothing is shifted by them."""
    ledgers = sample(12)
    assert ledgers[start : start + length] == list(
        evidence_by_ledger(seen_batch(ledgers).slice(start, length))
    )


def test_a_null_list_with_hidden_values_is_empty() -> None:
    """Arrow allows a null cell to span values that do not count."""
    ledgers = sample(8)
    batch = seen_batch(ledgers)
    full = batch.column("answers")
    hidden = pa.ListArray.from_arrays(
        full.offsets, full.values, mask=pa.array([n in (3, 6) for n in range(8)])
    )
    columns = [hidden if name == "answers" else batch.column(name) for name in SEEN.names]
    again = list(evidence_by_ledger(pa.RecordBatch.from_arrays(columns, schema=SEEN)))
    assert {} == again[3].looks[0].answers == again[6].looks[0].answers
    assert ledgers[7] == again[7]


LOST, UNLISTED = {"missing_logs": (MissingLog("/1.log", 1, ((0, 0),)),)}, {"read_unlisted": (5,)}


@pytest.mark.parametrize(
    "said",
    [[{}, {}], [LOST, {}], [UNLISTED, {}], [LOST, UNLISTED], [LOST, LOST], [{**LOST, **UNLISTED}]],
)
def test_what_listers_say_beside_their_lists_comes_back(said: list[dict[str, Any]]) -> None:
    """Some answers have one of the two, or both, and most have neither."""
    (one,) = sample(1)
    answers = {
        f"b{n}": Answer(f"b{n}", 0, 0, n, AnswerStatus.HELD, **words)
        for n, words in enumerate(said)
    }
    ledger = replace(one, looks=(replace(one.looks[0], answers=answers),))
    assert [ledger] == list(evidence_by_ledger(seen_batch([ledger])))


def test_custom_metadata_that_is_null_is_empty() -> None:
    """A column that a run did not write is read as null, beside metadata that is there."""
    (one,) = sample(2)[1:]
    row = dict(zip(LEDGERS.names, ledger_row(one.looks[0].record), strict=True)) | {
        "custom_metadata": None
    }
    columns = {"ledger_id": [1], "records": [[row]], "answers": [None], "reads": [None]}
    batch = pa.RecordBatch.from_arrays(
        [pa.array(columns[f.name], type=f.type) for f in SEEN], schema=SEEN
    )
    (found,) = evidence_by_ledger(batch)
    assert one.looks[0].record == found.looks[0].record


def test_looks_come_oldest_first_whatever_the_order_of_rows() -> None:
    """Answers and reads go to the look they were made at."""
    records = [LedgerRecord(7, look, look, RecordStatus.GONE) for look in (2, 0, 1)]
    answers = [Answer("b", 7, look, look, AnswerStatus.SILENT) for look in (1, 2)]
    reads = [EntryRead("b", 7, 4, 2, 0, ReadStatus.NO_ENTRY)]
    made = evidence_of(7, records, answers, reads)
    assert [0, 1, 2] == [look.record.look for look in made.looks]
    assert [0, 1, 1] == [len(look.answers) for look in made.looks]
    assert [0, 0, 1] == [len(look.reads) for look in made.looks]


@pytest.mark.parametrize("looks", [1, 2])
def test_two_answers_of_one_bookie_at_one_look_are_our_fault(looks: int) -> None:
    """An assertion, not one of the two by chance."""
    records = [LedgerRecord(7, look, 0, RecordStatus.GONE) for look in range(looks)]
    twice = [Answer("b", 7, 0, at, AnswerStatus.SILENT) for at in (1, 2)]
    with pytest.raises(AssertionError, match="two answers"):
        evidence_of(7, records, twice, [])


BOOKIE_RECORDS = st.lists(
    st.builds(
        BookieRecord,
        BOOKIE,
        INT32,
        INT64,
        st.sampled_from(Registration),
        st.none() | TEXT,
        st.none() | st.integers(0, 65535),
        st.booleans(),
        TEXT,
        st.none() | st.sampled_from(Greeting),
        TEXT,
        st.none() | INT64,
        st.none() | INT64,
        st.none() | INT64,
        st.none() | INT64,
        st.none() | TEXT,
        st.none() | st.lists(TEXT, min_size=1, max_size=3).map(tuple),
    ),
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(BOOKIE_RECORDS)
def test_bookies_come_back_as_they_were(records: list[BookieRecord]) -> None:
    """Missing host, port and greeting stay missing."""
    batch = table(BOOKIES, (bookie_row(one) for one in records))
    assert records == bookie_records(pa.Table.from_batches([batch], schema=BOOKIES))


def test_a_greeting_is_a_row_without_a_ledger() -> None:
    """Its null ledger id distinguishes it from an answer; it comes back as text."""
    row = table(
        ANSWERS, [greeting_row("b", 1, 5, Greeting.UNSUPPORTED, "cannot list")]
    ).to_pylist()[0]
    identity = {"bookie_id": "b", "ledger_id": None, "look": 1, "asked_at_ms": 5}
    said = {"status": "unsupported", "groups": b"", "detail": "cannot list"}
    cost = {"requests": 1, "retries": 0, "received_bytes": 0, "non_canonical": False}
    nothing = {"missing_logs": None, "read_unlisted": None, "is_as_expected": False}
    assert {**identity, **said, **cost, **nothing} == row


@pytest.mark.parametrize("at", [0, 1, 5])
def test_rows_of_ledgers_come_back_in_their_order(at: int) -> None:
    """From a table in pieces, and from one without rows."""
    records = [one.looks[0].record for one in sample(5)][::-1]
    parts = [
        table(LEDGERS, [ledger_row(one) for one in some]) for some in (records[:at], records[at:])
    ]
    assert records == ledger_records(pa.Table.from_batches(parts))
    assert [] == ledger_records(LEDGERS.empty_table())


@pytest.mark.parametrize("schema", [LEDGERS, ANSWERS, READS, BOOKIES])
def test_no_rows_make_an_empty_batch_of_the_same_schema(schema: pa.Schema) -> None:
    """A shard in which nothing was asked is written too."""
    empty = table(schema, [])
    assert (0, schema) == (empty.num_rows, empty.schema)


def test_every_row_fits_its_schema() -> None:
    """As many values as columns, in their order."""
    (one,) = sample(4)[3:]
    look = one.looks[0]
    assert (
        len(LEDGERS)
        == len(ledger_row(look.record))
        == len(ledger_row(LedgerRecord(1, 0, 0, RecordStatus.GONE)))
    )
    assert (
        len(ANSWERS)
        == len(answer_row(look.answers["b1"]))
        == len(greeting_row("b", 0, 0, Greeting.SILENT, ""))
    )
    assert len(READS) == len(read_row(EntryRead("b", 1, 2, 0, 0, ReadStatus.PRESENT)))
    assert len(BOOKIES) == len(bookie_row(BookieRecord("b", 0, 0, Registration.NONE)))


def test_evidence_written_before_locks_and_write_times_is_still_read(tmp_path: Path) -> None:
    """An older run lacks both columns: no lock and time 0, and everything else as it was."""
    lock = ReplicationLock("worker-1", 5)
    record = LedgerRecord(
        7, 1, 0, RecordStatus.GONE, ZnodeStamp(1, 2, 3, 4), mark=Mark(9, None, ("b1",), None, lock)
    )
    new = pa.Table.from_batches([table(LEDGERS, [ledger_row(record)])])
    kept = ["created_ms", "changed_ms", "missing_replicas", "problem"]
    mark = new["mark"].combine_chunks()
    old_mark = pa.StructArray.from_arrays([mark.field(name) for name in kept], names=kept)
    old = new.set_column(new.schema.get_field_index("mark"), "mark", old_mark).drop_columns(
        ["znode_mtime_ms"]
    )
    pq.write_table(old, tmp_path / "old.parquet")
    again = ds.dataset(tmp_path, schema=LEDGERS, format="parquet").to_table()
    structs = pa.StructArray.from_arrays(
        [pa.concat_arrays(c.chunks) for c in again.columns], fields=list(LEDGERS)
    )
    expected = replace(record, stamp=ZnodeStamp(1, 2, 3, 0), mark=Mark(9, None, ("b1",)))
    nothing = (
        pa.array([None], pa.list_(pa.struct(ANSWERS))),
        pa.array([None], pa.list_(pa.struct(READS))),
    )
    row = [pa.array([7]), pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), structs), *nothing]
    (found,) = evidence_by_ledger(pa.RecordBatch.from_arrays(row, schema=SEEN))
    assert expected == found.looks[0].record

"""Everything seen of each ledger in one row, from tables whose rows come in any order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from auditor.evidence.gathered import evidence_by_ledger
from auditor.evidence.rows import answer_row, greeting_row, ledger_row, read_row, table
from auditor.evidence.run_directory import place
from auditor.evidence.run_tables import read_seen_rows, seen_rows
from auditor.evidence.schemas import ANSWERS, LEDGERS, READS, SEEN
from auditor.model.availability import Answer, AnswerStatus, EntryRead, Greeting, ReadStatus
from auditor.model.evidence import LedgerEvidence, Look
from auditor.model.ledger import LedgerRecord, RecordStatus

IDS = (3, 5, 2**53 + 1, 2**53 + 3)
"""The last two are equal as floats."""


def ledger(ledger_id: int, looks: int, bookies: int) -> LedgerEvidence:
    """A ledger at some looks, at each of which some bookies answered and were read."""
    found = []
    for look in range(1, looks + 1):
        names = [f"b{n}" for n in range(bookies)]
        answers = {
            one: Answer(one, ledger_id, look, look, AnswerStatus.HELD, b"x") for one in names
        }
        reads = {
            (one, e): EntryRead(one, ledger_id, e, look, 0, ReadStatus.NO_ENTRY)
            for one in names[1:]
            for e in (7, 8)
        }
        found.append(Look(LedgerRecord(ledger_id, look, 0, RecordStatus.GONE), answers, reads))
    return LedgerEvidence(ledger_id, tuple(found))


LEDGERS_SEEN = [ledger(ledger_id, 1 + n % 2, n) for n, ledger_id in enumerate(IDS)]


def rows_of(ledgers: Sequence[LedgerEvidence]) -> tuple[list[Any], list[Any], list[Any]]:
    """Their rows in LEDGERS, ANSWERS and READS."""
    looks = [look for one in ledgers for look in one.looks]
    answers = [answer_row(one) for look in looks for one in look.answers.values()]
    reads = [read_row(one) for look in looks for one in look.reads.values()]
    return [ledger_row(look.record) for look in looks], answers, reads


def in_parts(schema: pa.Schema, rows: list[Any], draw: Random) -> pa.Table:
    """Rows as a table in two chunks, in any order."""
    mixed = draw.sample(rows, len(rows))
    half = len(mixed) // 2
    return pa.Table.from_batches([table(schema, mixed[:half]), table(schema, mixed[half:])], schema)


@pytest.mark.parametrize("seed", range(5))
def test_all_that_was_seen_of_a_ledger_is_its_row(seed: int) -> None:
    """Ledgers ascending, whether bookies were asked about them or not."""
    schemas = (LEDGERS, ANSWERS, READS)
    draw = Random(seed)
    tables = [
        in_parts(schema, rows, draw)
        for schema, rows in zip(schemas, rows_of(LEDGERS_SEEN), strict=True)
    ]
    batches = seen_rows(*tables)
    assert LEDGERS_SEEN == [one for batch in batches for one in evidence_by_ledger(batch)], seed
    assert {SEEN} == {batch.schema for batch in batches}


def test_answers_of_other_ledgers_are_left_out() -> None:
    """Those below, between and above."""
    others = [ledger(ledger_id, 1, 3) for ledger_id in (1, 4, 2**53 + 2, 2**60)]
    records, _, _ = rows_of(LEDGERS_SEEN)
    _, answers, reads = rows_of(LEDGERS_SEEN + others)
    draw = Random(1)
    batches = seen_rows(
        in_parts(LEDGERS, records, draw),
        in_parts(ANSWERS, answers, draw),
        in_parts(READS, reads, draw),
    )
    assert LEDGERS_SEEN == [one for batch in batches for one in evidence_by_ledger(batch)]


def test_no_ledgers_make_no_rows() -> None:
    """This holds for any answers."""
    _, answers, reads = rows_of(LEDGERS_SEEN)
    tables = (
        pa.Table.from_batches([table(ANSWERS, answers)]),
        pa.Table.from_batches([table(READS, reads)]),
    )
    assert 0 == sum(batch.num_rows for batch in seen_rows(LEDGERS.empty_table(), *tables))


def test_the_ledgers_of_a_run_that_a_filter_keeps_are_read(tmp_path: Path) -> None:
    """Greetings, which are about no ledger, are not among their answers."""
    run = place(str(tmp_path))
    records, answers, reads = rows_of(LEDGERS_SEEN)
    answers.append(greeting_row("b1", 1, 0, Greeting.ANSWERED, ""))
    run.write_table("evidence/ledgers", table(LEDGERS, records), "a")
    run.write_table("evidence/answers", table(ANSWERS, answers), "a")
    run.write_table("evidence/reads", table(READS, reads), "a")
    batches = read_seen_rows(run, pc.field("ledger_id") > 3)
    assert LEDGERS_SEEN[1:] == [one for batch in batches for one in evidence_by_ledger(batch)]


def test_metadata_alone_costs_one_scan(tmp_path: Path) -> None:
    """Before bookies are asked there is nothing else: the other tables are not even opened."""
    run = place(str(tmp_path))
    records, _, _ = rows_of(LEDGERS_SEEN)
    run.write_table("evidence/ledgers", table(LEDGERS, records), "a")
    batches = read_seen_rows(run, pc.field("ledger_id") > 0, with_answers=False)
    found = [one for batch in batches for one in evidence_by_ledger(batch)]
    assert [
        (one.ledger_id, [(look.record, {}, {}) for look in one.looks]) for one in LEDGERS_SEEN
    ] == [
        (one.ledger_id, [(look.record, look.answers, look.reads) for look in one.looks])
        for one in found
    ]


def test_a_column_that_a_file_lacks_is_null(tmp_path: Path) -> None:
    """Its evidence is judged again all the same, and what other files have in it counts."""
    run = place(str(tmp_path))
    names = ("ledgers", "answers", "reads")
    for file, ledgers, lacking in (
        ("a", LEDGERS_SEEN[2:3], "non_canonical"),
        ("b", LEDGERS_SEEN[3:], ""),
    ):
        for name, schema, rows in zip(
            names, (LEDGERS, ANSWERS, READS), rows_of(ledgers), strict=True
        ):
            whole = pa.Table.from_batches([table(schema, rows)])
            columns = [column for column in schema.names if column != lacking]
            run.write_table(f"evidence/{name}", whole.select(columns), file)
    old, new = pa.Table.from_batches(read_seen_rows(run, pc.field("ledger_id") > 3)).to_pylist()
    assert (1, 2, 2) == tuple(len(old[name]) for name in ("records", "answers", "reads"))
    assert [{None}, {False}] == [
        {one["non_canonical"] for one in row["answers"]} for row in (old, new)
    ]

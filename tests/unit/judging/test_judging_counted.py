"""Healthy ledgers by the counts of their answers: nothing that is missing makes a ledger sound.

How the answers are counted is a test of Spark's executor.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from auditor.evidence.rows import ledger_row
from auditor.evidence.schemas import CLEAR_COLUMNS, COUNTED, LEDGERS
from auditor.judging.healthy_ledgers import Healthy, healthy_by_counts
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.model.ledger import LedgerRecord, Mark, RecordStatus, ZnodeStamp
from auditor.sandbox.cluster import ledger
from auditor.second_checker.agreement import is_in_sample
from auditor.stages import steps

FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", None, False, None)
TERMS = Terms(1_000, 0, 16, 5)
RECORD = LedgerRecord(
    7,
    1,
    0,
    RecordStatus.FOUND,
    ZnodeStamp(1, 0, 0, 0),
    ledger("e3 w2 a2 0:[b1 b2 b3] closed 29"),
)
HASH = -(2**62)


def counted(record: LedgerRecord = RECORD, **cells: Any) -> dict[str, Any]:
    """Return a COUNTED row of a ledger whose three bookies were as expected, with some other
    cells.
    """
    row = dict(zip(LEDGERS.names, ledger_row(record), strict=True))
    return {
        "ledger_id": record.ledger_id,
        "records": [{name: row[name] for name in CLEAR_COLUMNS}],
        "reads": None,
        "answers": 3,
        "answers_as_expected": 3,
        "bookies_hash": HASH,
        "ensemble_hash": HASH,
        **cells,
    }


def batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=COUNTED)


def read(bookie: str, entry: int, status: str = "present") -> dict[str, Any]:
    return {"bookie_id": bookie, "entry_id": entry, "status": status}


def test_a_ledger_is_healthy_whose_bookies_were_all_as_expected() -> None:
    """A read that brought a promised copy counts."""
    rows = [counted(), counted(reads=[read("b1", 6)]), counted(reads=[])]
    whole = Healthy(60, 0)
    assert {0: whole, 1: Healthy(60, 1), 2: whole} == healthy_by_counts(batch(*rows), TERMS)


@pytest.mark.parametrize(
    "cells",
    [
        {"answers": 2, "answers_as_expected": 2},
        {"answers": 4, "answers_as_expected": 4},
        {"answers": 4},
        {"answers_as_expected": 2},
        {"bookies_hash": HASH + 1},
        {"answers": None, "answers_as_expected": None, "bookies_hash": None},
        {"answers": None},
        {"answers_as_expected": None},
        {"bookies_hash": None},
        {"bookies_hash": None, "ensemble_hash": None},
        {"reads": [read("b1", 6, "no_entry")]},
        {"reads": [read("b1", 6), read("b1", 7)]},
        {"reads": [read("b9", 6)]},
        {"records": []},
        {"records": None},
        {"records": counted()["records"] * 2},
    ],
    ids=str,
)
def test_a_ledger_is_not_healthy_of_which_anything_is_missing(cells: dict[str, Any]) -> None:
    """An answer that was lost or doubled, one of another bookie, a read that refutes a list."""
    rows = batch(counted(), counted(**cells), counted())
    assert [0, 2] == list(healthy_by_counts(rows, TERMS))


@pytest.mark.parametrize(
    "record",
    [
        replace(RECORD, mark=Mark(0, 0)),
        replace(RECORD, look=2),
        replace(RECORD, metadata=None, status=RecordStatus.UNREADABLE),
        replace(RECORD, metadata=ledger("e3 w2 a2 0:[b1 b2 b3] 9:[b1 b3 b2] closed 29")),
        replace(RECORD, metadata=ledger("e3 w2 a2 0:[b1 b2 b2] closed 29")),
        replace(RECORD, metadata=ledger("e3 w2 a2 0:[b1 b2 b3] open")),
    ],
)
def test_a_ledger_that_is_not_clear_is_not_healthy(record: LedgerRecord) -> None:
    """Whatever its bookies said."""
    assert {} == healthy_by_counts(batch(counted(record)), TERMS)


def test_all_that_is_not_settled_is_left() -> None:
    """So is the sample, which both checkers judge. What counts say of it is kept, to compare."""
    half, ids = replace(TERMS, sound_sample=0.5), range(40)
    lost = {"answers": 2, "answers_as_expected": 2}
    rows = [counted(replace(RECORD, ledger_id=i), **(lost if i % 4 == 0 else {})) for i in ids]
    work = steps.count_of(half, FACTS)
    found = [row for part in work(iter([batch(*rows)])) for row in part.to_pylist()]
    settled = {row["ledger_id"] for row in found if row["todo"] == "nothing"}
    assert settled == {i for i in ids if i % 4 and not is_in_sample(i, half)}
    assert set(ids) - settled == {row["ledger_id"] for row in found if row["todo"] == "evidence"}
    assert len(ids) == len(found)
    claimed = {r["ledger_id"] for r in found if r["standing"] == "sound"} - settled
    assert claimed == {i for i in ids if i % 4 and is_in_sample(i, half)}
    assert {("sound", 60)} == {
        (row["standing"], row["copies_listed"]) for row in found if row["ledger_id"] in settled
    }

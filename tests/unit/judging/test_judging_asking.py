"""The search for the bookies to ask about a ledger has the limits of judging. A ledger on which it
never ends loses its verdict, and the run goes on.
"""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

from auditor.config import JudgingLimits
from auditor.evidence.rows import ledger_row
from auditor.evidence.schemas import LEDGERS, SEEN
from auditor.judging.judge import TooManyPoisoned
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.ledger import LedgerRecord, RecordStatus, ZnodeStamp
from auditor.sandbox.cluster import ledger
from auditor.stages import steps

FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", None, False, None)
TERMS = Terms(0, 0, 16, 5)
LIMITS = JudgingLimits(ledger_time_max_ms=400, ledger_memory_max=256 * 2**20)


def batch(*ledger_ids: int) -> pa.RecordBatch:
    """Return SEEN rows of ledgers that were read once and not asked about yet."""
    metadata = ledger("e3 w2 a2 0:[b1 b2 b3] 9:[b1 b3 b2] closed 29")
    records = [
        LedgerRecord(one, 1, 0, RecordStatus.FOUND, ZnodeStamp(1, 0, 0, 0), metadata)
        for one in ledger_ids
    ]
    rows = [[dict(zip(LEDGERS.names, ledger_row(record), strict=True))] for record in records]
    columns = {
        "ledger_id": ledger_ids,
        "records": rows,
        "answers": [None] * len(rows),
        "reads": [None] * len(rows),
    }
    return pa.RecordBatch.from_arrays(
        [pa.array(columns[one.name], type=one.type) for one in SEEN], schema=SEEN
    )


def plant(monkeypatch: pytest.MonkeyPatch, *endless: int) -> None:
    """Make the search for the bookies of these ledgers never end."""
    sound = steps.lists_demanded

    def demanded(evidence: LedgerEvidence) -> Any:
        while evidence.ledger_id in endless:
            time.sleep(1)
        return sound(evidence)

    monkeypatch.setattr(steps, "lists_demanded", demanded)


def test_a_ledger_on_which_asking_never_ends_is_not_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All other ledgers are asked about, in its batch and in the next."""
    plant(monkeypatch, 2, 5)
    asked = [
        row
        for questions in steps.asker_of(TERMS, LIMITS)(iter([batch(1, 2, 3), batch(4, 5)]))
        for row in questions.to_pylist()
    ]
    assert [(one, bookie) for one in (1, 3, 4) for bookie in ("b1", "b2", "b3")] == [
        (row["ledger_id"], row["bookie_id"].split(":")[0]) for row in asked
    ]
    assert {64 + 24 * 12} == {row["expected_bytes"] for row in asked}


def test_too_many_ledgers_on_which_asking_never_ends_are_our_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit is that of stopped judging. It counts the ledgers of all batches of a task."""
    plant(monkeypatch, 2, 5)
    monkeypatch.setattr("auditor.judging.judge.POISON_MAX", 1)
    with pytest.raises(TooManyPoisoned):
        list(steps.asker_of(TERMS, LIMITS)(iter([batch(1, 2, 3), batch(4, 5)])))


@pytest.mark.parametrize("error", [KeyError("odd"), SystemExit("odd")])
def test_a_ledger_on_which_asking_raises_is_not_asked_for(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """The rows of all other ledgers are kept, for any exception."""
    sound = steps.lists_demanded

    def demanded(evidence: LedgerEvidence) -> Any:
        if evidence.ledger_id == 2:
            raise error
        return sound(evidence)

    monkeypatch.setattr(steps, "lists_demanded", demanded)
    questions = steps.asker_of(TERMS, LIMITS)(iter([batch(1, 2, 3)]))
    assert {1, 3} == {row["ledger_id"] for rows in questions for row in rows.to_pylist()}


@pytest.mark.parametrize(
    ("were_asked", "todo", "unknowns", "detail"),
    [
        (True, "nothing", ["poison"], f"judging was stopped: {steps.NOT_ASKED}"),
        (False, "lists", ["bookie_silent"], ""),
    ],
)
def test_a_ledger_that_was_not_asked_for_is_set_aside(
    were_asked: bool, todo: str, unknowns: list[str], detail: str
) -> None:
    """Otherwise it would demand lists for ever, and the run would give no verdict on any ledger."""
    work = steps.judge_of(TERMS, FACTS, LIMITS, were_asked=were_asked)
    (row,) = (row for rows in work(iter([batch(2)])) for row in rows.to_pylist())
    assert (todo, unknowns, detail) == (row["todo"], row["unknowns"], row["detail"])

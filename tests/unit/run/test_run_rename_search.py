"""Other bookies are asked for what gone bookies held. Their answers count only while the ledgers
still name the gone ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auditor.config import BookieLimits
from auditor.evidence.rows import answer_row, ledger_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import ANSWERS, LEDGERS, RENAMES
from auditor.findings.renaming import renames
from auditor.model.availability import NO_COOKIE, Answer, AnswerStatus, SequenceGroup
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    RecordStatus,
    Segment,
    ZnodeStamp,
)
from auditor.run import closing_looks
from auditor.run.closing_looks import RenameSearch
from auditor.stages.asking import Directory
from auditor.wire.entry_availability import canonical

GONE, NEW = "gone", "b2"
ALL_FOUR = canonical([SequenceGroup(0, 0, 4, 0)])


def metadata(*ensemble: str) -> LedgerMetadata:
    return LedgerMetadata(3, LedgerState.CLOSED, 1, 1, 1, 3, 4, (Segment(0, ensemble),))


def record(ledger_id: int, look: int, *ensemble: str) -> LedgerRecord:
    return LedgerRecord(
        ledger_id, look, 0, RecordStatus.FOUND, ZnodeStamp(1, 0, 0), metadata(*ensemble)
    )


class Store:
    """ZooKeeper after the last look: ledgers with their ensembles."""

    def __init__(self, ensembles: dict[int, str]) -> None:
        self.ensembles = ensembles
        self.synced = False

    def passwords(self, ids: list[int]) -> dict[int, bytes | None]:
        return {}

    def sync(self) -> None:
        self.synced = True

    def read_ledgers(
        self, ids: Any, look: int, now_ms: object, with_marks: bool
    ) -> Iterator[LedgerRecord]:
        assert self.synced, "what is read may be older than the answers"
        return (record(ledger_id, look, self.ensembles[ledger_id]) for ledger_id in ids)


class AllHeld:
    """A bookie that lists every entry of every ledger it is asked about."""

    def __init__(self, bookie: str, *_: object) -> None:
        self.bookie = bookie

    async def rows(self, *, can_list: bool, can_read: bool) -> list[Any]:
        held = AnswerStatus.HELD.value
        return [
            ([GONE], self.bookie, ledger_id, None, 0, held, ALL_FOUR, "", 1, 0, 10)
            for ledger_id in (1, 2)
        ]


@pytest.fixture
def run(tmp_path: Path) -> Place:
    """Return a run with two ledgers that named a gone bookie when they were last read."""
    run = place(str(tmp_path / "run"))
    answers = [
        Answer(GONE, ledger, 1, 0, AnswerStatus.UNREGISTERED, detail=NO_COOKIE) for ledger in (1, 2)
    ]
    run.write_table(
        "evidence/ledgers", table(LEDGERS, [ledger_row(record(n, 1, GONE)) for n in (1, 2)]), "all"
    )
    run.write_table("evidence/answers", table(ANSWERS, [answer_row(one) for one in answers]), "all")
    return run


@pytest.mark.parametrize(
    ("now", "expected"),
    [({1: GONE, 2: GONE}, (1, 2)), ({1: NEW, 2: GONE}, (2,)), ({1: NEW, 2: NEW}, ())],
    ids=["none changed", "one was re-replicated", "all were re-replicated"],
)
def test_a_ledger_that_was_re_replicated_meanwhile_shows_no_rename(
    run: Place, monkeypatch: pytest.MonkeyPatch, now: dict[int, str], expected: tuple[int, ...]
) -> None:
    """Auto-recovery put the bookie that it copied to into the ensemble. That this bookie holds the
    entries does not show a rename.
    """
    monkeypatch.setattr(closing_looks, "_Conversation", AllHeld)
    store: Any = Store(now)
    RenameSearch(store, run, BookieLimits(), lambda: Directory({NEW: ("h", 1)}, frozenset())).ask(
        ()
    )
    found = renames(run)
    assert expected == (found[GONE].ledgers if GONE in found else ())
    assert 2 == run.count("evidence/renames", RENAMES), (
        "what was asked is evidence, and has its cost"
    )

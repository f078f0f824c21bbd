"""What an audit of single ledgers keeps from look to look."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.bookie.listers import Listers
from auditor.bookie.questions import ReadQuestion
from auditor.config import BookieLimits
from auditor.model.availability import EntryRead, ReadStatus
from auditor.model.cluster import Surroundings
from auditor.model.evidence import Terms
from auditor.model.ledger import LedgerRecord, RecordStatus
from auditor.run import single_ledgers
from auditor.run.single_ledgers import Asker, AuditState, LedgerLooks

STORE: Any = object()
AROUND = Surroundings(writable=frozenset({"b1"}), readonly=frozenset({"b2"}))
TERMS = Terms(0, 0, 16, 5, around=AROUND)


def asker(**changes: Any) -> Asker:
    """Return an asker whose store is never read."""
    return Asker(STORE, BookieLimits(), lambda: 0, lambda seconds: None, 0, **changes)


def test_a_late_list_drops_what_was_read_in_its_place_but_wrong_digests() -> None:
    """Only reads of its bookie at its look are dropped."""
    reads = {
        (bookie, entry): EntryRead(bookie, 1, entry, 1, 0, status)
        for bookie, entry, status in (
            ("b1", 0, ReadStatus.PRESENT),
            ("b1", 1, ReadStatus.CORRUPT),
            ("b2", 0, ReadStatus.PRESENT),
        )
    }
    looks = LedgerLooks(reads={1: dict(reads), 2: dict(reads)})
    looks.drop_probes(1, "b1")
    assert {1: {("b1", 1), ("b2", 0)}, 2: set(reads)} == {
        look: set(kept) for look, kept in looks.reads.items()
    }


def test_listers_know_at_once_what_a_bookie_denied() -> None:
    """The next look's lanes are opened with these listers."""
    state = AuditState.of(asker(listers=Listers("cluster", 3182)), [1], TERMS)
    state.denied["b1"] = "entry 7 is missing"
    assert state.asker.listers is not None
    assert {"b1": "entry 7 is missing"} == state.asker.listers.not_believed


@pytest.mark.parametrize(
    ("bound", "asked"), [(None, {"b1": 4, "b2": 4, "b3": 4}), (3, {"b1": 3, "b2": 3, "b3": 0})]
)
def test_each_registered_bookie_has_its_budget_of_searches(
    bound: int | None, asked: dict[str, int]
) -> None:
    """The budget is for the whole audit, whatever the number of looks. Without a bound every search
    is sent.
    """
    searches = AuditState.of(asker(search_reads_max=bound), [1], TERMS).searches
    four = [ReadQuestion(1, entry, None, None, is_search=True) for entry in range(4)]
    assert asked == {bookie: len(searches.split(bookie, four)[0]) for bookie in asked}


def test_a_ledger_that_cannot_be_judged_is_set_aside_and_the_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The asker keeps the reason, and each ledger has a step."""

    def judge_all(self: Any, ledgers: Any) -> list[tuple[str, str]]:
        return [(f"step {one.ledger_id}", "too big" * (one.ledger_id == 2)) for one in ledgers]

    monkeypatch.setattr(single_ledgers.Judge, "judge_all", judge_all)
    state = AuditState.of(asker(), [1, 2], TERMS)
    for ledger_id, looks in state.looks.items():
        looks.records.append(LedgerRecord(ledger_id, 1, 0, RecordStatus.GONE))
    state.settle([1, 2])
    assert ({1: "step 1", 2: "step 2"}, {2: "too big"}) == (state.steps, state.asker.set_aside)

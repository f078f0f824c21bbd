"""Which bookies the second checker counts as searched for entries without a copy."""

from __future__ import annotations

import pytest

from auditor.model.availability import NO_COOKIE, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.cluster import Surroundings
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.facts import EntryFacts, Search
from auditor.model.ledger import LedgerRecord, RecordStatus, ZnodeStamp
from auditor.sandbox.notation import ledger
from auditor.second_checker.opinion import enumerated

LEDGER, NOW_MS = 7, 10_000
AROUND = Surroundings(writable=frozenset({"b1", "b2", "x1"}))
TERMS = Terms(NOW_MS, 1_000, 16, 5, stranded_entries_max=16, around=AROUND)


@pytest.mark.parametrize("status", [ReadStatus.UNREGISTERED, None])
def test_a_bookie_that_is_gone_is_not_looked_at(status: ReadStatus | None) -> None:
    """It was registered when the run began, and is gone by now, whether or not a read was tried."""
    answers = {
        b: Answer(b, LEDGER, 1, NOW_MS, AnswerStatus.UNREGISTERED, detail=NO_COOKIE)
        for b in ("b1", "b2")
    }
    said = {("x1", 0): ReadStatus.NO_LEDGER} | ({("b2", 0): status} if status else {})
    reads = {
        (bookie, entry): EntryRead(bookie, LEDGER, entry, 1, NOW_MS, word, is_search=True)
        for (bookie, entry), word in said.items()
    }
    metadata, stamp = ledger("e2 w1 a1 0:[b1 b2] closed 3"), ZnodeStamp(1, 0, NOW_MS)
    record = LedgerRecord(LEDGER, 1, NOW_MS, RecordStatus.FOUND, stamp, metadata)
    looks = (Look(record, answers, reads),) * 2
    (found,) = enumerated(LedgerEvidence(LEDGER, looks), TERMS).told
    assert isinstance(found.facts, EntryFacts)
    assert Search(4, 0, 0, 0, ("x1",)) == found.facts.search

"""The facts of marks, of ledgers left open and of metadata, as the second checker derives them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.model.cluster import Surroundings
from auditor.model.evidence import Terms
from auditor.model.facts import (
    StuckFacts,
    WhyMarked,
)
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    Mark,
    RecordStatus,
    ZnodeStamp,
)
from auditor.sandbox.cluster import ledger
from auditor.second_checker.blocks import Block, stretches
from auditor.second_checker.copies import LedgerCount, tally
from auditor.second_checker.findings import (
    mark_facts,
    stuck_facts,
)
from auditor.second_checker.holdings import Testimony as Said
from auditor.second_checker.holdings import gone_testimony

WHOLE = ledger("e3 w2 a2 0:[b1 b2 b3] 5:[b4 b2 b3] closed 9")
TERMS = Terms(1_000, 100, 16, 5, stuck_after_ms=50, around=Surroundings(auditor="b1"))


def record_of(
    metadata: LedgerMetadata | None, mark: Mark | None = None, *, created_ms: int = 300
) -> LedgerRecord:
    stamp = ZnodeStamp(1, 0, created_ms, 700)
    return LedgerRecord(7, 0, 1_000, RecordStatus.FOUND, stamp, metadata, mark=mark)


@pytest.mark.parametrize(
    ("state", "own_ms", "expected"),
    [
        (LedgerState.IN_RECOVERY, 200, (700, False, 300)),
        (LedgerState.OPEN, None, (300, False, 700)),
        (LedgerState.OPEN, 200, (200, True, 800)),
        (LedgerState.OPEN, 400, (300, False, 700)),
    ],
)
def test_a_ledger_is_stuck_since_it_was_created_or_its_recovery_was_written(
    state: LedgerState, own_ms: int | None, expected: tuple[int, bool, int]
) -> None:
    """It was created at the older of the two times that its znode and its metadata have."""
    since_ms, by_metadata, age_ms = expected
    metadata = replace(WHOLE, state=state, last_entry_id=None, ctime_ms=own_ms)
    assert StuckFacts(state, since_ms, by_metadata, age_ms, 50) == stuck_facts(
        record_of(metadata), TERMS
    )


@pytest.mark.parametrize(
    ("writable", "expected"),
    [
        ({"b1", "b2"}, (WhyMarked.NO_COPY, WhyMarked.NO_SPARE_BOOKIE)),
        ({"b1"}, (WhyMarked.NO_COPY, WhyMarked.NO_SPARE_BOOKIE)),
        ({"b1", "b2", "b3"}, (WhyMarked.NO_COPY,)),
    ],
)
def test_no_bookie_is_spare_if_the_ensemble_has_every_writable_one(
    writable: set[str], expected: tuple[WhyMarked, ...]
) -> None:
    """A bookie is spare if it takes entries and is not in the ensemble already."""
    lost = ledger("e2 w2 a2 0:[b1 b2] closed 3")
    terms = replace(TERMS, around=Surroundings(writable=frozenset(writable), auditor="b1"))
    gone = dict.fromkeys(("b1", "b2"), gone_testimony())
    counted = count(lost, gone).tally
    assert expected == mark_facts(record_of(lost, Mark(400)), counted, terms, is_stale=False).why


def count(metadata: LedgerMetadata, testimonies: dict[str, Said]) -> LedgerCount:
    blocks = tuple(Block(part, part.first, part.last) for part in stretches(metadata))
    counted = tally(blocks, testimonies, is_whole=True)
    return LedgerCount(counted, blocks, True, testimonies, {})

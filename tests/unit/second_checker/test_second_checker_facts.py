"""The facts of marks, of ledgers left open and of metadata, as the second checker derives them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.model.availability import NO_COOKIE, Answer, AnswerStatus
from auditor.model.cluster import Surroundings
from auditor.model.evidence import Terms
from auditor.model.facts import (
    Contradiction,
    Contradicts,
    EntryFacts,
    MarkFacts,
    StuckFacts,
    WhyMarked,
)
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    Mark,
    RecordStatus,
    ReplicationLock,
    ZnodeStamp,
)
from auditor.model.verdict import CopyCounts
from auditor.sandbox.notation import ledger
from auditor.second_checker.blocks import Block
from auditor.second_checker.copies import LedgerCount, Tally, tally
from auditor.second_checker.findings import (
    contradictions,
    entry_facts,
    is_mark_stale,
    mark_facts,
    stuck_facts,
)
from auditor.second_checker.holdings import ABSENT, HELD, gone_testimony
from auditor.second_checker.holdings import Testimony as Said
from auditor.second_checker.looks import Statements
from auditor.second_checker.schedule import stretches

WHOLE = ledger("e3 w2 a2 0:[b1 b2 b3] 5:[b4 b2 b3] closed 9")
TERMS = Terms(1_000, 100, 16, 5, stuck_after_ms=50, around=Surroundings(auditor="b1"))


def record_of(
    metadata: LedgerMetadata | None, mark: Mark | None = None, *, created_ms: int = 300
) -> LedgerRecord:
    stamp = ZnodeStamp(1, 0, created_ms, 700)
    return LedgerRecord(7, 0, 1_000, RecordStatus.FOUND, stamp, metadata, mark=mark)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (WHOLE, []),
        (
            replace(WHOLE, ensemble_size=0),
            [
                Contradiction(Contradicts.QUORUM_BELOW_ONE, (0, 2, 2)),
                Contradiction(Contradicts.WRITE_QUORUM_ABOVE_ENSEMBLE, (2, 0)),
                Contradiction(Contradicts.WRONG_ENSEMBLE_SIZE, (0, 3, 0)),
                Contradiction(Contradicts.WRONG_ENSEMBLE_SIZE, (5, 3, 0)),
            ],
        ),
        (
            replace(WHOLE, write_quorum=0),
            [
                Contradiction(Contradicts.QUORUM_BELOW_ONE, (3, 0, 2)),
                Contradiction(Contradicts.ACK_QUORUM_ABOVE_WRITE, (2, 0)),
            ],
        ),
        (
            ledger("e3 w2 a2 0:[b1 b2 b3] 5:[b4 b2 b3] 8:[b1 b2 b3] closed 3"),
            [Contradiction(Contradicts.SEGMENT_BEYOND_LAST_ENTRY, (8, 3))],
        ),
        (
            replace(WHOLE, last_entry_id=-1),
            [
                Contradiction(Contradicts.SEGMENT_BEYOND_LAST_ENTRY, (5, -1)),
                Contradiction(Contradicts.LENGTH_WITHOUT_ENTRY, (WHOLE.length,)),
            ],
        ),
        (
            replace(WHOLE, last_entry_id=-2),
            [Contradiction(Contradicts.LAST_ENTRY_BELOW_MINUS_ONE, (-2,))],
        ),
    ],
)
def test_each_contradiction_is_found_with_its_numbers(
    metadata: LedgerMetadata, expected: list[Contradiction]
) -> None:
    """A lastEntryId below -1 says nothing about segments."""
    assert expected == contradictions(metadata)


def test_the_facts_of_a_mark_are_those_of_its_record() -> None:
    """The age counts from the older of two times. The one read when it was made is 0 ms old."""
    lock = ReplicationLock("worker", 950)
    mark = Mark(400, 900, ("b2",), "cut off", lock)
    empty = ledger("e3 w2 a2 0:[b1 b2 b3] closed -1")
    why = (WhyMarked.LOCKED, WhyMarked.EMPTY_LEDGER)
    assert MarkFacts(
        600, 100, 400, 900, ("b2",), "cut off", "worker", 950, LedgerState.CLOSED, why
    ) == mark_facts(record_of(empty, mark), None, TERMS, is_stale=False, is_empty=True)
    assert MarkFacts(0, 100, 1_000, None, (), "", None, None, None, ()) == mark_facts(
        record_of(None, Mark(1_000)), None, TERMS, is_stale=False
    )


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


def test_the_mark_of_an_empty_ledger_is_not_stale() -> None:
    """A mark is stale if entries have all their copies. There are none here."""
    empty = ledger("e2 w2 a2 0:[b1 b2] closed -1")
    assert not is_mark_stale(record_of(empty, Mark(400)), Tally(), CopyCounts(0, 0, 0, 0))


def test_a_bookie_to_which_no_entry_was_written_is_not_missed() -> None:
    """Both bookies of the ensemble are gone. Its only entry was written to one of them."""
    short = ledger("e2 w1 a1 0:[b1 b2] closed 0")
    gone = dict.fromkeys(("b1", "b2"), gone_testimony())
    assert ("b1",) == facts_of_worst(short, gone, are_gone=True).gone


@pytest.mark.parametrize(
    ("ack_quorum", "b1_lacks", "b2_lacks", "at_tail"),
    [(1, 2, 4, True), (1, 3, 3, False), (0, 3, 3, False)],
)
def test_only_entries_that_have_a_copy_are_at_the_tail(
    ack_quorum: int, b1_lacks: int, b2_lacks: int, at_tail: bool
) -> None:
    """Each bookie lacks entries from some entry on. This is so even if the metadata asks for no
    ack.
    """
    metadata = replace(ledger("e2 w2 a1 0:[b1 b2] closed 3"), ack_quorum=ack_quorum)
    said = {
        bookie: Said(ABSENT, by_entry=dict.fromkeys(range(first_missing), HELD))
        for bookie, first_missing in (("b1", b1_lacks), ("b2", b2_lacks))
    }
    assert at_tail == facts_of_worst(metadata, said).at_tail


def count(metadata: LedgerMetadata, testimonies: dict[str, Said]) -> LedgerCount:
    blocks = tuple(Block(part, part.first, part.last) for part in stretches(metadata))
    counted = tally(blocks, testimonies, is_whole=True)
    return LedgerCount(counted, blocks, True, testimonies, {})


def facts_of_worst(
    metadata: LedgerMetadata, testimonies: dict[str, Said], *, are_gone: bool = False
) -> EntryFacts:
    gone = {
        bookie: Answer(bookie, 7, 1, 1_000, AnswerStatus.UNREGISTERED, detail=NO_COOKIE)
        for bookie in testimonies
    }
    heard = Statements(record_of(metadata), (), gone if are_gone else {}, {}, frozenset())
    counted = count(metadata, testimonies)
    return entry_facts(heard, metadata, counted, counted.tally.worst(), None)

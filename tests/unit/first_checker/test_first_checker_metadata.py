"""Which metadata contradicts itself, and which ledgers are open for too long."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.ends import read_of
from support.stories import LEDGER, NOW_MS

from auditor.first_checker.metadata import contradictions, metadata_findings
from auditor.model.availability import HIGHEST_STORED, ReadStatus
from auditor.model.evidence import Terms
from auditor.model.facts import Contradiction, Contradicts, StuckFacts
from auditor.model.finding import Finding, Kind
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState, RecordStatus, ZnodeStamp
from auditor.sandbox.cluster import ledger
from auditor.second_checker.findings import contradictions as found_again


@pytest.mark.parametrize(
    "text",
    [
        "e3 w2 a2 0:[a b c] closed 9",
        "e3 w2 a1 0:[a b c] 4:[a b d] closed 9",
        "e3 w3 a3 0:[a b c] 10:[a b d] closed 9",  # nothing was written to the last segment
        "e3 w2 a2 0:[a b c] closed -1",
        # a doubled bookie is not a contradiction: it has a finding of its own
        "e3 w2 a2 0:[a a a] closed 9",
        "e1 w1 a1 0:[a] open",
        "e3 w2 a2 0:[a b c] 100:[a b d] open",  # Java writes -1 where the end is not known yet
        "e3 w2 a2 0:[a b c] 100:[a b d] in_recovery",
    ],
)
def test_metadata_that_makes_sense_has_no_contradiction(text: str) -> None:
    """Everything that BookKeeper itself writes is accepted."""
    assert () == contradictions(ledger(text))


@pytest.mark.parametrize(
    ("text", "what", "numbers"),
    [
        ("e3 w0 a0 0:[a b c] closed 9", Contradicts.QUORUM_BELOW_ONE, (3, 0, 0)),
        ("e3 w2 a0 0:[a b c] closed 9", Contradicts.QUORUM_BELOW_ONE, (3, 2, 0)),
        ("e0 w0 a0 0:[] open", Contradicts.QUORUM_BELOW_ONE, (0, 0, 0)),
        ("e3 w0 a1 0:[a b c] closed 9", Contradicts.QUORUM_BELOW_ONE, (3, 0, 1)),
        ("e0 w1 a1 0:[] open", Contradicts.QUORUM_BELOW_ONE, (0, 1, 1)),
        ("e3 w4 a2 0:[a b c] closed 9", Contradicts.WRITE_QUORUM_ABOVE_ENSEMBLE, (4, 3)),
        ("e3 w2 a3 0:[a b c] closed 9", Contradicts.ACK_QUORUM_ABOVE_WRITE, (3, 2)),
        ("e3 w2 a2 closed 9", Contradicts.NO_SEGMENT, ()),
        ("e3 w2 a2 open", Contradicts.NO_SEGMENT, ()),
        ("e3 w2 a2 5:[a b c] closed 9", Contradicts.FIRST_SEGMENT_NOT_AT_ZERO, (5,)),
        ("e3 w2 a2 -1:[a b c] closed 9", Contradicts.FIRST_SEGMENT_NOT_AT_ZERO, (-1,)),
        (
            "e3 w2 a2 0:[a b c] 6:[a b d] 3:[a b c] closed 9",
            Contradicts.SEGMENTS_OUT_OF_ORDER,
            (3, 6),
        ),
        (
            "e3 w2 a2 0:[a b c] 6:[a b d] 6:[a b c] closed 9",
            Contradicts.SEGMENTS_OUT_OF_ORDER,
            (6, 6),
        ),
        ("e3 w2 a2 0:[a b c] 6:[a b] closed 9", Contradicts.WRONG_ENSEMBLE_SIZE, (6, 2, 3)),
        ("e3 w2 a2 0:[a b c] closed", Contradicts.NO_LAST_ENTRY, ()),
        ("e3 w2 a2 0:[a b c] closed -2", Contradicts.LAST_ENTRY_BELOW_MINUS_ONE, (-2,)),
        ("e3 w2 a2 0:[a b c] 11:[a b d] closed 9", Contradicts.SEGMENT_BEYOND_LAST_ENTRY, (11, 9)),
        (
            "e3 w2 a2 0:[a b c] 4:[a b d] 11:[a b c] closed 9",
            Contradicts.SEGMENT_BEYOND_LAST_ENTRY,
            (11, 9),
        ),
        ("e3 w2 a2 1:[a b c] open", Contradicts.FIRST_SEGMENT_NOT_AT_ZERO, (1,)),
    ],
)
def test_each_contradiction_comes_with_its_numbers(
    text: str, what: Contradicts, numbers: tuple[int, ...]
) -> None:
    """One fault is reported with the numbers that do not fit; the second checker finds the same
    faults.
    """
    found = contradictions(ledger(text))
    assert Contradiction(what, numbers) in found
    assert sorted(found, key=repr) == sorted(found_again(ledger(text)), key=repr)


def test_every_contradiction_is_found() -> None:
    """One contradiction does not hide another."""
    assert len(contradictions(ledger("e3 w4 a5 5:[a b] 4:[a b c] closed"))) == 6


# The length

WHOLE = ledger("e3 w2 a2 0:[b1 b2 b3] closed 9")
"""80 bytes: 8 for each entry."""


@pytest.mark.parametrize(
    ("length", "sent", "against"),
    [
        (80, {}, None),
        (500, {}, None),
        (80, {9: 80}, None),
        (80, {9: 80, 8: 200}, None),
        (72, {9: 80}, (72, 9, 80)),
        (500, {9: 80}, (500, 9, 80)),
        (500, {9: 80, 8: 72}, (500, 9, 80)),
        (500, {9: 80, 8: 500}, None),
        (500, {9: 80, 8: 90}, None),
        (72, {9: 80, 8: 90}, (72, 9, 80)),
        (500, {8: 72}, None),
        (500, {12: 104}, None),
    ],
)
def test_the_length_is_that_of_the_last_entry_unless_a_lower_one_was_sent_later(
    length: int, sent: dict[int, int], against: tuple[int, ...] | None
) -> None:
    """`sent` are the lengths in the headers that were read, by entry. Both checkers agree."""
    metadata = replace(WHOLE, length=length)
    reads = {("b1", e): read_of(("b1", e), (e, e - 1, bytes_)) for e, bytes_ in sent.items()}
    expected = [Contradiction(Contradicts.LENGTH_NOT_OF_LAST_ENTRY, against)] if against else []
    assert expected == list(contradictions(metadata, reads))
    assert expected == found_again(metadata, reads.values())


def test_the_highest_stored_entry_may_be_the_last_one() -> None:
    """A bookie that cannot list sent it."""
    copy = ("b1", HIGHEST_STORED)
    (found,) = contradictions(WHOLE, {copy: read_of(copy, (9, 8, 72))})
    assert (80, 9, 72) == found.numbers


def test_a_header_that_no_digest_proves_contradicts_nothing() -> None:
    """Nor does a copy with a wrong digest."""
    copy = ("b1", 9)
    assert () == contradictions(WHOLE, {copy: read_of(copy, (9, None, 72))})
    assert () == contradictions(WHOLE, {copy: read_of(copy, ReadStatus.CORRUPT)})


def test_a_closed_ledger_without_entries_has_no_length() -> None:
    """Both checkers find it."""
    empty = ledger("e3 w2 a2 0:[b1 b2 b3] closed -1")
    against = [Contradiction(Contradicts.LENGTH_WITHOUT_ENTRY, (16,))]
    assert against == list(contradictions(replace(empty, length=16)))
    assert against == found_again(replace(empty, length=16))
    assert () == contradictions(replace(empty, length=16, state=LedgerState.OPEN))


# Open or in recovery for too long

MADE, WRITTEN, PATIENCE_MS = NOW_MS - 90_000, NOW_MS - 70_000, 60_000
STUCK_TERMS = Terms(NOW_MS, 0, 16, 5, stuck_after_ms=PATIENCE_MS)
OPEN, RECOVERING = ledger("e3 w3 a2 0:[b1 b2 b3] open"), ledger("e3 w3 a2 0:[b1 b2 b3] in_recovery")


def stuck(
    metadata: LedgerMetadata, stamp: ZnodeStamp | None, terms: Terms = STUCK_TERMS
) -> list[Finding]:
    """Return the findings on a ledger whose znode was created and written at these times."""
    record = LedgerRecord(LEDGER, 0, NOW_MS, RecordStatus.FOUND, stamp, metadata)
    return metadata_findings(record, metadata, terms)


def long_open(state: LedgerState, since_ms: int, by_metadata: bool) -> list[Finding]:
    facts = StuckFacts(state, since_ms, by_metadata, NOW_MS - since_ms, PATIENCE_MS)
    return [Finding(Kind.LEDGER_STUCK, facts, LEDGER)]


def test_a_ledger_is_open_since_its_znode_was_made_or_since_it_says_that_it_was() -> None:
    """The older time counts: a copied znode is younger than its ledger."""
    stamp = ZnodeStamp(1, 0, MADE, WRITTEN)
    by_znode = long_open(LedgerState.OPEN, MADE, False)
    assert by_znode == stuck(OPEN, stamp)
    for later in (0, 1):
        assert by_znode == stuck(replace(OPEN, ctime_ms=MADE + later), stamp)
    by_itself = long_open(LedgerState.OPEN, MADE - 1, True)
    assert by_itself == stuck(replace(OPEN, ctime_ms=MADE - 1), stamp)


def test_a_ledger_is_in_recovery_since_its_znode_was_last_written() -> None:
    """The creation time does not matter."""
    expected = long_open(LedgerState.IN_RECOVERY, WRITTEN, False)
    assert expected == stuck(replace(RECOVERING, ctime_ms=5), ZnodeStamp(1, 0, MADE, WRITTEN))


@pytest.mark.parametrize("metadata", [OPEN, RECOVERING])
def test_a_ledger_may_be_open_or_in_recovery_for_just_so_long(metadata: LedgerMetadata) -> None:
    """Without a limit it may be so for ever. Nothing is said of a ledger without known times, or of
    a closed one.
    """
    since, later = NOW_MS - PATIENCE_MS, NOW_MS - PATIENCE_MS - 1
    assert [0, 1] == [len(stuck(metadata, ZnodeStamp(1, 0, at, at))) for at in (since, later)]
    assert [] == stuck(metadata, ZnodeStamp(1, 0, 1, 1), replace(STUCK_TERMS, stuck_after_ms=0))
    assert [] == stuck(metadata, None)
    assert [] == stuck(metadata, ZnodeStamp(1, 0, 0, 0))
    assert [] == stuck(ledger("e3 w3 a2 0:[b1 b2 b3] closed 9"), ZnodeStamp(1, 0, 1, 1))

"""The copies of a bookie by the age of their reads, compared with a count copy by copy."""

from __future__ import annotations

from random import Random

import pytest
from support.entry_by_entry import expected_on

from auditor.evidence.rows import ledger_row, table
from auditor.evidence.schemas import LEDGERS
from auditor.first_checker.circle import CIRCLE, NO_ARC, WHOLE, Arc
from auditor.first_checker.probing import SWEPT_ENTRIES_MAX, start_of
from auditor.model.ledger import LedgerMetadata, LedgerRecord, RecordStatus, ZnodeStamp
from auditor.model.summary import CopiesByAge
from auditor.sandbox.cluster import ledger
from auditor.summary.reading_plan import BookieReads, ReadArc, ReadingPlan
from auditor.summary.verification import AGE_COLUMNS, AgeCount, add_counts, count_ages
from auditor.witness.phrases import moment

DAY = 24 * 60 * 60 * 1000
NOW, PERIOD, SEED = 100 * DAY, 30 * DAY, 11
SHAPES = (
    "e3 w2 a2 0:[b1 b2 b3] closed 29",
    "e5 w3 a2 0:[b1 b2 b3 b4 b5] 17:[b1 b6 b3 b4 b5] closed 99",
    "e3 w2 a2 0:[b1 b2 b1] closed 9",
    "e1 w1 a1 0:[b1] closed 0",
    "e2 w2 a2 0:[b1 b2] closed 700",
    "e2 w2 a2 0:[b1 b2] open",
)
BITS = CIRCLE.bit_length() - 1


def count(
    ledgers: dict[int, tuple[LedgerMetadata, int]], reads: BookieReads, planned: Arc = NO_ARC
) -> AgeCount:
    """Return the count of b1 over ledgers with the times at which they changed."""
    made = AgeCount("b1", ReadingPlan(SEED, NOW, PERIOD), reads, planned)
    records = [
        LedgerRecord(n, 1, 0, RecordStatus.FOUND, ZnodeStamp(n, 0, changed, changed), metadata)
        for n, (metadata, changed) in ledgers.items()
    ]
    batch = table(LEDGERS, [ledger_row(record) for record in records]).select(AGE_COLUMNS)
    count_ages([batch.slice(0, 3), batch.slice(3)], {"b1": made})
    return made


def ages_one_by_one(
    ledgers: dict[int, tuple[LedgerMetadata, int]], reads: BookieReads
) -> CopiesByAge:
    """Return the same from the place of each copy."""
    newest, late = [], 0
    for ledger_id, (metadata, changed) in ledgers.items():
        start = start_of(SEED, ledger_id, "b1")
        for rank in range(len(set(expected_on(metadata).get("b1", ())))):
            place = int(f"{(rank - start) % CIRCLE:0{BITS}b}"[::-1], 2)
            at = max(
                (
                    read.at_ms
                    for read in reads.arcs
                    if (place - read.arc.first) % CIRCLE < read.arc.length and changed <= read.at_ms
                ),
                default=0,
            )
            newest.append(at)
            late += (at or max(changed, reads.since_ms)) + PERIOD < NOW
    read = [at for at in newest if at]
    return CopiesByAge(
        copies=len(newest),
        within_day=sum(NOW - at <= DAY for at in read),
        within_week=sum(NOW - at <= 7 * DAY for at in read),
        within_period=sum(NOW - at <= PERIOD for at in read),
        never=newest.count(0),
        overdue=late,
        oldest=moment(min(read)) if read else None,
    )


@pytest.mark.parametrize("seed", range(40))
def test_copies_are_counted_by_age_as_one_by_one(seed: int) -> None:
    """Whatever was read when, and whenever the metadata of each ledger changed."""
    random = Random(seed)
    closed = {
        number: (ledger(random.choice(SHAPES)), NOW - random.randrange(60 * DAY))
        for number in random.sample(range(10**6), random.randint(1, 12))
    }
    reads, at = BookieReads(NOW - random.choice([20, 40, 80]) * DAY), NOW - 60 * DAY
    while at < NOW:
        at = min(NOW, at + random.randint(1, 20 * DAY))
        unit = CIRCLE >> random.randrange(10)
        arc = Arc(reads.next_place // unit * unit, unit * random.randint(1, 2))
        reads = reads.with_arc(Arc(arc.first, min(CIRCLE, arc.length)), at, PERIOD)
    assert ages_one_by_one(closed, reads) == count(closed, reads).counts(reads)


def test_nothing_is_overdue_before_the_period_has_passed_since_it_was_seen() -> None:
    """Neither in a young series, nor a ledger that is new."""
    old, young = NOW - 50 * DAY, NOW - 10 * DAY
    shape = ledger("e1 w1 a1 0:[b1] closed 9")
    for since, changed, overdue in [(old, old, 10), (young, old, 0), (old, young, 0)]:
        reads = BookieReads(since)
        counted = count({7: (shape, changed)}, reads).counts(reads)
        assert CopiesByAge(copies=10, never=10, overdue=overdue) == counted


def test_a_read_before_the_metadata_changed_does_not_count() -> None:
    """The bookie may have got the copy since then."""
    reads = BookieReads(1, (ReadArc(WHOLE, NOW - 2 * DAY),))
    shape = ledger("e1 w1 a1 0:[b1] closed 9")
    made = count({7: (shape, NOW - 2 * DAY), 8: (shape, NOW - 2 * DAY + 1)}, reads)
    counted = made.counts(reads)
    assert (20, 10, 10) == (counted.copies, counted.within_week, counted.never)


def test_the_planned_copies_are_those_in_the_arc() -> None:
    """A run whose bookie answered fewer reads does not count."""
    shapes = {number: (ledger("e2 w2 a2 0:[b1 b2] closed 99"), 1) for number in range(9)}
    assert 900 == count(shapes, BookieReads(1), WHOLE).planned_copies()
    half = count(shapes, BookieReads(1), Arc(0, CIRCLE // 2)).planned_copies()
    assert 450 - 9 <= half <= 450 + 9
    assert 0 == count(shapes, BookieReads(1)).planned_copies()


def test_a_share_too_large_to_be_read_by_place_was_never_read() -> None:
    """Metadata may claim any number of entries."""
    shape = ledger(f"e1 w1 a1 0:[b1] closed {SWEPT_ENTRIES_MAX}")
    made = count({7: (shape, 1)}, BookieReads(1), WHOLE)
    assert (SWEPT_ENTRIES_MAX + 1, 0) == (made.counts(made.after).never, made.planned_copies())


def test_sums_are_over_bookies() -> None:
    """The oldest read is the oldest of all."""
    some = CopiesByAge(10, 1, 2, 3, 7, 4, "2026-01-02T00:00:00.000Z")
    other = CopiesByAge(5, 5, 5, 5, 0, 0, "2026-01-01T00:00:00.000Z")
    assert CopiesByAge(15, 6, 7, 8, 7, 4, "2026-01-01T00:00:00.000Z") == add_counts([some, other])
    assert CopiesByAge() == add_counts([])

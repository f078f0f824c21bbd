"""The copies of a bookie by the age of their reads, compared with a count copy by copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.entry_by_entry import expected_on

from auditor.evidence.rows import ledger_row, read_row, table
from auditor.evidence.run_directory import place
from auditor.evidence.schemas import LEDGERS, READS, SCRUB_PASS, SCRUBS, SCRUBS_TABLE
from auditor.first_checker.circle import BLAKE2B, CIRCLE, MIXED, NO_ARC, WHOLE, Arc, Starts
from auditor.first_checker.probing import SWEPT_ENTRIES_MAX
from auditor.first_checker.spot_reads import place_of, spot_copies
from auditor.model.availability import LISTED_BY_LISTER, EntryRead, Greeting, ReadStatus
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.evidence import Sweep, Terms
from auditor.model.ledger import LedgerMetadata, LedgerRecord, RecordStatus, ZnodeStamp
from auditor.model.summary import CopiesByAge, Verification, VerifiedBookie, VerifiedBy
from auditor.sandbox.cluster import ledger
from auditor.summary.about import About
from auditor.summary.reading_plan import BookieReads, ReadArc, ReadingPlan, reads_before
from auditor.summary.verification import (
    AGE_COLUMNS,
    SCRUB_FLUSH_MS,
    AgeCount,
    OtherCopies,
    add_counts,
    ages_of_ledger,
    count_ages,
    verification_of,
)
from auditor.witness.phrases import moment

FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", None, False, None)
DAY = 24 * 60 * 60 * 1000
NOW, PERIOD, SEED = 100 * DAY, 30 * DAY, 11
STARTS = Starts(SEED, MIXED)
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
    ledgers: dict[int, tuple[LedgerMetadata, int]],
    reads: BookieReads,
    planned: Arc = NO_ARC,
    way: int = MIXED,
    capacity: int = 100,
) -> AgeCount:
    """Return the count of b1 over ledgers with the times at which they changed."""
    made = AgeCount(
        "b1", ReadingPlan(SEED, NOW, PERIOD, way=way), reads, planned, capacity=capacity
    )
    records = [
        LedgerRecord(n, 1, 0, RecordStatus.FOUND, ZnodeStamp(n, 0, changed, changed), metadata)
        for n, (metadata, changed) in ledgers.items()
    ]
    batch = table(LEDGERS, [ledger_row(record) for record in records]).select(AGE_COLUMNS)
    count_ages([batch.slice(0, 3), batch.slice(3)], {"b1": made}.get)
    return made


def ages_one_by_one(
    ledgers: dict[int, tuple[LedgerMetadata, int]], reads: BookieReads, way: int = MIXED
) -> CopiesByAge:
    """Return the same from the place of each copy."""
    newest, late = [], 0
    for ledger_id, (metadata, changed) in ledgers.items():
        start = Starts(SEED, way).of(ledger_id, "b1")
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
            for apart in reads.unanswered:
                if apart.place == place:
                    at = apart.read_at_ms if changed <= apart.read_at_ms else 0
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


@pytest.mark.parametrize("capacity", [1, 5, 100])
@pytest.mark.parametrize("by_histogram", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_copies_are_counted_by_age_as_one_by_one(
    seed: int, *, by_histogram: bool, capacity: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was read when, and whenever the metadata of each ledger changed, also where runs of
    earlier versions are continued. Some ledgers are held at a time.
    """
    verification = "auditor.summary.verification"
    monkeypatch.setattr(f"{verification}.HISTOGRAM_BLOCKS_MIN", 0 if by_histogram else 2**40)
    monkeypatch.setattr(f"{verification}.HISTOGRAM_PLACES_MAX", 2**40)
    random, way = Random(seed), BLAKE2B if seed % 4 == 0 else MIXED
    closed = {
        number: (ledger(random.choice(SHAPES)), NOW - random.randrange(60 * DAY))
        for number in random.sample(range(10**6), random.randint(1, 12))
    }
    reads, at = BookieReads(NOW - random.choice([20, 40, 80]) * DAY), NOW - 60 * DAY
    some_places = [
        place_of(metadata, ledger_id, Starts(SEED, way), ("b1", entry))
        for ledger_id, (metadata, _) in closed.items()
        for entry in sorted(set(expected_on(metadata).get("b1", ())))[::9][:9]
    ]
    while at < NOW:
        at = min(NOW, at + random.randint(1, 20 * DAY))
        unit = CIRCLE >> random.randrange(10)
        arc = Arc(reads.next_place // unit * unit, unit * random.randint(1, 2))
        arc = Arc(arc.first, min(CIRCLE, arc.length))
        apart = [one for one in some_places if one in arc and random.random() < 0.3]
        reads = reads.with_arc(arc, at, PERIOD, apart)
    found = count(closed, reads, way=way, capacity=capacity).counts(reads)
    assert ages_one_by_one(closed, reads, way) == found


def test_few_places_are_counted_without_the_whole_circle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run reads some hundred places of four million, on each of a hundred bookies."""
    reads = BookieReads(1, (ReadArc(Arc(5, 101), NOW - 2 * DAY),))
    made = count({7: (ledger("e1 w1 a1 0:[b1] closed 4194303"), 1)}, reads, Arc(3, 7))
    monkeypatch.delattr("numpy.bincount")
    assert 7 == made.planned_copies()
    counted = made.counts(reads)
    assert (CIRCLE, 101, CIRCLE - 101) == (counted.copies, counted.within_week, counted.never)


def test_memory_does_not_grow_with_the_ledgers() -> None:
    """Of a million ledgers some thousand are held, and sums by times and pieces."""
    reads = BookieReads(1, (ReadArc(Arc(5, 101), NOW - 9 * DAY), ReadArc(WHOLE, NOW - 2 * DAY)))
    plan = ReadingPlan(SEED, NOW, PERIOD, way=MIXED)
    made = AgeCount("b1", plan, reads, Arc(3, 7), range(3, 90), capacity=1_000)
    names = [name for name in AgeCount.__slots__ if isinstance(getattr(made, name), np.ndarray)]
    sizes = []
    for first in range(0, 1_000_000, 250_000):
        ids = np.arange(first, first + 250_000)
        made.add(ids, ids % 90, NOW - ids % 20 * DAY)
        sizes.append(sum(getattr(made, name).nbytes for name in names))
    assert 4 == sizes.count(sizes[0])
    assert sizes[0] <= 10 * 1_000 + 8 * 5 * (90 + 10)
    assert sum(range(90)) * (1_000_000 // 90) <= made.counts(reads).copies


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


HALF = Arc(0, CIRCLE // 2)
BEFORE = BookieReads(NOW - 50 * DAY, (ReadArc(Arc(CIRCLE // 2, CIRCLE // 2), NOW - DAY),))


def b1(greeting: Greeting = Greeting.ANSWERED, detail: str = "") -> BookieRecord:
    return BookieRecord(
        "b1", 1, NOW, Registration.WRITABLE, "h", 1, True, greeting=greeting, greeting_detail=detail
    )


def verify(
    tmp_path: Path,
    statuses: Mapping[int, ReadStatus],
    bookie: BookieRecord | None = None,
    more: Sequence[EntryRead] = (),
    **changes: Any,
) -> Verification:
    """Return the verification of a run that read half of 20 entries on b1.

    `statuses`: the reads that did not bring the entry. `more` reads of other copies. `changes` of
    run.json.
    """
    run = place(str(tmp_path))
    shape = ledger("e1 w1 a1 0:[b1] closed 19")
    record = LedgerRecord(7, 1, 0, RecordStatus.FOUND, ZnodeStamp(7, 0, 0, 0), shape)
    run.write_table("evidence/ledgers", table(LEDGERS, [ledger_row(record)]), "look-1")
    read = [
        EntryRead("b1", 7, entry, 1, 0, statuses.get(place_of, ReadStatus.PRESENT), is_spot=True)
        for place_of, (_, entry) in enumerate(spot_copies(shape, 7, STARTS, {"b1": HALF}))
    ]
    run.write_table("evidence/reads", table(READS, map(read_row, [*read, *more])), "spots")
    plan = ReadingPlan(SEED, NOW, PERIOD, 0, 2000.0, {"b1": BEFORE}, {}, {"b1": HALF}, way=MIXED)
    terms = Terms(NOW, 0, 16, 3, spot_reads=10)
    about = About("run", moment(NOW), FACTS, terms, "warning", False, reading=plan)
    return verification_of(run, replace(about, **changes), [bookie or b1()], (), {})


@pytest.mark.parametrize(
    ("status", "counts"),
    [
        (ReadStatus.PRESENT, True),
        (ReadStatus.NO_ENTRY, True),
        (ReadStatus.NO_LEDGER, True),
        (ReadStatus.CORRUPT, True),
        (ReadStatus.FAILED, True),
        (ReadStatus.SILENT, False),
        (ReadStatus.TIMED_OUT, False),
        (ReadStatus.REFUSED, False),
        (ReadStatus.AUDITOR_LIMITED, False),
    ],
    ids=str,
)
def test_an_arc_counts_without_the_reads_that_were_not_answered(
    tmp_path: Path, status: ReadStatus, counts: bool
) -> None:
    """What the bookie said of an entry is a finding's matter. Without a word the copy counts as not
    read, and the others in the arc as read.
    """
    found = verify(tmp_path, {3: status})
    (row,) = found.bookies
    copy = list(spot_copies(ledger("e1 w1 a1 0:[b1] closed 19"), 7, STARTS, {"b1": HALF}))[3]
    at = [] if counts else [place_of(ledger("e1 w1 a1 0:[b1] closed 19"), 7, STARTS, copy)]
    assert reads_before(found) == {"b1": BEFORE.with_arc(HALF, NOW, PERIOD, at)}
    assert row.counts is not None and VerifiedBy.READS is row.verified_by
    assert (row.counts.within_day, row.counts.never) == ((20, 0) if counts else (19, 1))


def test_a_read_of_a_copy_that_was_moved_does_not_stand_for_an_unanswered_one(
    tmp_path: Path,
) -> None:
    """The copy was drawn by the metadata before the first look, which did not find it there."""
    moved = EntryRead("b1", 7, 99, 1, 0, ReadStatus.PRESENT, is_spot=True)
    (row,) = verify(tmp_path, {3: ReadStatus.TIMED_OUT}, more=[moved]).bookies
    assert row.counts is not None
    assert (19, 1) == (row.counts.within_day, row.counts.never)


def test_an_arc_does_not_count_if_few_of_its_reads_were_answered(tmp_path: Path) -> None:
    """The same arc is read again in the next run. A half is enough."""
    for count, counts in ((5, True), (6, False)):
        found = verify(tmp_path / str(count), dict.fromkeys(range(count), ReadStatus.TIMED_OUT))
        by = VerifiedBy.READS if counts else VerifiedBy.UNANSWERED
        assert by is found.bookies[0].verified_by
        assert counts == (reads_before(found) != {"b1": BEFORE})


def test_an_arc_does_not_count_with_too_many_places_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auditor.summary.verification.UNANSWERED_MAX", 1)
    for count, counts in ((1, True), (2, False)):
        found = verify(tmp_path / str(count), dict.fromkeys(range(count), ReadStatus.TIMED_OUT))
        assert counts == (reads_before(found) != {"b1": BEFORE})


@pytest.mark.parametrize(
    ("bookie", "by"),
    [
        (b1(), VerifiedBy.READS),
        (b1(Greeting.SILENT), VerifiedBy.UNANSWERED),
        (b1(Greeting.UNSUPPORTED), VerifiedBy.NOTHING),
        (b1(detail=f"{LISTED_BY_LISTER}h:1"), VerifiedBy.NOTHING),
    ],
    ids=["lists", "silent", "cannot list", "its lister lists"],
)
def test_a_bookie_is_read_if_it_lists_by_itself(
    tmp_path: Path, bookie: BookieRecord, by: VerifiedBy
) -> None:
    """A silent one may list again. What was read earlier stays in any case."""
    row = verify(tmp_path, {}, bookie).bookies[0]
    assert (by, by is VerifiedBy.READS and bookie == b1()) == (row.verified_by, len(row.arcs) == 2)


@pytest.mark.parametrize(
    "changes",
    [{"partial": True}, {"terms": Terms(NOW, 0, 16, 3)}],
    ids=["named ledgers", "no spot reads"],
)
def test_a_run_that_does_not_count_hands_the_arcs_on(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    found = verify(tmp_path, {}, **changes)
    assert {"b1": BEFORE} == reads_before(found)
    assert found.counts is None


def test_a_bookie_that_is_sampled_is_not_counted_by_age(tmp_path: Path) -> None:
    """A sweep reads it, and nobody may say that its copies were not read."""
    terms = Terms(NOW, 0, 16, 3, spot_reads=10, probe_entries=3, sweep=Sweep(1, 0, 9, 1))
    found = verify(tmp_path, {}, b1(Greeting.UNSUPPORTED), terms=terms)
    assert VerifiedBy.SAMPLE is found.bookies[0].verified_by
    assert (None, CopiesByAge()) == (found.bookies[0].counts, found.counts)


def test_the_rate_is_said_where_copies_are_overdue(tmp_path: Path) -> None:
    """And only on bookies whose reads are answered. Without a period nothing is overdue."""
    late = ReadingPlan(
        SEED, NOW + 40 * DAY, PERIOD, 0, 2000.0, {"b1": BEFORE}, {}, {"b1": HALF}, way=MIXED
    )
    (row,) = verify(tmp_path / "1", {}, reading=late).bookies
    assert (10, True) == (row.counts and row.counts.overdue, row.rate_needed is not None)
    silent = dict.fromkeys(range(20), ReadStatus.SILENT)
    (row,) = verify(tmp_path / "2", silent, reading=late).bookies
    assert (20, None) == (row.counts and row.counts.overdue, row.rate_needed)
    (row,) = verify(tmp_path / "3", {}, b1(Greeting.UNSUPPORTED), reading=late).bookies
    assert (20, None) == (row.counts and row.counts.overdue, row.rate_needed)
    (row,) = verify(tmp_path / "4", {}, reading=replace(late, period_ms=0)).bookies
    assert (0, None) == (row.counts and row.counts.overdue, row.rate_needed)


def test_no_rate_is_said_for_what_is_not_answered(tmp_path: Path) -> None:
    """The rate follows from the time between runs, also where a bookie's last arc is older."""
    half = BookieReads(NOW - 50 * DAY, (ReadArc(Arc(CIRCLE // 2, CIRCLE // 2), NOW - DAY),))
    plan = ReadingPlan(SEED, NOW, PERIOD, 0, 2000.0, {"b1": half}, {}, {"b1": HALF}, way=MIXED)
    (row,) = verify(tmp_path / "1", {3: ReadStatus.TIMED_OUT}, reading=plan).bookies
    assert (1, None) == (row.counts and row.counts.overdue, row.rate_needed)
    old = BookieReads(NOW - 50 * DAY, (ReadArc(Arc(CIRCLE // 2, CIRCLE // 2), NOW - 40 * DAY),))
    rates = []
    for number, other in enumerate((half, old)):
        one = replace(plan, before={"b1": old, "b2": other})
        rates.append(verify(tmp_path / f"r{number}", {}, reading=one).bookies[0].rate_needed)
    assert rates[0] is not None and rates[1] is not None and rates[0] * 10 < rates[1]


PASS = {
    **dict.fromkeys((field.name for field in SCRUB_PASS), 0),
    "began_at_ms": NOW - 3 * DAY,
    "ended_at_ms": NOW - 2 * DAY,
    "failed": 1,
}
BY_LISTER = b1(detail=f"{LISTED_BY_LISTER}h:2")


@pytest.mark.parametrize(
    ("finished", "counts"),
    [
        (PASS, True),
        (None, False),
        *[({**PASS, name: 1}, False) for name in ("damaged_logs", "unlisted", "unchecked")],
    ],
)
def test_a_scrub_counts_if_it_read_every_log_and_could_check_each_entry(
    tmp_path: Path, finished: dict[str, int] | None, counts: bool
) -> None:
    """All copies were read when the pass began, less the time within which a bookie flushes. An
    entry with a wrong digest was read. Without such a pass, the scrub changes no age.
    """
    rows = [{"bookie_id": "b1", "finished": finished, "candidates": []}]
    place(str(tmp_path)).write_table(SCRUBS_TABLE, pa.Table.from_pylist(rows, SCRUBS), "asked")
    (found,) = verify(tmp_path, {}, BY_LISTER).bookies
    assert VerifiedBy.SCRUB is found.verified_by and found.counts is not None
    if counts:
        at_ms = NOW - 3 * DAY - SCRUB_FLUSH_MS
        assert ((*WHOLE, at_ms),) == found.arcs
        assert (20, 20, 0) == (found.counts.copies, found.counts.within_week, found.counts.never)
        assert moment(at_ms) == found.counts.oldest
    else:
        assert tuple((*one.arc, one.at_ms) for one in BEFORE.arcs) == found.arcs


def test_the_scrub_of_a_bookie_that_lists_itself_changes_no_age(tmp_path: Path) -> None:
    """Runs read its copies. Its memtable may hold entries for days that are in no log."""
    rows = [{"bookie_id": "b1", "finished": PASS, "candidates": []}]
    place(str(tmp_path)).write_table(SCRUBS_TABLE, pa.Table.from_pylist(rows, SCRUBS), "asked")
    (found,) = verify(tmp_path, {}).bookies
    assert VerifiedBy.READS is found.verified_by
    assert NOW == found.arcs[-1][2]


@pytest.mark.parametrize("seed", range(10))
def test_the_copies_of_one_ledger_are_counted_as_one_by_one(seed: int, tmp_path: Path) -> None:
    """On the bookies that runs read. The copies on others are counted with what reads those."""
    random, run = Random(seed), place(str(tmp_path))
    closed = {
        number: (ledger(random.choice(SHAPES)), NOW - random.randrange(60 * DAY))
        for number in random.sample(range(10**6), 8)
    }
    records = [
        LedgerRecord(n, look, 0, RecordStatus.FOUND, ZnodeStamp(n, 0, at, at), metadata)
        for n, (metadata, changed) in closed.items()
        for look, at in ((1, changed), (2, NOW))
    ]
    run.write_table("evidence/ledgers", table(LEDGERS, map(ledger_row, records)), "looks")
    reads, at = BookieReads(NOW - random.choice([20, 80]) * DAY), NOW - 50 * DAY
    while at < NOW:
        at = min(NOW, at + random.randint(1, 20 * DAY))
        reads = reads.with_arc(Arc(reads.next_place, CIRCLE >> random.randint(1, 4)), at, PERIOD)
    arcs = tuple((*one.arc, one.at_ms) for one in reads.arcs)
    others = {"b2": VerifiedBy.SCRUB, "b3": VerifiedBy.SAMPLE, "b4": VerifiedBy.UNANSWERED}
    rows = [
        VerifiedBookie(bookie, by, moment(reads.since_ms), arcs)
        for bookie, by in {"b1": VerifiedBy.READS, **others}.items()
    ]
    stored = Verification(SEED, PERIOD, 0, CopiesByAge(), tuple(rows), MIXED)
    for number, (metadata, changed) in closed.items():
        ages = ages_of_ledger(run, stored, NOW, number)
        held = {bookie: len(set(entries)) for bookie, entries in expected_on(metadata).items()}
        if not any(held.values()):
            assert ages is None
            continue
        assert ages is not None
        assert ages_one_by_one({number: (metadata, changed)}, reads) == ages.counts
        assert [
            OtherCopies(bookie, others.get(bookie, VerifiedBy.NOTHING), copies)
            for bookie, copies in sorted(held.items())
            if bookie != "b1" and copies
        ] == list(ages.others)
    unknown, uncounted = 10**6, replace(stored, counts=None)
    assert ages_of_ledger(run, stored, NOW, unknown) is None
    assert ages_of_ledger(run, uncounted, NOW, min(closed)) is None

"""Clues: the bookies, racks and workers that the findings and the evidence point to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from support.report_stories import finding

from auditor.evidence.rows import ledger_row, table
from auditor.evidence.schemas import LEDGERS, VERDICTS
from auditor.evidence.table_scan import scan_rows
from auditor.model.finding import Kind
from auditor.model.ledger import LedgerRecord, Mark, RecordStatus, ReplicationLock, ZnodeStamp
from auditor.summary.causes.clues import (
    BIRTHS,
    MARKS,
    Clues,
    births,
    count_created,
    ledgers_by_locker,
    newest_marks,
)
from auditor.summary.causes.hits import Hits, Via, union

RACKS = {"b1": "/r1", "b2": "/r1", "b3": "/r2", "b4": "/r3"}
NO_VERDICTS = VERDICTS.empty_table()
NOTHING_ELSE: dict[str, Any] = {
    "lacking": {}, "unheard": {}, "marks": MARKS.empty_table(), "marked": np.array([], np.int64),
    "locked": {},
}  # fmt: skip


def hits(*findings: dict[str, Any], verdicts: pa.Table = NO_VERDICTS, **more: Any) -> Hits:
    clues = Clues(RACKS)
    for one in findings:
        clues.add(one)
    return clues.hits(scan_rows(verdicts), **(NOTHING_ELSE | more))


def as_lists(by_bookie: Any) -> dict[str, list[int]]:
    return {name: ids.tolist() for name, ids in by_bookie.items()}


def placement_finding(ledger: int, *ensemble: str) -> dict[str, Any]:
    segment = {"first_entry_id": 0, "last_entry_id": 9, "ensemble": list(ensemble)}
    return finding(Kind.PLACEMENT_FAILED, ledger, segment=segment, missing_on={})


def record(ledger: int, look: int, **more: Any) -> LedgerRecord:
    return LedgerRecord(ledger, look, 0, RecordStatus.FOUND, ZnodeStamp(1, 0, 10 * ledger), **more)


def rows(*records: LedgerRecord) -> pa.Table:
    return pa.Table.from_batches([table(LEDGERS, map(ledger_row, records))])


def test_a_ledger_counts_once_for_each_bookie_that_lacks_something():
    """The bookies that findings name and those that verdicts count are put together."""
    found = finding(Kind.ENTRY_WITHOUT_REPLICA, 7, missing_on={"b1": [[0, 1]], "b2": [[0, 0]]})
    others = [finding(Kind.METADATA_MALFORMED, ledger, missing_on={}) for ledger in (8, 9)]
    seen = hits(found, *others, lacking={"b1": np.array([7, 8]), "b4": np.array([9])})
    assert {"b1": [7, 8], "b2": [7], "b4": [9]} == as_lists(seen.via[Via.LACKING])
    assert [7] == as_lists(seen.by_kind)[Kind.ENTRY_WITHOUT_REPLICA.value]


def test_a_ledger_without_a_finding_is_not_a_hit():
    """A run that died after one look knows what a ledger lacks, but does not report it."""
    found = finding(Kind.ENTRY_WITHOUT_REPLICA, 7, missing_on={})
    seen = hits(found, lacking={"b1": np.array([7, 8]), "b4": np.array([9])})
    assert {"b1": [7]} == as_lists(seen.via[Via.LACKING])
    assert [7] == seen.affected_ledgers().tolist()


def test_findings_on_bookies_and_for_information_hit_no_ledger():
    """These findings do not need a cause."""
    seen = hits(
        finding(Kind.BOOKIE_LOST_CONTENT, "b1"),
        finding(Kind.PLACEMENT_SOFT, 1),
        finding(Kind.LEDGER_STUCK, 2),
    )
    assert [] == seen.affected_ledgers().tolist()


def test_a_silent_bookie_hits_the_ledgers_it_leaves_unjudged():
    """Only the reasons for which a whole bookie is responsible count: topology_unknown does not."""
    verdicts = pa.Table.from_pylist(
        [
            {"ledger_id": 1, "unknowns": ["bookie_silent", "topology_unknown"]},
            {"ledger_id": 2, "unknowns": []},
        ],
        schema=VERDICTS,
    )
    assert {"bookie_silent": [1]} == as_lists(hits(verdicts=verdicts).by_kind)


def test_bookies_of_failing_segments_are_reported():
    """Each comes with its ledgers. The contrast decides later which of them is a cause."""
    seen = hits(
        placement_finding(1, "b1", "b2"),
        placement_finding(2, "b3", "b1"),
        placement_finding(2, "b3", "b4"),
    )
    assert {"b1": [1, 2], "b2": [1], "b3": [2], "b4": [2]} == as_lists(seen.via[Via.MISPLACED])


def test_racks_that_failing_segments_crowd_are_reported():
    """A segment crowds a rack if it names two of the rack's bookies or more."""
    assert {"/r1": [1, 2]} == as_lists(
        hits(placement_finding(1, "b1", "b2", "b3"), placement_finding(2, "b2", "b1")).crowds
    )
    assert {} == as_lists(
        hits(placement_finding(1, "b3", "b4"), placement_finding(1, "b1", "b9")).crowds
    )


def test_locks_of_all_looks_are_reported_and_those_of_hits_as_last_read():
    """A worker is compared by all ledgers that it locked. Ledger 1 has a finding and counts for w2,
    which took over its lock.
    """
    before, after = (Mark(0, lock=ReplicationLock(worker, 5)) for worker in ("w1", "w2"))
    read = rows(
        record(1, 1, mark=before),
        record(1, 2, mark=after),
        record(2, 1, mark=before),
        record(3, 1, mark=Mark(0)),
    )
    locked = ledgers_by_locker(read.to_batches())
    assert {"w1": [1, 2], "w2": [1]} == as_lists(locked)
    found = newest_marks(rows(record(1, 1, mark=before), record(1, 2, mark=after)))
    seen = hits(marks=found, locked=locked, marked=np.array([1, 2, 3]))
    assert ({"w1": [2], "w2": [1]}, 3) == (as_lists(seen.locked), seen.marked)


def test_hits_are_kept_apart_by_family():
    """A hit in one family does not count in another."""
    entry = finding(Kind.ENTRY_WITHOUT_REPLICA, 7, missing_on={"b1": [[0, 1]]})
    mark = finding(Kind.UNDERREPLICATED_BEYOND_GRACE, 8, missing_on={"b1": [[0, 1]]})
    seen = hits(entry, mark, finding(Kind.METADATA_MALFORMED, 9, missing_on={}))
    assert ["entry", "mark", "metadata"] == seen.families()
    assert [{"b1": [7]}, {"b1": [8]}, {}] == [
        as_lists(seen.by_bookie(family)) for family in seen.families()
    ]


def test_the_newest_mark_counts():
    """The last look says which bookies the mark names missing, and who holds its lock."""
    before = Mark(0, missing_replicas=("b1", "b2"), lock=ReplicationLock("w1", 5))
    after = Mark(0, missing_replicas=("b2",), lock=ReplicationLock("w2", 5))
    marks = newest_marks(
        rows(
            record(1, 2, mark=after),
            record(1, 1, mark=before),
            record(2, 1),
            record(3, 1, mark=Mark(0)),
        )
    )
    seen = hits(marks=marks)
    assert {"b2": [1]} == as_lists(seen.via[Via.MARKED])
    assert {"w2": [1]} == as_lists(seen.locked)


def test_a_ledger_is_born_once():
    """Its time of creation is that of its znode at the first look. A ledger that could not be read
    has none.
    """
    hit_rows = rows(
        record(1, 1), record(1, 2), record(2, 1), LedgerRecord(3, 1, 0, RecordStatus.UNREADABLE)
    )
    batches = hit_rows.select(BIRTHS).to_batches()
    born = births(batches, np.array([1, 3]))
    assert ([1], [10]) == (born.ledger_ids.tolist(), born.at_ms.tolist())
    assert [0, 1, 1] == count_created(batches, np.array([10, 20])).tolist()
    assert [1, 0, 1] == count_created(batches, np.array([11, 20])).tolist()


def test_only_segments_that_fail_placement_misplace_bookies():
    """A segment of another finding does not count; neither does a finding without a segment."""
    seen = hits(
        finding(Kind.ENTRY_WITHOUT_REPLICA, 7),
        finding(Kind.PLACEMENT_FAILED, 8, segment=None, missing_on={}),
    )
    assert ({}, {}) == (seen.via[Via.MISPLACED], seen.crowds)


def test_ledgers_found_for_their_mark_are_reported():
    """Marks beyond grace and unrecoverable ones count. Each ledger comes once, ascending."""
    kinds = (
        (Kind.UNDERREPLICATED_BEYOND_GRACE, 9),
        (Kind.UNDERREPLICATED_UNRECOVERABLE, 3),
        (Kind.ENTRY_WITHOUT_REPLICA, 5),
    )
    clues = Clues(RACKS)
    assert [] == clues.marked_ledgers().tolist()
    for kind, ledger in (*kinds, *kinds):
        clues.add(finding(kind, ledger))
    assert [3, 9] == clues.marked_ledgers().tolist()


def test_batches_are_counted_together():
    """A table comes in several batches, and their counts are added."""
    verdicts = [
        pa.Table.from_pylist(
            [{"ledger_id": ledger, "unknowns": ["bookie_silent"]}], schema=VERDICTS
        )
        for ledger in (2, 1)
    ]
    assert {"bookie_silent": [1, 2]} == as_lists(hits(verdicts=pa.concat_tables(verdicts)).by_kind)
    read = [
        rows(record(n, 1, mark=Mark(0, missing_replicas=("b1",), lock=ReplicationLock("w1", 5))))
        for n in (2, 1)
    ]
    assert {"w1": [1, 2]} == as_lists(
        ledgers_by_locker(batch for table in read for batch in table.to_batches())
    )
    seen = hits(marks=pa.concat_tables([newest_marks(one) for one in read]))
    assert ({"b1": [1, 2]}, {"w1": [1, 2]}) == (
        as_lists(seen.via[Via.MARKED]),
        as_lists(seen.locked),
    )
    batches = [batch for table in read for batch in table.select(BIRTHS).to_batches()]
    assert [0, 2, 0] == count_created(batches, np.array([5, 30])).tolist()


def test_the_newest_mark_of_each_ledger_is_kept():
    """Three ledgers were looked at twice. An empty table has no mark."""
    read = [
        record(ledger, look, mark=Mark(0, lock=ReplicationLock(f"w{look}", 5)))
        for ledger in (1, 2, 3)
        for look in (1, 2)
    ]
    newest = newest_marks(rows(*read))
    assert [(1, "w2"), (2, "w2"), (3, "w2")] == [
        (row["ledger_id"], row["holder"]) for row in newest.to_pylist()
    ]
    assert 0 == newest_marks(pa.Table.from_batches([], schema=LEDGERS)).num_rows


def test_a_lock_without_a_name_belongs_to_no_worker():
    """Its holder could not be read."""
    nameless = rows(record(1, 1, mark=Mark(0, lock=ReplicationLock("", 5))))
    assert ({}, {}) == (
        ledgers_by_locker(nameless.to_batches()),
        hits(marks=newest_marks(nameless)).locked,
    )


def test_ids_and_counts_stay_whole_numbers():
    """An id above 2^53 is not rounded. Ids and counts are 64-bit integers even if there are
    none.
    """
    large = 2**60 + 1
    seen = hits(finding(Kind.METADATA_MALFORMED, large, missing_on={}))
    assert [large] == seen.affected_ledgers().tolist()
    counts = count_created([], np.array([10]))
    assert [np.dtype(np.int64)] * 2 == [union([]).dtype, counts.dtype]

"""From findings and evidence to who may be behind them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from support.report_stories import finding

from auditor.accounting.causes import Hits, Via
from auditor.accounting.clues import BIRTHS, MARKS, Clues, births, created_between, newest_marks
from auditor.evidence.rows import ledger_row, table
from auditor.evidence.schemas import LEDGERS, VERDICTS
from auditor.model.finding import Kind
from auditor.model.ledger import LedgerRecord, Mark, RecordStatus, ReplicationLock, ZnodeStamp

RACKS = {"b1": "/r1", "b2": "/r1", "b3": "/r2", "b4": "/r3"}
NO_VERDICTS = VERDICTS.empty_table()
NO_MARKS = MARKS.empty_table()


def hits(*findings: dict[str, Any], verdicts: pa.Table = NO_VERDICTS, **more: Any) -> Hits:
    clues = Clues(RACKS)
    for one in findings:
        clues.add(one)
    return clues.hits(verdicts, **({"lacking": {}, "unheard": {}, "marks": NO_MARKS} | more))


def told(by_bookie: Any) -> dict[str, list[int]]:
    return {name: ids.tolist() for name, ids in by_bookie.items()}


def failing(ledger: int, *ensemble: str) -> dict[str, Any]:
    segment = {"first_entry_id": 0, "last_entry_id": 9, "ensemble": list(ensemble)}
    return finding(Kind.PLACEMENT_FAILED, ledger, segment=segment, missing_on={})


def record(ledger: int, look: int, **more: Any) -> LedgerRecord:
    return LedgerRecord(ledger, look, 0, RecordStatus.FOUND, ZnodeStamp(1, 0, 10 * ledger), **more)


def rows(*records: LedgerRecord) -> pa.Table:
    return pa.Table.from_batches([table(LEDGERS, map(ledger_row, records))])


def test_a_ledger_counts_once_for_each_bookie_that_lacks_something():
    """What findings name and what verdicts know, together."""
    found = finding(Kind.ENTRY_WITHOUT_REPLICA, 7, missing_on={"b1": [[0, 1]], "b2": [[0, 0]]})
    others = [finding(Kind.METADATA_MALFORMED, ledger, missing_on={}) for ledger in (8, 9)]
    seen = hits(found, *others, lacking={"b1": np.array([7, 8]), "b4": np.array([9])})
    assert {"b1": [7, 8], "b2": [7], "b4": [9]} == told(seen.via[Via.LACKING])
    assert [7] == told(seen.by_kind)[Kind.ENTRY_WITHOUT_REPLICA.value]


def test_of_what_is_not_reported_no_bookie_is_a_cause():
    """A run that died after one look knows what a ledger lacks and says nothing of it: it is no hit, of no bookie."""
    found = finding(Kind.ENTRY_WITHOUT_REPLICA, 7, missing_on={})
    seen = hits(found, lacking={"b1": np.array([7, 8]), "b4": np.array([9])})
    assert {"b1": [7]} == told(seen.via[Via.LACKING])
    assert [7] == seen.affected().tolist()


def test_findings_on_bookies_and_for_information_hit_no_ledger():
    """They are no ledgers to be explained."""
    seen = hits(finding(Kind.BOOKIE_LOST_CONTENT, "b1"), finding(Kind.PLACEMENT_SOFT, 1), finding(Kind.LEDGER_STUCK, 2))
    assert [] == seen.affected().tolist()


def test_a_silence_hits_the_ledgers_it_leaves_unjudged():
    """Only reasons that a bookie as a whole is behind."""
    verdicts = pa.Table.from_pylist(
        [{"ledger_id": 1, "unknowns": ["bookie_silent", "topology_unknown"]}, {"ledger_id": 2, "unknowns": []}], schema=VERDICTS
    )
    assert {"bookie_silent": [1]} == told(hits(verdicts=verdicts).by_kind)


def test_the_one_bookie_that_all_failing_segments_share_is_told():
    """Two in common, or none, and nobody is."""
    assert {"b1": [1, 2]} == told(hits(failing(1, "b1", "b2"), failing(2, "b3", "b1")).via[Via.MISPLACED])
    assert {} == told(hits(failing(1, "b1", "b2"), failing(2, "b2", "b1")).via[Via.MISPLACED])
    assert {} == told(hits(failing(1, "b1", "b2"), failing(2, "b3", "b4")).via[Via.MISPLACED])


def test_the_one_rack_that_all_failing_segments_crowd_is_told():
    """Two of its bookies or more in each; one segment without, and it is not."""
    crowded = hits(failing(1, "b1", "b2", "b3"), failing(2, "b2", "b1")).crowded
    assert crowded is not None
    assert ("/r1", [1, 2]) == (crowded[0], crowded[1].tolist())
    assert hits(failing(1, "b1", "b2"), failing(2, "b3", "b4")).crowded is None


def test_the_newest_mark_counts():
    """Whom it names missing and who holds its lock, as it was read last."""
    before = Mark(0, missing_replicas=("b1", "b2"), lock=ReplicationLock("w1", 5))
    after = Mark(0, missing_replicas=("b2",), lock=ReplicationLock("w2", 5))
    marks = newest_marks(rows(record(1, 2, mark=after), record(1, 1, mark=before), record(2, 1), record(3, 1, mark=Mark(0))))
    seen = hits(marks=marks)
    assert {"b2": [1]} == told(seen.via[Via.MARKED])
    assert {"w2": [1]} == told(seen.locked)


def test_a_ledger_is_born_once():
    """As the first look saw its znode; a ledger that could not be read has no birth."""
    told_rows = rows(record(1, 1), record(1, 2), record(2, 1), LedgerRecord(3, 1, 0, RecordStatus.UNREADABLE))
    batches = told_rows.select(BIRTHS).to_batches()
    born = births(batches, np.array([1, 3]))
    assert ([1], [10]) == (born.ledger_ids.tolist(), born.at_ms.tolist())
    assert [0, 1, 1] == created_between(batches, np.array([10, 20])).tolist()
    assert [1, 0, 1] == created_between(batches, np.array([11, 20])).tolist()

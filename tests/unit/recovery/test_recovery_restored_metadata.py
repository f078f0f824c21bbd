"""What a restore would do to a ledger, from its living and its restored metadata."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    Malformed,
    RecordStatus,
    ZnodeStamp,
)
from auditor.recovery.restored_metadata import (
    Amount,
    Comparison,
    Fate,
    fate_of,
    stored_bytes,
)
from auditor.sandbox.cluster import ledger

CLOSED = "e2 w2 0:[b1 b2] closed 9"
OPEN = "e2 w2 0:[b1 b2] open"


def record(
    text: str | None, status: RecordStatus = RecordStatus.FOUND, **changes: object
) -> LedgerRecord:
    metadata = None if text is None else replace(ledger(text), **changes)  # type: ignore[arg-type]
    stamp = ZnodeStamp(1, 0, 1_000, 2_000)
    return LedgerRecord(7, 1, 0, status, stamp, metadata)


GONE = record(None, RecordStatus.GONE)
UNREADABLE = record(None, RecordStatus.UNREADABLE)


@pytest.mark.parametrize(
    ("living", "restored", "fate"),
    [
        (record(CLOSED), record(CLOSED), Fate.SAME),
        (record(CLOSED), None, Fate.GONE),
        (record(OPEN), GONE, Fate.GONE),
        (UNREADABLE, None, Fate.GONE),
        (None, record(CLOSED), Fate.BACK),
        (GONE, record(OPEN), Fate.BACK),
        (GONE, GONE, Fate.SAME),
        (record(CLOSED), record("e2 w2 0:[b1 b2] closed 8"), Fate.CUT_SHORT),
        (record("e2 w2 0:[b1 b2] closed 8"), record(CLOSED), Fate.DIFFERENT),
        (record(CLOSED), record(OPEN), Fate.OPEN_AGAIN),
        (record(CLOSED), record("e2 w2 0:[b1 b2] in_recovery"), Fate.OPEN_AGAIN),
        (record(OPEN), record(CLOSED), Fate.DIFFERENT),
        (record(CLOSED), record("e2 w2 0:[b1 b3] closed 9"), Fate.MOVED),
        (record(OPEN), record("e2 w2 0:[b1 b2] 5:[b1 b3] open"), Fate.MOVED),
        (record(CLOSED), record(CLOSED, custom_metadata=(("a", b"b"),)), Fate.DIFFERENT),
        (UNREADABLE, record(CLOSED), Fate.UNREAD),
        (record(CLOSED), UNREADABLE, Fate.UNREAD),
    ],
)
def test_each_pair_of_records_has_one_fate(
    living: LedgerRecord | None, restored: LedgerRecord | None, fate: Fate
) -> None:
    """A ledger exists on a side that lists it, readable or not, until its znode is gone."""
    assert fate is fate_of(living, restored)


def test_metadata_that_nobody_understands_is_the_same_if_its_bytes_are() -> None:
    """Bytes are compared by their digest: metadata that cannot be decoded can still be restored."""
    one, other = (
        replace(record(None, RecordStatus.MALFORMED), malformed=Malformed("x", 0, 9, sha256))
        for sha256 in ("aa", "bb")
    )
    assert Fate.SAME is fate_of(one, one)
    assert Fate.UNREAD is fate_of(one, other)


def test_a_bookie_stores_its_share_of_the_segments_that_name_it() -> None:
    """Entries of equal size are assumed. An open ledger has no length yet."""
    metadata = replace(ledger("e3 w2 0:[b1 b2 b3] 60:[b1 b4 b3] closed 99"), length=30_000)
    assert {"b1": 20_000, "b2": 12_000, "b3": 20_000, "b4": 8_000} == stored_bytes(metadata)
    assert sum(stored_bytes(metadata).values()) == 2 * 30_000
    assert {"b1": 0, "b2": 0} == stored_bytes(ledger(OPEN))
    empty: LedgerMetadata = ledger("e2 w2 0:[b1 b2] closed -1")
    assert {"b1": 0, "b2": 0} == stored_bytes(empty)


def test_bookies_delete_what_is_gone_next_and_what_moved_away_later() -> None:
    """Only ledgers that the restored metadata closes can be deleted as over-replicated."""
    found = Comparison(highest_restored=7)
    found.add(7, record(CLOSED, length=100), record("e2 w2 0:[b1 b3] closed 9", length=100))
    found.add(8, record(CLOSED, length=100), None)
    found.add(9, record(OPEN), None)
    found.add(6, record(CLOSED, length=100), record("e2 w2 0:[b1 b3] open"))
    assert Amount(2, 100, 1) == found.deletions["b1"].next_collection
    assert Amount() == found.deletions["b1"].over_replicated
    assert Amount(2, 100, 1) == found.deletions["b2"].next_collection
    assert Amount(1, 100) == found.deletions["b2"].over_replicated
    assert found.deletions.keys() == {"b1", "b2"}
    assert (2, 4) == (found.gone_above, found.changed)


def test_changes_are_counted_by_owner_and_in_bytes() -> None:
    """What is cut is the difference of the lengths; what is the same has no owner."""
    mine = (("application", b"pulsar"), ("pulsar/managed-ledger", b"acme/shop/persistent/orders"))
    found = Comparison()
    found.add(1, record(CLOSED, length=100, custom_metadata=mine), None)
    found.add(2, record(CLOSED, length=50), None)
    short = "e2 w2 0:[b1 b2] closed 4"
    found.add(3, record(CLOSED, length=100), record(short, length=60))
    found.add(4, record(CLOSED), record(CLOSED))
    assert Amount(2, 150) == found.amount(Fate.GONE)
    assert Amount(1, 40) == found.amount(Fate.CUT_SHORT)
    assert {
        "acme/shop/persistent/orders": Amount(1, 100),
        "no owner in the metadata": Amount(1, 50),
    } == found.owners[Fate.GONE]
    assert Fate.SAME not in found.owners
    assert 2_000 == found.newest_restored_ms

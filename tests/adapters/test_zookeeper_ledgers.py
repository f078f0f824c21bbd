"""Reading ledgers from a real ZooKeeper: one record each, whatever is there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from support.zookeeper_many_znodes import Server
from support.zookeeper_znodes import STEADY, Znodes, closed_ledger, ledger_bytes, uri

from auditor.model.ledger import LedgerRecord, RecordStatus, ReplicationLock
from auditor.wire import underreplication_mark, znode_paths
from auditor.wire.znode_paths import LedgerLayout
from auditor.zookeeper.metadata_store import open_store
from auditor.zookeeper.multi_read import MultiRead

pytestmark = pytest.mark.also_in_memory

H = LedgerLayout.HIERARCHICAL
NOW_MS = 1_700_000_000_000


def read(
    server: Server, root: str, ids: Iterable[int], *, with_marks: bool = False
) -> list[LedgerRecord]:
    with open_store(uri(server.hosts, root), STEADY) as store:
        return list(store.read_ledgers(ids, look=2, now_ms=lambda: NOW_MS, with_marks=with_marks))


def path_of(root: str, ledger_id: int) -> str:
    return root + znode_paths.ledger_path(H, ledger_id)


@pytest.mark.parametrize("layout", list(LedgerLayout))
def test_ledgers_are_found_in_each_layout(
    server: Server, tree: Znodes, layout: LedgerLayout
) -> None:
    """What is read for an id is what was written for it, in the order asked."""
    root = f"/found-{layout.value}/ledgers"
    ids = [2_147_483_647, 0, 123_456_789, 9_999]
    tree.layout(root, layout)
    for ledger_id in ids:
        tree.ledgers(
            root, layout, [ledger_id], ledger_bytes(closed_ledger(last_entry_id=ledger_id))
        )
    records = read(server, root, ids)
    assert [(i, i) for i in ids] == [
        (r.ledger_id, r.metadata.last_entry_id) for r in records if r.metadata is not None
    ]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_each_metadata_format_is_read(server: Server, tree: Znodes, version: int) -> None:
    """Formats 1, 2 and 3 give the same ledger (format 1 has neither digest nor custom metadata)."""
    root = f"/format-{version}/ledgers"
    tree.layout(root, H)
    tree.put(path_of(root, 5), ledger_bytes(version=version))
    (record,) = read(server, root, [5])
    assert record.status is RecordStatus.FOUND
    assert record.metadata is not None
    assert (version, 29, closed_ledger().segments) == (
        record.metadata.format_version,
        record.metadata.last_entry_id,
        record.metadata.segments,
    )


def test_one_record_for_each_id_whatever_is_there(server: Server, tree: Znodes) -> None:
    """Found, gone, malformed, too new, unreadable and impossible ids each have one record, in
    order, and none hides another.
    """
    root = "/mixed/ledgers"
    tree.layout(root, H)
    tree.put(path_of(root, 1), ledger_bytes())
    tree.put(path_of(root, 3), b"not metadata, password: hunter2")
    tree.put(path_of(root, 4), b"BookieMetadataFormatVersion\t4\nwhatever")
    tree.put(path_of(root, 5), ledger_bytes(), shut=True)
    tree.put(path_of(root, 6), b"")
    records = read(server, root, [1, 2, -1, 3, 4, 5, 6, 1])
    assert [(record.ledger_id, record.status) for record in records] == [
        (1, RecordStatus.FOUND),
        (2, RecordStatus.GONE),
        (-1, RecordStatus.GONE),
        (3, RecordStatus.MALFORMED),
        (4, RecordStatus.UNREADABLE),
        (5, RecordStatus.NOT_AUTHORISED),
        (6, RecordStatus.MALFORMED),
        (1, RecordStatus.FOUND),
    ]
    assert {(2, NOW_MS)} == {(record.look, record.read_at_ms) for record in records}
    assert "newer than this auditor reads" in records[4].detail
    assert f"{path_of(root, 5)} may not be read" in records[5].detail
    malformed = records[3].malformed
    assert malformed is not None
    assert (31, hashlib.sha256(b"not metadata, password: hunter2").hexdigest()) == (
        malformed.length,
        malformed.sha256,
    )
    assert "hunter2" not in repr(records)


def test_the_stamp_tells_writes_and_incarnations_apart(server: Server, tree: Znodes) -> None:
    """Another write changes the version, a recreated znode changes the czxid; reading again changes
    nothing.
    """
    root = "/stamps/ledgers"
    tree.layout(root, H)
    tree.put(path_of(root, 7), ledger_bytes())
    first, again = read(server, root, [7, 7])
    tree.put(path_of(root, 7), ledger_bytes())
    (rewritten,) = read(server, root, [7])
    tree.delete(path_of(root, 7))
    tree.put(path_of(root, 7), ledger_bytes())
    (recreated,) = read(server, root, [7])
    assert first.stamp is not None and rewritten.stamp is not None and recreated.stamp is not None
    assert first.stamp == again.stamp
    assert (first.stamp.czxid, 1) == (rewritten.stamp.czxid, rewritten.stamp.version)
    assert first.stamp.czxid < recreated.stamp.czxid
    assert tree.ctime_ms(path_of(root, 7)) == recreated.stamp.ctime_ms


def test_the_stamp_has_the_time_of_the_last_write(server: Server, tree: Znodes) -> None:
    """The znode's mtime changes with each write, its ctime does not; the stamp of a malformed
    ledger has both, too.
    """
    root = "/mtimes/ledgers"
    tree.layout(root, H)
    for ledger_id, data in ((7, ledger_bytes()), (8, b"malformed")):
        tree.put(path_of(root, ledger_id), b"first")
        ctime_ms = tree.ctime_ms(path_of(root, ledger_id))
        while tree.mtime_ms(path_of(root, ledger_id)) == ctime_ms:
            tree.put(path_of(root, ledger_id), data)
    for record in read(server, root, [7, 8]):
        path = path_of(root, record.ledger_id)
        assert record.stamp is not None
        assert (tree.ctime_ms(path), tree.mtime_ms(path)) == (
            record.stamp.ctime_ms,
            record.stamp.mtime_ms,
        )
        assert record.stamp.mtime_ms > record.stamp.ctime_ms


def test_marks_come_with_their_ledgers(server: Server, tree: Znodes) -> None:
    """Read with marks, each record has its own ledger's mark, including a deleted ledger's;
    without, none has.
    """
    root = "/with-marks/ledgers"
    tree.layout(root, H)
    tree.ledgers(root, H, [1, 2, 3])
    tree.put(
        root + znode_paths.mark_path(2),
        underreplication_mark.encode(["b9:3181"], 1_600_000_000_000),
    )
    tree.put(root + znode_paths.mark_path(3), b"garbage {")
    tree.put(root + znode_paths.mark_path(4), underreplication_mark.encode([], None))
    one, two, three, four = (
        record.mark for record in read(server, root, [1, 2, 3, 4], with_marks=True)
    )
    assert one is None
    assert two is not None
    assert (two.changed_ms, two.missing_replicas, two.problem) == (
        1_600_000_000_000,
        ("b9:3181",),
        None,
    )
    assert tree.ctime_ms(root + znode_paths.mark_path(2)) == two.created_ms
    assert three is not None and three.problem
    assert four is not None and four.missing_replicas == ()
    assert [record.mark for record in read(server, root, [1, 2, 3, 4])] == [None] * 4


def test_a_mark_comes_with_its_lock(server: Server, tree: Znodes) -> None:
    """It says who replicates the ledger since when; nobody if there is no lock. A lock on an
    unmarked ledger is not a mark.
    """
    root = "/with-locks/ledgers"
    tree.layout(root, H)
    tree.ledgers(root, H, [1, 2, 3])
    for ledger_id in (1, 2):
        tree.put(
            root + znode_paths.mark_path(ledger_id), underreplication_mark.encode(["b9:3181"], None)
        )
    for ledger_id in (1, 3):
        tree.put(
            root + znode_paths.lock_path(ledger_id),
            underreplication_mark.encode_name(f"worker-{ledger_id}.example"),
        )
    one, two, three = (record.mark for record in read(server, root, [1, 2, 3], with_marks=True))
    assert one is not None and two is not None
    since_ms = tree.ctime_ms(root + znode_paths.lock_path(1))
    assert (ReplicationLock("worker-1.example", since_ms), None) == (one.lock, two.lock)
    assert three is None
    assert (None, None) == (one.problem, two.problem)


def test_a_lock_that_names_nobody_is_held_all_the_same(server: Server, tree: Znodes) -> None:
    """The znode is the lock: bytes without a name leave the holder empty."""
    root = "/nameless-locks/ledgers"
    tree.layout(root, H)
    tree.ledgers(root, H, [1])
    tree.put(root + znode_paths.mark_path(1), underreplication_mark.encode([], None))
    tree.put(root + znode_paths.lock_path(1), b"\xff garbage")
    (record,) = read(server, root, [1], with_marks=True)
    assert record.mark is not None
    assert ReplicationLock("", tree.ctime_ms(root + znode_paths.lock_path(1))) == record.mark.lock


def test_a_lock_that_may_not_be_read_is_a_problem_of_the_mark(server: Server, tree: Znodes) -> None:
    """The ledger is read and marked. Only its worker is unknown, and the mark names the unreadable
    znode.
    """
    root = "/shut-lock/ledgers"
    tree.layout(root, H)
    tree.ledgers(root, H, [1])
    tree.put(root + znode_paths.mark_path(1), underreplication_mark.encode([], None))
    tree.put(root + znode_paths.lock_path(1), shut=True)
    (record,) = read(server, root, [1], with_marks=True)
    assert (RecordStatus.FOUND, "") == (record.status, record.detail)
    assert record.mark is not None and record.mark.lock is None
    assert f"{znode_paths.lock_path(1)} may not be read" in (record.mark.problem or "")


def test_a_mark_is_read_before_its_ledger(server: Server, tree: Znodes) -> None:
    """A repaired ledger loses its mark after its metadata was written: read in this order,
    "unmarked" is never older.
    """
    root = "/order/ledgers"
    tree.layout(root, H)
    asked: list[str] = []
    with open_store(uri(server.hosts, root), replace(STEADY, zookeeper_batch_paths=3)) as store:
        call = store._session._client._call

        def recording(request: Any, result: Any) -> Any:
            asked.extend(request.paths if isinstance(request, MultiRead) else ())
            return call(request, result)

        store._session._client._call = recording
        list(store.read_ledgers([4, 2, 9], 1, lambda: NOW_MS, with_marks=True))
    beside = znode_paths.mark_path, znode_paths.lock_path
    expected = [
        path for i in (4, 2, 9) for path in (*(root + one(i) for one in beside), path_of(root, i))
    ]
    assert expected == asked[-9:]


def test_a_mark_that_may_not_be_read_is_not_no_mark(server: Server, tree: Znodes) -> None:
    """Whether the ledger is marked is unknown, so the whole record is unauthorised, and names the
    znode.
    """
    root = "/shut-mark/ledgers"
    tree.layout(root, H)
    tree.ledgers(root, H, [1])
    tree.put(root + znode_paths.mark_path(1), underreplication_mark.encode([], None), shut=True)
    (record,) = read(server, root, [1], with_marks=True)
    assert record.status is RecordStatus.NOT_AUTHORISED
    assert znode_paths.mark_path(1) in record.detail


def test_ids_the_layout_cannot_hold_are_gone(server: Server, tree: Znodes) -> None:
    """An id with too many digits for its layout cannot exist. It still has a record, also alone or
    at the end.
    """
    root = "/impossible/ledgers"
    tree.layout(root, LedgerLayout.LEGACY_HIERARCHICAL)
    tree.ledgers(root, LedgerLayout.LEGACY_HIERARCHICAL, [1])
    too_long = 10**10
    assert [record.status for record in read(server, root, [too_long])] == [RecordStatus.GONE]
    records = read(server, root, [1, too_long], with_marks=True)
    assert [(1, RecordStatus.FOUND), (too_long, RecordStatus.GONE)] == [
        (r.ledger_id, r.status) for r in records
    ]
    assert "no place in the legacyhierarchical layout" in records[1].detail
    assert [(2, NOW_MS)] * 2 == [(record.look, record.read_at_ms) for record in records]


def test_no_ids_no_records(server: Server, tree: Znodes) -> None:
    """Without ids there are no records."""
    root = "/nothing/ledgers"
    tree.layout(root, H)
    assert read(server, root, []) == []
    assert read(server, root, [], with_marks=True) == []


def test_more_ledgers_than_a_window_holds(server: Server, tree: Znodes) -> None:
    """Several windows of batches keep the order and lose nothing; each requested znode is
    counted.
    """
    root = "/windows/ledgers"
    tree.layout(root, H)
    tree.ledgers(root, H, range(0, 3_000, 2))
    with open_store(uri(server.hosts, root), STEADY) as store:
        before = store.counts.reads_ok
        records = list(store.read_ledgers(range(3_000), 1, lambda: NOW_MS, with_marks=True))
        assert store.counts.reads_ok - before == 9_000
        assert store.counts.reads_failed == 0
        assert store.counts.received_bytes >= 1_500 * len(ledger_bytes())
    assert list(range(3_000)) == [record.ledger_id for record in records]
    assert all(
        (record.status is RecordStatus.FOUND) == (record.ledger_id % 2 == 0) for record in records
    )


def test_passwords_are_returned_only_on_request(server: Server, tree: Znodes) -> None:
    """The password is returned only by the call that asks for it, and is in no record."""
    root = "/passwords/ledgers"
    tree.layout(root, H)
    tree.put(path_of(root, 1), ledger_bytes(password=b"hunter2"))
    tree.put(path_of(root, 2), ledger_bytes(version=2, password=b"\x01\xff"))
    tree.put(path_of(root, 3), ledger_bytes(version=1))
    tree.put(path_of(root, 4), b"malformed")
    with open_store(uri(server.hosts, root), STEADY) as store:
        passwords = store.passwords([1, 2, 3, -7, 4, 5])
    assert passwords == {1: b"hunter2", 2: b"\x01\xff", 3: None, -7: None, 4: None, 5: None}
    assert "hunter2" not in repr(read(server, root, [1, 2, 3, 4, 5]))

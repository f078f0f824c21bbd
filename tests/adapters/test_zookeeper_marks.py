"""The tree of under-replication marks, read completely from a real ZooKeeper."""

from __future__ import annotations

import pytest
from support.zookeeper_many_znodes import Server
from support.zookeeper_znodes import STEADY, Znodes, uri

from auditor.model.ledger import ReplicationLock
from auditor.wire import underreplication_mark, znode_paths
from auditor.wire.znode_paths import LedgerLayout
from auditor.zookeeper.ledgers import Marks
from auditor.zookeeper.metadata_store import open_store

pytestmark = pytest.mark.also_in_memory


def read_marks(server: Server, root: str) -> Marks:
    with open_store(uri(server.hosts, root), STEADY) as store:
        return store.marks()


def test_all_marks_are_read_with_both_ages(server: Server, tree: Znodes) -> None:
    """Each mark has the znode's creation time and its own; ids are at both ends of the tree of hex
    digits.
    """
    root = "/marks/ledgers"
    tree.layout(root, LedgerLayout.HIERARCHICAL)
    ids = [0, 9_999, 123_456_789, 12_345_678_901, 2**63 - 1]
    for ledger_id in ids:
        tree.put(
            root + znode_paths.mark_path(ledger_id),
            underreplication_mark.encode(["b1:3181"], 1_700_000_000_000 + ledger_id % 97),
        )
    marks = read_marks(server, root)
    assert sorted(ids) == sorted(marks.by_ledger)
    assert (marks.unexpected_znodes, marks.problem) == (0, "")
    for ledger_id in ids:
        mark = marks.by_ledger[ledger_id]
        assert (1_700_000_000_000 + ledger_id % 97, ("b1:3181",)) == (
            mark.changed_ms,
            mark.missing_replicas,
        )
        assert tree.ctime_ms(root + znode_paths.mark_path(ledger_id)) == mark.created_ms


def test_a_malformed_mark_stands_and_says_so(server: Server, tree: Znodes) -> None:
    """The znode is the mark: undecodable or empty bytes do not remove it."""
    root = "/malformed-marks/ledgers"
    tree.layout(root, LedgerLayout.HIERARCHICAL)
    tree.put(root + znode_paths.mark_path(1), b"\xff\xfe not text")
    tree.put(root + znode_paths.mark_path(2), b"")
    marks = read_marks(server, root)
    assert marks.by_ledger.keys() == {1, 2}
    assert marks.by_ledger[1].problem
    assert marks.by_ledger[2].problem is None


def test_names_that_mark_nothing_are_counted(server: Server, tree: Znodes) -> None:
    """Junk at any level, and a mark at another ledger's path, are counted and mark no ledger."""
    root = "/junk-marks/ledgers"
    tree.layout(root, LedgerLayout.HIERARCHICAL)
    tree.put(root + znode_paths.mark_path(7), underreplication_mark.encode([], None))
    beside = znode_paths.mark_path(7).rsplit("/", 1)[0]
    for junk in ("urL0000000008", "urLxyz", "urL7", "ledger"):
        tree.put(f"{root}{beside}/{junk}")
    tree.put(f"{root}{znode_paths.MARKS}/zzzz")
    tree.put(f"{root}{znode_paths.MARKS}/0000/0000/foo/0000/urL0000000009")
    tree.put(f"{root}{znode_paths.MARKS}/urL0000000010")
    marks = read_marks(server, root)
    assert marks.by_ledger.keys() == {7}
    assert marks.unexpected_znodes == len(marks.malformed) == 7
    assert f"{root}{beside}/urLxyz" in marks.malformed
    assert marks.problem == ""


def test_no_tree_is_no_marks(server: Server, tree: Znodes) -> None:
    """A cluster that never marked a ledger, or has no auto-recovery, has no marks and no
    problem.
    """
    root = "/no-marks/ledgers"
    tree.layout(root, LedgerLayout.HIERARCHICAL)
    assert Marks() == read_marks(server, root)
    tree.delete(f"{root}/underreplication")
    assert Marks() == read_marks(server, root)


@pytest.mark.parametrize(
    "shut",
    [
        "/underreplication/ledgers",
        "/underreplication/ledgers/0000/0000/0001",
        "/underreplication/ledgers/0000/0000/0001/1170",
        znode_paths.mark_path(70_000),
    ],
)
def test_what_may_not_be_read_makes_the_marks_unknown(
    server: Server, tree: Znodes, shut: str
) -> None:
    """An unreadable part of the tree is a problem that names it, never "no marks"; the rest is
    read.
    """
    root = f"/shut-marks-{len(shut)}/ledgers"
    tree.layout(root, LedgerLayout.HIERARCHICAL)
    for ledger_id in (7, 70_000, 2**40):
        tree.put(root + znode_paths.mark_path(ledger_id), underreplication_mark.encode([], None))
    tree.put(root + shut, shut=True)
    marks = read_marks(server, root)
    assert f"{root}{shut} may not be read" in marks.problem
    assert 70_000 not in marks.by_ledger
    assert (2**40 in marks.by_ledger) == (shut != "/underreplication/ledgers")


def test_marks_come_with_the_locks_on_them(server: Server, tree: Znodes) -> None:
    """A lock on a marked ledger names the worker and the time; one on an unmarked ledger, or with a
    wrong name, is skipped.
    """
    root = "/locked-marks/ledgers"
    tree.layout(root, LedgerLayout.HIERARCHICAL)
    for ledger_id in (1, 2, 2**40):
        tree.put(root + znode_paths.mark_path(ledger_id), underreplication_mark.encode([], None))
    for ledger_id in (2, 3, 2**40):
        tree.put(
            root + znode_paths.lock_path(ledger_id),
            underreplication_mark.encode_name(f"worker-{ledger_id}"),
        )
    tree.put(f"{root}{znode_paths.LOCKS}/urL1", underreplication_mark.encode_name("nobody"))
    marks = read_marks(server, root)
    since = {
        ledger_id: tree.ctime_ms(root + znode_paths.lock_path(ledger_id))
        for ledger_id in (2, 2**40)
    }
    expected = {
        1: None,
        **{i: ReplicationLock(f"worker-{i}", since_ms) for i, since_ms in since.items()},
    }
    assert expected == {ledger_id: mark.lock for ledger_id, mark in marks.by_ledger.items()}
    assert ("", "", 0) == (marks.problem, marks.lock_problem, marks.unexpected_znodes)


def test_locks_that_may_not_be_listed_leave_the_marks_known(server: Server, tree: Znodes) -> None:
    """The workers are unknown, with a problem; the marked ledgers are known."""
    root = "/shut-locks/ledgers"
    tree.layout(root, LedgerLayout.HIERARCHICAL)
    tree.put(root + znode_paths.mark_path(7), underreplication_mark.encode([], None))
    tree.put(root + znode_paths.lock_path(7), underreplication_mark.encode_name("worker-7"))
    tree.put(root + znode_paths.LOCKS, shut=True)
    marks = read_marks(server, root)
    assert (True, "") == (7 in marks.by_ledger, marks.problem)
    assert marks.by_ledger[7].lock is None
    assert f"{root}{znode_paths.LOCKS} may not be read" in marks.lock_problem


def test_more_locks_than_are_read_are_said(
    server: Server, tree: Znodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit holds, the first locks are read, and the rest does not count as unlocked. Exactly
    as many as the limit are all read.
    """
    root = "/many-locks/ledgers"
    tree.layout(root, LedgerLayout.HIERARCHICAL)
    for ledger_id in range(5):
        tree.put(root + znode_paths.mark_path(ledger_id), underreplication_mark.encode([], None))
        tree.put(
            root + znode_paths.lock_path(ledger_id), underreplication_mark.encode_name("worker")
        )
    monkeypatch.setattr("auditor.zookeeper.ledgers.LOCKS_READ_MAX", 5)
    assert "" == read_marks(server, root).lock_problem
    monkeypatch.setattr("auditor.zookeeper.ledgers.LOCKS_READ_MAX", 3)
    marks = read_marks(server, root)
    assert {0, 1, 2} == {
        ledger_id for ledger_id, mark in marks.by_ledger.items() if mark.lock is not None
    }
    assert "5 marked ledgers are locked" in marks.lock_problem


def test_thousands_of_marks(server: Server, tree: Znodes) -> None:
    """More marks than a window holds are read, each once."""
    root = "/many-marks/ledgers"
    tree.layout(root, LedgerLayout.HIERARCHICAL)
    for ledger_id in range(1_500):
        tree.put(
            root + znode_paths.mark_path(ledger_id),
            underreplication_mark.encode([f"b{ledger_id}:1"], None),
        )
    marks = read_marks(server, root)
    assert {i: (f"b{i}:1",) for i in range(1_500)} == {
        i: mark.missing_replicas for i, mark in marks.by_ledger.items()
    }

"""The elected auditor, as a real ZooKeeper has it."""

from __future__ import annotations

import pytest
from support.zookeeper_many_znodes import Server
from support.zookeeper_znodes import STEADY, Znodes, uri

from auditor.wire import underreplication_mark, znode_paths
from auditor.wire.znode_paths import LedgerLayout
from auditor.zookeeper.cluster import NOT_KNOWN
from auditor.zookeeper.metadata_store import open_store

pytestmark = pytest.mark.also_in_memory


def elected(server: Server, root: str) -> tuple[str | None, list[str]]:
    """Return the auditor, read twice, and the problems of reading it."""
    with open_store(uri(server.hosts, root), STEADY) as store:
        first = store.elected_auditor()
        assert first == store.elected_auditor()
        return first, store.problems


def vote(tree: Znodes, root: str, name: str, data: bytes, *, shut: bool = False) -> None:
    tree.put(f"{root}{znode_paths.ELECTION}/{name}", data, shut=shut)


def test_the_smallest_sequence_number_is_the_auditor(server: Server, tree: Znodes) -> None:
    """The number decides, not the name, and not the data of the election's own znode; names that
    are not votes are skipped.
    """
    root = "/elected/ledgers"
    tree.layout(root, LedgerLayout.HIERARCHICAL)
    tree.put(f"{root}{znode_paths.ELECTION}", underreplication_mark.encode_name("long-gone:3181"))
    vote(tree, root, "V_10000000000", underreplication_mark.encode_name("b3:3181"))
    vote(tree, root, "V_0000000017", underreplication_mark.encode_name("b2:3181"))
    vote(tree, root, "V_0000000020", underreplication_mark.encode_name("b1:3181"))
    vote(tree, root, "A_0000000001", underreplication_mark.encode_name("junk"))
    assert ("b2:3181", []) == elected(server, root)
    tree.delete(f"{root}{znode_paths.ELECTION}/V_0000000017")
    assert ("b1:3181", []) == elected(server, root)


def test_without_votes_nobody_is_elected(server: Server, tree: Znodes) -> None:
    """There is no election, or no candidate: the result is None, without a problem."""
    root = "/unelected/ledgers"
    tree.layout(root, LedgerLayout.HIERARCHICAL)
    assert (None, []) == elected(server, root)
    tree.put(f"{root}{znode_paths.ELECTION}", underreplication_mark.encode_name("long-gone:3181"))
    assert (None, []) == elected(server, root)


@pytest.mark.parametrize("shut", ["", "/V_0000000001"])
def test_an_election_that_may_not_be_read_is_not_nobody(
    server: Server, tree: Znodes, shut: str
) -> None:
    """There may be an auditor: it is unknown, and the problem names the unreadable znode, once."""
    root = f"/shut-election{len(shut)}/ledgers"
    tree.layout(root, LedgerLayout.HIERARCHICAL)
    vote(tree, root, "V_0000000001", underreplication_mark.encode_name("b1:3181"))
    tree.put(f"{root}{znode_paths.ELECTION}{shut}", shut=True)
    auditor, problems = elected(server, root)
    assert NOT_KNOWN == auditor
    (problem,) = problems
    assert f"{root}{znode_paths.ELECTION}{shut} may not be read" in problem


def test_a_vote_that_names_nobody_is_somebody(server: Server, tree: Znodes) -> None:
    """The first vote decides: the next candidate is not the auditor because its predecessor cannot
    be read.
    """
    root = "/garbled-election/ledgers"
    tree.layout(root, LedgerLayout.HIERARCHICAL)
    vote(tree, root, "V_0000000001", b"\xff\xfe")
    vote(tree, root, "V_0000000002", underreplication_mark.encode_name("b2:3181"))
    auditor, (problem,) = elected(server, root)
    assert NOT_KNOWN == auditor
    assert "V_0000000001 names no bookie" in problem

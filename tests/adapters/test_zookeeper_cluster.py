"""Finding a cluster in a real ZooKeeper, and the facts about it as a whole."""

from __future__ import annotations

import pickle

import pytest
from support.zookeeper_many_znodes import Server
from support.zookeeper_znodes import STEADY, Znodes, uri

from auditor.errors import StoreUnavailable
from auditor.wire import znode_paths as layout_wire
from auditor.wire.service_uri import parse
from auditor.wire.znode_paths import LedgerLayout
from auditor.zookeeper.metadata_store import StoreAddress, open_store

pytestmark = pytest.mark.also_in_memory

INSTANCE_ID = "f3492f09-f19c-49d9-a9ff-2411c8025150"


def test_a_cluster_is_found_at_the_path_of_its_uri(server: Server, tree: Znodes) -> None:
    """ROOT is the path of the URI, LAYOUT names the layout, and the facts repeat both."""
    root = "/a/b/ledgers"
    tree.layout(root, LedgerLayout.LONG_HIERARCHICAL)
    tree.put(f"{root}/INSTANCEID", INSTANCE_ID.encode())
    tree.put(f"{root}/underreplication/disable")
    tree.put(f"{root}/underreplication/lostBookieRecoveryDelay", b"600")
    with open_store(uri(server.hosts, root), STEADY) as store:
        facts = store.cluster_facts()
        assert store.problems == []
    assert (root, "longhierarchical", INSTANCE_ID) == (facts.root, facts.layout, facts.instance_id)
    assert (facts.replication_disabled, facts.lost_bookie_recovery_delay_s) == (True, 600)
    assert ((server.hosts,), f"zk://{server.hosts}{root}") == (
        facts.hosts,
        facts.metadata_service_uri,
    )


def test_settings_that_are_not_there_are_not_problems(server: Server, tree: Znodes) -> None:
    """An old cluster has no instance id, and most have no delay: the values are None, without a
    problem.
    """
    root = "/bare/ledgers"
    tree.layout(root, LedgerLayout.HIERARCHICAL)
    with open_store(uri(server.hosts, root), STEADY) as store:
        facts = store.cluster_facts()
        assert store.problems == []
    assert (facts.instance_id, facts.replication_disabled, facts.lost_bookie_recovery_delay_s) == (
        None,
        False,
        None,
    )


def test_settings_that_cannot_be_understood_are_problems(server: Server, tree: Znodes) -> None:
    """Undecodable and unreadable znodes leave the setting unknown. Each is reported once, by path,
    however often the facts are read.
    """
    root = "/odd/ledgers"
    tree.layout(root, LedgerLayout.HIERARCHICAL)
    tree.put(f"{root}/INSTANCEID", b"\xff\x00 no id")
    tree.put(f"{root}/underreplication/lostBookieRecoveryDelay", b"soon")
    tree.put(f"{root}/underreplication/disable", shut=True)
    with open_store(uri(server.hosts, root), STEADY) as store:
        facts = store.cluster_facts()
        store.cluster_facts()
        problems = store.problems
    assert (facts.instance_id, facts.replication_disabled, facts.lost_bookie_recovery_delay_s) == (
        None,
        True,
        None,
    )
    assert len(problems) == 3
    for name in ("INSTANCEID", "lostBookieRecoveryDelay", "disable"):
        assert any(name in problem for problem in problems), (name, problems)
    assert any(
        f"{root}/underreplication/disable may not be read" in problem for problem in problems
    )


def test_no_layout_is_no_cluster(server: Server) -> None:
    """Without LAYOUT there is nothing to audit, and the error names the znode that was looked
    for.
    """
    with pytest.raises(StoreUnavailable, match=r"no znode /nowhere/ledgers/LAYOUT.*Check the path"):
        open_store(uri(server.hosts, "/nowhere/ledgers"), STEADY)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"2\norg.apache.bookkeeper.meta.MSLedgerManagerFactory:1", "MSLedgerManagerFactory"),
        (b"2\ncom.example.OwnFactory:1", "com.example.OwnFactory"),
        (b"9\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1", "format version 9"),
        (b"", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_layout_that_is_not_known_is_refused(
    server: Server, tree: Znodes, data: bytes, says: str
) -> None:
    """Ledgers in an unknown layout are not listed by guesswork; the error has the znode and the
    reason.
    """
    root = "/unknown-layout/ledgers"
    tree.put(f"{root}/LAYOUT", data)
    with pytest.raises(StoreUnavailable, match=says) as raised:
        open_store(uri(server.hosts, root), STEADY)
    assert f"{root}/LAYOUT" in str(raised.value)


def test_a_layout_that_may_not_be_read_is_refused(server: Server, tree: Znodes) -> None:
    """Missing permission is not "no cluster": the error names the znode that must be readable."""
    tree.put("/shut/ledgers/LAYOUT", layout_wire.encode_layout(LedgerLayout.FLAT), shut=True)
    with pytest.raises(
        StoreUnavailable,
        match="/shut/ledgers/LAYOUT may not be read by this session: give it read permission",
    ):
        open_store(uri(server.hosts, "/shut/ledgers"), STEADY)


def test_layout_decides_against_the_uri(server: Server, tree: Znodes) -> None:
    """A URI that names another layout than the cluster has is a problem; LAYOUT is believed."""
    root = "/hint/ledgers"
    tree.layout(root, LedgerLayout.LONG_HIERARCHICAL)
    with open_store(uri(server.hosts, root, "zk+flat"), STEADY) as store:
        assert store.layout is LedgerLayout.LONG_HIERARCHICAL
        (problem,) = store.problems
    assert "says flat" in problem and "read as longhierarchical" in problem


def test_pulsars_uri_is_looked_for_in_its_chroot_first(server: Server, tree: Znodes) -> None:
    """The chroot's own cluster has precedence over one at /ledgers, which is named; alone, the one
    at /ledgers is used.
    """
    pulsar = parse(f"metadata-store:zk:{server.hosts}/pulsar")
    tree.layout("/ledgers", LedgerLayout.HIERARCHICAL)
    with open_store(pulsar, STEADY) as store:
        assert (store.root, store.problems) == ("/ledgers", [])
    tree.layout("/pulsar/ledgers", LedgerLayout.HIERARCHICAL)
    with open_store(pulsar, STEADY) as store:
        assert store.root == "/pulsar/ledgers"
        (problem,) = store.problems
    assert "/ledgers/LAYOUT" in problem and "only /pulsar/ledgers is audited" in problem


def test_an_address_opens_the_same_store_elsewhere(server: Server, tree: Znodes) -> None:
    """The address for a Spark task is small, survives pickling unchanged, and opens the same
    cluster without a search.
    """
    root = "/address/ledgers"
    tree.layout(root, LedgerLayout.FLAT)
    tree.ledgers(root, LedgerLayout.FLAT, [4, 2])
    with open_store(uri(server.hosts, root), STEADY) as store:
        pickled = pickle.dumps(store.address)
        (partition,) = pickle.loads(pickle.dumps(store.listing_partitions().partitions))
    assert len(pickled) < 2_000
    address: StoreAddress = pickle.loads(pickled)
    with address.open() as elsewhere:
        assert [parent.ledger_ids for parent in elsewhere.list_ids(partition)] == [(2, 4)]
        assert elsewhere.counts.reads_ok == 2, (
            "the list, and a read that tells whether many can be read at once"
        )

"""The embedded cluster: ZooKeeper has what BookKeeper would have written, and bookies hold what a
test sets.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from support.process_ends import alive, gone
from support.raw_bookie import RawBookie, list_request
from support.sandbox_lists import list_of_entries

from auditor.config import ZooKeeperLimits
from auditor.model.availability import SequenceGroup
from auditor.sandbox.bookie import ListForm, Storage
from auditor.sandbox.cluster import SandboxCluster
from auditor.sandbox.zookeeper_server import EmbeddedZooKeeper
from auditor.wire import bookie_registration, service_uri, underreplication_mark, znode_paths
from auditor.wire.bookie_registration import Endpoint
from auditor.wire.znode_paths import LedgerLayout
from auditor.zookeeper.metadata_store import open_store


def test_cluster_is_initialised_as_bookkeeper_does(
    cluster: SandboxCluster, zk: KazooClient
) -> None:
    """There are LAYOUT, INSTANCEID, available with its readonly child, and a cookie for each
    bookie.
    """
    assert znode_paths.decode_layout(zk.get("/ledgers/LAYOUT")[0]) is LedgerLayout.HIERARCHICAL
    assert zk.get("/ledgers/INSTANCEID")[0] == cluster.instance_id.encode()
    assert {*cluster.bookie_ids, "readonly"} == set(zk.get_children("/ledgers/available"))
    assert set(cluster.bookie_ids) == set(zk.get_children("/ledgers/cookies"))
    cookie = zk.get(f"/ledgers/cookies/{cluster.bookie_ids[0]}")[0]
    assert f'instanceId: "{cluster.instance_id}"'.encode() in cookie


def test_registrations_are_ephemeral_and_lead_to_the_bookie(
    cluster: SandboxCluster, zk: KazooClient
) -> None:
    """The znode's owner is a session. Its bytes are the address at which the bookie answers."""
    for bookie_id in cluster.bookie_ids:
        data, stat = zk.get(f"/ledgers/available/{bookie_id}")
        assert stat.ephemeralOwner != 0
        assert Endpoint(*cluster.address(bookie_id)) == bookie_registration.decode(bookie_id, data)
        assert list_of_entries(cluster, bookie_id, 10**6)[0] == "ENOLEDGER"


def test_uri_is_bookkeepers_own(cluster: SandboxCluster) -> None:
    """The metadata service URI parses to this server and this root."""
    parsed = service_uri.parse(cluster.metadata_service_uri)
    assert ((cluster.zookeeper_hosts,), ("/ledgers",)) == (parsed.hosts, parsed.roots)


def test_marks_lie_at_the_path_of_their_ledger(cluster: SandboxCluster, zk: KazooClient) -> None:
    """A mark names its missing replicas by id and has the ctime that it was given. Unmarking leaves
    nothing.
    """
    path = "/ledgers/underreplication/ledgers/0000/0000/075b/cd15/urL0123456789"
    cluster.mark(123456789, ["b1", "gone:3181"], ctime_ms=1_700_000_000_000)
    data, stat = zk.get(path)
    mark = underreplication_mark.decode(data, stat.created)
    assert (1_700_000_000_000, (cluster.id_of("b1"), "gone:3181")) == (
        mark.changed_ms,
        mark.missing_replicas,
    )
    cluster.unmark(123456789)
    assert zk.exists("/ledgers/underreplication/ledgers/0000") is None


def test_a_lock_is_a_workers_and_ends_with_its_session(
    cluster: SandboxCluster, zk: KazooClient
) -> None:
    """The lock is an ephemeral znode with the ledger's decimal id and the worker's host name.
    Another worker can take it over, and it can be released.
    """
    path = "/ledgers/underreplication/locks/urL0123456789"
    for holder in ("worker-1.example", "worker-2.example"):
        cluster.lock(123456789, holder)
        data, stat = zk.get(path)
        assert holder == underreplication_mark.decode_name(data)
        assert 0 != stat.ephemeralOwner
    cluster.lock(123456789, None)
    assert zk.exists(path) is None


def test_one_bookie_is_the_elected_auditor(cluster: SandboxCluster) -> None:
    """It is the last bookie that was elected. There is none before the first election, or once none
    is elected.
    """
    with open_store(service_uri.parse(cluster.metadata_service_uri), ZooKeeperLimits()) as store:
        elected = [store.elected_auditor()]
        for bookie in ("b2", "b1", None):
            cluster.elect_auditor(bookie)
            elected.append(store.elected_auditor())
    assert [None, cluster.id_of("b2"), cluster.id_of("b1"), None] == elected


def test_recovery_settings_are_bookkeepers_znodes(cluster: SandboxCluster, zk: KazooClient) -> None:
    """`disable` is there or not. The delay is in decimal seconds."""
    cluster.disable_replication()
    assert zk.exists("/ledgers/underreplication/disable")
    cluster.enable_replication()
    assert not zk.exists("/ledgers/underreplication/disable")
    cluster.set_lost_bookie_recovery_delay(72)
    assert zk.get("/ledgers/underreplication/lostBookieRecoveryDelay")[0] == b"72"
    cluster.set_lost_bookie_recovery_delay(None)
    assert not zk.exists("/ledgers/underreplication/lostBookieRecoveryDelay")


def test_bookie_can_be_readonly_silent_or_lost(cluster: SandboxCluster, zk: KazooClient) -> None:
    """A read-only bookie is registered under readonly. A stopped bookie stays registered and
    accepts no connection. A lost bookie has neither registration nor cookie.
    """
    bookie_id = cluster.id_of("b4")
    cluster.readonly("b4")
    assert (
        zk.exists(f"/ledgers/available/{bookie_id}"),
        cluster.bookie("b4").behaviour.read_only,
    ) == (None, True)
    assert zk.exists(f"/ledgers/available/readonly/{bookie_id}")
    assert list_of_entries(cluster, "b4", 999)[0] == "ENOLEDGER"
    cluster.register("b4")
    cluster.stop_bookie("b4")
    assert zk.exists(f"/ledgers/available/{bookie_id}")
    with pytest.raises(ConnectionRefusedError):
        list_of_entries(cluster, "b4", 999)
    cluster.lose_bookie("b4")
    assert zk.exists(f"/ledgers/available/{bookie_id}") is None
    assert zk.exists(f"/ledgers/cookies/{bookie_id}") is None
    cluster.start_bookie("b4")
    cluster.cookie("b4")
    assert list_of_entries(cluster, "b4", 999)[0] == "ENOLEDGER"


def test_connections_can_be_reset_under_a_client(cluster: SandboxCluster) -> None:
    """Open connections end, and new ones are accepted."""
    with RawBookie(*cluster.address("b1")) as connection:
        connection.ask(list_request(50, 1))
        cluster.reset_connections("b1")
        assert connection.is_closed_by_peer()
    assert list_of_entries(cluster, "b1", 10**6)[0] == "ENOLEDGER"


def test_named_bookies_are_found_through_their_registration_alone(tmp_path: Path) -> None:
    """The ids are b1 and b2. Root, layout, storages and the form of lists are those that were asked
    for.
    """
    storages = [Storage.SORTED, Storage.DB]
    shape = {
        "root": "/a/b/ledgers",
        "layout": LedgerLayout.LONG_HIERARCHICAL,
        "list_form": ListForm.PERIODIC,
    }
    with SandboxCluster(tmp_path, bookies=2, named=True, storage=storages, **shape) as cluster:
        assert cluster.bookie_ids == ("b1", "b2")
        assert [cluster.storage(b) for b in cluster.bookie_ids] == [
            "SortedLedgerStorage",
            "DbLedgerStorage",
        ]
        cluster.add_ledger(1, cluster.ledger("e2 w1 0:[b1 b2] closed 2000000000"))
        cluster.hold("b1", 1, [SequenceGroup(0, 2 * 10**9, 1, 2)])
        assert list_of_entries(cluster, "b1", 1)[1][64:] == bytes.fromhex(
            "0000000000000000 0000000077359400 00000001 00000002"
        )
        client = KazooClient(cluster.zookeeper_hosts)
        client.start(timeout=20)
        try:
            assert client.exists("/a/b/ledgers/000/0000/0000/0000/L0001")
            data = client.get("/a/b/ledgers/available/b2")[0]
            assert Endpoint(*cluster.address("b2")) == bookie_registration.decode("b2", data)
            cluster.unregister("b2")
            with pytest.raises(NoNodeError):
                client.get("/a/b/ledgers/available/b2")
        finally:
            client.stop()
            client.close()


PARENT = """
import sys
from pathlib import Path
from auditor.sandbox.cluster import SandboxCluster
with SandboxCluster(Path(sys.argv[1]), bookies=2) as cluster:
    print(cluster._zookeeper.pid, cluster.address("b1")[1], flush=True)
    sys.stdin.read()
"""


def test_nothing_outlives_the_process(tmp_path: Path) -> None:
    """Killed with SIGKILL, the process takes its ZooKeeper and its bookies along."""
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        pid, port = map(int, process.stdout.readline().split())
        with RawBookie("127.0.0.1", port) as connection:
            connection.ask(list_request(1, 1))
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        assert gone(pid)
        with pytest.raises(ConnectionRefusedError):
            RawBookie("127.0.0.1", port)
    finally:
        process.kill()
        process.communicate(timeout=30)


def test_stopped_cluster_leaves_no_process_and_no_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the context ends, ZooKeeper is gone and nobody listens at the bookies' ports. Stopping
    again does no harm.
    """
    monkeypatch.setattr("auditor.sandbox.cluster.EmbeddedZooKeeper", EmbeddedZooKeeper)
    with SandboxCluster(tmp_path, bookies=1) as cluster:
        pid, address = cluster._zookeeper.pid, cluster.address("b1")
    assert pid is not None
    assert not alive(pid)
    with pytest.raises(ConnectionRefusedError):
        RawBookie(*address)
    cluster.stop()


def test_the_next_cluster_of_tests_finds_nothing_of_the_one_before(tmp_path: Path) -> None:
    """It has the same server, which is empty. A server that a test stopped is not handed on."""
    with SandboxCluster(tmp_path / "1", bookies=1) as cluster:
        cluster.place(1, cluster.ledger("e1 w1 a1 0:[b1] closed 9"))
        cluster.set_raw("/elsewhere/x", b"1")
        pid = cluster._zookeeper.pid
    with SandboxCluster(tmp_path / "2", bookies=1) as cluster:
        assert pid == cluster._zookeeper.pid
        client = KazooClient(cluster.zookeeper_hosts)
        client.start()
        assert {"ledgers", "zookeeper"} == set(client.get_children("/"))
        assert "00" not in client.get_children(cluster.root)
        client.stop()
        cluster._zookeeper.stop()
    with SandboxCluster(tmp_path / "3", bookies=1) as cluster:
        assert pid != cluster._zookeeper.pid

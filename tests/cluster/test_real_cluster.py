"""BookKeeper reads what the tests write to a real cluster, and the tests read what BookKeeper
writes.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.bookie_contract import groups
from support.raw_bookie import list_request, read_request, status_name
from support.real_cluster import RealCluster

from auditor.config import ZooKeeperLimits
from auditor.model.ledger import DigestType, LedgerState
from auditor.sandbox.cluster import holds, ledger, placement
from auditor.wire import bookie_registration, ledger_metadata, znode_paths
from auditor.wire.service_uri import parse
from auditor.zookeeper.metadata_store import open_store

pytestmark = pytest.mark.real

END_WAIT_S = 20.0
"""How long a server may take to end after its test run, in seconds."""
TWO_SEGMENTS = "e3 w2 a2  0:[b1 b2 b3] 10:[b1 b4 b3]  closed 19"


def listed(cluster: RealCluster, bookie_id: str, ledger_id: int) -> list[tuple[int, int]]:
    """Return the runs that the bookie lists, each one a group."""
    with cluster.connect(bookie_id) as connection:
        return [
            (first, first + size - 1)
            for first, _, size, _ in groups(connection.ask(list_request(ledger_id, 1))) or []
        ]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_shell_reads_our_metadata(
    shared_cluster: RealCluster, ledger_ids: Iterator[int], version: int
) -> None:
    """Metadata written in each format is read back by BookKeeper's `ledgermetadata`, field by
    field.
    """
    ledger_id = next(ledger_ids)
    password = b"" if version == 1 else b"pw"
    shared_cluster.add_ledger(ledger_id, ledger(TWO_SEGMENTS), version, password)

    said = shared_cluster.shell("ledgermetadata", "-ledgerid", str(ledger_id))

    digest = "" if version == 1 else "digestType=CRC32C, password=base64:cHc=, "
    expected = (
        f"LedgerMetadata{{formatVersion={version}, ensembleSize=3, writeQuorumSize=2,"
        f" ackQuorumSize=2, state=CLOSED, length=160, lastEntryId=19, {digest}ensembles={{0=[b1,"
        " b2, b3], 10=[b1, b4, b3]}, customMetadata={}}"
    )
    assert f"ledgerID: {ledger_id}\n{expected}" in said


def test_shell_lists_our_marks(shared_cluster: RealCluster, ledger_ids: Iterator[int]) -> None:
    """Marks are listed by `listunderreplicated` with their time and missing replicas, also beyond
    32 bits; a removed one is not.
    """
    first, second, far = next(ledger_ids), next(ledger_ids), 2**40 + next(ledger_ids)
    shared_cluster.mark(first, replicas=["b2"], ctime_ms=1_700_000_000_000)
    shared_cluster.mark(second, replicas=[])
    shared_cluster.mark(far, replicas=["b4", "b1"], ctime_ms=1_700_000_000_001)
    shared_cluster.unmark(second)

    said = shared_cluster.shell("listunderreplicated", "-printmissingreplica")

    shared_cluster.unmark(first)
    shared_cluster.unmark(far)
    assert f"\n{first}\n\tCtime : 1700000000000\n\tMissingReplica : b2\n" in said
    assert (
        f"\n{far}\n\tCtime : 1700000000001\n\tMissingReplica : b4\n\tMissingReplica : b1\n" in said
    )
    assert f"\n{second}\n" not in said


def test_shell_names_the_worker_and_the_auditor(
    shared_cluster: RealCluster, ledger_ids: Iterator[int]
) -> None:
    """BookKeeper, and the auditor, read our lock and our vote as those of a worker and of the
    elected auditor.
    """
    ledger_id = next(ledger_ids)
    shared_cluster.mark(ledger_id, replicas=["b2"])
    shared_cluster.lock(ledger_id, "worker-7.example")
    shared_cluster.elect_auditor("b3")
    with open_store(parse(shared_cluster.metadata_service_uri), ZooKeeperLimits()) as store:
        auditor, lock = store.elected_auditor(), store.marks().by_ledger[ledger_id].lock

    said = shared_cluster.shell("listunderreplicated", "-printreplicationworkerid")
    elected = shared_cluster.shell("whoisauditor")

    shared_cluster.elect_auditor(None)
    shared_cluster.lock(ledger_id, None)
    shared_cluster.unmark(ledger_id)
    assert lock is not None and lock.holder == "worker-7.example"
    assert "worker-7.example" in said.partition(f"\n{ledger_id}\n")[2]
    assert "b3" == auditor
    assert "Auditor: b3" in elected


@pytest.mark.parametrize("digest", list(DigestType), ids=lambda digest: digest.name)
def test_ordinary_client_reads_our_entries(
    shared_cluster: RealCluster, ledger_ids: Iterator[int], digest: DigestType
) -> None:
    """Every entry of a ledger placed by a test is read by BookKeeper's own client, which verifies
    each digest.
    """
    ledger_id = next(ledger_ids)
    metadata = ledger(f"{TWO_SEGMENTS} {digest.name.lower()}")
    shared_cluster.place(ledger_id, metadata, password=b"pw")

    said = shared_cluster.shell("readledger", "-ledgerid", str(ledger_id))

    read = re.findall(r"Lid=(\d+), Eid=(\d+), EntrySize=(\d+)", said)
    assert read == [
        (str(ledger_id), str(entry_id), str(8 * (entry_id + 1))) for entry_id in range(20)
    ]


def test_we_read_what_the_ordinary_client_wrote(shared_cluster: RealCluster) -> None:
    """A ledger written by BookKeeper's own client has the metadata, the striping and the
    registrations that the tests expect.
    """
    ledger_id = shared_cluster.write_as_client(3, 2, 2, entries=20, password="pw")

    metadata = ledger_metadata.decode(
        shared_cluster.zk.get(shared_cluster.ledger_path(ledger_id))[0]
    )

    sizes = (
        metadata.state,
        metadata.ensemble_size,
        metadata.write_quorum,
        metadata.ack_quorum,
        metadata.last_entry_id,
    )
    assert sizes == (LedgerState.CLOSED, 3, 2, 2, 19)
    assert (metadata.digest_type, metadata.custom_metadata) == (
        DigestType.CRC32C,
        (("application", b"tests"),),
    )
    for bookie_id, runs in placement(metadata).items():
        assert listed(shared_cluster, bookie_id, ledger_id) == runs
        registered, _ = shared_cluster.zk.get(
            f"{shared_cluster.root}{znode_paths.AVAILABLE}/{bookie_id}"
        )
        endpoint = bookie_registration.decode(bookie_id, registered)
        assert (endpoint.host, endpoint.port) == shared_cluster.address(bookie_id)


def test_entries_lie_where_the_test_put_them(
    shared_cluster: RealCluster, ledger_ids: Iterator[int]
) -> None:
    """`hold` puts exactly the entries of its runs on exactly that bookie; `place` leaves out the
    lost ones.
    """
    held, placed = next(ledger_ids), next(ledger_ids)
    shared_cluster.hold("b2", held, "3-4 7 1200-1202")
    shared_cluster.place(placed, ledger("e3 w2 a2  0:[b1 b2 b3]  closed 9"), lose={"b2": "4"})

    assert listed(shared_cluster, "b2", held) == list(holds("3-4 7 1200-1202"))
    assert listed(shared_cluster, "b1", held) == []
    assert listed(shared_cluster, "b1", placed) == list(holds("0 2-3 5-6 8-9"))
    assert listed(shared_cluster, "b2", placed) == list(holds("0-1 3 6-7 9"))
    assert listed(shared_cluster, "b3", placed) == list(holds("1-2 4-5 7-8"))


@pytest.mark.long
def test_bookies_come_and_go(real_cluster: Callable[..., RealCluster]) -> None:
    """A change to a bookie shows in its registration and on its port, and a wiped bookie has lost
    what it held.
    """
    cluster = real_cluster(bookies=3)
    for bookie_id in cluster.bookie_ids:
        cluster.hold(bookie_id, 7, "0-9")

    cluster.stop_bookie("b1")
    assert registered(cluster) == ["b1", "b2", "b3"]
    assert not accepts(cluster, "b1")
    cluster.start_bookie("b1")
    assert listed(cluster, "b1", 7) == [(0, 9)]

    cluster.lose_bookie("b2")
    assert registered(cluster) == ["b1", "b3"]
    assert sorted(cluster.zk.get_children(cluster.root + znode_paths.COOKIES)) == ["b1", "b3"]
    assert not accepts(cluster, "b2")

    cluster.wipe("b1")
    with cluster.connect("b1") as connection:
        assert status_name(connection.ask(read_request(7, 0, 1)).status) == "ENOLEDGER"

    cluster.readonly("b3")
    assert registered(cluster) == ["b1"]
    assert cluster.zk.get_children(cluster.root + znode_paths.READONLY) == ["b3"]
    assert listed(cluster, "b3", 7) == [(0, 9)]


@pytest.fixture(scope="module")
def cluster_of_one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Yield one bookie with DbLedgerStorage, which each test leaves running."""
    with RealCluster(
        tmp_path_factory.mktemp("one"), bookies=1, storage="DbLedgerStorage"
    ) as cluster:
        yield cluster


def test_a_paused_bookie_accepts_and_is_silent(cluster_of_one: RealCluster) -> None:
    """Its port still accepts connections, and nothing is answered until it is resumed."""
    cluster = cluster_of_one
    cluster.pause("b1")
    with cluster.connect("b1") as connection:
        connection.wait_at_most(0.5)
        connection.send(list_request(7, 1))
        with pytest.raises(TimeoutError):
            connection.receive()
    cluster.resume("b1")
    with cluster.connect("b1") as connection:
        assert status_name(connection.ask(list_request(7, 1)).status) == "ENOLEDGER"


def test_a_killed_bookie_leaves_no_library(cluster_of_one: RealCluster) -> None:
    """RocksDB's library, 13 MB, is unpacked in the bookie's own directory and removed with the
    bookie.
    """
    directory = cluster_of_one.directory("b1")
    library = "**/librocksdbjni*"
    assert 1 == len(list(directory.glob(library)))
    cluster_of_one.kill_bookie("b1")
    left = list(directory.glob(library))
    cluster_of_one.start_bookie("b1")
    assert [] == left


def test_servers_die_with_the_test_run(tmp_path: Path) -> None:
    """A test run that is killed outright leaves no server behind."""
    script = (
        "import sys, time; from pathlib import Path; sys.path.insert(0, sys.argv[1])\nfrom"
        " support.real_bookkeeper import start_zookeeper; from support.real_jars import"
        " bookkeeper_jars\nfrom support.real_processes import"
        " free_port\nprint(start_zookeeper(bookkeeper_jars(), Path(sys.argv[2]), free_port()).pid,"
        " flush=True); time.sleep(60)"
    )
    tests = str(Path(__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", script, tests, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        server = Path("/proc") / run.stdout.readline().strip()
        assert b"QuorumPeerMain" in (server / "cmdline").read_bytes()
        run.kill()
    deadline = time.monotonic() + END_WAIT_S
    while server.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not server.exists(), f"{server} outlived its test run"


def accepts(cluster: RealCluster, bookie_id: str) -> bool:
    """Return whether a process listens on the bookie's port."""
    try:
        cluster.connect(bookie_id).close()
    except ConnectionRefusedError:
        return False
    return True


def registered(cluster: RealCluster) -> list[str]:
    """Return the ids under `available`, without `readonly`."""
    return sorted(
        name
        for name in cluster.zk.get_children(cluster.root + znode_paths.AVAILABLE)
        if name != "readonly"
    )

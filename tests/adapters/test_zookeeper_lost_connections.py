"""Reading many znodes from a real ZooKeeper over unreliable connections, and from a server without
multiRead.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.serialization import Sync
from support.zookeeper_many_znodes import (
    COUNT,
    PATHS,
    assert_all_read,
    assert_same_both_ways,
    record_sent,
    seed,
    session,
)
from support.zookeeper_process import ZooKeeperProcess, release_classpath, zookeeper
from support.zookeeper_proxy import refusing
from support.zookeeper_znodes import QUICK, STEADY, Znodes, ledger_bytes, uri, znodes

from auditor.model.ledger import RecordStatus, ReplicationLock
from auditor.wire import underreplication_mark, znode_paths
from auditor.wire.znode_paths import LedgerLayout
from auditor.zookeeper.metadata_store import open_store
from auditor.zookeeper.multi_read import CONNECTION_LOSS, MULTI_READ, OK
from auditor.zookeeper.reading import read_many
from auditor.zookeeper.session import Session, connect

H = LedgerLayout.HIERARCHICAL
SYNC = Sync.type
BACK_TIMEOUT_S = 45


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ZooKeeperProcess]:
    """Yield a server for one test, to be stopped and paused."""
    with zookeeper(tmp_path / "zookeeper") as process:
        with znodes(process.hosts) as client:
            seed(client)
        yield process


@pytest.fixture(scope="module")
def seeded(tree: Znodes) -> Znodes:
    seed(tree)
    return tree


def test_a_restarted_server_costs_repeats_and_no_item(own_server: ZooKeeperProcess) -> None:
    """The connection is lost in the middle and restored: every item is there, once, in order."""
    patient = replace(QUICK, zookeeper_retries=30)
    with (
        connect(uri(own_server.hosts, "/data"), patient) as reader,
        ThreadPoolExecutor(1) as beside,
    ):
        items = read_many(reader, PATHS)
        got = [next(items).path for _ in range(10)]
        own_server.stop()
        rest = beside.submit(list, items)
        deadline = time.monotonic() + 30
        while reader.counts.repeats == 0:
            assert time.monotonic() < deadline, "the lost connection was not noticed within 30 s"
            time.sleep(0.02)
        own_server.start()
        got += [item.path for item in rest.result(timeout=60) if item.error == OK]
        assert got == PATHS
        assert_all_read(reader)


def test_an_expired_session_costs_repeats_and_no_item(own_server: ZooKeeperProcess) -> None:
    """The server forgets the session in the middle: kazoo opens another, and every item is
    there.
    """
    with session(own_server) as reader:
        items = read_many(reader, PATHS)
        got = [next(items).path]
        expire(own_server, reader)
        got += [item.path for item in items if item.error == OK]
        assert got == PATHS


@pytest.mark.timeout(90)
@pytest.mark.parametrize("as_one", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_server_gone_for_good_leaves_items_that_say_so(
    own_server: ZooKeeperProcess, as_one: bool
) -> None:
    """Unreadable items are lost one by one, without a wait for each batch; once the server is back,
    reads work.
    """
    with connect(
        uri(own_server.hosts, "/data"), replace(QUICK, zookeeper_batch_paths=10)
    ) as reader:
        if not as_one:
            reader.multi_read = False
        items = read_many(reader, PATHS)
        first = next(items)
        own_server.stop()
        rest = list(items)
        assert [first.path, *(item.path for item in rest)] == PATHS
        assert {CONNECTION_LOSS} == {item.error for item in rest[100:]}
        assert reader.counts.reads_failed >= COUNT - 100
        own_server.start()
        await_back(reader)
        assert_all_read(reader)


def await_back(reader: Session) -> None:
    """Wait until a read is answered again: a server that has just started may drop connections."""
    deadline = time.monotonic() + BACK_TIMEOUT_S
    while next(read_many(reader, PATHS[:1])).error != OK:
        assert time.monotonic() < deadline, f"no read was answered within {BACK_TIMEOUT_S} s"
        reader.await_connected()


@pytest.mark.timeout(90)
def test_a_silent_server_is_a_lost_one(own_server: ZooKeeperProcess) -> None:
    """A server that keeps the connection and does not answer is given up as well; when it answers
    again, reading works.
    """
    with session(own_server) as reader:
        assert_all_read(reader)
        own_server.pause()
        assert {CONNECTION_LOSS} == {item.error for item in read_many(reader, PATHS)}
        own_server.resume()
        await_back(reader)
        assert_all_read(reader)


@pytest.mark.timeout(90)
def test_ledgers_of_a_lost_store_are_unreadable_and_the_run_goes_on(
    own_server: ZooKeeperProcess,
) -> None:
    """Each id has one record, lost or not, with the reason; nothing is raised, and no id is missing
    or doubled.
    """
    root = "/lost/ledgers"
    ids = list(range(2_000))
    with znodes(own_server.hosts) as client:
        client.layout(root, H)
        client.ledgers(root, H, ids)
    with open_store(uri(own_server.hosts, root), QUICK) as store:
        records = store.read_ledgers(ids, 1, lambda: 0, with_marks=True)
        first = next(records)
        own_server.stop()
        rest = list(records)
    assert first.status is RecordStatus.FOUND
    assert ids == [first.ledger_id, *(record.ledger_id for record in rest)]
    assert {RecordStatus.UNREADABLE} == {record.status for record in rest[1_000:]}
    assert "connection to ZooKeeper was lost" in rest[-1].detail


def test_after_a_sync_no_read_is_older_even_over_another_connection(
    own_server: ZooKeeperProcess,
) -> None:
    """A session that reconnects may reach a server that is behind: it is synced before the first
    read.
    """
    with session(own_server) as reader:
        reader.sync("/data")
        sent = record_sent(reader)
        assert_all_read(reader)
        assert SYNC not in sent
        expire(own_server, reader)
        sent.clear()
        assert_all_read(reader)
    assert [SYNC, *[MULTI_READ] * (COUNT // QUICK.zookeeper_batch_paths)] == sent


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_code_kazoo_does_not_know_is_survived(
    server: ZooKeeperProcess, seeded: Znodes
) -> None:
    """The code ends kazoo's thread; the session restarts it, and reading continues."""
    with (
        refusing(server.port, error=-9_999) as proxy,
        connect(uri(proxy.hosts, "/data"), QUICK) as reader,
    ):
        assert_all_read(reader)
        proxy.opcodes = frozenset({MULTI_READ})
        assert {CONNECTION_LOSS} == {item.error for item in read_many(reader, PATHS[:1])}
        proxy.opcodes = frozenset()
        await_back(reader)
        assert_all_read(reader)


@pytest.mark.real
def test_zookeeper_3_5_is_read_one_by_one(tmp_path: Path) -> None:
    """A real server without multiRead: Unimplemented and a closed connection are noticed once, and
    everything is read.
    """
    root = "/old/ledgers"
    with (
        zookeeper(tmp_path / "zookeeper", release_classpath("3.5.10")) as old,
        znodes(old.hosts) as client,
    ):
        assert b"Zookeeper version: 3.5." in old.four_letter_word(b"srvr")
        seed(client)
        client.layout(root, H)
        client.ledgers(root, H, [1, 2_147_483_647])
        client.put(root + znode_paths.mark_path(1), underreplication_mark.encode(["b1:3181"], None))
        client.put(root + znode_paths.lock_path(1), underreplication_mark.encode_name("worker-1"))
        client.put(
            f"{root}{znode_paths.ELECTION}/V_0000000003",
            underreplication_mark.encode_name("b1:3181"),
        )
        since_ms = client.ctime_ms(root + znode_paths.lock_path(1))
        with session(old, STEADY) as reader:
            assert_all_read(reader)
            assert (reader.multi_read, reader.counts.repeats) == (False, 0)
            assert_same_both_ways(reader)
        with open_store(uri(old.hosts, root), STEADY) as store:
            listing = store.listing_partitions()
            ids = [
                i
                for partition in listing.partitions
                for parent in store.list_ids(partition)
                for i in parent.ledger_ids
            ]
            assert ids == [1, 2_147_483_647]
            assert [(1, ReplicationLock("worker-1", since_ms))] == [
                (i, m.lock) for i, m in store.marks().by_ledger.items()
            ]
            assert "b1:3181" == store.elected_auditor()
            records = list(store.read_ledgers([*ids, 3], 1, lambda: 0, with_marks=True))
        assert [record.status for record in records] == [
            RecordStatus.FOUND,
            RecordStatus.FOUND,
            RecordStatus.GONE,
        ]
        assert len(ledger_bytes()) > 0 and records[0].mark is not None and records[1].mark is None
        assert ReplicationLock("worker-1", since_ms) == records[0].mark.lock


def expire(server: ZooKeeperProcess, reader: Session) -> None:
    """Expire the reader's session, as a server does that has not heard from it for long; wait until
    it has another.
    """
    session_id = reader._client.client_id
    twin = KazooClient(server.hosts, client_id=session_id)
    twin.start(timeout=30)
    twin.stop()
    twin.close()
    deadline = time.monotonic() + 30
    while reader._client.client_id in (None, session_id):
        assert time.monotonic() < deadline, "the reader did not get another session within 30 s"
        time.sleep(0.02)

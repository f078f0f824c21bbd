"""Reading many znodes over reliable connections: by multiRead and one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kazoo.protocol.serialization import GetChildren, GetData, Sync
from support.zookeeper_many_znodes import (
    PATHS,
    Server,
    assert_all_read,
    assert_same_both_ways,
    record_sent,
    seed,
    session,
)
from support.zookeeper_znodes import STEADY, Znodes, uri

from auditor.model.ledger import RecordStatus
from auditor.wire.znode_paths import LedgerLayout
from auditor.zookeeper.metadata_store import open_store
from auditor.zookeeper.multi_read import MULTI_READ, NO_NODE
from auditor.zookeeper.reading import (
    REQUEST_BYTES_MAX,
    read_many,
    supports_multi_read,
)
from auditor.zookeeper.session import connect

pytestmark = pytest.mark.also_in_memory

H = LedgerLayout.HIERARCHICAL
SYNC = Sync.type


@pytest.fixture(scope="module")
def seeded(tree: Znodes) -> Znodes:
    seed(tree)
    return tree


def test_multi_read_is_the_single_reads_item_by_item(server: Server, seeded: Znodes) -> None:
    """Both ways of reading agree on data, stats, children and errors."""
    with session(server, STEADY) as reader:
        assert_same_both_ways(reader)


def test_a_request_stays_below_what_servers_take(server: Server, seeded: Znodes) -> None:
    """Large batches of long paths are split before a request becomes too large for a server, which
    would drop the connection.
    """
    paths = [f"/data/{number:04}" + "x" * 2_000 for number in range(2_000)]
    limits = replace(STEADY, zookeeper_batch_paths=100_000)
    with connect(uri(server.hosts, "/data"), limits) as reader:
        items = list(read_many(reader, paths))
        assert reader.counts.repeats == 0
    assert sum(map(len, paths)) > 4 * REQUEST_BYTES_MAX
    assert [(path, NO_NODE) for path in paths] == [item[:2] for item in items]


def test_reads_are_counted_by_outcome(server: Server, seeded: Znodes) -> None:
    """A missing znode is an answer; an unreadable one is a failed read; bytes are the data
    received.
    """
    with session(server, STEADY) as reader:
        assert supports_multi_read(reader)
        assert (reader.counts.reads, reader.counts.reads_ok) == (
            1,
            1,
        ), "to find that out takes a read"
        list(read_many(reader, ["/odd/shut", "/odd/nope", PATHS[0], "/odd/large"]))
        assert (reader.counts.reads, reader.counts.reads_ok, reader.counts.reads_failed) == (
            5,
            4,
            1,
        )
        assert len(PATHS[0]) + 500_000 == reader.counts.received_bytes


def test_only_reads_are_sent(server: Server, seeded: Znodes) -> None:
    """With every request of a store watched, no opcode among them could write."""
    root = "/watched/ledgers"
    seeded.layout(root, H)
    seeded.ledgers(root, H, [1])
    for as_one in (True, False):
        with open_store(uri(server.hosts, root), STEADY) as store:
            store._session.multi_read = as_one
            sent = record_sent(store._session)
            store.cluster_facts()
            store.bookies(1, lambda: 0)
            store.cookies()
            store.marks()
            store.sync()
            store.passwords([1, 2])
            ids = [
                i
                for portion in store.listing_partitions().partitions
                for p in store.list_ids(portion)
                for i in p.ledger_ids
            ]
            assert [RecordStatus.FOUND] == [
                record.status for record in store.read_ledgers(ids, 1, lambda: 0, with_marks=True)
            ]
        reads = {MULTI_READ, SYNC} if as_one else {GetData.type, GetChildren.type, SYNC}
        assert reads == set(sent)


def test_a_reader_that_stops_early_leaves_the_session_usable(
    server: Server, seeded: Znodes
) -> None:
    """Answers that are no longer wanted do not reach the next reader."""
    with session(server, STEADY) as reader:
        first = next(iter(read_many(reader, PATHS)))
        assert first.path == PATHS[0]
        assert_all_read(reader)

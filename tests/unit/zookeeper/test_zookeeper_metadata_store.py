"""What a store says when its connection is lost at any point, and what it says of znodes outside of
its cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss
from support.zookeeper_in_memory import MemoryZooKeeper
from support.zookeeper_znodes import QUICK, ledger_bytes, uri

from auditor.errors import StoreUnavailable
from auditor.model.ledger import LedgerRecord, RecordStatus
from auditor.wire import bookie_registration, ledger_metadata, underreplication_mark, znode_paths
from auditor.wire.znode_paths import LedgerLayout
from auditor.zookeeper import metadata_store
from auditor.zookeeper.cluster import VOTES_READ_MAX
from auditor.zookeeper.metadata_store import MetadataStore, open_store
from auditor.zookeeper.multi_read import GET_DATA, MultiRead

H = LedgerLayout.HIERARCHICAL
ROOT = "/a/ledgers"
NOW_MS = 1_700_000_000_000
IDS = (1, 2, 70_000, 2**40)
LIMITS = replace(QUICK, zookeeper_batch_paths=2, zookeeper_retries=1)
READS: dict[str, Callable[[MetadataStore], Any]] = {
    "cluster_facts": lambda store: store.cluster_facts(),
    "bookies": lambda store: store.bookies(1, lambda: NOW_MS),
    "cookies": lambda store: store.cookies(),
    "raw": lambda store: store.raw(f"{ROOT}/LAYOUT"),
    "listing": lambda store: [
        list(store.list_ids(one)) for one in store.listing_partitions(1).partitions
    ],
    "marks": lambda store: store.marks(),
    "elected_auditor": lambda store: store.elected_auditor(),
    "sync": lambda store: store.sync(),
}
"""What tells of the cluster as a whole."""


COOKIE = b'4\nbookieHost: "b2:1"\nledgerDirs: "2\\t/d1\\t/d2"\ninstanceId: "theirs"\n'


@pytest.fixture
def store(server: MemoryZooKeeper) -> MetadataStore:
    """A cluster with something of everything."""
    server.layout(ROOT, H)
    server.ledgers(ROOT, H, IDS)
    server.put(f"{ROOT}/INSTANCEID", b"id")
    for number in (1, 2, 3):
        server.put(f"{ROOT}/available/b{number}:1", bookie_registration.encode("10.0.0.1", number))
        server.put(f"{ROOT}/cookies/b{number}:1")
        server.put(
            f"{ROOT}{znode_paths.ELECTION}/V_{number}",
            underreplication_mark.encode_name(f"b{number}:1"),
        )
    for ledger_id in IDS:
        server.put(
            ROOT + znode_paths.mark_path(ledger_id), underreplication_mark.encode(["b1:1"], None)
        )
        server.put(
            ROOT + znode_paths.lock_path(ledger_id), underreplication_mark.encode_name("worker")
        )
    return open_store(uri(server.hosts, ROOT), LIMITS)


def lose_after(server: MemoryZooKeeper, answers: int) -> None:
    """The server is gone for good after so many answers."""
    last = len(server.sent) + answers

    def before_answer(request: Any) -> None:
        if len(server.sent) > last:
            server.stop()
            raise ConnectionLoss

    server.before_answer = before_answer


def whole_or_unavailable(
    server: MemoryZooKeeper, store: MetadataStore, read: Callable[[], Any]
) -> int:
    """Lose the connection before each request in turn; return how many it takes until the answer is
    there, and whole.
    """
    whole = read()
    for answers in range(100):
        lose_after(server, answers)
        try:
            assert whole == read(), answers
            return answers
        except StoreUnavailable:
            server.before_answer = lambda request: None
            server.start()
    raise AssertionError("no answer after 100 requests")


@pytest.mark.parametrize("name", READS)
def test_the_cluster_is_reported_whole_or_not_at_all(
    server: MemoryZooKeeper, store: MetadataStore, name: str
) -> None:
    """The connection may be lost for good at any point: a part of an answer never counts as all of
    it.
    """
    assert whole_or_unavailable(server, store, lambda: READS[name](store)) >= 1
    assert store.problems == []


def test_the_root_is_found_or_the_store_is_closed(
    server: MemoryZooKeeper, store: MetadataStore
) -> None:
    """A session that found no cluster is not left open."""
    store.close()

    def read() -> str:
        with open_store(uri(server.hosts, ROOT), LIMITS) as another:
            return another.root

    assert whole_or_unavailable(server, store, read) >= 1
    assert all(client.ended == ["stop", "close"] for client in server.clients)


@pytest.mark.parametrize("with_marks", [True, False])
def test_a_ledger_is_read_whole_or_unreadable(
    server: MemoryZooKeeper, store: MetadataStore, with_marks: bool
) -> None:
    """Wherever the connection is lost for good: a record for each id, that of always or one that
    says why it is not.
    """
    ids = (*IDS, 5, -1)
    whole = list(store.read_ledgers(ids, 2, lambda: NOW_MS, with_marks))
    for answers in range(len(ids) * 3 // 2 + 1):
        lose_after(server, answers)
        found = list(store.read_ledgers(ids, 2, lambda: NOW_MS, with_marks))
        server.before_answer = lambda request: None
        server.start()
        for one, other in zip(whole, found, strict=True):
            assert one == other or is_said_unknown(one, other), (answers, other)
    assert whole == found


def is_said_unknown(whole: LedgerRecord, found: LedgerRecord) -> bool:
    """Return whether a record says that what it lacks, its lock or everything, is unknown."""
    if found.mark is not None and found.mark.problem:
        assert whole.mark is not None
        assert "whether it is locked is not known" in found.mark.problem
        found = replace(found, mark=whole.mark)
    unread = (whole.ledger_id, whole.look, whole.read_at_ms, RecordStatus.UNREADABLE)
    is_unread = unread == (found.ledger_id, found.look, found.read_at_ms, found.status)
    return whole == found or (is_unread and "connection to ZooKeeper was lost" in found.detail)


@pytest.mark.parametrize(
    ("data", "status", "detail"),
    [
        (b"junk", RecordStatus.MALFORMED, "does not begin with BookieMetadataFormatVersion"),
        (
            b"BookieMetadataFormatVersion\t4\nwhatever",
            RecordStatus.UNREADABLE,
            "newer than this auditor reads",
        ),
        (
            b"poison",
            RecordStatus.UNREADABLE,
            "the auditor failed to decode the metadata: ZeroDivisionError",
        ),
    ],
)
def test_a_ledger_that_cannot_be_decoded_has_all_else(
    server: MemoryZooKeeper,
    store: MetadataStore,
    monkeypatch: pytest.MonkeyPatch,
    data: bytes,
    status: RecordStatus,
    detail: str,
) -> None:
    """Its id, look, time, stamp and mark, and why; never its bytes, which may hold the password."""
    decode = ledger_metadata.decode

    def decode_or_fail(found: bytes) -> object:
        return decode(found) if found != b"poison" else 1 / 0

    monkeypatch.setattr(ledger_metadata, "decode", decode_or_fail)
    path = ROOT + znode_paths.ledger_path(H, 1)
    server.put(path, data)
    (record,) = store.read_ledgers([1], 2, lambda: NOW_MS, with_marks=True)
    assert detail in record.detail
    mark = store.marks().by_ledger[1]
    stamp = record.stamp
    assert stamp is not None
    assert (1, server.ctime_ms(path), server.mtime_ms(path)) == (
        stamp.version,
        stamp.ctime_ms,
        stamp.mtime_ms,
    )
    without = replace(record, malformed=None)
    assert LedgerRecord(1, 2, NOW_MS, status, stamp, mark=mark, detail=record.detail) == without
    assert (record.malformed is not None) == (status is RecordStatus.MALFORMED)


@pytest.mark.parametrize(
    ("is_there", "status"), [(True, RecordStatus.NOT_AUTHORISED), (False, RecordStatus.GONE)]
)
def test_a_ledger_that_is_not_read_has_its_mark(
    server: MemoryZooKeeper, store: MetadataStore, is_there: bool, status: RecordStatus
) -> None:
    """Unreadable or deleted, it is still marked."""
    path = ROOT + znode_paths.ledger_path(H, 1)
    server.put(path, ledger_bytes(), shut=True)
    if not is_there:
        server.delete(path)
    (record,) = store.read_ledgers([1], 2, lambda: NOW_MS, with_marks=True)
    assert (status, store.marks().by_ledger[1]) == (record.status, record.mark)


def test_a_znode_is_taken_whole_up_to_a_size(
    server: MemoryZooKeeper, store: MetadataStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is larger, or shut, is not read and named as a problem; one that is not there is
    none.
    """
    monkeypatch.setattr(metadata_store, "RAW_BYTES_MAX", 3)
    server.put("/x/three", b"123")
    server.put("/x/four", b"1234")
    server.put("/x/shut", b"1", shut=True)
    assert (b"123", None) == (store.raw("/x/three"), store.raw("/x/none"))
    assert store.problems == []
    assert (None, None, None) == (store.raw("/x/four"), store.raw("/x/shut"), store.raw("/x/four"))
    too_large, shut = store.problems
    assert "znode /x/four is larger than 3 bytes" in too_large
    assert "znode /x/shut may not be read by this session" in shut


def test_a_sync_names_a_path_below_root(server: MemoryZooKeeper, store: MetadataStore) -> None:
    """The default is ROOT itself."""
    store.sync()
    store.sync("/cookies")
    assert [ROOT, f"{ROOT}/cookies"] == [request.path for request in server.sent[-2:]]


def test_a_vote_that_ends_between_list_and_read_leaves_the_office_to_the_next(
    server: MemoryZooKeeper, store: MetadataStore
) -> None:
    """Its auditor has just gone; the next in line is the auditor by now."""

    def before_answer(request: Any) -> None:
        if isinstance(request, MultiRead) and request.paths[0].endswith("/V_1"):
            server.before_answer = lambda request: None
            server.delete(f"{ROOT}{znode_paths.ELECTION}/V_1")

    server.before_answer = before_answer
    assert "b2:1" == store.elected_auditor()


def test_few_votes_are_read(server: MemoryZooKeeper, store: MetadataStore) -> None:
    """However many candidates there are, the first ones are enough."""
    for number in range(VOTES_READ_MAX):
        server.put(
            f"{ROOT}{znode_paths.ELECTION}/V_{number + 10}",
            underreplication_mark.encode_name("b9:1"),
        )
    with open_store(uri(server.hosts, ROOT), QUICK) as many_at_once:
        server.sent.clear()
        assert "b1:1" == many_at_once.elected_auditor()
    read = [
        path for request in server.sent if request.operation == GET_DATA for path in request.paths
    ]
    assert VOTES_READ_MAX >= len(read)


def test_a_lent_session_is_used_again_and_stays_open(store: MetadataStore) -> None:
    """Whoever borrows it reads the same cluster, and its reads count. Closing leaves it open."""
    before = store.counts.reads
    address = store.lent()
    assert (store.root, store.layout) == (address.root, address.layout)
    for _ in range(2):
        with address.open() as borrowed:
            assert store.cookies() == borrowed.cookies()
    assert store.counts.reads > before
    assert store.counts.reads == borrowed.counts.reads


def test_a_cookie_is_read_with_its_creation(server: MemoryZooKeeper, store: MetadataStore) -> None:
    """One that is not understood has a creation and no contents, and a bookie without one has
    neither.
    """
    server.put(f"{ROOT}/cookies/b2:1", COOKIE)
    server.put(f"{ROOT}/cookies/b3:1", b"3\nb3:1\n/journal\n1\t/d\n")
    server.put(f"{ROOT}/available/b4:1", bookie_registration.encode("10.0.0.1", 4))
    found = {record.bookie_id: record for record in store.bookies(1, lambda: NOW_MS)}
    assert ("theirs", ("/d1", "/d2")) == (
        found["b2:1"].cookie_instance_id,
        found["b2:1"].cookie_directories,
    )
    for bookie in ("b1:1", "b3:1"):
        record = found[bookie]
        assert (None, None) == (record.cookie_instance_id, record.cookie_directories)
        assert record.cookie_czxid is not None and record.cookie_created_ms is not None
    assert (None, None) == (found["b4:1"].cookie_czxid, found["b4:1"].cookie_created_ms)

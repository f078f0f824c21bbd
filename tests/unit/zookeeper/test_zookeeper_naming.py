"""Which ledgers name a bookie, and what is said of those that cannot be read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kazoo.protocol.serialization import Sync
from support.zookeeper_in_memory import MemoryZooKeeper
from support.zookeeper_znodes import QUICK, closed_ledger, ledger_bytes, uri

from auditor.model.cluster import Naming, NamingLedger
from auditor.model.ledger import LedgerMetadata, LedgerState, Segment
from auditor.wire import underreplication_mark, znode_paths
from auditor.wire.znode_paths import LedgerLayout
from auditor.zookeeper.metadata_store import open_store
from auditor.zookeeper.naming import UNREAD_SHOWN_MAX, ledgers_naming

H = LedgerLayout.HIERARCHICAL
ROOT = "/a/ledgers"
NOW_MS = 1_700_000_000_000
B4 = "b4:3181"
"""In `closed_ledger` the second of three bookies from entry 10 on."""


@pytest.fixture(autouse=True)
def _cluster(server: MemoryZooKeeper) -> None:
    server.layout(ROOT, H)


def add(server: MemoryZooKeeper, ledger_id: int, metadata: LedgerMetadata | None = None) -> None:
    server.put(ROOT + znode_paths.ledger_path(H, ledger_id), ledger_bytes(metadata))


def naming(server: MemoryZooKeeper, bookie_id: str = B4) -> tuple[Naming, int]:
    """What names the bookie, and how often a ledger was said to be read."""
    read: list[None] = []
    with open_store(uri(server.hosts, ROOT), QUICK) as store:
        found = ledgers_naming(store, bookie_id, lambda: NOW_MS, lambda: read.append(None))
        assert found == ledgers_naming(store, bookie_id, lambda: NOW_MS)
    return found, len(read)


def held(metadata: LedgerMetadata, bookie_id: str) -> int:
    """How many entries the bookie should hold, entry by entry."""
    count = 0
    for entry_id in range((metadata.last_entry_id or 0) + 1):
        segment = [one for one in metadata.segments if one.first_entry_id <= entry_id][-1]
        set_of_entry = {
            segment.ensemble[(entry_id + n) % metadata.ensemble_size]
            for n in range(metadata.write_quorum)
        }
        count += bookie_id in set_of_entry
    return count


@pytest.mark.parametrize("bookie_id", ["b1:3181", "b2:3181", "b3:3181", B4])
def test_segments_and_entries_are_those_of_the_bookie(
    server: MemoryZooKeeper, bookie_id: str
) -> None:
    """Of a closed ledger, the entries it should hold over all its segments, counted here one by
    one.
    """
    metadata = closed_ledger()
    add(server, 1, metadata)
    add(server, 2, replace(metadata, last_entry_id=10))
    found, read = naming(server, bookie_id)
    segments = sum(bookie_id in segment.ensemble for segment in metadata.segments)
    entries = [held(replace(metadata, last_entry_id=last), bookie_id) for last in (29, 10)]
    assert (
        tuple(
            NamingLedger(i, LedgerState.CLOSED, 2, segments, entries[i - 1], False) for i in (1, 2)
        )
        == found.ledgers
    )
    assert (bookie_id, 2, 2, 0) == (found.bookie_id, found.listed, read, found.unread)


CLOSED = closed_ledger()
ENSEMBLE = CLOSED.segments[0].ensemble


@pytest.mark.parametrize(
    ("metadata", "entries"),
    [
        (replace(CLOSED, state=LedgerState.OPEN, last_entry_id=None), None),
        (replace(CLOSED, state=LedgerState.IN_RECOVERY, last_entry_id=None), None),
        (replace(CLOSED, state=LedgerState.OPEN, last_entry_id=-1), None),
        (replace(CLOSED, last_entry_id=None), None),
        (replace(CLOSED, segments=(Segment(5, ENSEMBLE),)), None),
        (replace(CLOSED, segments=(Segment(10, ENSEMBLE), Segment(0, ENSEMBLE))), None),
        (replace(CLOSED, last_entry_id=-1, segments=(Segment(0, ENSEMBLE),)), 0),
        (replace(CLOSED, last_entry_id=0, segments=(Segment(0, ENSEMBLE),)), 1),
    ],
)
def test_entries_are_not_known_where_the_metadata_is_not_clear(
    server: MemoryZooKeeper, metadata: LedgerMetadata, entries: int | None
) -> None:
    """Not closed, without a last entry, or with segments that leave some out or contradict each
    other.
    """
    add(server, 1, metadata)
    (ledger,) = naming(server, "b1:3181")[0].ledgers
    assert (metadata.state, entries) == (ledger.state, ledger.entries)


def test_ledgers_come_by_id_and_those_of_others_do_not(server: MemoryZooKeeper) -> None:
    """Also where the tree lists a long id before a short one."""
    ids = [7, 100_000_000, 2**31]
    for ledger_id in (*ids, 8):
        segments = (Segment(0, ENSEMBLE),) if ledger_id == 8 else CLOSED.segments
        add(server, ledger_id, replace(CLOSED, segments=segments))
    found, read = naming(server)
    assert (ids, 4, 4) == ([ledger.ledger_id for ledger in found.ledgers], found.listed, read)


def test_ledgers_that_cannot_be_read_are_counted_and_a_few_named(server: MemoryZooKeeper) -> None:
    """They may name the bookie too; each was listed and read."""
    for ledger_id in range(UNREAD_SHOWN_MAX + 2):
        server.put(ROOT + znode_paths.ledger_path(H, ledger_id), ledger_bytes(), shut=True)
    add(server, 500)
    found, read = naming(server)
    count = UNREAD_SHOWN_MAX + 2
    assert (count + 1, count, count + 1) == (found.listed, found.unread, read)
    assert list(range(UNREAD_SHOWN_MAX)) == [ledger_id for ledger_id, _ in found.unread_shown]
    assert all("may not be read" in detail for _, detail in found.unread_shown)
    assert [500] == [ledger.ledger_id for ledger in found.ledgers]


def test_a_ledger_that_vanishes_names_nobody(server: MemoryZooKeeper) -> None:
    """Deleted between list and read, it does not count as unreadable."""
    add(server, 1)
    path = ROOT + znode_paths.ledger_path(H, 1)

    def before_answer(request: Any) -> None:
        if path in getattr(request, "paths", ()):
            server.before_answer = lambda request: None
            server.delete(path)

    server.before_answer = before_answer
    with open_store(uri(server.hosts, ROOT), QUICK) as store:
        found = ledgers_naming(store, B4, lambda: NOW_MS)
    assert (1, 0, (), ()) == (found.listed, found.unread, found.unread_shown, found.ledgers)


def test_a_mark_is_known_or_it_is_not(server: MemoryZooKeeper) -> None:
    """A ledger whose mark was read is marked; where a part of the marks may not be read, the others
    are unknown.
    """
    for ledger_id in (1, 70_000):
        add(server, ledger_id)
    server.put(ROOT + znode_paths.mark_path(1), underreplication_mark.encode([B4], None))
    found, _ = naming(server)
    assert ("", [True, False]) == (
        found.marks_problem,
        [ledger.is_marked for ledger in found.ledgers],
    )
    server.put(
        ROOT + znode_paths.mark_path(70_000), underreplication_mark.encode([B4], None), shut=True
    )
    found, _ = naming(server)
    assert "may not be read" in found.marks_problem
    assert [True, None] == [ledger.is_marked for ledger in found.ledgers]


def test_the_bookie_is_reported_with_its_record_or_as_unheard_of(server: MemoryZooKeeper) -> None:
    """By its id, as it is registered now."""
    for bookie_id in ("a:1", B4):
        server.put(f"{ROOT}/cookies/{bookie_id}")
    bookie = naming(server)[0].bookie
    assert bookie is not None
    assert (B4, 1, NOW_MS, True) == (
        bookie.bookie_id,
        bookie.look,
        bookie.read_at_ms,
        bookie.has_cookie,
    )
    assert naming(server, "b9:1")[0].bookie is None


def test_what_is_read_is_not_older_than_the_question_and_read_once(server: MemoryZooKeeper) -> None:
    """A sync comes first; each ledger costs one read."""
    for ledger_id in range(10):
        add(server, ledger_id)
    with open_store(uri(server.hosts, ROOT), QUICK) as store:
        server.sent.clear()
        ledgers_naming(store, B4, lambda: NOW_MS)
    assert isinstance(server.sent[0], Sync)
    read = [path for request in server.sent[1:] for path in request.paths]
    ledger_paths = [ROOT + znode_paths.ledger_path(H, ledger_id) for ledger_id in range(10)]
    assert [1] * 10 == [read.count(path) for path in ledger_paths]
    beside = (znode_paths.mark_path(0), znode_paths.lock_path(0))
    assert not {ROOT + path for path in beside} & set(read)

"""Bookies in a real ZooKeeper: registrations and cookies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.zookeeper_many_znodes import Server
from support.zookeeper_znodes import STEADY, Znodes, uri

from auditor.errors import StoreUnavailable
from auditor.model.cluster import BookieRecord, Registration
from auditor.wire import bookie_registration
from auditor.wire.znode_paths import LedgerLayout
from auditor.zookeeper.metadata_store import open_store

pytestmark = pytest.mark.also_in_memory

NOW_MS = 1_700_000_000_000
COOKIE = b'5\nbookieHost: "10.0.0.1:3181"\njournalDir: "/j"\nledgerDirs: "1\\t/l"\n'


def bookies(server: Server, root: str) -> list[BookieRecord]:
    with open_store(uri(server.hosts, root), STEADY) as store:
        return store.bookies(look=1, now_ms=lambda: NOW_MS)


def test_each_bookie_once_with_where_it_is(server: Server, tree: Znodes) -> None:
    """Writable, read-only, registered without an address (the id is one), or gone with its cookie
    left; sorted by id. The cookie says which directories the bookie has, its znode how old it is.
    """
    root = "/bookies/ledgers"
    tree.layout(root, LedgerLayout.HIERARCHICAL)
    tree.put(f"{root}/available/bookie-a", bookie_registration.encode("10.0.0.1", 3181))
    tree.put(f"{root}/available/readonly/bookie-b", bookie_registration.encode("10.0.0.2", 3182))
    tree.put(f"{root}/available/10.0.0.3:3183")
    for bookie_id in ("bookie-a", "bookie-d"):
        tree.put(f"{root}/cookies/{bookie_id}", COOKIE)
    none, writable, readonly = Registration.NONE, Registration.WRITABLE, Registration.READONLY
    from_cookie: Any = {"cookie_directories": ("/l",)}
    records = bookies(server, root)
    assert [
        BookieRecord("10.0.0.3:3183", 1, NOW_MS, writable, "10.0.0.3", 3183, has_cookie=False),
        BookieRecord(
            "bookie-a", 1, NOW_MS, writable, "10.0.0.1", 3181, has_cookie=True, **from_cookie
        ),
        BookieRecord("bookie-b", 1, NOW_MS, readonly, "10.0.0.2", 3182, has_cookie=False),
        BookieRecord("bookie-d", 1, NOW_MS, none, has_cookie=True, **from_cookie),
    ] == [replace(record, cookie_czxid=None, cookie_created_ms=None) for record in records]
    assert [record.has_cookie for record in records] == [
        record.cookie_czxid is not None and record.cookie_created_ms is not None
        for record in records
    ]


def test_registered_in_both_places_counts_as_writable(server: Server, tree: Znodes) -> None:
    """A bookie that becomes read-only is registered twice for a moment: one record, from the place
    that BookKeeper reads first.
    """
    root = "/both/ledgers"
    tree.layout(root, LedgerLayout.HIERARCHICAL)
    tree.put(f"{root}/available/b1", bookie_registration.encode("10.0.0.1", 1))
    tree.put(f"{root}/available/readonly/b1", bookie_registration.encode("10.0.0.1", 2))
    (record,) = bookies(server, root)
    assert (record.registration, record.port) == (Registration.WRITABLE, 1)


def test_a_registration_that_cannot_be_read_is_one_without_address(
    server: Server, tree: Znodes
) -> None:
    """The registration may be undecodable, without a bookie's endpoint, under an odd name, or
    unreadable: the bookie is registered, and the reason is given.
    """
    root = "/odd-bookies/ledgers"
    tree.layout(root, LedgerLayout.HIERARCHICAL)
    tree.put(f"{root}/available/b1", b"\xff\xff\xff")
    tree.put(f"{root}/available/b2")  # no data, and the id is no address
    tree.put(f"{root}/available/readonly/b3", bookie_registration.encode("10.0.0.1", 1), shut=True)
    tree.put(f"{root}/available/no bookie id", bookie_registration.encode("10.0.0.1", 1))
    records = {record.bookie_id: record for record in bookies(server, root)}
    assert records.keys() == {"b1", "b2", "b3", "no bookie id"}
    for record in records.values():
        assert (record.host, record.port) == (None, None), record
        assert record.problem, record
    assert f"{root}/available/readonly/b3 may not be read" in records["b3"].problem
    assert {Registration.READONLY} == {records["b3"].registration}
    assert all(
        record.registration is Registration.WRITABLE
        for bookie_id, record in records.items()
        if bookie_id != "b3"
    )


def test_cookies_are_the_bookies_not_decommissioned(server: Server, tree: Znodes) -> None:
    """Cookies are listed by id; a cluster without such a znode has none."""
    root = "/cookies-only/ledgers"
    tree.layout(root, LedgerLayout.HIERARCHICAL)
    tree.put(f"{root}/cookies/b1", COOKIE)
    with open_store(uri(server.hosts, root), STEADY) as store:
        assert {"b1"} == store.cookies()
        tree.delete(f"{root}/cookies")
        assert set() == store.cookies()
        assert store.bookies(1, lambda: NOW_MS) == []


@pytest.mark.parametrize("shut", ["available", "available/readonly", "cookies"])
def test_a_list_of_bookies_that_may_not_be_read_is_no_empty_list(
    server: Server, tree: Znodes, shut: str
) -> None:
    """An unknown set of bookies is not an empty one."""
    root = f"/shut-{shut.replace('/', '-')}-bookies/ledgers"
    tree.layout(root, LedgerLayout.HIERARCHICAL)
    tree.put(f"{root}/{shut}", shut=True)
    with (
        open_store(uri(server.hosts, root), STEADY) as store,
        pytest.raises(StoreUnavailable, match=f"{root}/{shut} may not"),
    ):
        store.bookies(1, lambda: NOW_MS)

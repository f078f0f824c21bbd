"""Whether bookies have room for the copies of others."""

from __future__ import annotations

import pytest
from support.closed_ledgers import closed_copies

from auditor.after.absorbing import Absorption, absorption_of
from auditor.after.stored_copies import StoredCopies, bytes_on
from auditor.model.cluster import BookieRecord, Registration

GB = 10**9
RACKS = {"b1": "/r1", "b2": "/r2", "b4": "/r1"}


def on_b1(length: int) -> StoredCopies:
    return closed_copies({1: "e1 w1 a1 0:[b1] closed 0"}, length)


def disk(name: str, total: int | None, free: int | None, host: str | None = None) -> BookieRecord:
    host = host or f"host-of-{name}"
    return BookieRecord(
        name, 1, 0, Registration.WRITABLE, host, 3181, total_bytes=total, free_bytes=free
    )


@pytest.mark.parametrize(
    ("bookies", "expected"),
    [({"b1"}, 300 + 100), ({"b2"}, 300 + 100), ({"b1", "b2"}, 600 + 200), ({"b9"}, 0)],
)
def test_a_bookie_holds_its_share_of_each_ledger(bookies: set[str], expected: int):
    """Ledger 0 is on both bookies. Of ledger 1, of three entries with one copy each, a third is on
    each of b1, b2 and b3.
    """
    held = closed_copies(
        {0: "e2 w2 a1 0:[b1 b2] closed 9", 1: "e3 w1 a1 0:[b1 b2 b3] closed 2"}, 300
    )
    assert expected == bytes_on(held, bookies)


def test_the_room_is_what_is_free_up_to_the_limit_of_each_disk():
    """Of 100 GB free on a disk of 1,000 GB, 50 GB stay free. A disk that is full has no room."""
    held = on_b1(80 * GB)
    disks = {"b2": disk("b2", 1000 * GB, 100 * GB), "b3": disk("b3", 1000 * GB, 10 * GB)}
    found = absorption_of(held, disks, {"b1"}, {"b2", "b3"}, {"b2": "/r1"})
    assert Absorption(80 * GB, 50 * GB, None, 2, 0, 50 * GB) == found
    assert found.is_too_much and not found.is_open


def test_a_disk_that_bookies_share_counts_once():
    """Two bookies of one host with disks of the same size, and a third on another host, in the rack
    of the bookie that leaves.
    """
    disks = {
        "b2": disk("b2", 1000 * GB, 150 * GB, "h"),
        "b3": disk("b3", 1000 * GB, 149 * GB, "h"),
        "b4": disk("b4", 1000 * GB, 60 * GB),
    }
    found = absorption_of(on_b1(GB), disks, {"b1"}, {"b2", "b3", "b4"}, RACKS)
    assert (99 * GB + 10 * GB, 10 * GB) == (found.room_bytes, found.room_near_bytes)
    assert not found.is_too_much and not found.is_open


@pytest.mark.parametrize(
    ("length", "is_too_much", "is_open"),
    [(99, False, False), (100, False, True), (199, False, True), (200, True, False)],
)
def test_whether_bookies_of_one_host_share_a_disk_is_not_known(
    length: int, is_too_much: bool, is_open: bool
):
    """The room is 99 GB if they do, and 100 + 99 GB if each has a disk of its own."""
    disks = {
        name: disk(name, 1000 * GB, free * GB, "h") for name, free in (("b2", 150), ("b3", 149))
    }
    found = absorption_of(on_b1(length * GB), disks, {"b1"}, {"b2", "b3"}, {})
    assert (is_too_much, is_open) == (found.is_too_much, found.is_open)


def test_unknown_disks_leave_a_shortage_open():
    """b3 did not say how full it is, and b4 is new."""
    disks = {"b2": disk("b2", 1000 * GB, 60 * GB), "b3": disk("b3", None, None)}
    held = on_b1(80 * GB)
    found = absorption_of(held, disks, {"b1"}, {"b2", "b3", "b4"}, {})
    assert (1, 2, False, True) == (found.known, found.unknown, found.is_too_much, found.is_open)
    assert not absorption_of(on_b1(GB), disks, {"b1"}, {"b2", "b3"}, {}).is_open

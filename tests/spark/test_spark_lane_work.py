"""What a lane does with its questions, without Spark: which bookies it dials, and what it records
for the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from auditor.config import BookieLimits, ZooKeeperLimits
from auditor.evidence.rows import table
from auditor.model.availability import NO_COOKIE
from auditor.sandbox.bookie import Storage
from auditor.sandbox.cluster import SandboxCluster
from auditor.stages.asking import QUESTIONS, WANTED, Directory, entry_reader, list_asker
from auditor.wire.service_uri import parse
from auditor.zookeeper.metadata_store import StoreAddress

LEDGER, CRC32C = 7, 3
LIMITS = BookieLimits()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield a cluster: ledger 7 is on b1 alone; b2 holds one of its entries, and so does b3, which
    cannot list.
    """
    storages = [Storage.SORTED, Storage.SORTED, Storage.DB]
    with SandboxCluster(tmp_path_factory.mktemp("lane-work"), 3, storage=storages) as cluster:
        cluster.place(LEDGER, cluster.ledger("e1 w1 a1 0:[b1] closed 9"))
        for bookie in ("b2", "b3"):
            cluster.hold(bookie, LEDGER, "4")
        yield cluster


def directory(
    cluster: SandboxCluster, cannot_list: Sequence[str] = (), cookies: frozenset[str] | None = None
) -> Directory:
    addresses = {cluster.id_of(name): cluster.address(name) for name in ("b1", "b2", "b3")}
    return Directory(
        {**addresses, "unreadable": None}, frozenset(map(cluster.id_of, cannot_list)), cookies
    )


def reads(
    cluster: SandboxCluster, where: Directory, wanted: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], str]:
    """Return the status of each read of ledger 7."""
    address = StoreAddress(
        parse(cluster.metadata_service_uri), cluster.root, cluster.layout, ZooKeeperLimits()
    )
    rows = table(
        WANTED,
        [
            (cluster.id_of(name), LEDGER, entry, CRC32C, False, False, False, False)
            for name, entry in wanted
        ],
    )
    rows_read = rows_of(entry_reader(where, LIMITS, 1, address)(iter([rows])))
    by_id = {(row["bookie_id"], row["entry_id"]): row["status"] for row in rows_read}
    assert len(by_id) == len(rows_read) == len(wanted)
    return {(name, entry): by_id[cluster.id_of(name), entry] for name, entry in wanted}


def lists(where: Directory, bookies: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return status and detail of each bookie's answer about ledger 7."""
    rows = table(QUESTIONS, [(bookie, LEDGER, 64, None, False, True, None) for bookie in bookies])
    answers = [
        row
        for row in rows_of(list_asker(where, LIMITS, 1)(iter([rows])))
        if row["ledger_id"] is not None
    ]
    return {row["bookie_id"]: (row["status"], row["detail"]) for row in answers}


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_bookie_outside_the_ensemble_is_read_like_any_other(cluster: SandboxCluster):
    """A lane belongs to a registered bookie, whatever the ledger's metadata says."""
    expected = {("b1", 4): "present", ("b2", 4): "present", ("b2", 5): "no_entry"}
    assert expected == reads(cluster, directory(cluster), list(expected))


@pytest.mark.parametrize("known", [(), ("b3",)])
def test_a_bookie_that_cannot_list_is_read_all_the_same(
    cluster: SandboxCluster, known: tuple[str, ...]
):
    """It does not matter whether an earlier look found it out: only lists are not asked for
    again.
    """
    expected = {("b3", 4): "present", ("b3", 5): "no_entry"}
    assert expected == reads(cluster, directory(cluster, known), list(expected))
    assert (
        "unsupported"
        == lists(directory(cluster, ("b3",)), [cluster.id_of("b3")])[cluster.id_of("b3")][0]
    )


def test_whom_nobody_can_dial_is_not_read(cluster: SandboxCluster):
    """The reason is recorded, and does not mean absence."""
    expected = {("nobody", 4): "unregistered", ("unreadable", 4): "address_unknown"}
    assert expected == reads(cluster, directory(cluster), list(expected))


def test_gone_is_who_has_neither_registration_nor_cookie(cluster: SandboxCluster):
    """A bookie with a cookie may come back; one with an unreadable registration is registered."""
    where = directory(cluster, cookies=frozenset({"away", "b9"}))
    expected = {
        "nobody": ("unregistered", NO_COOKIE),
        "away": ("unregistered", ""),
        "unreadable": ("address_unknown", ""),
    }
    assert expected == lists(where, list(expected))


def test_where_the_cookies_are_not_known_nobody_is_gone(cluster: SandboxCluster):
    """Unread cookies are not absent ones."""
    assert {"nobody": ("unregistered", "")} == lists(directory(cluster), ["nobody"])

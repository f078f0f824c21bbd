"""Ledgers of the embedded cluster: the znode is as given, and bookies hold what they should."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kazoo.client import KazooClient
from support.raw_bookie import RawBookie, read_request, status_name
from support.sandbox_lists import list_of_entries

from auditor.model.ledger import DigestType, LedgerState
from auditor.sandbox.bookie import LedgerFault
from auditor.sandbox.cluster import SandboxCluster
from auditor.wire import ledger_metadata
from auditor.wire.digest import BodyCheck, check_body
from auditor.wire.entry_availability import encode_runs


@pytest.mark.parametrize("version", [1, 2, 3])
def test_ledgers_are_written_in_every_format(
    cluster: SandboxCluster, zk: KazooClient, version: int
) -> None:
    """The bytes at the ledger's path decode to the metadata that was given."""
    metadata = cluster.ledger(
        "e3 w2 0:[b1 b2 b3] 10:[b1 b4 b3] closed 29" + (" v1" if version == 1 else "")
    )
    cluster.add_ledger(30 + version, metadata, format_version=version)
    decoded = ledger_metadata.decode(zk.get(f"/ledgers/00/0000/L003{version}")[0])
    assert (version, metadata.segments) == (decoded.format_version, decoded.segments)
    assert (LedgerState.CLOSED, 29, metadata.length) == (
        decoded.state,
        decoded.last_entry_id,
        decoded.length,
    )


def test_many_ledgers_are_created_on_both_sides_of_the_id_limit(
    cluster: SandboxCluster, zk: KazooClient
) -> None:
    """Ids below 2**31 - 1 go into the short tree, the others into the long one."""
    metadata = cluster.ledger("e1 w1 0:[b1] closed 0")
    cluster.add_ledgers({2**31 - 1 + n: metadata for n in range(-150, 150)})
    assert zk.exists("/ledgers/21/4748/L3646")
    assert not zk.exists("/ledgers/21/4748/L3647")
    assert zk.exists("/ledgers/000/0000/0021/4748/L3647")


def test_deleted_ledger_takes_its_empty_parents_along(
    cluster: SandboxCluster, zk: KazooClient
) -> None:
    """Parents that are left empty are deleted, and others stay. The same id can be written
    again.
    """
    metadata = cluster.ledger("e1 w1 0:[b1] closed 0")
    cluster.add_ledgers({123456789: metadata, 123450000: metadata})
    cluster.delete_ledger(123456789)
    assert zk.get_children("/ledgers/01/2345") == ["L0000"]
    cluster.delete_ledger(123450000)
    assert zk.exists("/ledgers/01") is None
    cluster.add_ledgers({123456789: metadata})
    assert zk.get_children("/ledgers/01/2345") == ["L6789"]


def test_placed_ledger_is_held_but_for_what_is_lost(cluster: SandboxCluster) -> None:
    """Each bookie lists its share of the ledger without the lost entries. An entry that it holds
    reads back with the right digest.
    """
    metadata = cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed 8")
    cluster.place(40, metadata, lose={"b2": "3-4"})
    assert list_of_entries(cluster, "b1", 40) == ("EOK", encode_runs([0, 2, 3, 5, 6, 8]))
    assert list_of_entries(cluster, "b2", 40) == ("EOK", encode_runs([0, 1, 6, 7]))
    assert list_of_entries(cluster, "b3", 40) == ("EOK", encode_runs([1, 2, 4, 5, 7, 8]))
    assert list_of_entries(cluster, "b4", 40)[0] == "ENOLEDGER"
    with RawBookie(*cluster.address("b1")) as connection:
        body = connection.ask(read_request(40, 8, 1)).readResponse.body
        assert status_name(connection.ask(read_request(40, 1, 2)).status) == "ENOENTRY"
    assert check_body(body, 40, 8, DigestType.CRC32C, None) is BodyCheck.OK


def test_password_and_digest_of_the_ledger_make_its_entries(
    cluster: SandboxCluster, zk: KazooClient
) -> None:
    """An HMAC ledger's entries verify with the password in its metadata."""
    cluster.place(41, cluster.ledger("e1 w1 0:[b1] closed 3 hmac"), password=b"pw")
    with RawBookie(*cluster.address("b1")) as connection:
        body = connection.ask(read_request(41, 3, 1)).readResponse.body
    password = ledger_metadata.password(zk.get("/ledgers/00/0000/L0041")[0])
    assert password == b"pw"
    assert check_body(body, 41, 3, DigestType.HMAC, password) is BodyCheck.OK


def test_raw_bytes_are_written_to_the_given_path(cluster: SandboxCluster, zk: KazooClient) -> None:
    """Bytes are written to a path or as the metadata of a ledger, and replace what is there."""
    cluster.set_raw("/ledgers/00/0000/odd", b"stray")
    cluster.set_raw(42, b"no metadata")
    cluster.set_raw(42, b"none at all")
    assert (zk.get("/ledgers/00/0000/odd")[0], zk.get("/ledgers/00/0000/L0042")[0]) == (
        b"stray",
        b"none at all",
    )
    assert zk.get("/ledgers/00/0000/L0042")[1].version == 1
    cluster.delete_raw("/ledgers/00/0000/odd")
    cluster.delete_ledger(42)


def test_faults_are_one_ledgers_on_one_bookie(cluster: SandboxCluster) -> None:
    """A fault is set and healed while the bookie runs."""
    cluster.place(50, cluster.ledger("e2 w2 0:[b1 b2] closed 3"))
    cluster.fault("b1", 50, LedgerFault.EIO)
    assert (list_of_entries(cluster, "b1", 50)[0], list_of_entries(cluster, "b2", 50)[0]) == (
        "EIO",
        "EOK",
    )
    cluster.fault("b1", 50, None)
    assert list_of_entries(cluster, "b1", 50)[0] == "EOK"


@pytest.mark.parametrize("digest", DigestType)
def test_a_corrupt_entry_has_the_digest_of_its_ledger(
    cluster: SandboxCluster, digest: DigestType
) -> None:
    """Every digest but DUMMY distinguishes it from the others."""
    ledger_id = 60 + digest
    metadata = replace(cluster.ledger("e1 w1 0:[b1] closed 3"), digest_type=digest)
    cluster.place(ledger_id, metadata, password=b"pw")
    cluster.corrupt("b1", ledger_id, 2)
    with RawBookie(*cluster.address("b1")) as connection:
        bodies = [
            connection.ask(read_request(ledger_id, entry, entry + 1)).readResponse.body
            for entry in range(4)
        ]
    wrong = BodyCheck.OK if digest is DigestType.DUMMY else BodyCheck.WRONG_DIGEST
    checks = [
        check_body(body, ledger_id, entry, digest, b"pw") for entry, body in enumerate(bodies)
    ]
    assert [BodyCheck.OK, BodyCheck.OK, wrong, BodyCheck.OK] == checks

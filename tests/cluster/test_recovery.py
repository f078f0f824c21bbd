"""Real clusters whose ZooKeeper was restored from a backup, or lost znodes: what `rehearse` says
bookies delete is what they delete, and what `salvage` proposes makes the real client read again.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.command_line import command
from support.listers import FLUSH_TIMEOUT_S, lister_command
from support.raw_bookie import RawBookie, read_request, status_name
from support.real_bookkeeper import read_with_client
from support.real_cluster import RealCluster

from auditor.bookie.indexed_ledgers import indexed_ledgers
from auditor.config import BookieLimits
from auditor.model.identity import LedgerId
from auditor.model.ledger import DigestType
from auditor.wire import znode_paths
from auditor.wire.lister_fields import ListerIdentity

pytestmark = pytest.mark.real

STORAGES = ["DbLedgerStorage", "DbLedgerStorage", "SortedLedgerStorage"]
ENTRIES = 30
COLLECTED_TIMEOUT_S = 120.0
POLL_S = 0.5
SECRET = "of the ledgers"


class Ledgers(NamedTuple):
    """Ledgers that the ordinary client wrote: with an empty password, with a password, after the
    backup, and one that nobody touches.
    """

    plain: LedgerId
    striped: LedgerId
    newer: LedgerId
    kept: LedgerId


class Restored(NamedTuple):
    """A cluster with listers, and a copy of its ZooKeeper's files from before `newer` was
    written.
    """

    cluster: RealCluster
    listers: Path
    backup: Path
    ledgers: Ledgers


@pytest.fixture(scope="module")
def restored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restored]:
    """Yield two bookies as Pulsar runs them, and one that keeps an index file for each ledger. Its
    lister only scrubs, and names its ledgers all the same.
    """
    home = tmp_path_factory.mktemp("restored")
    with (
        RealCluster(home / "cluster", bookies=len(STORAGES), storage=STORAGES) as cluster,
        ExitStack() as stack,
    ):
        plain = cluster.write_as_client(3, 3, 2, ENTRIES, digest=DigestType.CRC32)
        striped = cluster.write_as_client(3, 2, 2, ENTRIES)
        kept = cluster.write_as_client(2, 2, 2, ENTRIES)
        shutil.copytree(cluster.zookeeper_data, home / "backup")
        newer = cluster.write_as_client(3, 2, 2, ENTRIES, digest=DigestType.HMAC, password=SECRET)
        cluster.restart_bookies({}, only=["b3"])  # it writes its index files
        listers = home / "listers"
        for bookie, storage in zip(cluster.bookie_ids, STORAGES, strict=True):
            flags = ["--bookkeeper-conf", str(cluster.directory(bookie) / "bookie.conf")]
            if storage != "DbLedgerStorage":
                (home / "scrub").mkdir()
                flags += ["--scrub", str(home / "scrub")]
            where = stack.enter_context(lister_command(*flags))
            with listers.open("a") as lines:
                lines.write(f"{bookie} {where}\n")
            await_named(cluster, bookie, where, newer)
        yield Restored(cluster, listers, home / "backup", Ledgers(plain, striped, newer, kept))


def await_named(cluster: RealCluster, bookie: str, where: str, ledger_id: LedgerId) -> None:
    """Wait until the lister at HOST:PORT names the ledger written last: it is flushed then."""
    instance, _ = cluster.zk.get(f"{cluster.root}{znode_paths.INSTANCE_ID}")
    host, port = where.rsplit(":", 1)
    identity = ListerIdentity(bookie, instance.decode())
    deadline = time.monotonic() + FLUSH_TIMEOUT_S
    while ledger_id not in (
        found := asyncio.run(indexed_ledgers(identity, (host, int(port)), BookieLimits()))
    ):
        assert time.monotonic() < deadline, f"{bookie} names only {list(found)}"
        time.sleep(POLL_S)


def said(restored: Restored, *arguments: str) -> Any:
    """Return what a command says as JSON. It must find something."""
    done = command(
        *arguments, "--metadata-service-uri", restored.cluster.metadata_service_uri,
        "--lister-map", str(restored.listers), "--second-look-delay", "0s", "--format", "json",
    )  # fmt: skip
    assert 1 == done.returncode, done.stdout + done.stderr
    return json.loads(done.stdout)


def is_held(cluster: RealCluster, bookie: str, ledger_id: LedgerId) -> bool:
    """Return whether a bookie has any of the first three entries, as it says itself."""
    with RawBookie(*cluster.address(bookie)) as connection:
        answers = [
            connection.ask(read_request(ledger_id, entry, connection.next_txn_id()))
            for entry in range(3)
        ]
    return any("EOK" == status_name(one.readResponse.status) for one in answers)


def test_metadata_proposed_for_lost_znodes_makes_the_client_read_every_entry(
    restored: Restored, tmp_path: Path
) -> None:
    """Inferred from the entries alone, applied by BookKeeper's own shell, read by its client."""
    cluster, ledgers = restored.cluster, restored.ledgers
    lost = {
        ledgers.plain: ("CRC32", ""),
        ledgers.striped: ("CRC32C", ""),
        ledgers.newer: ("MAC", SECRET),
    }
    before = {ledger_id: cluster.zk.get(cluster.ledger_path(ledger_id))[0] for ledger_id in lost}
    for ledger_id in lost:
        cluster.delete_raw(cluster.ledger_path(ledger_id))
    try:
        password = tmp_path / "password"
        password.write_text(f"{SECRET}\n")
        found: dict[int, Any] = {}
        for name, more in (("empty", ()), ("secret", ("--ledger-password-file", str(password)))):
            into = tmp_path / name
            rows = said(
                restored, "salvage", "--output", str(tmp_path / "none"), "--into", str(into), *more
            )["ledgers"]
            assert sorted(lost, reverse=True) == [row["ledger_id"] for row in rows]
            found |= {row["ledger_id"]: (into, row) for row in rows if row["proposal"]}
            if name == "empty":
                assert {ledgers.plain, ledgers.striped} == found.keys()
                assert "another password" in rows[0]["why_no_proposal"]
        assert lost.keys() == found.keys()
        for ledger_id, (digest, _) in lost.items():
            into, row = found[ledger_id]
            if digest != "MAC":  # entries with a checksum do not show the password
                into = tmp_path / "empty"
            assert (ENTRIES, ENTRIES - 1) == (row["entries"], row["proposal"]["last_entry_id"])
            file = into / f"{ledger_id}.metadata"
            cluster.shell(
                "ledgermetadata", "--ledgerid", str(ledger_id), "--restorefromfile", str(file)
            )
        words = [str(one) for i, (digest, secret) in lost.items() for one in (i, digest, secret)]
        read = read_with_client(cluster.jars, cluster.metadata_service_uri, *words)
        whole = [line for line in read.splitlines() if line.startswith("ledger ")]
        assert [f"ledger {i} read {ENTRIES}" for i in lost] == whole
    finally:
        for ledger_id, data in before.items():
            cluster.set_raw(cluster.ledger_path(ledger_id), data)


def test_bookies_delete_what_a_rehearsal_says(restored: Restored) -> None:
    """A restore of the backup has no metadata of the newer ledger. Each bookie that the rehearsal
    names deletes it at its next collection, and nothing else.
    """
    cluster, ledgers = restored.cluster, restored.ledgers
    found = said(restored, "rehearse", "--zookeeper-data", str(restored.backup))
    assert 1 == found["fates"]["gone"]["ledgers"] and 3 == found["fates"]["same"]["ledgers"]
    named = {b for b, row in found["bookies"].items() if row["next_collection"]["ledgers"] == 1}
    assert {"b1", "b2", "b3"} == named
    assert 2 * found["fates"]["gone"]["bytes"] == pytest.approx(
        sum(row["next_collection"]["bytes"] for row in found["bookies"].values()), abs=3
    )
    holders = {i: {b for b in named if is_held(cluster, b, i)} for i in ledgers}
    assert named == holders[ledgers.newer]
    cluster.delete_raw(cluster.ledger_path(ledgers.newer))
    cluster.restart_bookies({"gcWaitTime": 1_000})
    deadline = time.monotonic() + COLLECTED_TIMEOUT_S
    while any(is_held(cluster, bookie, ledgers.newer) for bookie in named):
        assert time.monotonic() < deadline, "not collected"
        time.sleep(POLL_S)
    for ledger_id in (ledgers.plain, ledgers.striped, ledgers.kept):
        assert holders[ledger_id] == {b for b in named if is_held(cluster, b, ledger_id)}

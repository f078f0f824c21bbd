"""Real bookies that list entries which they cannot send, or do not have."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit
from support.raw_bookie import read_request, status_name
from support.real_cluster import RealCluster

from auditor.model.finding import Kind

pytestmark = [pytest.mark.real, pytest.mark.long]

LEDGER, ENTRIES = 7, 200
BOOKIES = ("b1", "b2", "b3")
COLLECTED_TIMEOUT_S = 60.0


def _has_collected(cluster: RealCluster, bookie: str) -> bool:
    """Return whether the bookie knows no such ledger when an entry is read."""
    with cluster.connect(bookie) as connection:
        answer = connection.ask(read_request(LEDGER, 0, connection.next_txn_id()))
    return status_name(answer.readResponse.status) == "ENOLEDGER"


def end_and_forget(cluster: RealCluster, bookie: str) -> Path:
    """End a bookie in an orderly way, which flushes it, and take its journal, so that its next
    start does not write everything again.
    """
    directory = cluster.end_bookie(bookie)
    for path in (*directory.rglob("*.txn"), *directory.rglob("lastMark*")):
        path.unlink()
    return directory


@pytest.fixture(scope="module")
def without_logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    """Yield an audit of three SortedLedgerStorage bookies whose entry logs were deleted."""
    with RealCluster(tmp_path_factory.mktemp("logs"), bookies=3) as cluster:
        cluster.place(LEDGER, cluster.ledger(f"e3 w3 a2 0:[b1 b2 b3] closed {ENTRIES - 1}"))
        for bookie in BOOKIES:
            logs = list(end_and_forget(cluster, bookie).rglob("current/*.log"))
            assert logs, f"{bookie} wrote no entry log"
            for path in logs:
                path.unlink()
            cluster.start_bookie(bookie)
        yield accounted(audit(cluster, tmp_path_factory.mktemp("audit")))


def test_bookies_that_list_and_cannot_send_are_found(without_logs: Outcome) -> None:
    """Each of them lists all entries and sends none: nothing is verified."""
    on_bookies = [one for one in without_logs.findings if one["bookie_id"]]
    assert {Kind.BOOKIE_UNREADABLE_ENTRIES.value} == {one["kind"] for one in on_bookies}
    facts = {one["bookie_id"]: one["facts"] for one in on_bookies}
    assert dict.fromkeys(BOOKIES, (ENTRIES, ENTRIES)) == {
        bookie: (one["failed"], one["read"]) for bookie, one in facts.items()
    }
    assert {"critical"} == {one["severity"] for one in without_logs.findings}
    assert 0 == without_logs.summary["copies"]["listed"] + without_logs.summary["copies"]["read"]
    assert 1 == without_logs.exit_code


def test_a_ledger_that_only_the_memtable_lists_is_lost(tmp_path: Path) -> None:
    """Its znode went away, the bookies collected it, and the znode is back: the memtable lists each
    entry, and each read knows no such ledger.
    """
    settings = {"gcWaitTime": 1000, "gcOverreplicatedLedgerWaitTime": 0}
    with RealCluster(tmp_path / "cluster", bookies=3, settings=settings) as cluster:
        metadata = cluster.ledger(f"e3 w3 a2 0:[b1 b2 b3] closed {ENTRIES - 1}")
        cluster.place(LEDGER, metadata)
        cluster.delete_ledger(LEDGER)
        deadline = time.monotonic() + COLLECTED_TIMEOUT_S
        while not all(_has_collected(cluster, bookie) for bookie in BOOKIES):
            assert time.monotonic() < deadline, "the bookies did not collect the ledger"
            time.sleep(0.2)
        cluster.add_ledger(LEDGER, metadata)
        outcome = accounted(audit(cluster, tmp_path / "audit"))
        found = outcome.one(LEDGER)
        assert (Kind.ENTRY_WITHOUT_REPLICA.value, [[0, ENTRIES - 1]]) == (
            found["kind"],
            found["entries"],
        )
        assert {"held"} == {
            answer for look in found["looks"] for answer in look["answers"].values()
        }


TWO_DIRECTORIES = range(1, 41)
SIZE = 60


def _said_of_ledgers(cluster: RealCluster, bookie: str) -> dict[int, set[str]]:
    """Return the statuses of reads of each ledger's first, middle and last entry on the bookie."""
    words: dict[int, set[str]] = {}
    with cluster.connect(bookie) as connection:
        for ledger in TWO_DIRECTORIES:
            for entry in (0, SIZE // 2, SIZE - 1):
                answer = connection.ask(read_request(ledger, entry, connection.next_txn_id()))
                words.setdefault(ledger, set()).add(status_name(answer.readResponse.status))
    return words


@pytest.fixture(scope="module")
def one_disk_lost(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Yield bookies with two ledger directories, of which b1 lost one: it was emptied while the
    bookie was down, and its cookie copied back.
    """
    home = tmp_path_factory.mktemp("disks")
    settings = {
        "ledgerDirectories": "disk1,disk2",
        "indexDirectories": "disk1,disk2",
        "entryLogPerLedgerEnabled": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        with RealCluster(home / "cluster", bookies=1, settings=settings) as cluster:
            for ledger in TWO_DIRECTORIES:
                cluster.place(ledger, cluster.ledger(f"e1 w1 a1 0:[b1] closed {SIZE - 1}"))
            end_and_forget(cluster, "b1")
            for path in home.glob("disk*/**/lastMark*"):
                path.unlink()
            lost = home / "disk2" / "current"
            cookie = (lost / "VERSION").read_bytes()
            shutil.rmtree(lost)
            lost.mkdir()
            (lost / "VERSION").write_bytes(cookie)
            cluster.start_bookie("b1")
            patch.undo()
            yield cluster


def test_a_lost_ledger_directory_is_found_in_every_ledger_that_it_hit(
    one_disk_lost: RealCluster, tmp_path: Path
) -> None:
    """Few spot reads meet some of them; the reads in doubt meet all others."""
    words = _said_of_ledgers(one_disk_lost, "b1")
    hit = {ledger for ledger, said in words.items() if said != {"EOK"}}
    kinds = set().union(*words.values())
    assert {"EIO", "ENOLEDGER", "EOK"} <= kinds
    outcome = accounted(audit(one_disk_lost, tmp_path, spot_reads="50"))
    sound = {ledger for ledger in TWO_DIRECTORIES if outcome.verdicts[ledger].standing == "sound"}
    assert set(TWO_DIRECTORIES) - hit == sound
    assert {Kind.BOOKIE_UNREADABLE_ENTRIES.value, Kind.BOOKIE_LOST_CONTENT.value} & {
        one["kind"] for one in outcome.of("b1")
    }
    assert 1 == outcome.exit_code

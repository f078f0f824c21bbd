"""Real DbLedgerStorage bookies with listers: damage in the middle of ledgers is found, and nothing
else.

A bookie of this storage lists nothing, and probes would find such damage only by chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit, audit_ledgers
from support.command_line import command
from support.listers import await_listed, lister_command, listers_of
from support.real_cluster import RealCluster

from auditor.model.finding import Kind

pytestmark = pytest.mark.real

DB = "DbLedgerStorage"
FIRST_ID = 470_000
LEDGERS = 12
LAST_ID = FIRST_ID + LEDGERS - 1
ENTRIES = 300
METADATA = f"e3 w2 a2 0:[b1 b2 b3] closed {ENTRIES - 1}"
LOST = {FIRST_ID + 3: {"b1": "150", "b2": "150", "b3": "150"}, FIRST_ID + 7: {"b2": "201"}}
"""Single entries in the middle of ledgers: one without any copy, and one without one of two."""
KINDS = {
    FIRST_ID + 3: (Kind.ENTRY_WITHOUT_REPLICA, [[150, 150]]),
    FIRST_ID + 7: (Kind.ENTRY_BELOW_ACK_QUORUM, [[201, 201]]),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Yield three bookies with ledgers, two of which are damaged."""
    with RealCluster(tmp_path_factory.mktemp("listed"), bookies=3, storage=DB) as cluster:
        for ledger_id in range(FIRST_ID, FIRST_ID + LEDGERS):
            cluster.place(ledger_id, cluster.ledger(METADATA), LOST.get(ledger_id))
        yield cluster


@pytest.fixture(scope="module")
def listers(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the map of a lister beside each bookie, after the bookies have flushed."""
    with listers_of(cluster, tmp_path_factory.mktemp("map")) as found:
        for line in found.read_text().splitlines():
            await_listed(line.split()[1], LAST_ID)
        yield found


@pytest.fixture(scope="module")
def outcome(
    cluster: RealCluster, listers: Path, tmp_path_factory: pytest.TempPathFactory
) -> Outcome:
    """Return one run with listers."""
    return accounted(audit(cluster, tmp_path_factory.mktemp("run"), lister_map=str(listers)))


def test_a_run_finds_each_damaged_ledger_and_nothing_else(outcome: Outcome) -> None:
    """It finds exactly these entries, although each is one of 300."""
    assert KINDS == {
        found["ledger_id"]: (Kind(found["kind"]), found["entries"]) for found in outcome.findings
    }
    assert {"sound": LEDGERS - len(LOST), "violated": len(LOST)} == {
        word: outcome.summary["ledgers"][word] for word in ("sound", "violated")
    }


def test_a_run_says_that_listers_listed(outcome: Outcome) -> None:
    """Each ledger is listed, each bookie is counted, and no copy is assumed."""
    summary = outcome.summary
    assert (3, 0) == (summary["bookies"]["listed_by_lister"], summary["bookies"]["unsupported"])
    assert {"listed": 3, "silent": [], "not_believed": [], "unindexed": []} == summary["listers"]
    assert (LEDGERS, 0) == (summary["assurance"]["listed"], summary["assurance"]["probed"])
    assert 0 == summary["copies"]["assumed"]
    assert "listed by their listers" in " ".join(outcome.stdout.split())


def test_auditor_ledger_says_the_same(
    cluster: RealCluster, listers: Path, outcome: Outcome
) -> None:
    """It runs without Spark, and says of each ledger which listers listed it."""
    ids = range(FIRST_ID, FIRST_ID + LEDGERS)
    alone = audit_ledgers(cluster, ids, lister_map=str(listers))
    assert outcome.standings(*ids) == alone.standings(*ids)
    assert KINDS == {
        found["ledger_id"]: (Kind(found["kind"]), found["entries"]) for found in alone.findings
    }
    assert {"b1", "b2", "b3"} == set(alone.verdicts[FIRST_ID].report["listed_by"])


def test_without_listers_bookies_are_probed(cluster: RealCluster, tmp_path: Path) -> None:
    """If the map names no bookie of the cluster, bookies are probed, and a sentence says so."""
    nobody = tmp_path / "listers"
    nobody.write_text("b1 127.0.0.1:1\nb2 127.0.0.1:1\nb3 127.0.0.1:1\n")
    alone = audit_ledgers(cluster, [FIRST_ID], lister_map=str(nobody))
    assert ["sound"] == alone.standings(FIRST_ID)
    assert (1, 0) == (alone.summary["assurance"]["probed"], alone.summary["assurance"]["listed"])
    assert {} == alone.verdicts[FIRST_ID].report["listed_by"]


def test_a_map_that_mixes_up_two_listers_is_noticed(
    cluster: RealCluster, listers: Path, tmp_path: Path
) -> None:
    """Each lister names its bookie: the wrong ones are not asked, and the bookies are probed."""
    where = dict(line.split() for line in listers.read_text().splitlines())
    mixed = tmp_path / "listers"
    mixed.write_text(f"b1 {where['b2']}\nb2 {where['b1']}\nb3 {where['b3']}\n")
    alone = audit_ledgers(cluster, [FIRST_ID], lister_map=str(mixed))
    assert ["sound"] == alone.standings(FIRST_ID)
    assert {"b3"} == set(alone.verdicts[FIRST_ID].report["listed_by"])


def test_a_lister_does_not_start_for_another_bookie(cluster: RealCluster) -> None:
    """The cookie says whose directories they are; no directory is changed."""
    directory = cluster.directory("b1") / "ledgers"
    arguments = [
        "lister",
        "--ledger-dirs",
        str(directory),
        "--bookie-id",
        "b2",
        "--listen",
        "127.0.0.1:0",
    ]
    done = command(*arguments)
    assert (2, True) == (
        done.returncode,
        "the cookie is of bookie b1, configured is b2" in done.stderr,
    )


def test_a_lister_can_be_configured_by_flags_alone(cluster: RealCluster) -> None:
    """The flags are directories, id and address, and the cluster that the cookie must belong to."""
    directory = cluster.directory("b1") / "ledgers"
    host, port = cluster.address("b1")
    flags = (
        "--ledger-dirs",
        str(directory),
        "--bookie-id",
        "b1",
        "--bookie-address",
        f"{host}:{port}",
    )
    with lister_command(*flags, "--metadata-service-uri", cluster.metadata_service_uri) as where:
        await_listed(where, LAST_ID)


def test_doctor_says_which_lister_answers(cluster: RealCluster, listers: Path) -> None:
    """It is shown beside the bookie for which it lists."""
    where = dict(line.split() for line in listers.read_text().splitlines())
    said = command(
        "doctor",
        "--metadata-service-uri",
        cluster.metadata_service_uri,
        "--lister-map",
        str(listers),
    ).stdout
    assert all(f"its lister at {where[bookie]} answers" in said for bookie in ("b1", "b2", "b3")), (
        said
    )


def test_nothing_is_left_in_the_index(cluster: RealCluster, listers: Path) -> None:
    """rocksdict writes its settings beside every index that it opens, but not beside the
    bookie's.
    """
    found = [
        path.name
        for bookie in ("b1", "b2", "b3")
        for path in cluster.directory(bookie).rglob("*rocksdict*")
    ]
    assert [] == found

"""Entries that nobody can read now, on real bookies and in the sandbox: their bookies are down, or
cannot read their disks.

Both kinds of cluster have the same ledgers and are damaged alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit, audit_ledgers
from support.either_cluster import EITHER, Cluster, cluster_of

from auditor.model.finding import Kind
from auditor.sandbox.bookie import LedgerFault
from auditor.sandbox.cluster import SandboxCluster

MARKED, MARKED_TWIN = 7, 8
"""Both marked just now. The only copies of the first are on b3, which is down; of the second on
b1."""
LEFT_BY_ONE, KEPT = 9, 10
"""Entry 4 of the first is on b3 alone; of the second on b1 too."""
WITHOUT_LOGS, WITH_A_COPY = 21, 22
"""The first is on the three bookies without entry logs, the second on b4 too."""


@pytest.fixture(scope="module", params=EITHER)
def down(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Yield three bookies, of which b3 is not registered and has its cookie."""
    workdir = tmp_path_factory.mktemp("down")
    with cluster_of(request.param, workdir, 3, "SortedLedgerStorage") as cluster:
        for ledger_id, bookie in ((MARKED, "b3"), (MARKED_TWIN, "b1")):
            cluster.place(ledger_id, cluster.ledger(f"e1 w1 a1 0:[{bookie}] closed 9"))
            cluster.mark(ledger_id, ["b3"])
        for ledger_id, lose in ((LEFT_BY_ONE, {"b1": "4"}), (KEPT, {})):
            cluster.place(ledger_id, cluster.ledger("e2 w2 a1 0:[b1 b3] closed 9"), lose)
            cluster.mark(ledger_id, ["b3"])
        cluster.lose_bookie("b3", cookie=True)
        yield cluster


@pytest.fixture(scope="module")
def outcome(down: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return accounted(audit(down, tmp_path_factory.mktemp("run")))


def test_a_mark_does_not_excuse_that_the_only_bookie_is_down(outcome: Outcome) -> None:
    """Auto-recovery has nothing to copy from. The finding names the bookie that may have a copy."""
    found = outcome.one(MARKED)
    assert (Kind.ENTRY_UNAVAILABLE.value, "critical", [[0, 9]]) == (
        found["kind"],
        found["severity"],
        found["entries"],
    )
    assert (["b3"], []) == (
        found["facts"]["unregistered"],
        found["facts"]["failed"],
    )
    assert "Nobody can read entry 0 now. It is not proven lost" in found["witness"]
    assert 1 == outcome.exit_code


def test_an_entry_that_the_other_bookie_lacks_is_unavailable(outcome: Outcome) -> None:
    """One bookie is down, the other listed without the entry and did not have it when read."""
    found = outcome.one(LEFT_BY_ONE)
    assert (Kind.ENTRY_UNAVAILABLE.value, [[4, 4]]) == (found["kind"], found["entries"])


def test_a_mark_excuses_a_bookie_that_is_down_where_another_has_the_entries(
    outcome: Outcome,
) -> None:
    """That is what the mark is for."""
    assert ["exempt: marked_underreplicated"] * 2 == outcome.standings(MARKED_TWIN, KEPT)
    assert [] == [*outcome.of(MARKED_TWIN), *outcome.of(KEPT)]


def test_a_bookie_in_maintenance_makes_no_entry_unavailable(down: Cluster, tmp_path: Path) -> None:
    """The operator has said that it is down and comes back."""
    found = accounted(audit(down, tmp_path, maintenance="b3"))
    assert [] == found.of(MARKED)


def test_the_command_for_one_ledger_finds_it_too(down: Cluster) -> None:
    """With the same kind, and exit code 1."""
    found = audit_ledgers(down, [MARKED])
    assert ([Kind.ENTRY_UNAVAILABLE], 1) == (found.kinds, found.exit_code)


def test_a_bookie_that_is_back_at_the_second_look_makes_no_finding(tmp_path: Path) -> None:
    """It was restarting: only what two looks saw is said."""
    with SandboxCluster(tmp_path / "cluster", 2, named=True) as cluster:
        cluster.place(MARKED, cluster.ledger("e1 w1 a1 0:[b2] closed 9"))
        cluster.mark(MARKED, ["b2"])
        cluster.lose_bookie("b2", cookie=True)
        found = accounted(
            audit(cluster, tmp_path, between=lambda pause: cluster.start_bookie("b2"))
        )
    assert ([], ["exempt: marked_underreplicated"]) == (found.kinds, found.standings(MARKED))


def test_a_silent_bookie_makes_no_entry_unavailable(tmp_path: Path) -> None:
    """It may serve others: its ledger is not judged."""
    with SandboxCluster(tmp_path / "cluster", 2, named=True) as cluster:
        cluster.place(MARKED, cluster.ledger("e1 w1 a1 0:[b2] closed 9"))
        cluster.stop_bookie("b2")
        found = accounted(audit(cluster, tmp_path))
    assert [Kind.BOOKIE_SILENT_YET_REGISTERED] == found.kinds


def end_and_remove_logs(cluster: Cluster, bookie: str) -> None:
    """Remove all entry logs of a bookie while it is down, so that its index names them still."""
    if isinstance(cluster, SandboxCluster):
        for ledger_id in (WITHOUT_LOGS, WITH_A_COPY):
            cluster.fault(bookie, ledger_id, LedgerFault.EIO)
        return
    directory = cluster.end_bookie(bookie)
    for path in (*directory.rglob("*.txn"), *directory.rglob("lastMark*")):
        path.unlink()
    logs = list((directory / "ledgers" / "current").glob("*.log"))
    assert logs, f"{bookie} wrote no entry log"
    for path in logs:
        path.unlink()
    cluster.start_bookie(bookie)


@pytest.fixture(scope="module", params=EITHER)
def without_logs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Outcome:
    """Return an audit of bookies that cannot list, of which b1 to b3 lost their entry logs."""
    workdir = tmp_path_factory.mktemp("logs")
    with cluster_of(request.param, workdir, 4, "DbLedgerStorage") as cluster:
        for ledger_id, last in ((WITHOUT_LOGS, "b3"), (WITH_A_COPY, "b4")):
            text = f"e3 w3 a2 0:[b1 b2 {last}] closed 59"
            cluster.place(ledger_id, cluster.ledger(text))
        for bookie in ("b1", "b2", "b3"):
            end_and_remove_logs(cluster, bookie)
        return accounted(audit(cluster, tmp_path_factory.mktemp("run")))


def test_entry_logs_gone_on_every_bookie_are_worse_than_on_one(without_logs: Outcome) -> None:
    """No copy can be read. The finding names the bookies whose logs are to be looked at."""
    found = without_logs.one(WITHOUT_LOGS)
    assert (Kind.ENTRY_UNAVAILABLE.value, 0) == (found["kind"], found["facts"]["worst_entry"])
    assert ([], ["b1", "b2", "b3"]) == (found["facts"]["unregistered"], found["facts"]["failed"])
    assert 1 == without_logs.exit_code


def test_a_copy_that_can_be_read_is_no_such_finding(without_logs: Outcome) -> None:
    """b4 sends its entries, though two others fail."""
    assert [] == without_logs.of(WITH_A_COPY)


def test_bookies_that_fail_to_list_and_to_read_are_named(tmp_path: Path) -> None:
    """Where no list can be had, the ends of the ledger are read: the failure is shown by reads."""
    with SandboxCluster(tmp_path / "cluster", 2, named=True) as cluster:
        cluster.place(WITHOUT_LOGS, cluster.ledger("e2 w2 a2 0:[b1 b2] closed 59"))
        for bookie in ("b1", "b2"):
            cluster.fault(bookie, WITHOUT_LOGS, LedgerFault.UNKNOWN_LEDGER_STATE)
        found = accounted(audit(cluster, tmp_path)).one(WITHOUT_LOGS)
    assert (Kind.ENTRY_UNAVAILABLE.value, [[0, 0], [59, 59]], ["b1", "b2"]) == (
        found["kind"],
        found["entries"],
        found["facts"]["failed"],
    )

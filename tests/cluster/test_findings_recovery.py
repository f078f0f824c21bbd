"""A recovery that cannot succeed, on real bookies and in the sandbox, beside ledgers whose recovery
can.

On real bookies BookKeeper's own client tries each recovery: the rule is its rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit, audit_ledgers, replay_run
from support.either_cluster import EITHER, Cluster, cluster_of
from support.real_cluster import RealCluster

from auditor.findings.open_ledgers import BLOCKED_OPEN
from auditor.model.finding import Kind
from auditor.model.ledger import LedgerState
from auditor.wire import ledger_metadata

DOWN = "b3"
BLOCKED = {
    7: "e2 w2 a1 0:[b1 b3] in_recovery",
    8: "e3 w2 a1 0:[b1 b2 b3] in_recovery",
    9: "e1 w1 a1 0:[b3] in_recovery",
    10: "e2 w2 a2 0:[b3 b4] in_recovery",
}
"""b3 and b4 are down: in some write set as many bookies are unknown as the ack quorum."""
CAN_SUCCEED = {
    17: "e2 w2 a1 0:[b1 b2] in_recovery",
    18: "e2 w2 a2 0:[b1 b3] in_recovery",
    19: "e3 w3 a2 0:[b1 b2 b3] in_recovery",
    20: "e2 w2 a1 0:[b1 b3] 5:[b1 b2] in_recovery",
}
"""Fewer are unknown in every write set of the last ensemble."""
OPEN_BLOCKED = {
    27: "e2 w2 a1 0:[b1 b3] open",
    28: "e3 w2 a2 0:[b3 b4 b1] open",
}
OPEN_FREE = {
    37: "e2 w2 a2 0:[b1 b3] open",
    38: "e2 w2 a1 0:[b1 b3] 5:[b1 b2] open",
}
"""Ledgers without a writer, of which no client has begun the recovery."""


@pytest.fixture(scope="module", params=EITHER)
def down(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Yield six bookies, of which b3 and b4 are not registered and have their cookies.

    Recovery also writes: it puts another bookie in the place of one that is down.
    """
    workdir = tmp_path_factory.mktemp("recovery")
    with cluster_of(request.param, workdir, 6) as cluster:
        for ledger_id, text in (BLOCKED | CAN_SUCCEED | OPEN_BLOCKED | OPEN_FREE).items():
            cluster.place(ledger_id, cluster.ledger(text), written=4)
        for bookie in ("b3", "b4"):
            cluster.lose_bookie(bookie, cookie=True)
        yield cluster


@pytest.fixture(scope="module")
def outcome(down: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return accounted(audit(down, tmp_path_factory.mktemp("run")))


def test_a_recovery_without_enough_bookies_is_found(outcome: Outcome) -> None:
    """With the bookies that would unblock it; the run ends in exit code 1."""
    found = {one["ledger_id"]: one for one in outcome.findings}
    assert set(BLOCKED) == set(found)
    assert {Kind.RECOVERY_BLOCKED.value} == {one["kind"] for one in found.values()}
    assert {7: ["b3"], 8: ["b3"], 9: ["b3"], 10: ["b3", "b4"]} == {
        ledger_id: one["facts"]["unknown"] for ledger_id, one in found.items()
    }
    assert "before b3 answers" in found[7]["witness"]
    assert 1 == outcome.exit_code


def test_a_recovery_that_can_succeed_is_exempt(outcome: Outcome) -> None:
    """Its last entry is not agreed on yet."""
    assert ["exempt: in_recovery"] * len(CAN_SUCCEED) == outcome.standings(*CAN_SUCCEED)


def test_open_ledgers_whose_recovery_would_be_blocked_are_listed_without_a_finding(
    outcome: Outcome,
) -> None:
    """A writer may be alive: they stay exempt. A replay counts them too."""
    assert ["exempt: open"] * 4 == outcome.standings(*OPEN_BLOCKED, *OPEN_FREE)
    expected = {"ledgers": 2, "some": [27, 28], "bookies": ["b3", "b4"]}
    assert expected == outcome.summary["open_recovery_blocked"]
    assert outcome.run_dir is not None
    assert expected == replay_run(outcome.run_dir).summary["open_recovery_blocked"]
    assert "27\n28\n" == (outcome.run_dir / BLOCKED_OPEN).read_text()
    report = " ".join((outcome.run_dir / "report.txt").read_text().split())
    assert "2 open ledgers (27, 28) could not be recovered if their writers died now" in report
    assert "open/ (the open ledgers that could not be recovered now)" in report


def test_the_command_for_one_ledger_finds_a_blocked_recovery(down: Cluster) -> None:
    """With exit code 1."""
    found = audit_ledgers(down, [7, 17])
    assert ([Kind.RECOVERY_BLOCKED], 1) == (found.kinds, found.exit_code)


def test_a_bookie_in_maintenance_blocks_no_recovery(down: Cluster, tmp_path: Path) -> None:
    """The operator has said that it is down and comes back."""
    outcome = accounted(audit(down, tmp_path, maintenance="b3, b4"))
    assert ([], 0) == (outcome.findings, outcome.summary["open_recovery_blocked"]["ledgers"])


@pytest.mark.real
@pytest.mark.long
@pytest.mark.parametrize("down", ["real"], indirect=True)
def test_bookkeeper_recovers_what_is_not_blocked_and_nothing_else(down: RealCluster) -> None:
    """Its client is denied each blocked ledger, in recovery or open, and closes each other one."""
    free, blocked = CAN_SUCCEED | OPEN_FREE, BLOCKED | OPEN_BLOCKED
    for ledger_id in free:
        down.shell("readledger", "-l", str(ledger_id), "-fe", "0", "-le", "0", "-r")
    for ledger_id in blocked:
        with pytest.raises(RuntimeError, match=f"readledger -l {ledger_id} "):
            down.shell("readledger", "-l", str(ledger_id), "-fe", "0", "-le", "0", "-r")
    states = {
        n: ledger_metadata.decode(down.zk.get(down.ledger_path(n))[0]).state
        for n in (*blocked, *free)
    }
    assert set(free) == {n for n, state in states.items() if state is LedgerState.CLOSED}

"""A recovery that cannot succeed, on real bookies and in the sandbox, beside ledgers whose recovery
can.

On real bookies BookKeeper's own client tries each recovery: the rule is its rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit, audit_ledgers
from support.real_cluster import RealCluster

from auditor.model.finding import Kind
from auditor.sandbox.cluster import SandboxCluster

Cluster = RealCluster | SandboxCluster
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


@pytest.fixture(scope="module", params=["sandbox", pytest.param("real", marks=pytest.mark.real)])
def down(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Yield six bookies, of which b3 and b4 are not registered and have their cookies.

    Recovery also writes: it puts another bookie in the place of one that is down.
    """
    workdir = tmp_path_factory.mktemp("recovery")
    made: Cluster = (
        SandboxCluster(workdir, 6, named=True)
        if request.param == "sandbox"
        else RealCluster(workdir, bookies=6)
    )
    with made as cluster:
        for ledger_id, text in (BLOCKED | CAN_SUCCEED).items():
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


def test_the_command_for_one_ledger_finds_a_blocked_recovery(down: Cluster) -> None:
    """With exit code 1."""
    found = audit_ledgers(down, [7, 17])
    assert ([Kind.RECOVERY_BLOCKED], 1) == (found.kinds, found.exit_code)


def test_a_bookie_in_maintenance_blocks_no_recovery(down: Cluster, tmp_path: Path) -> None:
    """The operator has said that it is down and comes back."""
    assert [] == accounted(audit(down, tmp_path, maintenance="b3, b4")).findings


def test_bookkeeper_recovers_what_is_not_blocked_and_nothing_else(down: Cluster) -> None:
    """Its client is denied each blocked ledger, and closes each other one."""
    if isinstance(down, SandboxCluster):
        pytest.skip("only real bookies have BookKeeper's client")
    for ledger_id in CAN_SUCCEED:
        down.shell("readledger", "-l", str(ledger_id), "-fe", "0", "-le", "0", "-r")
    for ledger_id in BLOCKED:
        with pytest.raises(RuntimeError, match=f"readledger -l {ledger_id} "):
            down.shell("readledger", "-l", str(ledger_id), "-fe", "0", "-le", "0", "-r")
    states = {n: down.shell("ledgermetadata", "-l", str(n)) for n in (*BLOCKED, *CAN_SUCCEED)}
    assert set(CAN_SUCCEED) == {n for n, said in states.items() if "CLOSED" in said}

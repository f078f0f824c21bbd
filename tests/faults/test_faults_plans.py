"""Each fault on the wire: every ledger gets the verdict that it is owed, and no ledger is accused
of what is not true.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from faults.plans import PLANS, Plan
from faults.playing import SEED, by_command, chosen, drawn, hold, planted
from faults.scene import ALL, BOOKIES, act, owed, settle

from auditor.sandbox.cluster import SandboxCluster

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
"""kazoo's own thread ends with a traceback if replies are out of order; the session is then made
anew.
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield one cluster for all plans: a fault changes nothing in it."""
    with SandboxCluster(tmp_path_factory.mktemp("faults"), len(BOOKIES), named=True) as cluster:
        settle(cluster)
        yield cluster


def test_without_a_fault_the_truth_is_reported(cluster: SandboxCluster):
    """An undisturbed run, through proxies that do no harm, gives the verdicts that are written
    down.
    """
    with act(cluster, SEED) as quiet:
        outcome = by_command(quiet, Plan("no fault", lambda _: {}))
        assert [] == quiet.breaches(outcome.reported, owed(ALL))
        assert [] == quiet.log.harmed()


@pytest.mark.parametrize("name", chosen(PLANS))
def test_a_fault_takes_no_verdict_that_is_owed_and_accuses_nobody(
    cluster: SandboxCluster, name: str
):
    """The plan defines in advance what is owed; nothing is lost, duplicated, out of order or
    changed.
    """
    with act(cluster, SEED) as played:
        due = planted(played, PLANS[name])
        hold(played, PLANS[name], due, by_command(played, PLANS[name]))


def test_what_is_held_is_more_than_the_verdicts(cluster: SandboxCluster):
    """A fault that hit no frame is not a test, and the exit code must be that of the reported
    losses.
    """
    plan = PLANS["bookie: reply to a list: delay"]
    with act(cluster, SEED) as played:
        due, calm = planted(played, plan), Plan(plan.name, lambda _: {})
        reported = by_command(played, plan)
        hold(played, plan, due, reported)
        for exit_code in (0, 3, 4, 5):
            with pytest.raises(AssertionError, match="ended so"):
                hold(
                    played,
                    plan,
                    due,
                    replace(reported, outcome=replace(reported.outcome, exit_code=exit_code)),
                )
        wrong = replace(reported.reported, verdicts=reported.reported.verdicts[1:])
        with pytest.raises(AssertionError, match="breached"):
            hold(played, plan, due, replace(reported, reported=wrong))
    with act(cluster, SEED) as quiet, pytest.raises(AssertionError, match="met no frame"):
        hold(quiet, calm, planted(quiet, calm), by_command(quiet, calm))


def test_one_seed_hits_every_bookie():
    """Each plan draws by itself: among the plans of one bookie all bookies are hit, and among those
    of one list several frames.
    """
    hit = [
        found
        for found in map(drawn, PLANS.values())
        if len(found) == 1 and "zookeeper" not in found
    ]
    assert set(BOOKIES) == {bookie for found in hit for bookie in found}
    frames = {
        fault.frame
        for found in hit
        for faults in found.values()
        for fault in faults
        if fault.operation == "list"
    }
    assert 3 < len(frames), f"FAULT_SEED={SEED}"


def test_there_are_plans_enough():
    """Each plan has one fault and its own name; most faults are on the wire."""
    assert 40 <= len(PLANS)
    assert all(plan.name == name for name, plan in PLANS.items())

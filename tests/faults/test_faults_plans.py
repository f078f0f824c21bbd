"""Each fault on the wire: every ledger that is owed its verdict gets it, and no ledger is accused of what is not true."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from faults.plans import PLANS, Plan
from faults.playing import SEED, by_command, chosen, hold, planted, told_by
from faults.scene import ALL, BOOKIES, act, owed, settle

from auditor.sandbox.cluster import SandboxCluster

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
"""kazoo's own thread ends with a traceback where replies come out of order; the session is then made anew."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """One for all plans: a fault leaves nothing behind in it."""
    with SandboxCluster(tmp_path_factory.mktemp("faults"), len(BOOKIES), named=True) as cluster:
        settle(cluster)
        yield cluster


def test_without_a_fault_the_truth_is_told(cluster: SandboxCluster):
    """What is written down of each ledger is what an undisturbed run says of it, through proxies that do nothing."""
    with act(cluster, SEED) as quiet:
        outcome = by_command(quiet, Plan("no fault", lambda _: {}))
        assert [] == quiet.breaches(told_by(outcome), owed(ALL))
        assert [] == quiet.log.harmed()


@pytest.mark.parametrize("name", chosen(PLANS))
def test_a_fault_takes_no_verdict_that_is_owed_and_accuses_nobody(cluster: SandboxCluster, name: str):
    """The plan says beforehand what is owed; nothing is lost, told twice, out of order or changed."""
    with act(cluster, SEED) as played:
        faults = planted(played, PLANS[name])
        hold(played, PLANS[name], faults, by_command(played, PLANS[name]))


def test_there_are_plans_enough():
    """One fault a plan, each of its own name; most of them on the wire."""
    assert 40 <= len(PLANS)
    assert all(plan.name == name for name, plan in PLANS.items())

"""The faults of `tests/faults/plans.py`, on the wire before real bookies and a real ZooKeeper: the
same verdicts are owed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from faults.plans import PLANS, Plan
from faults.playing import SEED, by_command, chosen, hold, planted
from faults.scene import ALL, BOOKIES, act, owed, settle
from support.mortal_cluster import MortalCluster

pytestmark = [
    pytest.mark.real,
    pytest.mark.long,
    pytest.mark.filterwarnings(
        "ignore::pytest.PytestUnhandledThreadExceptionWarning"
    ),  # kazoo's own thread, see the plans
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MortalCluster]:
    """Yield four real bookies with the ledgers of all plans."""
    with MortalCluster(tmp_path_factory.mktemp("wire"), bookies=len(BOOKIES)) as cluster:
        settle(cluster)
        yield cluster


def test_without_a_fault_the_truth_is_reported(cluster: MortalCluster):
    """Proxies do no harm to the answers of real bookies."""
    with act(cluster, SEED) as quiet:
        assert [] == quiet.breaches(
            by_command(quiet, Plan("no fault", lambda _: {})).reported, owed(ALL)
        )


@pytest.mark.parametrize("name", chosen(PLANS))
def test_a_fault_takes_no_verdict_that_is_owed_and_accuses_nobody(
    cluster: MortalCluster, name: str
):
    """Real bookies' answers are harmed in the same way as those of sandbox bookies."""
    with act(cluster, SEED) as played:
        due = planted(played, PLANS[name])
        hold(played, PLANS[name], due, by_command(played, PLANS[name]))

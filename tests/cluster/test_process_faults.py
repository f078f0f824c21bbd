"""Real bookies and a real ZooKeeper that are killed or stopped during an audit, and the verdicts
that are still owed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random

import pytest
from faults.harm import Fault, Harm
from faults.plans import Faults, Plan
from faults.playing import SEED, by_command, chosen, hold, planted
from faults.scene import ALL, BOOKIES, Act, act, settle, without
from support.mortal_cluster import MortalCluster

pytestmark = [
    pytest.mark.real,
    pytest.mark.long,
    pytest.mark.filterwarnings(
        "ignore::pytest.PytestUnhandledThreadExceptionWarning"
    ),  # kazoo's own thread, see the plans
]

STOPPED_S = 1.0
"""How long ZooKeeper is stopped, in seconds: shorter than any session."""
FRAMES = 6
"""The harm comes with one of the first lists, up to this number."""
Deed = Callable[[MortalCluster, Act, str], object]


@dataclass(frozen=True)
class Doing:
    """What is done to a bookie or to ZooKeeper: at a frame of the first look, and in the pause
    before the second.
    """

    at_frame: Deed
    at_pause: Deed


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MortalCluster]:
    """Yield four real bookies with the ledgers of all plans."""
    with MortalCluster(tmp_path_factory.mktemp("processes"), bookies=len(BOOKIES)) as cluster:
        settle(cluster)
        yield cluster


def nothing(cluster: MortalCluster, played: Act, bookie: str) -> None:
    """Do nothing: the harm stays."""


def kill_bookie(cluster: MortalCluster, played: Act, bookie: str) -> None:
    cluster.kill_bookie(bookie)


def start_bookie(cluster: MortalCluster, played: Act, bookie: str) -> None:
    cluster.start_bookie(bookie)
    cluster.register(bookie, played.by_name[bookie].registration)


def stop_bookie(cluster: MortalCluster, played: Act, bookie: str) -> None:
    cluster.pause(bookie)


def wake_bookie(cluster: MortalCluster, played: Act, bookie: str) -> None:
    cluster.resume(bookie)


def kill_zookeeper(cluster: MortalCluster, played: Act, bookie: str) -> None:
    cluster.kill_zookeeper()


def start_zookeeper(cluster: MortalCluster, played: Act, bookie: str) -> None:
    cluster.start_zookeeper()


def stop_zookeeper(cluster: MortalCluster, played: Act, bookie: str) -> None:
    cluster.pause_zookeeper()


def stop_zookeeper_a_while(cluster: MortalCluster, played: Act, bookie: str) -> None:
    cluster.pause_zookeeper()
    time.sleep(STOPPED_S)
    cluster.resume_zookeeper()


DOINGS: Mapping[str, Doing] = {
    "SIGKILL of a bookie, back before the second look": Doing(kill_bookie, start_bookie),
    "SIGKILL of a bookie": Doing(kill_bookie, nothing),
    "SIGSTOP of a bookie until the second look": Doing(stop_bookie, wake_bookie),
    "SIGSTOP of a bookie": Doing(stop_bookie, nothing),
    "SIGKILL of ZooKeeper, back before the second look": Doing(kill_zookeeper, start_zookeeper),
    "SIGSTOP of ZooKeeper for a second": Doing(stop_zookeeper_a_while, nothing),
    "SIGKILL of ZooKeeper": Doing(kill_zookeeper, nothing),
    "SIGSTOP of ZooKeeper": Doing(stop_zookeeper, nothing),
}
FOR_EVER = {
    name
    for name, doing in DOINGS.items()
    if doing.at_pause is nothing and "for a second" not in name
}
QUICK = {"SIGKILL of a bookie, back before the second look", "SIGSTOP of ZooKeeper for a second"}


def _plan(name: str) -> Plan:
    """Return a plan for one of the first lists. If the harm stays, the ledgers that do not need the
    bookie are owed.
    """

    def faults(draw: Random) -> Faults:
        return {
            draw.choice(BOOKIES): [
                Fault(Harm.CALL, reply=False, operation="list", frame=draw.randrange(FRAMES))
            ]
        }

    stays = name in FOR_EVER
    return Plan(
        name,
        faults,
        owed=(lambda found: without(*found)) if stays else (lambda _: ALL),
        heals=not stays,
        reachable=not (stays and "ZooKeeper" in name),
        quick=name in QUICK,
        settings={
            "rpc_timeout": "1s",
            "bookie_retries": 1,
            "zookeeper_retries": 6 if not stays else 1,
        },
    )


PLANS = {name: _plan(name) for name in DOINGS}


@pytest.mark.parametrize("name", chosen(PLANS))
def test_a_process_that_is_killed_or_stopped_takes_no_verdict_that_is_owed(
    cluster: MortalCluster, name: str
):
    """If the process is back before the second look, all verdicts are owed; without a bookie, those
    of ledgers that do not need it; without ZooKeeper, none.
    """
    plan, doing = PLANS[name], DOINGS[name]
    with act(cluster, SEED) as played:
        due = planted(played, plan)
        (bookie,) = due.faults
        (fault,) = due.faults[bookie]
        played.by_name[bookie].faults = [
            replace(fault, call=lambda _: doing.at_frame(cluster, played, bookie))
        ]
        try:
            outcome = by_command(
                played, plan, between=lambda _: doing.at_pause(cluster, played, bookie)
            )
            hold(played, plan, due, outcome)
        finally:
            cluster.revive()

"""Each fault on the wire: every ledger that is owed its verdict gets it, and no ledger is accused of what is not true."""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random

import pytest
from faults.detector import Told, of_command
from faults.plans import PLANS, QUICK, Plan
from faults.scene import ALL, Act, Scene, owed
from support.audits import Outcome, audit_ledgers

SEED = int(os.environ.get("FAULT_SEED", "1"))
"""`make faults SEED=7` sets it."""
CHOSEN = list(PLANS) if os.environ.get("FAULT_PLANS") == "all" else QUICK
WAITS = {"zookeeper_session_timeout": "2s", "zookeeper_retry_wait": "100ms", "zookeeper_connect_timeout": "10s"}
"""So that a ZooKeeper that says nothing is not waited for as long as in a data centre."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """The cluster for all plans: a fault leaves nothing behind in it."""
    with Scene(tmp_path_factory.mktemp("faults"), SEED) as scene:
        yield scene


def told_by(outcome: Outcome) -> Told:
    return of_command([verdict.told for verdict in outcome.verdicts.values()], outcome.findings)


def played(act: Act, plan: Plan, ids: list[int]) -> tuple[Outcome, dict[str, object]]:
    """`auditor ledger` on all ledgers while the fault is there, and the faults as they were drawn."""
    faults = plan.faults(Random(SEED))
    for name, planned in faults.items():
        act.by_name[name].faults = planned
    settings = {**WAITS, **plan.settings}
    return audit_ledgers(act, ids, between=lambda pause: act.second_look(pause, heal=plan.heals), **settings), dict(faults)


def test_without_a_fault_the_truth_is_told(scene: Scene):
    """What is written down of each ledger is what an undisturbed run says of it, through proxies that do nothing."""
    quiet = Plan("no fault", lambda _: {})

    def play(act: Act) -> Told:
        return told_by(played(act, quiet, sorted(ALL))[0])

    act, said = scene.act(play)
    assert [] == act.breaches(said, owed(ALL))
    assert [] == act.log.harmed()


def told(outcome: Outcome) -> str:
    """Each ledger's standing, for a person."""
    return ", ".join(f"{ledger} {standing}" for ledger, standing in zip(ALL, outcome.standings(*ALL), strict=True))


@pytest.mark.parametrize("name", CHOSEN)
def test_a_fault_takes_no_verdict_that_is_owed_and_accuses_nobody(scene: Scene, name: str):
    """The plan says beforehand what is owed; nothing is lost, told twice, out of order or changed."""
    plan = PLANS[name]
    again = f"make faults SEED={SEED} PLAN={name!r}"

    def play(act: Act) -> Told:
        outcome, faults = played(act, plan, sorted(ALL))
        assert act.log.harmed(), f"the fault {faults} met no frame: {again}"
        if not plan.reachable:
            assert (5, []) == (outcome.exit_code, outcome.findings), f"{faults}: {again}"
            return Told([], [], in_order=True)
        found = act.breaches(told_by(outcome), owed(plan.owed(faults), plan.hidden))
        assert [] == found, f"{faults} breached {found}: {again}; {told(outcome)}"
        return told_by(outcome)

    scene.act(play)

"""What the tests of faults share: the seed, which plans are played, one run under one plan, and how it is held to what is owed.

FAULT_PLANS=all FAULT_SEED=7 pytest tests/faults          # what `make faults SEED=7` does
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from faults.detector import Told, of_command, of_run
from faults.plans import Faults, Plan
from faults.scene import ALL, Act, owed
from support.audits import Outcome, accounted, audit, audit_ledgers

SEED = int(os.environ.get("FAULT_SEED", "1"))
PLAYS_ALL = os.environ.get("FAULT_PLANS") == "all"
"""Otherwise the few that every test run has time for."""
WAITS = {"zookeeper_session_timeout": "2s", "zookeeper_retry_wait": "100ms", "zookeeper_connect_timeout": "10s"}
"""So that a ZooKeeper that says nothing is not waited for as long as in a data centre."""
IDS = sorted(ALL)
Pause = Callable[[int], object]


def chosen(plans: Mapping[str, Plan]) -> list[str]:
    """The names of the plans that are played."""
    return [name for name, plan in plans.items() if plan.quick or PLAYS_ALL]


def again(name: str) -> str:
    """How a failure is seen again."""
    return f"make faults SEED={SEED} shows it again, in the plan {name!r}"


def planted(act: Act, plan: Plan) -> Faults:
    """The faults of this seed, done from now on."""
    faults = plan.faults(Random(SEED))
    for name, of_proxy in faults.items():
        act.by_name[name].faults = list(of_proxy)
    return faults


def by_command(act: Act, plan: Plan, between: Pause = lambda pause: None) -> Outcome:
    """`auditor ledger` on all ledgers."""
    settings: dict[str, Any] = {**WAITS, **plan.settings}
    return audit_ledgers(act, IDS, between=_pauses(act, plan, between), **settings)


def by_job(act: Act, plan: Plan, tmp_path: Any, between: Pause = lambda pause: None) -> Outcome:
    """`auditor run`; the test asks for the fixture `spark`."""
    settings: dict[str, Any] = {**WAITS, **plan.settings}
    return audit(act, tmp_path, between=_pauses(act, plan, between), **settings)


def told_by(outcome: Outcome) -> Told:
    """What it wrote."""
    if outcome.run_dir is not None:
        return of_run(accounted(outcome).run_dir)  # type: ignore[arg-type]
    return of_command([verdict.told for verdict in outcome.verdicts.values()], outcome.findings)


def hold(act: Act, plan: Plan, faults: Faults, outcome: Outcome) -> None:
    """All that is owed is there, and nothing that is not true; the fault was met, or it would be no test."""
    assert [] == act.log.errors, f"the harm was not done: {act.log.errors}: {again(plan.name)}"
    assert act.log.harmed(), f"{faults} met no frame: {again(plan.name)}"
    if not plan.reachable:
        said = (outcome.exit_code, outcome.summary["outcome"], outcome.verdicts, outcome.findings)
        assert (5, "UNREACHABLE", {}, []) == said, f"{faults} and {outcome.stdout}: {again(plan.name)}"
        return
    assert ALL == set(outcome.verdicts), f"{faults} and {outcome.stdout}: {again(plan.name)}"
    found = act.breaches(told_by(outcome), owed(plan.owed(faults), plan.hidden))
    told = ", ".join(f"{ledger} {standing}" for ledger, standing in zip(IDS, outcome.standings(*IDS), strict=True))
    assert [] == found, f"{faults} breached {found}: {again(plan.name)}; {told}"


def _pauses(act: Act, plan: Plan, between: Pause) -> Pause:
    def paused(pause: int) -> None:
        act.second_look(pause, heal=plan.heals)
        between(pause)

    return paused

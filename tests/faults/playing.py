"""Shared by the tests of faults: the seed, the chosen plans, one run under one plan, and its
comparison with what is owed.

    FAULT_PLANS=all FAULT_SEED=7 pytest tests/faults          # what `make faults SEED=7` does
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from unittest.mock import patch

from faults.detector import May
from faults.plans import Faults, Plan
from faults.reported import Reported, Row, answers_of, of_command, of_run, reads_of
from faults.scene import ALL, Act, owed
from support.audits import FIRST_LOOK_ON_SPARK, Outcome, accounted, audit, audit_ledgers

from auditor.commands import ledger as ledger_command
from auditor.evidence.rows import answer_row, read_row, table
from auditor.evidence.schemas import ANSWERS, READS
from auditor.model.evidence import LedgerEvidence

SEED = int(os.environ.get("FAULT_SEED", "1"))
PLAYS_ALL = os.environ.get("FAULT_PLANS") == "all"
"""All plans, or the few that every test run has time for."""
WAITS = {
    "zookeeper_session_timeout": "2s",
    "zookeeper_retry_wait": "100ms",
    "zookeeper_connect_timeout": "10s",
}
"""Time-outs for a silent ZooKeeper that are shorter than in a data centre."""
IDS = sorted(ALL)
Pause = Callable[[int], object]


def chosen(plans: Mapping[str, Plan]) -> list[str]:
    """Return the names of the plans to play."""
    return [name for name, plan in plans.items() if plan.quick or PLAYS_ALL]


def again(name: str) -> str:
    """Return the command that repeats a failure."""
    return f"make faults SEED={SEED} shows it again, in the plan {name!r}"


@dataclass(frozen=True)
class Planted:
    """The faults of this seed, and what the report may say of each ledger: both are known before
    the run.
    """

    faults: Faults
    owed: Mapping[int, frozenset[May]]


@dataclass(frozen=True)
class Played:
    """How a command ended, and what it reported."""

    outcome: Outcome
    reported: Reported


def drawn(plan: Plan) -> Faults:
    """Return the faults of this seed. Each plan draws by itself, so that one seed hits several
    bookies.
    """
    return plan.faults(Random(f"{SEED} {plan.name}"))


def planted(act: Act, plan: Plan) -> Planted:
    """Do the faults of this seed from now on."""
    faults = drawn(plan)
    for name, of_proxy in faults.items():
        act.by_name[name].random = Random(f"{SEED} {plan.name} {name}")
        act.by_name[name].faults = list(of_proxy)
    return Planted(faults, owed(plan.owed(faults), plan.hidden, sampled=plan.sampled))


def by_command(act: Act, plan: Plan, between: Pause = lambda pause: None) -> Played:
    """Run `auditor ledger` on all ledgers, in a drawn order.

    It writes no evidence. What it hears is intercepted where it passes it to its report.
    """
    settings: dict[str, Any] = {**WAITS, **plan.settings}
    ids = Random(f"{SEED} {plan.name} ids").sample(IDS, len(IDS))
    heard: list[LedgerEvidence] = []
    judged = ledger_command.audit_ledgers

    def overheard(*args: Any) -> Any:
        result = judged(*args)
        heard.extend(evidence for evidence, _ in result)
        return result

    with patch.object(ledger_command, "audit_ledgers", overheard):
        outcome = audit_ledgers(act, ids, between=_pauses(act, plan, between), **settings)
    report = {
        "ledgers": [],
        "findings": [],
        "summary": {"ledgers": {}},
        **json.loads(outcome.stdout),
    }
    if not outcome.verdicts:
        return Played(outcome, Reported([], [], in_order=True))
    assert ids == list(outcome.verdicts), (
        "ledgers are reported in the order in which they are named"
    )
    # they are read and asked about in the order of their ids
    return Played(outcome, replace(of_command(report, *_evidence(heard)), in_order=False))


def by_job(act: Act, plan: Plan, tmp_path: Any, between: Pause = lambda pause: None) -> Played:
    """Run `auditor run` on Spark; the test needs the fixture `spark`."""
    settings: dict[str, Any] = {**WAITS, **FIRST_LOOK_ON_SPARK, **plan.settings}
    outcome = audit(act, tmp_path, between=_pauses(act, plan, between), **settings)
    return Played(
        outcome, written_by(outcome) if outcome.verdicts else Reported([], [], in_order=False)
    )


def written_by(outcome: Outcome) -> Reported:
    """Return what a run wrote."""
    run_dir = accounted(outcome).run_dir
    assert run_dir is not None, outcome.stdout
    return of_run(run_dir)


def hold(act: Act, plan: Plan, planted: Planted, played: Played) -> None:
    """Assert that everything owed is there, nothing untrue is, and the fault was met."""
    outcome, faults = played.outcome, planted.faults
    assert [] == act.log.errors, f"the harm was not done: {act.log.errors}: {again(plan.name)}"
    assert act.log.harmed(), f"{faults} met no frame: {again(plan.name)}"
    ended = (outcome.exit_code, outcome.summary["outcome"])
    if not plan.reachable:
        said = (*ended, outcome.verdicts, outcome.findings)
        assert (
            5,
            "UNREACHABLE",
            {},
            [],
        ) == said, f"{faults} and {outcome.stdout}: {again(plan.name)}"
        return
    assert ALL == set(outcome.verdicts), f"{faults} and {outcome.stdout}: {again(plan.name)}"
    found = act.breaches(played.reported, planted.owed)
    standings = ", ".join(
        f"{ledger} {standing}"
        for ledger, standing in zip(IDS, outcome.standings(*IDS), strict=True)
    )
    assert [] == found, f"{faults} breached {found}: {again(plan.name)}; {standings}"
    assert (
        1,
        "VIOLATED",
    ) == ended, (
        f"some loss is owed by every plan, and {faults} ended so: {again(plan.name)}; {standings}"
    )


def _evidence(heard: Sequence[LedgerEvidence]) -> tuple[list[Row], list[Row]]:
    """Return answers and reads as a run writes them: by ledger ids, which is the order in which
    each bookie is asked.
    """
    in_order = sorted(heard, key=lambda evidence: evidence.ledger_id)
    looks = [look for evidence in in_order for look in evidence.looks]
    answers = table(
        ANSWERS, [answer_row(answer) for look in looks for answer in look.answers.values()]
    )
    reads = table(READS, [read_row(read) for look in looks for read in look.reads.values()])
    return answers_of(answers.to_pylist()), reads_of(reads.to_pylist())


def _pauses(act: Act, plan: Plan, between: Pause) -> Pause:
    def paused(pause: int) -> None:
        act.second_look(pause, heal=plan.heals)
        between(pause)

    return paused

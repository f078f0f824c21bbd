"""A real cluster that changes all the time while it is audited.

Bookies come and go, auto-recovery copies what they held elsewhere, ledgers are deleted and
recreated. None of that is a finding; a real loss is one at every audit. The first audit is a whole
run, which also reports on bookies.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path

import pytest
from faults.playing import SEED
from support.audits import (
    FIRST_LOOK_ON_SPARK,
    JudgedLedger,
    Outcome,
    accounted,
    audit,
    audit_ledgers,
)
from support.real_bookkeeper import LOG4J2_WARN
from support.real_cluster import RealCluster
from support.real_jars import bookkeeper_jars
from support.real_processes import JavaProcess, java_command

from auditor.clock import now_ms
from auditor.evidence.run_directory import place
from auditor.evidence.schemas import ANSWERS, BOOKIES
from auditor.model.finding import Kind
from auditor.model.verdict import Unknown
from auditor.stop import StopRequest
from auditor.wire import ledger_metadata

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.long]

CHURN_S = 30.0
"""How long the cluster changes, in seconds; longer until AUDITS_MIN audits are done and
auto-recovery has done its part.
"""
CHURN_MAX_S = 240.0
"""How long to wait for auto-recovery, in seconds."""
AUDITS_MIN = 4
"""Minimum number of audits, including the whole run."""
VIOLATED = 1
"""The exit code of each audit, because of the lost ledger. Ledgers that could not be judged do not
change it.
"""
FAULTS = {Unknown.POISON, Unknown.CHECKERS_DISAGREE}
"""Reasons that are faults of the auditor."""
LEDGERS = range(1, 41)
LOST = 99
"""A ledger that really lacks an entry, on bookies that stay."""
STAYING, GOING = ("b1", "b2"), ("b3", "b4", "b5")
STEP_S = 0.2
AWAY_STEPS = 20
"""Steps for which a bookie stays away: auto-recovery copies some ledgers in that time, and not
all.
"""
ENTRIES = 12
RECOVERY_MAIN = "org.apache.bookkeeper.replication.AutoRecoveryMain"


@contextmanager
def auto_recovery(cluster: RealCluster, home: Path) -> Iterator[JavaProcess]:
    """Run BookKeeper's auditor and replication worker, which act at once when a bookie is gone."""
    home.mkdir()
    config = home / "autorecovery.conf"
    settings = {
        "metadataServiceUri": cluster.metadata_service_uri,
        "ledgerManagerFactoryClass": "org.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory",
        "bookieId": "recovery",
        "allowLoopback": "true",
        "advertisedAddress": "127.0.0.1",
        "httpServerEnabled": "false",
        "lostBookieRecoveryDelay": 0,
        "openLedgerRereplicationGracePeriod": 500,
        "rwRereplicateBackoffMs": 200,
        "zkTimeout": (
            30_000
        ),  # it ends with its session, which must not expire because the machine is busy
    }
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = java_command(
        bookkeeper_jars(), RECOVERY_MAIN, "--conf", str(config), heap="256m", log4j2=LOG4J2_WARN
    )
    process = JavaProcess("auto-recovery", command, home / "autorecovery.log")
    try:
        yield process
    finally:
        process.kill()


@dataclass
class Churn:
    """Changes the cluster, step by step. A ledger's entries are on their bookies before its znode
    exists.
    """

    cluster: RealCluster
    draw: random.Random
    away: str = ""
    away_since_ms: int = 0
    were_away: list[tuple[str, int, int]] = field(default_factory=list)
    """Each bookie that came back, with the times, in ms since 1970, before it went and after it was
    back.
    """
    steps_away: int = AWAY_STEPS
    """At the first step one bookie goes."""
    made: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """The original ensemble of each ledger that was not deleted."""
    replaced: int = 0
    """Ledgers whose ensemble changed: by auto-recovery, because nothing else writes metadata."""

    def make(self, ledger_id: int) -> None:
        """Create a closed ledger on three present bookies, each entry on two."""
        here = [name for name in (*STAYING, *GOING) if name != self.away]
        ensemble = tuple(self.draw.sample(here, 3))
        metadata = self.cluster.ledger(f"e3 w2 a2  0:[{' '.join(ensemble)}]  closed {ENTRIES - 1}")
        self.cluster.spread(ledger_id, metadata)
        self.cluster.add_ledger(ledger_id, metadata)
        self.made[ledger_id] = ensemble

    def delete(self, ledger_id: int) -> None:
        if self.made[ledger_id] != self.ensemble(ledger_id):
            self.replaced += 1
        self.cluster.delete_ledger(ledger_id)
        del self.made[ledger_id]

    def ensemble(self, ledger_id: int) -> tuple[str, ...]:
        """Return the present ensemble."""
        data, _ = self.cluster.zk.get(self.cluster.ledger_path(ledger_id))
        return tuple(ledger_metadata.decode(data).segments[0].ensemble)

    def step(self) -> None:
        """Let a bookie go or come back when it is time; now and then delete or create a ledger."""
        self.steps_away += 1
        if self.steps_away >= AWAY_STEPS:
            self.steps_away = 0
            if self.away:
                self.cluster.start_bookie(self.away)
                self.were_away.append((self.away, self.away_since_ms, now_ms()))
                self.away = ""
            else:
                self.away_since_ms = now_ms()
                self.away = self.draw.choice(GOING)
                self.cluster.lose_bookie(self.away, cookie=True)
        elif self.draw.random() < 0.5:
            gone = [ledger_id for ledger_id in LEDGERS if ledger_id not in self.made]
            if gone and self.draw.random() < 0.5:
                self.make(self.draw.choice(gone))
            else:
                self.delete(self.draw.choice(sorted(self.made)))
        time.sleep(STEP_S)

    def away_in(self, from_ms: int, to_ms: int) -> set[str]:
        """Return the bookies that were away at some time of the span."""
        now_away = [(self.away, self.away_since_ms, to_ms)] if self.away else []
        return {
            name
            for name, since, until in (*self.were_away, *now_away)
            if since <= to_ms and from_ms <= until
        }

    def count_replaced(self) -> int:
        """Count the ledgers that auto-recovery has given another ensemble so far."""
        return self.replaced + sum(
            ensemble != self.ensemble(ledger_id) for ledger_id, ensemble in self.made.items()
        )


def test_nothing_that_changes_is_a_finding_and_what_is_lost_is(real_cluster, spark, tmp_path: Path):
    """No audit accuses a complete ledger, or a bookie that was present; each finds the ledger that
    lacks an entry; and no audit contradicts itself.
    """
    cluster: RealCluster = real_cluster(bookies=len(STAYING) + len(GOING))
    churn = Churn(cluster, random.Random(SEED))
    for ledger_id in LEDGERS:
        churn.make(ledger_id)
    cluster.place(
        LOST, cluster.ledger("e2 w2 a2  0:[b1 b2]  closed 9"), lose={"b1": "4", "b2": "4"}
    )
    audits = chain([lambda: whole_run(cluster, tmp_path)], repeat(lambda: some_ledgers(cluster)))
    with auto_recovery(cluster, tmp_path / "recovery") as recovery, ThreadPoolExecutor(1) as pool:
        outcomes = churned(churn, recovery, pool, audits)
        replaced = churn.count_replaced()
    said = f"FAULT_SEED={SEED}; {len(outcomes)} audits, {replaced} ledgers re-replicated"
    assert 1 <= replaced, f"auto-recovery has not done anything: {said}; {recovery.log_tail()}"
    at_fault = [
        (number, one.report)
        for outcome in outcomes
        for number, one in judged(outcome)
        if FAULTS & {*one.unknowns}
    ]
    assert [] == at_fault, said
    assert [VIOLATED] * len(outcomes) == [outcome.exit_code for outcome in outcomes], said
    of_ledgers = [
        [found for found in outcome.findings if found["bookie_id"] is None] for outcome in outcomes
    ]
    assert [] == [found for some in of_ledgers for found in some if found["ledger_id"] != LOST], (
        said
    )
    assert [[Kind.ENTRY_WITHOUT_REPLICA]] * len(outcomes) == [
        [found["kind"] for found in some] for some in of_ledgers
    ], said
    assert {True} == {
        "sound" in {one.standing for _, one in judged(outcome)} for outcome in outcomes
    }, said
    assert [] == [
        found
        for outcome in outcomes[1:]
        for found in outcome.findings
        if found["bookie_id"] is not None
    ], said
    only_true_of_bookies(churn, outcomes[0], said)


def judged(outcome: Outcome) -> list[tuple[int, JudgedLedger]]:
    return list(outcome.verdicts.items())


def only_true_of_bookies(churn: Churn, run: Outcome, said: str) -> None:
    """Assert that a whole run says of a bookie only that it is silent or gone, and that the bookie
    was away at each of its looks.
    """
    looks = spans_of_looks(run)
    assert 2 <= len(looks), said
    assert churn.away_in(looks[0][0], looks[-1][1]), (
        f"every bookie was there throughout the run: {said}"
    )
    away_at_all = set.intersection(*(churn.away_in(*look) for look in looks))
    may_be = {Kind.BOOKIE_SILENT_YET_REGISTERED, Kind.BOOKIE_LOST_UNNOTICED}
    on_bookies = [found for found in run.findings if found["bookie_id"] is not None]
    false = [
        found
        for found in on_bookies
        if found["bookie_id"] not in away_at_all or found["kind"] not in may_be
    ]
    assert [] == false, (
        f"away at every look: {sorted(away_at_all)}; {looks}; {churn.were_away}; {said}"
    )


def spans_of_looks(run: Outcome) -> list[tuple[int, int]]:
    """Return the spans of looks, from reading the registrations to the last question to a bookie,
    in ms since 1970.
    """
    assert run.run_dir is not None
    evidence = place(str(run.run_dir))
    spans: dict[int, tuple[int, int]] = {}
    for row in evidence.read_table("evidence/bookies", BOOKIES).to_pylist():
        spans[row["look"]] = (row["read_at_ms"], row["read_at_ms"])
    for row in evidence.read_table("evidence/answers", ANSWERS).to_pylist():
        first, last = spans.get(row["look"], (row["asked_at_ms"], row["asked_at_ms"]))
        spans[row["look"]] = (min(first, row["asked_at_ms"]), max(last, row["asked_at_ms"]))
    return [spans[look] for look in sorted(spans)]


def some_ledgers(cluster: RealCluster) -> Outcome:
    """Run `auditor ledger`, which withholds findings on bookies."""
    return audit_ledgers(cluster, [*LEDGERS, LOST], rpc_timeout="5s")


def whole_run(cluster: RealCluster, tmp_path: Path) -> Outcome:
    """Run `auditor run`, which waits for its second look; bookies go and come back meanwhile."""
    return accounted(
        audit(
            cluster,
            tmp_path,
            stop=StopRequest(),
            second_look_delay="2s",
            rpc_timeout="5s",
            **FIRST_LOOK_ON_SPARK,
        )
    )


def churned(
    churn: Churn,
    recovery: JavaProcess,
    pool: ThreadPoolExecutor,
    audits: Iterator[Callable[[], Outcome]],
) -> list[Outcome]:
    """Return the audits that were made one after another while the cluster changed. Only this
    thread starts processes.
    """
    outcomes: list[Outcome] = []
    churn.step()
    running: Future[Outcome] = pool.submit(next(audits))
    began = time.monotonic()
    while True:
        recovery.assert_running()
        churn.step()
        spent = time.monotonic() - began
        if running.done():
            outcomes.append(running.result())
            enough = spent >= CHURN_S and churn.count_replaced() > 0
            if len(outcomes) >= AUDITS_MIN and (enough or spent >= CHURN_MAX_S):
                return outcomes
            running = pool.submit(next(audits))

"""A real cluster that never stands still while it is audited: bookies come and go, auto-recovery copies what they
held elsewhere, ledgers are deleted and made again. Nothing of that is a finding; a loss among it is one at every audit."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from faults.playing import SEED
from support.audits import Outcome, audit_ledgers
from support.real_bookkeeper import LOG4J2_WARN
from support.real_cluster import RealCluster
from support.real_jars import bookkeeper_jars
from support.real_processes import JavaProcess, java_command

from auditor.model.finding import Kind
from auditor.wire import ledger_metadata

pytestmark = [pytest.mark.real, pytest.mark.long]

CHURN_S = 30.0
"""How long it is churned, in seconds; longer until AUDITS_MIN audits are done and auto-recovery has done its part."""
CHURN_MAX_S = 240.0
"""The same at most, on a machine that does other things too."""
AUDITS_MIN = 3
LEDGERS = range(1, 41)
LOST = 99
"""A ledger that really lacks an entry, on bookies that stay."""
STAYING, GOING = ("b1", "b2"), ("b3", "b4", "b5")
STEP_S = 0.2
AWAY_STEPS = 20
"""Steps that a bookie stays away: auto-recovery copies some ledgers in that time, and not all."""
ENTRIES = 12
RECOVERY_MAIN = "org.apache.bookkeeper.replication.AutoRecoveryMain"


@contextmanager
def auto_recovery(cluster: RealCluster, home: Path) -> Iterator[JavaProcess]:
    """BookKeeper's auditor and replication worker, which act at once when a bookie is gone."""
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
        "zkTimeout": 4000,
    }
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = java_command(bookkeeper_jars(), RECOVERY_MAIN, "--conf", str(config), heap="256m", log4j2=LOG4J2_WARN)
    process = JavaProcess("auto-recovery", command, home / "autorecovery.log")
    try:
        yield process
    finally:
        process.kill()


@dataclass
class Churn:
    """What changes the cluster, a step at a time. A ledger's entries are on their bookies before its znode is there."""

    cluster: RealCluster
    draw: random.Random
    away: str = ""
    steps_away: int = 0
    made: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """The ensemble that each ledger was made with, those deleted not counted."""
    replaced: int = 0
    """Ledgers whose ensemble somebody else has changed: auto-recovery, nobody else writes metadata."""

    def make(self, ledger_id: int) -> None:
        """A closed ledger on three bookies that are there; each entry on two."""
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
        """As it is now."""
        data, _ = self.cluster.zk.get(self.cluster.ledger_path(ledger_id))
        return tuple(ledger_metadata.decode(data).segments[0].ensemble)

    def step(self) -> None:
        """A bookie goes or comes back when it is time; now and then a ledger is deleted, or one is made again."""
        self.steps_away += 1
        if self.steps_away >= AWAY_STEPS:
            self.steps_away = 0
            if self.away:
                self.cluster.start_bookie(self.away)
                self.away = ""
            else:
                self.away = self.draw.choice(GOING)
                self.cluster.lose_bookie(self.away, cookie=True)
        elif self.draw.random() < 0.5:
            gone = [ledger_id for ledger_id in LEDGERS if ledger_id not in self.made]
            if gone and self.draw.random() < 0.5:
                self.make(self.draw.choice(gone))
            else:
                self.delete(self.draw.choice(sorted(self.made)))
        time.sleep(STEP_S)

    def count_replaced(self) -> int:
        """How many ledgers auto-recovery has given another ensemble, up to now."""
        return self.replaced + sum(ensemble != self.ensemble(ledger_id) for ledger_id, ensemble in self.made.items())


def test_nothing_that_changes_is_a_finding_and_what_is_lost_is(real_cluster, tmp_path: Path):
    """No audit accuses a ledger that lacks nothing, and each finds the one that does."""
    cluster: RealCluster = real_cluster(bookies=len(STAYING) + len(GOING))
    churn = Churn(cluster, random.Random(SEED))
    for ledger_id in LEDGERS:
        churn.make(ledger_id)
    cluster.place(LOST, cluster.ledger("e2 w2 a2  0:[b1 b2]  closed 9"), lose={"b1": "4", "b2": "4"})
    with auto_recovery(cluster, tmp_path / "recovery") as recovery, ThreadPoolExecutor(1) as pool:
        outcomes = churned(cluster, churn, recovery, pool)
        replaced = churn.count_replaced()
    said = f"FAULT_SEED={SEED}; {len(outcomes)} audits, {replaced} ledgers re-replicated"
    assert AUDITS_MIN <= len(outcomes), said
    assert 1 <= replaced, f"auto-recovery has not done anything: {said}; {recovery.log_tail()}"
    accused = [found for outcome in outcomes for found in outcome.findings if found["ledger_id"] != LOST]
    assert [] == accused, said
    assert [[Kind.ENTRY_WITHOUT_REPLICA]] * len(outcomes) == [outcome.kinds for outcome in outcomes], said
    assert {True} == {"sound" in {verdict.standing for verdict in outcome.verdicts.values()} for outcome in outcomes}, said


def churned(cluster: RealCluster, churn: Churn, recovery: JavaProcess, pool: ThreadPoolExecutor) -> list[Outcome]:
    """The audits that were made one after another while the cluster changed; processes are started by this thread alone."""

    def one() -> Outcome:
        return audit_ledgers(cluster, [*LEDGERS, LOST], rpc_timeout="5s")

    outcomes: list[Outcome] = []
    running: Future[Outcome] = pool.submit(one)
    began = time.monotonic()
    while True:
        recovery.assert_running()
        churn.step()
        spent = time.monotonic() - began
        if running.done():
            outcomes.append(running.result())
            enough = len(outcomes) >= AUDITS_MIN and churn.count_replaced() > 0
            if (spent >= CHURN_S and enough) or spent >= CHURN_MAX_S:
                return outcomes
            running = pool.submit(one)

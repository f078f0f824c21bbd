"""A bookie that is gone with its cookie left may be restarting slowly: the second look waits for
the recovery delay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.audits import Outcome, Pauses, accounted, audit

from auditor.model.cluster import ClusterFacts
from auditor.model.finding import Kind
from auditor.sandbox.cluster import SandboxCluster

SESSION_S = ClusterFacts("", (), "", "", None, False, None).session_timeout_ms / 1000
MARGIN_S = 1.0
"""What the second look waits beyond the minimum, so that rounding cannot make it too short."""
UNKNOWN = ["indeterminate: bookie_silent"] * 2 + ["sound"]
"""Ledgers 1 and 2 name the lost bookie, ledger 3 does not."""

Audited = Callable[..., Outcome]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield a cluster in which b2 is stopped and unregistered, with its cookie and its entries. No
    ledger names b3.
    """
    with SandboxCluster(tmp_path_factory.mktemp("lost"), bookies=3, named=True) as cluster:
        for ledger_id in (1, 2):
            cluster.place(ledger_id, cluster.ledger("e2 w2 a2 0:[b1 b2] closed 9"))
        cluster.place(3, cluster.ledger("e1 w1 a1 0:[b1] closed 9"))
        cluster.lose_bookie("b2", cookie=True)
        yield cluster


@pytest.fixture
def audited(cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Audited:
    """Run an audit whose pauses have passed, without sleeping, by the clock that dates the looks at
    bookies.
    """

    def run(between: Callable[[int], object] | None = None, **settings: object) -> Outcome:
        pauses = Pauses(between)
        monkeypatch.setattr("auditor.run.bookie_register.now_ms", pauses.skipped_clock())
        return accounted(audit(cluster, tmp_path, stop=pauses, **settings))

    return run


def test_waits_for_the_recovery_delay(cluster: SandboxCluster, audited: Audited) -> None:
    """The looks are lostBookieRecoveryDelay and a session apart; still gone and unmarked then, it
    is found.
    """
    cluster.set_lost_bookie_recovery_delay(900)

    outcome = audited()

    assert [900 + SESSION_S + MARGIN_S] == outcome.pauses_s
    found = outcome.one("b2")
    assert (Kind.BOOKIE_LOST_UNNOTICED.value, "critical") == (found["kind"], found["severity"])
    for words in (
        "Bookie b2",
        "still has a cookie",
        "2 closed ledgers",
        "(1, 2)",
        "lostBookieRecoveryDelay",
    ):
        assert words in found["witness"]
    assert [found] == outcome.findings
    assert UNKNOWN == outcome.standings(1, 2, 3)
    assert 1 == outcome.exit_code


def test_says_nothing_where_it_may_not_wait_so_long(
    cluster: SandboxCluster, audited: Audited
) -> None:
    """The delay exceeds lost_bookie_wait_max: nothing is waited for, and a sentence replaces the
    finding on the bookie.
    """
    cluster.set_lost_bookie_recovery_delay(7200)

    outcome = audited(lost_bookie_wait_max="30m")

    assert [0.0] == outcome.pauses_s
    assert [] == outcome.findings
    (withheld,) = outcome.summary["withheld"]
    assert all(words in withheld for words in ("bookie b2", "for 7210 s", "--lost-bookie-wait-max"))
    assert "bookie b2 is not registered" in " ".join(outcome.stdout.split())
    assert (3, "INCOMPLETE") == (outcome.exit_code, outcome.summary["outcome"])
    assert UNKNOWN == outcome.standings(1, 2, 3)


def test_the_second_look_delay_may_be_longer(cluster: SandboxCluster, audited: Audited) -> None:
    """The longer of the two waits counts."""
    cluster.set_lost_bookie_recovery_delay(0)

    outcome = audited(second_look_delay="5m")

    assert [300.0] == outcome.pauses_s
    assert [Kind.BOOKIE_LOST_UNNOTICED] == outcome.kinds


def test_disabled_replication_is_named(cluster: SandboxCluster, audited: Audited) -> None:
    """With auto-recovery off a bookie that has its cookie is not accused, as in an upgrade: the
    report says so first.
    """
    cluster.set_lost_bookie_recovery_delay(0)
    cluster.disable_replication()
    try:
        outcome = audited()
    finally:
        cluster.enable_replication()

    assert ([], [0.0]) == (outcome.findings, outcome.pauses_s)
    assert outcome.summary["replication_disabled"] is True
    first_screen = " ".join(outcome.stdout.split("\nLedgers\n")[0].split())
    assert "Auto-recovery is disabled in this cluster" in first_screen
    assert "b2 is not registered and has a cookie. While auto-recovery is disabled" in first_screen


def test_ledgers_marked_meanwhile(cluster: SandboxCluster, audited: Audited) -> None:
    """The cluster noticed during the wait: the ledgers are EXEMPT, and the bookie has no
    finding.
    """
    cluster.set_lost_bookie_recovery_delay(0)
    try:
        outcome = audited(lambda _: [cluster.mark(ledger_id, ["b2"]) for ledger_id in (1, 2)])
    finally:
        for ledger_id in (1, 2):
            cluster.unmark(ledger_id)

    assert [] == outcome.findings
    assert ["exempt: marked_underreplicated"] * 2 + ["sound"] == outcome.standings(1, 2, 3)
    assert 0 == outcome.exit_code


def test_a_slow_restart_is_no_page(cluster: SandboxCluster, audited: Audited) -> None:
    """It is back before the second look: the ledgers are SOUND, and the bookie has no finding."""
    cluster.set_lost_bookie_recovery_delay(0)
    try:
        outcome = audited(lambda _: cluster.start_bookie("b2"))
    finally:
        cluster.lose_bookie("b2", cookie=True)

    assert [] == outcome.findings
    assert ["sound"] * 3 == outcome.standings(1, 2, 3)
    assert 0 == outcome.exit_code


def test_a_silent_bookie_that_no_ledger_names(cluster: SandboxCluster, audited: Audited) -> None:
    """It is registered and does not listen, and is found although no ledger needs a second look.
    The lost one, which the audited ledger does not name either, has no finding and costs no wait.
    """
    cluster.stop_bookie("b3")
    try:
        outcome = audited(ledger_ids=[3])
    finally:
        cluster.start_bookie("b3")

    assert [0.0] == outcome.pauses_s
    assert [Kind.BOOKIE_SILENT_YET_REGISTERED] == outcome.kinds
    assert 2 == len(outcome.one("b3")["looks"])
    assert {
        "listed": 1,
        "sound": 1,
        "exempt": 0,
        "indeterminate": 0,
        "violated": 0,
    } == outcome.summary["ledgers"]
    assert (1, "VIOLATED", True) == (
        outcome.exit_code,
        outcome.summary["outcome"],
        outcome.summary["complete"],
    )

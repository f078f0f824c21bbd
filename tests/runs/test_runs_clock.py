"""Runs on a host whose clock lies behind: what it hides is unknown, and nothing is clamped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.audits import accounted, audit, audit_ledgers

from auditor import clock
from auditor.sandbox.cluster import SandboxCluster
from auditor.zookeeper.metadata_store import MetadataStore

DAY_S = 86_400
MARKED, SOUND = 1, 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield a cluster with a marked ledger and a sound one."""
    with SandboxCluster(tmp_path_factory.mktemp("cluster"), 3) as cluster:
        for ledger_id in (MARKED, SOUND):
            cluster.place(ledger_id, cluster.ledger("e3 w3 a2 0:[b1 b2 b3] closed 9"))
        cluster.mark(MARKED, ["b1"])
        yield cluster


def behind(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let this host's wall clock lie this far behind."""

    class Late(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime.fromtimestamp(time.time() - seconds, tz)

    late = SimpleNamespace(time_ns=lambda: time.time_ns() - int(seconds * 1e9))
    monkeypatch.setattr(clock, "time", late)
    monkeypatch.setattr(clock, "datetime", Late)


def test_a_mark_is_not_young_because_the_clock_is_late(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be beyond its grace: unknown, and never exempt. The run says why, and what to do."""
    behind(monkeypatch, 31 * DAY_S)
    outcome = accounted(audit(cluster, tmp_path))
    assert 3 == outcome.exit_code, outcome.stdout
    assert ("indeterminate", ("auditor_limited",)) == (
        outcome.verdicts[MARKED].standing,
        outcome.verdicts[MARKED].unknowns,
    )
    assert "sound" == outcome.verdicts[SOUND].standing
    (sentence,) = outcome.summary["withheld"]
    assert sentence.startswith("the clock of this host lies at least 30 days")
    assert "The directory and the times of this run are those of this clock" in sentence
    assert "lies at least 30 days" in " ".join(outcome.stdout.split())


def test_a_mark_that_is_too_old_even_by_a_late_clock_is_found(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its age is the least that is proven: no true finding becomes weaker."""
    behind(monkeypatch, 31 * DAY_S)
    outcome = accounted(audit(cluster, tmp_path, underreplication_grace="0s"))
    assert 1 == outcome.exit_code
    assert ["UNDERREPLICATED_BEYOND_GRACE"] == [one["kind"] for one in outcome.findings]


def test_a_single_ledger_is_judged_alike(
    cluster: SandboxCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`auditor ledger` has the same reason."""
    behind(monkeypatch, 31 * DAY_S)
    outcome = audit_ledgers(cluster, [MARKED, SOUND])
    assert ("indeterminate", ("auditor_limited",)) == (
        outcome.verdicts[MARKED].standing,
        outcome.verdicts[MARKED].unknowns,
    )
    assert "sound" == outcome.verdicts[SOUND].standing


def test_a_clock_that_is_decades_behind_audits_nothing(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names of runs, by which the newest is found, would be wrong too."""
    behind(monkeypatch, 30 * 365 * DAY_S)
    outcome = audit(cluster, tmp_path)
    assert 5 == outcome.exit_code
    said = " ".join(outcome.stdout.split())
    assert f"the clock of this host says {datetime.now(UTC).year - 30}" in said
    assert "a run's directory is named by that clock" in said
    assert not list(tmp_path.glob("run-*/summary.json"))


def test_a_little_skew_is_no_fault(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two clocks are never quite alike."""
    behind(monkeypatch, 60)
    outcome = accounted(audit(cluster, tmp_path))
    assert 0 == outcome.exit_code
    assert "exempt" == outcome.verdicts[MARKED].standing
    assert [] == outcome.summary["withheld"]


def test_a_lag_that_only_a_ledger_shows_publishes_nothing(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where everything that is read first is old, verdicts are given by a clock that is wrong."""
    behind(monkeypatch, 31 * DAY_S)
    monkeypatch.setattr(MetadataStore, "newest_write", lambda *_: None)
    outcome = audit(cluster, tmp_path)
    assert 5 == outcome.exit_code
    assert "ZooKeeper wrote a ledger's znode or mark at" in " ".join(outcome.stdout.split())

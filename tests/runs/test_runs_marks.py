"""Marks in whole runs: those without a ledger, stale ones, and what a run of a part may say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.audits import accounted, audit

from auditor.model.finding import Kind
from auditor.sandbox.cluster import SandboxCluster

STRIPED = "e3 w2 a2 0:[b1 b2 b3] closed 29"
SOUND, STALE, LACKING, OLD, YOUNG = 1, 2, 3, 70, 71
TEN_DAYS_MS = 10 * 24 * 3600 * 1000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield three ledgers, two of them marked: the second is complete, the third lacks a copy. Two
    marks have no ledger.
    """
    with SandboxCluster(tmp_path_factory.mktemp("marks"), 3, named=True) as made:
        for ledger_id in (SOUND, STALE, LACKING):
            made.place(ledger_id, made.ledger(STRIPED))
        made.hold("b2", LACKING, "")
        long_ago = int(time.time() * 1000) - TEN_DAYS_MS
        for ledger_id, ctime_ms in ((STALE, None), (LACKING, None), (OLD, long_ago), (YOUNG, None)):
            made.mark(ledger_id, ["b2"], ctime_ms)
        yield made


def test_marks_are_found_and_counted(cluster: SandboxCluster, tmp_path: Path) -> None:
    """The old mark without a ledger is a finding on the cluster; the replay says the same from the
    written looks.
    """
    outcome = accounted(audit(cluster, tmp_path))
    (found,) = outcome.findings
    assert (Kind.MARK_WITHOUT_LEDGER, None, None) == (
        Kind(found["kind"]),
        found["ledger_id"],
        found["bookie_id"],
    )
    assert (1, [OLD]) == (found["facts"]["marks"], found["facts"]["some_ledgers"])
    expected = {"total": 4, "within_grace": 3, "beyond_grace": 1, "stale": 1, "without_ledger": 2}
    assert expected == outcome.summary["marks"]
    assert {"under_1h": 3, "under_1d": 0, "under_1w": 0, "older": 1} == outcome.summary[
        "marks_by_age"
    ]
    assert outcome.summary["oldest_underreplicated_s"] < 3600
    assert outcome.run_dir is not None
    assert f"{STALE}\n" == (outcome.run_dir / "marks" / "stale.txt").read_text()
    assert f"{OLD}\n" == (outcome.run_dir / "marks" / "without_ledger.txt").read_text()
    assert ["exempt: marked_underreplicated"] * 2 == outcome.standings(STALE, LACKING)


def test_a_mark_that_is_gone_at_the_second_look_is_no_finding(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    """The delay passed, and then it was gone."""

    def between(_pause: int) -> None:
        cluster.unmark(OLD)

    try:
        outcome = accounted(audit(cluster, tmp_path, between=between, second_look_delay="60s"))
    finally:
        cluster.mark(OLD, ["b2"], int(time.time() * 1000) - TEN_DAYS_MS)
    assert ([], 3) == (outcome.findings, outcome.summary["marks"]["total"])
    assert any(30 < pause <= 60 for pause in outcome.pauses_s)


def test_a_run_of_a_part_speaks_of_its_ledgers_alone(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    """Marks of ledgers that were not named are neither found nor counted."""
    outcome = accounted(audit(cluster, tmp_path, ledger_ids=[SOUND, STALE]))
    assert ([], 1, 1) == (
        outcome.findings,
        outcome.summary["marks"]["total"],
        outcome.summary["marks"]["stale"],
    )


def test_each_copy_was_read(cluster: SandboxCluster, tmp_path: Path) -> None:
    """It holds for the one judged ledger that is not marked: thirty entries, two copies each. The
    spot reads reach every copy of so small a cluster.
    """
    summary = accounted(audit(cluster, tmp_path)).summary
    assert ({"expected": 60, "listed": 0, "read": 60, "assumed": 0}, 1.0) == (
        summary["copies"],
        summary["verified_ratio"],
    )

"""Laws of runs that ask only about what is due (`--within`), over simulated hours."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit

from auditor.evidence.run_directory import place
from auditor.evidence.schemas import ANSWERS
from auditor.sandbox.cluster import SandboxCluster

LEDGERS = range(1, 201)
PERIOD_HOURS = 8


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SandboxCluster]:
    """Yield three bookies with cookies, and 200 sound ledgers of five entries."""
    with SandboxCluster(tmp_path / "cluster", bookies=3, named=True) as made:
        for bookie in ("b1", "b2", "b3"):
            made.cookie(bookie)
        for ledger in LEDGERS:
            made.place(ledger, made.ledger("e3 w3 a2 0:[b1 b2 b3] closed 4"))
        yield made


class Hours:
    """Runs of one output that begin at given hours."""

    def __init__(
        self, cluster: SandboxCluster, output: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.cluster, self.output, self.monkeypatch = cluster, output, monkeypatch
        self.first = datetime.now(UTC)

    def run(self, hour: float, **settings: str) -> Outcome:
        """Run an audit that begins so many hours after the first."""
        at = self.first + timedelta(hours=hour)
        self.monkeypatch.setattr("auditor.run.run.utc_now", lambda: at)
        given = {"within": f"{PERIOD_HOURS}h", "spot_reads": "0", **settings}
        return audit(self.cluster, self.output, **given)


@pytest.fixture
def hours(cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hours:
    return Hours(cluster, tmp_path / "output", monkeypatch)


def asked(outcome: Outcome) -> set[int]:
    rows = place(str(outcome.run_dir)).read_table("evidence/answers", ANSWERS, None, ["ledger_id"])
    return set(rows["ledger_id"].to_pylist()) - {None}


def test_a_loss_in_a_carried_ledger_is_found_within_the_period(
    hours: Hours, cluster: SandboxCluster
) -> None:
    whole = accounted(hours.run(0))
    assert (0, set(LEDGERS)) == (whole.exit_code, asked(whole))
    first = hours.run(1)
    print(first.summary["carried"], len(asked(first)), first.stdout, first.summary["ledgers"])
    accounted(first)

"""Laws of successive runs that read every copy within a period."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit

from auditor.after.finished_run import open_finished_run
from auditor.evidence.run_directory import place
from auditor.evidence.schemas import READS
from auditor.model.finding import Kind
from auditor.sandbox.cluster import SandboxCluster
from auditor.summary.reading_plan import milliseconds
from auditor.summary.verification import add_counts, ages_of_ledger

LEDGERS, ENTRIES = range(1, 41), 50
HELD = len(LEDGERS) * ENTRIES
PERIOD_DAYS = 30


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield three bookies that hold 2,000 entries each."""
    with SandboxCluster(tmp_path_factory.mktemp("cluster"), bookies=3, named=True) as made:
        for ledger in LEDGERS:
            made.place(ledger, made.ledger(f"e3 w3 a2 0:[b1 b2 b3] closed {ENTRIES - 1}"))
        yield made


class Nights:
    """Runs of one output that begin on given days."""

    def __init__(
        self, cluster: SandboxCluster, output: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.cluster, self.output, self.monkeypatch = cluster, output, monkeypatch
        self.first = datetime.now(UTC)

    def run(self, day: float, **settings: str) -> Outcome:
        """Run an audit that begins so many days after the first."""
        at = self.first + timedelta(days=day)
        self.monkeypatch.setattr("auditor.run.run.utc_now", lambda: at)
        return audit(self.cluster, self.output, spot_reads="50", **settings)


@pytest.fixture
def nights(cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    return Nights(cluster, tmp_path, monkeypatch)


def copies_read(outcome: Outcome) -> set[tuple[str, int, int]]:
    columns = ["bookie_id", "ledger_id", "entry_id"]
    rows = place(str(outcome.run_dir)).read_table("evidence/reads", READS, None, columns)
    return set(zip(*rows.to_pydict().values(), strict=True))


def test_runs_read_every_copy_within_the_period(nights: Nights) -> None:
    """They begin five days apart, and together leave nothing out."""
    read: dict[tuple[str, int, int], int] = {}
    for day in range(0, PERIOD_DAYS, 5):
        outcome = nights.run(day, verify_bytes_per_second="1MiB")
        read.update(dict.fromkeys(copies_read(outcome), day))
        ages = outcome.summary["verification"]["counts"]
        assert {
            "copies": 3 * HELD,
            "within_day": sum(day - at <= 1 for at in read.values()),
            "within_week": sum(day - at <= 7 for at in read.values()),
            "within_period": len(read),
            "never": 3 * HELD - len(read),
            "overdue": 0,
        } == {name: value for name, value in ages.items() if name != "oldest"}
        if day == 10:
            accounted(outcome)
            run, summary = open_finished_run(str(outcome.run_dir))
            at_ms = milliseconds(str(summary.started_at))
            of_ledgers = [ages_of_ledger(run, summary.verification, at_ms, one) for one in LEDGERS]
            assert ages == asdict(add_counts([one.counts for one in of_ledgers if one]))
    assert 3 * HELD == len(read)


def test_what_was_not_read_in_time_is_overdue_until_a_run_reads_it(nights: Nights) -> None:
    """Without a rate, runs only test lists. The finding says which rate would keep the period."""
    early = [nights.run(day, verify_bytes_per_second="0") for day in (0, 29)]
    assert [[], []] == [outcome.findings for outcome in early]
    assert "none is overdue before" in " ".join(early[-1].stdout.split())
    late = accounted(nights.run(31, verify_bytes_per_second="0"))
    (found,) = late.findings
    assert (Kind.VERIFICATION_OVERDUE.value, "warning") == (found["kind"], found["severity"])
    facts, counts = found["facts"], late.summary["verification"]["counts"]
    assert (3 * HELD, counts["overdue"], 3) == (
        facts["copies_due"],
        facts["overdue"],
        facts["bookies"],
    )
    assert counts["never"] <= counts["overdue"] < 3 * HELD
    assert (0, []) == (facts["not_read"], facts["some_not_read"])
    assert 1 == late.exit_code
    assert 90_000 < facts["rate_needed"] < 100_000
    off = nights.run(32, verify_bytes_per_second="0", verify_within="0")
    assert ([], 1) == (off.findings, off.summary["changes"]["not_checked_again"])
    mended = nights.run(33, verify_bytes_per_second="10MiB")
    assert ([], 1) == (mended.findings, mended.summary["changes"]["resolved"])
    assert 0 == mended.summary["verification"]["counts"]["overdue"]


def test_arcs_are_handed_on_and_not_counted_by_runs_that_do_not_count(nights: Nights) -> None:
    """By a run of named ledgers, and by one that tests no list."""
    first = nights.run(0).summary["verification"]["bookies"]
    nights.monkeypatch.undo()
    for settings in ({"ledger_ids": [1]}, {"spot_reads": "0"}):
        at = {"verify_bytes_per_second": "1MiB", "spot_reads": "50", **settings}
        handed = audit(nights.cluster, nights.output, **at).summary["verification"]
        assert handed["counts"] is None
        assert [one["arcs"] for one in first] == [one["arcs"] for one in handed["bookies"]]


def test_a_run_without_a_period_goes_on_with_the_series(nights: Nights) -> None:
    """What is said of the copies stays true when the period is set again."""
    read: set[tuple[str, int, int]] = set()
    for day, within in enumerate(("720h", "0", "720h")):
        outcome = nights.run(day, verify_bytes_per_second="0", verify_within=within)
        read |= copies_read(outcome)
        ages = outcome.summary["verification"]["counts"]
        assert (3 * HELD - len(read), 0) == (ages["never"], ages["overdue"])

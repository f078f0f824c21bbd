"""Laws of whole runs about metadata that changes between two nights, and their replay."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit

from auditor.model.finding import Kind
from auditor.model.ledger import LedgerState
from auditor.sandbox.cluster import SandboxCluster

CUT, OPENED, MOVED, SAME = 1, 2, 3, 4
TEXT = "e3 w2 a2 0:[b1 b2 b3] closed 49"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    with SandboxCluster(tmp_path_factory.mktemp("cluster"), bookies=4) as made:
        yield made


@pytest.fixture(scope="module")
def first_run(cluster: SandboxCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an output directory with one run, in which nothing is wrong."""
    home = tmp_path_factory.mktemp("first")
    for ledger_id in (CUT, OPENED, MOVED, SAME):
        cluster.place(ledger_id, cluster.ledger(TEXT))
    first = accounted(audit(cluster, home))
    assert ([], 0) == (first.findings, first.exit_code)
    compared = first.summary["metadata_compared"]
    assert (None, "", 0) == (compared["earlier_run"], compared["problem"], compared["compared"])
    return home / "audits"


@pytest.fixture
def output(cluster: SandboxCluster, first_run: Path, tmp_path: Path) -> Path:
    """Put all metadata back, and return a copy of the output directory of the first run."""
    for ledger_id in (CUT, OPENED, MOVED, SAME):
        cluster.place(ledger_id, cluster.ledger(TEXT))
    return Path(shutil.copytree(first_run, tmp_path / "audits"))


def changed_in(outcome: Outcome) -> list[int]:
    """Return the ledgers with CLOSED_METADATA_CHANGED."""
    return [
        found["ledger_id"]
        for found in outcome.findings
        if found["kind"] == Kind.CLOSED_METADATA_CHANGED
    ]


def test_changed_metadata_is_found_on_every_night_until_it_is_as_it_was(
    cluster: SandboxCluster, output: Path, tmp_path: Path
) -> None:
    """A lower end and a reopened ledger are found, a ledger that was replicated to another bookie
    is not. The next run finds both again, as the first run that stored them said, and names nothing
    as news; the run after the metadata was put back finds nothing.
    """
    before = cluster.ledger(TEXT)
    cluster.add_ledger(CUT, replace(before, last_entry_id=39))
    cluster.add_ledger(OPENED, replace(before, state=LedgerState.OPEN, last_entry_id=None))
    cluster.place(MOVED, cluster.ledger(TEXT.replace("b3", "b4")))
    second = accounted(audit(cluster, tmp_path))
    assert [CUT, OPENED] == changed_in(second)
    cut = next(found for found in second.findings if found["kind"] == Kind.CLOSED_METADATA_CHANGED)
    assert [[40, 49]] == cut["entries"]
    assert [["lastEntryId", "49", "39"]] == [list(f.values()) for f in cut["facts"]["fields"]]
    assert (1, "VIOLATED") == (second.exit_code, second.summary["outcome"])
    counted = second.summary["metadata_compared"]
    assert (cut["facts"]["earlier_run"], "") == (counted["earlier_run"], counted["problem"])
    assert (4, 2, 0) == (counted["compared"], counted["changed"], counted["unknown"])
    assert (0, 0, {}) == (counted["went_back"], counted["returned"], counted["gone"])
    third = accounted(audit(cluster, tmp_path))
    assert [CUT, OPENED] == changed_in(third)
    still = [f for f in third.findings if f["kind"] == Kind.CLOSED_METADATA_CHANGED]
    assert {("still", 2)} == {(found["change"], found["runs_seen"]) for found in still}
    assert {cut["facts"]["earlier_run"]} == {found["facts"]["earlier_run"] for found in still}
    for ledger_id in (CUT, OPENED):
        cluster.add_ledger(ledger_id, before)
    last = accounted(audit(cluster, tmp_path))
    assert [] == changed_in(last)
    changes = last.summary["changes"]
    assert 0 == changes["not_checked_again"] < changes["resolved"]


def test_changed_metadata_is_not_resolved_because_a_night_was_not_compared(
    cluster: SandboxCluster, output: Path, tmp_path: Path
) -> None:
    """The run after that night compares with the changed metadata, and finds nothing."""
    cluster.place(SAME, cluster.ledger(TEXT.replace("49", "39")))
    found = accounted(audit(cluster, tmp_path))
    assert [SAME] == changed_in(found)
    for file in (found.run_dir / "evidence" / "ledgers").rglob("*.parquet"):
        file.unlink()
    for _ in range(2):
        later = accounted(audit(cluster, tmp_path))
        assert [] == changed_in(later)
        changes = later.summary["changes"]
        assert (0, 1) == (changes["resolved"], changes["not_checked_again"])


def test_metadata_that_is_put_back_before_the_closing_look_accuses_nobody(
    cluster: SandboxCluster, output: Path, tmp_path: Path
) -> None:
    """Only what both looks see is found."""
    before = cluster.ledger(TEXT)
    cluster.add_ledger(SAME, replace(before, length=before.length + 1))

    def put_back(_: int) -> None:
        cluster.add_ledger(SAME, before)

    outcome = accounted(audit(cluster, tmp_path, between=put_back))
    assert [] == changed_in(outcome)
    assert 0 == outcome.summary["metadata_compared"]["unknown"]


def test_an_earlier_run_that_lost_a_table_is_not_compared(
    cluster: SandboxCluster, output: Path, tmp_path: Path
) -> None:
    """The run says why, and is judged without it."""
    (run,) = output.glob("run-*")
    for file in (run / "evidence" / "ledgers").rglob("*.parquet"):
        file.unlink()
    outcome = accounted(audit(cluster, tmp_path))
    compared = outcome.summary["metadata_compared"]
    assert "cannot be read" in compared["problem"]
    assert (0, [], "SOUND") == (compared["compared"], outcome.findings, outcome.summary["outcome"])

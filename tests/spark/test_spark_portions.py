"""A listing in portions, by Spark and by the driver: every ledger occurs once, at the beginning and
in the second listing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.audits import ON_SPARK, Outcome, accounted, audit

from auditor.evidence.run_directory import place
from auditor.evidence.schemas import LISTING
from auditor.findings.on_cluster import FIRST_LISTING, LISTINGS_AT, SECOND_LISTING
from auditor.model.finding import Kind
from auditor.sandbox.cluster import SandboxCluster
from auditor.spark.executor import SparkExecutor

APART = 10_000
"""Ledger ids that share one parent in the hierarchical layouts: ids further apart have different
parents.
"""
THEN, LEFT = 120, 59
"""Ledgers of the first run, and of the second: fewer than half."""
FEW = {"ledgers_in_process_max": "100"}
"""Fewer than the parents at first, and more than the parents that are left."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SandboxCluster]:
    """Yield a cluster of empty ledgers in several portions."""
    with SandboxCluster(tmp_path / "cluster", bookies=2) as made:
        empty = made.ledger("e2 w2 a2  0:[b1 b2]  closed -1")
        made.add_ledgers(dict.fromkeys([n * APART for n in range(THEN)], empty))
        yield made


def dropped(cluster: SandboxCluster, tmp_path: Path, way: Mapping[str, str]) -> Outcome:
    """Return the second of two runs, with all ledgers and with LEFT of them; both in the given
    way.
    """
    output = str(tmp_path / "portions")
    assert 0 == audit(cluster, tmp_path, output=output, **way).exit_code
    for number in range(LEFT, THEN):
        cluster.delete_ledger(number * APART)
    return accounted(audit(cluster, tmp_path, output=output, **way))


def is_whole(outcome: Outcome) -> None:
    """Assert that the drop is found, and that both listings have each remaining ledger once."""
    assert [Kind.LEDGER_POPULATION_DROPPED] == outcome.kinds
    assert str(LEFT * APART) in outcome.findings[0]["witness"]
    run = place(str(outcome.run_dir))
    for listing in (FIRST_LISTING, SECOND_LISTING):
        listed = run.read_table(LISTINGS_AT[listing], LISTING)["ledger_id"].to_pylist()
        assert [number * APART for number in range(LEFT)] == sorted(listed)


@pytest.mark.spark
def test_a_listing_in_portions_is_made_again_in_portions(
    spark: object, cluster: SandboxCluster, tmp_path: Path
) -> None:
    """If the ledgers are under many parents, each listing is a Spark job of its own."""
    is_whole(dropped(cluster, tmp_path, ON_SPARK))


def test_ledgers_that_are_few_are_listed_here_under_however_many_parents(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ledgers of a small old cluster are far apart: that does not start Spark."""
    monkeypatch.delattr(SparkExecutor, "write")
    is_whole(dropped(cluster, tmp_path, {}))


@pytest.mark.spark
def test_more_parents_than_ledgers_may_be_are_listed_by_spark(
    spark: object, cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each parent has a ledger, or BookKeeper would have removed it. The second run has fewer, and
    lists them itself.
    """
    written: list[str] = []
    write = SparkExecutor.write

    def note(self: SparkExecutor, rows: Any, table: str, name: str) -> None:
        written.append(table)
        write(self, rows, table, name)

    monkeypatch.setattr(SparkExecutor, "write", note)
    is_whole(dropped(cluster, tmp_path, FEW))
    assert ["evidence/listing"] == [table for table in written if "listing" in table]

"""Ledgers that vanished, on real BookKeeper, beside a number that pages nobody."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.audits import accounted, audit
from support.real_cluster import RealCluster

from auditor.model.finding import Kind

pytestmark = [pytest.mark.real, pytest.mark.long]

THEN = 120
LINE = THEN // 2
"""Ledgers that suffice at the default drop of 50 %."""
ON_B2, BESIDE, FIRST_EMPTY = 1, 2, 1_000
"""A ledger with a copy on b2, one without, and the first of those that have no entry."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Yield two ledgers with entries, and enough without for `THEN` in all."""
    with RealCluster(tmp_path_factory.mktemp("population"), bookies=2) as made:
        made.place(ON_B2, made.ledger("e2 w2 a2 0:[b1 b2] closed 9"))
        made.place(BESIDE, made.ledger("e1 w1 a1 0:[b1] closed 9"))
        for ledger_id in range(FIRST_EMPTY, FIRST_EMPTY + THEN - 2):
            made.add_ledger(ledger_id, made.ledger("e2 w2 a2 0:[b1 b2] closed -1"))
        yield made


def test_ledgers_that_vanished_are_found_and_a_few_are_not(
    cluster: RealCluster, tmp_path: Path
) -> None:
    """A loss of half of them is within the limit; one more, at two listings, is a finding on the
    cluster.
    """
    assert [] == accounted(audit(cluster, tmp_path)).findings
    for ledger_id in range(FIRST_EMPTY, FIRST_EMPTY + LINE):
        cluster.delete_ledger(ledger_id)
    within = accounted(
        audit(
            cluster, tmp_path, output=str(shutil.copytree(tmp_path / "audits", tmp_path / "within"))
        )
    )
    cluster.delete_ledger(FIRST_EMPTY + LINE)
    outcome = accounted(audit(cluster, tmp_path))
    assert ([], LINE) == (within.findings, within.summary["ledgers"]["listed"])
    (found,) = outcome.findings
    assert (Kind.LEDGER_POPULATION_DROPPED.value, None, None) == (
        found["kind"],
        found["ledger_id"],
        found["bookie_id"],
    )
    assert [{"listing": f"{LINE - 1} ledgers"}] * 2 == [look["answers"] for look in found["looks"]]
    assert f"Some that are gone: {FIRST_EMPTY}" in found["witness"]
    assert ["sound", "sound"] == outcome.standings(ON_B2, BESIDE)
    assert 1 == outcome.exit_code

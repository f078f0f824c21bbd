"""A run with a period on Spark: it asks about the same ledgers as the driver would."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.audits import FIRST_LOOK_ON_SPARK, Outcome, accounted, audit

from auditor.evidence.run_directory import place
from auditor.evidence.schemas import ANSWERS, LEDGERS
from auditor.sandbox.cluster import SandboxCluster

LISTED = range(1, 61)


def asked(outcome: Outcome) -> list[int]:
    answers = place(str(outcome.run_dir)).read_table("evidence/answers", ANSWERS)["ledger_id"]
    return sorted(set(answers.to_pylist()) - {None})


@pytest.mark.usefixtures("spark")
def test_spark_asks_about_what_is_due_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost ledger is new: nobody carried a verdict on it. Each ledger has one row of metadata.

    Within 20 hours 9 to 19 of the sixty ledgers have their turn, whenever these hours begin.
    """
    began = datetime.now(UTC)
    with SandboxCluster(tmp_path / "cluster", bookies=3, named=True) as cluster:
        for bookie in ("b1", "b2", "b3"):
            cluster.cookie(bookie)
        for ledger in LISTED:
            cluster.place(ledger, cluster.ledger("e3 w3 a2 0:[b1 b2 b3] closed 4"))
        audit(cluster, tmp_path, within="100h")
        cluster.place(61, cluster.ledger("e3 w3 a2 0:[b1 b2 b3] closed 4"))
        cluster.hold("b3", 61, [])
        monkeypatch.setattr("auditor.run.run.utc_now", lambda: began + timedelta(hours=20))
        settings = {"within": "100h", "shard_ledgers": "6", **FIRST_LOOK_ON_SPARK}
        found = accounted(audit(cluster, tmp_path, **settings))
    due = asked(found)
    assert 61 in due and 9 < len(due) < 21
    assert len(due) == sum(found.summary["carried"]["due"].values())
    assert [61] == [one["ledger_id"] for one in found.findings]
    rows = place(str(found.run_dir)).read_table("evidence/ledgers", LEDGERS)
    first = [row["ledger_id"] for row in rows.to_pylist() if row["look"] == 1]
    assert [*LISTED, 61] == sorted(first)

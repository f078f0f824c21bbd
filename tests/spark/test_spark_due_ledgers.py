"""A run with a period on Spark: it asks about the same ledgers as the driver would."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from support.audits import FIRST_LOOK_ON_SPARK, Outcome, accounted, audit

from auditor.evidence.run_directory import place
from auditor.evidence.schemas import ANSWERS, LEDGERS, READS
from auditor.sandbox.cluster import SandboxCluster
from auditor.summary.due_ledgers import Rotation
from auditor.summary.reading_plan import milliseconds
from auditor.zookeeper.ledgers import Listing, ListingPartition
from auditor.zookeeper.metadata_store import MetadataStore

LISTED = range(1, 61)
HOUR_MS = 3_600_000


def asked(outcome: Outcome) -> list[int]:
    answers = place(str(outcome.run_dir)).read_table("evidence/answers", ANSWERS)["ledger_id"]
    return sorted(set(answers.to_pylist()) - {None})


def in_two(listing: Listing) -> Listing:
    """Return a listing with one portion more, whose only parent has vanished: a single portion is
    always listed by the driver at once.
    """
    return replace(listing, partitions=(*listing.partitions, ListingPartition(("/99/9999",))))


@pytest.mark.usefixtures("spark")
def test_spark_asks_about_what_is_due_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver lists the ledgers, however many they are. Copies of carried ledgers are read, too.

    A lost ledger is new: nobody carried a verdict on it. Each ledger has one row of metadata.

    One copy in a carried ledger is rotten: its ledger is asked about, and is not settled by counts.

    Within 20 hours 9 to 19 of the sixty ledgers have their turn, whenever these hours begin.
    """
    find = MetadataStore.listing_partitions
    monkeypatch.setattr(MetadataStore, "listing_partitions", lambda store: in_two(find(store)))
    began = datetime.now(UTC)
    with SandboxCluster(tmp_path / "cluster", bookies=3, named=True) as cluster:
        for bookie in ("b1", "b2", "b3"):
            cluster.cookie(bookie)
        for ledger in LISTED:
            cluster.place(ledger, cluster.ledger("e3 w3 a2 0:[b1 b2 b3] closed 4"))
        settings = {"within": "100h", "verify_within": "1h", "verify_bytes_per_second": "10MiB"}
        base = audit(cluster, tmp_path, **settings)
        began_ms = milliseconds(base.summary["started_at"])
        rotation = Rotation(100 * HOUR_MS, began_ms + 20 * HOUR_MS, began_ms)
        ids = np.array(LISTED)
        rotten = int(ids[~rotation.is_passed(ids, np.full(60, began_ms))][-1])
        cluster.corrupt("b2", rotten, 2)
        cluster.place(61, cluster.ledger("e3 w3 a2 0:[b1 b2 b3] closed 4"))
        cluster.hold("b3", 61, [])
        monkeypatch.setattr("auditor.run.run.utc_now", lambda: began + timedelta(hours=20))
        found = accounted(
            audit(cluster, tmp_path, shard_ledgers="6", **settings, **FIRST_LOOK_ON_SPARK)
        )
    due = asked(found)
    run = place(str(found.run_dir))
    assert {"evidence/listing/listed.parquet"} == run.files_in("evidence/listing")
    read = run.read_table("evidence/reads", READS, None, ["ledger_id"])["ledger_id"].to_pylist()
    assert {"reads"} == {one["verified_by"] for one in found.summary["verification"]["bookies"]}
    assert set(read) - set(due)
    assert {61, rotten} <= set(due) and 10 < len(due) < 22
    assert 1 == found.summary["carried"]["due"]["read"]
    assert len(due) == sum(found.summary["carried"]["due"].values())
    assert {61, rotten} == {one["ledger_id"] for one in found.findings} - {None}
    rows = place(str(found.run_dir)).read_table("evidence/ledgers", LEDGERS)
    first = [row["ledger_id"] for row in rows.to_pylist() if row["look"] == 1]
    assert [*LISTED, 61] == sorted(first)

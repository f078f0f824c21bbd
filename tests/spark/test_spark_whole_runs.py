"""Laws of whole runs at their edges: claims no cluster can hold, parts of a cluster, paths and other clusters' results."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.audits import accounted, audit

from auditor.evidence.newest_run import LATEST
from auditor.model.finding import Kind
from auditor.sandbox.cluster import SandboxCluster

pytestmark = pytest.mark.spark


@pytest.fixture
def cluster(tmp_path: Path):
    """Three bookies, ledger 1 sound and ledger 2 without one of its entries."""
    with SandboxCluster(tmp_path / "cluster", bookies=3) as made:
        metadata = made.ledger("e3 w2 a2  0:[b1 b2 b3]  closed 99")
        made.place(1, metadata)
        made.place(2, metadata, lose={"b1": "6", "b2": "6"})
        yield made


def test_a_ledger_that_claims_every_entry_there_can_be_is_one_row(spark: object, cluster: SandboxCluster, tmp_path: Path):
    """Closed at 2^63 - 1 and striped: judged by what it lacks, and no other ledger loses its verdict."""
    cluster.add_ledger(20, replace(cluster.ledger(f"e3 w2 a2  0:[b1 b2 b3]  closed {2**63 - 1}"), length=0))
    cluster.hold("b1", 20, "0")
    outcome = accounted(audit(cluster, tmp_path))
    assert ["sound", "violated", "violated"] == outcome.standings(1, 2, 20)
    assert 2**63 - 1 == outcome.one(20)["entries_total"]


def test_a_path_with_spaces_and_percent_signs_holds_a_run(spark: object, cluster: SandboxCluster, tmp_path: Path):
    """Spark and this process write to the same place, whatever its name."""
    outcome = accounted(audit(cluster, tmp_path, output=str(tmp_path / "my runs %41")))
    assert 2 == outcome.summary["ledgers"]["listed"]


def test_a_part_of_the_cluster_is_not_told_as_the_whole(spark: object, cluster: SandboxCluster, tmp_path: Path):
    """--ledgers-from leaves latest.json and the metrics file as the last whole run left them."""
    textfile = tmp_path / "auditor.prom"
    whole = audit(cluster, tmp_path, metrics_textfile=str(textfile))
    latest, metrics = (tmp_path / "audits" / LATEST).read_bytes(), textfile.read_bytes()
    part = audit(cluster, tmp_path, metrics_textfile=str(textfile), ledger_ids=[1])
    assert ([Kind.ENTRY_WITHOUT_REPLICA], [], True) == (whole.kinds, part.kinds, part.summary["partial"])
    assert (latest, metrics) == ((tmp_path / "audits" / LATEST).read_bytes(), textfile.read_bytes())


def test_ledgers_that_are_named_and_do_not_exist_are_no_clean_bill(spark: object, cluster: SandboxCluster, tmp_path: Path):
    """Exit 3, and the ids are named."""
    outcome = audit(cluster, tmp_path, ledger_ids=[1, 777, 888])
    assert (3, "INCOMPLETE") == (outcome.exit_code, outcome.summary["outcome"])
    (sentence,) = outcome.summary["withheld"]
    assert "777, 888" in sentence


def test_another_clusters_last_run_is_not_gone_on_from(spark: object, cluster: SandboxCluster, tmp_path: Path):
    """Counters start anew where the output directory held another cluster's runs."""
    first = audit(cluster, tmp_path)
    assert first.run_dir is not None
    summary = first.run_dir / "summary.json"
    told = json.loads(summary.read_text()) | {"cluster": {"metadata_service_uri": "zk://other/ledgers", "instance_id": "other"}}
    told["totals"]["ENTRY_WITHOUT_REPLICA"] = 1000
    summary.write_text(json.dumps(told))
    assert 1 == audit(cluster, tmp_path).summary["totals"]["ENTRY_WITHOUT_REPLICA"]

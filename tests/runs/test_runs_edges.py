"""Laws of whole runs at their limits: impossible claims, parts of a cluster, odd paths, and other
clusters' results.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from support.audits import Outcome, accounted, audit
from support.file_modes import wrong_modes

from auditor.evidence.newest_run import LATEST
from auditor.model.finding import Kind
from auditor.sandbox.cluster import SandboxCluster

SOUND, LACKING, ENDLESS = 1, 2, 20
NOWHERE = 777, 888
OUTPUT = "my runs %41"


class Runs(NamedTuple):
    """A run of the whole cluster and one of a part after it, into `home`; and what the first one
    published.
    """

    home: Path
    whole: Outcome
    part: Outcome
    latest: bytes
    metrics: bytes


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield three bookies, a sound ledger, one that lacks an entry, and one that claims every
    possible entry.
    """
    with SandboxCluster(tmp_path_factory.mktemp("cluster"), bookies=3) as made:
        metadata = made.ledger("e3 w2 a2  0:[b1 b2 b3]  closed 99")
        made.place(SOUND, metadata)
        made.place(LACKING, metadata, lose={"b1": "6", "b2": "6"})
        made.add_ledger(
            ENDLESS, replace(made.ledger(f"e3 w2 a2  0:[b1 b2 b3]  closed {2**63 - 1}"), length=0)
        )
        made.hold("b1", ENDLESS, "0")
        yield made


@pytest.fixture(scope="module")
def runs(cluster: SandboxCluster, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Return both runs, in a directory with a name that a URI must quote."""
    home = tmp_path_factory.mktemp("runs")
    output, textfile = home / OUTPUT, home / "auditor.prom"
    to = {"output": str(output), "metrics_textfile": str(textfile)}
    whole = accounted(audit(cluster, home, **to))
    latest, metrics = (output / LATEST).read_bytes(), textfile.read_bytes()
    part = audit(cluster, home, ledger_ids=[SOUND, *NOWHERE], **to)
    return Runs(home, whole, part, latest, metrics)


def test_a_ledger_that_claims_every_entry_there_can_be_is_one_row(runs: Runs):
    """It is closed at 2^63 - 1 and striped: it is judged by what it lacks, and no other ledger
    loses its verdict.
    """
    assert ["sound", "violated", "violated"] == runs.whole.standings(SOUND, LACKING, ENDLESS)
    assert 2**63 - 1 == runs.whole.one(ENDLESS)["entries_total"]


def test_a_path_with_spaces_and_percent_signs_holds_a_run(runs: Runs):
    """Spark and this process write to the same place, whatever its name."""
    assert 3 == runs.whole.summary["ledgers"]["listed"]
    assert runs.whole.run_dir is not None and runs.home / OUTPUT == runs.whole.run_dir.parent
    assert {"evidence", "verdicts"} <= {path.name for path in runs.whole.run_dir.iterdir()}


def test_a_part_of_the_cluster_does_not_count_as_the_whole(runs: Runs):
    """--ledgers-from leaves latest.json and the metrics file as the last whole run left them."""
    assert Kind.ENTRY_WITHOUT_REPLICA in runs.whole.kinds
    assert ([], True) == (runs.part.kinds, runs.part.summary["partial"])
    assert runs.latest == (runs.home / OUTPUT / LATEST).read_bytes()
    assert runs.metrics == (runs.home / "auditor.prom").read_bytes()


def test_others_may_read_no_file_that_a_run_writes(runs: Runs):
    """Two runs, their pages and tables, and latest.json; by default the group may read them."""
    found = {path.name for path in (runs.home / OUTPUT).rglob("*")}
    assert {LATEST, "report.html", "run.json"} < found
    assert {} == wrong_modes(runs.home / OUTPUT)


def test_named_ledgers_that_do_not_exist_leave_the_run_incomplete(runs: Runs):
    """Exit 3, and the ids are named."""
    assert (3, "INCOMPLETE") == (runs.part.exit_code, runs.part.summary["outcome"])
    (sentence,) = runs.part.summary["withheld"]
    assert "777, 888" in sentence


def test_counters_start_anew_behind_another_clusters_runs(
    runs: Runs, cluster: SandboxCluster, tmp_path: Path
):
    """The last run in the output directory was of another cluster."""
    output = tmp_path / "audits"
    shutil.copytree(runs.home / OUTPUT, output)
    assert runs.whole.run_dir is not None
    summary = output / runs.whole.run_dir.name / "summary.json"
    other = {"metadata_service_uri": "zk://other/ledgers", "instance_id": "other"}
    changed = json.loads(summary.read_text()) | {"cluster": other}
    found = changed["totals"][Kind.ENTRY_WITHOUT_REPLICA.value]
    changed["totals"][Kind.ENTRY_WITHOUT_REPLICA.value] = 1000
    summary.write_text(json.dumps(changed))
    assert found == audit(cluster, tmp_path).summary["totals"][Kind.ENTRY_WITHOUT_REPLICA.value] > 0

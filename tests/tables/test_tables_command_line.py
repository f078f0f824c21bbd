"""The command line of `run`, in a process that has a Spark session: what it says, and what it leaves behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_line import command_here

from auditor.sandbox.cluster import SandboxCluster

pytestmark = pytest.mark.spark

SOUND, LOST = range(1, 9), 9


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Eight sound ledgers, and ledger 9, of which b2 lacks entry 4."""
    with SandboxCluster(tmp_path_factory.mktemp("cli"), 2) as cluster:
        for ledger_id in SOUND:
            cluster.place(ledger_id, cluster.ledger("e2 w2 a2 0:[b1 b2] closed 9"))
        cluster.place(LOST, cluster.ledger("e2 w2 a1 0:[b1 b2] closed 9"), {"b2": "4"})
        yield cluster


def asking(cluster: SandboxCluster) -> list[str]:
    return ["--metadata-service-uri", cluster.metadata_service_uri, "--second-look-delay", "0s", "--rpc-timeout", "2s"]


def test_runs_are_pruned_and_each_log_line_is_json(spark: object, cluster: SandboxCluster, tmp_path: Path):
    """--keep-runs 1 leaves the newest and a directory that is no run's; the log is an object a line, each violation whole."""
    out = tmp_path / "out"
    old = [out / f"run-2020010{day}T000000Z-00000{day}" for day in (1, 2, 3)]
    for directory in (*old, out / "mine"):
        directory.mkdir(parents=True)
    ids = tmp_path / "ids"
    ids.write_text(f"# some\n{LOST}\n\n1 # twice\n1\n")
    done = command_here(
        "run", *asking(cluster), "--output", str(out), "--keep-runs", "1", "--log-format", "json", "--format", "json",
        "--ledgers-from", str(ids), "--fail-on", "critical", "--verbose",
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    told = json.loads(done.stdout)
    assert ("VIOLATED", 2) == (told["summary"]["outcome"], told["summary"]["ledgers"]["listed"])
    events = [json.loads(line) for line in done.stderr.splitlines()]
    (violation,) = [event for event in events if event["event"] == "violation"]
    assert (LOST, told["summary"]["run_id"]) == (violation["ledger_id"], violation["run"])
    left = sorted(path.name for path in out.iterdir() if path.is_dir())
    assert ["mine", Path(told["run_dir"]).name] == left


def test_a_dry_run_asks_no_bookie_and_leaves_nothing(spark: object, cluster: SandboxCluster, tmp_path: Path):
    """It says requests, bytes and minutes; the bookies counted nothing."""
    before = [dict(cluster.bookie(b).operations) for b in cluster.bookie_ids]
    done = command_here("run", *asking(cluster), "--output", str(tmp_path / "out"), "--dry-run")
    assert 0 == done.returncode, done.stderr
    assert "2 bookies for 18 lists" in done.stdout
    assert before == [dict(cluster.bookie(b).operations) for b in cluster.bookie_ids]
    assert [] == [path.name for path in (tmp_path / "out").iterdir() if not path.name.startswith(".")]

"""The command line of `run`, in a process with a Spark session: what it prints and writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_line import LOST, at, cluster_with_a_loss, command_here

from auditor.sandbox.cluster import SandboxCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    with cluster_with_a_loss(tmp_path_factory.mktemp("cli")) as cluster:
        yield cluster


def test_runs_are_pruned_and_each_log_line_is_json(cluster: SandboxCluster, tmp_path: Path):
    """--keep-runs 1 leaves the newest run and a directory that is not a run's; the log has one
    object a line, each violation whole.
    """
    out = tmp_path / "out"
    old = [out / f"run-2020010{day}T000000Z-00000{day}" for day in (1, 2, 3)]
    for directory in (*old, out / "mine"):
        directory.mkdir(parents=True)
    ids = tmp_path / "ids"
    ids.write_text(f"# some\n{LOST}\n\n1 # twice\n1\n")
    done = command_here(
        "run", *at(cluster), "--output", str(out), "--keep-runs", "1", "--log-format", "json",
        "--format", "json",
        "--ledgers-from", str(ids), "--fail-on", "critical", "--verbose",
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    report = json.loads(done.stdout)
    assert ("VIOLATED", 2) == (report["summary"]["outcome"], report["summary"]["ledgers"]["listed"])
    events = [json.loads(line) for line in done.stderr.splitlines()]
    (violation,) = [event for event in events if event["event"] == "violation"]
    assert (LOST, report["summary"]["run_id"]) == (violation["ledger_id"], violation["run"])
    left = sorted(path.name for path in out.iterdir() if path.is_dir())
    assert ["mine", Path(report["run_dir"]).name] == left


@pytest.mark.parametrize(
    "ledgers_max",
    ["20000", pytest.param("0", marks=pytest.mark.spark)],
    ids=["in process", "on Spark"],
)
def test_a_dry_run_asks_no_bookie_and_leaves_nothing(
    request: pytest.FixtureRequest, cluster: SandboxCluster, tmp_path: Path, ledgers_max: str
):
    """It prints requests, bytes and minutes; the bookies counted no request."""
    if ledgers_max == "0":
        request.getfixturevalue("spark")
    before = [dict(cluster.bookie(b).operations) for b in cluster.bookie_ids]
    way = ("--ledgers-in-process-max", ledgers_max)
    done = command_here("run", *at(cluster), "--output", str(tmp_path / "out"), "--dry-run", *way)
    assert 0 == done.returncode, done.stderr
    assert "2 bookies for 18 lists" in done.stdout
    assert before == [dict(cluster.bookie(b).operations) for b in cluster.bookie_ids]
    assert [] == [
        path.name for path in (tmp_path / "out").iterdir() if not path.name.startswith(".")
    ]

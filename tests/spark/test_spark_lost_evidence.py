"""Evidence that vanishes while a run on Spark pauses ends the run as it does without Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import rmtree

import pytest
from pyspark.sql import SparkSession
from support.audits import FIRST_LOOK_ON_SPARK, audit
from support.command_line import cluster_with_a_loss

from auditor.evidence.newest_run import LATEST

pytestmark = [pytest.mark.spark, pytest.mark.long]
ON_SPARK = {**FIRST_LOOK_ON_SPARK, "suspects_in_process_max": "0"}


def remove_table(run: Path) -> None:
    rmtree(run / "evidence/ledgers")


def truncate_a_file(run: Path) -> None:
    file = min((run / "evidence/answers").rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-9])


@pytest.mark.parametrize("harm", [truncate_a_file, remove_table])
def test_a_run_on_spark_whose_evidence_vanished_is_not_published(
    harm: Callable[[Path], None], spark: SparkSession, tmp_path: Path
) -> None:
    """A task that fails for it is not the auditor's fault: exit code 5, and a sentence."""
    output = tmp_path / "audits"

    def lose(_: int) -> None:
        (run,) = output.glob("run-*")
        harm(run)

    with cluster_with_a_loss(tmp_path / "cluster") as cluster:
        done = audit(cluster, tmp_path, between=lose, second_look_delay="1s", **ON_SPARK)
    assert 5 == done.exit_code, done.stdout
    assert "has lost a part of what this run stored" in " ".join(done.stdout.split())
    assert not (output / LATEST).exists()

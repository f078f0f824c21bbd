"""The documented way to a Spark cluster whose machines do not have the auditor: a packed
environment, made from the wheel, sent with `--archives`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from support.command_line import at, cluster_with_a_loss
from support.deployed import DEPLOY
from support.standalone_spark import SPARK_HOME, standalone_spark

PROJECT = Path(__file__).resolve().parents[2]
WAIT_S = 1_500

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(3_600)]


def build(command: list[str]) -> None:
    environment = {**os.environ, "PIP_CONSTRAINT": str(PROJECT / "constraints.txt")}
    done = subprocess.run(
        command,
        env=environment,
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert 0 == done.returncode, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return an environment with the wheel and its libraries, without PySpark, and its archive."""
    home = tmp_path_factory.mktemp("packed")
    build([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(home)])
    (wheel,) = home.glob("*.whl")
    environment, archive = home / "environment", home / "environment.tar.gz"
    build([str(DEPLOY / "spark-submit/pack-environment.sh"), str(wheel), str(archive)])
    environment.mkdir()
    with tarfile.open(archive) as packed:
        packed.extractall(environment, filter="fully_trusted")
    return environment, archive


def test_a_cluster_without_the_auditor_runs_it_from_a_packed_environment(
    packed: tuple[Path, Path], tmp_path: Path
):
    """With a master and two workers in directories of their own, the audit ends with its own code,
    and each worker unpacks the archive.
    """
    environment, archive = packed
    output = tmp_path / "audits"
    with (
        cluster_with_a_loss(tmp_path / "sandbox") as cluster,
        standalone_spark(tmp_path, workers=2) as spark,
    ):
        command = [
            str(DEPLOY / "spark-submit/auditor-submit.sh"),
            "--master", spark.master, "--archives", f"{archive}#environment",
            "--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=2",
            "--", "run", "--output", str(output), *at(cluster), "--ledgers-in-process-max", "0",
        ]  # fmt: skip
        done = subprocess.run(
            command,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "SPARK_HOME": str(SPARK_HOME),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "PYSPARK_PYTHON": "./environment/bin/python",
                "PYSPARK_DRIVER_PYTHON": str(environment / "bin/python"),
            },
            cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_S, check=False,
        )  # fmt: skip
    assert 1 == done.returncode, done.stdout[-4000:] + done.stderr[-4000:]
    run = output / json.loads((output / "latest.json").read_text())["run"]
    summary = json.loads((run / "summary.json").read_text())
    assert (9, 1) == (summary["ledgers"]["listed"], summary["ledgers"]["violated"])
    unpacked = tmp_path.glob("worker-*/app-*/*/environment/bin/python")
    assert {"worker-0", "worker-1"} == {path.relative_to(tmp_path).parts[0] for path in unpacked}

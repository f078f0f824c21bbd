"""Whole audits by Spark into S3 and into HDFS, and the lock in HDFS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_line import Done, at, cluster_with_a_loss, command_here, environment_of
from support.hdfs import hdfs
from support.real_jars import s3a_jars

from auditor.errors import OutputError
from auditor.evidence import output_lock
from auditor.evidence.hdfs_files import HdfsFiles
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import place
from auditor.sandbox.cluster import SandboxCluster

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(1_200)]
FIRST_LOOK_ON_SPARK = ("--ledgers-in-process-max", "0")
WAIT_S = 800
LINE_TIMEOUT_S = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    with cluster_with_a_loss(tmp_path_factory.mktemp("sandbox")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def in_hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hdfs(tmp_path_factory.mktemp("hdfs")) as uri:
        yield uri


def run_on_spark(output: str, cluster: SandboxCluster, **environment: str) -> Done:
    line = [sys.executable, "-m", "auditor", "run", "--output", output, *at(cluster)]
    return subprocess.run(
        [*line, *FIRST_LOOK_ON_SPARK],
        env=environment_of(**environment),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def check(output: str, done: Done) -> None:
    """Assert that the audit found the loss, and that its run can be judged again."""
    assert 1 == done.returncode, done.stdout + done.stderr
    run = Output(place(output)).latest()
    assert run is not None
    (finding,) = (run.read_text("findings.jsonl") or "").splitlines()
    assert "ENTRY_BELOW_WRITE_QUORUM" == json.loads(finding)["kind"]
    replayed = command_here("replay", run.uri)
    assert 1 == replayed.returncode, replayed.stdout + replayed.stderr


def test_spark_audits_into_s3(cluster: SandboxCluster, bucket: str, tmp_path: Path):
    """Endpoint and credentials come from the AWS variables on both sides, and S3A's jars from
    spark-defaults.conf.
    """
    jars = ",".join(str(jar) for jar in sorted(s3a_jars().glob("*.jar")))
    (tmp_path / "spark-defaults.conf").write_text(f"spark.jars {jars}\n")
    output = f"s3a://{bucket}/audits"
    check(output, run_on_spark(output, cluster, SPARK_CONF_DIR=str(tmp_path)))


def test_spark_without_the_jars_of_s3a_is_refused(cluster: SandboxCluster, bucket: str):
    """Exit 2, before a bookie was asked, with the missing jars."""
    done = run_on_spark(f"s3a://{bucket}/audits", cluster)
    assert 2 == done.returncode, done.stdout + done.stderr
    assert "S3AFileSystem" in done.stderr and "docs/output.md" in done.stderr, done.stderr


def test_spark_audits_into_hdfs(cluster: SandboxCluster, in_hdfs: str):
    """Spark has HDFS's client; latest.json replaces that of the run before."""
    output = f"{in_hdfs}/prod/audits"
    check(output, run_on_spark(output, cluster))
    before = Output(place(output)).latest()
    check(output, command_here("run", "--output", output, *at(cluster)))
    assert before != Output(place(output)).latest()


def test_nobody_reads_in_hdfs_what_the_umask_forbids(cluster: SandboxCluster, in_hdfs: str):
    """Neither files and directories of the run, nor what lies beside them."""
    output = f"{in_hdfs}/private/audits"
    done = command_here("run", "--output", output, "--output-umask", "077", *at(cluster))
    assert 1 == done.returncode, done.stdout + done.stderr
    files = HdfsFiles(in_hdfs.removeprefix("hdfs://"))
    found = files.find("/private/audits", withdirs=True, detail=True).values()
    modes = {(one["type"], oct(one["permission"])) for one in found}
    assert {("directory", "0o700"), ("file", "0o600")} == modes


def test_two_runs_into_hdfs_at_once_are_noticed(in_hdfs: str, monkeypatch: pytest.MonkeyPatch):
    """The second run names the lock; after the first, the lock is free."""
    monkeypatch.setattr(output_lock, "HDFS_WAIT_S", 0.0)
    output = Output(place(f"{in_hdfs}/locked"))
    with (
        output.hold_lock(),
        pytest.raises(OutputError, match=r"another run is at work in hdfs://.*\.lock"),
        output.hold_lock(),
    ):
        pass
    with output.hold_lock():
        pass


def test_the_lock_of_a_run_that_was_killed_lapses_in_hdfs(in_hdfs: str):
    """The name node ends its write a minute later, and the next run waits for that."""
    uri = f"{in_hdfs}/abandoned"
    program = (
        "import sys, time\n"
        "from auditor.evidence.output_directory import Output\n"
        "from auditor.evidence.run_directory import place\n"
        f"with Output(place({uri!r})).hold_lock():\n"
        "    print('held', flush=True)\n"
        f"    time.sleep({LINE_TIMEOUT_S})\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment
    ) as holder:
        assert holder.stdout is not None
        assert "held\n" == holder.stdout.readline()
        holder.kill()
        holder.wait(LINE_TIMEOUT_S)
    with Output(place(uri)).hold_lock():
        pass

"""Runs on a host that gives too little: no bookie is accused, and no finding becomes weaker."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.audits import audit
from support.command_line import PROJECT, TIMEOUT_S, at, environment_of

from auditor.host_limits import ADDRESS_SPACE_MIN
from auditor.run.run import Run
from auditor.sandbox.cluster import SandboxCluster
from auditor.spark import jobs  # noqa: F401

BOOKIES = 70
LOST = 999

Json = dict[str, Any]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield seventy healthy bookies, and one ledger of which an entry has no copy."""
    with SandboxCluster(tmp_path_factory.mktemp("cluster"), BOOKIES) as cluster:
        for n in range(1, BOOKIES - 1):
            line = f"e3 w3 a2 0:[b{n} b{n + 1} b{n + 2}] closed 9"
            cluster.place(n, cluster.ledger(line))
        lost = cluster.ledger("e3 w3 a2 0:[b1 b2 b3] closed 9")
        cluster.place(LOST, lost, {"b1": "4", "b2": "4", "b3": "4"})
        yield cluster


def under(limit: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a shell with this `ulimit`."""
    line = f'ulimit {limit} && exec "$@"'
    return subprocess.run(
        ["/bin/bash", "-c", line, "bash", sys.executable, "-m", "auditor", *arguments],
        cwd=PROJECT,
        env=environment_of(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def findings_of(output: Path) -> list[tuple[str, int | None]]:
    (run,) = output.glob("run-*")
    lines = (run / "findings.jsonl").read_text().splitlines()
    return [(one["kind"], one["ledger_id"]) for one in map(json.loads, lines)]


@pytest.mark.parametrize("limit", ["-n 64", "-Sn 14"])
def test_few_descriptors_suffice_for_many_bookies(
    cluster: SandboxCluster, tmp_path: Path, limit: str
) -> None:
    """Fewer bookies are asked at once, or the soft limit is raised: the one finding is there in its
    full weight, every other ledger is sound, and nobody is accused.
    """
    done = under(limit, "run", "--output", str(tmp_path), *at(cluster))
    assert 1 == done.returncode, done
    assert [("ENTRY_WITHOUT_REPLICA", LOST)] == findings_of(tmp_path)
    assert f"listed={BOOKIES - 1} sound={BOOKIES - 2} exempt=0 indeterminate=0" in done.stdout


def test_the_address_space_that_is_demanded_suffices(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    """Nothing fails for lack of it, and no ledger is set aside."""
    limit = f"-v {ADDRESS_SPACE_MIN // 1024}"
    done = under(limit, "run", "--output", str(tmp_path), *at(cluster))
    assert 1 == done.returncode, done
    assert [("ENTRY_WITHOUT_REPLICA", LOST)] == findings_of(tmp_path)
    assert f"listed={BOOKIES - 1} sound={BOOKIES - 2} exempt=0 indeterminate=0" in done.stdout


@pytest.mark.parametrize(
    ("limit", "lacks"),
    [
        ("-n 30", "this process may open 30 files, and an audit needs at least"),
        ("-n 14", "this process may open 14 files, and an audit needs at least"),
        ("-v 600000", "the address space of this process is limited to 585 MiB"),
        ("-v 2000000", "the address space of this process is limited to 1,953 MiB"),
    ],
)
@pytest.mark.parametrize("command", ["run", "ledger"])
def test_what_this_host_lacks_ends_a_command_before_anybody_is_asked(
    cluster: SandboxCluster, tmp_path: Path, limit: str, lacks: str, command: str
) -> None:
    """Exit code 5 with a sentence: no fault of the auditor, no traceback, and no finding."""
    given = ["--output", str(tmp_path)] if command == "run" else [str(LOST)]
    done = under(limit, command, *given, *at(cluster))
    assert 5 == done.returncode, done
    said = " ".join((done.stdout + done.stderr).split())
    assert lacks in said
    assert "(`ulimit" in said
    assert "Traceback" not in said
    assert "fault" not in said.lower()
    assert not list(tmp_path.glob("run-*/findings.jsonl"))


@pytest.mark.parametrize("mebibytes", [30, 100, 200, 300, 500])
def test_too_little_memory_for_the_libraries_ends_in_a_sentence(mebibytes: int) -> None:
    """OpenBLAS would end the process with exit code 1, which means findings."""
    done = under(f"-v {mebibytes * 1024}", "run", "--output", "/nowhere")
    assert 5 == done.returncode, done
    assert f"limited to {mebibytes} MiB" in done.stderr
    assert "Traceback" not in done.stderr


class Captured(Exception):
    """What Spark captured of Java, after the JVM has ended. PySpark is loaded then."""

    def __str__(self) -> str:
        raise AssertionError("the JVM has ended")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Captured(), "Spark's JVM does not answer any more"),
        (
            RuntimeError("can't start new thread"),
            "this host lets the auditor start no more threads",
        ),
        (MemoryError(), "this host gives the auditor no more memory"),
        (OSError(errno.EMFILE, "Too many open files"), "this process has no file descriptor left"),
        (OSError(errno.EROFS, "Read-only file system"), "a file system of this host is read-only"),
    ],
)
def test_what_ends_a_run_on_this_host_leaves_advice_and_a_metric(
    cluster: SandboxCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    said: str,
) -> None:
    """Whatever raises it, and even if it cannot say anything any more."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Run, "conclude", fail)
    metrics = tmp_path / "auditor.prom"
    outcome = audit(cluster, tmp_path, metrics_textfile=str(metrics))
    assert 5 == outcome.exit_code, outcome.stdout
    words = " ".join(outcome.stdout.split())
    assert said in words
    assert "auditor run --resume" in words
    assert 'outcome="UNREACHABLE"} 1' in metrics.read_text()

"""Stopped at any stage, a command ends with the signal's exit code, leaves no process and no files of its own behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.process_ends import alive

from auditor.sandbox.cluster import SandboxCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PROJECT = Path(__file__).resolve().parents[2]
STAGE_WITHIN_S = 240.0
"""How long a command may take to reach a stage, on a machine that does other things too."""
ENDS_WITHIN_S = 60.0
"""How long it may take to end once it is told to."""
POLL_S = 0.02
LATEST = b'{"run": "run-20200101T000000Z-000000"}\n'


@dataclass(frozen=True)
class Started:
    """A command in a session of its own; `home` has its OUTPUT and its temporary files."""

    process: subprocess.Popen[bytes]
    home: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> Path:
        return self.home / "out"

    def said(self) -> str:
        return (self.home / "stdout").read_text() + (self.home / "stderr").read_text()

    def reach(self, there: Callable[[Started], bool]) -> None:
        """Wait until the command is where the test wants it."""
        deadline = time.monotonic() + STAGE_WITHIN_S
        while not there(self):
            assert self.process.poll() is None, f"it ended first, with {self.process.returncode}: {self.said()}"
            assert time.monotonic() < deadline, f"the stage was not reached: {self.said()}"
            time.sleep(POLL_S)

    def ended(self) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(ENDS_WITHIN_S)

    def survivors(self) -> list[str]:
        """What still runs of its session, a little later at most."""
        deadline = time.monotonic() + ENDS_WITHIN_S
        while (found := in_session(self.pid)) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return found


def in_session(session: int) -> list[str]:
    """Every process of a session that runs, also of other process groups in it: Spark's Python daemon makes its own."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ")[:120].decode(errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[3]) == session and alive(int(entry.name)):
                found.append(f"{entry.name} {command}")
    return found


@contextmanager
def started(home: Path, *arguments: str) -> Iterator[Started]:
    """`python -m auditor`, with everything temporary below `home`; killed with its session if the test fails."""
    temporary = home / "tmp"
    for folder in (temporary, home / "out"):
        folder.mkdir()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AUDITOR_")}
    environment |= {"PYTHONPATH": str(PROJECT), "TMPDIR": str(temporary), "SPARK_LOCAL_DIRS": str(temporary)}
    with (home / "stdout").open("wb") as out, (home / "stderr").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "auditor", *arguments, "--output", str(home / "out")],
            cwd=home, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
        )  # fmt: skip
    command = Started(process, home)
    try:
        yield command
    finally:
        for line in in_session(process.pid):
            os.kill(int(line.split()[0]), signal.SIGKILL)
        process.wait(ENDS_WITHIN_S)


def temporary(pattern: str) -> Callable[[Started], bool]:
    return lambda command: any((command.home / "tmp").glob(pattern))


def output(pattern: str) -> Callable[[Started], bool]:
    return lambda command: any(command.output.glob(pattern))


def says(words: str) -> Callable[[Started], bool]:
    return lambda command: words in (command.home / "stdout").read_text()


STAGES: dict[str, tuple[signal.Signals, Callable[[Started], bool]]] = {
    "set up": (signal.SIGINT, temporary("auditor-demo-*")),
    "ZooKeeper starts": (signal.SIGTERM, temporary("auditor-demo-*/zookeeper/zookeeper.log")),
    "seeding": (signal.SIGINT, temporary("auditor-demo-*/zookeeper/data/version-2/log.*")),
    "Spark starts": (signal.SIGTERM, says("An embedded cluster was started")),
    "load": (signal.SIGINT, output("run-*/run.json")),
    "ask": (signal.SIGTERM, output("run-*/evidence/answers")),
    "between the looks": (signal.SIGINT, output("run-*/steps/look-1-judging-1/_SUCCESS")),
    "second look": (signal.SIGTERM, output("run-*/steps/look-2-judging-*")),
    "report": (signal.SIGINT, output("run-*/verdicts")),
}
"""Where `auditor demo` is told to stop, by which signal, and how to see that it is there."""


@pytest.mark.parametrize("stage", STAGES)
def test_a_demo_stopped_at_any_stage_leaves_nothing(tmp_path: Path, stage: str):
    """SIGINT to the whole group (Ctrl-C) is 130, SIGTERM (a scheduler) 143; no process, no temporary file, no result."""
    number, there = STAGES[stage]
    with started(tmp_path, "demo", "--second-look-delay", "5s") as command:
        command.reach(there)
        os.killpg(command.pid, number)
        assert 128 + number == command.ended(), command.said()
        assert [] == command.survivors()
    assert [] == left_behind(tmp_path / "tmp")
    assert not (command.output / "latest.json").exists()
    assert f"stopped by {number.name}" in command.said()
    assert "Traceback" not in command.said(), command.said()


def left_behind(temporary: Path) -> list[str]:
    return sorted(path.name for path in temporary.iterdir())


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SandboxCluster]:
    """A suspect, so that there is a second look."""
    with SandboxCluster(tmp_path / "cluster", 3) as cluster:
        for ledger_id in range(1, 20):
            cluster.place(ledger_id, cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed 99"), {"b1": "6"} if ledger_id == 3 else {})
        yield cluster


@pytest.mark.parametrize(
    ("number", "stage"),
    [(signal.SIGINT, "run-*/evidence/ledgers"), (signal.SIGTERM, "run-*/steps/look-1-judging-1/_SUCCESS")],
    ids=["load", "between the looks"],
)
def test_a_run_that_is_stopped_leaves_earlier_results_as_they_were(
    cluster: SandboxCluster, tmp_path: Path, number: signal.Signals, stage: str
):
    """latest.json to the byte, no summary, the lock free again; the cluster goes on."""
    home = tmp_path / "home"
    home.mkdir()
    arguments = ("run", "--metadata-service-uri", cluster.metadata_service_uri, "--second-look-delay", "30s")
    with started(home, *arguments) as command:
        (command.output / "latest.json").write_bytes(LATEST)
        command.reach(output(stage))
        os.killpg(command.pid, number)
        assert 128 + number == command.ended(), command.said()
        assert [] == command.survivors()
    assert LATEST == (command.output / "latest.json").read_bytes()
    assert [] == list(command.output.glob("run-*/summary.json"))
    assert [] == left_behind(home / "tmp")
    assert all(cluster.listener(bookie).is_listening for bookie in cluster.bookie_ids)


def test_a_demo_that_is_killed_leaves_no_process(tmp_path: Path):
    """SIGKILL to the auditor alone: ZooKeeper, the JVM and the workers end by themselves."""
    with started(tmp_path, "demo", "--second-look-delay", "30s") as command:
        command.reach(output("run-*/evidence/answers"))
        assert len(in_session(command.pid)) > 2, "ZooKeeper and Spark should be running"
        os.kill(command.pid, signal.SIGKILL)
        assert -signal.SIGKILL == command.ended()
        assert [] == command.survivors()
    assert not (command.output / "latest.json").exists()

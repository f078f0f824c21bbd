"""A command that is stopped at any stage ends with the signal's exit code, and leaves no process
and no file of its own.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.started_command import Started, in_session, started

from auditor.sandbox.cluster import SandboxCluster

pytestmark = pytest.mark.timeout(600)

LATEST = b'{"run": "run-20200101T000000Z-000000"}\n'


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
    "the audit starts": (signal.SIGTERM, says("An embedded cluster with ")),
    "ask": (signal.SIGTERM, output("run-*/evidence/answers")),
}
"""Where `auditor demo` is stopped, by which signal, and how to see that it is there. Its audit is
that of `run`.
"""
STAGES_OF_A_RUN: dict[str, tuple[signal.Signals, Callable[[Started], bool]]] = {
    "Spark starts": (signal.SIGTERM, output("run-*/evidence/listing")),
    "load": (signal.SIGINT, output("run-*/evidence/ledgers")),
    "ask": (signal.SIGINT, output("run-*/evidence/answers")),
    "between the looks": (signal.SIGTERM, output("run-*/steps/look-1-judging-*/*.parquet")),
    "second look": (signal.SIGTERM, output("run-*/steps/look-2-judging-*")),
    "report": (signal.SIGINT, output("run-*/verdicts")),
}
"""The same for `auditor run`, which has an earlier result to lose."""
IMPATIENT = (
    *("--zookeeper-connect-timeout", "5s", "--zookeeper-session-timeout", "4s"),
    *("--zookeeper-retries", "0"),
)
"""Settings with which a demo that is stopped before its audit soon gives a server up. A signal to
the group ends its ZooKeeper, too, and the demo would wait 40 s for it.
"""
LIKE_ANOTHER = frozenset({"Spark starts", "load", "second look", "report"})
"""Stages of a run at which it has or starts Spark, like "ask": the long form stops there, too."""
IN_PROCESS = frozenset({"between the looks"})
"""Stages at which a run is stopped without Spark."""
OF_THE_AUDIT = frozenset({"ask"})
"""Stages at which a demo is stopped like a run, and like a killed one."""
LONG_OF_A_DEMO = OF_THE_AUDIT | {"set up", "the audit starts"}
"""Stages at which only the long form stops a demo. The short form stops it while ZooKeeper starts
and while ledgers are written.
"""


def quick_but(stages: Iterable[str], long: frozenset[str]) -> list[Any]:
    """Return the parameters of a test, with those in `long` marked so."""
    return [
        pytest.param(stage, marks=pytest.mark.long if stage in long else ()) for stage in stages
    ]


@pytest.mark.parametrize("stage", quick_but(STAGES, LONG_OF_A_DEMO))
def test_a_demo_stopped_at_any_stage_leaves_nothing(tmp_path: Path, stage: str):
    """SIGINT to the whole group (Ctrl-C) gives 130, SIGTERM (a scheduler) 143; there is no process,
    no temporary file, no result.
    """
    number, there = STAGES[stage]
    words = () if stage in OF_THE_AUDIT else IMPATIENT
    with started(tmp_path, "demo", *words) as command:
        command.reach(there)
        stopped(command, number)
    assert [] == left_behind(tmp_path / "tmp")
    assert not (command.output / "latest.json").exists()


def stopped(command: Started, number: signal.Signals) -> None:
    """Assert that it ended with this code, in a sentence, and that no process of it is left."""
    os.killpg(command.pid, number)
    assert 128 + number == command.ended(), command.said()
    assert [] == command.survivors()
    assert f"stopped by {number.name}" in command.said()
    assert "Traceback" not in command.said(), command.said()


def left_behind(temporary: Path) -> list[str]:
    return sorted(path.name for path in temporary.iterdir())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield a cluster with a suspect, so that there is a second look."""
    with SandboxCluster(tmp_path_factory.mktemp("cluster"), 3) as cluster:
        for ledger_id in range(1, 20):
            cluster.place(
                ledger_id,
                cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed 99"),
                {"b1": "6"} if ledger_id == 3 else {},
            )
        yield cluster


@pytest.mark.spark
@pytest.mark.parametrize("stage", quick_but(STAGES_OF_A_RUN, LIKE_ANOTHER))
def test_a_run_that_is_stopped_leaves_earlier_results_as_they_were(
    cluster: SandboxCluster, tmp_path: Path, stage: str
):
    """latest.json is unchanged to the byte, there is no summary and no temporary file; the cluster
    runs on.
    """
    number, there = STAGES_OF_A_RUN[stage]
    delay = "30s" if stage == "between the looks" else "2s"
    words = ["--metadata-service-uri", cluster.metadata_service_uri, "--second-look-delay", delay]
    if stage not in IN_PROCESS:
        words += ["--suspects-in-process-max", "0"]
    with started(tmp_path, "run", *words) as command:
        (command.output / "latest.json").write_bytes(LATEST)
        command.reach(there)
        stopped(command, number)
    assert LATEST == (command.output / "latest.json").read_bytes()
    assert [] == list(command.output.glob("run-*/summary.json"))
    assert [] == left_behind(tmp_path / "tmp")
    assert all(cluster.listener(bookie).is_listening for bookie in cluster.bookie_ids)


def test_a_run_outside_its_window_asks_no_bookie_and_can_be_stopped(
    cluster: SandboxCluster, tmp_path: Path
):
    """It says when the window opens. Nothing is written yet that could be resumed."""
    opens = datetime.now(UTC) + timedelta(hours=12)
    window = f"{opens:%H:%M}-{opens + timedelta(hours=1):%H:%M} UTC"
    words = ["--metadata-service-uri", cluster.metadata_service_uri, "--window", window]
    with started(tmp_path, "run", *words) as command:
        command.reach(lambda this: "run_pauses" in this.said())
        stopped(command, signal.SIGTERM)
        assert f"window='{window}'" in command.said()
    assert [] == list(command.output.glob("run-*/evidence/answers"))
    assert all(cluster.listener(bookie).is_listening for bookie in cluster.bookie_ids)


@pytest.mark.parametrize(
    ("words", "running"),
    [
        pytest.param((), 2, id="in process"),
        pytest.param(
            ("--ledgers-in-process-max", "0"),
            3,
            id="on Spark",
            marks=[pytest.mark.spark, pytest.mark.long],
        ),
    ],
)
def test_a_demo_that_is_killed_leaves_no_process(
    tmp_path: Path, words: tuple[str, ...], running: int
):
    """After SIGKILL to the auditor alone, ZooKeeper, the JVM and the workers end by themselves."""
    with started(tmp_path, "demo", "--second-look-delay", "30s", *words) as command:
        command.reach(output("run-*/evidence/answers"))
        assert len(in_session(command.pid)) >= running, (
            "ZooKeeper should be running, and Spark where it is asked for"
        )
        os.kill(command.pid, signal.SIGKILL)
        assert -signal.SIGKILL == command.ended()
        assert [] == command.survivors()
    assert not (command.output / "latest.json").exists()

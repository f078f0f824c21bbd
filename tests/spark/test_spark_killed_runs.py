"""Driver, JVM and disk: a run that dies publishes nothing and leaves no process, and the next one
owes every verdict.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from faults.ends import jvm_of
from faults.harm import Fault, Harm
from faults.playing import IDS, PLAYS_ALL, SEED, written_by
from faults.processes import spark_worker_of
from faults.proxy import Connection
from faults.resuming import ENDS_WITHIN_S, LATEST, nothing_published
from faults.scene import ALL, BOOKIES, Act, act, owed, settle
from support.audits import audit
from support.started_command import Started, started

from auditor.sandbox.cluster import SandboxCluster

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

FRAMES = 6
"""A run is hit at one of the first lists it asks for, up to this number."""
LARGE = range(50, 58)
"""Ledgers with CUSTOM_BYTES of incompressible custom metadata: evidence that cheaply fills a
disk.
"""
CUSTOM_BYTES = 600_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield one cluster for all: a fault changes nothing in it."""
    with SandboxCluster(tmp_path_factory.mktemp("faults"), len(BOOKIES), named=True) as cluster:
        settle(cluster)
        yield cluster


def run(uri: str, home: Path, *options: str, **limits: int) -> AbstractContextManager[Started]:
    """Start `auditor run` on Spark as a process, with an earlier result in its output directory."""
    (home / "out").mkdir(parents=True)
    (home / "out" / "latest.json").write_bytes(LATEST)
    words = (
        "--metadata-service-uri",
        uri,
        "--second-look-delay",
        "0s",
        "--ledgers-in-process-max",
        "0",
    )
    return started(home, "run", *words, *options, **limits)


def next_run_owes_all(cluster: SandboxCluster, home: Path) -> None:
    """Assert that an undisturbed run into the same directory gives every verdict."""
    with act(cluster, SEED) as played:
        outcome = audit(
            played,
            home,
            output=str(home / "out"),
            ledger_ids=IDS,
            between=lambda n: played.second_look(n, heal=True),
        )
        assert [] == played.breaches(written_by(outcome), owed(ALL)), f"FAULT_SEED={SEED}"


KILLED: Mapping[str, tuple[Callable[[Started], int], int]] = {
    "SIGKILL of the driver": (lambda command: command.pid, -signal.SIGKILL),
    "SIGKILL of the JVM": (jvm_of, 5),
}
"""Which process is killed, and the exit code of the command."""


@pytest.mark.parametrize(
    "whom", [name for name in KILLED if PLAYS_ALL or name == "SIGKILL of the driver"]
)
def test_a_run_that_is_killed_publishes_nothing_and_the_next_owes_all(
    cluster: SandboxCluster, tmp_path: Path, whom: str
):
    """It is killed in the middle of the first look, with whatever it has written by then."""
    draw, (who, code) = random.Random(SEED), KILLED[whom]
    home = tmp_path / "home"
    with act(cluster, SEED) as played, run(played.metadata_service_uri, home) as command:
        kill(played, draw, lambda: os.kill(who(command), signal.SIGKILL))
        ended = command.ended(ENDS_WITHIN_S)
        assert [] == played.log.errors, f"FAULT_SEED={SEED}"
        assert code == ended, f"FAULT_SEED={SEED}: {command.said()}"
        assert [] == command.survivors(), f"FAULT_SEED={SEED}"
        nothing_published(command)
    next_run_owes_all(cluster, home)


def kill(played: Act, draw: random.Random, deed: Callable[[], None]) -> None:
    """Kill the process when one of the first lists is asked for."""
    fault = Fault(
        Harm.CALL,
        reply=False,
        operation="list",
        frame=draw.randrange(FRAMES),
        call=lambda _: deed(),
    )
    played.by_name[draw.choice(BOOKIES)].faults = [fault]


SHORT = (
    "--rpc-timeout",
    "1s",
    "--bookie-connect-timeout",
    "1s",
    "--bookie-deadline",
    "3s",
    "--spark-stall-max",
    "30s",
)


@pytest.mark.parametrize("what", ["worker", "jvm"])
def test_what_is_stopped_for_good_ends_the_run_within_its_bound(
    spark: object, cluster: SandboxCluster, tmp_path: Path, what: str
):
    """A Python worker, or Spark's JVM, which is the executor too and answers no question any more.
    The sentence names the limit, nothing is published, and no process is left.
    """
    draw, home = random.Random(SEED), tmp_path / "home"
    is_stopped = Event()
    with act(cluster, SEED) as played, run(played.metadata_service_uri, home, *SHORT) as command:

        def stop(connection: Connection) -> None:
            pid = spark_worker_of(connection.client_port) if what == "worker" else jvm_of(command)
            os.kill(pid, signal.SIGSTOP)
            is_stopped.set()

        fault = Fault(
            Harm.CALL, reply=False, operation="list", frame=draw.randrange(FRAMES), call=stop
        )
        played.by_name[draw.choice(BOOKIES)].faults = [fault]
        ended = command.ended(ENDS_WITHIN_S)
        assert ([], True) == (played.log.errors, is_stopped.is_set()), f"FAULT_SEED={SEED}"
        assert 5 == ended, f"FAULT_SEED={SEED}: {command.said()}"
        assert "no task of a Spark job finished for 30 s (--spark-stall-max)" in command.said()
        assert [] == command.survivors(), f"FAULT_SEED={SEED}"
        nothing_published(command)


def test_a_signal_ends_a_run_whose_jvm_is_stopped(
    spark: object, cluster: SandboxCluster, tmp_path: Path
):
    """Long before the job's bound: nobody waits for an answer of the JVM."""
    draw, home = random.Random(SEED), tmp_path / "home"
    is_stopped = Event()
    with act(cluster, SEED) as played, run(played.metadata_service_uri, home) as command:

        def stop(_: Connection) -> None:
            os.kill(jvm_of(command), signal.SIGSTOP)
            is_stopped.set()

        fault = Fault(Harm.CALL, reply=False, operation="list", frame=0, call=stop)
        played.by_name[draw.choice(BOOKIES)].faults = [fault]
        assert is_stopped.wait(ENDS_WITHIN_S), command.said()
        os.kill(command.pid, signal.SIGTERM)
        assert 128 + signal.SIGTERM == command.ended(ENDS_WITHIN_S), command.said()
        assert [] == command.survivors()
        nothing_published(command)


FULL: Mapping[str, tuple[int, int]] = {
    "of the first file": (300, 2),
    "of Spark's libraries": (16_000, 4),
    "of the evidence": (1_500_000, 5),
}
"""The largest file that can be written, in bytes (a limit of the process, which needs no rights and
no other file system), and the exit code: 2 if the output directory fails before anything is
contacted, 5 if it fails later.
"""


@pytest.mark.parametrize("where", [name for name in FULL if PLAYS_ALL or name == "of the evidence"])
def test_a_full_disk_publishes_nothing_and_the_next_owes_all(tmp_path: Path, where: str):
    """It ends with a sentence, whether the disk is full at the first file, at what Spark unpacks,
    or at the evidence.
    """
    draw, (limit, code) = random.Random(SEED), FULL[where]
    home = tmp_path / "home"
    with SandboxCluster(tmp_path / "cluster", len(BOOKIES), named=True) as cluster:
        settle(cluster)
        metadata = cluster.ledger("e2 w2 a2  0:[b1 b2]  open")
        for ledger_id in LARGE:
            cluster.add_ledger(
                ledger_id,
                replace(metadata, custom_metadata=(("filling", draw.randbytes(CUSTOM_BYTES)),)),
            )
        with run(cluster.metadata_service_uri, home, file_bytes_max=limit) as command:
            assert code == command.ended(ENDS_WITHIN_S), f"FAULT_SEED={SEED}: {command.said()}"
            assert [] == command.survivors(), f"FAULT_SEED={SEED}"
            nothing_published(command)
        if PLAYS_ALL:  # a complete next run is tested after a kill in any case
            next_run_owes_all(cluster, home)

"""A run that is really killed, stopped or cut off is resumed with `--resume`: every verdict, and no
answer asked for twice.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults.carried import Finished, breaches_of_carried
from faults.detector import Sort
from faults.ends import FINDINGS, PLANS, UNPUBLISHED, USAGE
from faults.playing import SEED
from faults.resuming import ENDS_WITHIN_S, SHARD_LEDGERS, Play, run_of
from faults.scene import ALL, BOOKIES, act, settle
from support.started_command import started

from auditor.sandbox.cluster import SandboxCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

LONG = [
    pytest.param(name, marks=pytest.mark.long) for name, plan in PLANS.items() if not plan.quick
]
SHARD = sorted(ALL)[:SHARD_LEDGERS]
"""The first shard's ledgers: all are closed, so all are asked about."""
QUICK = [name for name, plan in PLANS.items() if plan.quick]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield one cluster for all: a fault changes nothing in it."""
    with SandboxCluster(tmp_path_factory.mktemp("faults"), len(BOOKIES), named=True) as cluster:
        settle(cluster)
        yield cluster


@pytest.mark.parametrize("name", [*QUICK, *LONG])
def test_a_run_that_is_ended_and_gone_on_with_owes_all_and_asks_nothing_twice(
    cluster: SandboxCluster, tmp_path: Path, name: str
):
    """The plan says what ends it and when; what the journal names is not asked again."""
    with act(cluster, SEED) as played:
        found = Play(PLANS[name], played, tmp_path / "home").breaches()
        assert [] == found, f"{found}: make faults SEED={SEED} shows it again, in the plan {name!r}"


def forget_lists(run: Path) -> None:
    """Remove from the journal everything since the newest stage that asked for lists, as if it had
    never been written.
    """
    stages = sorted(run.glob("journal/*.json"))
    asking = [
        n
        for n, path in enumerate(stages)
        if json.loads(path.read_text())["stage"].endswith(": lists")
    ]
    for path in stages[asking[-1] :]:
        path.unlink()


@pytest.mark.long
def test_a_resume_that_asks_again_is_noticed(cluster: SandboxCluster, tmp_path: Path):
    """A run whose journal loses a stage asks the bookies again, gives the same verdicts, and is
    found.
    """
    with act(cluster, SEED) as played:
        found = Play(PLANS["SIGKILL of the driver, at a list"], played, tmp_path / "home").breaches(
            meddle=forget_lists
        )
        assert {(Sort.DUPLICATION, "life 2")} == {
            (one.sort, one.sequence.partition(",")[0].split(" in ")[1]) for one in found
        }
        again = {one.ledger_id for one in found if one.sequence.endswith("lists")}
        assert set(SHARD) == again, f"FAULT_SEED={SEED}"


@pytest.mark.long
def test_a_run_that_dies_before_it_is_published_is_published_when_it_goes_on(
    cluster: SandboxCluster, tmp_path: Path
):
    """It is killed between summary.json and latest.json: no question is repeated, no verdict
    differs, no sum is doubled or lost.
    """
    home = tmp_path / "home"
    with act(cluster, SEED) as played:
        assert [] == Play(UNPUBLISHED, played, home, before=lambda: hold_latest(home)).breaches()
        assert [] == [
            one for one in played.log.epochs()[1] if one.said.operation in ("list", "read")
        ]
    assert [] == breaches_of_carried([Finished(run_of(home))])


def hold_latest(home: Path) -> None:
    """Make a run wait before latest.json until it is killed: the file that it writes first is a
    pipe without a reader.
    """
    os.mkfifo(home / "out" / ".latest.json.tmp")


@pytest.mark.long
def test_a_run_that_dies_before_its_metrics_leave_is_counted_by_the_next_one(
    cluster: SandboxCluster, tmp_path: Path
):
    """It is killed after latest.json, while a Pushgateway does not answer: it is finished, and the
    next run's sums continue from it.
    """
    home, textfile = tmp_path / "home", tmp_path / "auditor.prom"
    home.mkdir()
    latest = home / "out" / "latest.json"
    with act(cluster, SEED) as played, socket.create_server(("127.0.0.1", 0)) as silent:
        words = ("--metadata-service-uri", played.metadata_service_uri, "--second-look-delay", "0s")
        pushing = (*words, "--pushgateway", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with started(home, "run", *pushing) as command:
            command.reach(lambda _: latest.exists(), ENDS_WITHIN_S)
            os.kill(command.pid, signal.SIGKILL)
            assert -signal.SIGKILL == command.ended(ENDS_WITHIN_S)
            assert [] == command.survivors()
        first = run_of(home)
        with started(home, "run", "--resume", first.name.removeprefix("run-"), *words) as command:
            assert (USAGE, True) == (
                command.ended(ENDS_WITHIN_S),
                "is finished" in command.said(),
            ), command.said()
        with started(home, "run", *words, "--metrics-textfile", str(textfile)) as command:
            assert FINDINGS == command.ended(ENDS_WITHIN_S), command.said()
    (second,) = {path for path in (home / "out").glob("run-*") if path != first}
    assert [] == breaches_of_carried(
        [Finished(first), Finished(second, first, first)], [textfile.read_text()]
    )

"""A run that is really killed, stopped or cut off goes on with `--resume`: every verdict, and no answer asked for twice."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults.detector import Sort
from faults.ends import PLANS, UNPUBLISHED
from faults.playing import SEED
from faults.resuming import SHARD_LEDGERS, Play
from faults.scene import ALL, BOOKIES, act, settle

from auditor.sandbox.cluster import SandboxCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

LONG = [pytest.param(name, marks=pytest.mark.long) for name, plan in PLANS.items() if not plan.quick]
SHARD = sorted(ALL)[:SHARD_LEDGERS]
"""The first shard's ledgers: all are closed, so all are asked about."""
QUICK = [name for name, plan in PLANS.items() if plan.quick]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """One for all: a fault leaves nothing behind in it."""
    with SandboxCluster(tmp_path_factory.mktemp("faults"), len(BOOKIES), named=True) as cluster:
        settle(cluster)
        yield cluster


@pytest.mark.parametrize("name", [*QUICK, *LONG])
def test_a_run_that_is_ended_and_gone_on_with_owes_all_and_asks_nothing_twice(
    cluster: SandboxCluster, tmp_path: Path, name: str
):
    """By what ends it and when, as the plan says; what the journal names is not asked again."""
    with act(cluster, SEED) as played:
        found = Play(PLANS[name], played, tmp_path / "home").breaches()
        assert [] == found, f"{found}: make faults SEED={SEED} shows it again, in the plan {name!r}"


def forget_lists(run: Path) -> None:
    """What the journal has from the newest stage on that asked for lists is gone, as if it had never been written down."""
    stages = sorted(run.glob("journal/*.json"))
    asking = [n for n, path in enumerate(stages) if json.loads(path.read_text())["stage"].endswith(": lists")]
    for path in stages[asking[-1] :]:
        path.unlink()


@pytest.mark.long
def test_a_resume_that_asks_again_is_noticed(cluster: SandboxCluster, tmp_path: Path):
    """The planted fault: a run whose journal forgets a stage asks the bookies again, says the same, and is found out."""
    with act(cluster, SEED) as played:
        found = Play(PLANS["SIGKILL of the driver, at a list"], played, tmp_path / "home").breaches(meddle=forget_lists)
        assert {(Sort.DUPLICATION, "life 2")} == {(one.sort, one.sequence.partition(",")[0].split(" in ")[1]) for one in found}
        again = {one.ledger_id for one in found if one.sequence.endswith("lists")}
        assert set(SHARD) == again, f"FAULT_SEED={SEED}"


@pytest.mark.long
def test_a_run_that_dies_before_it_is_published_is_published_when_it_goes_on(cluster: SandboxCluster, tmp_path: Path):
    """A Pushgateway that does not answer keeps it from latest.json; nothing is asked again, no verdict is another."""
    with act(cluster, SEED) as played, socket.create_server(("127.0.0.1", 0)) as silent:
        more = ("--pushgateway", f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert [] == Play(UNPUBLISHED, played, tmp_path / "home", more).breaches()
        assert [] == [one for one in played.log.epochs()[1] if one.said.operation in ("list", "read")]

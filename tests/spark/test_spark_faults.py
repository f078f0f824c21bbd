"""Faults under the Spark job: its own processes are killed and stopped while they ask, and some
faults on the wire.

Here the outputs are tables, so the detector sees every answer with its entries, in the order in
which each lane wrote it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from faults.detector import Sort
from faults.harm import Fault, Harm
from faults.plans import PLANS as ON_THE_WIRE
from faults.plans import Plan
from faults.playing import PLAYS_ALL, SEED, by_job, chosen, hold, planted
from faults.processes import command, parent, spark_worker_of
from faults.proxy import Connection
from faults.reported import Heard, Read
from faults.scene import ALL, BOOKIES, act, owed, settle

from auditor.sandbox.cluster import SandboxCluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.filterwarnings(
        "ignore::pytest.PytestUnhandledThreadExceptionWarning"
    ),  # kazoo's own thread, see the plans
]

STOPPED_S = 1.0
FRAMES = 6
"""The harm comes with one of the first lists, up to this number."""
WIRE = (
    "bookie: reply to a list: reset",
    "bookie: reply to a list: corrupt",
    "bookie: reply to a list: drop",
    "bookie: request of a list: reorder",
    "bookie: reply to a read: truncate",
    "bookie: list of a ledger that is sound: corrupt rest",
    "bookie: lists, all of the first look: reset",
    "zookeeper: reply to a read: reset",
    "zookeeper: metadata of a ledger that is sound: corrupt rest",
)
"""Plans that are also played under Spark, because of the tables."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield one cluster for all plans: a fault changes nothing in it."""
    with SandboxCluster(tmp_path_factory.mktemp("faults"), len(BOOKIES), named=True) as cluster:
        settle(cluster)
        yield cluster


def kill_worker(connection: Connection) -> None:
    os.kill(spark_worker_of(connection.client_port), signal.SIGKILL)


def kill_daemon(connection: Connection) -> None:
    daemon = parent(spark_worker_of(connection.client_port))
    assert "worker_daemon" in command(daemon), command(daemon)
    os.kill(daemon, signal.SIGKILL)


def stop_worker_a_while(connection: Connection) -> None:
    pid = spark_worker_of(connection.client_port)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(STOPPED_S)
    os.kill(pid, signal.SIGCONT)


DEEDS: Mapping[str, Callable[[Connection], None]] = {
    "SIGKILL of the Spark worker that asks a bookie": kill_worker,
    "SIGKILL of all Spark workers' parent": kill_daemon,
    "SIGSTOP of a Spark worker for a second": stop_worker_a_while,
}
WORKERS = {
    name: Plan(
        name,
        lambda draw, deed=deed: {  # type: ignore[misc]
            draw.choice(BOOKIES): [
                Fault(
                    Harm.CALL,
                    reply=False,
                    operation="list",
                    frame=draw.randrange(FRAMES),
                    call=deed,
                )
            ]
        },
        quick=deed is kill_worker,
    )
    for name, deed in DEEDS.items()
}
PLANS = WORKERS | {
    name: replace(ON_THE_WIRE[name], quick=False) for name in WIRE if name in ON_THE_WIRE
}


@pytest.mark.parametrize("name", chosen(PLANS))
def test_a_fault_under_spark_takes_no_verdict_that_is_owed(
    spark: object, cluster: SandboxCluster, tmp_path: Path, name: str
):
    """Each ledger occurs once, with its own answers, whatever Spark did twice."""
    with act(cluster, SEED) as played:
        due = planted(played, PLANS[name])
        hold(played, PLANS[name], due, by_job(played, PLANS[name], tmp_path))


def test_the_detector_sees_what_is_planted_into_written_tables(
    spark: object, cluster: SandboxCluster, tmp_path: Path
):
    """In the tables of a real run it finds nothing; then one answer that is missing, doubled, in
    another's place, or has another entry; and one entry read twice.
    """
    with act(cluster, SEED) as played:
        reported = by_job(played, Plan("no fault", lambda _: {}), tmp_path).reported
        assert [] == played.breaches(reported, owed(ALL))
        rows = [row for row in reported.answers if row[:2] == ("b1", 1)]
        others = [row for row in reported.answers if row[:2] != ("b1", 1)]
        same_part = [n for n, row in enumerate(rows) if row[2][0] % 3 == rows[0][2][0] % 3]
        first, second = same_part[0], same_part[1]
        turned = list(rows)
        turned[first], turned[second] = rows[second], rows[first]
        changed = (*rows[second][:3], Heard("held", frozenset({999})))
        planted_rows = {
            Sort.LOSS: rows[:second] + rows[second + 1 :],
            Sort.DUPLICATION: [*rows, rows[second]],
            Sort.REORDERING: turned,
            Sort.CORRUPTION: [*rows[:second], changed, *rows[second + 1 :]],
        }
        for sort, mine in planted_rows.items():
            found = played.breaches(replace(reported, answers=[*mine, *others]), owed(ALL))
            assert [(sort, "b1 at look 1")] == [
                (breach.sort, breach.sequence.split(",")[0]) for breach in found
            ]
        (bookie, look, key, read), *reads = reported.reads
        opposite = "no_entry" if read.status == "present" else "present"
        for other, sort in (
            ([], Sort.LOSS),
            ([(bookie, look, key, Read(opposite))], Sort.CORRUPTION),
        ):
            (breach,) = played.breaches(replace(reported, reads=[*other, *reads]), owed(ALL))
            assert (sort, f"{bookie} at look {look}, reads", key[0]) == (
                breach.sort,
                *breach.sequence.split(", ids")[:1],
                breach.ledger_id,
            )


def test_the_plans_on_the_wire_are_known():
    """A renamed plan is not left out by mistake."""
    assert [] == [name for name in WIRE if name not in ON_THE_WIRE]
    assert not PLAYS_ALL or len(PLANS) == len(WIRE) + len(DEEDS)

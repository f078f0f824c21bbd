"""`requests.zookeeper_reads` is what went over the wire: a proxy before ZooKeeper counts it, znode
by znode.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from support.audits import FIRST_LOOK_ON_SPARK, accounted, audit, audit_ledgers
from support.zookeeper_proxy import DroppingProxy, refusing

from auditor.evidence.journal import Journal
from auditor.evidence.run_directory import Place
from auditor.sandbox.cluster import SandboxCluster

STRIPED = "e3 w2 a2 0:[b1 b2 b3] closed 29"
HMAC = "e3 w2 a2 0:[b1 b2 b3] closed 29 hmac"
APART = 10_000
"""Ledger ids that share one parent: so many parents make several portions of a listing."""


class Proxied:
    """A cluster behind a proxy."""

    def __init__(self, cluster: SandboxCluster, proxy: DroppingProxy) -> None:
        self.cluster, self.proxy = cluster, proxy
        self.metadata_service_uri = cluster.metadata_service_uri.replace(
            cluster.zookeeper_hosts, proxy.hosts
        )

    def reads(self) -> int:
        return sum(self.proxy.reads)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield forty ledgers far apart; one lost an entry, one with passwords lacks a copy, two are
    marked, one mark has no ledger.
    """
    with SandboxCluster(tmp_path_factory.mktemp("reads"), 3, named=True) as made:
        for number in range(40):
            made.place(number * APART, made.ledger(HMAC if number == 5 else STRIPED))
        made.hold("b2", 3 * APART, "")
        made.hold("b2", 5 * APART, "")
        for ledger_id in (APART, 2 * APART, 7):
            made.mark(ledger_id, ["b1"])
        yield made


@pytest.fixture
def proxied(cluster: SandboxCluster) -> Iterator[Proxied]:
    port = int(cluster.zookeeper_hosts.rpartition(":")[2])
    with refusing(port) as proxy:
        yield Proxied(cluster, proxy)


@pytest.fixture
def way(request: pytest.FixtureRequest) -> dict[str, str]:
    """Return the settings of who takes the first look, with a Spark session if it is Spark."""
    if request.param:
        request.getfixturevalue("spark")
    return dict(request.param)


IN_PROCESS = pytest.param({}, id="in process")
ON_SPARK_LONG = pytest.param(
    FIRST_LOOK_ON_SPARK, id="on Spark", marks=[pytest.mark.spark, pytest.mark.long]
)


@pytest.mark.parametrize("way", [IN_PROCESS, ON_SPARK_LONG], indirect=True)
def test_each_read_counts_once(way: dict[str, str], proxied: Proxied, tmp_path: Path) -> None:
    """It covers listing, marks, locks, registrations, cookies, cluster facts, metadata and
    passwords, by driver and tasks.
    """
    outcome = accounted(audit(proxied, tmp_path, **way))
    assert proxied.reads() == outcome.summary["requests"]["zookeeper_reads"] > 40
    totals = outcome.summary["request_totals"]["zookeeper_reads"]
    assert {"answered": proxied.reads(), "failed": 0} == totals


def test_named_ledgers_are_counted_likewise(proxied: Proxied, tmp_path: Path) -> None:
    """There is no listing, and everything else is as in a whole run; `auditor ledger` counts in the
    same way.
    """
    outcome = accounted(audit(proxied, tmp_path, ledger_ids=[0, 3 * APART]))
    assert proxied.reads() == outcome.summary["requests"]["zookeeper_reads"]
    before = proxied.reads()
    single = audit_ledgers(proxied, [0, 3 * APART, 5 * APART])
    assert proxied.reads() - before == single.summary["requests"]["zookeeper_reads"]


class CutDown(BaseException):
    """Raised to end the run, in place of a killed process."""


@pytest.mark.parametrize(
    ("last", "way"),
    [
        ("listing", {}),
        ("look 1 shard 0: metadata", {}),
        pytest.param(
            "look 1 shard 0: metadata", FIRST_LOOK_ON_SPARK, id="on Spark", marks=pytest.mark.spark
        ),
        ("look 2 shard 0: metadata", {}),
        ("verdicts", {}),
    ],
    indirect=["way"],
)
def test_a_run_that_went_on_counts_all_its_processes(
    way: dict[str, str],
    proxied: Proxied,
    tmp_path: Path,
    last: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is interrupted just after a stage was written, and resumed: nothing is lost or doubled."""
    once = Journal.run_once

    def cut(self: Journal, stage: str, work: Any, *args: Any, **options: Any) -> Any:
        result = once(self, stage, work, *args, **options)
        if stage == last:
            raise CutDown
        return result

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "run_once", cut)
        with pytest.raises(CutDown):
            audit(proxied, tmp_path, **way)
    (run,) = (tmp_path / "audits").glob("run-*")
    outcome = accounted(audit(proxied, tmp_path, resume=run.name.removeprefix("run-"), **way))
    assert proxied.reads() == outcome.summary["requests"]["zookeeper_reads"]


@pytest.mark.parametrize("way", [IN_PROCESS, ON_SPARK_LONG], indirect=True)
def test_a_stage_that_was_cut_down_and_done_again_counts_once(
    way: dict[str, str], proxied: Proxied, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a stage wrote before its run was interrupted is removed, with its counts."""
    last, write = "look 1 shard 0: metadata", Place.write_text

    def cut(place: Place, name: str, text: str) -> None:
        if place.path.endswith("/journal") and last in text:
            raise CutDown
        write(place, name, text)

    with monkeypatch.context() as patch:
        patch.setattr(Place, "write_text", cut)
        with pytest.raises(CutDown):
            audit(proxied, tmp_path, **way)
    (run,) = (tmp_path / "audits").glob("run-*")
    outcome = accounted(audit(proxied, tmp_path, resume=run.name.removeprefix("run-"), **way))
    rows = ds.dataset(run / "evidence" / "ledgers", format="parquet").to_table(
        filter=ds.field("look") == 1
    )
    assert 40 <= sum(filter(None, rows["zookeeper_reads"].to_pylist())) <= 40 + 10, (
        "each ledger once, and a probe a task"
    )
    assert proxied.reads() > outcome.summary["requests"]["zookeeper_reads"]

"""Laws of whole runs about the locations of bookies: those that a run judges by, and its replay."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.audits import accounted, audit, audit_ledgers, replay_run

from auditor.errors import ConfigError
from auditor.model.finding import Kind
from auditor.sandbox.cluster import SandboxCluster
from auditor.wire import locations

ONE_RACK, TWO_RACKS, NOT_LOCATED = 1, 2, 3
RACKS = {"b1": "/r1", "b2": "/r1", "b3": "r2"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield ledgers on b1 and another bookie: b2 in the same rack, b3 in another, b4 without a
    rack.
    """
    with SandboxCluster(tmp_path_factory.mktemp("cluster"), bookies=4, named=True) as made:
        for ledger_id, other in ((ONE_RACK, "b2"), (TWO_RACKS, "b3"), (NOT_LOCATED, "b4")):
            made.place(ledger_id, made.ledger(f"e2 w2 a2  0:[b1 {other}]  closed 9"))
        yield made


@pytest.fixture(autouse=True)
def racks(cluster: SandboxCluster) -> None:
    """Write Pulsar's rack map beside the ledgers before each test."""
    cluster.set_raw("/bookies", locations.encode_rack_map(RACKS))


def test_a_replay_judges_by_the_locations_of_its_run(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    """The locations are written with the run, so later changes of the sources do not matter."""
    script = tmp_path / "script"
    script.write_text('#!/bin/sh\nfor a in "$@"; do echo /; done\n')
    script.chmod(0o755)
    outcome = accounted(
        audit(cluster, tmp_path, placement_policy="rack", topology=f"zookeeper,{script}")
    )
    expected = ["violated", "sound", "indeterminate: topology_unknown"]
    assert expected == outcome.standings(ONE_RACK, TWO_RACKS, NOT_LOCATED)
    assert [(Kind.PLACEMENT_FAILED.value, ONE_RACK)] == [
        (found["kind"], found["ledger_id"]) for found in outcome.findings
    ]
    assert "b1 at /r1, b2 at /r1" in outcome.one(ONE_RACK)["witness"]
    (said,) = [event["problem"] for event in outcome.events if event["event"] == "topology"]
    assert "no source has a location for b4" in said
    cluster.set_raw(
        "/bookies", locations.encode_rack_map(dict.fromkeys(("b1", "b2", "b3", "b4"), "/r9"))
    )
    script.unlink()
    assert outcome.run_dir is not None
    assert expected == replay_run(outcome.run_dir).standings(ONE_RACK, TWO_RACKS, NOT_LOCATED)


def test_a_location_is_the_assigned_one(cluster: SandboxCluster) -> None:
    """A read-only bookie keeps its location. For Java's classes it has none, and a good ensemble
    fails.
    """
    cluster.readonly("b3")
    try:
        settings = {"placement_policy": "rack", "topology": "zookeeper"}
        ours, javas = (
            audit_ledgers(cluster, [ONE_RACK, TWO_RACKS], placement_compat=compat, **settings)
            for compat in ("assigned", "java")
        )
    finally:
        cluster.register("b3")
    assert [["violated", "sound"], ["violated", "violated"]] == [
        o.standings(ONE_RACK, TWO_RACKS) for o in (ours, javas)
    ]


def test_an_earlier_source_moves_a_bookie(cluster: SandboxCluster, tmp_path: Path) -> None:
    """If the table comes before the rack map, it moves b2 to another rack and places b4; after it,
    it only places b4.
    """
    table = tmp_path / "racks"
    table.write_text("b2 /r2\nb4 /r1\n")
    first, last = (
        audit_ledgers(cluster, [ONE_RACK, NOT_LOCATED], placement_policy="rack", topology=topology)
        for topology in (f"{table},zookeeper", f"zookeeper,{table}")
    )
    assert [["sound", "violated"], ["violated", "violated"]] == [
        o.standings(ONE_RACK, NOT_LOCATED) for o in (first, last)
    ]


@pytest.mark.parametrize("command", ["run", "ledger"])
def test_a_bad_source_is_found_before_anything_is_contacted(tmp_path: Path, command: str) -> None:
    """No server listens at this address, and none is asked."""
    table = tmp_path / "racks"
    table.write_text("b1 r1\n")
    nowhere, settings = (
        "zk://127.0.0.1:1/ledgers",
        {"placement_policy": "rack", "topology": str(table)},
    )
    with pytest.raises(ConfigError, match="line 1: location 'r1' does not begin with /"):
        (
            audit(nowhere, tmp_path, **settings)
            if command == "run"
            else audit_ledgers(nowhere, [1], **settings)
        )

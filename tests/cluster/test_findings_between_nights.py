"""What changed between two nights, on real BookKeeper and ZooKeeper: a znode that was written by
hand, a ledger that was replicated again, a topic that lost a ledger, and a restored snapshot.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from support.audits import Outcome, accounted, audit
from support.real_cluster import RealCluster
from support.topics import closed, put_topic

from auditor.model.finding import Kind
from auditor.model.ledger import LedgerState
from auditor.model.topic import Cursor, Position
from auditor.wire import ledger_metadata

pytestmark = [pytest.mark.real, pytest.mark.long]

TEXT = "e2 w2 a2 0:[b1 b2] closed 9"
CUT, REPLICATED, CLOSED_LATER, CREATED_LATER = 1, 2, 3, 4
FRONT, MIDDLE, BACK = 11, 12, 13
TOPIC = "public/default/orders"


class Nights(NamedTuple):
    """A cluster after a run that found nothing, that run's output, and an older ZooKeeper."""

    cluster: RealCluster
    output: Path
    snapshot: Path


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nights]:
    """Yield four closed ledgers. In the older ZooKeeper one is open, and one is not there."""
    home = tmp_path_factory.mktemp("nights")
    with RealCluster(home / "cluster", bookies=3) as cluster:
        metadata = cluster.ledger(TEXT)
        for ledger_id in (CUT, REPLICATED, FRONT, MIDDLE, BACK):
            cluster.place(ledger_id, metadata)
        at_end = {"behind": Cursor(None, Position(BACK, 9))}
        put_topic(cluster.set_raw, TOPIC, map(closed, (FRONT, MIDDLE, BACK)), at_end)
        is_open = replace(metadata, state=LedgerState.OPEN, last_entry_id=None, length=0)
        cluster.add_ledger(CLOSED_LATER, is_open)
        shutil.copytree(cluster.zookeeper_data, home / "snapshot")
        for ledger_id in (CLOSED_LATER, CREATED_LATER):
            cluster.place(ledger_id, metadata)
        first = accounted(audit(cluster, home))
        assert ([], 0) == (first.findings, first.exit_code)
        yield Nights(cluster, home / "audits", home / "snapshot")


def next_night(nights: Nights, tmp_path: Path) -> Outcome:
    """Return a run after the first one, whose output is copied."""
    output = shutil.copytree(nights.output, tmp_path / "audits")
    return accounted(audit(nights.cluster, tmp_path, output=str(output)))


def changed_in(outcome: Outcome) -> dict[tuple[str, int], str]:
    """Return the witness of each ledger with CLOSED_METADATA_CHANGED, by kind and ledger."""
    return {
        (found["kind"], found["ledger_id"]): found["witness"]
        for found in outcome.findings
        if found["kind"] == Kind.CLOSED_METADATA_CHANGED
    }


def test_a_lower_end_is_found_and_a_replicated_ledger_is_not(
    nights: Nights, tmp_path: Path
) -> None:
    """BookKeeper's own recovery moves copies to b3, and changes nothing but the ensemble."""
    cluster = nights.cluster
    cluster.shell("recover", "-f", "-l", str(REPLICATED), "b2")
    data, _ = cluster.zk.get(cluster.ledger_path(REPLICATED))
    assert ("b1", "b3") == ledger_metadata.decode(data).segments[0].ensemble
    cluster.add_ledger(CUT, replace(cluster.ledger(TEXT), last_entry_id=6))
    found = changed_in(next_night(nights, tmp_path))
    assert [(Kind.CLOSED_METADATA_CHANGED, CUT)] == list(found)
    (witness,) = found.values()
    assert "lastEntryId was 9 and is 6" in witness
    assert "Its znode is the same and was written since then." in witness
    assert "cuts off 3 entries: 7-9." in witness


def test_a_topic_that_lost_a_ledger_and_a_position_beyond_the_end_are_found(
    nights: Nights, tmp_path: Path
) -> None:
    """BookKeeper has all that the metadata of the three ledgers promises."""
    beyond = {"behind": Cursor(None, Position(BACK, 12))}
    put_topic(nights.cluster.set_raw, TOPIC, map(closed, (FRONT, BACK)), beyond)
    outcome = next_night(nights, tmp_path)
    found = {
        one["kind"]: one["ledger_id"]
        for one in outcome.findings
        if one["kind"] != Kind.CLOSED_METADATA_CHANGED
    }
    assert MIDDLE == found[Kind.LEDGER_DROPPED_FROM_TOPIC]
    assert BACK == found[Kind.POSITION_BEYOND_END]
    assert ["sound"] * 3 == outcome.standings(FRONT, MIDDLE, BACK)


def test_a_restored_snapshot_is_found_by_the_versions_that_went_back(
    nights: Nights, tmp_path: Path
) -> None:
    """The ledger that was closed after the snapshot is open again."""
    nights.cluster.restore_zookeeper(nights.snapshot)
    outcome = next_night(nights, tmp_path)
    found = changed_in(outcome)
    assert [(Kind.CLOSED_METADATA_CHANGED, CLOSED_LATER)] == list(found)
    (witness,) = found.values()
    assert "state was CLOSED and is OPEN" in witness
    assert "The version of its znode went back" in witness
    counted = outcome.summary["metadata_compared"]
    assert [CLOSED_LATER] == counted["some_went_back"]
    assert (0, {"unexplained": 1}) == (counted["returned"], counted["gone"])
    assert CREATED_LATER not in outcome.verdicts

"""Laws of whole runs about topics whose lists lose a ledger between two nights."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.audits import accounted, audit
from support.topics import closed, put_topic

from auditor.model.finding import Kind
from auditor.sandbox.cluster import SandboxCluster

TEXT = "e2 w2 a2 0:[b1 b2] closed 9"
CUT, TRIMMED = "public/default/cut", "public/default/trimmed"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    with SandboxCluster(tmp_path_factory.mktemp("cluster"), bookies=2) as made:
        for ledger_id in range(1, 9):
            made.place(ledger_id, made.ledger(TEXT))
        yield made


def test_a_ledger_that_a_list_lost_is_found_on_every_night_and_trimmed_ones_are_not(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    """Both topics lose a ledger that BookKeeper still has. Retention trims the first one only. A
    run that finds the list whole again finds nothing.
    """
    put_topic(cluster.set_raw, CUT, map(closed, (1, 2, 3, 4)))
    put_topic(cluster.set_raw, TRIMMED, map(closed, (5, 6, 7)))
    first = accounted(audit(cluster, tmp_path))
    assert ([], 0) == (first.findings, first.exit_code)
    put_topic(cluster.set_raw, CUT, map(closed, (1, 3, 4)))
    put_topic(cluster.set_raw, TRIMMED, map(closed, (6, 7, 8)))
    for change in ("new", "still"):
        outcome = accounted(audit(cluster, tmp_path))
        (found,) = outcome.findings
        assert (Kind.LEDGER_DROPPED_FROM_TOPIC, 2, change) == (
            found["kind"],
            found["ledger_id"],
            found["change"],
        )
        assert (1, 1) == (outcome.summary["references"]["dropped"], outcome.exit_code)
        assert "BookKeeper still has its metadata." in found["witness"]
        assert [{"topic": "without 2"}] * 2 == [look["answers"] for look in found["looks"]]
        assert "public/default/persistent/cut" == found["owner"]["name"]
    put_topic(cluster.set_raw, CUT, map(closed, (1, 2, 3, 4)))
    whole = accounted(audit(cluster, tmp_path))
    assert ([], 0) == (whole.findings, whole.exit_code)


def test_ledgers_that_are_gone_and_those_that_came_back_are_counted(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    """A trimmed ledger is explained by its topic, another one is not. A ledger that was deleted
    before the first run and has its old metadata again came back; a new one did not.
    """
    put_topic(cluster.set_raw, TRIMMED, map(closed, (5, 6, 7)))
    old, new = cluster.ledger(TEXT), int(time.time() * 1000)
    cluster.place(20, old)
    accounted(audit(cluster, tmp_path))
    put_topic(cluster.set_raw, TRIMMED, map(closed, (6, 7)))
    for ledger_id in (5, 20):
        cluster.delete_ledger(ledger_id)
    cluster.place(21, replace(old, ctime_ms=new))
    cluster.place(19, replace(old, ctime_ms=new - 7_200_000))
    try:
        outcome = accounted(audit(cluster, tmp_path))
    finally:
        cluster.place(5, old)
        for ledger_id in (19, 21):
            cluster.delete_ledger(ledger_id)
    counted = outcome.summary["metadata_compared"]
    assert {"trimmed": 1, "unexplained": 1} == counted["gone"]
    assert [{"namespace": "public/default", "ledgers": 1}] == counted["gone_namespaces"]
    assert (1, [19], 0) == (counted["returned"], counted["some_returned"], counted["went_back"])
    assert outcome.run_dir is not None
    assert "20\n" == (outcome.run_dir / "gone" / "unexplained.txt").read_text()

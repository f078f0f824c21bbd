"""A real bookie that was wiped and started again answers for every ledger, and has none of them."""

from __future__ import annotations

import pytest
from support.audits import Outcome, accounted, audit
from support.real_cluster import RealCluster

from auditor.commands.ledger_ids import read_ledger_ids
from auditor.model.finding import Kind

pytestmark = [pytest.mark.real, pytest.mark.spark]

ON_WIPED = range(1, 9)
BESIDE = {11: "e2 w2 a1 0:[b1 b3] closed 9", 12: "e2 w2 a1 0:[b1 b3] closed 9"}
"""Ledgers of the twin: b3 never got an entry of the first."""


@pytest.fixture(scope="module")
def wiped(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """b2 is back with empty folders; b3 lacks one entry of one ledger."""
    with RealCluster(tmp_path_factory.mktemp("wiped"), bookies=3) as cluster:
        for ledger_id in ON_WIPED:
            cluster.place(ledger_id, cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed 8"))
        for ledger_id, text in BESIDE.items():
            cluster.place(ledger_id, cluster.ledger(text), {"b3": "4"} if ledger_id == 11 else None)
        cluster.wipe("b2")
        return accounted(audit(cluster, tmp_path_factory.mktemp("audit")))


def test_a_bookie_that_lost_its_content_is_found(wiped: Outcome) -> None:
    """Critical, with what it was asked and lacks: two of three entries of nine are on it, in each of eight ledgers."""
    found = wiped.one("b2")
    assert (Kind.BOOKIE_LOST_CONTENT.value, "critical") == (found["kind"], found["severity"])
    for words in ("registered as writable", "answered for 8 ledgers", "Of 8 of them (1, 2, 3, 4, 5", "together 48 of 48."):
        assert words in found["witness"]
    assert ["answered", "answered"] == [look["answers"]["b2"] for look in found["looks"]]


def test_its_twin_that_lost_an_entry_is_not(wiped: Outcome) -> None:
    """A ledger's loss is that ledger's finding."""
    assert [[], []] == [wiped.of("b1"), wiped.of("b3")]
    assert Kind.ENTRY_BELOW_WRITE_QUORUM.value == wiped.one(11)["kind"]
    assert ["sound"] == wiped.standings(12)


def test_it_is_the_cause_of_its_ledgers(wiped: Outcome) -> None:
    """One cause, its ledgers in a file, told before any count."""
    (cause,) = wiped.summary["causes"]
    assert ("bookie", "b2", len(ON_WIPED)) == (cause["cause"], cause["subject"], cause["ledgers"])
    assert wiped.run_dir is not None
    assert list(ON_WIPED) == read_ledger_ids(wiped.run_dir / cause["file"])
    assert wiped.stdout.index("  1. bookie b2 answers and lacks entries of 8 ledgers") < wiped.stdout.index("\nLedgers\n")

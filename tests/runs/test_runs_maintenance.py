"""Laws of whole runs about bookies in maintenance, each beside the twin that is not declared to
be.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit, audit_ledgers

from auditor.model.finding import Kind
from auditor.sandbox.cluster import SandboxCluster

ON_B2, BESIDE, LOST_BESIDE, LOST_ON_BOTH = (1, 2, 3), 4, 5, 6
DELAY_S = 900
SESSION_AND_MARGIN_S = 11


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield a cluster: b2 holds a copy of ledgers 1 to 3; 4 is sound without it, 5 lost an entry
    without it, 6 lost one on b1 and names b2.
    """
    with SandboxCluster(tmp_path_factory.mktemp("cluster"), bookies=3, named=True) as made:
        for ledger_id in ON_B2:
            made.place(ledger_id, made.ledger("e2 w2 a2  0:[b1 b2]  closed 9"))
        made.place(BESIDE, made.ledger("e2 w2 a2  0:[b1 b3]  closed 9"))
        made.place(LOST_BESIDE, made.ledger("e2 w2 a1  0:[b1 b3]  closed 9"), lose={"b1": "4"})
        made.place(LOST_ON_BOTH, made.ledger("e2 w2 a2  0:[b1 b2]  closed 9"), lose={"b1": "4"})
        yield made


@pytest.fixture
def silent(cluster: SandboxCluster) -> Iterator[SandboxCluster]:
    """Make b2 registered and silent."""
    cluster.stop_bookie("b2")
    yield cluster
    cluster.start_bookie("b2")


@pytest.fixture
def gone(cluster: SandboxCluster) -> Iterator[SandboxCluster]:
    """Make b2 unregistered with a cookie, and the recovery delay long."""
    cluster.set_lost_bookie_recovery_delay(DELAY_S)
    cluster.lose_bookie("b2", cookie=True)
    yield cluster
    cluster.start_bookie("b2")
    cluster.set_lost_bookie_recovery_delay(0)


def on_bookies(outcome: Outcome) -> list[Kind]:
    return [Kind(found["kind"]) for found in outcome.findings if found["bookie_id"] is not None]


def flat(outcome: Outcome) -> str:
    return " ".join(outcome.stdout.split())


def test_a_silent_bookie_in_maintenance_is_no_page(silent: SandboxCluster, tmp_path: Path):
    """Its ledgers stay unknown and are counted; what other bookies prove is found."""
    known, unknown = (
        accounted(audit(silent, tmp_path, **more)) for more in ({"maintenance": "b2"}, {})
    )
    assert ([], [Kind.BOOKIE_SILENT_YET_REGISTERED]) == (on_bookies(known), on_bookies(unknown))
    for outcome in (known, unknown):
        assert ["indeterminate: bookie_silent"] * 3 + ["sound", "violated"] == outcome.standings(
            *ON_B2, BESIDE, LOST_BESIDE
        )
        assert [Kind.ENTRY_BELOW_WRITE_QUORUM.value] == [
            found["kind"] for found in outcome.of(LOST_BESIDE)
        ]
        assert [Kind.ENTRY_BELOW_ACK_QUORUM.value] == [
            found["kind"] for found in outcome.of(LOST_ON_BOTH)
        ]
    assert {"bookies": [{"bookie_id": "b2", "found": "silent"}], "ledgers": 3} == known.summary[
        "maintenance"
    ]
    assert {"bookies": [], "ledgers": 0} == unknown.summary["maintenance"]
    assert (
        "In planned maintenance: b2 registered and silent. 3 ledgers could not be judged for no"
        " other reason." in flat(known)
    )
    assert known.run_dir is not None and known.summary["indeterminate"]["bookie_silent"] >= 3
    gauges = [
        line
        for line in (known.run_dir / "metrics.prom").read_text().splitlines()
        if "maintenance_ledgers{" in line
    ]
    assert ["3.0"] == [line.rsplit(" ", 1)[1] for line in gauges]


def test_unknown_is_not_rounded_to_well_for_it(silent: SandboxCluster, tmp_path: Path):
    """Without findings the exit code is 3: some ledgers could not be judged, for whatever
    reason.
    """
    outcome = accounted(audit(silent, tmp_path, ledger_ids=[*ON_B2, BESIDE], maintenance="b2"))
    assert ("INCOMPLETE", 3, []) == (
        outcome.summary["outcome"],
        outcome.exit_code,
        outcome.findings,
    )


def test_nobody_waits_for_a_bookie_in_maintenance(gone: SandboxCluster, tmp_path: Path):
    """It may be restarting, which is known: there is no second look at its ledgers, and no sentence
    on looks too close together.
    """
    known = accounted(audit(gone, tmp_path, ledger_ids=ON_B2, maintenance="b2"))
    unknown = accounted(audit(gone, tmp_path, ledger_ids=ON_B2))
    assert ([], [DELAY_S + SESSION_AND_MARGIN_S]) == (known.pauses_s, unknown.pauses_s)
    assert ([], 1) == (known.summary["withheld"], len(unknown.summary["withheld"]))
    assert {
        "bookies": [{"bookie_id": "b2", "found": "not_registered"}],
        "ledgers": 3,
    } == known.summary["maintenance"]
    assert (
        "listledgers -bookieid" not in known.stdout and "listledgers -bookieid b2" in unknown.stdout
    )
    for outcome in (known, unknown):
        assert (1, ["b2"]) == (outcome.summary["bookies"]["away"], outcome.summary["bookies_away"])
        assert "1 with a cookie and no registration (b2)" in flat(outcome)


def test_a_silent_bookie_in_maintenance_makes_no_second_look(
    silent: SandboxCluster, tmp_path: Path
):
    """Its silence needs a confirmation only if it would be reported."""
    known = accounted(audit(silent, tmp_path, ledger_ids=[BESIDE], maintenance="b2"))
    unknown = accounted(audit(silent, tmp_path, ledger_ids=[BESIDE]))
    assert ([], [0.0]) == (known.pauses_s, unknown.pauses_s)
    assert ([], 0) == (known.findings, known.exit_code)
    assert [{"bookie_id": "b2", "found": "silent"}] == known.summary["maintenance"]["bookies"]


def test_a_bookie_that_is_back_and_a_name_that_none_has_are_said(
    cluster: SandboxCluster, tmp_path: Path
):
    """Operators forget to take a bookie out of maintenance, and mistype ids."""
    outcome = accounted(audit(cluster, tmp_path, ledger_ids=[BESIDE], maintenance="b2,b9"))
    bookies = {one["bookie_id"]: one["found"] for one in outcome.summary["maintenance"]["bookies"]}
    assert {"b2": "answered", "b9": "no_such_bookie"} == bookies
    assert "b2 answers: take what is back out of --maintenance." in flat(outcome)
    assert "no bookie of this cluster is named b9" in flat(outcome)


def test_single_ledgers_know_of_maintenance(silent: SandboxCluster):
    """`auditor ledger` gives the reason, and names the bookie in maintenance."""
    outcome = audit_ledgers(silent, [1, BESIDE], maintenance="b2")
    assert [True, False] == [
        outcome.verdicts[one].report["only_maintenance"] for one in (1, BESIDE)
    ]
    assert {"bookies": [{"bookie_id": "b2", "found": "silent"}], "ledgers": 1} == outcome.summary[
        "maintenance"
    ]
    said = flat(audit_ledgers(silent, [1], maintenance="b2", format="text"))
    assert "only bookies in planned maintenance prevented judging it" in said
    assert "In planned maintenance: b2 registered and silent. 1 ledger could not" in said

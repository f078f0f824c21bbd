"""The step of a run's sweep: fixed before anything is judged, and the same when the run is
resumed.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from auditor.evidence.ids import EVERYTHING, Shard
from auditor.evidence.rows import ledger_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import LEDGERS
from auditor.first_checker.circle import Arc
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Sweep, Terms
from auditor.model.ledger import LedgerRecord, RecordStatus
from auditor.run.judging_rounds import SweepPlanner
from auditor.sandbox.cluster import ledger
from auditor.summary.about import About

FACTS = ClusterFacts("zk://h/ledgers", ("h:1",), "/ledgers", "hierarchical", "id", False, None)
TERMS = Terms(0, 0, 16, 5, probe_entries=3, sweep=Sweep(5, 2, budget=1_000))
ABOUT = About("r", "2026-03-01T02:00:00Z", FACTS, TERMS, "warning", False)


@pytest.fixture
def run(tmp_path: Path) -> Place:
    """Return a run with ledgers 1 to 20, each with 1,000 entries on both b1 and b2."""
    made = place(str(tmp_path / "run"))
    metadata = ledger("e2 w2 a2 0:[b1 b2] closed 999")
    records = [LedgerRecord(n, 1, 0, RecordStatus.FOUND, metadata=metadata) for n in range(1, 21)]
    made.write_table("evidence/ledgers", table(LEDGERS, list(map(ledger_row, records))), "all")
    return made


def test_the_step_follows_from_what_was_read(run: Place):
    """20,000 entries on each bookie and a budget of 1,000 reads give a step of 32. run.json keeps
    the step for a replay.
    """
    planner = SweepPlanner(run, ABOUT)
    terms = planner.terms_by(EVERYTHING, 1)
    assert replace(TERMS, sweep=Sweep(5, 2, 1_000, 32)) == terms
    written = About.from_json(json.loads(run.read_text("run.json") or ""))
    assert (terms, terms) == (written.terms, planner.about.terms)
    assert terms == SweepPlanner(run, written).terms_by(EVERYTHING, 1), (
        "a resumed run derives the same"
    )


@pytest.mark.parametrize(
    "terms", [replace(TERMS, probe_entries=0), replace(TERMS, sweep=Sweep(5, 2, budget=0))]
)
def test_without_probes_or_a_budget_nothing_is_swept(run: Place, terms: Terms):
    """The terms stay as they are, and run.json is not written."""
    assert terms == SweepPlanner(run, replace(ABOUT, terms=terms)).terms_by(EVERYTHING, 1)
    assert run.read_text("run.json") is None


@pytest.mark.parametrize(
    ("step", "copies_before", "partial"),
    [(64, 0.0, False), (64, 100.0, False), (256, 160_000.0, False), (64, 9e9, True)],
)
def test_the_first_of_many_shards_stands_for_the_others(
    run: Place, step: int, copies_before: float, partial: bool
):
    """The copies that the last run counted are used where they are more, unless this run is over
    named ledgers. A run of one shard needs no estimate.
    """
    terms = replace(TERMS, sweep=Sweep(5, 2, 1_000, copies_before=copies_before))
    about = replace(ABOUT, terms=terms, partial=partial)
    assert step == SweepPlanner(run, about).terms_by(Shard(0, 0, 10), 4).sweep.step
    assert 32 == SweepPlanner(run, about).terms_by(EVERYTHING, 1).sweep.step


def test_what_is_read_of_carried_ledgers_is_read_of_those_that_are_due(run: Place):
    """The arc counts only if it was read of both. A bookie without carried ledgers has its own."""
    terms = replace(TERMS, spot_reads=50)
    alone = SweepPlanner(run, replace(ABOUT, terms=terms))
    alone.terms_by(EVERYTHING, 1)
    planner = SweepPlanner(run, replace(ABOUT, terms=terms, within_ms=1), {"b1": Arc(64, 64)})
    planner.terms_by(EVERYTHING, 1)
    own = alone.about.reading.arcs
    assert own.keys() == {"b1", "b2"} and own["b1"] != Arc(64, 64)
    assert {"b1": Arc(64, 64), "b2": own["b2"]} == planner.about.reading.arcs

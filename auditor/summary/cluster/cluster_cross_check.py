"""Compares the findings on the cluster with those of the second checker: on marks without a ledger,
and on the number of ledgers.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LISTING, LISTINGS, MARKS
from auditor.evidence.table_scan import iterate_rows
from auditor.model.facts import Facts
from auditor.model.finding import Finding, Kind
from auditor.second_checker.cluster import (
    Earlier,
    MarkSeen,
    marks_without_ledger,
    population_dropped,
)
from auditor.second_checker.finding_comparison import Agreed, agree_on
from auditor.summary.about import About
from auditor.summary.cluster.listings import WHERE as LISTED_AT

Row = dict[str, Any]


def marks_agreed(run: Place, about: About, finding: Finding | None) -> Agreed:
    """Return the finding on marks without a ledger if the second checker confirms it, or where it
    differs."""
    rows = iterate_rows(run.read_table("evidence/marks", MARKS, pc.is_valid(pc.field("ledger_id"))))
    seen = (
        MarkSeen(one["ledger_id"], one["look"], one["read_at_ms"], _times(one), one["has_metadata"])
        for one in rows
    )
    facts = marks_without_ledger(seen, about.terms, about.facts)
    return _agree_on_cluster(Kind.MARK_WITHOUT_LEDGER, finding, facts)


def _times(row: Row) -> tuple[int, ...]:
    created, changed = row["created_ms"], row["changed_ms"]
    return () if created is None else (created,) if changed is None else (created, changed)


def population_agreed(run: Place, about: About, finding: Finding | None) -> Agreed:
    """Return the finding on the number of ledgers if the second checker confirms it, or where it
    differs."""
    return _agree_on_cluster(Kind.LEDGER_POPULATION_DROPPED, finding, _population_facts(run, about))


def _population_facts(run: Place, about: About) -> Facts | None:
    last = about.previous_population
    if last is None:
        return None
    rows = {
        row["listing"]: row for row in run.read_table("evidence/listings", LISTINGS).to_pylist()
    }
    listed = {
        one: sum(batch.num_rows for batch in run.stream(LISTED_AT[one], LISTING, ["ledger_id"]))
        for one in rows
    }
    before = Earlier(last.run_id, last.finished_at, last.listed, last.drop_percent, last.low_runs)
    began_ms = {one: row["began_at_ms"] for one, row in rows.items()}
    gone = set(rows[max(rows)]["gone"]) if rows else set()
    if gone:
        still = pc.field("ledger_id").isin(pa.array(sorted(gone)))
        gone -= set(run.read_table(LISTED_AT[max(rows)], LISTING, still)["ledger_id"].to_pylist())
    return population_dropped(before, began_ms, listed, gone, about.facts.instance_id)


def _agree_on_cluster(kind: Kind, finding: Finding | None, facts: Facts | None) -> Agreed:
    """Compare the one finding on the cluster of a kind with the second checker's facts; None: it
    makes none.
    """
    return agree_on([finding] if finding else [], {} if facts is None else {(kind, None): facts})

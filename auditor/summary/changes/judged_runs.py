"""Gathers what a run knows of the subjects of another run's findings, to compare the two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from auditor.evidence.table_scan import TableScan
from auditor.model.availability import LISTED_BY_LISTER, Greeting
from auditor.model.cluster import BookieRecord
from auditor.model.identity import LedgerId
from auditor.summary.about import About
from auditor.summary.changes.rechecks import Judged, Row

HEARD = (Greeting.ANSWERED, Greeting.UNSUPPORTED)
"""The greetings of bookies that answer."""


def judged_run(
    about: About,
    summary: Mapping[str, Any],
    verdicts: TableScan,
    records: Iterable[BookieRecord],
    ledgers: Sequence[LedgerId],
) -> Judged:
    """Return what a run knows of these ledgers, of its bookies, and of the cluster.

    Raises OutputError if the verdicts cannot be read.
    """
    references = summary.get("references") or {}
    last = {record.bookie_id: record for record in sorted(records, key=lambda record: record.look)}
    baseline = about.previous_population
    return Judged(
        is_partial=about.partial,
        withholds=bool(summary["withheld"]),
        are_references_known=bool(references)
        and not references["unreadable"]
        and not references["unknown"],
        rows=_rows(verdicts, sorted(set(ledgers))),
        bookies={one.bookie_id: (one.registration, one.greeting in HEARD) for one in last.values()},
        listers=frozenset(
            one.bookie_id
            for one in last.values()
            if one.greeting_detail.startswith(LISTED_BY_LISTER)
        ),
        maintenance=about.terms.around.maintenance,
        terms=terms_json(about),
        baseline=None if baseline is None else baseline.run_id,
    )


def terms_json(about: About) -> dict[str, Any]:
    """Return the terms of judgement as JSON, with the bookies in maintenance."""
    terms = about.as_json()["terms"]
    return {**terms, "maintenance": terms["around"]["maintenance"]}


def _rows(verdicts: TableScan, ledgers: Sequence[LedgerId]) -> dict[LedgerId, Row]:
    rows: dict[LedgerId, Row] = {}
    columns = ["ledger_id", "exempt", "unknowns", "assurance"]
    for table in verdicts.tables_of_ledgers(ledgers, columns):
        rows |= {
            row["ledger_id"]: Row(row["exempt"], tuple(row["unknowns"]), row["assurance"])
            for row in table.to_pylist()
        }
    return rows

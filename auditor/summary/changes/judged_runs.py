"""Load this run's state of the ledgers and bookies in another run's findings, to compare the
two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from auditor.evidence.run_directory import Place
from auditor.evidence.table_scan import TableScan
from auditor.model.availability import LISTED_BY_LISTER, Greeting
from auditor.model.cluster import BookieRecord
from auditor.model.finding import Kind
from auditor.model.identity import LedgerId
from auditor.model.summary import Summary
from auditor.summary.about import About
from auditor.summary.changes.asked_again import ledgers_reread, why_content_unknown
from auditor.summary.changes.compared_finding import ComparedFinding
from auditor.summary.changes.rechecks import POPULATION_DROP, Judged, Row

HEARD = (Greeting.ANSWERED, Greeting.UNSUPPORTED)
"""The greetings of bookies that answer."""


def judged_run(
    run: Place | None,
    about: About,
    summary: Summary,
    verdicts: TableScan,
    records: Iterable[BookieRecord],
    others: Sequence[ComparedFinding],
) -> Judged:
    """Return what a run knows of its bookies, its cluster and the subjects of `others`.

    `others` are the findings of the other run. `run` is None for the earlier of two runs: then it
    is not looked up what was checked again. Raises OutputError if the verdicts or the evidence
    cannot be read.
    """
    references = summary.references
    ledgers = {one.ledger_id for one in others if one.ledger_id is not None}
    corrupt = [one for one in others if one.kind is Kind.ENTRY_CORRUPT]
    emptied = {
        one.bookie_id
        for one in others
        if one.kind is Kind.BOOKIE_LOST_CONTENT and one.bookie_id is not None
    }
    last = {record.bookie_id: record for record in sorted(records, key=lambda record: record.look)}
    baseline = about.previous_population
    return Judged(
        is_partial=about.partial,
        withholds=bool(summary.withheld),
        are_references_known=references is not None
        and not references.unreadable
        and not references.unknown,
        rows=_rows(verdicts, sorted(ledgers)),
        bookies={one.bookie_id: (one.registration, one.greeting in HEARD) for one in last.values()},
        listers=frozenset(
            one.bookie_id
            for one in last.values()
            if one.greeting_detail.startswith(LISTED_BY_LISTER)
        ),
        maintenance=about.terms.around.maintenance,
        terms=terms_json(about),
        baseline=None if baseline is None else baseline.run_id,
        nobody_answered=summary.has_no_answer,
        reread=ledgers_reread(run, corrupt) if run else frozenset(),
        content_unknown=why_content_unknown(run, verdicts, last.values(), emptied) if run else {},
    )


def terms_json(about: About) -> dict[str, Any]:
    """Return the terms of judgement as JSON, with the bookies in maintenance and the drop of the
    number of ledgers that is allowed.
    """
    terms, baseline = about.as_json()["terms"], about.previous_population
    drop = None if baseline is None else baseline.drop_percent
    return {**terms, "maintenance": terms["around"]["maintenance"], POPULATION_DROP: drop}


def _rows(verdicts: TableScan, ledgers: Sequence[LedgerId]) -> dict[LedgerId, Row]:
    rows: dict[LedgerId, Row] = {}
    columns = ["ledger_id", "exempt", "unknowns", "assurance"]
    for table in verdicts.tables_of_ledgers(ledgers, columns):
        rows |= {
            row["ledger_id"]: Row(row["exempt"], tuple(row["unknowns"]), row["assurance"])
            for row in table.to_pylist()
        }
    return rows

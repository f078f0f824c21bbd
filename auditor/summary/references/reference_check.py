"""Compare the findings on references with those of the second checker, which reads the rows
itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LEDGERS, REFERENCES
from auditor.evidence.table_scan import iterate_rows
from auditor.model.facts import Facts
from auditor.model.finding import Finding, Kind
from auditor.model.identity import LedgerId
from auditor.model.reference_facts import MissingLedgerFacts
from auditor.second_checker.finding_comparison import Agreed, Subject, agree_on
from auditor.second_checker.orphans import Topics, UnreferencedLedger, orphaned_facts
from auditor.second_checker.references import AGAIN, FIRST, TopicRow, reference_facts
from auditor.summary.about import About
from auditor.summary.references.second_reference_rows import (
    LEDGER_COLUMNS,
    LISTED,
    TOPIC_COLUMNS,
    TOPIC_ROWS,
    Looks,
    ledger_look,
    ledger_looks,
    ledgers_with_two_looks,
    rows_by_topic,
    topic_row,
)


def references_agreed(run: Place, findings: list[Finding]) -> Agreed:
    """Return the findings on referenced ledgers that the second checker confirms, and where it
    differs.
    """
    seconds: dict[Subject, Facts] = {}
    looks = ledgers_with_two_looks(run)
    mine = pc.field("ledger_id").isin(sorted(looks))
    naming: dict[LedgerId, set[str]] = {}
    for row in iterate_rows(run.read_table(TOPIC_ROWS, REFERENCES, mine, ["topic", "ledger_id"])):
        naming.setdefault(row["ledger_id"], set()).add(row["topic"])
    by_topic = rows_by_topic(run, {topic for topics in naming.values() for topic in topics})
    for ledger, topics in naming.items():
        rows = (row for topic in topics for row in by_topic[topic].about(ledger))
        facts = reference_facts(ledger, rows, looks[ledger])
        if facts is not None:
            is_missing = isinstance(facts, MissingLedgerFacts)
            seconds[
                Kind.REFERENCED_LEDGER_MISSING if is_missing else Kind.LEDGER_TRUNCATED, ledger
            ] = facts
    return agree_on(findings, seconds)


def orphans_agreed(run: Place, about: About, finding: Finding | None) -> Agreed:
    """Return the finding on orphans if the second checker confirms it, or where it differs.

    Costs a scan of the references and of the custom metadata of all ledgers.
    """
    terms = about.terms
    seconds: dict[Subject, Facts] = {}
    facts = orphaned_facts(
        _lonely_ledgers(run),
        _topics(run),
        _rows_again(run),
        terms.judged_at_ms,
        terms.orphan_age_ms,
    )
    if facts is not None:
        seconds[Kind.LEDGER_ORPHANED, None] = facts
    return agree_on([finding] if finding else [], seconds)


def _lonely_ledgers(run: Place) -> Iterator[UnreferencedLedger]:
    """Yield the ledgers with custom metadata that no row of the first look names."""
    again = ledger_looks(run)
    named = pa.concat_arrays(
        [
            pa.array([], pa.int64()),
            *(_first(batch)["ledger_id"] for batch in run.stream(TOPIC_ROWS, REFERENCES, _NAMING)),
        ]
    )
    for batch in run.stream(LISTED, LEDGERS, LEDGER_COLUMNS):
        batch = _first(batch)
        lonely = batch.filter(pc.invert(pc.is_in(batch["ledger_id"], named)))
        for row in lonely.filter(pc.is_valid(lonely["custom_metadata"])).to_pylist():
            ledger = row["ledger_id"]
            yield UnreferencedLedger(
                ledger, {FIRST: ledger_look(row)} | _only_again(again.get(ledger, {}))
            )


_NAMING = ["ledger_id", "look"]


def _first(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pc.equal(batch["look"], FIRST))


def _only_again(looks: Looks) -> Looks:
    return {look: seen for look, seen in looks.items() if look == AGAIN}


def _topics(run: Place) -> Topics:
    """Return which namespaces have topics at the first look, which have a problem at any look, and
    which partitions have no znode.
    """
    read: set[str] = set()
    unread: set[str | None] = set()
    columns = ["namespace", "row", "look", "status"]
    lone: set[str] = set()
    rows = run.read_table(TOPIC_ROWS, REFERENCES, None, columns)
    for row in iterate_rows(rows.group_by(columns).aggregate([])):
        if row["row"] == "problem":
            unread.add(row["namespace"])
        elif row["row"] == "topic" and row["look"] == FIRST and row["status"] != "missing":
            read.add(row["namespace"])
    alone = pc.field("row") == "partition"
    for row in iterate_rows(run.read_table(TOPIC_ROWS, REFERENCES, alone, ["namespace", "topic"])):
        if row["topic"] is None:
            unread.add(row["namespace"])
        else:
            lone.add(row["topic"])
    return Topics(
        frozenset(read),
        frozenset(one for one in unread if one is not None),
        None not in unread,
        frozenset(lone),
    )


def _rows_again(run: Place) -> dict[str, list[TopicRow]]:
    """Return the rows of the second look, by topic."""
    found: dict[str, list[TopicRow]] = {}
    for row in iterate_rows(
        run.read_table(TOPIC_ROWS, REFERENCES, pc.field("look") == AGAIN, TOPIC_COLUMNS)
    ):
        found.setdefault(row["topic"], []).append(topic_row(row))
    return found

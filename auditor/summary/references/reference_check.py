"""Compare the findings on references with those of the second checker, which reads the rows
itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

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
from auditor.second_checker.references import AGAIN, FIRST, LedgerLook, TopicRow, reference_facts
from auditor.summary.about import About

Row = dict[str, Any]
_REFERENCES, _LEDGERS, _LISTED = (
    "evidence/references",
    "evidence/referenced_ledgers",
    "evidence/ledgers",
)
_TOPIC_COLUMNS = [
    *("topic", "look", "row", "status", "name", "ledger_id", "entries", "size_bytes"),
    *("offloaded", "bookkeeper_deleted", "position"),
]
_LEDGER_COLUMNS = [
    *(
        "ledger_id",
        "look",
        "read_at_ms",
        "status",
        "state",
        "last_entry_id",
        "length_bytes",
        "czxid",
    ),
    *("metadata_ctime_ms", "znode_ctime_ms", "custom_metadata"),
]
Looks = dict[int, LedgerLook]


def references_agreed(run: Place, findings: list[Finding]) -> Agreed:
    """Return the findings on referenced ledgers that the second checker confirms, and where it
    differs.
    """
    seconds: dict[Subject, Facts] = {}
    looks = _ledgers_with_two_looks(run)
    mine = pc.field("ledger_id").isin(sorted(looks))
    naming: dict[LedgerId, set[str]] = {}
    for row in iterate_rows(run.read_table(_REFERENCES, REFERENCES, mine, ["topic", "ledger_id"])):
        naming.setdefault(row["ledger_id"], set()).add(row["topic"])
    by_topic = _rows_by_topic(run, {topic for topics in naming.values() for topic in topics})
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
    again = _ledger_looks(run)
    named = pa.concat_arrays(
        [
            pa.array([], pa.int64()),
            *(_first(batch)["ledger_id"] for batch in run.stream(_REFERENCES, REFERENCES, _NAMING)),
        ]
    )
    for batch in run.stream(_LISTED, LEDGERS, _LEDGER_COLUMNS):
        batch = _first(batch)
        lonely = batch.filter(pc.invert(pc.is_in(batch["ledger_id"], named)))
        for row in lonely.filter(pc.is_valid(lonely["custom_metadata"])).to_pylist():
            ledger = row["ledger_id"]
            yield UnreferencedLedger(
                ledger, {FIRST: _ledger_look(row)} | _only_again(again.get(ledger, {}))
            )


_NAMING = ["ledger_id", "look"]


def _first(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pc.equal(batch["look"], FIRST))


def _only_again(looks: Looks) -> Looks:
    return {look: seen for look, seen in looks.items() if look == AGAIN}


def _topics(run: Place) -> Topics:
    """Return which namespaces have topics at the first look, and which have a problem at any
    look.
    """
    read: set[str] = set()
    unread: set[str | None] = set()
    rows = run.read_table(_REFERENCES, REFERENCES, None, ["namespace", "row", "look"])
    for row in iterate_rows(rows.group_by(["namespace", "row", "look"]).aggregate([])):
        if row["row"] == "problem":
            unread.add(row["namespace"])
        elif row["row"] == "topic" and row["look"] == FIRST:
            read.add(row["namespace"])
    return Topics(
        frozenset(read), frozenset(one for one in unread if one is not None), None not in unread
    )


def _rows_again(run: Place) -> dict[str, list[TopicRow]]:
    """Return the rows of the second look, by topic."""
    found: dict[str, list[TopicRow]] = {}
    for row in iterate_rows(
        run.read_table(_REFERENCES, REFERENCES, pc.field("look") == AGAIN, _TOPIC_COLUMNS)
    ):
        found.setdefault(row["topic"], []).append(_topic_row(row))
    return found


@dataclass(slots=True)
class _RowsOfTopic:
    """The rows of a topic: those on the topic as a whole, by ledger, and its newest ledger by
    look.
    """

    whole: list[TopicRow] = field(default_factory=list)
    of_ledger: dict[LedgerId, list[TopicRow]] = field(default_factory=dict)
    newest: dict[int, TopicRow] = field(default_factory=dict)

    def add(self, row: TopicRow) -> None:
        if row.ledger_id is not None:
            self.of_ledger.setdefault(row.ledger_id, []).append(row)
        if row.row == "data":
            newest = self.newest.get(row.look, row)
            self.newest[row.look] = max(row, newest, key=attrgetter("ledger_id"))
        else:
            self.whole.append(row)

    def about(self, ledger: LedgerId) -> set[TopicRow]:
        """Return all rows that matter for what the topic needs of a ledger that it names."""
        return {*self.whole, *self.of_ledger[ledger], *self.newest.values()}


def _rows_by_topic(run: Place, topics: set[str]) -> dict[str, _RowsOfTopic]:
    found = {topic: _RowsOfTopic() for topic in topics}
    mine = pc.field("topic").isin(pa.array(sorted(topics), pa.string()))
    for row in iterate_rows(run.read_table(_REFERENCES, REFERENCES, mine, _TOPIC_COLUMNS)):
        found[row["topic"]].add(_topic_row(row))
    return found


def _topic_row(row: Row) -> TopicRow:
    at = row["position"]
    return TopicRow(
        **{**row, "position": None if at is None else (at["ledger_id"], at["entry_id"])}
    )


def _ledger_looks(run: Place) -> dict[LedgerId, Looks]:
    """Return the ledgers that were read for their references, at whichever look."""
    found: dict[LedgerId, Looks] = {}
    for row in iterate_rows(_table(run, _LEDGERS)):
        found.setdefault(row["ledger_id"], {})[row["look"]] = _ledger_look(row)
    return found


def _ledgers_with_two_looks(run: Place) -> dict[LedgerId, Looks]:
    """Return the ledgers that were read at both looks; the first may be that of the run."""
    found = _ledger_looks(run)
    late = [ledger for ledger, looks in found.items() if FIRST not in looks]
    mine = (pc.field("look") == FIRST) & pc.field("ledger_id").isin(late)
    for row in iterate_rows(run.read_table(_LISTED, LEDGERS, mine, _LEDGER_COLUMNS)):
        found[row["ledger_id"]][FIRST] = _ledger_look(row)
    return {ledger: looks for ledger, looks in found.items() if looks.keys() == {FIRST, AGAIN}}


def _table(run: Place, name: str) -> pa.Table:
    if not run.has_table(name):
        return LEDGERS.empty_table().select(_LEDGER_COLUMNS)
    return run.read_table(name, LEDGERS, None, _LEDGER_COLUMNS)


def _ledger_look(row: Row) -> LedgerLook:
    created = (
        row["metadata_ctime_ms"] if row["metadata_ctime_ms"] is not None else row["znode_ctime_ms"]
    )
    return LedgerLook(
        row["read_at_ms"],
        row["status"],
        row["state"],
        row["last_entry_id"],
        row["length_bytes"],
        row["czxid"],
        created,
        {one["key"]: one["value"] for one in row["custom_metadata"] or ()},
    )

"""Reads what the second checker needs of the written references: rows of topics, and the looks at
ledgers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LEDGERS, REFERENCES
from auditor.evidence.table_scan import iterate_rows
from auditor.model.identity import LedgerId
from auditor.second_checker.references import AGAIN, FIRST, LedgerLook, TopicRow

Row = dict[str, Any]
READ_FOR_REFERENCES, LISTED = "evidence/referenced_ledgers", "evidence/ledgers"
TOPIC_ROWS = "evidence/references"
TOPIC_COLUMNS = [
    *("topic", "look", "row", "status", "name", "ledger_id", "entries", "size_bytes"),
    *("offloaded", "bookkeeper_deleted", "position"),
]
LEDGER_COLUMNS = [
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


@dataclass(slots=True)
class RowsOfTopic:
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


def rows_by_topic(run: Place, topics: set[str]) -> dict[str, RowsOfTopic]:
    """Return the rows of these topics at both looks, of what was read of them."""
    found = {topic: RowsOfTopic() for topic in topics}
    mine = pc.field("topic").isin(pa.array(sorted(topics), pa.string()))
    mine &= pc.field("row") != "partition"
    for row in iterate_rows(run.read_table(TOPIC_ROWS, REFERENCES, mine, TOPIC_COLUMNS)):
        found[row["topic"]].add(topic_row(row))
    return found


def topic_row(row: Row) -> TopicRow:
    """Return a row of TOPIC_COLUMNS as a value."""
    at = row["position"]
    return TopicRow(
        **{**row, "position": None if at is None else (at["ledger_id"], at["entry_id"])}
    )


def ledger_looks(run: Place, among: ds.Expression | None = None) -> dict[LedgerId, Looks]:
    """Return the ledgers that were read for their references, at whichever look.

    `among` is a filter; None: all of them.
    """
    found: dict[LedgerId, Looks] = {}
    for row in iterate_rows(_table(run, READ_FOR_REFERENCES, among)):
        found.setdefault(row["ledger_id"], {})[row["look"]] = ledger_look(row)
    return found


def ledgers_with_two_looks(run: Place) -> dict[LedgerId, Looks]:
    """Return the ledgers that were read at both looks; the first may be that of the run."""
    found = ledger_looks(run)
    late = [ledger for ledger, looks in found.items() if FIRST not in looks]
    mine = (pc.field("look") == FIRST) & pc.field("ledger_id").isin(late)
    for row in iterate_rows(run.read_table(LISTED, LEDGERS, mine, LEDGER_COLUMNS)):
        found[row["ledger_id"]][FIRST] = ledger_look(row)
    return {ledger: looks for ledger, looks in found.items() if looks.keys() == {FIRST, AGAIN}}


def _table(run: Place, name: str, keep: ds.Expression | None) -> pa.Table:
    if not run.has_table(name):
        return LEDGERS.empty_table().select(LEDGER_COLUMNS)
    return run.read_table(name, LEDGERS, keep, LEDGER_COLUMNS)


def ledger_look(row: Row) -> LedgerLook:
    """Return a row of LEDGER_COLUMNS as a value."""
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

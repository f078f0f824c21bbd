"""Ledgers that an earlier run listed and this run did not: whose they were, and what explains it.

What Pulsar's topics referenced then and reference now is all that is known: a topic whose list
begins behind its ledgers now, or that was deleted, explains that they are gone. Of other ledgers
nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import Ids, last_of_each, missing_numbers
from auditor.evidence.portions import LedgerTable, id_ranges
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import GONE_LEDGERS, LISTING, REFERENCES
from auditor.evidence.table_scan import TableScan
from auditor.findings.dropped_ledgers import dropped_ids, may_miss_topics
from auditor.findings.reference_tables import AT_FIRST, WHERE, were_references_read
from auditor.model.summary import GoneInNamespace
from auditor.model.topic import TopicStatus
from auditor.pulsar.reference_rows import RowOf

GONE_AT, GONE_FILE = "evidence/gone_ledgers", "gone/unexplained.txt"
NAMESPACES_MAX = 20
"""At most this many namespaces are named, those that lost the most ledgers."""
_NONE: Ids = np.empty(0, np.int64)


class Gone(StrEnum):
    """What explains that a ledger is not listed any more."""

    TRIMMED = "trimmed"
    """Its topic's list begins behind it now, or is empty: the broker trimmed it, or the topic was
    deleted and created again."""
    REPLACED = "replaced"
    """Its topic does not name it any more: a cursor's ledger that was replaced, a schema that was
    deleted, an empty ledger that was dropped at the end of the list."""
    TOPIC_DELETED = "topic_deleted"
    """Its topic does not exist any more."""
    OFFLOADED = "offloaded"
    """Its topic deleted it from BookKeeper, and has a copy in long-term storage."""
    REFERENCED = "referenced"
    """A topic still references it: see REFERENCED_LEDGER_MISSING."""
    DROPPED = "dropped"
    """It is gone from the middle or the end of its topic's list."""
    UNEXPLAINED = "unexplained"
    """No topic that was read referenced it then, its topic may not have been read now, or it had
    entries and is gone from the end of its topic's list."""


_UNEXPLAINED = (Gone.DROPPED.value, Gone.UNEXPLAINED.value)


def compare_listings(earlier: Place, run: Place) -> pa.Table:
    """Return the GONE_LEDGERS rows of the ledgers that only the earlier run listed, ascending.

    Costs scans of both listings, and of the references of both runs. Raises OutputError.
    """
    gone = _gone_ids(*(one.scan("evidence/listing", LISTING) for one in (earlier, run)))
    rows = pa.table({"ledger_id": pa.array(gone, pa.int64())})
    if not len(gone) or not (were_references_read(earlier) and were_references_read(run)):
        return _with_reasons(rows, None)
    used = _first_uses(earlier, gone)
    mine = pc.field("topic").isin(used["topic"].unique())
    used = used.join(_statuses(run, mine), "topic", join_type="left outer")
    used = used.join(_list_begins(run, mine), "topic", join_type="left outer")
    for name, keep in (("is_offloaded", _IS_DELETED), ("is_referenced", ~_IS_DELETED)):
        still = pa.array(_referenced(run, gone, keep))
        used = used.append_column(name, pc.is_in(used["ledger_id"], still))
    dropped = pa.array(dropped_ids(run))
    used = used.append_column("is_dropped", pc.is_in(used["ledger_id"], dropped))
    rows = rows.join(used, "ledger_id", join_type="left outer")
    return _with_reasons(rows, used, may_miss=may_miss_topics(run))


COMPARED_AT_ONCE = 1_000_000
"""Ledgers of each run whose ids are in memory at a time: some 60 MB with their copies."""


def _gone_ids(then: TableScan, now: TableScan) -> Ids:
    """Return the ledgers that only the earlier listing has, ascending."""
    tables = [LedgerTable.of(then), LedgerTable.of(now)]
    gone = [
        missing_numbers(
            *(one.table(["ledger_id"], shard)["ledger_id"].to_numpy() for one in tables)
        )
        for shard in id_ranges(then, COMPARED_AT_ONCE)
    ]
    return np.concatenate(gone)


def _first_uses(run: Place, ids: Ids) -> pa.Table:
    """Return one reference of each of these ledgers that topics referenced at the first look."""
    mine = AT_FIRST & pc.field("ledger_id").isin(pa.array(ids))
    columns = ["ledger_id", "namespace", "topic", "row", "entries"]
    rows = run.read_table(WHERE, REFERENCES, mine, columns)
    rows = rows.sort_by([("ledger_id", "ascending"), ("topic", "descending")])
    return rows.filter(pa.array(last_of_each(rows["ledger_id"].to_numpy())))


_IS_DELETED = pc.field("bookkeeper_deleted").isin([True])


def _referenced(run: Place, ids: Ids, keep: pc.Expression) -> Ids:
    mine = AT_FIRST & pc.field("ledger_id").isin(pa.array(ids)) & keep
    found: Ids = run.read_table(WHERE, REFERENCES, mine, ["ledger_id"])["ledger_id"].to_numpy()
    return found.astype(np.int64)


def _statuses(run: Place, mine: pc.Expression) -> pa.Table:
    keep = AT_FIRST & (pc.field("row") == RowOf.TOPIC.value) & mine
    return run.read_table(WHERE, REFERENCES, keep, ["topic", "status"])


def _list_begins(run: Place, mine: pc.Expression) -> pa.Table:
    """Return the lowest ledger of each of these topics' lists."""
    keep = AT_FIRST & (pc.field("row") == RowOf.DATA.value) & mine
    rows = run.read_table(WHERE, REFERENCES, keep, ["topic", "ledger_id"])
    lowest = rows.group_by("topic").aggregate([("ledger_id", "min")])
    return lowest.rename_columns({"ledger_id_min": "lowest"})


def _with_reasons(rows: pa.Table, used: pa.Table | None, *, may_miss: bool = False) -> pa.Table:
    """Return GONE_LEDGERS rows. `used` is None if no references are known. `may_miss`: not all
    topics could be listed.
    """
    if used is None:
        nothing = pa.nulls(rows.num_rows, pa.string())
        why = pa.array([Gone.UNEXPLAINED.value] * rows.num_rows, pa.string())
        columns: list[Any] = [rows["ledger_id"], nothing, nothing, why]
        return pa.Table.from_arrays(columns, schema=GONE_LEDGERS)
    ids, lowest = rows["ledger_id"], rows["lowest"]
    is_data = pc.equal(rows["row"], RowOf.DATA.value)
    is_trimmed = pc.and_kleene(is_data, pc.or_kleene(pc.is_null(lowest), pc.less(ids, lowest)))
    is_missing = pc.or_kleene(
        pc.is_null(rows["status"]), pc.equal(rows["status"], TopicStatus.MISSING.value)
    )
    is_unread = pc.equal(rows["status"], TopicStatus.UNREADABLE.value)
    if may_miss:
        is_unread = pc.or_kleene(is_unread, pc.is_null(rows["status"]))
    is_full = pc.and_kleene(is_data, pc.greater(rows["entries"], 0))
    cases = {
        Gone.UNEXPLAINED: pc.or_kleene(pc.is_null(rows["topic"]), is_unread),
        Gone.REFERENCED: rows["is_referenced"],
        Gone.OFFLOADED: rows["is_offloaded"],
        Gone.TOPIC_DELETED: is_missing,
        Gone.TRIMMED: is_trimmed,
        Gone.DROPPED: rows["is_dropped"],
    }
    flags = [pc.fill_null(_whole(case), False) for case in (*cases.values(), is_full)]
    words = [pa.scalar(case.value) for case in (*cases, Gone.UNEXPLAINED, Gone.REPLACED)]
    struct = pa.StructArray.from_arrays(flags, names=list(map(str, range(len(flags)))))
    why = pc.case_when(struct, *words)
    columns = [ids, rows["namespace"], rows["topic"], why]
    return pa.Table.from_arrays(columns, schema=GONE_LEDGERS).sort_by("ledger_id")


def _whole(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


@dataclass(frozen=True, slots=True)
class GoneLedgers:
    """The ledgers that are gone, counted by reason and by namespace.

    `unexplained` are those that nothing explains, ascending.
    """

    by_reason: Mapping[str, int] = field(default_factory=dict)
    namespaces: tuple[GoneInNamespace, ...] = ()
    unexplained: Ids = field(default_factory=lambda: _NONE)


def gone_ledgers(run: Place) -> GoneLedgers:
    """Return what evidence/gone_ledgers shows."""
    if not run.has_table(GONE_AT):
        return GoneLedgers()
    rows = run.read_table(GONE_AT, GONE_LEDGERS)
    counted = {row["values"]: row["counts"] for row in pc.value_counts(rows["why"]).to_pylist()}
    named = pc.value_counts(rows["namespace"].drop_null()).to_pylist()
    named.sort(key=lambda row: (-row["counts"], row["values"]))
    unexplained = rows.filter(pc.is_in(rows["why"], pa.array(_UNEXPLAINED)))["ledger_id"]
    return GoneLedgers(
        {why.value: counted[why.value] for why in Gone if why.value in counted},
        tuple(GoneInNamespace(row["values"], row["counts"]) for row in named[:NAMESPACES_MAX]),
        np.sort(unexplained.to_numpy()),
    )

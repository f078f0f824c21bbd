"""Gather what was seen of each ledger into one row, from tables in memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, LEDGERS, READS, SEEN

TABLES = (("evidence/ledgers", LEDGERS), ("evidence/answers", ANSWERS), ("evidence/reads", READS))
"""Each table that a SEEN row is gathered from, with its schema, in the order of `seen_rows`."""


def read_seen_rows(
    run: Place, keep: pc.Expression, *, with_answers: bool = True
) -> list[pa.RecordBatch]:
    """Return a SEEN row for every ledger of a run whose rows pass the filter `keep`, ascending.

    `with_answers`: include what bookies said; False before any bookie was asked, when those tables
    do not exist. Costs one scan of each table of evidence. Raises OutputError.
    """
    read = TABLES if with_answers else TABLES[:1]
    tables = [run.read_table(name, schema, keep) for name, schema in read]
    return seen_rows(*tables, *(schema.empty_table() for _, schema in TABLES[len(read) :]))


def seen_rows(records: pa.Table, answers: pa.Table, reads: pa.Table) -> list[pa.RecordBatch]:
    """Return a SEEN row for every ledger in `records`, ascending. The rows may come in any order.

    Answers and reads of other ledgers are left out.
    """
    records = records.sort_by([("ledger_id", "ascending"), ("look", "ascending")])
    ids = pc.unique(records["ledger_id"])
    columns = [ids, *(_lists(rows, ids) for rows in (records, _sorted(answers), _sorted(reads)))]
    batches: list[pa.RecordBatch] = pa.Table.from_arrays(columns, schema=SEEN).to_batches()
    return batches


def _sorted(rows: pa.Table) -> pa.Table:
    return rows.sort_by("ledger_id")


def _lists(rows: pa.Table, ids: pa.Array) -> pa.ListArray:
    """Return sorted rows as one list of structs for each id."""
    flat = [column.combine_chunks() for column in rows.columns]
    structs = pa.StructArray.from_arrays(flat, fields=list(rows.schema))
    ledgers = structs.field("ledger_id").to_numpy()
    starts = np.searchsorted(ledgers, ids.to_numpy())
    ends = np.searchsorted(ledgers, ids.to_numpy(), side="right")
    spans = [np.arange(a, b) for a, b in zip(starts, ends, strict=True)]
    values = structs.take(pa.array(np.concatenate([np.empty(0, np.int64), *spans])))
    return pa.ListArray.from_arrays(np.concatenate([[0], np.cumsum(ends - starts)]), values)

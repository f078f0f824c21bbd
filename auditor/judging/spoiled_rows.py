"""Correct VERDICTS rows as `spoiled` corrects verdicts."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from auditor.model.verdict import Exempt, Standing, Unknown

_ORDER = {unknown.value: number for number, unknown in enumerate(Unknown)}


def spoil_rows(rows: pa.RecordBatch, ledger_ids: pa.Array) -> pa.RecordBatch:
    """Return the rows with those of these ledgers corrected as by `spoil_verdict`.

    The mark of such a ledger is not stale: nobody knows whether every copy is there.
    """
    hit = pc.and_(
        pc.is_in(rows["ledger_id"], ledger_ids),
        pc.invert(pc.fill_null(pc.equal(rows["exempt"], Exempt.DELETED.value), False)),
    )
    if not pc.any(hit).as_py():
        return rows
    columns = {name: rows[name] for name in rows.schema.names}
    weaker = pc.is_in(rows["standing"], pa.array([Standing.SOUND.word, Standing.EXEMPT.word]))
    unknown = pa.scalar(Standing.INDETERMINATE.word)
    columns["standing"] = pc.if_else(pc.and_(hit, weaker), unknown, rows["standing"])
    columns["unknowns"] = pa.array(
        [
            (
                sorted({*(reasons or ()), Unknown.ANSWER_INVALID.value}, key=_ORDER.__getitem__)
                if is_hit
                else reasons
            )
            for reasons, is_hit in zip(rows["unknowns"].to_pylist(), hit.to_pylist(), strict=True)
        ]
    )
    for name in ("is_mark_stale", "only_maintenance"):
        columns[name] = pc.if_else(hit, False, rows[name])
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema)

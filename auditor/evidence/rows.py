"""Convert values to rows of the evidence tables, and rows to Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from auditor.model.availability import Answer, EntryRead, Greeting, LanePace
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.ledger import LedgerMetadata, LedgerRecord, Mark

Row = tuple[Any, ...]


def table(schema: pa.Schema, rows: Iterable[Row]) -> pa.RecordBatch:
    """Return rows (values in the schema's order) as one batch. Costs about a microsecond a plain
    value.
    """
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [
        pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def repeat_row(schema: pa.Schema, row: Row, columns: Mapping[str, Sequence[Any]]) -> pa.RecordBatch:
    """Repeat a row, with other cells in the given columns, which have equal lengths.

    Costs little more than the values of these columns.
    """
    count = len(next(iter(columns.values())))
    same = table(schema, [row]).take(pa.array([0] * count, pa.int64()))
    arrays = [
        (
            pa.array(columns[field.name], type=field.type)
            if field.name in columns
            else same[field.name]
        )
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def ledger_row(record: LedgerRecord) -> Row:
    """Return one row of LEDGERS."""
    stamp, metadata, bad, mark = record.stamp, record.metadata, record.malformed, record.mark
    return (
        record.ledger_id,
        record.look,
        record.read_at_ms,
        record.status.value,
        record.detail,
        *((stamp.czxid, stamp.version, stamp.ctime_ms, stamp.mtime_ms) if stamp else (None,) * 4),
        *(_metadata_columns(metadata) if metadata else (None,) * 11),
        None if bad is None else (bad.reason, bad.offset, bad.length, bad.sha256),
        None if mark is None else mark_cells(mark),
    )


def mark_cells(mark: Mark) -> Row:
    """Return a mark as the cells of MARK."""
    lock = None if mark.lock is None else (mark.lock.holder, mark.lock.since_ms)
    return (mark.created_ms, mark.changed_ms, mark.missing_replicas, mark.problem, lock)


def _metadata_columns(metadata: LedgerMetadata) -> Row:
    return (
        metadata.format_version,
        metadata.state.value,
        metadata.ensemble_size,
        metadata.write_quorum,
        metadata.ack_quorum,
        metadata.last_entry_id,
        metadata.length,
        None if metadata.digest_type is None else int(metadata.digest_type),
        metadata.ctime_ms,
        [(segment.first_entry_id, segment.ensemble) for segment in metadata.segments],
        metadata.custom_metadata,
    )


def answer_row(answer: Answer) -> Row:
    """Return one row of ANSWERS."""
    return (
        answer.bookie_id,
        answer.ledger_id,
        answer.look,
        answer.asked_at_ms,
        answer.status.value,
        answer.groups,
        answer.detail,
        answer.requests,
        answer.retries,
        answer.received_bytes,
        answer.non_canonical,
        [(log.path, log.entries, log.ranges) for log in answer.missing_logs] or None,
        answer.read_unlisted or None,
    )


def greeting_row(
    bookie_id: str, look: int, at_ms: int, greeting: Greeting, detail: str, requests: int = 1
) -> Row:
    """Return the row of ANSWERS with a bookie's greeting at one look. It has no ledger id.

    `requests`: GET_BOOKIE_INFO requests sent; 0 if the bookie could not be connected.
    """
    return (
        bookie_id,
        None,
        look,
        at_ms,
        greeting.value,
        b"",
        detail,
        requests,
        0,
        0,
        False,
        None,
        None,
    )


def pace_cells(pace: LanePace) -> Row:
    """Return a pace, and the lowest pace of its conversation, as the cells of PACE."""
    return tuple(
        cell
        for shown in (pace, pace.lowest)
        for cell in (shown.inflight, shown.requests_per_second, shown.is_low)
    )


def read_row(read: EntryRead) -> Row:
    """Return one row of READS."""
    return (
        read.bookie_id,
        read.ledger_id,
        read.entry_id,
        read.look,
        read.asked_at_ms,
        read.status.value,
        read.detail,
        read.requests,
        read.retries,
        read.received_bytes,
        read.is_search,
        read.stored_entry_id,
        read.last_confirmed,
        read.length_bytes,
        read.is_spot,
        read.is_denser,
    )


def bookie_row(record: BookieRecord) -> Row:
    """Return one row of BOOKIES."""
    return (
        record.bookie_id,
        record.look,
        record.read_at_ms,
        record.registration.value,
        record.host,
        record.port,
        record.has_cookie,
        record.problem,
        record.greeting.value if record.greeting else None,
        record.greeting_detail,
    )


def bookie_records(rows: pa.Table) -> list[BookieRecord]:
    """Return the rows of a BOOKIES table as values."""
    return [
        BookieRecord(
            bookie_id=row["bookie_id"],
            look=row["look"],
            read_at_ms=row["read_at_ms"],
            registration=Registration(row["registration"]),
            host=row["host"],
            port=row["port"],
            has_cookie=row["has_cookie"],
            problem=row["problem"],
            greeting=Greeting(row["greeting"]) if row["greeting"] else None,
            greeting_detail=row["greeting_detail"],
        )
        for row in rows.to_pylist()
    ]

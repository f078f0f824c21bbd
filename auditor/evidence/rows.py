"""Convert values to rows of the evidence tables and back, and rows to Arrow batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from operator import attrgetter
from typing import Any, Generic, TypeVar, cast, get_args, get_type_hints

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.schemas import ANSWERS, BOOKIES, READS
from auditor.model.availability import (
    Answer,
    AnswerStatus,
    EntryRead,
    Greeting,
    LanePace,
    MissingLog,
)
from auditor.model.cluster import BookieRecord
from auditor.model.ledger import LedgerMetadata, LedgerRecord, Mark

Row = tuple[Any, ...]
T = TypeVar("T")


class RowsOf(Generic[T]):
    """The rows of a table whose columns are the fields of one class, in their order.

    A null, and a column that was not read, stand for the field's default: runs of earlier versions
    lack a column. `nulls` has the fields for which they stand for another value. A member of an
    enumeration is stored as its value. `own` has both directions of a column whose cells Arrow
    cannot make of the field. There an empty field is stored as null.
    """

    def __init__(
        self,
        kind: type[T],
        schema: pa.Schema,
        own: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] | None = None,
        nulls: Mapping[str, Any] | None = None,
    ) -> None:
        own, nulls = own or {}, nulls or {}
        declared = {field.name: field for field in dataclasses.fields(cast("Any", kind))}
        assert list(declared) == schema.names, (kind, schema.names)
        hints = get_type_hints(kind)
        self._kind: Callable[..., T] = kind
        self._cells = attrgetter(*schema.names)
        self._encoders = [(schema.names.index(name), encode) for name, (encode, _) in own.items()]
        self._columns = [
            (
                name,
                own[name][1] if name in own else _enum_decoder(hints[name]),
                nulls.get(name, None if field.default is dataclasses.MISSING else field.default),
            )
            for name, field in declared.items()
        ]

    def row(self, value: T) -> Row:
        """Return one row."""
        cells: Row = self._cells(value)
        for place, encode in self._encoders:
            cell = encode(cells[place]) if cells[place] else None
            cells = (*cells[:place], cell, *cells[place + 1 :])
        return cells

    def values(self, rows: pa.StructArray) -> list[T]:
        """Return the rows as values, in their order."""
        there = {rows.type.field(place).name for place in range(rows.type.num_fields)}
        columns = (
            _decoded(rows.field(name), decode, default) if name in there else [default] * len(rows)
            for name, decode, default in self._columns
        )
        return [self._kind(*cells) for cells in zip(*columns, strict=True)]


def _enum_decoder(hint: Any) -> Callable[[Any], Any] | None:
    """Return what finds the member of an enumeration by its value; None for any other type."""
    for kind in (hint, *get_args(hint)):
        if isinstance(kind, type) and issubclass(kind, Enum):
            return {member.value: member for member in kind}.__getitem__
    return None


def _decoded(column: pa.Array, decode: Callable[[Any], Any] | None, default: Any) -> list[Any]:
    nulls = column.null_count
    if nulls == len(column):
        return [default] * nulls
    cells: list[Any] = column.to_pylist()
    if not nulls:
        return cells if decode is None else list(map(decode, cells))
    return [default if cell is None else decode(cell) if decode else cell for cell in cells]


def structs(rows: pa.Table) -> pa.StructArray:
    """Return the rows of a table as one array."""
    columns = [column.combine_chunks() for column in rows.columns]
    return pa.StructArray.from_arrays(columns, fields=list(rows.schema))


Rows = TypeVar("Rows", pa.RecordBatch, pa.Table, pa.StructArray)


def rows_of(rows: Rows, mask: pa.BooleanArray | pa.ChunkedArray) -> Rows:
    """Return the rows of a mask, in which null is false. Costs next to nothing if these are all."""
    return rows if pc.all(mask, skip_nulls=False).as_py() else rows.filter(mask)


def one_batch(rows: pa.Table) -> pa.RecordBatch:
    """Return the rows of a table as one batch. Copies them if they are in several."""
    whole = rows.combine_chunks().to_batches()
    return whole[0] if whole else pa.RecordBatch.from_pylist([], rows.schema)


def numbers_of(
    words: pa.Array | pa.ChunkedArray, number_of: Mapping[str, int]
) -> npt.NDArray[np.int64]:
    """Return the number of each word, -1 if it has none. No word is null.

    Costs little for words that are numbers of a dictionary (`TableScan`).
    """
    found = [np.empty(0, np.int64)]
    for chunk in words.chunks if isinstance(words, pa.ChunkedArray) else [words]:
        encoded = chunk.dictionary_encode()
        known = [number_of.get(word, -1) for word in encoded.dictionary.to_pylist()]
        found.append(np.array(known, np.int64)[encoded.indices.to_numpy()])
    return np.concatenate(found)


def table(schema: pa.Schema, rows: Iterable[Row]) -> pa.RecordBatch:
    """Return rows (values in the schema's order) as one batch. Costs about a microsecond a plain
    value.
    """
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [
        pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def named_row(schema: pa.Schema, /, **cells: Any) -> Row:
    """Return a row with these cells in the schema's order, and null in all other columns."""
    assert cells.keys() <= set(schema.names), cells.keys()
    return tuple(cells.get(name) for name in schema.names)


def repeat_row(
    schema: pa.Schema, row: Row, columns: Mapping[str, Sequence[Any] | pa.Array]
) -> pa.RecordBatch:
    """Repeat a row, with other cells in the given columns, which have equal lengths.

    Costs little more than the values of these columns.
    """
    count = len(next(iter(columns.values())))
    return RepeatedRow(schema, row, count).batch(columns)


class RepeatedRow:
    """A row to be repeated in batches of at most `rows_max`. Cells that are alike are made once."""

    def __init__(self, schema: pa.Schema, row: Row, rows_max: int) -> None:
        self._schema, self._row = schema, table(schema, [row])
        self._zeros = pa.array(np.zeros(rows_max, np.int64))
        self._same: dict[str, pa.Array] = {}

    def batch(self, columns: Mapping[str, Sequence[Any] | pa.Array]) -> pa.RecordBatch:
        """Return the row repeated, with these cells in the columns, which have equal lengths."""
        count = len(next(iter(columns.values())))
        arrays = [
            _column(columns[field.name], field.type)
            if field.name in columns
            else self._repeated(field.name).slice(0, count)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _repeated(self, name: str) -> pa.Array:
        if name not in self._same:
            self._same[name] = self._row[name].take(self._zeros)
        return self._same[name]


def _column(cells: Sequence[Any] | pa.Array, kind: pa.DataType) -> pa.Array:
    """Return cells as a column. An array that has the type is used as it is: making another goes
    through a Python value for each cell.
    """
    return cells.cast(kind) if isinstance(cells, pa.Array) else pa.array(cells, type=kind)


GROUP_ROWS, GROUP_BYTES = 50_000, 16 * 2**20
"""Rows are gathered into a row group until there are so many, or they have so many bytes."""


def row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches that are worth a row group each."""
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        pending.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield _joined(pending)
            pending, rows, size = [], 0, 0
    if pending:
        yield _joined(pending)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of batches, each of which has rows."""
    if len(batches) == 1:
        return batches[0]
    (whole,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return whole


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


def greeting_row(
    bookie_id: str, look: int, at_ms: int, greeting: Greeting, detail: str, requests: int = 1
) -> Row:
    """Return the row of ANSWERS with a bookie's greeting at one look. It has no ledger id.

    `requests`: GET_BOOKIE_INFO requests sent; 0 if the bookie could not be connected.
    """
    return named_row(
        ANSWERS,
        bookie_id=bookie_id,
        look=look,
        asked_at_ms=at_ms,
        status=greeting.value,
        groups=b"",
        detail=detail,
        requests=requests,
        retries=0,
        received_bytes=0,
        non_canonical=False,
        is_as_expected=False,
    )


def pace_cells(pace: LanePace) -> Row:
    """Return a pace, and the lowest pace of its conversation, as the cells of PACE."""
    return tuple(
        cell
        for shown in (pace, pace.lowest)
        for cell in (shown.inflight, shown.requests_per_second, shown.is_low)
    )


def missing_logs(cells: Sequence[Mapping[str, Any]] | None) -> tuple[MissingLog, ...]:
    """Return a cell of the column `missing_logs` as values."""
    return tuple(
        MissingLog(
            cell["path"], cell["entries"], tuple((first, last) for first, last in cell["ranges"])
        )
        for cell in cells or ()
    )


def _missing_log_cells(logs: Sequence[MissingLog]) -> list[Row]:
    return [(log.path, log.entries, log.ranges) for log in logs]


LEFT_OUT = b"left out"
"""Stands for the groups of an answer that were not stored or not read. They are no list: a list has
a multiple of 24 bytes."""

READ_ROWS = RowsOf(EntryRead, READS)
ANSWER_ROWS = RowsOf(
    Answer,
    ANSWERS,
    own={
        "missing_logs": (_missing_log_cells, missing_logs),
        "read_unlisted": (list, tuple),
    },
    nulls={"groups": LEFT_OUT},
)
BOOKIE_ROWS = RowsOf(BookieRecord, BOOKIES, own={"cookie_directories": (list, tuple)})

answer_row, read_row, bookie_row = ANSWER_ROWS.row, READ_ROWS.row, BOOKIE_ROWS.row
_GROUPS = ANSWERS.names.index("groups")
assert ANSWERS.names[-1] == "is_as_expected", ANSWERS.names


def expected_answer_row(answer: Answer, *, is_kept: bool) -> Row:
    """Return the row of an answer that is as expected: without its list, unless that `is_kept`.

    A bookie that does not know the ledger gave no list that could be left out.
    """
    row = answer_row(answer)
    if is_kept or answer.status is not AnswerStatus.HELD:
        return (*row[:-1], True)
    return (*row[:_GROUPS], None, *row[_GROUPS + 1 : -1], True)


def bookie_records(rows: pa.Table) -> list[BookieRecord]:
    """Return the rows of a BOOKIES table as values."""
    return BOOKIE_ROWS.values(structs(rows))

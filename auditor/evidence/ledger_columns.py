"""Make LEDGERS rows of decoded metadata, column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from auditor.evidence.schemas import CUSTOM, LEDGERS, SEGMENT
from auditor.model.ledger import RecordStatus
from auditor.wire.metadata_columns import STATES, MetadataColumns

FORMAT_VERSION = 3
"""The format of all metadata that is decoded in columns."""


def found_ledgers(
    look: int, metadata: MetadataColumns, others: Mapping[str, npt.NDArray[np.int64] | pa.Array]
) -> pa.RecordBatch:
    """Return one LEDGERS row for each row of `metadata`.

    `others` has the columns that do not follow from the metadata: ids, times, the znodes' stamps
    and the marks.
    """
    rows = len(metadata.states)
    columns: dict[str, npt.NDArray[np.int64] | pa.Array] = {
        "look": np.full(rows, look),
        "status": _repeated(RecordStatus.FOUND.value, rows),
        "detail": _repeated("", rows),
        "format_version": np.full(rows, FORMAT_VERSION),
        "state": pa.array([state.value for state in STATES]).take(pa.array(metadata.states - 1)),
        "ensemble_size": metadata.ensemble_sizes,
        "write_quorum": metadata.write_quorums,
        "ack_quorum": metadata.ack_quorums,
        "last_entry_id": _optional(metadata.last_entry_ids, metadata.have_last_entry),
        "length_bytes": metadata.lengths,
        "digest_type": _optional(metadata.digest_types, metadata.have_digest),
        "metadata_ctime_ms": _optional(metadata.ctimes_ms, metadata.have_ctime),
        "segments": _segments(metadata),
        "custom_metadata": _custom_metadata(metadata),
        "malformed": pa.nulls(rows, LEDGERS.field("malformed").type),
        **others,
    }
    arrays = [_typed(columns[field.name], field.type) for field in LEDGERS]
    return pa.RecordBatch.from_arrays(arrays, schema=LEDGERS)


def _repeated(value: str, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), rows)


def _optional(values: npt.NDArray[np.int64], have: npt.NDArray[np.bool_]) -> pa.Array:
    return pa.array(values, mask=~have)


def _typed(column: npt.NDArray[np.int64] | pa.Array, type_: pa.DataType) -> pa.Array:
    array = pa.array(column) if isinstance(column, np.ndarray) else column
    return array if array.type == type_ else array.cast(type_)


def _segments(metadata: MetadataColumns) -> pa.Array:
    ensembles = _lists(
        metadata.members, _named(metadata.bookie_names, metadata.bookies), pa.string()
    )
    parts = [pa.array(metadata.first_entry_ids), ensembles]
    segments = pa.StructArray.from_arrays(parts, fields=list(SEGMENT))
    return _lists(metadata.segments, segments, SEGMENT)


def _custom_metadata(metadata: MetadataColumns) -> pa.Array:
    keys = _named(metadata.key_names, metadata.custom_keys)
    values = pa.array(metadata.custom_values, pa.binary())
    entries = pa.StructArray.from_arrays([keys, values], fields=list(CUSTOM))
    return _lists(metadata.custom, entries, CUSTOM)


def _named(names: Sequence[str], numbers: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(names, pa.string()).take(pa.array(numbers))


def _lists(lengths: npt.NDArray[np.int64], values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return lists of these lengths, of values that stand behind each other."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=pa.list_(type_))

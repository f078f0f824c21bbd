"""Metadata that is decoded in columns, and the same metadata decoded one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from auditor.errors import MalformedMetadata, UnknownMetadataFormat
from auditor.evidence.ledger_columns import found_ledgers
from auditor.evidence.rows import ledger_row, table
from auditor.evidence.schemas import LEDGERS, MARK
from auditor.model.ledger import LedgerRecord, RecordStatus, ZnodeStamp
from auditor.wire import ledger_metadata
from auditor.wire.metadata_columns import MetadataDecoder

Ledger = dict[str, Any]
"""A row of LEDGERS. The id, the times and the stamp are the place among the znodes."""
STAMPS = ("ledger_id", "read_at_ms", "czxid", "znode_version", "znode_ctime_ms", "znode_mtime_ms")


def rows_in_columns(
    znodes: Sequence[bytes], decoder: MetadataDecoder | None = None
) -> list[Ledger | None]:
    """Return the row of each znode, and None for one that is not plain.

    The znodes stand between other bytes in one buffer, as in a reply of ZooKeeper.
    """
    between = b"\xff\x08\x01"
    sizes = np.array([len(data) for data in znodes], np.int64)
    starts = np.cumsum(sizes + len(between)) - sizes
    buffer = between + b"".join(data + between for data in znodes)
    decoded = (decoder or MetadataDecoder()).decode(buffer, starts, sizes)
    plain = np.flatnonzero(decoded.are_plain)
    marks = pa.nulls(len(plain), MARK)
    found = found_ledgers(1, decoded, {**dict.fromkeys(STAMPS, plain), "mark": marks})
    found.validate(full=True)
    rows: list[Ledger | None] = [None] * len(znodes)
    for place, row in zip(plain.tolist(), found.to_pylist(), strict=True):
        rows[place] = row
    return rows


def row_alone(place: int, data: bytes) -> Ledger | None:
    """Return the row of one znode by the reference, and None if it has no metadata."""
    try:
        metadata = ledger_metadata.decode(data)
    except (MalformedMetadata, UnknownMetadataFormat):
        return None
    stamp = ZnodeStamp(place, place, place, place)
    record = LedgerRecord(place, 1, place, RecordStatus.FOUND, stamp, metadata)
    row: Ledger = table(LEDGERS, [ledger_row(record)]).to_pylist()[0]
    return row

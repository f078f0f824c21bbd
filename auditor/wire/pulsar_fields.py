"""Every field that Pulsar stores of a topic, and whether an audit reads it.

Sources: MLDataFormats.proto and SchemaStorageFormat.proto of Pulsar 3.0 and 4.0, and the properties
of a ledger that newer ones have. A test compares the table with the files in Pulsar's own jars.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from auditor.model.topic import Unread


class Use(StrEnum):
    """What an audit does with a field that is not among Unread."""

    READ = "read"
    NO_LEDGER = "no_ledger"
    """It can hold neither a ledger nor a position."""


_READ, _NONE = Use.READ, Use.NO_LEDGER
_POSITION = {"ledgerId": _READ, "entryId": _READ}
_BATCH, _NEWEST = Unread.BATCH_ACKNOWLEDGEMENT, Unread.NEWEST_POSITION

_MANAGED_LEDGERS: Mapping[str, Mapping[str, Use | Unread]] = {
    "KeyValue": {"key": _READ, "value": _READ},
    "OffloadDriverMetadata": {
        "name": Unread.OFFLOADED_COPY,
        "properties": Unread.OFFLOADED_COPY,
    },
    "OffloadContext": {
        "uidMsb": Unread.OFFLOADED_COPY,
        "uidLsb": Unread.OFFLOADED_COPY,
        "complete": _READ,
        "bookkeeperDeleted": _READ,
        "timestamp": _NONE,
        "driverMetadata": Unread.OFFLOADED_COPY,
        "offloadSegment": Unread.OFFLOADED_COPY,
    },
    "OffloadSegment": {
        "uidMsb": Unread.OFFLOADED_COPY,
        "uidLsb": Unread.OFFLOADED_COPY,
        "complete": Unread.OFFLOADED_COPY,
        "assignedTimestamp": _NONE,
        "offloadedTimestamp": _NONE,
        "endEntryId": Unread.OFFLOADED_COPY,
        "driverMetadata": Unread.OFFLOADED_COPY,
    },
    "ManagedLedgerInfo": {
        "ledgerInfo": _READ,
        "terminatedPosition": _READ,
        "properties": Unread.PROPERTY,
    },
    "ManagedLedgerInfo.LedgerInfo": {
        "ledgerId": _READ,
        "entries": _READ,
        "size": _READ,
        "timestamp": _READ,
        "offloadContext": _READ,
        "properties": Unread.PROPERTY,
    },
    "PositionInfo": {
        "ledgerId": _NEWEST,
        "entryId": _NEWEST,
        "individualDeletedMessages": _NEWEST,
        "properties": _NEWEST,
        "batchedEntryDeletionIndexInfo": _NEWEST,
        "individualDeletedMessageRanges": _NEWEST,
    },
    "NestedPositionInfo": _POSITION,
    "LongListMap": {"key": _NEWEST, "values": _NEWEST},
    "MessageRange": {"lowerEndpoint": _READ, "upperEndpoint": _READ},
    "BatchedEntryDeletionIndexInfo": {"position": _BATCH, "deleteSet": _NONE},
    "LongProperty": {"name": _READ, "value": _READ},
    "StringProperty": {"name": _READ, "value": _READ},
    "ManagedCursorInfo": {
        "cursorsLedgerId": _READ,
        "markDeleteLedgerId": _READ,
        "markDeleteEntryId": _READ,
        "individualDeletedMessages": _READ,
        "properties": Unread.PROPERTY,
        "lastActive": _NONE,
        "batchedEntryDeletionIndexInfo": _BATCH,
        "cursorProperties": Unread.PROPERTY,
    },
    "ManagedLedgerInfoMetadata": {"compressionType": _READ, "uncompressedSize": _READ},
    "ManagedCursorInfoMetadata": {"compressionType": _READ, "uncompressedSize": _READ},
}
_SCHEMAS: Mapping[str, Mapping[str, Use | Unread]] = {
    "PositionInfo": _POSITION,
    "IndexEntry": {"version": _READ, "position": _READ, "hash": _NONE},
    "SchemaEntry": {"schema_data": _NONE, "index": Unread.SCHEMA_INDEX},
    "SchemaLocator": {"info": _READ, "index": _READ},
}
FIELDS: Mapping[str, Mapping[str, Mapping[str, Use | Unread]]] = {
    "MLDataFormats": _MANAGED_LEDGERS,
    "SchemaStorageFormat": _SCHEMAS,
}
"""By file and message: each field. Of properties only those are read that a broker itself reads a
ledger or a topic from: the others are counted as Unread.PROPERTY."""

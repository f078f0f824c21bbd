"""Decode and encode what Pulsar writes into ZooKeeper about a topic's ledgers.

Sources: MetaStoreImpl, MLDataFormats.proto, SchemaStorageFormat.proto (Pulsar 4.0).
"""

from __future__ import annotations

import struct
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from auditor.errors import MalformedMetadata
from auditor.model.identity import LEDGER_ID_MAX
from auditor.model.topic import Cursor, DataLedger, ManagedLedger, Position, SchemaVersion
from auditor.wire.compression import decompress
from auditor.wire.generated.managed_ledger_pb2 import (
    CompressionHeader,
    ManagedCursorInfo,
    ManagedLedgerInfo,
    NestedPositionInfo,
    SchemaLocator,
)

MAGIC = b"\x47\x78"
"""What a compressed value begins with. No message can begin so: the wire type would be 7."""
_LENGTH = struct.Struct("!i")
COMPACTED_LEDGER_PROPERTY = "CompactedTopicLedger"
NO_LEDGER = -1

_Message = TypeVar("_Message", bound=Message)


def decode_managed_ledger(data: bytes) -> ManagedLedger:
    """Return a topic's data ledgers, sorted by id. Raises MalformedMetadata."""
    info = _parse(ManagedLedgerInfo(), decompress_value(data))
    ledgers: dict[int, DataLedger] = {}
    for one in info.ledgerInfo:
        if not 0 <= one.ledgerId <= LEDGER_ID_MAX or one.ledgerId in ledgers:
            raise MalformedMetadata(
                f"it has ledger {one.ledgerId} twice, or that is not a ledger id"
            )
        if one.entries < 0 or one.size < 0:
            raise MalformedMetadata(f"it records less than nothing for ledger {one.ledgerId}")
        ledgers[one.ledgerId] = DataLedger(
            ledger_id=one.ledgerId,
            entries=one.entries if one.HasField("entries") else None,
            size_bytes=one.size if one.HasField("size") else None,
            closed_ms=one.timestamp if one.timestamp > 0 else None,
            offloaded=one.offloadContext.complete,
            bookkeeper_deleted=one.offloadContext.complete and one.offloadContext.bookkeeperDeleted,
        )
    terminated = _position(info.terminatedPosition) if info.HasField("terminatedPosition") else None
    return ManagedLedger(tuple(ledgers[ledger_id] for ledger_id in sorted(ledgers)), terminated)


def decode_cursor(data: bytes) -> Cursor:
    """Return a subscription's position. Raises MalformedMetadata."""
    info = _parse(ManagedCursorInfo(), decompress_value(data))
    has_position = info.HasField("markDeleteLedgerId") and info.HasField("markDeleteEntryId")
    compacted = [one.value for one in info.properties if one.name == COMPACTED_LEDGER_PROPERTY]
    return Cursor(
        ledger_id=None if info.cursorsLedgerId == NO_LEDGER else _ledger_id(info.cursorsLedgerId),
        mark_delete=(
            Position(info.markDeleteLedgerId, info.markDeleteEntryId) if has_position else None
        ),
        acknowledged=tuple(
            (_position(one.lowerEndpoint), _position(one.upperEndpoint))
            for one in info.individualDeletedMessages
        ),
        compacted_ledger_id=(
            compacted[-1] if compacted and 0 <= compacted[-1] <= LEDGER_ID_MAX else None
        ),
    )


def decode_schemas(data: bytes) -> tuple[SchemaVersion, ...]:
    """Return where a topic's schema versions are, each once, oldest first. Raises
    MalformedMetadata.
    """
    locator = _parse(SchemaLocator(), data)
    entries = (*locator.index, locator.info)
    found = {
        one.version: Position(_ledger_id(one.position.ledgerId), one.position.entryId)
        for one in entries
    }
    return tuple(SchemaVersion(version, found[version]) for version in sorted(found))


def decompress_value(data: bytes) -> bytes:
    """Return a value without its compression. Raises MalformedMetadata."""
    if data[: len(MAGIC)] != MAGIC:
        return data
    start = len(MAGIC) + _LENGTH.size
    if len(data) < start:
        raise MalformedMetadata("its compression header ends too early", len(data))
    (length,) = _LENGTH.unpack_from(data, len(MAGIC))
    if not 0 <= length <= len(data) - start:
        raise MalformedMetadata(
            f"its compression header has {length} bytes, which is not in the value", len(MAGIC)
        )
    header = _parse(CompressionHeader(), data[start : start + length])
    return decompress(header.compressionType, data[start + length :], header.uncompressedSize)


def encode_managed_ledger(managed: ManagedLedger) -> bytes:
    """Return what a broker writes for a topic, uncompressed."""
    info = ManagedLedgerInfo()
    for one in managed.ledgers:
        added = info.ledgerInfo.add(ledgerId=one.ledger_id, timestamp=one.closed_ms or 0)
        if one.entries is not None:
            added.entries = one.entries
        if one.size_bytes is not None:
            added.size = one.size_bytes
        if one.offloaded:
            added.offloadContext.complete = True
            added.offloadContext.bookkeeperDeleted = one.bookkeeper_deleted
    if managed.terminated is not None:
        info.terminatedPosition.CopyFrom(_nested_position(managed.terminated))
    return info.SerializeToString()


def encode_cursor(cursor: Cursor) -> bytes:
    """Return what a broker writes for a subscription, uncompressed."""
    info = ManagedCursorInfo(
        cursorsLedgerId=NO_LEDGER if cursor.ledger_id is None else cursor.ledger_id
    )
    if cursor.mark_delete is not None:
        info.markDeleteLedgerId, info.markDeleteEntryId = cursor.mark_delete
    for lower, upper in cursor.acknowledged:
        info.individualDeletedMessages.add(
            lowerEndpoint=_nested_position(lower), upperEndpoint=_nested_position(upper)
        )
    if cursor.compacted_ledger_id is not None:
        info.properties.add(name=COMPACTED_LEDGER_PROPERTY, value=cursor.compacted_ledger_id)
    return info.SerializeToString()


def encode_schemas(schemas: tuple[SchemaVersion, ...]) -> bytes:
    """Return what a broker writes for a topic's schemas. There must be at least one."""
    locator = SchemaLocator()
    locator.info.version = schemas[-1].version
    locator.info.position.CopyFrom(_nested_position(schemas[-1].position))
    for one in schemas:
        locator.index.add(version=one.version, position=_nested_position(one.position))
    return locator.SerializeToString()


def _parse(message: _Message, data: bytes) -> _Message:
    """Fill the message. Raises MalformedMetadata also where a required field is missing."""
    try:
        message.ParseFromString(data)
    except DecodeError:
        raise MalformedMetadata(f"it is not a {message.DESCRIPTOR.name}") from None
    if not message.IsInitialized():
        raise MalformedMetadata(f"it is a {message.DESCRIPTOR.name} without a required field")
    return message


def _ledger_id(number: int) -> int:
    if not 0 <= number <= LEDGER_ID_MAX:
        raise MalformedMetadata(f"{number} is not a ledger id")
    return number


def _position(info: NestedPositionInfo) -> Position:
    return Position(info.ledgerId, info.entryId)


def _nested_position(position: Position) -> NestedPositionInfo:
    return NestedPositionInfo(ledgerId=position.ledger_id, entryId=position.entry_id)

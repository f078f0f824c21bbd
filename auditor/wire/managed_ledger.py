"""Decode and encode what Pulsar writes into ZooKeeper about a topic's ledgers.

Sources: MetaStoreImpl, MLDataFormats.proto, SchemaStorageFormat.proto (Pulsar 4.0).
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from auditor.errors import ConfigError, MalformedMetadata
from auditor.model.identity import LEDGER_ID_MAX
from auditor.model.topic import (
    COMPACTION_CURSOR,
    Cursor,
    DataLedger,
    ManagedLedger,
    Position,
    SchemaVersion,
    TopicName,
    Unread,
)
from auditor.wire.compression import decompress
from auditor.wire.generated.managed_ledger_pb2 import (
    CompressionHeader,
    ManagedCursorInfo,
    ManagedLedgerInfo,
    NestedPositionInfo,
    SchemaLocator,
)
from auditor.wire.topic_paths import parse_topic
from auditor.wire.unknown_fields import count_unknown_fields

MAGIC = b"\x47\x78"
"""What a compressed value begins with. No message can begin so: the wire type would be 7."""
_LENGTH = struct.Struct("!i")
COMPACTED_LEDGER_PROPERTY = "CompactedTopicLedger"
SHADOW_SOURCE_PROPERTY = "PULSAR.SHADOW_SOURCE"
NO_LEDGER = -1
_DELAYED_LEDGER_PROPERTY = re.compile(r"#pulsar\.internal\.delayed\.bucket_[0-9]+_[0-9]+")
"""The name of a cursor's property whose value is the ledger of a bucket of delayed messages."""
_NUMBER = re.compile(r"[0-9]{1,19}")

_Message = TypeVar("_Message", bound=Message)


def decode_managed_ledger(data: bytes, unread: Counter[Unread] | None = None) -> ManagedLedger:
    """Return a topic's data ledgers, sorted by id. Raises MalformedMetadata.

    What is not read of it is added to `unread`. The ledgers of a shadow topic are its own record,
    which no broker reads.
    """
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
    sources = [one.value for one in info.properties if one.key == SHADOW_SOURCE_PROPERTY]
    if unread is not None:
        unread[Unread.OFFLOADED_COPY] += sum(one.offloaded for one in ledgers.values())
        unread[Unread.PROPERTY] += len(info.properties) - len(sources)
        unread[Unread.PROPERTY] += sum(len(one.properties) for one in info.ledgerInfo)
        unread[Unread.UNKNOWN_FIELD] += count_unknown_fields(info)
    return ManagedLedger(
        tuple(ledgers[ledger_id] for ledger_id in sorted(ledgers)),
        terminated,
        _shadow_source(sources[-1]) if sources and sources[-1] else None,
    )


def decode_cursor(data: bytes, name: str, unread: Counter[Unread] | None = None) -> Cursor:
    """Return the position of the subscription with this name. Raises MalformedMetadata.

    What is not read of it is added to `unread`.
    """
    info = _parse(ManagedCursorInfo(), decompress_value(data))
    has_position = info.HasField("markDeleteLedgerId") and info.HasField("markDeleteEntryId")
    compacted = [
        one.value
        for one in info.properties
        if one.name == COMPACTED_LEDGER_PROPERTY and name == COMPACTION_CURSOR
    ]
    delayed = _delayed_ledgers(info)
    if unread is not None:
        unread[Unread.NEWEST_POSITION] += info.cursorsLedgerId != NO_LEDGER
        unread[Unread.BATCH_ACKNOWLEDGEMENT] += len(info.batchedEntryDeletionIndexInfo)
        unread[Unread.PROPERTY] += len(info.properties) - len(compacted)
        unread[Unread.PROPERTY] += len(info.cursorProperties) - len(delayed)
        unread[Unread.UNKNOWN_FIELD] += count_unknown_fields(info)
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
        delayed_ledger_ids=tuple(sorted(set(delayed))),
    )


def decode_schemas(data: bytes, unread: Counter[Unread] | None = None) -> tuple[SchemaVersion, ...]:
    """Return where a topic's schema versions are, each once, oldest first. Raises
    MalformedMetadata.

    What is not read of it, or of the ledgers that it names, is added to `unread`.
    """
    locator = _parse(SchemaLocator(), data)
    entries = (*locator.index, locator.info)
    found = {
        one.version: Position(_ledger_id(one.position.ledgerId), one.position.entryId)
        for one in entries
    }
    if unread is not None:
        unread[Unread.SCHEMA_INDEX] += len(set(found.values()))
        unread[Unread.UNKNOWN_FIELD] += count_unknown_fields(locator)
    return tuple(SchemaVersion(version, found[version]) for version in sorted(found))


def _shadow_source(text: str) -> TopicName:
    try:
        return parse_topic(text)
    except ConfigError as error:
        raise MalformedMetadata(f"its {SHADOW_SOURCE_PROPERTY} is not a topic: {error}") from None


def _delayed_ledgers(info: ManagedCursorInfo) -> list[int]:
    """Return the ledgers of delayed messages that the properties of a cursor name."""
    return [
        int(one.value)
        for one in info.cursorProperties
        if _DELAYED_LEDGER_PROPERTY.fullmatch(one.name)
        and _NUMBER.fullmatch(one.value)
        and int(one.value) <= LEDGER_ID_MAX
    ]


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
    if managed.shadow_source is not None:
        info.properties.add(key=SHADOW_SOURCE_PROPERTY, value=str(managed.shadow_source))
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
    for number, ledger_id in enumerate(cursor.delayed_ledger_ids):
        name = f"#pulsar.internal.delayed.bucket_{number}_{number}"
        info.cursorProperties.add(name=name, value=str(ledger_id))
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

"""Decode and encode what Pulsar writes into ZooKeeper about a topic's ledgers and its partitions.

Sources: MetaStoreImpl, CompressionCodecProvider, PartitionedTopicMetadata,
NamespaceResources.PartitionedTopicResources (Pulsar 4.0), the LZ4 block format, MLDataFormats.proto
and SchemaStorageFormat.proto (Pulsar 3.0 and 4.0), and the properties of a ledger that newer ones
have.

Pulsar may have compressed a value; the size of every decompressed value is bounded. A table names
every field that Pulsar stores of a topic, and whether an audit reads it. A test compares it with
the files in Pulsar's own jars.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

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
from auditor.pulsar.topic_paths import parse_topic
from auditor.wire.generated.managed_ledger_pb2 import (
    CompressionHeader,
    ManagedCursorInfo,
    ManagedLedgerInfo,
    NestedPositionInfo,
    SchemaLocator,
)
from auditor.wire.protobuf_forms import count_unknown_fields

UNCOMPRESSED_BYTES_MAX = 16 * 2**20
"""Largest value accepted: 16 times ZooKeeper's default limit for a znode. A parsed message takes up
to 40 times its bytes: a record of two bytes becomes an object.
"""
_LZ4_MATCH_MIN = 4
_LENGTH_GOES_ON = 255


def decompress(compression: int, data: bytes, size: int) -> bytes:
    """Decompress `data` into `size` bytes. `compression` is a CompressionType.

    Raises MalformedMetadata for damaged data, another size, a size beyond UNCOMPRESSED_BYTES_MAX,
    or an unknown type. Arrow is loaded for ZSTD and SNAPPY only.
    """
    if not 0 <= size <= UNCOMPRESSED_BYTES_MAX:
        raise MalformedMetadata(f"its uncompressed size of {size} bytes is out of range")
    if compression == CompressionHeader.NONE:
        out = data
    elif compression == CompressionHeader.LZ4:
        out = _lz4(data, size)
    elif compression == CompressionHeader.ZLIB:
        out = _zlib(data, size)
    elif compression == CompressionHeader.ZSTD:
        out = _arrow("zstd", data, size)
    else:
        assert compression == CompressionHeader.SNAPPY, compression
        out = _snappy(data, size)
    if len(out) != size:
        raise MalformedMetadata(f"its compressed data has {len(out)} bytes instead of {size}")
    return out


def _zlib(data: bytes, size: int) -> bytes:
    inflate = zlib.decompressobj()
    try:
        return inflate.decompress(data, size + 1)
    except zlib.error:
        raise MalformedMetadata("its compressed data is damaged (ZLIB)") from None


def _snappy(data: bytes, size: int) -> bytes:
    """Decompress SNAPPY, after checking its length: Arrow pads short data with arbitrary memory."""
    said = shift = 0
    for byte in data[:5]:
        said |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if said != size:
        raise MalformedMetadata(f"its compressed data has {said} bytes instead of {size}")
    return _arrow("snappy", data, size)


def _arrow(name: str, data: bytes, size: int) -> bytes:
    import pyarrow as pa  # importing takes a third of a second, which most commands need not pay

    if not size:
        return b""
    try:
        out: bytes = pa.Codec(name).decompress(data, size, asbytes=True)
        return out
    except (OSError, pa.ArrowException):
        raise MalformedMetadata(f"its compressed data is damaged ({name.upper()})") from None


def _lz4(data: bytes, size: int) -> bytes:
    """Decompress a raw LZ4 block in Python: Arrow does not say how much a raw block holds."""
    out = bytearray()
    at = 0
    try:
        while True:
            token = data[at]
            count, at = _length(data, at + 1, token >> 4)
            if at + count > len(data) or len(out) + count > size:
                raise MalformedMetadata("its compressed data is damaged (LZ4)", at)
            out += data[at : at + count]
            at += count
            if at == len(data):
                break
            offset = data[at] | data[at + 1] << 8
            count, at = _length(data, at + 2, token & 15)
            _copy_match(out, offset, count + _LZ4_MATCH_MIN, size)
    except IndexError:
        raise MalformedMetadata("its compressed data ends too early (LZ4)", len(data)) from None
    return bytes(out)


def _length(data: bytes, at: int, count: int) -> tuple[int, int]:
    """Return a length whose first part is `count`, and where it ends."""
    if count == 15:
        while True:
            byte = data[at]
            at += 1
            count += byte
            if byte != _LENGTH_GOES_ON:
                break
    return count, at


def _copy_match(out: bytearray, offset: int, count: int, size: int) -> None:
    """Repeat `count` bytes from `offset` before the end, which may overlap what is written."""
    if not 0 < offset <= len(out) or len(out) + count > size:
        raise MalformedMetadata("its compressed data is damaged (LZ4)")
    start = len(out) - offset
    pattern = bytes(out[start : start + count])
    out += pattern * (count // len(pattern)) + pattern[: count % len(pattern)]


COMPRESSED_MAGIC = b"\x47\x78"
"""A compressed value begins with this. No message can begin this way: its wire type would be 7."""
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

    Adds what is not read of it to `unread`. A shadow topic's own list of ledgers is returned too,
    although no broker reads it.
    """
    info = _parse(ManagedLedgerInfo(), decompress_value(data))
    ledgers: dict[int, DataLedger] = {}
    for ledger in info.ledgerInfo:
        if not 0 <= ledger.ledgerId <= LEDGER_ID_MAX or ledger.ledgerId in ledgers:
            raise MalformedMetadata(
                f"it has ledger {ledger.ledgerId} twice, or that is not a ledger id"
            )
        if ledger.entries < 0 or ledger.size < 0:
            raise MalformedMetadata(f"it records less than nothing for ledger {ledger.ledgerId}")
        ledgers[ledger.ledgerId] = DataLedger(
            ledger_id=ledger.ledgerId,
            entries=ledger.entries if ledger.HasField("entries") else None,
            size_bytes=ledger.size if ledger.HasField("size") else None,
            closed_ms=ledger.timestamp if ledger.timestamp > 0 else None,
            offloaded=ledger.offloadContext.complete,
            bookkeeper_deleted=ledger.offloadContext.complete
            and ledger.offloadContext.bookkeeperDeleted,
        )
    terminated = _position(info.terminatedPosition) if info.HasField("terminatedPosition") else None
    sources = [entry.value for entry in info.properties if entry.key == SHADOW_SOURCE_PROPERTY]
    if unread is not None:
        unread[Unread.OFFLOADED_COPY] += sum(ledger.offloaded for ledger in ledgers.values())
        unread[Unread.PROPERTY] += len(info.properties) - len(sources)
        unread[Unread.PROPERTY] += sum(len(ledger.properties) for ledger in info.ledgerInfo)
        unread[Unread.UNKNOWN_FIELD] += count_unknown_fields(info)
    return ManagedLedger(
        tuple(ledgers[ledger_id] for ledger_id in sorted(ledgers)),
        terminated,
        _shadow_source(sources[-1]) if sources and sources[-1] else None,
    )


def decode_cursor(data: bytes, name: str, unread: Counter[Unread] | None = None) -> Cursor:
    """Return the position of the subscription with this name. Raises MalformedMetadata.

    Adds what is not read of it to `unread`.
    """
    info = _parse(ManagedCursorInfo(), decompress_value(data))
    has_position = info.HasField("markDeleteLedgerId") and info.HasField("markDeleteEntryId")
    compacted = [
        entry.value
        for entry in info.properties
        if entry.name == COMPACTED_LEDGER_PROPERTY and name == COMPACTION_CURSOR
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
            (_position(deleted.lowerEndpoint), _position(deleted.upperEndpoint))
            for deleted in info.individualDeletedMessages
        ),
        compacted_ledger_id=(
            compacted[-1] if compacted and 0 <= compacted[-1] <= LEDGER_ID_MAX else None
        ),
        delayed_ledger_ids=tuple(sorted(set(delayed))),
    )


def decode_schemas(data: bytes, unread: Counter[Unread] | None = None) -> tuple[SchemaVersion, ...]:
    """Return where a topic's schema versions are, each once, oldest first.

    Counts in `unread` the parts of the locator and of the ledgers that are not read. Raises
    MalformedMetadata.
    """
    locator = _parse(SchemaLocator(), data)
    entries = (*locator.index, locator.info)
    found = {
        entry.version: Position(_ledger_id(entry.position.ledgerId), entry.position.entryId)
        for entry in entries
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
    """Return the ledgers of delayed messages that a cursor's properties name."""
    return [
        int(entry.value)
        for entry in info.cursorProperties
        if _DELAYED_LEDGER_PROPERTY.fullmatch(entry.name)
        and _NUMBER.fullmatch(entry.value)
        and int(entry.value) <= LEDGER_ID_MAX
    ]


def decompress_value(data: bytes) -> bytes:
    """Return a value without its compression. Raises MalformedMetadata."""
    if data[: len(COMPRESSED_MAGIC)] != COMPRESSED_MAGIC:
        return data
    start = len(COMPRESSED_MAGIC) + _LENGTH.size
    if len(data) < start:
        raise MalformedMetadata("its compression header ends too early", len(data))
    (length,) = _LENGTH.unpack_from(data, len(COMPRESSED_MAGIC))
    if not 0 <= length <= len(data) - start:
        raise MalformedMetadata(
            f"its compression header has {length} bytes, which is not in the value",
            len(COMPRESSED_MAGIC),
        )
    header = _parse(CompressionHeader(), data[start : start + length])
    return decompress(header.compressionType, data[start + length :], header.uncompressedSize)


def encode_managed_ledger(managed: ManagedLedger) -> bytes:
    """Return what a broker writes for a topic, uncompressed."""
    info = ManagedLedgerInfo()
    for ledger in managed.ledgers:
        added = info.ledgerInfo.add(ledgerId=ledger.ledger_id, timestamp=ledger.closed_ms or 0)
        if ledger.entries is not None:
            added.entries = ledger.entries
        if ledger.size_bytes is not None:
            added.size = ledger.size_bytes
        if ledger.offloaded:
            added.offloadContext.complete = True
            added.offloadContext.bookkeeperDeleted = ledger.bookkeeper_deleted
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
    for schema in schemas:
        locator.index.add(version=schema.version, position=_nested_position(schema.position))
    return locator.SerializeToString()


def _parse(message: _Message, data: bytes) -> _Message:
    """Fill the message. Raises MalformedMetadata, also if a required field is missing."""
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


PARTITIONS_MAX = 100_000
"""A topic with more partitions is not believed. Pulsar's own default has no limit, but no broker
could serve so many."""
PARTITIONED_BYTES_MAX = 2**20
"""A longer value is not parsed: this is ZooKeeper's own limit of a znode."""


def decode_shadow_source(data: bytes) -> TopicName | None:
    """Return the source of a partitioned shadow topic, or None if the topic is not a shadow.

    The partitions of a shadow topic are shadows of the source's partitions, and their own znodes
    may not say so. Raises MalformedMetadata.
    """
    properties = _parse_json(data).get("properties")
    source = properties.get(SHADOW_SOURCE_PROPERTY) if isinstance(properties, dict) else None
    try:
        return parse_topic(source) if isinstance(source, str) and source else None
    except ConfigError as error:
        raise MalformedMetadata(f"its {SHADOW_SOURCE_PROPERTY} is not a topic: {error}") from None


def decode_partitions(data: bytes) -> int:
    """Return how many partitions a topic has, 0 if it is being deleted.

    Raises MalformedMetadata.
    """
    value = _parse_json(data)
    if value.get("deleted") is True:
        return 0
    number = value.get("partitions")
    if type(number) is not int or not 0 <= number <= PARTITIONS_MAX:
        raise MalformedMetadata(f"it does not say a number of partitions up to {PARTITIONS_MAX:,}")
    return number


def _parse_json(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data) if len(data) <= PARTITIONED_BYTES_MAX else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise MalformedMetadata("it is not a JSON object")
    return value


class Use(StrEnum):
    """How an audit treats a field that is not among Unread."""

    READ = "read"
    NO_LEDGER = "no_ledger"
    """The field can hold neither a ledger nor a position."""


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
PULSAR_FIELDS: Mapping[str, Mapping[str, Mapping[str, Use | Unread]]] = {
    "MLDataFormats": _MANAGED_LEDGERS,
    "SchemaStorageFormat": _SCHEMAS,
}
"""Each field, by file and message. A property is read only if a broker itself reads a ledger or a
topic from it. The others are counted as Unread.PROPERTY."""

"""What Pulsar's znodes say of a topic, uncompressed and compressed, with the bytes of a real broker
among them.
"""

from __future__ import annotations

import contextlib
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.errors import MalformedMetadata
from auditor.model.topic import (
    COMPACTION_CURSOR,
    Cursor,
    DataLedger,
    ManagedLedger,
    Position,
    Role,
    SchemaVersion,
    Subscription,
    TopicName,
    TopicRecord,
    TopicStatus,
    references,
)
from auditor.pulsar.metadata import (
    COMPRESSED_MAGIC,
    decode_cursor,
    decode_managed_ledger,
    decode_schemas,
    decompress_value,
    encode_cursor,
    encode_managed_ledger,
    encode_schemas,
)
from auditor.wire.generated.managed_ledger_pb2 import (
    CompressionHeader,
    ManagedCursorInfo,
    ManagedLedgerInfo,
)

NUMBERS = st.integers(0, 2**63 - 1)
POSITIONS = st.builds(Position, NUMBERS, st.integers(-1, 2**63 - 1))
LEDGERS = st.builds(
    DataLedger,
    NUMBERS,
    st.none() | NUMBERS,
    st.none() | NUMBERS,
    st.none() | st.integers(1, 2**62),
    st.just(True),
    st.booleans(),
)
MANAGED = st.builds(
    lambda ledgers, end: ManagedLedger(tuple(sorted(ledgers, key=lambda one: one.ledger_id)), end),
    st.lists(LEDGERS, max_size=5, unique_by=lambda one: one.ledger_id),
    st.none() | POSITIONS,
)
CURSORS = st.builds(
    Cursor, st.none() | NUMBERS, st.none() | POSITIONS,
    st.lists(st.tuples(POSITIONS, POSITIONS), max_size=3).map(tuple),
    st.none() | NUMBERS,
    st.sets(NUMBERS, max_size=3).map(sorted).map(tuple),
)  # fmt: skip
SCHEMAS = st.lists(
    st.builds(SchemaVersion, NUMBERS, POSITIONS),
    min_size=1,
    max_size=4,
    unique_by=lambda one: one.version,
).map(lambda found: tuple(sorted(found, key=lambda one: one.version)))
TOPIC = ManagedLedger((DataLedger(5, 500, 9_000, 1_700_000_000_000), DataLedger(7)))


@given(MANAGED)
def test_a_topic_comes_back_as_it_was_written(managed: ManagedLedger):
    """Ids, entries, sizes, times, offloading, the end of a terminated topic."""
    assert managed == decode_managed_ledger(encode_managed_ledger(managed))


@given(CURSORS)
def test_a_cursor_comes_back_as_it_was_written(cursor: Cursor):
    """Its ledger, its position, what is acknowledged beyond it, its compacted ledger."""
    assert cursor == decode_cursor(encode_cursor(cursor), COMPACTION_CURSOR)


@given(SCHEMAS)
def test_schemas_come_back_as_they_were_written(schemas: tuple[SchemaVersion, ...]):
    """Each version once, in order."""
    assert schemas == decode_schemas(encode_schemas(schemas))


@given(st.binary(max_size=80))
def test_any_bytes_are_decoded_or_refused(data: bytes):
    """Nothing but MalformedMetadata is raised, with the magic bytes before them too."""
    for value in (data, COMPRESSED_MAGIC + data, COMPRESSED_MAGIC + struct.pack("!i", 4) + data):
        for decode in (decode_managed_ledger, lambda one: decode_cursor(one, "s"), decode_schemas):
            with contextlib.suppress(MalformedMetadata):
                decode(value)


def test_a_compressed_value_is_that_of_the_uncompressed_one():
    """The header as a broker writes it: 47 78, a length of 4, type 3 and a size."""
    plain = encode_managed_ledger(TOPIC)
    header = CompressionHeader(
        compressionType=CompressionHeader.ZSTD, uncompressedSize=len(plain)
    ).SerializeToString()
    assert bytes([8, 3, 16, len(plain)]) == header
    value = bytes.fromhex("477800000004") + header + pa.Codec("zstd").compress(plain, asbytes=True)
    assert TOPIC == decode_managed_ledger(value)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("4778", "ends too early"),
        ("4778 0000", "ends too early"),
        ("4778 ffffffff", "not in the value"),
        ("4778 00000000", "without a required field"),
        ("4778 00000005 08031001", "not in the value"),
        ("4778 00000004 08091001 00", "without a required field"),
    ],
)
def test_a_damaged_compression_header_is_refused(value: str, says: str):
    """Too short, a length that is negative or too long, a type that nobody knows."""
    with pytest.raises(MalformedMetadata, match=says):
        decompress_value(bytes.fromhex(value))


def test_a_compressed_value_may_be_empty():
    """The header is then the whole value."""
    assert b"" == decompress_value(bytes.fromhex("4778 00000004 08001000"))


@pytest.mark.parametrize(("ledger_id", "found"), [(0, 0), (2**63 - 1, 2**63 - 1), (-1, None)])
def test_the_compacted_ledger_is_any_ledger(ledger_id: int, found: int | None):
    """And -1 is none."""
    info = ManagedCursorInfo(cursorsLedgerId=-1)
    info.properties.add(name="CompactedTopicLedger", value=ledger_id)
    assert found == decode_cursor(info.SerializeToString(), COMPACTION_CURSOR).compacted_ledger_id


@pytest.mark.parametrize("name", ["s", "pulsar.dedup", "__compaction2"])
def test_only_the_cursor_of_the_compactor_names_a_compacted_ledger(name: str):
    """On others the property is the sequence number of a producer with that name, or nothing."""
    info = ManagedCursorInfo(cursorsLedgerId=-1)
    info.properties.add(name="CompactedTopicLedger", value=9959)
    assert decode_cursor(info.SerializeToString(), name).compacted_ledger_id is None


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("#pulsar.internal.delayed.bucket_20_22", "24", (24,)),
        ("#pulsar.internal.delayed.bucket_20", "24", ()),
        ("#pulsar.internal.delayed.bucket_a_b", "24", ()),
        ("delayed.bucket_20_22", "24", ()),
        ("#pulsar.internal.delayed.bucket_20_22", "-1", ()),
        ("#pulsar.internal.delayed.bucket_20_22", str(2**63), ()),
    ],
)
def test_a_bucket_of_delayed_messages_names_its_ledger(
    name: str, value: str, found: tuple[int, ...]
):
    """The property has the form that a broker reads, and its value is a ledger."""
    info = ManagedCursorInfo(cursorsLedgerId=-1)
    info.cursorProperties.add(name=name, value=value)
    assert found == decode_cursor(info.SerializeToString(), "s").delayed_ledger_ids


def test_a_shadow_topic_names_its_source():
    """As a topic. What is not one is refused: the ledgers of such a topic are not known."""
    info = ManagedLedgerInfo()
    info.properties.add(key="PULSAR.SHADOW_SOURCE", value="persistent://t/n/x")
    found = decode_managed_ledger(info.SerializeToString()).shadow_source
    assert TopicName("t", "", "n", "x") == found
    info.properties[0].value = "non-persistent://t/n/x"
    with pytest.raises(MalformedMetadata, match="SHADOW_SOURCE is not a topic"):
        decode_managed_ledger(info.SerializeToString())


def test_half_a_position_is_none():
    """A broker writes both numbers or neither."""
    assert (
        decode_cursor(
            ManagedCursorInfo(cursorsLedgerId=4, markDeleteLedgerId=3).SerializeToString(), "s"
        ).mark_delete
        is None
    )


@pytest.mark.parametrize("recorded", [{"entries": -1}, {"size": -1}])
def test_less_than_nothing_is_refused(recorded: dict[str, int]):
    """Of entries and of bytes."""
    info = ManagedLedgerInfo()
    info.ledgerInfo.add(ledgerId=3, **recorded)
    with pytest.raises(MalformedMetadata, match="less than nothing"):
        decode_managed_ledger(info.SerializeToString())


def test_a_znode_without_bytes_is_a_topic_without_ledgers():
    """So Pulsar creates it."""
    assert ManagedLedger() == decode_managed_ledger(b"")


def test_a_ledger_is_deleted_on_purpose_only_when_it_is_offloaded():
    """`bookkeeperDeleted` alone excuses nothing."""
    info = ManagedLedgerInfo()
    info.ledgerInfo.add(ledgerId=3).offloadContext.bookkeeperDeleted = True
    assert not decode_managed_ledger(info.SerializeToString()).ledgers[0].bookkeeper_deleted


@pytest.mark.parametrize("ids", [(3, 3), (-1,)])
def test_contradicting_ledgers_are_refused(ids: tuple[int, ...]):
    """Twice the same ledger, and no ledger at all."""
    info = ManagedLedgerInfo()
    for ledger_id in ids:
        info.ledgerInfo.add(ledgerId=ledger_id)
    with pytest.raises(MalformedMetadata):
        decode_managed_ledger(info.SerializeToString())


def test_a_cursor_that_was_closed_references_no_ledger():
    """-1 says that the position is in the znode."""
    assert Cursor(None, Position(5, 3)) == decode_cursor(
        encode_cursor(Cursor(None, Position(5, 3))), "s"
    )


def test_the_references_of_a_topic_are_all_that_it_needs_in_bookkeeper():
    """Data, cursors, the compacted ledger, schemas: each once, and not what was deleted on
    purpose.
    """
    managed = ManagedLedger(
        (
            DataLedger(1, 5, offloaded=True, bookkeeper_deleted=True),
            DataLedger(2, 5, offloaded=True),
        )
    )
    subscriptions = (
        Subscription("mine", Cursor(8, Position(2, 1))),
        Subscription("__compaction", Cursor(None, Position(2, 1), compacted_ledger_id=9)),
        Subscription("unknown", None, "why"),
    )
    schemas = (SchemaVersion(0, Position(4, 0)), SchemaVersion(1, Position(4, 1)))
    name = TopicName("t", "", "n", "x")
    record = TopicRecord(name, 0, TopicStatus.FOUND, managed, subscriptions, schemas)
    assert [
        (2, Role.DATA, ""),
        (8, Role.CURSOR, "mine"),
        (9, Role.COMPACTED, "__compaction"),
        (4, Role.SCHEMA, ""),
    ] == list(references(record))

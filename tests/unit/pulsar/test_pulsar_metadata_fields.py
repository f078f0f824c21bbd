"""The table of what is read of Pulsar's stored fields has every field of our own messages, and what
it calls unread is counted.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor

from auditor.model.topic import Unread
from auditor.pulsar.metadata import (
    PULSAR_FIELDS,
    Use,
    decode_cursor,
    decode_managed_ledger,
    decode_schemas,
)
from auditor.wire.generated import managed_ledger_pb2
from auditor.wire.generated.managed_ledger_pb2 import (
    ManagedCursorInfo,
    ManagedLedgerInfo,
    SchemaLocator,
)

OURS = {
    "SchemaIndexEntry": ("SchemaStorageFormat", "IndexEntry"),
    "SchemaLocator": ("SchemaStorageFormat", "SchemaLocator"),
    "CompressionHeader": ("MLDataFormats", "ManagedLedgerInfoMetadata"),
}
"""Our messages with another name than Pulsar's, or from another file than MLDataFormats."""
IN_LEDGERS = {"PositionInfo", "LongListMap", "SchemaEntry"}
"""Messages that Pulsar writes into entries, which no audit decodes."""
UNKNOWN_FIELD = b"\x98\x06\x01"
"""Field 99 with the number 1."""


def descriptors() -> Iterator[Descriptor]:
    """Yield our messages, also those inside others."""
    for one in managed_ledger_pb2.DESCRIPTOR.message_types_by_name.values():
        yield one
        yield from one.nested_types


def table_of(message: Descriptor) -> dict[str, Any]:
    """Return the rows of one of our messages."""
    name = message.full_name.removeprefix("auditor.wire.")
    file, theirs = OURS.get(name, ("MLDataFormats", name))
    return dict(PULSAR_FIELDS[file][theirs])


@pytest.mark.parametrize("message", descriptors(), ids=lambda one: str(one.name))
def test_the_table_has_every_field_of_our_messages(message: Descriptor) -> None:
    """And no other field."""
    assert {field.name for field in message.fields} == set(table_of(message))


def test_what_is_called_read_can_be_read() -> None:
    """Each message with a field that is read is one of ours."""
    ours = {one.full_name.removeprefix("auditor.wire.") for one in descriptors()}
    ours |= {theirs for _, theirs in OURS.values()} | {"ManagedCursorInfoMetadata"}
    read = {
        message
        for messages in PULSAR_FIELDS.values()
        for message, fields in messages.items()
        if Use.READ in fields.values()
    }
    assert read - {"PositionInfo"} <= ours, "the PositionInfo of schemas is our NestedPositionInfo"


def test_every_kind_of_unread_thing_has_a_field() -> None:
    """Except fields that nobody knows."""
    tables = (table.values() for table in PULSAR_FIELDS.values())
    found = {use for table in itertools.chain(*tables) for use in table.values()}
    assert set(Unread) - {Unread.UNKNOWN_FIELD} == {one for one in found if one in set(Unread)}


def counts_of_topic(change: Any) -> Counter[Unread]:
    info, unread = ManagedLedgerInfo(), Counter[Unread]()
    change(info, info.ledgerInfo.add(ledgerId=5))
    decode_managed_ledger(info.SerializeToString(), unread)
    return +unread


def counts_of_cursor(change: Any, ledger_id: int = -1) -> Counter[Unread]:
    info, unread = ManagedCursorInfo(cursorsLedgerId=ledger_id), Counter[Unread]()
    change(info)
    decode_cursor(info.SerializeToString(), "s", unread)
    return +unread


def test_what_is_not_read_of_a_topic_is_counted() -> None:
    """Properties of the topic and of its ledgers, and where an offloaded ledger is."""
    assert {} == counts_of_topic(lambda info, ledger: None)
    found = counts_of_topic(lambda info, ledger: ledger.properties.add(key="a", value="7"))
    assert {Unread.PROPERTY: 1} == found
    found = counts_of_topic(lambda info, ledger: info.properties.add(key="a", value="7"))
    assert {Unread.PROPERTY: 1} == found

    def offload(info: Any, ledger: Any) -> None:
        ledger.offloadContext.complete = True

    assert {Unread.OFFLOADED_COPY: 1} == counts_of_topic(offload)


def test_what_is_not_read_of_a_subscription_is_counted() -> None:
    """Its newest position while it has a ledger, batches acknowledged in part, properties."""
    assert {} == counts_of_cursor(lambda info: None)
    assert {Unread.NEWEST_POSITION: 1} == counts_of_cursor(lambda info: None, 9)
    found = counts_of_cursor(lambda info: info.properties.add(name="CompactedTopicLedger", value=7))
    assert {Unread.PROPERTY: 1} == found, "no broker reads it from another subscription"
    found = counts_of_cursor(lambda info: info.cursorProperties.add(name="a", value="7"))
    assert {Unread.PROPERTY: 1} == found

    def acknowledge(info: Any) -> None:
        info.batchedEntryDeletionIndexInfo.add().position.MergeFromString(b"\x08\x05\x10\x03")

    assert {Unread.BATCH_ACKNOWLEDGEMENT: 1} == counts_of_cursor(acknowledge)


def test_a_field_that_nobody_knows_is_counted() -> None:
    """Also one inside a message that is read."""

    def inside(info: Any, ledger: Any) -> None:
        ledger.MergeFromString(UNKNOWN_FIELD)

    assert {Unread.UNKNOWN_FIELD: 1} == counts_of_topic(inside)
    cursor = counts_of_cursor(lambda info: info.MergeFromString(UNKNOWN_FIELD))
    assert {Unread.UNKNOWN_FIELD: 1} == cursor
    locator, unread = SchemaLocator(), Counter[Unread]()
    locator.info.version = 0
    locator.info.position.MergeFromString(b"\x08\x05\x10\x03" + UNKNOWN_FIELD)
    decode_schemas(locator.SerializeToString(), unread)
    assert {Unread.UNKNOWN_FIELD: 1, Unread.SCHEMA_INDEX: 1} == +unread

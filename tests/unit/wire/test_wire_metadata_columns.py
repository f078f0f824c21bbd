"""Metadata decoded in columns: what is plain is read as the reference reads it, whatever stands
beside it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.decoded_columns import row_alone, rows_in_columns
from support.drawn_metadata import INT64, LEDGERS, damaged

from auditor.model.ledger import DigestType, LedgerMetadata, LedgerState, Segment
from auditor.wire import ledger_metadata, metadata_columns
from auditor.wire.generated.data_formats_pb2 import LedgerMetadataFormat
from auditor.wire.metadata_columns import MetadataDecoder

PLAIN = LedgerMetadata(
    format_version=3,
    state=LedgerState.CLOSED,
    ensemble_size=3,
    write_quorum=3,
    ack_quorum=2,
    last_entry_id=2**40,
    length=2**50,
    segments=(Segment(0, ("b1:3181", "b2:3181", "b3:3181")),),
    digest_type=DigestType.CRC32C,
    ctime_ms=1_700_000_000_000,
    custom_metadata=(("application", b"pulsar"), ("pulsar/managed-ledger", b"a/b/persistent/c")),
)
SHAPES = {
    "plain": PLAIN,
    "open": replace(PLAIN, state=LedgerState.OPEN, last_entry_id=-1, length=0),
    "in recovery": replace(PLAIN, state=LedgerState.IN_RECOVERY, last_entry_id=None),
    "empty": replace(PLAIN, last_entry_id=-1, length=0),
    "two segments": replace(PLAIN, segments=(*PLAIN.segments, Segment(9, ("b4", "b2", "b3")))),
    "no segment": replace(PLAIN, segments=()),
    "no bookie": replace(PLAIN, segments=(Segment(7, ()),)),
    "no creation time": replace(PLAIN, ctime_ms=None),
    "no custom metadata": replace(PLAIN, custom_metadata=()),
    "no digest": replace(PLAIN, digest_type=None),
}
"""What BookKeeper writes. Each must be decoded in columns."""


def encoded(metadata: LedgerMetadata, ctoken: int = 0) -> bytes:
    secret = b"" if metadata.digest_type is None else b"secret"
    return ledger_metadata.encode(metadata, password=secret, ctoken=ctoken)


def test_what_bookkeeper_writes_is_plain() -> None:
    """Each shape is decoded beside all others, as the reference decodes it."""
    znodes = [encoded(metadata, ctoken) for metadata in SHAPES.values() for ctoken in (0, -1)]
    rows = rows_in_columns(znodes)
    assert None not in rows
    assert [row_alone(place, data) for place, data in enumerate(znodes)] == rows


def message(**changes: object) -> bytes:
    """Return a znode whose message has these values, with its fields in the order of their
    numbers.
    """
    values: dict[str, object] = {
        "quorumSize": 1,
        "ensembleSize": 1,
        "length": 0,
        "state": LedgerMetadataFormat.CLOSED,
        **changes,
    }
    body = LedgerMetadataFormat(**values).SerializePartialToString()
    return ledger_metadata.HEADER_3 + bytes([len(body)]) + body


def body_of(hexadecimal: str) -> bytes:
    body = bytes.fromhex(hexadecimal)
    return ledger_metadata.HEADER_3 + bytes([len(body)]) + body


def test_what_is_not_written_has_the_values_of_the_reference() -> None:
    """An absent ack quorum is the write quorum, and a password without a type means CRC32."""
    znodes = [message(), message(password=b""), message(digestType=4), message(ackQuorumSize=0)]
    rows = rows_in_columns(znodes)
    assert [row_alone(place, data) for place, data in enumerate(znodes)] == rows
    assert [None, 1, 4, None] == [row and row["digest_type"] for row in rows]
    assert [1, 1, 1, 0] == [row and row["ack_quorum"] for row in rows]


NOT_PLAIN = {
    "format 1": ledger_metadata.encode(PLAIN, version=1),
    "format 2": ledger_metadata.encode(PLAIN, version=2),
    "a sign before the version": encoded(PLAIN).replace(b"\t3\n", b"\t+3\n"),
    "bytes behind the message": encoded(PLAIN) + b"\0",
    "a message that is cut": encoded(PLAIN)[:-1],
    "nothing": b"",
    "only a header": ledger_metadata.HEADER_3,
    "an unknown field": body_of("0801 1001 1800 2803 6801"),
    "a field in another place": body_of("1001 0801 1800 2803"),
    "a field twice": body_of("0801 0801 1001 1800 2803"),
    "no length": body_of("0801 1001 2803"),
    "a state nobody knows": body_of("0801 1001 1800 2804"),
    "no state": body_of("0801 1001 1800"),
    "a digest type nobody knows": body_of("0801 1001 1800 2803 3805"),
    "a negative quorum": message(quorumSize=-1),
    "a quorum of more than 32 bits": body_of("08ffffffff7f 1001 1800 2803"),
    "a number of eleven bytes": body_of("0801 1001 18ffffffffffffffffffff01 2803"),
    "a number of more than 64 bits": body_of("0801 1001 18ffffffffffffffffff03 2803"),
    "a number that does not end": body_of("0801 1001 2803 2080"),
    "a segment without a first entry": body_of("0801 1001 1800 2803 3203 0a0162"),
    "a segment that is cut": body_of("0801 1001 1800 2803 3204 0a0162 1000"),
    "a member that is longer than its segment": body_of("0801 1001 1800 2803 3203 0a0362 1000 30"),
    "a member that is no bookie id": body_of("0801 1001 1800 2803 3205 0a012f 1000"),
    "a member that is not ASCII": body_of("0801 1001 1800 2803 3205 0a01ff 1000"),
    "a key that is not UTF-8": body_of("0801 1001 1800 2803 5a06 0a01ff 120178"),
    "a key without a value": body_of("0801 1001 1800 2803 5a03 0a0161"),
    "a value that is longer than its entry": body_of("0801 1001 1800 2803 5a06 0a0161 120578"),
    "many segments": encoded(
        replace(PLAIN, segments=PLAIN.segments * (metadata_columns.SEGMENTS_MAX + 1))
    ),
    "many bookies": encoded(
        replace(PLAIN, segments=(Segment(0, ("b",) * (metadata_columns.MEMBERS_MAX + 1)),))
    ),
    "much custom metadata": encoded(
        replace(PLAIN, custom_metadata=(("k", b"v"),) * (metadata_columns.CUSTOM_MAX + 1))
    ),
}


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_what_differs_in_anything_is_not_plain(name: str) -> None:
    """It is left to the reference, and the ledgers beside it are read."""
    before, odd, after = rows_in_columns([encoded(PLAIN), NOT_PLAIN[name], encoded(PLAIN)])
    assert odd is None
    assert [row_alone(place, encoded(PLAIN)) for place in (0, 2)] == [before, after]


@settings(deadline=None, print_blob=True)
@given(st.lists(LEDGERS, min_size=1, max_size=5), INT64, st.data())
def test_what_is_plain_equals_the_reference(
    ledgers: list[LedgerMetadata], ctoken: int, data: st.DataObject
) -> None:
    """Whatever was written, and whatever happened to the bytes since: what the reference refuses is
    never plain, and else all values are those of the reference.
    """
    znodes = [
        damaged(ledger_metadata.encode(ledger, password=b"s", ctoken=ctoken), data, edits_min=0)
        for ledger in ledgers
    ]
    for place, row in enumerate(rows_in_columns(znodes)):
        assert row is None or row == row_alone(place, znodes[place])


@settings(deadline=None, print_blob=True)
@given(st.lists(st.binary(max_size=60), max_size=5))
def test_arbitrary_messages_raise_nothing(bodies: list[bytes]) -> None:
    """Behind a right header and size, anything may follow."""
    znodes = [ledger_metadata.HEADER_3 + bytes([len(body)]) + body for body in bodies]
    for place, row in enumerate(rows_in_columns(znodes)):
        assert row is None or row == row_alone(place, znodes[place])


def test_names_are_remembered_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of names is bounded, and a name means the same before and after."""
    monkeypatch.setattr(metadata_columns, "NAMES_MAX", 3)
    decoder = MetadataDecoder()
    for first in range(0, 20, 5):
        bookies = [f"b{first + number}" for number in (0, 1, 2, 0, 3)]
        znodes = [encoded(replace(PLAIN, segments=(Segment(0, (one,)),))) for one in bookies]
        rows = rows_in_columns(znodes, decoder)
        assert bookies == [row and row["segments"][0]["ensemble"][0] for row in rows]


def test_a_name_that_is_none_is_remembered_as_such() -> None:
    """A second batch with the same bytes is not plain either."""
    decoder = MetadataDecoder()
    bad, good = NOT_PLAIN["a member that is no bookie id"], encoded(PLAIN)
    for _ in range(2):
        assert [False, True, False] == [
            row is not None for row in rows_in_columns([bad, good, bad], decoder)
        ]


def test_no_message_is_no_row() -> None:
    """An empty batch is decoded too."""
    assert [] == rows_in_columns([])

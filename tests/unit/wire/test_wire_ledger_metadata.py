"""Ledger metadata: what BookKeeper's own serializer wrote, what its parser refuses, and what must
never be shown.
"""

# The expected value comes first, which ruff calls Yoda.
from __future__ import annotations

import hashlib
import pickle
import traceback
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn_metadata import INT64, LEDGERS, damaged

from auditor.errors import MalformedMetadata, UnknownMetadataFormat
from auditor.model.ledger import DigestType, LedgerMetadata, LedgerState, Malformed, Segment
from auditor.wire import ledger_metadata
from auditor.wire.generated.data_formats_pb2 import LedgerMetadataFormat

HDR1, HDR2, HDR3 = (
    bytes.fromhex(f"426f6f6b69654d65746164617461466f726d617456657273696f6e093{n}0a")
    for n in (1, 2, 3)
)
B123 = ("b1:3181", "b2:3181", "b3:3181")
B143 = ("b1:3181", "b4:3181", "b3:3181")
MEMBERS_123 = "0a0762313a33313831 0a0762323a33313831 0a0762333a33313831"
MEMBERS_143 = "0a0762313a33313831 0a0762343a33313831 0a0762333a33313831"

CLOSED = LedgerMetadata(
    format_version=3,
    state=LedgerState.CLOSED,
    ensemble_size=3,
    write_quorum=2,
    ack_quorum=2,
    last_entry_id=29,
    length=80,
    segments=(Segment(0, B123), Segment(10, B143)),
    digest_type=DigestType.CRC32C,
    custom_metadata=(("application", b"pulsar"),),
)
OPEN = replace(
    CLOSED,
    state=LedgerState.OPEN,
    last_entry_id=-1,
    length=0,
    segments=(Segment(0, B123),),
    custom_metadata=(),
)
IN_RECOVERY = replace(OPEN, state=LedgerState.IN_RECOVERY)
EMPTY = replace(OPEN, state=LedgerState.CLOSED)

V3_CLOSED = HDR3 + bytes.fromhex(
    f"69 0802 1003 1850 201d 2803 321d {MEMBERS_123} 1000 321d {MEMBERS_143} 100a"
    "3803 42027077 4802 5a15 0a0b6170706c69636174696f6e 120670756c736172 6000"
)
V3_OPEN_WITH_CTOKEN = HDR3 + bytes.fromhex(
    f"44 0802 1003 1800 20ffffffffffffffffff01 2801 321d {MEMBERS_123} 1000 3803 42027077 4802"
    " 60888e98a8c0e0808101"
)
V3_IN_RECOVERY = HDR3 + bytes.fromhex(
    f"3c 0802 1003 1800 20ffffffffffffffffff01 2802 321d {MEMBERS_123} 1000 3803 42027077 4802 6000"
)
V3_EMPTY = V3_IN_RECOVERY.replace(bytes.fromhex("2802"), bytes.fromhex("2803"))
V3_WITH_CTIME = HDR3 + bytes.fromhex(
    f"43 0802 1003 1800 20ffffffffffffffffff01 2803 321d {MEMBERS_123} 1000 3803 42027077 4802"
    " 5080d095ffbc31 6000"
)
V2_CLOSED = (
    HDR2
    + b"""quorumSize: 2
ensembleSize: 3
length: 80
lastEntryId: 29
state: CLOSED
segment {
  ensembleMember: "b1:3181"
  ensembleMember: "b2:3181"
  ensembleMember: "b3:3181"
  firstEntryId: 0
}
segment {
  ensembleMember: "b1:3181"
  ensembleMember: "b4:3181"
  ensembleMember: "b3:3181"
  firstEntryId: 10
}
digestType: CRC32C
password: "pw"
ackQuorumSize: 2
customMetadata {
  key: "application"
  value: "pulsar"
}
"""
)
V1_OPEN = b"BookieMetadataFormatVersion\t1\n2\n3\n0\n0\tb1:3181\tb2:3181\tb3:3181\n"
V1_CLOSED = (
    HDR1 + b"2\n3\n80\n0\tb1:3181\tb2:3181\tb3:3181\n10\tb1:3181\tb4:3181\tb3:3181\n29\tCLOSED"
)
V1_IN_RECOVERY = HDR1 + b"1\n1\n0\n0\tb1:3181\n-102\tCLOSED"


def as_v1(metadata: LedgerMetadata) -> LedgerMetadata:
    """What is left of it in format 1."""
    last = metadata.last_entry_id if metadata.state is LedgerState.CLOSED else None
    return replace(
        metadata,
        format_version=1,
        ack_quorum=metadata.write_quorum,
        last_entry_id=last,
        digest_type=None,
        ctime_ms=None,
        custom_metadata=(),
    )


V1_RECOVERING = replace(
    as_v1(IN_RECOVERY),
    ensemble_size=1,
    write_quorum=1,
    ack_quorum=1,
    segments=(Segment(0, ("b1:3181",)),),
)

EXAMPLES = {
    "v3 closed": (V3_CLOSED, CLOSED, {}),
    "v3 open": (V3_OPEN_WITH_CTOKEN, OPEN, {"ctoken": 0x0102030405060708}),
    "v3 in recovery": (V3_IN_RECOVERY, IN_RECOVERY, {}),
    "v3 empty": (V3_EMPTY, EMPTY, {}),
    "v3 ctime": (V3_WITH_CTIME, replace(EMPTY, ctime_ms=1_700_000_000_000), {}),
    "v2 closed": (V2_CLOSED, replace(CLOSED, format_version=2), {}),
    "v1 open": (V1_OPEN, as_v1(OPEN), {}),
    "v1 closed": (V1_CLOSED, as_v1(CLOSED), {}),
    "v1 in recovery": (V1_IN_RECOVERY, V1_RECOVERING, {}),
}


def example(name: str) -> tuple[bytes, LedgerMetadata, dict[str, int]]:
    return EXAMPLES[name]


def v3(message: LedgerMetadataFormat) -> bytes:
    """A version 3 znode around whatever message a test makes, complete or not (shorter than 128
    bytes).
    """
    body = message.SerializePartialToString()
    assert len(body) < 128
    return HDR3 + bytes([len(body)]) + body


def message(**changes: object) -> LedgerMetadataFormat:
    """A sound one-bookie ledger as a message; None leaves a field out."""
    sound = {
        "quorumSize": 1,
        "ensembleSize": 1,
        "length": 0,
        "lastEntryId": 5,
        "state": LedgerMetadataFormat.CLOSED,
    }
    made = LedgerMetadataFormat(
        **{name: value for name, value in (sound | changes).items() if value is not None}
    )
    made.segment.add(ensembleMember=["b1:3181"], firstEntryId=0)
    return made


@pytest.mark.parametrize("name", EXAMPLES)
def test_decodes_what_bookkeeper_wrote(name: str) -> None:
    """Bytes of BookKeeper's own serializer mean the ledger they were made from."""
    data, metadata, _ = example(name)
    assert metadata == ledger_metadata.decode(data)


@pytest.mark.parametrize("name", EXAMPLES)
def test_encodes_byte_for_byte_as_bookkeeper(name: str) -> None:
    """The bytes written for a ledger are the ones that BookKeeper's serializer wrote."""
    data, metadata, extra = example(name)
    secret = b"pw" if metadata.digest_type is not None else b""
    assert data == ledger_metadata.encode(metadata, password=secret, **extra)


def test_lengths_of_the_worked_examples() -> None:
    """The worked examples have the sizes measured when they were produced: a slip in copying them
    shows.
    """
    assert [136, 99, 91] == [len(V3_CLOSED), len(V3_OPEN_WITH_CTOKEN), len(V3_IN_RECOVERY)]


def test_a_version_can_be_asked_for() -> None:
    """`version` overrides the version the metadata was read from."""
    assert V2_CLOSED == ledger_metadata.encode(CLOSED, password=b"pw", version=2)
    assert V1_CLOSED == ledger_metadata.encode(CLOSED, version=1)


@pytest.mark.parametrize(
    ("length", "written", "password_length"),
    [(127, "7f", 1), (128, "8001", 1), (130, "8201", 1), (16_384, "808001", 2)],
)
def test_a_long_message_has_a_longer_length(
    length: int, written: str, password_length: int
) -> None:
    """Seven bits a byte, the low ones first: one byte up to 127, two up to 16383."""
    padding = length - len(ledger_metadata.encode(EMPTY)) + len(HDR3) + 2 - password_length
    data = ledger_metadata.encode(EMPTY, password=b"x" * padding)
    assert bytes.fromhex(written) == data[len(HDR3) : len(HDR3) + len(written) // 2]
    assert EMPTY == ledger_metadata.decode(data)


# --- the header ---


NO_MAGIC = "the header does not begin with BookieMetadataFormatVersion and a TAB"
NO_LF = "no LF within 10 characters of the format version"
NO_NUMBER = "the format version is not a number"


@pytest.mark.parametrize(
    ("data", "offset", "reason"),
    [
        (b"", 0, NO_MAGIC),
        (b"Bookie", 6, NO_MAGIC),
        (b"BookieMetadataFormatVersion 3\n", 27, NO_MAGIC),
        (b"something else entirely, but long enough to have a header", 0, NO_MAGIC),
        (b"BookieMetadataFormatVersion\t3", 28, NO_LF),
        (b"BookieMetadataFormatVersion\t00000000003\n", 28, NO_LF),
        (b"BookieMetadataFormatVersion\t\n", 28, NO_NUMBER),
        (b"BookieMetadataFormatVersion\t+\n", 28, NO_NUMBER),
        (b"BookieMetadataFormatVersion\tx\n", 28, NO_NUMBER),
        (b"BookieMetadataFormatVersion\t3 \n", 28, NO_NUMBER),
        (b"BookieMetadataFormatVersion\t0\n", 28, "there is no metadata format version 0"),
        (b"BookieMetadataFormatVersion\t-1\n", 28, "there is no metadata format version -1"),
        (b"BookieMetadataFormatVersion\t2147483648\n", 28, NO_NUMBER),
    ],
)
def test_a_bad_header_is_malformed(data: bytes, offset: int, reason: str) -> None:
    """A header that BookKeeper refuses is malformed, at the byte where it goes wrong, and what is
    wrong there is reported.
    """
    with pytest.raises(MalformedMetadata) as error:
        ledger_metadata.decode(data)
    assert (offset, reason) == (error.value.offset, error.value.reason)


@pytest.mark.parametrize("version", [4, 5, 99, 2147483647])
def test_a_newer_version_is_unknown_not_malformed(version: int) -> None:
    """A version above 3 is our ignorance, not the cluster's fault."""
    with pytest.raises(UnknownMetadataFormat) as error:
        ledger_metadata.decode(b"BookieMetadataFormatVersion\t%d\nanything" % version)
    assert version == error.value.version


@pytest.mark.parametrize(
    ("data", "as_if"),
    [
        (V2_CLOSED.replace(b"\t2\n", b"\t+2\n", 1), V2_CLOSED),
        (V3_CLOSED.replace(b"\t3\n", b"\t03\n", 1), V3_CLOSED),
        (V3_CLOSED.replace(b"\t3\n", b"\t0000000003\n", 1), V3_CLOSED),
        (V1_CLOSED.replace(b"\t1\n", b"\t+1\n", 1), V1_CLOSED),
    ],
)
def test_a_version_is_a_java_integer(data: bytes, as_if: bytes) -> None:
    """`+2` and `03` are versions 2 and 3, up to ten characters."""
    assert ledger_metadata.decode(as_if) == ledger_metadata.decode(data)


# --- version 3 ---


@pytest.mark.parametrize("cut", range(len(HDR3), len(V3_CLOSED)))
def test_a_truncated_message_is_malformed(cut: int) -> None:
    """However a version 3 message is cut short, that is noticed, and the offset lies within what is
    there.
    """
    with pytest.raises(MalformedMetadata) as error:
        ledger_metadata.decode(V3_CLOSED[:cut])
    assert len(HDR3) <= error.value.offset <= cut


def test_a_message_of_length_zero_lacks_its_fields() -> None:
    """An empty version 3 message has none of the required fields, and the error names them, at its
    end.
    """
    with pytest.raises(MalformedMetadata, match="quorumSize, ensembleSize, length, state") as error:
        ledger_metadata.decode(HDR3 + b"\0 and more")
    assert len(HDR3) + 1 == error.value.offset


def test_bytes_after_the_message_are_ignored() -> None:
    """As in Java: what follows a version 3 message means nothing."""
    assert CLOSED == ledger_metadata.decode(V3_CLOSED + b"\xff garbage")


@pytest.mark.parametrize("name", ["quorumSize", "ensembleSize", "length", "state"])
def test_each_required_field_is_missed(name: str) -> None:
    """A message without a required field is malformed, by name."""
    with pytest.raises(MalformedMetadata, match=f"missing: {name}$"):
        ledger_metadata.decode(v3(message(**{name: None})))


def test_a_segment_without_its_first_entry_is_malformed() -> None:
    """`firstEntryId` is required in each segment."""
    made = message()
    made.segment.add(ensembleMember=["b2:3181"])
    with pytest.raises(MalformedMetadata, match=r"missing: segment\[1\]\.firstEntryId$"):
        ledger_metadata.decode(v3(made))


def test_a_state_nobody_knows_is_a_missing_state() -> None:
    """An enum value that proto2 does not know is as good as absent."""
    with pytest.raises(MalformedMetadata, match=r"missing: state$"):
        ledger_metadata.decode(HDR3 + bytes.fromhex("08 0801 1001 1800 2807"))


@pytest.mark.parametrize(
    ("body", "offset"),
    [
        ("0801 1001 07", 4),  # a wire type that is none
        ("0801 1001 00", 4),  # field number 0
        ("0801 10ffffffffffffffffffff01", 3),  # a varint that does not end
        ("0801 1001 3205 0a", 4),  # a segment longer than the message
        ("0801 1001 3203 0a0562", 6),  # a member longer than its segment
        ("0801 1001 0c", 4),  # a group that ends before it began
        ("0801 1001 0b", 5),  # a group that never ends
        ("0801 1001 3d0000", 4),  # four bytes announced, two there
        ("0801 1001 8080808010 00", 4),  # field number 2^29
        ("0801 1001 f8ffffff0f 00 07", 10),  # the largest field number, then no wire type
        ("0801 1001 5a03 0a0562", 6),  # a key longer than its entry of custom metadata
        ("0801 1001 4201ff 3203 0a0562", 9),  # a password is not looked into
        ("0801 1001 3001 3203 0a0562", 8),  # nor is a number where a segment should be
        (
            "0801 1001" + "0b" * 100 + "07",
            104,
        ),  # as many groups as protobuf opens, and no wire type
        ("0801 1001" + "0b" * 101 + "07", 104),  # one more
        ("0801 1001 0b14", 0),  # a group with the end of another: no one byte is wrong
    ],
)
def test_the_offset_points_at_the_broken_byte(body: str, offset: int) -> None:
    """The position at which protobuf fails is found again and reported, relative to the whole
    znode.
    """
    raw = bytes.fromhex(body)
    with pytest.raises(MalformedMetadata) as error:
        ledger_metadata.decode(HDR3 + bytes([len(raw)]) + raw)
    assert len(HDR3) + 1 + offset == error.value.offset


def test_a_length_that_does_not_end_is_malformed() -> None:
    """Ten bytes with the high bit set are no length."""
    with pytest.raises(
        MalformedMetadata, match="the length of the message cannot be read"
    ) as error:
        ledger_metadata.decode(HDR3 + b"\xff" * 20)
    assert len(HDR3) == error.value.offset


# --- contradictions are reported as written ---


@pytest.mark.parametrize(
    "metadata",
    [
        replace(CLOSED, write_quorum=5),
        replace(CLOSED, ack_quorum=3),
        replace(CLOSED, segments=(Segment(10, B143), Segment(0, B123))),
        replace(CLOSED, segments=(Segment(0, B123), Segment(0, B143))),
        replace(CLOSED, segments=(Segment(0, B123[:2]),)),
        replace(CLOSED, segments=(Segment(0, ()),)),
        replace(CLOSED, segments=()),
        replace(CLOSED, segments=(Segment(7, B123),)),
        replace(CLOSED, segments=(Segment(0, ("b1:3181",) * 3),)),
        replace(CLOSED, write_quorum=0, ack_quorum=0),
        replace(CLOSED, ensemble_size=-1, write_quorum=-2, ack_quorum=-3),
        replace(CLOSED, last_entry_id=-7, length=-80, segments=(Segment(-5, B123),)),
        replace(CLOSED, last_entry_id=None),
    ],
    ids=[
        "W>E", "A>W", "unsorted", "duplicate first", "wrong size", "no member", "no segment",
        "not from 0", "same bookie",
        "W=0", "negative sizes", "negative ids", "closed without last",
    ],
)  # fmt: skip
@pytest.mark.parametrize("version", [2, 3])
def test_contradictions_are_reported_as_written(metadata: LedgerMetadata, version: int) -> None:
    """Decoding does not judge: what contradicts itself comes out as it went in."""
    metadata = replace(metadata, format_version=version)
    assert metadata == ledger_metadata.decode(ledger_metadata.encode(metadata))


def test_an_absent_ack_quorum_is_the_write_quorum() -> None:
    """Without ackQuorumSize A is W."""
    assert 3 == ledger_metadata.decode(v3(message(ensembleSize=3, quorumSize=3))).ack_quorum


def test_a_password_without_a_digest_type_means_crc32() -> None:
    """As in Java: password without digestType reads as CRC32; neither means none."""
    assert DigestType.CRC32 == ledger_metadata.decode(v3(message(password=b"pw"))).digest_type
    assert ledger_metadata.decode(v3(message())).digest_type is None


def test_a_digest_type_newer_than_ours_is_unknown_and_not_crc32() -> None:
    """Else every entry of the ledger would be read as corrupt: what cannot be verified is not
    wrong.
    """
    newer = message(password=b"pw").SerializeToString() + bytes([7 << 3, 9])  # digestType = 9
    data = b"BookieMetadataFormatVersion\t3\n" + bytes([len(newer)]) + newer
    assert ledger_metadata.decode(data).digest_type is None


@pytest.mark.parametrize("digest_type", DigestType)
@pytest.mark.parametrize("version", [2, 3])
def test_each_digest_type_is_read(digest_type: DigestType, version: int) -> None:
    """All four digest types come back."""
    data = ledger_metadata.encode(replace(CLOSED, digest_type=digest_type), version=version)
    assert digest_type == ledger_metadata.decode(data).digest_type


def test_a_custom_key_that_is_not_utf8_is_no_fault() -> None:
    """As in Java: such a key is shown with replacement characters, and the ledger is read."""
    body = message().SerializeToString() + bytes.fromhex("5a06 0a02ff41 1200")
    assert (("\N{REPLACEMENT CHARACTER}A", b""),) == ledger_metadata.decode(
        HDR3 + bytes([len(body)]) + body
    ).custom_metadata


# --- bookie ids ---


@pytest.mark.parametrize(
    "bad", ["a/b:1", "", "readonly", "ReadOnly", "b 1:3181", "b1\n:3181", "bé:1"]
)
@pytest.mark.parametrize("version", [2, 3])
def test_a_member_that_is_no_bookie_id_is_malformed(bad: str, version: int) -> None:
    """An id BookKeeper would refuse makes the metadata malformed, at the place of that very
    member.
    """
    made = replace(CLOSED, segments=(Segment(0, B123), Segment(10, ("b1:3181", bad, "b3:3181"))))
    data = ledger_metadata.encode(made, version=version)
    with pytest.raises(
        MalformedMetadata, match="segment 2: ensemble position 1 is not a bookie id"
    ) as error:
        ledger_metadata.decode(data)
    there = data[error.value.offset :]
    assert there.startswith(bad.encode() if version == 3 else b"ensembleMember: ")
    assert error.value.offset > data.index(b"b3:3181")


def test_a_member_that_is_not_utf8_is_malformed() -> None:
    """Bytes that are no text are no bookie id."""
    body = bytes.fromhex("0801 1001 1800 2803 3206 0a02ff41 1000")
    with pytest.raises(MalformedMetadata, match="segment 1: ensemble position 0") as error:
        ledger_metadata.decode(HDR3 + bytes([len(body)]) + body)
    assert b"\xffA" == (HDR3 + bytes([len(body)]) + body)[error.value.offset :][:2]


def test_a_member_is_found_behind_fields_nobody_knows() -> None:
    """The place of a member is reported if other fields are before it, with its number or a
    segment's and another type.
    """
    body = bytes.fromhex("4201ff 3001 0801 1001 1800 2803 320b 0801 7a0141 0a02ff41 1000")
    data = HDR3 + bytes([len(body)]) + body
    with pytest.raises(MalformedMetadata, match="segment 1: ensemble position 0") as error:
        ledger_metadata.decode(data)
    assert data.index(b"\xffA") == error.value.offset


def test_a_member_in_a_list_is_reported_with_the_text() -> None:
    """Text may have the members in brackets, which BookKeeper never writes: then only the beginning
    of the text is reported.
    """
    text = (
        b'quorumSize: 1 ensembleSize: 2 length: 0 state: OPEN segment { ensembleMember: ["b1:3181",'
        b' "a/b:1"] firstEntryId: 0 }'
    )
    with pytest.raises(MalformedMetadata, match="segment 1: ensemble position 1") as error:
        ledger_metadata.decode(HDR2 + text)
    assert len(HDR2) == error.value.offset


def test_an_id_need_not_be_an_address() -> None:
    """Since 4.12 any word may be a bookie id, with the odd characters that BookKeeper's pattern
    lets in.
    """
    odd = replace(CLOSED, segments=(Segment(0, ("bookie-7.rack_a", "a;<=>?@[\\]^", "rackX")),))
    for version in (1, 2, 3):
        assert (
            odd.segments
            == ledger_metadata.decode(ledger_metadata.encode(odd, version=version)).segments
        )


# --- version 2 ---


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        (b"quorumSize: 2\nnewField: 7\n", 14),
        (b"quorumSize: two\n", 12),
        (b"quorumSize: 2\nlength 8\n", 21),
        (b"quorumSize: 2\n\xff\n", 14),
        ('customMetadata { key: "é" value: 7 }'.encode(), 34),
    ],
)
def test_text_that_cannot_be_parsed_is_malformed_where_it_breaks(text: bytes, offset: int) -> None:
    """Unknown fields and unreadable text are malformed, at the line and column, counted in bytes of
    the znode.
    """
    with pytest.raises(MalformedMetadata) as error:
        ledger_metadata.decode(HDR2 + text)
    assert len(HDR2) + offset == error.value.offset


def test_text_without_required_fields_is_malformed() -> None:
    """Empty text has no quorum size, ensemble size, length or state."""
    with pytest.raises(MalformedMetadata, match="quorumSize, ensembleSize, length, state") as error:
        ledger_metadata.decode(HDR2)
    assert len(HDR2) == error.value.offset


def test_a_later_value_in_text_wins() -> None:
    """As in Java's TextFormat: a single field written twice has its last value."""
    assert 81 == ledger_metadata.decode(V2_CLOSED + b"length: 81\n").length


def test_the_password_is_escaped_in_text() -> None:
    """Bytes that are no printable ASCII are C escapes in version 2."""
    data = ledger_metadata.encode(CLOSED, password=b"\x01\xff\"'\\\n", version=2)
    assert rb"""password: "\001\377\"\'\\\n" """.strip() + b"\n" in data
    assert b"\x01\xff\"'\\\n" == ledger_metadata.password(data)


def test_a_key_is_escaped_in_text() -> None:
    """So is text: version 2 is ASCII throughout."""
    metadata = replace(
        CLOSED, format_version=2, custom_metadata=(("\N{LATIN SMALL LETTER E WITH ACUTE}", b""),)
    )
    data = ledger_metadata.encode(metadata)
    assert rb'key: "\303\251"' in data
    assert metadata == ledger_metadata.decode(data)


# --- version 1 ---


@pytest.mark.parametrize(
    ("lines", "offset"),
    [
        (b"", 0),
        (b"2\n", 2),
        (b"2\n3\n", 4),
        (b"two\n3\n80\n", 0),
        (b"2\n\n80\n", 2),
        (b"2\n3\n8 0\n", 4),
        (b"2147483648\n3\n80\n", 0),
        (b"2\n3\n9223372036854775808\n", 4),
        (b"2\n3\n80\n\n29\tCLOSED", 7),
        (b"2\n3\n80\n0\tb1:1\n\n", 14),
        (b"2\n3\n80\n0\n", 7),
        (b"2\n3\n80\n0\t\t\n", 7),
        (b"2\n3\n80\nzero\tb1:1\n", 7),
        (b"2\n3\n80\n0\tb1:1\ta/b:1\n", 14),
        (b"2\n3\n80\n0\tb1:1\t\tb2:1\n", 14),
        (b"2\n3\n80\n0\tb1:1\txx\tCLOSED\xff\n", 17),
        (b"2\n3\n80\nlast\tCLOSED", 7),
        (b"2\n3\n80\n0 b1:1\n", 7),
        (b"2\n3\n80\n0\tb1:1 \n", 9),
        (b"-2147483649\n3\n80\n", 0),
        (b"2\n2147483648\n80\n", 2),
        (b"2\n-2147483649\n80\n", 2),
        (b"2\n3\n-9223372036854775809\n", 4),
        (b"2\n3\n80\n9223372036854775808\tb1:1\n", 7),
        (b"2\n3\n80\n-9223372036854775809\tb1:1\n", 7),
    ],
)
def test_lines_that_cannot_be_read_are_malformed(lines: bytes, offset: int) -> None:
    """A missing, blank or unreadable line makes format 1 malformed, at that line or bookie."""
    with pytest.raises(MalformedMetadata) as error:
        ledger_metadata.decode(HDR1 + lines)
    assert len(HDR1) + offset == error.value.offset


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (b"two\n", "the write quorum is not a 32-bit number"),
        (b"2\nthree\n", "the ensemble size is not a 32-bit number"),
        (b"2\n3\nlong\n", "the length is not a 64-bit number"),
        (b"2\n3\n80\nzero\tb1:1\n", "an entry id is not a 64-bit number"),
        (b"2\n3\n", "truncated: the line with the length is missing"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(lines: bytes, reason: str) -> None:
    """The error has what is expected there, and never what is there."""
    with pytest.raises(MalformedMetadata) as error:
        ledger_metadata.decode(HDR1 + lines)
    assert reason == error.value.reason


def test_format_1_has_numbers_of_32_and_64_bits() -> None:
    """The first and the last of each can be said; quorum and ensemble have 32 bits, length and
    entry ids 64.
    """
    found = ledger_metadata.decode(
        HDR1 + b"-2147483648\n2147483647\n-9223372036854775808\n-9223372036854775808\tb1:1\n"
        b"9223372036854775807\tCLOSED"
    )
    assert (-(2**31), 2**31 - 1) == (found.write_quorum, found.ensemble_size)
    assert (-(2**63), -(2**63), 2**63 - 1) == (
        found.length,
        found.segments[0].first_entry_id,
        found.last_entry_id,
    )


def test_the_closing_line_ends_the_lines() -> None:
    """Nothing after `CLOSED` is read, whatever it is."""
    assert as_v1(CLOSED) == ledger_metadata.decode(V1_CLOSED + b"\n\n\xffanything")


def test_format_1_without_segments_is_reported_as_written() -> None:
    """No segment contradicts itself, and is judged elsewhere."""
    assert () == ledger_metadata.decode(HDR1 + b"2\n3\n80\n29\tCLOSED").segments


# --- round trips and fuzz ---


@settings(deadline=None, print_blob=True)
@given(LEDGERS, st.binary(), INT64)
def test_what_is_encoded_decodes_to_itself(
    metadata: LedgerMetadata, secret: bytes, ctoken: int
) -> None:
    """In each format, decoding an encoding gives the ledger back, less what format 1 has no place
    for.
    """
    data = ledger_metadata.encode(metadata, password=secret, ctoken=ctoken)
    if metadata.format_version > 1:
        assert metadata == ledger_metadata.decode(data)
        assert secret == ledger_metadata.password(data)
    elif not (metadata.state is LedgerState.CLOSED and metadata.last_entry_id == -102):
        assert as_v1(metadata) == ledger_metadata.decode(data)
        assert ledger_metadata.password(data) is None


def test_format_1_takes_minus_102_for_recovery() -> None:
    """The one last entry id that format 1 cannot say."""
    data = ledger_metadata.encode(replace(CLOSED, last_entry_id=-102), version=1)
    assert LedgerState.IN_RECOVERY == ledger_metadata.decode(data).state


SECRET = b"SeCrEt\x01-pass"
SECRET_LINE = b'password: "SeCrEt" '


def text_of(error: BaseException) -> str:
    """Everything a log or a report could show of an error, its causes and contexts included."""
    return (
        "".join(traceback.format_exception(error))
        + repr(error)
        + repr(vars(error))
        + repr(pickle.dumps(error.args))
    )


@settings(deadline=None, print_blob=True)
@given(LEDGERS.filter(lambda ledger: ledger.format_version > 1), st.data())
def test_damaged_bytes_raise_only_two_errors_and_never_tell_the_password(
    metadata: LedgerMetadata, data: st.DataObject
) -> None:
    """Whatever happens to the bytes, either they decode or one of two errors is raised, and none
    quotes the password.
    """
    whole = damaged(ledger_metadata.encode(metadata, password=SECRET), data)
    for read in (ledger_metadata.decode, ledger_metadata.password):
        try:
            read(whole)
        except (MalformedMetadata, UnknownMetadataFormat) as error:
            assert "SeCrEt" not in text_of(error)
            assert error.__context__ is None
            assert 0 <= getattr(error, "offset", 0) <= len(whole)


@settings(deadline=None, print_blob=True)
@given(
    st.sampled_from([b"", HDR1, HDR2, HDR3, HDR3 + b"\x20", b"BookieMetadataFormatVersion\t"]),
    st.binary(max_size=200),
)
def test_arbitrary_bytes_raise_only_two_errors(head: bytes, tail: bytes) -> None:
    """No bytes from ZooKeeper can raise anything unforeseen."""
    try:
        assert isinstance(ledger_metadata.decode(head + tail), LedgerMetadata)
    except (MalformedMetadata, UnknownMetadataFormat) as error:
        assert 0 <= getattr(error, "offset", 0) <= len(head + tail)


@settings(deadline=None, print_blob=True)
@given(st.text(st.sampled_from("pas sword:\"'\\{}<>[]\n#.,;0x1-fétru\x00/"), max_size=80))
def test_arbitrary_text_raises_only_two_errors(text: str) -> None:
    """The text parser's own errors, which quote what they read, stay inside."""
    try:
        ledger_metadata.decode(HDR2 + SECRET_LINE + text.encode())
    except MalformedMetadata as error:
        assert "SeCrEt" not in text_of(error)


def test_a_broken_password_line_is_not_quoted() -> None:
    """The parser's error would quote the whole line; ours says line and column."""
    broken = V2_CLOSED.replace(b'password: "pw"', b'password: "SeCrEt')
    with pytest.raises(MalformedMetadata, match="line 19, column 11") as error:
        ledger_metadata.decode(broken)
    assert "SeCrEt" not in text_of(error.value)
    assert broken.index(b'"SeCrEt') == error.value.offset


# --- the password ---


@pytest.mark.parametrize(
    ("data", "secret"),
    [(V3_CLOSED, b"pw"), (V2_CLOSED, b"pw"), (V1_CLOSED, None), (v3(message()), None)],
)
def test_the_password_is_read_only_by_name(data: bytes, secret: bytes | None) -> None:
    """`password` alone gives it out; None where the bytes carry none."""
    assert secret == ledger_metadata.password(data)


def test_an_empty_password_is_a_password() -> None:
    """Most ledgers have an empty one, which is not the same as none."""
    assert b"" == ledger_metadata.password(ledger_metadata.encode(CLOSED))


def test_the_model_has_no_place_for_the_password() -> None:
    """Nothing that decoding returns holds it, under any name."""
    metadata = ledger_metadata.decode(ledger_metadata.encode(CLOSED, password=SECRET))
    assert "password" not in {field.name for field in fields(metadata)}
    assert SECRET not in pickle.dumps(metadata)
    assert "SeCrEt" not in repr(metadata)


def test_a_password_needs_a_digest_type() -> None:
    """BookKeeper writes both or neither; a password alone would read as CRC32."""
    with pytest.raises(AssertionError):
        ledger_metadata.encode(replace(CLOSED, digest_type=None), password=b"pw")


def test_malformed_tells_length_hash_offset_and_reason() -> None:
    """An error on malformed bytes has four facts, and none of them is the bytes."""
    data = V3_CLOSED[:-1]
    with pytest.raises(MalformedMetadata) as error:
        ledger_metadata.decode(data)
    assert Malformed(
        reason="truncated: the message should have 105 bytes, 104 are there",
        offset=135,
        length=135,
        sha256=hashlib.sha256(data).hexdigest(),
    ) == ledger_metadata.describe_malformed(data, error.value)

"""Frames: the requests an auditor may send, byte for byte, and the answers decoded."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.errors import LocalProtocolError, PeerProtocolError
from auditor.model.availability import DiskSpace
from auditor.wire import frames
from auditor.wire.frames import (
    Operation,
    Response,
    Status,
    decode_response,
    encode_auth,
    encode_get_info,
    encode_get_list,
    encode_read,
    encode_start_tls,
    status_name,
)
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

ids = st.one_of(st.integers(0, 300), st.integers(0, 2**63 - 1))
txn_ids = st.one_of(st.integers(0, 300), st.integers(0, 2**64 - 1))


def unspaced(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


def request(frame: bytes) -> pb.Request:
    """The request in a frame whose length is right."""
    (length,) = struct.unpack_from(">i", frame)
    assert length == len(frame) - 4
    return pb.Request.FromString(frame[4:])


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


# Requests


@pytest.mark.parametrize(
    ("expected", "frame"),
    [
        ("0000000d 0a060803100b1801 e206 020801", encode_get_list(1, 1)),
        ("00000018 0a06080310011802 a206 0d 0801 10ffffffffffffffffff01", encode_read(2, 1, -1)),
        ("0000000d 0a06080310081803 ca06 020803", encode_get_info(3)),
        ("0000000b 0a06080310091801 d206 00", encode_start_tls(1)),
        ("00000013 0a06080310051801 b206 08 0a047361736c 1200", encode_auth(1, "sasl", b"")),
    ],
)
def test_requests_are_byte_for_byte_what_a_real_client_sends(expected: str, frame: bytes) -> None:
    """The frames of a run against real bookies."""
    assert unspaced(expected) == frame


@given(txn_ids, ids)
def test_get_list_is_what_protobuf_would_make(txn_id: int, ledger_id: int) -> None:
    """The list request laid out by hand equals protobuf's, for every id."""
    message = pb.Request()
    message.header.version, message.header.operation, message.header.txnId = (
        pb.VERSION_THREE,
        Operation(11),
        txn_id,
    )
    message.getListOfEntriesOfLedgerRequest.ledgerId = ledger_id
    assert framed(message.SerializeToString()) == encode_get_list(txn_id, ledger_id)


@given(txn_ids, ids, st.one_of(st.just(-1), ids))
def test_read_is_what_protobuf_would_make_and_never_carries_a_flag(
    txn_id: int, ledger_id: int, entry_id: int
) -> None:
    """The read laid out by hand equals protobuf's: ids alone, no flag (it would fence), no key, no
    long poll, no priority.
    """
    message = pb.Request()
    message.header.version, message.header.operation, message.header.txnId = (
        pb.VERSION_THREE,
        Operation(1),
        txn_id,
    )
    message.readRequest.ledgerId, message.readRequest.entryId = ledger_id, entry_id
    frame = encode_read(txn_id, ledger_id, entry_id)
    assert framed(message.SerializeToString()) == frame
    assert ["ledgerId", "entryId"] == [
        field.name for field, _ in request(frame).readRequest.ListFields()
    ]
    assert not request(frame).header.HasField("priority")


@given(txn_ids, st.text(max_size=40), st.binary(max_size=300))
def test_the_other_requests_are_what_protobuf_would_make(
    txn_id: int, plugin: str, payload: bytes
) -> None:
    """AUTH, GET_BOOKIE_INFO and START_TLS equal protobuf's, whatever the payload's length."""
    for operation, frame in (
        (5, encode_auth(txn_id, plugin, payload)),
        (8, encode_get_info(txn_id)),
        (9, encode_start_tls(txn_id)),
    ):
        message = pb.Request()
        message.header.version, message.header.operation, message.header.txnId = (
            pb.VERSION_THREE,
            operation,
            txn_id,
        )
        if operation == 5:
            message.authRequest.authPluginName, message.authRequest.payload = plugin, payload
        elif operation == 8:
            message.getBookieInfoRequest.requested = 3
        else:
            message.startTLSRequest.SetInParent()
        assert framed(message.SerializeToString()) == frame


@pytest.mark.parametrize(
    ("expected", "number"),
    [
        ("00", 0),
        ("7f", 127),
        ("8001", 128),
        ("ff7f", 16_383),
        ("808001", 16_384),
        ("ff" * 9 + "01", 2**64 - 1),
        ("ff" * 9 + "01", -1),
        ("80" * 9 + "01", -(2**63)),
    ],
)
def test_a_varint_has_seven_bits_a_byte(expected: str, number: int) -> None:
    """The low ones first; a negative number has all ten bytes."""
    assert expected == frames.varint(number).hex()


@pytest.mark.parametrize("txn_id", [0, 2**64 - 1])
@pytest.mark.parametrize("other_id", [0, 2**63 - 1])
def test_the_first_and_the_last_ids_can_be_sent(txn_id: int, other_id: int) -> None:
    """Transactions are uint64, ledgers and entries int64 from 0 on."""
    listed = request(encode_get_list(txn_id, other_id))
    assert (txn_id, other_id) == (
        listed.header.txnId,
        listed.getListOfEntriesOfLedgerRequest.ledgerId,
    )
    read = request(encode_read(txn_id, other_id, other_id))
    assert (txn_id, other_id, other_id) == (
        read.header.txnId,
        read.readRequest.ledgerId,
        read.readRequest.entryId,
    )


def test_only_five_requests_can_be_encoded() -> None:
    """Nothing that adds, fences or forces has a number or a function here."""
    assert {1, 5, 8, 9, 11} == set(Operation)
    assert {
        "encode_auth",
        "encode_get_info",
        "encode_get_list",
        "encode_read",
        "encode_start_tls",
    } == {name for name in vars(frames) if name.startswith("encode")}


@pytest.mark.parametrize(
    "ask",
    [
        lambda: encode_get_list(1, -1),
        lambda: encode_get_list(1, 2**63),
        lambda: encode_get_list(2**64, 1),
        lambda: encode_get_list(-1, 1),
        lambda: encode_read(1, -1, 0),
        lambda: encode_read(1, 0, -2),
        lambda: encode_read(1, 0, 2**63),
    ],
)
def test_ids_that_no_bookie_can_mean_are_our_fault(ask: object) -> None:
    """An id out of range is never sent (entry ids under -1 are never answered by some storages)."""
    with pytest.raises(LocalProtocolError):
        ask()  # type: ignore[operator]


# Answers


def response(operation: int, status: int = 0, txn_id: int = 7) -> pb.Response:
    message = pb.Response()
    message.header.version, message.status = pb.VERSION_THREE, status
    message.header.operation, message.header.txnId = operation, txn_id
    return message


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("0a060803100b1801 10 9203 e206 06 08 9203 10 e707", Response(11, 1, 402, 999, None, b"")),
        ("0a060803100b1801 10 f603", Response(11, 1, 502, None, None, b"")),
        ("0a06080310091801 1000 d206 00", Response(9, 1, 0, None, None, b"")),
        (
            "0a06080310051801 1000 b206 16 0a12 4175746844697361626c6564506c7567696e 1200",
            Response(5, 1, 0, None, None, b"", b"AuthDisabledPlugin"),
        ),
        ("0a0f080310081801ffffffffffffffff01 10f603", None),
    ],
)
def test_answers_of_real_bookies_are_read(body: str, expected: Response | None) -> None:
    """ENOLEDGER, EUA without a sub-message, START_TLS and AUTH, as real bookies answered; a header
    cut short is none.
    """
    if expected is None:
        with pytest.raises(PeerProtocolError):
            decode_response(unspaced(body))
    else:
        assert expected == decode_response(unspaced(body))


def test_a_list_and_an_entry_are_read() -> None:
    """EOK with its sub-message: the ids and the payload."""
    listed = response(11, txn_id=2**64 - 1)
    (
        listed.getListOfEntriesOfLedgerResponse.status,
        listed.getListOfEntriesOfLedgerResponse.ledgerId,
    ) = (
        0,
        5,
    )
    listed.getListOfEntriesOfLedgerResponse.availabilityOfEntriesOfLedger = b"list"
    assert Response(11, 2**64 - 1, 0, 5, None, b"list") == decode_response(
        listed.SerializeToString()
    )
    read = response(1)
    read.readResponse.status, read.readResponse.ledgerId, read.readResponse.entryId = 0, 5, 6
    read.readResponse.body = b"body"
    assert Response(1, 7, 0, 5, 6, b"body") == decode_response(read.SerializeToString())


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [(0, 0, 0), (402, 402, 402), (501, 0, 501), (0, 507, 507), (502, 501, 502)],
)
def test_the_outer_status_counts_unless_it_is_eok(outer: int, inner: int, expected: int) -> None:
    """Status is in two places; EOK outside says nothing about the inside."""
    listed, read, info = response(11, outer), response(1, outer), response(8, outer)
    (
        listed.getListOfEntriesOfLedgerResponse.status,
        listed.getListOfEntriesOfLedgerResponse.ledgerId,
    ) = (
        inner,
        5,
    )
    read.readResponse.status, read.readResponse.ledgerId, read.readResponse.entryId = inner, 5, 6
    info.getBookieInfoResponse.status = inner
    assert Response(11, 7, expected, 5, None, b"") == decode_response(listed.SerializeToString())
    assert Response(1, 7, expected, 5, 6, b"") == decode_response(read.SerializeToString())
    assert Response(8, 7, expected, None, None, b"") == decode_response(info.SerializeToString())


@pytest.mark.parametrize("operation", [1, 5, 8, 9, 11])
def test_eok_alone_is_no_answer(operation: int) -> None:
    """EOK without what was asked for is a breach; a refusal may stand alone."""
    with pytest.raises(PeerProtocolError, match="EOK and nothing else"):
        decode_response(response(operation).SerializeToString())
    assert 404 == decode_response(response(operation, 404).SerializeToString()).status


def test_a_status_newer_than_ours_is_never_taken_for_eok() -> None:
    """proto2 hides unknown enum values and leaves EOK in their place: the number is found, outside
    and inside.
    """
    outside = unspaced("0a060803100b1801 10e707")
    assert 999 == decode_response(outside).status
    inside = unspaced("0a060803100b1801 1000 e206 05 08e707 1005")
    assert 999 == decode_response(inside).status
    assert "status 999" == status_name(999)
    assert "EIO" == status_name(Status.EIO)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "00",
        "ffff",
        "0a060803100b1801",
        "1000",
        "0a0408031001 1000",
        "48545450",
        "0a060803100b1801 1000 e206 020800",
        "0a060803100b1801 a80105",  # a number, and not where the status is
        "0a060803100b1801 1203616263",  # the status is no number
        "0a0908e7070803100b1801",  # a version that nobody knows beside the one we speak: no status
    ],
)
def test_what_is_no_answer_is_a_breach(body: str) -> None:
    """No bytes, garbage, a missing header, status or field: the bookie's fault, never an answer."""
    with pytest.raises(PeerProtocolError):
        decode_response(unspaced(body))


def test_the_name_of_a_plugin_may_be_any_bytes() -> None:
    """The peer that answers AUTH writes it. Bytes that are not UTF-8 are decoded as protobuf leaves
    them.
    """
    auth = response(5)
    auth.authResponse.authPluginName, auth.authResponse.payload = "name", b"p"
    body = auth.SerializeToString().replace(b"name", b"\xff\xfe\xfd\xfc")
    assert Response(5, 7, 0, None, None, b"p", b"\xff\xfe\xfd\xfc") == decode_response(body)


def test_a_frame_of_another_protocol_is_shown_by_its_beginning() -> None:
    """A reader sees which protocol answered: here HTTP."""
    with pytest.raises(
        PeerProtocolError,
        match=r"a frame of 22 bytes is not an answer .*: 485454502f312e312034303020426164$",
    ):
        decode_response(b"HTTP/1.1 400 Bad" + b"\x20\xff" * 3)


@given(st.binary(max_size=120))
def test_no_bytes_at_all_do_harm(body: bytes) -> None:
    """Any frame decodes or is a breach; nothing else is raised."""
    try:
        decode_response(body)
    except PeerProtocolError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"totalDiskCapacity": 100, "freeDiskSpace": 0}, DiskSpace(100, 0)),
        ({"totalDiskCapacity": 100, "freeDiskSpace": 100}, DiskSpace(100, 100)),
        ({"totalDiskCapacity": 100}, DiskSpace(100, None)),
        ({"freeDiskSpace": 7}, DiskSpace(None, 7)),
        ({"totalDiskCapacity": 0, "freeDiskSpace": 7}, DiskSpace(None, 7)),
        ({"totalDiskCapacity": 100, "freeDiskSpace": 101}, None),
        ({"totalDiskCapacity": 100, "freeDiskSpace": -1}, None),
        ({"totalDiskCapacity": -1}, None),
        ({}, None),
    ],
)
def test_figures_of_a_disk_that_cannot_be_true_are_unknown(
    figures: dict[str, int], expected: DiskSpace | None
) -> None:
    """A field that is missing is unknown. With another status than EOK nothing is known."""
    info = response(8)
    info.getBookieInfoResponse.status = 0
    for name, value in figures.items():
        setattr(info.getBookieInfoResponse, name, value)
    assert expected == decode_response(info.SerializeToString()).disk
    info.getBookieInfoResponse.status = 501
    assert decode_response(info.SerializeToString()).disk is None

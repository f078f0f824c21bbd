"""The bookie's side of the wire, against bytes seen from real bookies."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scripted_bookie import frame as frame_of

from auditor.errors import PeerProtocolError
from auditor.wire import bookie_server as server
from auditor.wire.bookie_server import (
    AddEntry,
    Authenticate,
    BookieInfo,
    ListEntries,
    Operation,
    OtherRequest,
    ReadEntry,
    RequestBuffer,
    WrongVersion,
)
from auditor.wire.frames import Status
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

LIST_LEDGER_1 = bytes.fromhex("0000000d 0a060803100b1801 e206 020801")
READ_LAST = bytes.fromhex("00000018 0a06080310011802 a206 0d 0801 10ffffffffffffffffff01")
INFO_BOTH = bytes.fromhex("0000000d 0a06080310081803 ca06 020803")
START_TLS = bytes.fromhex("0000000b 0a06080310091801 d206 00")
AUTH_SASL = bytes.fromhex("00000013 0a06080310051801 b206 08 0a047361736c 1200")


def framed(text: str) -> bytes:
    body = bytes.fromhex(text)
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(
    ("request_seen", "frame"),
    [
        (ListEntries(1, 1), LIST_LEDGER_1),
        (ReadEntry(2, 1, -1), READ_LAST),
        (BookieInfo(3, total_disk_capacity=True, free_disk_space=True), INFO_BOTH),
        (OtherRequest(1, Operation.START_TLS), START_TLS),
        (Authenticate(1, "sasl", b""), AUTH_SASL),
    ],
)
def test_frames_of_real_clients_decode(request_seen: object, frame: bytes) -> None:
    """What the reference gives byte for byte is understood."""
    assert request_seen == server.decode_request(frame[4:])


def test_add_entry_decodes_with_key_and_body() -> None:
    """ADD_ENTRY keeps its master key and body as they were sent, and the ids are those of the
    body.
    """
    message = pb.Request()
    message.header.version, message.header.operation, message.header.txnId = (
        pb.VERSION_THREE,
        pb.ADD_ENTRY,
        9,
    )
    add = message.addRequest
    add.ledgerId, add.entryId, add.masterKey, add.body = (
        7,
        8,
        b"k" * 20,
        struct.pack(">qqqq", 70, 80, 79, 1),
    )
    request = server.decode_request(message.SerializeToString())
    assert isinstance(request, AddEntry)
    assert AddEntry(9, 7, 8, b"k" * 20, add.body) == request
    assert server.ids_of(request.body) == (70, 80)


@pytest.mark.parametrize(
    ("asked", "operation", "fields"),
    [
        (
            ReadEntry(9, 7, 8, False, b"key"),
            1,
            {"readRequest": {"ledgerId": 7, "entryId": 8, "masterKey": b"key"}},
        ),
        (ReadEntry(9, 7, 8, True), 1, {"readRequest": {"ledgerId": 7, "entryId": 8, "flag": 1}}),
        (ReadEntry(9, 7, 8, False), 1, {"readRequest": {"ledgerId": 7, "entryId": 8, "flag": 2}}),
        (ListEntries(9, 7), 11, {"getListOfEntriesOfLedgerRequest": {"ledgerId": 7}}),
        (BookieInfo(9, True, False), 8, {"getBookieInfoRequest": {"requested": 1}}),
        (BookieInfo(9, False, True), 8, {"getBookieInfoRequest": {"requested": 2}}),
        (BookieInfo(9, False, False), 8, {"getBookieInfoRequest": {}}),
        (
            Authenticate(9, "sasl", b"token"),
            5,
            {"authRequest": {"authPluginName": "sasl", "payload": b"token"}},
        ),
        (OtherRequest(9, Operation.READ_LAC), 7, {}),
    ],
)
def test_a_request_decodes_to_what_was_asked(
    asked: object, operation: int, fields: dict[str, object]
) -> None:
    """Every field has its place; only the one flag fences, and only what is asked of a bookie's
    disk is asked.
    """
    message = pb.Request(header={"version": 3, "operation": operation, "txnId": 9}, **fields)
    assert asked == server.decode_request(message.SerializeToString())


def test_body_under_24_bytes_has_no_ids() -> None:
    """A bookie reads ledger, entry and last add confirmed: 23 bytes are no entry to it, 24 are."""
    assert server.ids_of(bytes(23)) is None
    assert server.ids_of(bytes(24)) == (0, 0)


def test_every_txn_id_is_echoed() -> None:
    """txnId is an unsigned 64-bit number and comes back as sent."""
    answer = pb.Response.FromString(
        server.encode_status(OtherRequest(2**64 - 1, Operation.START_TLS), Status.EBADREQ)[4:]
    )
    assert answer.header.txnId == 2**64 - 1


@pytest.mark.parametrize(
    ("frame", "make"),
    [
        (
            "0a060803100b1801 10 9203 e206 06 08 9203 10 e707",
            lambda: server.encode_list(ListEntries(1, 999), Status.ENOLEDGER),
        ),
        ("0a060803100b1801 10 f603", lambda: server.encode_status(ListEntries(1, 999), Status.EUA)),
        (
            "0a06080310051801 1000 b206 16 0a12 4175746844697361626c6564506c7567696e 1200",
            lambda: server.encode_auth(Authenticate(1, "sasl", b""), Status.EOK),
        ),
    ],
)
def test_answers_are_those_of_real_bookies(frame: str, make: Callable[[], bytes]) -> None:
    """The answers the reference gives byte for byte are made byte for byte."""
    assert framed(frame) == make()


NOT_FOUND, REFUSED, READ_ONLY = Status.ENOENTRY, Status.EUA, Status.EREADONLY
BOTH = BookieInfo(5, total_disk_capacity=True, free_disk_space=True)
IDS = {"ledgerId": 7, "entryId": 8}


def reply(operation: int, status: int, **sub: object) -> bytes:
    """The frame of an answer to transaction 5."""
    return frame_of(
        pb.Response(header={"version": 3, "operation": operation, "txnId": 5}, status=status, **sub)
    )


@pytest.mark.parametrize(
    ("expected", "make"),
    [
        (
            reply(7, 404),
            lambda: server.encode_status(OtherRequest(5, Operation.READ_LAC), Status.EBADREQ),
        ),
        (
            reply(1, 403, readResponse={"status": 403, **IDS}),
            lambda: server.encode_read(ReadEntry(5, 7, 8), NOT_FOUND),
        ),
        (
            reply(1, 0, readResponse={"status": 0, **IDS, "body": b"body", "maxLAC": 6}),
            lambda: server.encode_read(ReadEntry(5, 7, 8), Status.EOK, b"body", 6),
        ),
        (
            reply(2, 505, addResponse={"status": 505, **IDS}),
            lambda: server.encode_add(AddEntry(5, 7, 8, b"", b""), READ_ONLY),
        ),
        (
            reply(
                11,
                0,
                getListOfEntriesOfLedgerResponse={
                    "status": 0,
                    "ledgerId": 7,
                    "availabilityOfEntriesOfLedger": b"list",
                },
            ),
            lambda: server.encode_list(ListEntries(5, 7), Status.EOK, b"list"),
        ),
        (
            reply(
                8,
                0,
                getBookieInfoResponse={"status": 0, "totalDiskCapacity": 100, "freeDiskSpace": 40},
            ),
            lambda: server.encode_info(BOTH, Status.EOK, 100, 40),
        ),
        (
            reply(8, 0, getBookieInfoResponse={"status": 0, "totalDiskCapacity": 100}),
            lambda: server.encode_info(BookieInfo(5, True, False), Status.EOK, 100, 40),
        ),
        (
            reply(
                8,
                0,
                getBookieInfoResponse={"status": 0, "totalDiskCapacity": 0, "freeDiskSpace": 0},
            ),
            lambda: server.encode_info(BOTH, Status.EOK),
        ),
        (
            reply(8, 502, getBookieInfoResponse={"status": 502}),
            lambda: server.encode_info(BOTH, REFUSED, 100, 40),
        ),
        (
            reply(5, 0, authResponse={"authPluginName": "sasl", "payload": b"token"}),
            lambda: server.encode_auth(Authenticate(5, "sasl", b""), Status.EOK, "sasl", b"token"),
        ),
    ],
)
def test_an_answer_says_its_status_in_every_place_and_nothing_that_was_not_given(
    expected: bytes, make: Callable[[], bytes]
) -> None:
    """Header, both statuses and the ids of the question; what the bookie has nothing to say about
    is absent.
    """
    assert expected == make()


@given(
    st.integers(0, 2**64 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from(Status),
    st.integers(0, 300),
)
def test_a_list_is_what_protobuf_would_make(
    txn_id: int, ledger_id: int, status: Status, size: int
) -> None:
    """The response laid out by hand equals protobuf's, for every id and length."""
    message = pb.Response()
    header, listed = message.header, message.getListOfEntriesOfLedgerResponse
    header.version, header.operation, header.txnId = pb.VERSION_THREE, Operation(11), txn_id
    message.status = listed.status = status
    listed.ledgerId, listed.availabilityOfEntriesOfLedger = ledger_id, bytes(size)
    expected = frame_of(message)
    assert expected == server.encode_list(ListEntries(txn_id, ledger_id), status, bytes(size))


def test_info_carries_requested_fields_only() -> None:
    """A field that was not asked for is absent, not zero."""
    request = BookieInfo(1, total_disk_capacity=False, free_disk_space=True)
    answer = pb.Response.FromString(
        server.encode_info(request, Status.EOK, 100, 40)[4:]
    ).getBookieInfoResponse
    assert answer.freeDiskSpace == 40
    assert not answer.HasField("totalDiskCapacity")


def test_read_of_the_highest_entry_echoes_minus_one() -> None:
    """The answer's entry id is the question's; the true one is in the body."""
    body = struct.pack(">qqqq", 7, 41, 40, 8)
    answer = pb.Response.FromString(
        server.encode_read(ReadEntry(5, 7, -1), Status.EOK, body, max_lac=-1)[4:]
    )
    assert answer.readResponse.entryId == -1
    assert server.ids_of(answer.readResponse.body) == (7, 41)
    assert answer.readResponse.maxLAC == -1


@pytest.mark.parametrize("frame", [LIST_LEDGER_1, READ_LAST, INFO_BOTH])
def test_other_protocol_version_is_reported_and_answered_in_both_places(frame: bytes) -> None:
    """A header that says version 2 is answered EBADVERSION twice, by version 3."""
    message = pb.Request.FromString(frame[4:])
    message.header.version = pb.VERSION_TWO
    wrong = server.decode_request(message.SerializeToString())
    assert isinstance(wrong, WrongVersion)
    answer = pb.Response.FromString(server.encode_wrong_version(wrong)[4:])
    assert answer.status == pb.EBADVERSION
    assert answer.header.version == pb.VERSION_THREE
    assert answer.header.txnId == message.header.txnId
    (_, sub), *_ = [(field, value) for field, value in answer.ListFields() if field.number >= 100]
    assert sub.status == pb.EBADVERSION


@pytest.mark.parametrize(
    ("expected", "asked"),
    [
        (reply(2, 503, addResponse={"status": 503, **IDS}), AddEntry(5, 7, 8, b"key", b"body")),
        (reply(8, 503, getBookieInfoResponse={"status": 503}), BOTH),
        (reply(5, 503), Authenticate(5, "sasl", b"")),
        (reply(9, 503), OtherRequest(5, Operation.START_TLS)),
    ],
)
def test_other_protocol_version_is_the_answer_to_any_request(
    expected: bytes, asked: server.Request
) -> None:
    """An operation whose answer has a status of its own says it there too, the others in the outer
    one alone.
    """
    assert expected == server.encode_wrong_version(WrongVersion(asked))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xff\xff",
        bytes.fromhex("0a060803 1063 1801"),
        bytes.fromhex("0a04 0803 100b"),
        b"GET / HTTP/1.1\r\n",
    ],
    ids=["empty", "garbage", "unknown operation", "no txnId", "http"],
)
def test_what_a_bookie_cannot_decode_closes_the_connection(body: bytes) -> None:
    """Garbage, an empty frame, an unknown operation and a missing field are the peer's fault."""
    with pytest.raises(PeerProtocolError):
        server.decode_request(body)


def test_frames_come_out_whole_however_they_arrive() -> None:
    """Whole, byte by byte or cut at random, the same bodies come out in the same order."""
    frames = [LIST_LEDGER_1, READ_LAST, INFO_BOTH, START_TLS, AUTH_SASL]
    expected = [frame[4:] for frame in frames]
    data = b"".join(frames)
    seed = 20
    for piece in (len(data), 1, 3, None):
        source = random.Random(seed)
        buffer, bodies, at = RequestBuffer(), [], 0
        while at < len(data):
            size = piece or source.randrange(1, 9)
            bodies += buffer.feed(data[at : at + size])
            at += size
        assert expected == bodies, f"pieces of {piece}, seed {seed}"


def test_bytes_of_a_frame_that_is_not_whole_are_seen_to_be_there() -> None:
    """More of it is to come; behind a whole frame nothing is left."""
    buffer = RequestBuffer()
    assert not buffer.has_unfinished
    buffer.feed(INFO_BOTH[:-1])
    assert buffer.has_unfinished
    buffer.feed(INFO_BOTH[-1:])
    assert not buffer.has_unfinished


def test_an_empty_frame_is_a_frame() -> None:
    """A length of 0 is a whole frame, in front of another one and alone."""
    empty = struct.pack(">i", 0)
    assert [b"", LIST_LEDGER_1[4:], b""] == RequestBuffer().feed(empty + LIST_LEDGER_1 + empty)


def test_frame_over_the_limit_is_refused_by_its_length_alone() -> None:
    """5 MiB is taken, one byte more is refused before any of it arrived, and so is a negative
    length.
    """
    assert RequestBuffer().feed(struct.pack(">i", 5 * 2**20)) == []
    for length in (5 * 2**20 + 1, -1):
        with pytest.raises(PeerProtocolError, match=str(length)):
            RequestBuffer().feed(struct.pack(">i", length))

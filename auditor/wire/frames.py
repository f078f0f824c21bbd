"""Encode requests to a bookie and decode its responses, in protocol version 3.

A frame is 4 bytes of length, big-endian, then one protobuf message. Only what an auditor may send
can be encoded: GET_LIST_OF_ENTRIES_OF_LEDGER, READ_ENTRY without flags, GET_BOOKIE_INFO, AUTH and
START_TLS. No function writes or fences. Requests are assembled by hand, byte for byte as protobuf
encodes them (wire-protocol reference, section 2.3). protobuf decodes responses.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from auditor.errors import LocalProtocolError, PeerProtocolError
from auditor.model.identity import ENTRY_ID_MAX, LEDGER_ID_MAX
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb
from auditor.wire.unknown_fields import LISTER_FIELD, unknown_bytes

LENGTH_BYTES = 4
"""The length in front of each frame does not count itself."""
HEAD_BYTES = 64
"""Bytes kept of a response that is too large: enough for its header and its ledger."""
TXN_ID_MAX = 2**64 - 1
LIST_HEADER = b"\x08\x03\x10\x0b\x18"
"""Start of the header of a list request and of its response: version 3, operation 11, then the
tag of the transaction id."""

_LENGTH = struct.Struct(">i")
_FOR_EVER = 2**63
_STATUS_FIELD = 2
_SUB_STATUS_FIELD = 1


class Operation(IntEnum):
    """OperationType: the five an auditor sends."""

    READ_ENTRY = 1
    AUTH = 5
    GET_BOOKIE_INFO = 8
    START_TLS = 9
    GET_LIST_OF_ENTRIES_OF_LEDGER = 11


class Status(IntEnum):
    """StatusCode, with its numbers on the wire."""

    EOK = 0
    ENOLEDGER = 402
    ENOENTRY = 403
    EBADREQ = 404
    EIO = 501
    EUA = 502
    EBADVERSION = 503
    EFENCED = 504
    EREADONLY = 505
    ETOOMANYREQUESTS = 506
    EUNKNOWNLEDGERSTATE = 507


def status_name(status: int) -> str:
    """Return BookKeeper's name of a status, or "status" and its number if we know no name."""
    try:
        return Status(status).name
    except ValueError:
        return f"status {status}"


_LAST = tuple(bytes((digit,)) for digit in range(0x80))
_MORE = tuple(bytes((digit | 0x80,)) for digit in range(0x80))


def varint(number: int) -> bytes:
    """Encode an unsigned varint; a negative number as an int64 (two's complement, ten bytes)."""
    if 0 <= number < 0x80:
        return _LAST[number]
    if 0 <= number < 0x4000:
        return _MORE[number & 0x7F] + _LAST[number >> 7]
    number &= TXN_ID_MAX
    out = b""
    while number >= 0x80:
        out += _MORE[number & 0x7F]
        number >>= 7
    return out + _LAST[number]


def _request(header: bytes, txn_id: int, tag: bytes, sub_message: bytes) -> bytes:
    """Encode a frame. `header` is version and operation; an empty sub-message has its `tag` too."""
    if not 0 <= txn_id <= TXN_ID_MAX:
        raise LocalProtocolError(f"transaction id {txn_id} is no uint64")
    txn = varint(txn_id)
    body = b"".join(
        (
            b"\x0a",
            varint(len(header) + len(txn)),
            header,
            txn,
            tag,
            varint(len(sub_message)),
            sub_message,
        )
    )
    return _LENGTH.pack(len(body)) + body


def _ledger(ledger_id: int) -> bytes:
    if not 0 <= ledger_id <= LEDGER_ID_MAX:
        raise LocalProtocolError(f"ledger id {ledger_id} is out of range")
    return b"\x08" + varint(ledger_id)


def encode_get_list(txn_id: int, ledger_id: int) -> bytes:
    """Encode GET_LIST_OF_ENTRIES_OF_LEDGER. Raises LocalProtocolError for ids out of range.

    This request is sent by the million: it is `_request` written out, with all lengths below 128.
    """
    if not 0 <= txn_id <= TXN_ID_MAX:
        raise LocalProtocolError(f"transaction id {txn_id} is no uint64")
    if not 0 <= ledger_id <= LEDGER_ID_MAX:
        raise LocalProtocolError(f"ledger id {ledger_id} is out of range")
    txn, ledger = varint(txn_id), varint(ledger_id)
    in_header, in_message = len(txn) + 5, len(ledger) + 1
    return b"\0\0\0%c\x0a%c%b%b\xe2\x06%c\x08%b" % (
        in_header + in_message + 5, in_header, LIST_HEADER, txn, in_message, ledger,
    )  # fmt: skip


def encode_read(txn_id: int, ledger_id: int, entry_id: int) -> bytes:
    """Encode READ_ENTRY without flag (a flag would fence), without key, at default priority.

    `entry_id` -1 reads the highest entry stored. Some storages never respond to lower ids. Raises
    LocalProtocolError for them and for other ids out of range.
    """
    if not -1 <= entry_id <= ENTRY_ID_MAX:
        raise LocalProtocolError(f"entry id {entry_id} is out of range")
    return _request(
        b"\x08\x03\x10\x01\x18",
        txn_id,
        b"\xa2\x06",
        _ledger(ledger_id) + b"\x10" + varint(entry_id),
    )


def encode_get_info(txn_id: int) -> bytes:
    """Encode GET_BOOKIE_INFO (total and free disk space): a cheap test that a bookie admits us."""
    return _request(b"\x08\x03\x10\x08\x18", txn_id, b"\xca\x06", b"\x08\x03")


def encode_auth(txn_id: int, plugin: str, payload: bytes) -> bytes:
    """Encode AUTH, one message of an authentication exchange."""
    name = plugin.encode()
    message = b"".join((b"\x0a", varint(len(name)), name, b"\x12", varint(len(payload)), payload))
    return _request(b"\x08\x03\x10\x05\x18", txn_id, b"\xb2\x06", message)


def encode_start_tls(txn_id: int) -> bytes:
    """Encode START_TLS, which asks for TLS on this connection. The response comes in clear text."""
    return _request(b"\x08\x03\x10\x09\x18", txn_id, b"\xd2\x06", b"")


class Response(NamedTuple):
    """A decoded response. `ledger_id` and `entry_id` are None where it names none.

    `payload`: the list, the stored entry, or the plugin's bytes (AUTH). `extra`: the plugin's name,
    or what a lister says. `operation` and `status` are as sent, and may be newer than the enums.
    """

    operation: int
    txn_id: int
    status: int
    ledger_id: int | None
    entry_id: int | None
    payload: bytes
    extra: bytes = b""


def decode_response(body: bytes) -> Response:
    """Decode the body of one frame. Raises PeerProtocolError for bytes that are not a response.

    A response has two status fields: the outer one counts unless it is EOK (wire-protocol
    reference, section 3). EOK without the operation's sub-message is not a response.
    """
    try:
        message = pb.Response.FromString(body)
    except DecodeError:
        why = (
            f"a frame of {len(body)} bytes is no answer of BookKeeper's protocol: {body[:16].hex()}"
        )
        raise PeerProtocolError(why) from None
    operation, txn_id, status = (
        int(message.header.operation),
        message.header.txnId,
        int(message.status),
    )
    if not message.IsInitialized():
        status = _status_beyond_enum(message)
    if operation == 11 and message.HasField("getListOfEntriesOfLedgerResponse"):
        listed = message.getListOfEntriesOfLedgerResponse
        payload, more = listed.availabilityOfEntriesOfLedger, unknown_bytes(message, LISTER_FIELD)
        return Response(11, txn_id, status or listed.status, listed.ledgerId, None, payload, more)
    if operation == 1 and message.HasField("readResponse"):
        read = message.readResponse
        return Response(1, txn_id, status or read.status, read.ledgerId, read.entryId, read.body)
    if operation == 8 and message.HasField("getBookieInfoResponse"):
        status = status or message.getBookieInfoResponse.status
        return Response(8, txn_id, status, None, None, b"", unknown_bytes(message, LISTER_FIELD))
    if operation == 5 and message.HasField("authResponse"):
        payload, name = message.authResponse.payload, message.authResponse.authPluginName
        more = (
            name.encode() if isinstance(name, str) else name
        )  # protobuf gives what is not UTF-8 as bytes
        return Response(5, txn_id, status, None, None, payload, more)
    if status == Status.EOK and not (
        operation == Operation.START_TLS and message.HasField("startTLSResponse")
    ):
        raise PeerProtocolError(
            f"an answer to operation {operation}, transaction {txn_id}, says EOK and nothing else"
        )
    return Response(operation, txn_id, status, None, None, b"")


def _status_beyond_enum(message: pb.Response) -> int:
    """Return the status of a response without a required field, if it is newer than our enum.

    proto2 moves an unknown enum value to the unknown fields and leaves EOK in its place. Raises
    PeerProtocolError for any other missing field.
    """
    if message.header.IsInitialized():
        subs = [
            sub
            for field, sub in message.ListFields()
            if field.message_type is not None and field.name != "header"
        ]
        for holder, number in [
            (message, _STATUS_FIELD),
            *((sub, _SUB_STATUS_FIELD) for sub in subs),
        ]:
            unknown = UnknownFieldSet(holder)
            for index in range(len(unknown)):
                if unknown[index].field_number == number and isinstance(unknown[index].data, int):
                    return int(unknown[index].data)
    raise PeerProtocolError("an answer lacks a field that every answer has")


class Oversized(NamedTuple):
    """A frame longer than the limit, or with a negative length.

    `length` is the announced length in bytes, without its own 4; `head` has at most the first
    HEAD_BYTES. A negative length means that an int32 overflowed, or that the peer is not a bookie:
    nothing behind it can be read.
    """

    length: int
    head: bytes

    def addressee(self) -> tuple[int, int]:
        """Return operation and transaction id from `head`. Raises PeerProtocolError."""
        try:
            if len(self.head) < 2 or self.head[0] != 0x0A or self.head[1] >= len(self.head) - 1:
                raise DecodeError
            header = pb.BKPacketHeader.FromString(self.head[2 : 2 + self.head[1]])
            if not header.IsInitialized():
                raise DecodeError
        except DecodeError:
            raise PeerProtocolError(
                f"a frame announces {self.length} bytes and does not begin as an answer does"
            ) from None
        return int(header.operation), int(header.txnId)


class FrameReader:
    """Split incoming bytes into frame bodies. A frame over `frame_bytes_max` becomes Oversized.

    The bytes of an oversized frame are skipped. Bytes of an unfinished frame wait in one buffer: at
    most one frame of `frame_bytes_max`, and what came with its end in the same piece. Each byte is
    copied a fixed number of times, however small the pieces are.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._buffer = bytearray()
        self._needed = LENGTH_BYTES
        self._to_skip = 0

    @property
    def unfinished_bytes(self) -> int:
        """Bytes still missing of the frame that has begun; 0 between frames.

        Before its length (or an oversized frame's head) is complete, only the rest of that counts.
        """
        if self._to_skip:
            return self._to_skip
        return self._needed - len(self._buffer) if self._buffer else 0

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """Return the frames that `data` completes, in order."""
        if self._to_skip:
            skipped = min(self._to_skip, len(data))
            self._to_skip -= skipped
            data = data[skipped:]
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._needed:
                return []
            data = bytes(self._buffer)
            self._buffer.clear()
        frames: list[bytes | Oversized] = []
        start, length = self._split(data, frames)
        self._buffer += data[start:]
        self._needed = length
        return frames

    def _split(self, data: bytes, frames: list[bytes | Oversized]) -> tuple[int, int]:
        """Append complete frames; return where the unfinished one starts and what it needs next."""
        start, end = 0, len(data)
        while end - start >= LENGTH_BYTES:
            (length,) = _LENGTH.unpack_from(data, start)
            body = start + LENGTH_BYTES
            if 0 <= length <= self._frame_bytes_max:
                if end - body < length:
                    return start, LENGTH_BYTES + length
                frames.append(data[body : body + length])
                start = body + length
                continue
            head = max(0, min(length, HEAD_BYTES))
            if end - body < head:
                return start, LENGTH_BYTES + head
            frames.append(Oversized(length, data[body : body + head]))
            span = length if head else _FOR_EVER
            self._to_skip = max(0, span - (end - body))
            start = min(end, body + span)
        return start, LENGTH_BYTES

"""Frames between an auditor and a bookie: 4 bytes of length, big-endian, then one protobuf message (protocol version 3).

Only what an auditor may send can be encoded here: GET_LIST_OF_ENTRIES_OF_LEDGER, READ_ENTRY without any flag,
GET_BOOKIE_INFO, AUTH and START_TLS. Nothing that writes, and nothing that fences, has a function. Requests are laid out by
hand, byte for byte as protobuf lays them out (wire-protocol reference, section 2.3); answers are decoded by protobuf.
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

LENGTH_BYTES = 4
"""The length in front of each frame does not count itself."""
HEAD_BYTES = 64
"""What is kept of an answer too large to keep: enough for its header and its ledger."""
TXN_ID_MAX = 2**64 - 1
LIST_HEADER = b"\x08\x03\x10\x0b\x18"
"""Header of a list request and of its answer, up to the transaction id: version 3, operation 11."""

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
    """BookKeeper's name of a status, or its number where BookKeeper has given it none that we know."""
    try:
        return Status(status).name
    except ValueError:
        return f"status {status}"


_LAST = tuple(bytes((digit,)) for digit in range(0x80))
_MORE = tuple(bytes((digit | 0x80,)) for digit in range(0x80))


def varint(number: int) -> bytes:
    """An unsigned varint; negative numbers as int64 has them (two's complement, ten bytes)."""
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
    """A frame: `header` is version and operation, `tag` that of the sub-message, which is always there, empty or not."""
    if not 0 <= txn_id <= TXN_ID_MAX:
        raise LocalProtocolError(f"transaction id {txn_id} is no uint64")
    txn = varint(txn_id)
    body = b"".join((b"\x0a", varint(len(header) + len(txn)), header, txn, tag, varint(len(sub_message)), sub_message))
    return _LENGTH.pack(len(body)) + body


def _ledger(ledger_id: int) -> bytes:
    if not 0 <= ledger_id <= LEDGER_ID_MAX:
        raise LocalProtocolError(f"ledger id {ledger_id} is out of range")
    return b"\x08" + varint(ledger_id)


def encode_get_list(txn_id: int, ledger_id: int) -> bytes:
    """Which entries of this ledger does the bookie hold? Raises LocalProtocolError for ids no ledger can have.

    The one request sent by the million: `_request` written out, its lengths all below 128.
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
    """Read one entry: no flag (a flag would fence), no key, default priority. Raises LocalProtocolError.

    `entry_id` -1 reads the highest entry stored; anything lower is never answered by some storages and is refused here.
    """
    if not -1 <= entry_id <= ENTRY_ID_MAX:
        raise LocalProtocolError(f"entry id {entry_id} is out of range")
    return _request(b"\x08\x03\x10\x01\x18", txn_id, b"\xa2\x06", _ledger(ledger_id) + b"\x10" + varint(entry_id))


def encode_get_info(txn_id: int) -> bytes:
    """Total and free disk space: the cheap question whether the bookie is alive and lets us ask."""
    return _request(b"\x08\x03\x10\x08\x18", txn_id, b"\xca\x06", b"\x08\x03")


def encode_auth(txn_id: int, plugin: str, payload: bytes) -> bytes:
    """One message of an authentication exchange."""
    name = plugin.encode()
    message = b"".join((b"\x0a", varint(len(name)), name, b"\x12", varint(len(payload)), payload))
    return _request(b"\x08\x03\x10\x05\x18", txn_id, b"\xb2\x06", message)


def encode_start_tls(txn_id: int) -> bytes:
    """Ask for TLS on this connection; the answer comes in clear."""
    return _request(b"\x08\x03\x10\x09\x18", txn_id, b"\xd2\x06", b"")


class Response(NamedTuple):
    """A decoded answer. `ledger_id` and `entry_id` are None where it names none.

    `payload` is the list (GET_LIST), the stored entry (READ) or the plugin's bytes (AUTH); `operation` and `status` are numbers
    as sent, which may be newer than the enums.
    """

    operation: int
    txn_id: int
    status: int
    ledger_id: int | None
    entry_id: int | None
    payload: bytes


def decode_response(body: bytes) -> Response:
    """What one frame says. Raises PeerProtocolError for bytes that are no answer. Some microseconds, and a copy of the payload.

    Status is in two places: the outer one counts unless it is EOK (wire-protocol reference, section 3). EOK without the
    sub-message of its operation is no answer.
    """
    try:
        message = pb.Response.FromString(body)
    except DecodeError:
        raise PeerProtocolError(
            f"a frame of {len(body)} bytes is no answer of BookKeeper's protocol: {body[:16].hex()}"
        ) from None
    header = message.header
    operation, txn_id, status = int(header.operation), header.txnId, int(message.status)
    if not message.IsInitialized():
        status = _status_beyond_enum(message)
    if operation == 11 and message.HasField("getListOfEntriesOfLedgerResponse"):
        listed = message.getListOfEntriesOfLedgerResponse
        return Response(11, txn_id, status or listed.status, listed.ledgerId, None, listed.availabilityOfEntriesOfLedger)
    if operation == 1 and message.HasField("readResponse"):
        read = message.readResponse
        return Response(1, txn_id, status or read.status, read.ledgerId, read.entryId, read.body)
    if operation == 8 and message.HasField("getBookieInfoResponse"):
        return Response(8, txn_id, status or message.getBookieInfoResponse.status, None, None, b"")
    if operation == 5 and message.HasField("authResponse"):
        return Response(5, txn_id, status, None, None, message.authResponse.payload)
    if status == Status.EOK and not (operation == Operation.START_TLS and message.HasField("startTLSResponse")):
        raise PeerProtocolError(f"an answer to operation {operation}, transaction {txn_id}, says EOK and nothing else")
    return Response(operation, txn_id, status, None, None, b"")


def _status_beyond_enum(message: pb.Response) -> int:
    """The status of an answer that lacks a required field: legitimate only for a status newer than our enum.

    proto2 puts an unknown enum value among the unknown fields, and would leave EOK in its place.
    """
    if message.header.IsInitialized():
        subs = [sub for field, sub in message.ListFields() if field.message_type is not None and field.name != "header"]
        for holder, number in [(message, _STATUS_FIELD), *((sub, _SUB_STATUS_FIELD) for sub in subs)]:
            unknown = UnknownFieldSet(holder)
            for index in range(len(unknown)):
                if unknown[index].field_number == number and isinstance(unknown[index].data, int):
                    return int(unknown[index].data)
    raise PeerProtocolError("an answer lacks a field that every answer has")


class Oversized(NamedTuple):
    """A frame longer than the limit: its announced length in bytes, without its 4 of length, and its first HEAD_BYTES at most.

    A negative length is one too (a bookie's int32 has overflowed, or it is no bookie); nothing behind it can be read.
    """

    length: int
    head: bytes

    def addressee(self) -> tuple[int, int]:
        """(operation, transaction id) from the header in `head`. Raises PeerProtocolError where there is none."""
        try:
            if len(self.head) < 2 or self.head[0] != 0x0A or self.head[1] >= len(self.head) - 1:
                raise DecodeError
            header = pb.BKPacketHeader.FromString(self.head[2 : 2 + self.head[1]])
            if not header.IsInitialized():
                raise DecodeError
        except DecodeError:
            raise PeerProtocolError(f"a frame announces {self.length} bytes and does not begin as an answer does") from None
        return int(header.operation), int(header.txnId)


class FrameReader:
    """Bytes in, frame bodies out; a frame longer than `frame_bytes_max` comes out as Oversized and its bytes are skipped.

    Each byte is copied a fixed number of times, however small the pieces it comes in: bytes of an unfinished frame wait in one
    growing buffer, which never holds more than one frame of at most `frame_bytes_max` and what came with it in the same piece.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._buffer = bytearray()
        self._needed = LENGTH_BYTES
        self._to_skip = 0

    @property
    def unfinished_bytes(self) -> int:
        """Bytes still to come of the frame that has begun, of its length or a large one's head at first; 0 between frames."""
        if self._to_skip:
            return self._to_skip
        return self._needed - len(self._buffer) if self._buffer else 0

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """The frames that `data` completes, in order."""
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
        """Appends complete frames. Returns where the unfinished one starts and how many bytes it needs for the next step."""
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

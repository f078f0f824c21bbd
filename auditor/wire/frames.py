"""Encode requests to a bookie and decode its responses, in protocol version 3.

A frame is 4 bytes of length, big-endian, then one protobuf message (BookkeeperProtocol.proto). Only
what an auditor may send can be encoded: GET_LIST_OF_ENTRIES_OF_LEDGER, READ_ENTRY without flags,
GET_BOOKIE_INFO, AUTH and START_TLS. No function writes or fences. Requests are assembled by hand,
byte for byte as protobuf encodes them. protobuf decodes responses.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from auditor.errors import LocalProtocolError, PeerProtocolError
from auditor.model.availability import DiskSpace
from auditor.model.identity import ENTRY_ID_MAX, LEDGER_ID_MAX
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb
from auditor.wire.protobuf_forms import LISTER_FIELD, unknown_bytes

TXN_ID_MAX = 2**64 - 1
LIST_HEADER = b"\x08\x03\x10\x0b\x18"
"""Start of the header of a list request and of its response: version 3, operation 11, then the
tag of the transaction id."""

_LENGTH = struct.Struct(">i")
_STATUS_FIELD = 2
_SUB_STATUS_FIELD = 1


class Operation(IntEnum):
    """OperationType: the five that an auditor sends."""

    READ_ENTRY = 1
    AUTH = 5
    GET_BOOKIE_INFO = 8
    START_TLS = 9
    GET_LIST_OF_ENTRIES_OF_LEDGER = 11


class Status(IntEnum):
    """StatusCode, by the numbers of the protocol."""

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
    """Return BookKeeper's name of a status, or "status" and the number if its name is not known."""
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
    """Encode a frame. `header` is version and operation. An empty sub-message still has its
    `tag`.
    """
    if not 0 <= txn_id <= TXN_ID_MAX:
        raise LocalProtocolError(f"transaction id {txn_id} is not a uint64")
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
        raise LocalProtocolError(f"transaction id {txn_id} is not a uint64")
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


def encode_get_info(txn_id: int, lister_field: bytes = b"") -> bytes:
    """Encode GET_BOOKIE_INFO (total and free disk space): a cheap test that a bookie admits us.

    `lister_field` asks a lister for more. A bookie ignores it.
    """
    frame = _request(b"\x08\x03\x10\x08\x18", txn_id, b"\xca\x06", b"\x08\x03")
    if not lister_field:
        return frame
    tag = varint(LISTER_FIELD << 3 | 2)
    body = frame[_LENGTH.size :] + tag + varint(len(lister_field)) + lister_field
    return _LENGTH.pack(len(body)) + body


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
    or what a lister says. `disk`: what GET_BOOKIE_INFO says; None for others. `operation` and
    `status` are as sent, and may be newer than the enums.
    """

    operation: int
    txn_id: int
    status: int
    ledger_id: int | None
    entry_id: int | None
    payload: bytes
    extra: bytes = b""
    disk: DiskSpace | None = None


def decode_response(body: bytes) -> Response:
    """Decode the body of one frame. Raises PeerProtocolError for bytes that are not a response.

    A response has two status fields: the outer one counts unless it is EOK. EOK without the
    operation's sub-message is not a response.
    """
    try:
        message = pb.Response.FromString(body)
    except DecodeError:
        raise PeerProtocolError(
            f"a frame of {len(body)} bytes is not an answer of BookKeeper's protocol:"
            f" {body[:16].hex()}"
        ) from None
    operation, txn_id = int(message.header.operation), message.header.txnId
    status = int(message.status)
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
        info = message.getBookieInfoResponse
        status, more = status or info.status, unknown_bytes(message, LISTER_FIELD)
        disk = _disk_space(info) if status == Status.EOK else None
        return Response(8, txn_id, status, None, None, b"", more, disk)
    if operation == 5 and message.HasField("authResponse"):
        payload, name = message.authResponse.payload, message.authResponse.authPluginName
        # protobuf gives what is not UTF-8 as bytes
        more = name.encode() if isinstance(name, str) else name
        return Response(5, txn_id, status, None, None, payload, more)
    if status == Status.EOK and not (
        operation == Operation.START_TLS and message.HasField("startTLSResponse")
    ):
        raise PeerProtocolError(
            f"an answer to operation {operation}, transaction {txn_id}, says EOK and nothing else"
        )
    return Response(operation, txn_id, status, None, None, b"")


def _disk_space(info: pb.GetBookieInfoResponse) -> DiskSpace | None:
    """Return the figures of a response, None without any. Those that cannot be true are unknown."""
    total = info.totalDiskCapacity if info.totalDiskCapacity > 0 else None
    free = info.freeDiskSpace if info.HasField("freeDiskSpace") else None
    if free is not None and (free < 0 or (total is not None and free > total)):
        return None
    return None if total is None and free is None else DiskSpace(total, free)


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

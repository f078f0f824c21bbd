"""The server's side of the bookie protocol, for the sandbox and for listers.

It decodes requests and encodes responses, without I/O, in protocol version 3 alone. A frame is a
big-endian int32 length and a protobuf message (BookkeeperProtocol.proto). A bookie that cannot
decode a request closes the connection; here PeerProtocolError says so.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from google.protobuf.message import DecodeError

from auditor.errors import PeerProtocolError
from auditor.model.identity import EntryId, LedgerId
from auditor.wire.frames import LIST_HEADER, Status, varint
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb
from auditor.wire.protobuf_forms import LISTER_FIELD, unknown_bytes

REQUEST_FRAME_BYTES_MAX = 5 * 2**20
"""Longest request that a bookie accepts (default of nettyMaxFrameSizeBytes). It closes the
connection on a longer one."""
ENTRY_IDS_BYTES = 24
"""ledgerId, entryId and lastAddConfirmed: the only bytes of a stored entry that a bookie itself
reads."""
NO_AUTH_PLUGIN = "AuthDisabledPlugin"
"""The plugin that a bookie without authentication names in every response to AUTH."""

_LENGTH = struct.Struct(">i")
_IDS = struct.Struct(">qq")
_LIST_ENTRIES = pb.GET_LIST_OF_ENTRIES_OF_LEDGER


class Operation(IntEnum):
    """OperationType: everything a client may send. An auditor sends only a few of these."""

    READ_ENTRY = 1
    ADD_ENTRY = 2
    RANGE_READ_ENTRY = 3
    RANGE_ADD_ENTRY = 4
    AUTH = 5
    WRITE_LAC = 6
    READ_LAC = 7
    GET_BOOKIE_INFO = 8
    START_TLS = 9
    FORCE_LEDGER = 10
    GET_LIST_OF_ENTRIES_OF_LEDGER = 11
    BATCH_READ_ENTRY = 12


@dataclass(frozen=True, slots=True)
class ReadEntry:
    """READ_ENTRY. `fence` makes the request a write; the auditor never sets it."""

    txn_id: int
    ledger_id: LedgerId
    entry_id: EntryId
    fence: bool = False
    master_key: bytes = b""
    operation = Operation.READ_ENTRY


@dataclass(frozen=True, slots=True)
class AddEntry:
    """ADD_ENTRY. The bookie takes the ids of the entry from `body` (`ids_of`), not from here."""

    txn_id: int
    ledger_id: LedgerId
    entry_id: EntryId
    master_key: bytes
    body: bytes
    operation = Operation.ADD_ENTRY


@dataclass(frozen=True, slots=True)
class ListEntries:
    """GET_LIST_OF_ENTRIES_OF_LEDGER."""

    txn_id: int
    ledger_id: LedgerId
    operation = Operation.GET_LIST_OF_ENTRIES_OF_LEDGER


@dataclass(frozen=True, slots=True)
class BookieInfo:
    """GET_BOOKIE_INFO, with the fields that are requested. `lister_field` is for listers alone."""

    txn_id: int
    total_disk_capacity: bool
    free_disk_space: bool
    lister_field: bytes = b""
    operation = Operation.GET_BOOKIE_INFO


@dataclass(frozen=True, slots=True)
class Authenticate:
    """AUTH: one message of a plug-in's exchange."""

    txn_id: int
    plugin: str
    payload: bytes
    operation = Operation.AUTH


@dataclass(frozen=True, slots=True)
class OtherRequest:
    """A known operation whose fields do not matter: START_TLS and those an auditor never sends."""

    txn_id: int
    operation: Operation


@dataclass(frozen=True, slots=True)
class WrongVersion:
    """A request whose header does not say version 3."""

    request: Request


Request: TypeAlias = ReadEntry | AddEntry | ListEntries | BookieInfo | Authenticate | OtherRequest


class RequestBuffer:
    """Split incoming bytes into request bodies. Keep at most one unfinished frame between calls."""

    def __init__(self, frame_bytes_max: int = REQUEST_FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._pending = bytearray()

    @property
    def has_unfinished(self) -> bool:
        """Whether only a part of a frame has come."""
        return bool(self._pending)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the request bodies that `data` completes, in order.

        Raises PeerProtocolError for a length that no bookie accepts.
        """
        self._pending += data
        bodies: list[bytes] = []
        at = 0
        while len(self._pending) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._pending, at)
            if not 0 <= length <= self._frame_bytes_max:
                raise PeerProtocolError(
                    f"a request frame of {length} bytes, at most {self._frame_bytes_max} are taken"
                )
            end = at + _LENGTH.size + length
            if end > len(self._pending):
                break
            bodies.append(bytes(self._pending[at + _LENGTH.size : end]))
            at = end
        del self._pending[:at]
        return bodies


def decode_request(body: bytes) -> Request | WrongVersion:
    """Decode a request. Raises PeerProtocolError for garbage, no bytes or an unknown operation."""
    try:
        message = pb.Request.FromString(body)
    except DecodeError as error:
        raise PeerProtocolError("a request that is not a protobuf message of version 3") from error
    if not message.IsInitialized():
        # proto2 moves an unknown enum value to the unknown fields: its required field is unset.
        raise PeerProtocolError(
            "a request without a field it must have, or with an unknown operation"
        )
    header = message.header
    request = (
        ListEntries(header.txnId, message.getListOfEntriesOfLedgerRequest.ledgerId)
        if header.operation == _LIST_ENTRIES
        else _request(message)
    )
    return request if header.version == pb.VERSION_THREE else WrongVersion(request)


def ids_of(body: bytes) -> tuple[LedgerId, EntryId] | None:
    """Return the ledger id and entry id in a stored entry; None if `body` is too short."""
    if len(body) < ENTRY_IDS_BYTES:
        return None
    ledger_id, entry_id = _IDS.unpack_from(body)
    return ledger_id, entry_id


def encode_status(request: Request, status: Status) -> bytes:
    """Encode a response without sub-message, as a bookie sends to refuse (EUA, EBADREQ)."""
    return _encode_frame(_response_to(request, status))


def encode_read(
    request: ReadEntry, status: Status, body: bytes | None = None, max_lac: int | None = None
) -> bytes:
    """Encode the response to READ_ENTRY. It repeats the requested entry id, even if that is -1."""
    message = _response_to(request, status)
    answer = message.readResponse
    answer.status = status  # type: ignore[assignment]
    answer.ledgerId, answer.entryId = request.ledger_id, request.entry_id
    if body is not None:
        answer.body = body
    if max_lac is not None:
        answer.maxLAC = max_lac
    return _encode_frame(message)


def encode_add(request: AddEntry, status: Status) -> bytes:
    """Encode the response to ADD_ENTRY."""
    message = _response_to(request, status)
    answer = message.addResponse
    answer.status = status  # type: ignore[assignment]
    answer.ledgerId, answer.entryId = request.ledger_id, request.entry_id
    return _encode_frame(message)


def encode_list(request: ListEntries, status: Status, availability: bytes | None = None) -> bytes:
    """Encode the response to GET_LIST_OF_ENTRIES_OF_LEDGER. `availability`: header and groups.

    This response is sent by the million: a list is written out without a message of protobuf.
    """
    if availability is not None:
        txn, ledger, code = varint(request.txn_id), varint(request.ledger_id), varint(status)
        size = varint(len(availability))
        in_message = 3 + len(code) + len(ledger) + len(size) + len(availability)
        body = b"\x0a%c%b%b\x10%b\xe2\x06%b\x08%b\x10%b\x1a%b" % (
            len(LIST_HEADER) + len(txn), LIST_HEADER, txn, code,
            varint(in_message), code, ledger, size,
        )  # fmt: skip
        return _LENGTH.pack(len(body) + len(availability)) + body + availability
    message = _response_to(request, status)
    answer = message.getListOfEntriesOfLedgerResponse
    answer.status = status  # type: ignore[assignment]
    answer.ledgerId = request.ledger_id
    return _encode_frame(message)


def encode_info(
    request: BookieInfo, status: Status, total_bytes: int = 0, free_bytes: int = 0
) -> bytes:
    """Encode the response to GET_BOOKIE_INFO, with the requested fields only."""
    message = _response_to(request, status)
    answer = message.getBookieInfoResponse
    answer.status = status  # type: ignore[assignment]
    if status is Status.EOK and request.total_disk_capacity:
        answer.totalDiskCapacity = total_bytes
    if status is Status.EOK and request.free_disk_space:
        answer.freeDiskSpace = free_bytes
    return _encode_frame(message)


def encode_auth(
    request: Authenticate, status: Status, plugin: str = NO_AUTH_PLUGIN, payload: bytes = b""
) -> bytes:
    """Encode the response to AUTH."""
    message = _response_to(request, status)
    message.authResponse.authPluginName = plugin
    message.authResponse.payload = payload
    return _encode_frame(message)


def encode_wrong_version(wrong: WrongVersion) -> bytes:
    """Encode EBADVERSION in both status fields of a message of version 3."""
    request, status = wrong.request, Status.EBADVERSION
    match request:
        case ReadEntry():
            return encode_read(request, status)
        case AddEntry():
            return encode_add(request, status)
        case ListEntries():
            return encode_list(request, status)
        case BookieInfo():
            return encode_info(request, status)
        case _:
            return encode_status(request, status)


def _request(message: pb.Request) -> Request:
    txn_id = message.header.txnId
    match int(message.header.operation):
        case Operation.READ_ENTRY:
            read = message.readRequest
            fence = read.HasField("flag") and read.flag == pb.ReadRequest.FENCE_LEDGER
            return ReadEntry(txn_id, read.ledgerId, read.entryId, fence, read.masterKey)
        case Operation.ADD_ENTRY:
            add = message.addRequest
            return AddEntry(txn_id, add.ledgerId, add.entryId, add.masterKey, add.body)
        case Operation.GET_BOOKIE_INFO:
            requested = message.getBookieInfoRequest.requested
            total = requested & pb.GetBookieInfoRequest.TOTAL_DISK_CAPACITY
            free = requested & pb.GetBookieInfoRequest.FREE_DISK_SPACE
            more = unknown_bytes(message, LISTER_FIELD)
            return BookieInfo(txn_id, bool(total), bool(free), more)
        case Operation.AUTH:
            auth = message.authRequest
            return Authenticate(txn_id, auth.authPluginName, auth.payload)
        case other:
            return OtherRequest(txn_id, Operation(other))


def _response_to(request: Request, status: Status) -> pb.Response:
    """Return the response without its sub-message."""
    message = pb.Response()
    header = message.header
    header.version, header.txnId = pb.VERSION_THREE, request.txn_id
    header.operation = request.operation  # type: ignore[assignment]
    message.status = status  # type: ignore[assignment]
    return message


def _encode_frame(message: pb.Response) -> bytes:
    """Encode a response behind its length."""
    body = message.SerializeToString()
    return _LENGTH.pack(len(body)) + body


def encode_consent(request: OtherRequest) -> bytes:
    """Encode the response that agrees to START_TLS: with its sub-message, which has no field."""
    message = _response_to(request, Status.EOK)
    message.startTLSResponse.SetInParent()
    return _encode_frame(message)

"""A tiny bookie client for tests only: it writes entries (ADD_ENTRY), fences, and sends any bytes
at all.

The product never does any of these; it only asks. One socket, synchronous, with a limit on every
wait. Entries are placed exactly where a test wants them: holes are entries not sent. A bookie takes
`ledgerId` and `entryId` from the body's first 16 bytes and does not verify the digest. The digests
made here are right because readers verify them (DigestManager).
"""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from types import TracebackType

import google_crc32c

from auditor.model.availability import SequenceGroup
from auditor.model.ledger import DigestType
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

HOST_OF_CERTIFICATE = "localhost"
"""The name that a server's certificate must have."""
WAIT_S = 30.0
"""How long one connect, send or answer may take, in seconds."""
ADDS_INFLIGHT_MAX = 200
"""ADD_ENTRY requests sent before their answers are read."""
FRAME_BYTES_MAX = 64 * 2**20
"""Largest answer that this client accepts. A bookie that sends more is broken."""
PAYLOAD_BYTES = 8
"""Payload size of every entry made here: short and equal, so that cumulative lengths are simple."""

Runs = Iterable[tuple[int, int] | SequenceGroup]
"""Inclusive (first entry, last entry) pairs, or sequence groups."""


class BookieClosedConnection(ConnectionError):
    """The bookie closed or reset the connection instead of answering."""


class UnexpectedStatus(AssertionError):
    """The bookie refused a request that the test depends on."""


def master_key(password: bytes = b"") -> bytes:
    """Return the 20 bytes by which a bookie knows a ledger's writer
    (MacDigestManager.genDigest("ledger", password)).
    """
    return hashlib.sha1(b"ledger" + password).digest()


def payload(entry_id: int) -> bytes:
    """Return the payload of entry `entry_id`: its own id, in `PAYLOAD_BYTES` bytes."""
    return struct.pack(">q", entry_id)


def entry_body(
    ledger_id: int, entry_id: int, digest: DigestType = DigestType.CRC32C, password: bytes = b""
) -> bytes:
    """Return a stored entry as BookKeeper's own client makes it: 32 bytes of ids, digest, payload
    (wire-protocol 7.1).
    """
    length = PAYLOAD_BYTES * (entry_id + 1)
    head = struct.pack(">qqqq", ledger_id, entry_id, entry_id - 1, length)
    return head + _digest(digest, head + payload(entry_id), password) + payload(entry_id)


def _digest(digest: DigestType, signed: bytes, password: bytes) -> bytes:
    match digest:
        case DigestType.CRC32:
            return struct.pack(">Q", zlib.crc32(signed))
        case DigestType.HMAC:
            return hmac.new(hashlib.sha1(b"mac" + password).digest(), signed, hashlib.sha1).digest()
        case DigestType.CRC32C:
            return struct.pack(">I", google_crc32c.value(signed))
        case DigestType.DUMMY:
            return b""


def entry_ids(runs: Runs) -> Iterator[int]:
    """Yield every entry of these runs, one by one."""
    for run in runs:
        if isinstance(run, SequenceGroup):
            for first in range(run.first, run.last + 1, run.period or 1):
                yield from range(first, first + run.size)
        else:
            yield from range(run[0], run[1] + 1)


def request(operation: str, txn_id: int, version: str = "VERSION_THREE") -> pb.Request:
    """Return a request with only its header; the caller fills in the sub-message."""
    message = pb.Request()
    message.header.version = pb.ProtocolVersion.Value(version)
    message.header.operation = pb.OperationType.Value(operation)
    message.header.txnId = txn_id
    return message


def add_request(ledger_id: int, entry_id: int, body: bytes, key: bytes, txn_id: int) -> pb.Request:
    """Return an ADD_ENTRY request for one entry."""
    message = request("ADD_ENTRY", txn_id)
    add = message.addRequest
    add.ledgerId, add.entryId, add.masterKey, add.body = ledger_id, entry_id, key, body
    return message


def list_request(ledger_id: int, txn_id: int) -> pb.Request:
    """Return a GET_LIST_OF_ENTRIES_OF_LEDGER request for one ledger."""
    message = request("GET_LIST_OF_ENTRIES_OF_LEDGER", txn_id)
    message.getListOfEntriesOfLedgerRequest.ledgerId = ledger_id
    return message


def read_request(ledger_id: int, entry_id: int, txn_id: int) -> pb.Request:
    """Return a READ_ENTRY request for one entry, without any flag."""
    message = request("READ_ENTRY", txn_id)
    message.readRequest.ledgerId, message.readRequest.entryId = ledger_id, entry_id
    return message


def fence_request(ledger_id: int, key: bytes, txn_id: int) -> pb.Request:
    """Return a READ_ENTRY request for entry 0 that fences the ledger. This makes it known to the
    bookie, even if it holds nothing.
    """
    message = read_request(ledger_id, 0, txn_id)
    message.readRequest.flag = pb.ReadRequest.FENCE_LEDGER
    message.readRequest.masterKey = key
    return message


def info_request(requested: int, txn_id: int) -> pb.Request:
    """Return a GET_BOOKIE_INFO request; `requested` is the mask (1 total, 2 free)."""
    message = request("GET_BOOKIE_INFO", txn_id)
    message.getBookieInfoRequest.requested = requested
    return message


def frame(message: pb.Request) -> bytes:
    """Return the message after its 4-byte big-endian length."""
    body = message.SerializeToString()
    return struct.pack(">i", len(body)) + body


def status_name(status: int) -> str:
    """Return BookKeeper's own word for a status code."""
    return pb.StatusCode.Name(status)  # type: ignore[arg-type]


class RawBookie:
    """One connection to one bookie. `with RawBookie(host, port) as bookie: ...`

    Raises `BookieClosedConnection` when the bookie closes, `TimeoutError` when it says nothing for
    `wait_s` seconds.
    """

    def __init__(self, host: str, port: int, wait_s: float = WAIT_S) -> None:
        self._socket = socket.create_connection((host, port), timeout=wait_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self._socket.makefile("rb")
        self._txn_id = 0

    def __enter__(self) -> RawBookie:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a second time does nothing."""
        self._stream.close()
        self._socket.close()

    def wait_at_most(self, wait_s: float) -> None:
        """Change the limit of every later wait, in seconds."""
        self._socket.settimeout(wait_s)

    def next_txn_id(self) -> int:
        """Return a txnId that this method has not returned before on this connection."""
        self._txn_id += 1
        return self._txn_id

    def start_tls(self, context: ssl.SSLContext) -> None:
        """Ask for TLS, require agreement, and do the handshake. Raises ssl.SSLError."""
        response = self.ask(request("START_TLS", self.next_txn_id()))
        assert (response.status, response.HasField("startTLSResponse")) == (pb.EOK, True), response
        self._stream.close()
        self._socket = context.wrap_socket(self._socket, server_hostname=HOST_OF_CERTIFICATE)
        self._stream = self._socket.makefile("rb")

    def send_bytes(self, data: bytes) -> None:
        """Send any bytes, frame or not."""
        try:
            self._socket.sendall(data)
        except (ConnectionError, ssl.SSLError) as error:
            raise BookieClosedConnection(str(error)) from error

    def send(self, *messages: pb.Request) -> None:
        """Send requests in one write, without waiting for answers."""
        self.send_bytes(b"".join(frame(message) for message in messages))

    def receive_body(self) -> bytes:
        """Return the next answer's bytes, without the length."""
        (length,) = struct.unpack(">i", self._exactly(4))
        assert 0 <= length <= FRAME_BYTES_MAX, f"the bookie announced a frame of {length} bytes"
        return self._exactly(length)

    def receive(self) -> pb.Response:
        """Return the next answer, whichever request it belongs to."""
        return pb.Response.FromString(self.receive_body())

    def ask(self, message: pb.Request) -> pb.Response:
        """Send one request and return the next answer. No other request may be outstanding."""
        self.send(message)
        response = self.receive()
        assert response.header.txnId == message.header.txnId, (
            f"an answer to another request: {response.header}"
        )
        return response

    def ask_all(self, messages: Sequence[pb.Request]) -> dict[int, pb.Response]:
        """Send all requests at once and return one answer for each, by txnId; the txnIds must be
        distinct.
        """
        self.send(*messages)
        answers = [self.receive() for _ in messages]
        return {answer.header.txnId: answer for answer in answers}

    def is_closed_by_peer(self) -> bool:
        """Return True once the bookie has closed, False if it sends something instead. Silence
        raises TimeoutError.
        """
        try:
            self.receive_body()
        except BookieClosedConnection:
            return True
        return False

    def add(
        self,
        ledger_id: int,
        runs: Runs,
        *,
        digest: DigestType = DigestType.CRC32C,
        password: bytes = b"",
        key: bytes | None = None,
    ) -> int:
        """Store every entry of `runs` and wait until each is acknowledged; return their number. At
        most `ADDS_INFLIGHT_MAX` are in flight.
        """
        key = master_key(password) if key is None else key
        count = 0
        for batch in _batches(entry_ids(runs), ADDS_INFLIGHT_MAX):
            self.send(
                *(
                    add_request(
                        ledger_id,
                        entry_id,
                        entry_body(ledger_id, entry_id, digest, password),
                        key,
                        self.next_txn_id(),
                    )
                    for entry_id in batch
                )
            )
            for _ in batch:
                answer = self.receive()
                if answer.status != pb.EOK:
                    raise UnexpectedStatus(
                        f"ADD_ENTRY to ledger {ledger_id}: {status_name(answer.status)}"
                    )
            count += len(batch)
        return count

    def fence(self, ledger_id: int, password: bytes = b"") -> str:
        """Fence the ledger (a write!) and return the status. An unknown ledger becomes known and
        empty.
        """
        return status_name(
            self.ask(fence_request(ledger_id, master_key(password), self.next_txn_id())).status
        )

    def _exactly(self, count: int) -> bytes:
        try:
            data = self._stream.read(count)
        except (ConnectionError, ssl.SSLError) as error:
            raise BookieClosedConnection(str(error)) from error
        if data is None or len(data) < count:
            raise BookieClosedConnection("end of stream")
        return data


def _batches(numbers: Iterable[int], size: int) -> Iterator[list[int]]:
    remaining = iter(numbers)
    while batch := list(islice(remaining, size)):
        yield batch

"""A bookie for tests of the client: it speaks the protocol, and misbehaves exactly as a test
defines.

It runs in a thread with its own event loop, on an ephemeral loopback port. By default it answers
like a healthy bookie that holds `ledgers`. `act(connection, request)` is called first; if it
returns True, the request is already answered.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType

from auditor.model.ledger import DigestType
from auditor.sandbox.bookie import PAYLOAD_BYTES
from auditor.wire.digest import digest_of
from auditor.wire.entry_availability import encode_runs
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

WAIT_S = 10.0
"""How long starting and stopping may take, in seconds."""

LIST, READ, INFO = 11, 1, 8


def frame(message: pb.Response) -> bytes:
    """Return an answer with its length in front."""
    body = message.SerializeToString()
    return struct.pack(">i", len(body)) + body


def answer(operation: int, txn_id: int, status: int = 0) -> pb.Response:
    """Return the header and status of an answer, without a sub-message."""
    message = pb.Response()
    message.header.version, message.header.operation, message.header.txnId = 3, operation, txn_id
    message.status = status
    return message


def list_answer(txn_id: int, ledger_id: int, payload: bytes | None, status: int = 0) -> bytes:
    message = answer(LIST, txn_id, status)
    sub = message.getListOfEntriesOfLedgerResponse
    sub.status, sub.ledgerId = status, ledger_id
    if payload is not None:
        sub.availabilityOfEntriesOfLedger = payload
    return frame(message)


def read_answer(
    txn_id: int, ledger_id: int, entry_id: int, body: bytes | None, status: int = 0
) -> bytes:
    message = answer(READ, txn_id, status)
    sub = message.readResponse
    sub.status, sub.ledgerId, sub.entryId = status, ledger_id, entry_id
    if body is not None:
        sub.body = body
    return frame(message)


def info_answer(txn_id: int, status: int = 0) -> bytes:
    message = answer(INFO, txn_id, status)
    message.getBookieInfoResponse.status = status
    return frame(message)


def entry_body(
    ledger_id: int,
    entry_id: int,
    digest_type: DigestType = DigestType.CRC32C,
    password: bytes = b"",
) -> bytes:
    """Return a stored entry with a right digest and a payload that names it.

    Its header counts PAYLOAD_BYTES an entry, as the metadata of the sandbox does.
    """
    payload = b"entry %d" % entry_id
    length = PAYLOAD_BYTES * (entry_id + 1)
    head = struct.pack(">qqqq", ledger_id, entry_id, entry_id - 1, length)
    return head + digest_of(head + payload, digest_type, password) + payload


class Connection(asyncio.Protocol):
    """One client; `number` counts connections from 1."""

    def __init__(self, bookie: ScriptedBookie) -> None:
        self._bookie = bookie
        self._received = b""
        self.transport: asyncio.Transport | None = None
        self.number = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.number = len(self._bookie.connections) + 1
        self._bookie.connections.append(self)
        self._bookie.connected(self)

    def data_received(self, data: bytes) -> None:
        data = self._received + data
        start = 0
        while len(data) - start >= 4:
            (length,) = struct.unpack_from(">i", data, start)
            if len(data) - start - 4 < length:
                break
            self._bookie.received(self, pb.Request.FromString(data[start + 4 : start + 4 + length]))
            start += 4 + length
        self._received = data[start:]

    def send(self, data: bytes) -> None:
        self.transport.write(data)

    def later(self, delay_s: float, data: bytes) -> None:
        asyncio.get_running_loop().call_later(delay_s, self.transport.write, data)

    def close(self) -> None:
        """Close in an orderly way (FIN) once everything is sent."""
        self.transport.close()

    def reset(self) -> None:
        """Send a TCP reset now."""
        handle = self.transport.get_extra_info("socket")
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


Act = Callable[[Connection, pb.Request], bool]


class ScriptedBookie:
    """`requests`: (connection number, operation, ledger id or None, entry id or None) of every
    received request, in order.
    """

    def __init__(
        self,
        ledgers: Mapping[int, Iterable[int | tuple[int, int]]] | None = None,
        act: Act = lambda connection, request: False,
        greet: Callable[[Connection], None] = lambda connection: None,
    ) -> None:
        self.ledgers = {
            ledger_id: encode_runs(entries) for ledger_id, entries in (ledgers or {}).items()
        }
        self.act = act
        self.greet = greet
        self.connections: list[Connection] = []
        self.requests: list[tuple[int, int, int | None, int | None]] = []
        self.outstanding_seen = 0
        self.port = 0

    def connected(self, connection: Connection) -> None:
        self.greet(connection)

    def received(self, connection: Connection, request: pb.Request) -> None:
        operation = request.header.operation
        ledger_id = entry_id = None
        if operation == LIST:
            ledger_id = request.getListOfEntriesOfLedgerRequest.ledgerId
        elif operation == READ:
            ledger_id, entry_id = request.readRequest.ledgerId, request.readRequest.entryId
        self.requests.append((connection.number, operation, ledger_id, entry_id))
        if not self.act(connection, request):
            self.answer(connection, request)

    def answer(self, connection: Connection, request: pb.Request) -> None:
        """Answer as a healthy bookie does."""
        txn_id = request.header.txnId
        if request.header.operation == LIST:
            ledger_id = request.getListOfEntriesOfLedgerRequest.ledgerId
            payload = self.ledgers.get(ledger_id)
            connection.send(
                list_answer(txn_id, ledger_id, payload, 0 if payload is not None else pb.ENOLEDGER)
            )
        elif request.header.operation == READ:
            read = request.readRequest
            if read.ledgerId in self.ledgers:
                connection.send(
                    read_answer(
                        txn_id, read.ledgerId, read.entryId, entry_body(read.ledgerId, read.entryId)
                    )
                )
            else:
                connection.send(
                    read_answer(txn_id, read.ledgerId, read.entryId, None, pb.ENOLEDGER)
                )
        else:
            connection.send(info_answer(txn_id))

    def asked(self, operation: int) -> list[int | None]:
        """Return the ledgers that requests of this operation asked about, in order."""
        return [ledger_id for _, sent, ledger_id, _ in self.requests if sent == operation]

    def __enter__(self) -> ScriptedBookie:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        server = asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(WAIT_S)
        self._server = server
        self.port = server.sockets[0].getsockname()[1]
        return self

    async def _serve(self) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(
            lambda: Connection(self), "127.0.0.1", 0
        )

    async def _stop(self) -> None:
        self._server.close()
        for connection in self.connections:
            connection.transport.abort()
        await asyncio.sleep(0)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(WAIT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_S)
        self._loop.close()

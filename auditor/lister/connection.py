"""Serve one client of a lister: read its requests while lists are made, and send each list at once.

A client that waits for long lists gets the short ones first, and GET_BOOKIE_INFO is answered at any
time. A lister with TLS refuses everything that is asked before START_TLS (EUA).
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Sequence
from typing import Protocol, TypeGuard

from auditor.errors import PeerProtocolError
from auditor.wire import bookie_server as wire
from auditor.wire.bookie_server import encode_consent
from auditor.wire.frames import Status

READ_BYTES = 64 * 2**10
"""Bytes read from a connection at a time: some thousand requests."""
REQUEST_BYTES_MAX = 64 * 2**10
"""Longest request accepted. Those a lister answers have a few dozen bytes."""
SEND_TIMEOUT_S = 60.0
"""How long a client may take to accept what it asked for. Then the connection is closed."""
CLIENT_IDLE_S = 600.0
"""How long a client may ask nothing while no answer is due. Then the connection is closed: an audit
connects again when it needs to.
"""
HALVES_FROM = 16
"""Lists in work from which on they are handed over in two halves, so that one is sent while the
other is made. Of fewer a second hand-over costs more than it saves."""
LISTS_AT_ONCE_MAX = 1_000
"""Most lists handed over together. The ids of two such requests (42 KB) fit in the pipe to a reader
process, so that nobody waits for a process that does not read."""
CLIENT_REPLIES_MAX = 6
"""Replies that one client holds until it has taken them, if the bookie has so many directories: two
fewer than all clients hold together (`server.REPLIES_HELD_MAX`). So others are served beside one
that stalls."""
HANDSHAKE_TIMEOUT_S = 10.0
"""How long a TLS handshake may take. It is three messages and some milliseconds of computing."""


class Desk(Protocol):
    """Makes the answers for connections."""

    @property
    def speaks_tls(self) -> bool:
        """Whether clients must ask for TLS first."""

    async def tls_context(self) -> ssl.SSLContext:
        """Return the context of a TLS handshake. Raises OSError if it cannot be had now."""

    @property
    def directories(self) -> int:
        """The number of index directories. A ledger lives in directory `id mod n`."""

    async def answer(self, request: wire.Request | wire.WrongVersion) -> bytes:
        """Return the response to a request that is not for a list."""

    async def send_first_lists(
        self, directory: int, requests: Sequence[wire.ListEntries], client: Connection
    ) -> int:
        """Answer the first of these requests, at least one, and return how many."""


class Connection:
    """The conversation with one client. `in_work_max` lists are in work at once.

    Further requests wait unread: all that is kept of a request is its ids.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        desk: Desk,
        in_work_max: int,
    ) -> None:
        self._reader, self._writer = reader, writer
        self._desk = desk
        self._in_work_max = in_work_max
        self._in_work = 0
        self._has_room = asyncio.Event()
        self._turn = asyncio.Lock()
        self._replies = asyncio.Semaphore(min(max(2, desk.directories), CLIENT_REPLIES_MAX))
        """Held while the desk is asked. A client that does not read must not keep it from
        others.
        """
        self._waiting = [deque[wire.ListEntries]() for _ in range(desk.directories)]
        self._has_requests = [asyncio.Event() for _ in range(desk.directories)]
        self._workers = 2 if in_work_max >= HALVES_FROM else 1
        self._is_in_tls = False

    async def converse(self) -> None:
        """Answer what the client asks until it closes, breaks the protocol, or is idle for too
        long.

        Raises an ExceptionGroup of PeerProtocolError and OSError.
        """
        async with asyncio.TaskGroup() as group:
            workers = [
                group.create_task(self._work(number))
                for number in range(len(self._waiting))
                for _ in range(self._workers)
            ]
            await self._read_requests()
            await self._wait_for_room(0)
            for worker in workers:
                worker.cancel()

    async def send(self, frames: Sequence[bytes]) -> None:
        """Send frames, and wait until the client has taken nearly all. Raises OSError (TimeoutError
        too).
        """
        async with self._turn:
            self._writer.writelines(frames)
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await self._writer.drain()

    async def _read_requests(self) -> None:
        buffer = wire.RequestBuffer(REQUEST_BYTES_MAX)
        while data := await self._read_some():
            bodies = buffer.feed(data)
            for number, body in enumerate(bodies, start=1):
                request = wire.decode_request(body)
                if self._desk.speaks_tls and _is_start_tls(request):
                    if number < len(bodies) or buffer.has_unfinished or self._is_in_tls:
                        raise PeerProtocolError("START_TLS inside TLS, or more behind it in clear")
                    await self._start_tls(request)
                elif self._desk.speaks_tls and not self._is_in_tls:
                    await self.send([_refuse_in_clear(request)])
                elif isinstance(request, wire.ListEntries):
                    self._in_work += 1
                    directory = request.ledger_id % len(self._waiting)
                    self._waiting[directory].append(request)
                    self._has_requests[directory].set()
                else:
                    await self.send([await self._desk.answer(request)])
            await self._wait_for_room(self._in_work_max)

    async def _wait_for_room(self, in_work_max: int) -> None:
        while self._in_work > in_work_max:
            self._has_room.clear()
            await self._has_room.wait()

    async def _start_tls(self, request: wire.OtherRequest) -> None:
        """Agree to TLS and do the handshake. Raises OSError, and PeerProtocolError.

        Nothing is read in between: what follows our consent must be read as TLS.
        """
        context = await self._desk.tls_context()
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]
        if await self._has_unread():
            raise PeerProtocolError("more in clear behind START_TLS")
        await self.send([encode_consent(request)])
        async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
            await self._writer.start_tls(context)
        self._is_in_tls = True

    async def _has_unread(self) -> bool:
        """Return whether bytes, or the end of the connection, were received and not read yet."""
        try:
            async with asyncio.timeout(0):
                await self._reader.read(1)
        except TimeoutError:
            return False
        return True

    async def _read_some(self) -> bytes:
        """Return the next bytes; none if the client closed, or was idle for too long."""
        while True:
            try:
                async with asyncio.timeout(CLIENT_IDLE_S):
                    return await self._reader.read(READ_BYTES)
            except TimeoutError:
                if not self._in_work:
                    return b""

    async def _work(self, directory: int) -> None:
        """Answer requests for lists of one directory, in the order of its waiting ones."""
        waiting, has_requests = self._waiting[directory], self._has_requests[directory]
        at_once = min(LISTS_AT_ONCE_MAX, -(-self._in_work_max // self._workers))
        while True:
            while not waiting:
                has_requests.clear()
                await has_requests.wait()
            requests = [waiting.popleft() for _ in range(min(at_once, len(waiting)))]
            while requests:
                async with self._replies:
                    done = await self._desk.send_first_lists(directory, requests, self)
                del requests[:done]
                self._in_work -= done
                self._has_room.set()


def _is_start_tls(request: wire.Request | wire.WrongVersion) -> TypeGuard[wire.OtherRequest]:
    return isinstance(request, wire.OtherRequest) and request.operation is wire.Operation.START_TLS


def _refuse_in_clear(request: wire.Request | wire.WrongVersion) -> bytes:
    """Return the refusal of a bookie that wants a login: a response without a sub-message."""
    if isinstance(request, wire.WrongVersion):
        return wire.encode_wrong_version(request)
    return wire.encode_status(request, Status.EUA)

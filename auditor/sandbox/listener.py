"""Serve a `Bookie` on a loopback port: connections, order of answers and back-pressure.

Its event loop has a thread: bookies answer while the caller does something else.
"""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections import deque
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from auditor.errors import PeerProtocolError
from auditor.sandbox.bookie import Bookie
from auditor.wire import bookie_server as wire

CALL_TIMEOUT_S = 30.0
"""How long one call into the loop may take."""

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for callers in other threads.

    It is a daemon thread, so it never keeps the process alive.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run `coroutine` in the loop and return its result.

        Raises what it raises, and TimeoutError after CALL_TIMEOUT_S.
        """
        future: Future[T] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return future.result(CALL_TIMEOUT_S)

    def stop(self) -> None:
        """Stop the loop and the thread. May be called again."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_TIMEOUT_S)
        if not self._thread.is_alive():
            self._loop.close()


HOST = "127.0.0.1"
QUEUED_REQUESTS_MAX = 20_000
"""If more requests are unanswered on one connection, reading from it pauses."""
WRITE_BYTES = 64 * 2**10
"""Answers are collected up to about this many bytes, then written to the socket."""
ORDER_SEED = 34
"""Seed of the order of answers. It is the same for each connection, so tests are repeatable."""


class Listener:
    """One bookie's port. It can stop, which resets its connections, and start again there."""

    def __init__(self, bookie: Bookie, port: int = 0) -> None:
        self.bookie = bookie
        self.port = port
        self.connections_made = 0
        self.connections_open_max = 0
        self._open: set[BookieConnection] = set()
        self._server: asyncio.Server | None = None
        self._kept: socket.socket | None = None

    async def start(self) -> None:
        """Listen on `port`. If it is 0, choose a free port and set `port` to it.

        Raises OSError if the port is taken.
        """
        assert self._server is None, "the bookie listens already"
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: BookieConnection(self), HOST, self.port)
        self.port = int(self._server.sockets[0].getsockname()[1])
        self._let_port_go()

    async def stop(self, *, keeps_port: bool = False) -> None:
        """Stop listening and reset every connection. May be called when not listening.

        With `keeps_port` the port stays reserved for the next start, and connections are refused.
        """
        server, self._server = self._server, None
        if server is not None:
            server.close()
        self.reset_connections()
        await asyncio.sleep(0)
        self._let_port_go()
        if keeps_port:
            self._kept = socket.socket()
            self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._kept.bind((HOST, self.port))

    def _let_port_go(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def reset_connections(self) -> None:
        """Reset every connection, as happens when a bookie is killed."""
        for connection in list(self._open):
            connection.abort()

    @property
    def is_listening(self) -> bool:
        return self._server is not None

    def on_open(self, connection: BookieConnection) -> None:
        self._open.add(connection)
        self.connections_made += 1
        self.connections_open_max = max(self.connections_open_max, len(self._open))

    def on_close(self, connection: BookieConnection) -> None:
        self._open.discard(connection)


class BookieConnection(asyncio.Protocol):
    """One client's connection. Answers need not come in the order of the requests."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._bookie = listener.bookie
        self._buffer = wire.RequestBuffer()
        self._queue: deque[wire.Request | wire.WrongVersion] = deque()
        self._order = random.Random(ORDER_SEED)  # noqa: S311 - an order, not a secret
        self._transport: asyncio.Transport | None = None
        self._may_write = True
        self._reading = True
        self._answers = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._listener.on_open(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._queue.clear()
        self._listener.on_close(self)

    def abort(self) -> None:
        """Reset the connection. Answers that were not sent are lost."""
        self._queue.clear()
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            requests = [wire.decode_request(body) for body in self._buffer.feed(data)]
        except PeerProtocolError:
            self.abort()
            return
        behaviour = self._bookie.behaviour
        lists = sum(isinstance(request, wire.ListEntries) for request in (*self._queue, *requests))
        if behaviour.lists_outstanding_max is not None and lists > behaviour.lists_outstanding_max:
            self.abort()
            return
        if behaviour.shuffles:
            self._order.shuffle(requests)
        self._queue.extend(requests)
        if len(self._queue) > QUEUED_REQUESTS_MAX and self._transport is not None:
            self._reading = False
            self._transport.pause_reading()
        if behaviour.answer_delay_ms > 0:
            asyncio.get_running_loop().call_later(
                behaviour.answer_delay_ms / 1000, self._answer_queued
            )
        else:
            self._answer_queued()

    def pause_writing(self) -> None:
        self._may_write = False

    def resume_writing(self) -> None:
        self._may_write = True
        self._answer_queued()

    def _answer_queued(self) -> None:
        """Answer the queued requests, as long as the client reads the answers."""
        gathered = bytearray()
        while self._queue and self._may_write and self._transport is not None:
            frame = self._bookie.answer(self._queue.popleft())
            if frame is None:
                continue
            if self._bookie.behaviour.closes_mid_answer:
                self._say_last(bytes(gathered) + frame[: len(frame) // 2])
                return
            gathered += frame
            self._answers += 1
            if self._answers == self._bookie.behaviour.answers_per_connection_max:
                self._say_last(bytes(gathered))
                return
            if len(gathered) >= WRITE_BYTES:
                self._transport.write(bytes(gathered))
                gathered.clear()
        if gathered and self._transport is not None:
            self._transport.write(bytes(gathered))
        if (
            not self._reading
            and self._transport is not None
            and len(self._queue) <= QUEUED_REQUESTS_MAX // 2
        ):
            self._reading = True
            self._transport.resume_reading()

    def _say_last(self, data: bytes) -> None:
        """Send `data`, drop the queued requests, and close the connection."""
        self._queue.clear()
        if self._transport is not None:
            self._transport.write(data)
            self._transport.close()

"""One TCP connection to a bookie, with its protocol state. Only this module uses sockets."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Protocol

from auditor.errors import BookieBarred, BookieUnreachable, PeerProtocolError
from auditor.local_faults import bar, exhaustion
from auditor.wire.bookie_connection import Answered, AnswerTooLarge, BookieConnection

BUSY_BYTES = 64 * 2**10
"""While more bytes than this are missing from a frame, the responses behind it do not count as
late."""


class Listener(Protocol):
    """The user of a link. The link calls these methods."""

    def on_answers(self, link: Link, events: Sequence[Answered | AnswerTooLarge]) -> None:
        """Take responses, in the order they came, and before them those that came as expected.

        Nothing may be sent yet: the bookie may have broken the protocol after them.
        """

    def send_more(self) -> None:
        """Send more requests: all received responses have been passed to `on_answers`."""

    def decode_pending(self) -> None:
        """Decode what was received. Called after `send_more` or `on_lost`, when the bookie need not
        wait.
        """

    def on_lost(self, link: Link, why: str, *, breach: bool) -> None:
        """Handle the end of the connection. Called once, and not after `abort`.

        `breach`: the bookie broke the protocol.
        """

    def on_failed(self, error: BaseException) -> None:
        """Keep an error of the auditor, to raise it where the question was asked."""


class Link(asyncio.Protocol):
    """A connection that always reads, so a bookie never waits for us.

    `heard_at` is when bytes last came, `busy_at` when a large frame was last incomplete, both in
    seconds of the loop's clock. `error` is what the transport said when the connection was lost.
    `probes` counts the GET_BOOKIE_INFO requests sent before the link was handed to `listener`.
    """

    def __init__(
        self, listener: Listener, frame_bytes_max: int, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.listener = listener
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._ended = False
        self.wire = BookieConnection(frame_bytes_max)
        self.heard_at = 0.0
        self.busy_at = 0.0
        self.error: Exception | None = None
        self.probes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        try:
            self._receive(data)
        except BaseException as error:
            self.abort()
            self.listener.on_failed(error)

    def _receive(self, data: bytes) -> None:
        self.heard_at = self._loop.time()
        try:
            events = self.wire.receive(data)
        except PeerProtocolError as error:
            self._end(str(error), breach=True)
            return
        if self.wire.unfinished_bytes > BUSY_BYTES:
            self.busy_at = self.heard_at
        has_answers = bool(events) or self.wire.has_expected_answers
        if has_answers:
            self.listener.on_answers(self, events)
        if self.wire.fault is not None:
            self._end(str(self.wire.fault), breach=True)
        elif has_answers:
            self.listener.send_more()
        self.listener.decode_pending()

    def connection_lost(self, error: Exception | None) -> None:
        fault = None if error is None else exhaustion(error)
        if fault is not None and not self._ended:
            self.abort()
            self.listener.on_failed(fault)
            return
        self.error = error
        why = f"the connection was lost ({error})" if error else "the bookie closed the connection"
        self._end(why, breach=False)

    def send(self, data: bytes) -> None:
        if not self._ended and self._transport is not None:
            self._transport.write(data)

    def stop_reading(self) -> None:
        """Read no more bytes until `start_tls`: further bytes must be read as TLS."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    async def start_tls(self, context: ssl.SSLContext, host: str, timeout_s: float) -> None:
        """Switch to TLS. Raises OSError, that of `ssl` if the peers do not accept each other.

        Raises ConnectionAbortedError after `timeout_s`.
        """
        transport = self._transport
        # On a closed transport asyncio would wait for ever (Python 3.11).
        if transport is None or transport.is_closing() or self._ended:
            raise ConnectionResetError("the connection was lost before the TLS handshake")
        self.wire.ignore_second_start_tls()
        try:
            async with asyncio.timeout(timeout_s):
                self._transport = await self._loop.start_tls(
                    transport, self, context, server_hostname=host
                )
        except TimeoutError:
            raise ConnectionAbortedError(
                f"the TLS handshake took longer than {timeout_s:g} s"
            ) from None
        if self._transport is None:
            raise ConnectionResetError("the connection was lost in the TLS handshake")

    def abort(self) -> None:
        """Close the connection without calling `on_lost`. May be called again."""
        self._ended = True
        self.wire.close()
        if self._transport is not None:
            self._transport.abort()

    def _end(self, why: str, *, breach: bool) -> None:
        if not self._ended:
            self.abort()
            self.listener.on_lost(self, why, breach=breach)


async def open_link(
    listener: Listener, host: str, port: int, frame_bytes_max: int, timeout_s: float
) -> Link:
    """Return a new connection without TLS.

    Raises BookieUnreachable with the reason, which is BookieBarred if this host has no way to the
    bookie, and LocalFault if this host can make no connection.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            _, link = await loop.create_connection(
                lambda: Link(listener, frame_bytes_max, loop), host, port
            )
    except TimeoutError:
        raise BookieUnreachable(f"no connection to {host}:{port} within {timeout_s:g} s") from None
    except (OSError, ValueError, OverflowError, RuntimeError) as error:  # UnicodeError too.
        if (fault := exhaustion(error)) is not None:
            raise fault from error
        if isinstance(error, RuntimeError):
            raise
        said = f"no connection to {host}:{port}: {error}"
        if (why := bar(error)) is not None:
            raise BookieBarred(f"{said} ({why})") from error
        raise BookieUnreachable(said) from error
    return link

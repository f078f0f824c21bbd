"""One connection between the bytes and whoever speaks over it, without a network."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

import pytest
from support.scripted_bookie import ScriptedBookie, info_answer
from support.virtual_time import VirtualLoop

from auditor.bookie.link import Link, open_link
from auditor.errors import BookieUnreachable
from auditor.wire.bookie_connection import Answered, AnswerTooLarge

FRAME_BYTES_MAX = 2**20


class Listener:
    """Records its calls; `fails_at` names a call that raises."""

    def __init__(self, fails_at: str = "") -> None:
        self.calls: list[object] = []
        self.events: list[Answered | AnswerTooLarge] = []
        self.fails_at = fails_at

    def on_answers(self, link: Link, events: Sequence[Answered | AnswerTooLarge]) -> None:
        self.events += events
        self._note("heard", [event.txn_id for event in events])

    def send_more(self) -> None:
        self._note("send_more")

    def decode_pending(self) -> None:
        self._note("decode_pending")

    def on_lost(self, link: Link, why: str, *, breach: bool) -> None:
        self._note("lost", why, breach)

    def on_failed(self, error: BaseException) -> None:
        self._note("failed", error)

    def _note(self, *call: object) -> None:
        self.calls.append(call if len(call) > 1 else call[0])
        if call[0] == self.fails_at:
            raise KeyboardInterrupt


class Transport(asyncio.Transport):
    """Writes down what is sent; nothing comes from it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.aborted = self.paused = 0
        self.closing = False

    def write(self, data: bytes) -> None:  # type: ignore[override]
        self.sent.append(data)

    def abort(self) -> None:
        self.aborted += 1

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self.paused += 1


class Clock(asyncio.AbstractEventLoop):
    """An event loop of which only the time is asked."""

    now = 7.0

    def time(self) -> float:
        return self.now


def connected(fails_at: str = "") -> tuple[Link, Listener, Transport, Clock]:
    """A link on which two times GET_BOOKIE_INFO was asked: transactions 1 and 2."""
    listener, transport, clock = Listener(fails_at), Transport(), Clock()
    link = Link(listener, FRAME_BYTES_MAX, clock)
    link.connection_made(transport)
    link.wire.ask_info()
    link.wire.ask_info()
    return link, listener, transport, clock


GARBAGE = struct.pack(">i", -2)


def test_a_breach_behind_answers_ends_the_connection_before_more_is_asked() -> None:
    """Complete answers count; the end of the connection is reported once, and it is closed."""
    link, listener, transport, _ = connected()
    link.data_received(info_answer(1) + GARBAGE)
    heard, lost, made_out = listener.calls
    assert (("heard", [1]), "decode_pending") == (heard, made_out)
    assert ("lost", str(link.wire.fault), True) == lost
    assert transport.aborted
    link.data_received(info_answer(2))
    link.connection_lost(None)
    assert [heard, lost, made_out] == listener.calls


def test_an_end_of_our_own_is_not_reported() -> None:
    """After `abort` nothing is reported, accepted or sent; it may be called again."""
    link, listener, transport, _ = connected()
    link.send(b"before")
    link.abort()
    link.abort()
    link.data_received(info_answer(1))
    link.connection_lost(None)
    link.send(b"after")
    assert ([], [b"before"]) == (listener.calls, transport.sent)
    with pytest.raises(Exception, match="has ended"):
        link.wire.ask_info()


@pytest.mark.parametrize("fails_at", ["heard", "send_more", "decode_pending"])
def test_whatever_is_raised_on_the_way_is_handed_on_and_ends_the_link(fails_at: str) -> None:
    """An event loop would only log it."""
    link, listener, transport, _ = connected(fails_at)
    link.data_received(info_answer(1))
    name, error = listener.calls[-1]  # type: ignore[misc]
    assert ("failed", KeyboardInterrupt, True) == (name, type(error), transport.aborted > 0)
    calls_before = len(listener.calls)
    link.data_received(info_answer(2))
    assert calls_before == len(listener.calls)


CONTEXT = cast(ssl.SSLContext, object())


def test_reading_stops_until_tls_begins() -> None:
    """On a connection that stands; one that closes, or is not there, is left alone."""
    Link(Listener(), FRAME_BYTES_MAX, Clock()).stop_reading()
    link, _, transport, _ = connected()
    transport.closing = True
    link.stop_reading()
    assert 0 == transport.paused
    transport.closing = False
    link.stop_reading()
    assert 1 == transport.paused


@pytest.mark.parametrize("end", ["never connected", "closing", "aborted"])
def test_on_a_connection_that_is_gone_tls_does_not_begin(end: str) -> None:
    """An event loop would wait for ever."""
    link, _, transport, _ = connected()
    if end == "never connected":
        link = Link(Listener(), FRAME_BYTES_MAX, Clock())
    elif end == "closing":
        transport.closing = True
    else:
        link.abort()
    with pytest.raises(ConnectionResetError, match="lost before the TLS handshake"):
        asyncio.run(link.start_tls(CONTEXT, "b7", 2.5))


def test_a_tls_handshake_is_waited_for_as_long_as_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the context and the name of the host."""
    begun: list[tuple[object, ...]] = []

    async def start_tls(
        transport: object, protocol: object, context: object, *, server_hostname: str
    ) -> None:
        begun.append((transport, protocol, context, server_hostname))
        await asyncio.sleep(9.0)

    with VirtualLoop(ScriptedBookie()) as loop:
        monkeypatch.setattr(loop, "start_tls", start_tls)
        link, transport = Link(Listener(), FRAME_BYTES_MAX, loop), Transport()
        link.connection_made(transport)
        with pytest.raises(ConnectionAbortedError, match=r"took longer than 2\.5 s"):
            loop.run(link.start_tls(CONTEXT, "b7", 2.5))
        assert 2.5 == loop.time()
    assert [(transport, link, CONTEXT, "b7")] == begun


async def _never(_: int) -> None:
    await asyncio.sleep(9.0)


async def _refused(_: int) -> None:
    raise ConnectionRefusedError("refused")


async def _no_such_name(_: int) -> None:
    raise UnicodeError("label too long")


async def _no_such_port(_: int) -> None:
    raise OverflowError("port must be 0-65535")


@pytest.mark.parametrize(
    ("on_connect", "why"),
    [
        (_never, "no connection to b7:3181 within 2.5 s"),
        (_refused, "no connection to b7:3181: refused"),
        (_no_such_name, "no connection to b7:3181: label too long"),
        (_no_such_port, "no connection to b7:3181: port must be 0-65535"),
    ],
)
def test_whatever_stands_in_the_way_of_a_connection_is_the_reason_for_none(
    on_connect: Callable[[int], Awaitable[None]], why: str
) -> None:
    """And a connection that does not come is waited for as long as was said."""
    with VirtualLoop(ScriptedBookie(), on_connect) as loop:
        with pytest.raises(BookieUnreachable) as caught:
            loop.run(open_link(Listener(), "b7", 3181, 100, 2.5))
        assert (2.5 if on_connect is _never else 0.0) == loop.time()
    assert why == str(caught.value)

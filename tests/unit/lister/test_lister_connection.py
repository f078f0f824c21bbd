"""One client of a lister, on a clock that advances only while everything waits."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, cast

import pytest
from support.raw_bookie import frame, info_request, list_request, request, status_name
from support.scripted_bookie import ScriptedBookie
from support.virtual_time import VirtualLoop

from auditor.errors import PeerProtocolError
from auditor.lister.server import (
    CLIENT_IDLE_S,
    CLIENT_REPLIES_MAX,
    HALVES_FROM,
    HANDSHAKE_TIMEOUT_S,
    LISTS_AT_ONCE_MAX,
    REPLIES_HELD_MAX,
    REQUEST_BYTES_MAX,
    SEND_TIMEOUT_S,
    Connection,
)
from auditor.wire import bookie_server as wire
from auditor.wire.bookie_connection import BookieConnection
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

LIST_S = 1.0
"""How long the desk takes for the first lists of what it is asked for."""


class Writer:
    """Records what is sent, with its time; the client needs `drain_s` to read it.

    It is its own transport. `handshakes` has the context of each TLS handshake, the number of
    frames sent before it, and whether reading was paused.
    """

    def __init__(self, drain_s: float = 0.0) -> None:
        self.sent: list[tuple[float, bytes]] = []
        self.drain_s = drain_s
        self.transport = self
        self.is_paused = False
        self.handshake_s = 0.0
        self.handshakes: list[tuple[object, int, bool]] = []

    def pause_reading(self) -> None:
        self.is_paused = True

    async def start_tls(self, context: object) -> None:
        self.handshakes.append((context, len(self.sent), self.is_paused))
        await asyncio.sleep(self.handshake_s)

    def writelines(self, frames: Iterable[bytes]) -> None:
        now = asyncio.get_running_loop().time()
        self.sent += [(now, frame) for frame in frames]

    async def drain(self) -> None:
        await asyncio.sleep(self.drain_s)


class Desk:
    """Makes the first `takes` lists of what it is asked for, and notes what that was."""

    def __init__(self, directories: int = 1, takes: int = 1) -> None:
        self.directories, self.takes, self.speaks_tls = directories, takes, False
        self.asked: list[tuple[int, list[int]]] = []
        self.list_s = LIST_S
        self.turn: asyncio.Lock | None = None
        """A directory makes its lists one after another, if there is one."""
        self.error: Exception | None = None
        self.context = cast(ssl.SSLContext, object())
        self.context_s = 0.0
        """How long the desk takes to return the context of a TLS handshake."""
        self.held = self.held_most = 0
        """Calls for lists that are in work, now and at most."""

    async def answer(self, request: wire.Request | wire.WrongVersion) -> bytes:
        assert isinstance(request, wire.BookieInfo)
        return b"info"

    async def tls_context(self) -> ssl.SSLContext:
        await asyncio.sleep(self.context_s)
        return self.context

    async def send_first_lists(
        self, directory: int, requests: Sequence[wire.ListEntries], client: Connection
    ) -> int:
        self.asked.append((directory, [one.ledger_id for one in requests]))
        self.held += 1
        self.held_most = max(self.held, self.held_most)
        try:
            async with self.turn or nullcontext():
                await asyncio.sleep(self.list_s)
            if self.error is not None:
                raise self.error
            made = requests[: self.takes]
            await client.send([b"list %d" % one.ledger_id for one in made])
            return len(made)
        finally:
            self.held -= 1


def lists(*ledgers: int) -> bytes:
    """Requests for the lists of these ledgers."""
    asks = BookieConnection(2**20)
    return b"".join(asks.ask_list(ledger)[1] for ledger in ledgers)


INFO = BookieConnection(2**20).ask_info()[1]


class Client:
    """What a client sends; each pause is in virtual seconds. At the end it closes, unless it
    stays.
    """

    def __init__(self, desk: Desk, *does: bytes | float, in_work_max: int = 2) -> None:
        self.desk, self.does, self.in_work_max = desk, does, in_work_max
        self.writer = Writer()
        self.stays = False
        self.ended_at = 0.0

    def talk(self) -> list[tuple[float, bytes]]:
        """Return what it got, and when."""
        with VirtualLoop(ScriptedBookie()) as loop:
            try:
                loop.run(self._converse())
            finally:
                self.ended_at = round(loop.time(), 3)
        return [(round(at, 3), frame) for at, frame in self.writer.sent]

    async def _converse(self) -> None:
        reader = asyncio.StreamReader()
        writer = cast(asyncio.StreamWriter, self.writer)
        connection = Connection(reader, writer, self.desk, self.in_work_max)
        conversation = asyncio.ensure_future(connection.converse())
        for one in self.does:
            if isinstance(one, bytes):
                reader.feed_data(one)
            else:
                await asyncio.sleep(one)
        if not self.stays:
            reader.feed_eof()
        await conversation


def test_lists_are_made_in_order_and_as_they_are_made_they_leave() -> None:
    """Lists that the desk did not make are asked for again, before later ones."""
    client = Client(Desk(), lists(1, 2, 3, 4, 5))
    assert [(float(n), b"list %d" % n) for n in range(1, 6)] == client.talk()
    assert [(0, [1, 2]), (0, [2]), (0, [3, 4]), (0, [4]), (0, [5])] == client.desk.asked


def test_no_more_lists_are_asked_for_together_than_may_be_in_work() -> None:
    """Memory holds what is made at once."""
    client = Client(Desk(takes=9), lists(*range(1, 8)), in_work_max=3)
    client.talk()
    assert [(0, [1, 2, 3]), (0, [4, 5, 6]), (0, [7])] == client.desk.asked


def test_many_lists_are_handed_over_in_two_halves() -> None:
    """One is sent while the other is made. No more than a bound at a time, however many may be in
    work.
    """
    client = Client(Desk(takes=99), lists(*range(20)), in_work_max=HALVES_FROM)
    client.talk()
    half = HALVES_FROM // 2
    assert [
        (0, [*range(half)]), (0, [*range(half, 2 * half)]), (0, [*range(2 * half, 20)])
    ] == client.desk.asked  # fmt: skip
    many = range(3 * LISTS_AT_ONCE_MAX)
    client = Client(Desk(takes=len(many)), lists(*many), in_work_max=len(many))
    client.talk()
    assert LISTS_AT_ONCE_MAX == max(len(asked) for _, asked in client.desk.asked)
    assert sorted(many) == sorted(one for _, asked in client.desk.asked for one in asked)


def test_a_half_that_is_made_leaves_while_the_other_is_in_work() -> None:
    """The client asks for more meanwhile."""
    client = Client(Desk(takes=99), lists(*range(HALVES_FROM)), in_work_max=HALVES_FROM)
    client.desk.turn = asyncio.Lock()
    half = HALVES_FROM // 2
    assert [*[1.0] * half, *[2.0] * half] == [at for at, _ in client.talk()]


def test_each_directory_makes_its_lists_beside_the_others() -> None:
    """A ledger lives in directory `id mod n`."""
    client = Client(Desk(directories=2), lists(4, 5, 6), in_work_max=9)
    assert [(1.0, b"list 4"), (1.0, b"list 5"), (2.0, b"list 6")] == client.talk()
    assert [(0, [4, 6]), (1, [5]), (0, [6])] == client.desk.asked


def test_a_client_that_closes_gets_what_it_asked_for() -> None:
    """It may have closed its half alone."""
    client = Client(Desk(), lists(1, 2))
    assert [b"list 1", b"list 2"] == [frame for _, frame in client.talk()]
    assert 2.0 == client.ended_at


def test_other_requests_are_answered_while_lists_are_made() -> None:
    """As long as no more lists are in work than may be."""
    client = Client(Desk(), lists(1, 2), 0.5, INFO, 0.25)
    assert [(0.5, b"info"), (1.0, b"list 1"), (2.0, b"list 2")] == client.talk()


def test_further_requests_wait_unread_while_too_many_lists_are_in_work() -> None:
    """They are read once there is room."""
    client = Client(Desk(), lists(1, 2, 3), 0.5, INFO, 5.0)
    expected = [(1.0, b"list 1"), (1.0, b"info"), (2.0, b"list 2"), (3.0, b"list 3")]
    assert expected == client.talk()


def test_each_time_there_is_too_much_in_work_reading_waits() -> None:
    """Room is what is there now, not what was there before."""
    client = Client(Desk(), lists(1, 2, 3, 4), 0.5, lists(5, 6), 2.0, INFO, 9.0)
    expected = [*(b"list %d" % n for n in (1, 2, 3, 4)), b"info", b"list 5", b"list 6"]
    assert expected == [frame for _, frame in client.talk()]


def test_requests_are_answered_whether_or_not_more_are_to_come() -> None:
    """Also one that comes in two parts."""
    client = Client(Desk(), INFO + INFO[:5], 1.0, INFO[5:], 1.0)
    assert [(0.0, b"info"), (1.0, b"info")] == client.talk()


def test_a_client_that_asks_nothing_is_left_after_its_time() -> None:
    """It holds one of few connections. Its time begins with its last request."""
    client = Client(Desk(), 10.0, INFO)
    client.stays = True
    assert [(10.0, b"info")] == client.talk()
    assert 10.0 + CLIENT_IDLE_S == client.ended_at


def test_a_client_that_waits_for_a_list_is_not_idle() -> None:
    """However long that takes."""
    client = Client(Desk(), lists(1))
    client.stays, client.desk.list_s = True, CLIENT_IDLE_S + 100
    assert [(CLIENT_IDLE_S + 100, b"list 1")] == client.talk()
    assert 2 * CLIENT_IDLE_S == client.ended_at


def errors_of(work: Callable[[], Any]) -> list[BaseException]:
    """What a conversation ends with."""
    with pytest.raises(ExceptionGroup) as caught:
        work()
    return list(caught.value.exceptions)


def test_a_client_that_takes_nothing_is_left_after_its_time() -> None:
    """Otherwise its unread answers would hold a reply for ever."""
    client = Client(Desk(), INFO)
    client.writer.drain_s = SEND_TIMEOUT_S + 1
    (error,) = errors_of(client.talk)
    assert (TimeoutError, SEND_TIMEOUT_S) == (type(error), client.ended_at)


@pytest.mark.parametrize(("directories", "replies"), [(1, 2), (2, 2), (3, 3)])
def test_a_client_that_takes_nothing_holds_one_reply_a_directory(
    directories: int, replies: int
) -> None:
    """At least two, so that one is made while the other is sent. More would keep replies from other
    clients.
    """
    desk = Desk(directories=directories, takes=99)
    client = Client(desk, lists(*range(180)), in_work_max=30)
    client.writer.drain_s = SEND_TIMEOUT_S + 1
    errors_of(client.talk)
    assert replies == desk.held_most


def test_of_many_directories_a_client_that_takes_nothing_leaves_replies_to_others() -> None:
    """It holds fewer than the server holds in all, however many directories there are."""
    desk = Desk(directories=3 * REPLIES_HELD_MAX)
    client = Client(desk, lists(*range(6 * REPLIES_HELD_MAX)), 30.0, in_work_max=1_000)
    client.writer.drain_s = 20.0
    client.talk()
    assert (CLIENT_REPLIES_MAX, True) == (desk.held_most, CLIENT_REPLIES_MAX < REPLIES_HELD_MAX)


def test_a_client_may_take_its_time() -> None:
    """Answers leave one after another: the next one when the last was taken."""
    client = Client(Desk(directories=2, takes=2), lists(1, 2, 3))
    client.writer.drain_s = SEND_TIMEOUT_S - 1
    assert [(1.0, b"list 2"), (60.0, b"list 1"), (60.0, b"list 3")] == client.talk()


@pytest.mark.parametrize(
    "garbage", [struct.pack(">i", REQUEST_BYTES_MAX + 1), struct.pack(">i", 1) + b"\x00"]
)
def test_a_client_that_breaks_the_protocol_is_left_at_once(garbage: bytes) -> None:
    """At the length of a request that nobody needs, or at bytes that are no request."""
    client = Client(Desk(), lists(1), 0.5, garbage, 9.0)
    (error,) = errors_of(client.talk)
    assert (PeerProtocolError, []) == (type(error), client.writer.sent)


def test_a_request_of_the_largest_size_is_waited_for() -> None:
    """It is not there yet: the client closes first."""
    assert [] == Client(Desk(), struct.pack(">i", REQUEST_BYTES_MAX)).talk()


def test_an_error_of_the_desk_ends_the_conversation() -> None:
    """The caller must handle it."""
    client = Client(Desk(), lists(1))
    client.stays, client.desk.error = True, OSError("no more")
    assert [client.desk.error] == errors_of(client.talk)
    assert LIST_S == client.ended_at


def tls_client(*does: bytes | float) -> Client:
    """A client of a lister with TLS."""
    client = Client(Desk(), *does)
    client.desk.speaks_tls = True
    return client


def replies_of(client: Client) -> list[tuple[str, int, str]]:
    """Operation, number and status of each response sent by the connection itself."""
    found = []
    for _, sent in client.writer.sent:
        message = pb.Response.FromString(sent[4:])
        header = message.header
        operation = pb.OperationType.Name(header.operation)
        found.append((operation, header.txnId, status_name(message.status)))
    return found


START_TLS = frame(request("START_TLS", 5))


def test_nothing_but_start_tls_is_answered_in_clear() -> None:
    """EUA, or EBADVERSION, with the number of each request. The desk is not asked."""
    asked = (
        info_request(3, 1),
        list_request(7, 2),
        request("READ_LAC", 3),
        request("START_TLS", 4, version="VERSION_TWO"),
    )
    client = tls_client(b"".join(map(frame, asked)), 5.0)
    client.talk()
    assert [
        ("GET_BOOKIE_INFO", 1, "EUA"),
        ("GET_LIST_OF_ENTRIES_OF_LEDGER", 2, "EUA"),
        ("READ_LAC", 3, "EUA"),
        ("START_TLS", 4, "EBADVERSION"),
    ] == replies_of(client)
    assert ([], []) == (client.desk.asked, client.writer.handshakes)


@pytest.mark.parametrize("before", [b"", frame(info_request(3, 4))])
def test_requests_are_answered_after_the_handshake(before: bytes) -> None:
    """The consent has the number of the request. The handshake follows it with the desk's context,
    and nothing is read in between.
    """
    client = tls_client(before + START_TLS, 1.0, INFO + lists(7), 5.0)
    client.writer.handshake_s = 0.5
    *in_clear, info, listed = client.talk()
    assert [(1.0, b"info"), (2.0, b"list 7")] == [info, listed]
    assert {0.0} == {at for at, _ in in_clear}
    del client.writer.sent[-2:]
    assert ("START_TLS", 5, "EOK") == replies_of(client)[-1]
    assert [(client.desk.context, len(in_clear), True)] == client.writer.handshakes


@pytest.mark.parametrize("behind", [INFO, INFO[:1], INFO[:-1], INFO + INFO[:1]])
def test_bytes_behind_start_tls_end_the_conversation(behind: bytes) -> None:
    """Anybody could have put them there: they must not count as sent inside TLS. TLS is not agreed
    to.
    """
    client = tls_client(START_TLS + behind, 5.0)
    (error,) = errors_of(client.talk)
    assert (PeerProtocolError, []) == (type(error), client.writer.sent)
    assert [] == client.writer.handshakes


@pytest.mark.parametrize("behind", [b"\0", INFO, b""])
def test_what_comes_before_the_consent_ends_the_conversation(behind: bytes) -> None:
    """It came in clear. The end of the connection is like it."""
    client = tls_client(START_TLS, 0.5, behind)
    client.desk.context_s = 1.0
    (error,) = errors_of(client.talk)
    assert (PeerProtocolError, 1.0, []) == (type(error), client.ended_at, client.writer.sent)


def test_a_second_start_tls_ends_the_conversation() -> None:
    """As on a bookie: TLS inside TLS does not exist."""
    client = tls_client(START_TLS, 1.0, START_TLS)
    (error,) = errors_of(client.talk)
    assert (PeerProtocolError, [("START_TLS", 5, "EOK")]) == (type(error), replies_of(client))


def test_a_handshake_that_takes_too_long_ends_the_conversation() -> None:
    """It holds one of few connections."""
    client = tls_client(START_TLS)
    client.stays = True
    client.writer.handshake_s = HANDSHAKE_TIMEOUT_S + 1
    (error,) = errors_of(client.talk)
    assert (TimeoutError, HANDSHAKE_TIMEOUT_S) == (type(error), client.ended_at)

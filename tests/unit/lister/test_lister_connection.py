"""One client of a lister, on a clock that advances only while everything waits."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, cast

import pytest
from support.scripted_bookie import ScriptedBookie
from support.virtual_time import VirtualLoop

from auditor.errors import PeerProtocolError
from auditor.lister.connection import (
    CLIENT_IDLE_S,
    CLIENT_REPLIES_MAX,
    HALVES_FROM,
    LISTS_AT_ONCE_MAX,
    REQUEST_BYTES_MAX,
    SEND_TIMEOUT_S,
    Connection,
)
from auditor.lister.server import REPLIES_HELD_MAX
from auditor.wire import bookie_server as wire
from auditor.wire.bookie_connection import BookieConnection

LIST_S = 1.0
"""How long the desk takes for the first lists of what it is asked for."""


class Writer:
    """Records what is sent, with its time; the client needs `drain_s` to read it."""

    def __init__(self, drain_s: float = 0.0) -> None:
        self.sent: list[tuple[float, bytes]] = []
        self.drain_s = drain_s

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
        self.held = self.held_most = 0
        """Calls for lists that are in work, now and at most."""

    async def answer(self, request: wire.Request | wire.WrongVersion) -> bytes:
        assert isinstance(request, wire.BookieInfo)
        return b"info"

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


def test_a_client_that_takes_nothing_holds_one_reply_a_directory() -> None:
    """More would keep replies from other clients."""
    client = Client(Desk(directories=3, takes=99), lists(*range(180)), in_work_max=30)
    client.writer.drain_s = SEND_TIMEOUT_S + 1
    errors_of(client.talk)
    assert 3 == client.desk.held_most


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

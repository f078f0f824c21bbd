"""A lane and bookies that say nothing, or let nobody ask: one time-out is paid, not one a
ledger.
"""

from __future__ import annotations

import itertools
import socket
from collections import Counter

import pytest
from support.lanes import (
    HELD,
    LOOK,
    NOW_MS,
    REFUSED,
    SHORT_MS,
    SILENT,
    ask,
    lane,
    ledgers,
    listed,
    statuses,
)
from support.scripted_bookie import (
    INFO,
    LIST,
    Connection,
    ScriptedBookie,
    answer,
    frame,
    info_answer,
    list_answer,
)
from support.virtual_time import ask_in_virtual_time, virtual_lane

from auditor.bookie.lane import AsyncLane, Lane, ListQuestion, ReadQuestion
from auditor.config import BookieLimits
from auditor.model.availability import Greeting, ReadStatus
from auditor.wire.entry_availability import encode_runs
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

# Bookies that say nothing


def test_a_refused_connection_is_tried_so_many_times_and_then_silent() -> None:
    """Nobody listens: bookie_connect_attempts attempts, then everything is SILENT, now and in later
    calls, unasked.
    """
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        dead = ScriptedBookie()
        dead.port = nobody.getsockname()[1]
        with lane(dead) as asker:
            answers = asker.lists([ListQuestion(n) for n in range(500)])
            greeting, why = asker.greeting()
            assert {(SILENT, 0, NOW_MS)} == {(a.status, a.requests, a.asked_at_ms) for a in answers}
            assert (Greeting.SILENT, True) == (greeting, why.endswith("(3 attempts)"))
            assert why == answers[0].detail
            assert [SILENT] == statuses(asker.lists([ListQuestion(1)]))
            assert [ReadStatus.SILENT] == statuses(asker.reads([ReadQuestion(1, 0)]))
            assert Greeting.SILENT is asker.greet()[0]


@pytest.mark.parametrize(
    "host",
    [
        "",
        "a" * 70 + ".example",
        "nobody.invalid",
        "::zz",
        "a b",
        "\0",
        "127.0.0.1:99",
        "münchen..de",
    ],
)
def test_a_name_that_cannot_be_resolved_is_silence(host: str) -> None:
    """Whatever stands in the metadata as a host: SILENT with a reason, never an exception."""
    with Lane(
        AsyncLane(
            "b1",
            host,
            1,
            BookieLimits(bookie_connect_attempts=1, bookie_connect_timeout_ms=2000),
            LOOK,
            lambda: NOW_MS,
        )
    ) as asker:
        (only,) = asker.lists([ListQuestion(1)])
        assert (SILENT, True) == (only.status, "no connection to" in only.detail)


@pytest.mark.parametrize("port", [0, -1, 70_000])
def test_a_port_that_is_none_is_silence(port: int) -> None:
    """As for a host."""
    with Lane(
        AsyncLane(
            "b1", "127.0.0.1", port, BookieLimits(bookie_connect_attempts=1), LOOK, lambda: NOW_MS
        )
    ) as asker:
        assert [SILENT] == statuses(asker.lists([ListQuestion(1)]))


def test_a_bookie_that_accepts_and_says_nothing_is_silent_after_one_time_out() -> None:
    """GET_BOOKIE_INFO unanswered: no list is ever sent, no second time-out is paid."""
    with ScriptedBookie(ledgers(9), lambda connection, request: True) as bookie:
        answers, (greeting, why) = ask_in_virtual_time(
            bookie, range(1, 200), rpc_timeout_ms=SHORT_MS
        )
        assert [INFO] == [operation for _, operation, *_ in bookie.requests]
    assert {(SILENT, 0)} == {(a.status, a.requests) for a in answers}
    assert (Greeting.SILENT, "connected, but GET_BOOKIE_INFO was not answered within 1000 ms") == (
        greeting,
        why,
    )


def test_a_bookie_that_closes_every_connection_at_once_is_silent() -> None:
    """Connections without one answer count, whether they are refused or closed."""
    with ScriptedBookie(ledgers(9), greet=lambda connection: connection.close()) as bookie:
        answers, (greeting, why) = ask(bookie, range(1, 10))
        assert 3 == len(bookie.connections)
    assert {SILENT: 9} == Counter(statuses(answers))
    assert (Greeting.SILENT, True) == (greeting, why.endswith("(3 attempts)"))


def test_something_that_is_no_bookie_is_silent() -> None:
    """A peer that speaks another protocol: three breaches, then silence with the reason."""
    with ScriptedBookie(
        ledgers(9), greet=lambda connection: connection.send(b"SSH-2.0-OpenSSH_9.2\r\n" * 9)
    ) as bookie:
        answers, (greeting, why) = ask(bookie, range(1, 10))
    assert {SILENT: 9} == Counter(statuses(answers))
    assert (Greeting.SILENT, True) == (greeting, "does not begin as an answer does" in why)


def test_a_bookie_that_falls_silent_is_tried_once_more_and_then_left() -> None:
    """Half-open: it answered, then nothing, GET_BOOKIE_INFO included. One new connection, then
    silence for all the rest.
    """
    heard = itertools.count()

    def fall_silent(connection: Connection, request: pb.Request) -> bool:
        return next(heard) >= 40

    with ScriptedBookie(ledgers(1000), fall_silent) as bookie:
        answers, (greeting, _) = ask_in_virtual_time(
            bookie, range(1, 1001), bookie_inflight=8, rpc_timeout_ms=SHORT_MS
        )
        assert 2 == len(bookie.connections)
    assert {HELD: 39, SILENT: 961} == Counter(statuses(answers))
    assert [HELD] * 39 == statuses(answers)[:39]
    assert Greeting.SILENT is greeting


def test_a_half_open_connection_is_replaced() -> None:
    """One connection goes dead, the next one works: everything is answered, the dead one's
    questions at the second try.
    """

    def dead_after_ten(connection: Connection, request: pb.Request) -> bool:
        return connection.number == 1 and len(bookie.requests) > 10

    with ScriptedBookie(ledgers(100), dead_after_ten) as bookie:
        answers, (greeting, _) = ask_in_virtual_time(
            bookie, range(1, 101), bookie_inflight=4, rpc_timeout_ms=SHORT_MS
        )
        assert 2 == len(bookie.connections)
    assert {HELD: 100} == Counter(statuses(answers))
    assert 4 == sum(a.retries for a in answers)
    assert Greeting.ANSWERED is greeting


def test_the_deadline_ends_the_conversation() -> None:
    """What is not answered by then is SILENT, and says so; what was answered stays; a later call
    asks nothing.
    """

    def slow(connection: Connection, request: pb.Request) -> bool:
        if listed(request) is None:
            return False
        connection.later(0.05, list_answer(request.header.txnId, listed(request), encode_runs([1])))
        return True

    with (
        ScriptedBookie(ledgers(100), slow) as bookie,
        virtual_lane(bookie, bookie_inflight=1, bookie_deadline_ms=400) as asker,
    ):
        answers = asker.lists([ListQuestion(n) for n in range(1, 101)])
        asked = len(bookie.requests)
        assert 0 < Counter(statuses(answers))[HELD] < 12
        assert {HELD, SILENT} == set(statuses(answers))
        assert "the conversation's deadline of 400 ms passed" == answers[-1].detail
        assert (Greeting.ANSWERED, answers[-1].detail) == asker.greeting()
        assert [SILENT] == statuses(asker.lists([ListQuestion(1)]))
        assert asked == len(bookie.requests)


# Bookies that let nobody ask


def test_eua_refuses_everything_without_asking_each() -> None:
    """Not authorised at GET_BOOKIE_INFO: no list is sent, everything is REFUSED."""

    def eua(connection: Connection, request: pb.Request) -> bool:
        connection.send(frame(answer(request.header.operation, request.header.txnId, pb.EUA)))
        return True

    with ScriptedBookie(ledgers(9), eua) as bookie, lane(bookie) as asker:
        answers = asker.lists([ListQuestion(n) for n in range(1, 100)])
        assert {(REFUSED, 0)} == {(a.status, a.requests) for a in answers}
        assert "not authorised" in answers[0].detail
        assert (Greeting.REFUSED, answers[0].detail) == asker.greeting()
        assert [ReadStatus.REFUSED] == statuses(asker.reads([ReadQuestion(1, 1)]))
        assert [] == bookie.asked(LIST)


def test_eua_to_a_list_ends_the_asking() -> None:
    """A bookie that answers GET_BOOKIE_INFO and refuses lists: the first window is all it is asked,
    or what was read of it.
    """

    def eua(connection: Connection, request: pb.Request) -> bool:
        if listed(request) is None:
            return False
        connection.send(frame(answer(LIST, request.header.txnId, pb.EUA)))
        return True

    with ScriptedBookie(ledgers(9), eua) as bookie:
        answers, (greeting, _) = ask(bookie, range(1, 1000), bookie_inflight=4)
        assert 1 <= len(bookie.asked(LIST)) <= 4
    assert {REFUSED: 999} == Counter(statuses(answers))
    assert Greeting.REFUSED is greeting


def test_a_failing_disk_does_not_make_a_bookie_silent() -> None:
    """GET_BOOKIE_INFO answered EIO is an answer: the bookie is there and is asked."""

    def eio(connection: Connection, request: pb.Request) -> bool:
        if request.header.operation != INFO:
            return False
        connection.send(info_answer(request.header.txnId, pb.EIO))
        return True

    with ScriptedBookie(ledgers(3), eio) as bookie:
        answers, (greeting, _) = ask(bookie, [1, 2, 3])
    assert {HELD: 3} == Counter(statuses(answers))
    assert Greeting.ANSWERED is greeting

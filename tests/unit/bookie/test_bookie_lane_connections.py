"""A lane whose connections break: asked again, counted, and nobody accused."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Callable

import pytest
from support.lanes import (
    HELD,
    INVALID,
    TIMED_OUT,
    ask,
    ledgers,
    listed,
    statuses,
)
from support.scripted_bookie import (
    LIST,
    Connection,
    ScriptedBookie,
    answer,
    frame,
    list_answer,
    read_answer,
)

from auditor.model.availability import Greeting
from auditor.wire.entry_availability import encode_runs
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb


def test_a_reset_is_asked_again_and_counted() -> None:
    """Outstanding questions are sent again on a new connection; no bookie is accused, and the tries
    are counted.
    """

    def reset_once(connection: Connection, request: pb.Request) -> bool:
        if connection.number == 1 and len(bookie.asked(LIST)) == 30:
            connection.reset()
        return connection.number == 1 and len(bookie.asked(LIST)) > 20

    with ScriptedBookie(ledgers(100), reset_once) as bookie:
        answers, greeting = ask(bookie, range(1, 101), bookie_inflight=32)
        asked = Counter(bookie.asked(LIST))
    assert {HELD: 100} == Counter(statuses(answers))
    assert 0 < sum(a.retries for a in answers) <= 64
    assert all(asked[a.ledger_id] <= a.requests == a.retries + 1 for a in answers)
    assert Greeting.ANSWERED is greeting[0]


def test_a_reset_halves_the_window() -> None:
    """A full read queue closes the connection: half as many are sent at once on the next, and half
    again.
    """
    bursts: Counter[int] = Counter()

    def crowded(connection: Connection, request: pb.Request) -> bool:
        if listed(request) is None:
            return False
        bursts[connection.number] += 1
        if connection.number < 4:
            asyncio.get_running_loop().call_later(0.05, connection.reset)
            return True
        return False

    with ScriptedBookie(ledgers(64), crowded) as bookie:
        answers, _ = ask(bookie, range(1, 65), bookie_inflight=64, bookie_retries=5)
    assert {HELD: 64} == Counter(statuses(answers))
    assert [64, 32, 16] == [bursts[n] for n in (1, 2, 3)]


def test_a_ledger_that_always_resets_harms_no_other() -> None:
    """The last try is made alone: the neighbours of a poisonous ledger are answered, it alone is
    not.
    """

    def poison(connection: Connection, request: pb.Request) -> bool:
        if listed(request) != 13:
            return False
        connection.reset()
        return True

    with ScriptedBookie(ledgers(40), poison) as bookie:
        answers, greeting = ask(bookie, range(1, 41), bookie_inflight=16)
        assert 4 == bookie.asked(LIST).count(13)
    assert {HELD: 39, TIMED_OUT: 1} == Counter(statuses(answers))
    assert (TIMED_OUT, 4, 3) == (answers[12].status, answers[12].requests, answers[12].retries)
    assert "each of the 4 times" in answers[12].detail
    assert all(a.retries <= 3 for a in answers)
    assert Greeting.ANSWERED is greeting[0]


@pytest.mark.parametrize(
    "bad",
    [
        lambda txn_id, ledger_id: list_answer(txn_id + 1000, ledger_id, encode_runs([1])),
        lambda txn_id, ledger_id: list_answer(txn_id, ledger_id + 1, encode_runs([1])),
        lambda txn_id, ledger_id: read_answer(txn_id, ledger_id, 0, b""),
        lambda txn_id, ledger_id: frame(answer(LIST, txn_id)),
        lambda txn_id, ledger_id: b"\0\0\0\5hello",
        lambda txn_id, ledger_id: b"HTTP/1.1 400 Bad Request\r\n" * 5,
        lambda txn_id, ledger_id: struct.pack(">i", -2) + bytes(100),
        lambda txn_id, ledger_id: struct.pack(">i", 0),
    ],
    ids=[
        "unknown txn",
        "other ledger",
        "other operation",
        "nothing in it",
        "garbage",
        "http",
        "negative length",
        "empty frame",
    ],
)
def test_a_breach_of_the_protocol_ends_as_invalid_for_its_question_alone(
    bad: Callable[[int, int], bytes],
) -> None:
    """The connection is closed, what was outstanding is asked again; what breaks it each time, even
    alone, is INVALID.
    """

    def breach(connection: Connection, request: pb.Request) -> bool:
        if listed(request) != 3:
            return False
        connection.send(bad(request.header.txnId, 3))
        return True

    with ScriptedBookie(ledgers(12), breach) as bookie:
        answers, greeting = ask(bookie, range(1, 13), bookie_inflight=4)
        assert 4 == bookie.asked(LIST).count(3)
    assert {HELD: 11, INVALID: 1} == Counter(statuses(answers))
    assert (INVALID, 3) == (answers[2].status, answers[2].retries)
    assert "(asked 4 times)" in answers[2].detail
    assert Greeting.ANSWERED is greeting[0]


def test_an_answer_given_twice_costs_a_connection_and_nothing_else() -> None:
    """The first of two equal answers stands; the second is a breach, after which the rest is asked
    on a new connection.
    """

    def twice(connection: Connection, request: pb.Request) -> bool:
        if listed(request) == 5 and connection.number == 1:
            bookie.answer(connection, request)
        return False

    with ScriptedBookie(ledgers(30), twice) as bookie:
        answers, _ = ask(bookie, range(1, 31), bookie_inflight=3)
        assert 2 == len(bookie.connections)
    assert {HELD: 30} == Counter(statuses(answers))


def test_a_connection_closed_in_the_middle_of_an_answer_is_a_reset() -> None:
    """Half a frame and then the end: asked again, not decoded."""

    def half(connection: Connection, request: pb.Request) -> bool:
        if listed(request) != 2 or connection.number > 1:
            return False
        connection.send(list_answer(request.header.txnId, 2, bookie.ledgers[2])[:50])
        connection.close()
        return True

    with ScriptedBookie(ledgers(3), half) as bookie:
        answers, _ = ask(bookie, [1, 2, 3], bookie_inflight=1)
    assert [(HELD, 0), (HELD, 1), (HELD, 0)] == [(a.status, a.retries) for a in answers]

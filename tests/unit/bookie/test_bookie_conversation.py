"""A conversation in virtual time: what a bookie is asked when, and when it is given up, exactly.

A request may take 1.25 s here, which is watched every 0.0625 s: no instant is rounded.
"""

from __future__ import annotations

import asyncio

import pytest
from support.lanes import (
    HELD,
    INVALID,
    NO_SUCH_LEDGER,
    SILENT,
    TIMED_OUT,
    UNSUPPORTED,
    ledgers,
    listed,
    statuses,
)
from support.scripted_bookie import (
    INFO,
    LIST,
    READ,
    Act,
    Connection,
    ScriptedBookie,
    answer,
    frame,
    info_answer,
    list_answer,
    read_answer,
)
from support.virtual_time import VirtualLoop

from auditor.bookie.conversation import NOT_AUTHORISED
from auditor.bookie.dialling import Dialler
from auditor.bookie.exchange import FRUITLESS_MAX, Exchange
from auditor.bookie.lane import AsyncLane, ListQuestion, ReadQuestion
from auditor.errors import BookieRefused
from auditor.model.availability import (
    NOT_ADMITTED,
    Answer,
    AnswerStatus,
    EntryRead,
    Greeting,
    ReadStatus,
)
from auditor.wire.entry_availability import encode_runs
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

RPC_MS = 1_250
RPC_S = 1.25
PAUSE_S = 0.002
"""The first pause after a setback (conftest); each one in a row is twice as long."""


def never_lists(_: Connection, request: pb.Request) -> bool:
    """GET_BOOKIE_INFO is answered, and reads are."""
    return listed(request) is not None


def silent_on(*numbers: int, after: int = 1) -> Act:
    """On these connections nothing is answered but the first `after` requests."""
    heard: dict[int, int] = {}

    def act(connection: Connection, _: pb.Request) -> bool:
        heard[connection.number] = heard.get(connection.number, 0) + 1
        return connection.number in numbers and heard[connection.number] > after

    return act


def ask_lists(loop: VirtualLoop, asker: AsyncLane, *ledger_ids: int) -> list[Answer]:
    return loop.run(asker.lists([ListQuestion(one) for one in ledger_ids]))


def ask_reads(loop: VirtualLoop, asker: AsyncLane, *entry_ids: int) -> list[EntryRead]:
    return loop.run(asker.reads([ReadQuestion(1, one) for one in entry_ids]))


def operations(bookie: ScriptedBookie) -> list[int]:
    return [operation for _, operation, *_ in bookie.requests]


def is_closed(bookie: ScriptedBookie, number: int) -> bool:
    transport = bookie.connections[number - 1].transport
    assert transport is not None
    return transport.is_closed  # type: ignore[attr-defined,no-any-return]


def test_a_bookie_that_answers_at_once_is_waited_for_no_time() -> None:
    """One connection, one greeting, however often it is greeted; every question once."""
    bookie = ScriptedBookie(ledgers(3))
    with VirtualLoop(bookie) as loop:
        asker = loop.lane()
        assert (0, (Greeting.SILENT, "the bookie was not asked")) == (
            asker.probes,
            asker.greeting(),
        )
        assert (Greeting.ANSWERED, "") == loop.run(asker.greet()) == loop.run(asker.greet())
        assert [HELD, HELD, NO_SUCH_LEDGER] == statuses(ask_lists(loop, asker, 1, 3, 4))
        assert [] == ask_lists(loop, asker) == ask_reads(loop, asker)
        assert ([(0.0, "b1", 3181)], 1, 0.0) == (loop.connects, asker.probes, loop.time())
        assert not is_closed(bookie, 1)
        loop.run(asker.close())
        loop.run(asker.close())
        assert is_closed(bookie, 1)
    assert [INFO, LIST, LIST, LIST] == operations(bookie)


def test_a_refused_connection_is_tried_again_after_pauses_that_double() -> None:
    """As often as may be; no pause after the last, and it is said how often."""

    async def refuse(_: int) -> None:
        raise ConnectionRefusedError("refused")

    with VirtualLoop(ScriptedBookie(), refuse) as loop:
        asker = loop.lane(bookie_connect_attempts=3)
        (only,) = ask_lists(loop, asker, 1)
        assert [0.0, PAUSE_S, 3 * PAUSE_S] == pytest.approx([at for at, *_ in loop.connects])
        assert loop.time() == loop.connects[-1][0]
        assert (SILENT, 0, "no connection to b1:3181: refused (3 attempts)") == (
            only.status,
            only.requests,
            only.detail,
        )
        assert (Greeting.SILENT, only.detail) == loop.run(asker.greet())
        assert [SILENT] == statuses(ask_lists(loop, asker, 1))
        assert [ReadStatus.SILENT] == statuses(ask_reads(loop, asker, 0))
        assert (0, 3) == (asker.probes, len(loop.connects))
        assert not asker.has_late_lists


def test_a_bookie_that_does_not_admit_us_refuses_every_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Lists and reads alike, with the reason; it is tried once, without a pause."""
    tried: list[float] = []

    async def refuse(*_: object) -> None:
        tried.append(loop.time())
        raise BookieRefused("wrong password")

    monkeypatch.setattr(Dialler, "open", refuse)
    why = f"{NOT_ADMITTED}wrong password"
    with VirtualLoop(ScriptedBookie()) as loop:
        asker = loop.lane()
        (one,) = loop.run(asker.lists([ListQuestion(1)]))
        (read,) = loop.run(asker.reads([ReadQuestion(1, 2)]))
        assert (Greeting.REFUSED, why) == asker.greeting()
    assert [(AnswerStatus.REFUSED, why), (ReadStatus.REFUSED, why)] == [
        (one.status, one.detail),
        (read.status, read.detail),
    ]
    assert [0.0] == tried


def test_a_connection_that_does_not_come_is_waited_for_so_long_each_time() -> None:
    """And the pauses between."""

    async def never(_: int) -> None:
        await asyncio.sleep(1_000)

    with VirtualLoop(ScriptedBookie(), never) as loop:
        loop.run(loop.lane(bookie_connect_attempts=2, bookie_connect_timeout_ms=2_000).greet())
        assert 4.0 + PAUSE_S == pytest.approx(loop.time())


def test_attempts_count_from_the_last_connection_that_was_of_use() -> None:
    """One attempt each time is enough where each connection is."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if connection.number <= 2 and listed(request) is not None:
            connection.reset()
            return True
        return False

    with VirtualLoop(ScriptedBookie(ledgers(1), act)) as loop:
        (only,) = ask_lists(loop, loop.lane(bookie_connect_attempts=1), 1)
        assert (HELD, 3) == (only.status, only.requests)
        assert [0.0, PAUSE_S, 3 * PAUSE_S] == pytest.approx([at for at, *_ in loop.connects])


def test_a_connection_lost_before_its_greeting_is_an_attempt() -> None:
    """With a pause before the next; the reason is the last one."""
    bookie = ScriptedBookie(greet=lambda connection: connection.close())
    with VirtualLoop(bookie) as loop:
        asker = loop.lane(bookie_connect_attempts=2)
        expected = Greeting.SILENT, "the bookie closed the connection (2 attempts)"
        assert expected == loop.run(asker.greet())
        assert [0.0, PAUSE_S] == [at for at, *_ in loop.connects]


def test_a_bookie_without_a_greeting_is_silent_after_one_time_out() -> None:
    """Nothing else is asked of it, and the connection is closed."""
    bookie = ScriptedBookie(act=lambda connection, request: True)
    with VirtualLoop(bookie) as loop:
        asker = loop.lane(rpc_timeout_ms=RPC_MS)
        assert [SILENT] * 3 == statuses(ask_lists(loop, asker, 1, 2, 3))
        why = "connected, but GET_BOOKIE_INFO was not answered within 1250 ms"
        assert ((Greeting.SILENT, why), RPC_S, 1) == (asker.greeting(), loop.time(), asker.probes)
        loop.run(asyncio.sleep(0))
        assert is_closed(bookie, 1)


@pytest.mark.parametrize("operation", [LIST, READ])
def test_what_goes_unanswered_while_the_bookie_speaks_has_timed_out(operation: int) -> None:
    """Exactly then, and without a question whether the bookie is there; the others are answered."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if request.header.txnId == 2:
            return True
        if request.header.operation == LIST:
            connection.later(
                0.5, list_answer(request.header.txnId, listed(request) or 0, encode_runs([0]))
            )
        elif request.header.operation == READ:
            entry_id = request.readRequest.entryId
            connection.later(0.5, read_answer(request.header.txnId, 1, entry_id, None, pb.ENOENTRY))
        return request.header.operation != INFO

    bookie = ScriptedBookie(ledgers(2), act)
    with VirtualLoop(bookie) as loop:
        asker = loop.lane(rpc_timeout_ms=RPC_MS)
        ask = ask_lists if operation == LIST else ask_reads
        found: list[Answer] | list[EntryRead] = ask(loop, asker, 1, 2)
        assert (RPC_S, 1, Greeting.ANSWERED) == (loop.time(), asker.probes, asker.greeting()[0])
    assert "timed_out" == found[0].status.value != found[1].status.value
    assert found[0].detail == "no answer within 1250 ms, while the bookie answered other requests"


def test_a_long_time_out_is_watched_ten_times_a_second() -> None:
    """Not in twentieths of it."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if request.header.operation == READ and request.readRequest.entryId == 2:
            connection.later(1.0, read_answer(request.header.txnId, 1, 2, None, pb.ENOENTRY))
        return request.header.operation == READ

    with VirtualLoop(ScriptedBookie(act=act)) as loop:
        ask_reads(loop, loop.lane(rpc_timeout_ms=8_050), 1, 2)
        assert 8.1 == pytest.approx(loop.time())


def test_a_bookie_that_said_nothing_since_is_asked_whether_it_is_there() -> None:
    """Its answer tells that reads alone are overdue, also where it spoke after an earlier one."""

    def act(connection: Connection, request: pb.Request) -> bool:
        entry_id = request.readRequest.entryId
        if request.header.operation == READ and entry_id == 3:
            connection.later(0.01, read_answer(request.header.txnId, 1, 3, None, pb.ENOENTRY))
        return request.header.operation == READ and entry_id > 1

    bookie = ScriptedBookie(ledgers(1), act)
    with VirtualLoop(bookie) as loop:
        asker = loop.lane(rpc_timeout_ms=RPC_MS, bookie_requests_per_second=100)
        found = ask_reads(loop, asker, 0, 1, 2, 3, 4)
        assert (pytest.approx(0.0625 + RPC_S, abs=1e-4), 2) == (loop.time(), asker.probes)
    late = ReadStatus.TIMED_OUT
    assert [ReadStatus.PRESENT, ReadStatus.PRESENT, late, ReadStatus.NO_ENTRY, late] == statuses(
        found
    )


def test_a_bookie_that_is_gone_is_tried_once_more_and_then_silent() -> None:
    """One time-out for the lists, one for the question whether it is there, one for a greeting."""
    bookie = ScriptedBookie(ledgers(3), silent_on(1, after=1))
    bookie.act = lambda connection, request: len(bookie.requests) > 1
    with VirtualLoop(bookie) as loop:
        asker = loop.lane(rpc_timeout_ms=RPC_MS)
        found = ask_lists(loop, asker, 1, 2, 3)
        assert 3 * RPC_S + PAUSE_S == pytest.approx(loop.time())
        assert (3, [0.0, 2 * RPC_S + PAUSE_S]) == (asker.probes, [at for at, *_ in loop.connects])
        assert is_closed(bookie, 1)
        assert Greeting.SILENT is asker.greeting()[0]
    assert [(SILENT, 1)] * 3 == [(one.status, one.requests) for one in found]


def test_what_was_asked_on_a_dead_connection_is_asked_on_the_next() -> None:
    """A question whose last try it was has the reason."""
    bookie = ScriptedBookie(ledgers(2), silent_on(1, after=1))
    with VirtualLoop(bookie) as loop:
        found = ask_lists(loop, loop.lane(rpc_timeout_ms=RPC_MS), 1, 2)
        assert 2 * RPC_S + PAUSE_S == loop.time()
    assert [(HELD, 2)] * 2 == [(one.status, one.requests) for one in found]
    with VirtualLoop(ScriptedBookie(ledgers(1), silent_on(1, after=1))) as loop:
        (read,) = ask_reads(loop, loop.lane(rpc_timeout_ms=RPC_MS, bookie_retries=0), 0)
    why = "no answer to anything within 1250 ms each of the 1 times this was asked"
    assert (ReadStatus.TIMED_OUT, why) == (read.status, read.detail)


def test_a_bookie_that_is_sending_a_large_answer_is_there() -> None:
    """While it comes in, nothing behind it is late, nor the question whether it is there."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if listed(request) is not None:
            data = list_answer(
                request.header.txnId, 1, encode_runs([(3 * n, 2) for n in range(30_000)])
            )
            size = len(data) // 6 + 1
            for at in range(6):
                connection.later(2.0 + at, data[at * size : (at + 1) * size])
        elif len(bookie.requests) > 1:
            connection.later(9.0, info_answer(request.header.txnId))
            return True
        return listed(request) is not None

    bookie = ScriptedBookie(ledgers(1), act)
    with VirtualLoop(bookie) as loop:
        (only,) = ask_lists(loop, loop.lane(rpc_timeout_ms=RPC_MS), 1)
        assert (HELD, 1, 7.0) == (only.status, only.requests, loop.time())
    assert [INFO, LIST, INFO] == operations(bookie)


def test_lists_beside_a_greeting_that_is_answered_cannot_be_had() -> None:
    """One time-out finds it out; it is not asked for lists again, and can be read."""
    bookie = ScriptedBookie(ledgers(9), never_lists)
    with VirtualLoop(bookie) as loop:
        asker = loop.lane(rpc_timeout_ms=RPC_MS, bookie_inflight=4)
        found = ask_lists(loop, asker, *range(1, 8))
        assert ([UNSUPPORTED] * 7, RPC_S, 2) == (statuses(found), loop.time(), asker.probes)
        assert {asker.greeting()} == {(Greeting.UNSUPPORTED, one.detail) for one in found}
        assert "is not (asked for 4 ledgers)" in found[0].detail
        assert found[0].detail == ask_lists(loop, asker, 9)[0].detail
        assert [ReadStatus.PRESENT] == statuses(ask_reads(loop, asker, 0))
        assert RPC_S == loop.time()
    assert [1, 2, 3, 4] == bookie.asked(LIST)
    assert 1 == len(bookie.connections)


def test_a_late_list_that_was_given_up_does_no_harm() -> None:
    """It is known when it comes, on the connection that goes on."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if listed(request) is not None:
            connection.later(
                3.0, list_answer(request.header.txnId, listed(request) or 0, encode_runs([0]))
            )
        return listed(request) is not None

    bookie = ScriptedBookie(ledgers(9), act)
    with VirtualLoop(bookie) as loop:
        asker = loop.lane(rpc_timeout_ms=RPC_MS, bookie_inflight=4)
        assert [UNSUPPORTED] * 7 == statuses(ask_lists(loop, asker, *range(1, 8)))
        loop.run(asyncio.sleep(4.0))
        assert [ReadStatus.PRESENT] == statuses(ask_reads(loop, asker, 0))
    assert 1 == len(bookie.connections)


def test_reads_do_not_count_among_the_lists_that_a_bookie_was_asked_for() -> None:
    """One held ledger, never listed, is all it was asked for: it cannot list."""
    with VirtualLoop(ScriptedBookie(ledgers(1), never_lists)) as loop:
        asker = loop.lane(rpc_timeout_ms=RPC_MS)
        ask_reads(loop, asker, *range(9))
        assert [UNSUPPORTED] == statuses(ask_lists(loop, asker, 1))


def test_lists_count_over_all_calls() -> None:
    """Two ledgers that are not there, then one that is held and not listed: it cannot list."""

    def act(connection: Connection, request: pb.Request) -> bool:
        return listed(request) == 1

    with VirtualLoop(ScriptedBookie({1: [0]}, act)) as loop:
        asker = loop.lane(rpc_timeout_ms=RPC_MS)
        assert [NO_SUCH_LEDGER] * 2 == statuses(ask_lists(loop, asker, 8, 9))
        assert [UNSUPPORTED] == statuses(ask_lists(loop, asker, 1))


def test_a_read_that_comes_late_says_nothing_of_lists() -> None:
    """Only a list shows that a bookie can list."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if request.header.operation == READ:
            connection.later(2.0, read_answer(request.header.txnId, 1, 0, bytes(40)))
        return request.header.operation != INFO

    with VirtualLoop(ScriptedBookie(ledgers(3), act)) as loop:
        asker = loop.lane(rpc_timeout_ms=RPC_MS)
        assert [ReadStatus.TIMED_OUT] == statuses(ask_reads(loop, asker, 0))
        loop.run(asyncio.sleep(3.0))
        assert [UNSUPPORTED] * 3 == statuses(ask_lists(loop, asker, 1, 2, 3))


@pytest.mark.parametrize("groups", [1, 50_000])
def test_a_list_that_was_given_up_shows_that_the_bookie_can_list(groups: int) -> None:
    """However large it is: from then on another overdue list is no reason for a question."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if listed(request) == 1:
            runs = encode_runs([(3 * n, 2) for n in range(groups)])
            connection.later(2.0, list_answer(request.header.txnId, 1, runs))
        return listed(request) is not None

    with VirtualLoop(ScriptedBookie(ledgers(2), act)) as loop:
        asker = loop.lane(rpc_timeout_ms=RPC_MS, bookie_inflight=1)
        assert [TIMED_OUT, TIMED_OUT] == statuses(ask_lists(loop, asker, 1, 2))
        assert (2 * RPC_S, 2) == (loop.time(), asker.probes)


@pytest.mark.parametrize("status", [pb.ENOLEDGER, pb.EIO])
def test_a_refusal_that_comes_late_is_no_list(status: int) -> None:
    """It does not show that a bookie can list."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if listed(request) == 1:
            connection.later(2.0, list_answer(request.header.txnId, 1, None, status))
        return listed(request) is not None

    with VirtualLoop(ScriptedBookie(ledgers(4), act)) as loop:
        asker = loop.lane(rpc_timeout_ms=RPC_MS, look=1, bookie_inflight=1)
        assert [UNSUPPORTED] * 4 == statuses(ask_lists(loop, asker, 1, 2, 3, 4))


def test_a_read_without_an_answer_has_timed_out_also_where_no_list_can_be_had() -> None:
    """The reason that there are no lists is none of a read's."""

    def act(connection: Connection, request: pb.Request) -> bool:
        return request.header.operation != INFO

    with VirtualLoop(ScriptedBookie(ledgers(1), act)) as loop:
        asker = loop.lane(rpc_timeout_ms=RPC_MS)
        assert [UNSUPPORTED] == statuses(ask_lists(loop, asker, 1))
        (read,) = ask_reads(loop, asker, 0)
    assert (ReadStatus.TIMED_OUT, True) == (read.status, read.detail.startswith("no answer within"))


def test_a_read_lost_with_its_connection_needs_no_new_connection() -> None:
    """Nothing is left to ask."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if request.header.operation == READ:
            connection.reset()
        return request.header.operation == READ

    with VirtualLoop(ScriptedBookie(ledgers(1), act)) as loop:
        (read,) = ask_reads(loop, loop.lane(bookie_retries=0), 0)
        assert (ReadStatus.TIMED_OUT, 1) == (read.status, len(loop.connects))
    assert (
        "the connection was lost (reset by peer) each of the 1 times this was asked" == read.detail
    )


@pytest.mark.parametrize(
    ("held_first", "connects", "expected"), [(True, 1, TIMED_OUT), (False, 2, UNSUPPORTED)]
)
def test_a_list_lost_with_its_connection_is_followed_by_a_greeting_where_none_ever_came(
    held_first: bool, connects: int, expected: object
) -> None:
    """It tells a bookie that cannot list from one that died; who has listed need not be asked."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if listed(request) == 1:
            connection.reset()
        return listed(request) == 1

    with VirtualLoop(ScriptedBookie(ledgers(2), act)) as loop:
        asker = loop.lane(look=2, bookie_retries=0)
        if held_first:
            assert [HELD] == statuses(ask_lists(loop, asker, 2))
        assert [expected] == statuses(ask_lists(loop, asker, 1))
        assert (connects, connects) == (len(loop.connects), asker.probes)


@pytest.mark.parametrize(("last_words", "expected"), [(b"", SILENT), (b"\0\0\0\5hello", INVALID)])
def test_a_bookie_that_never_answers_before_it_hangs_up_is_left_alone(
    last_words: bytes, expected: object
) -> None:
    """After so many connections in a row, with the reason for every question and the bookie."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if listed(request) is not None:
            connection.send(last_words) if last_words else connection.reset()
        return listed(request) is not None

    with VirtualLoop(ScriptedBookie(ledgers(40), act)) as loop:
        asker = loop.lane(bookie_retries=99, bookie_inflight=4)
        found = ask_lists(loop, asker, *range(1, 40))
        assert FRUITLESS_MAX == len(loop.connects) == asker.probes
        assert {(expected, asker.greeting()[1])} == {(one.status, one.detail) for one in found}
        assert Greeting.ANSWERED is asker.greeting()[0]
    why = f"{FRUITLESS_MAX} connections in a row were lost before a question was answered: "
    assert (True, True) == (found[0].detail.startswith(why), len(found[0].detail) > len(why) + 9)


def test_a_connection_closed_between_two_calls_costs_no_time_and_no_try() -> None:
    """It is made again before anything is asked."""
    bookie = ScriptedBookie(ledgers(2))
    with VirtualLoop(bookie) as loop:
        asker = loop.lane()
        ask_lists(loop, asker, 1)
        bookie.connections[0].close()
        (only,) = ask_lists(loop, asker, 2)
        assert (HELD, 1, 2, 0.0) == (only.status, only.requests, len(loop.connects), loop.time())


def test_the_rate_spreads_the_questions() -> None:
    """One at a time at 50 a second: five take four fiftieths."""
    with VirtualLoop(ScriptedBookie(ledgers(5))) as loop:
        assert [HELD] * 5 == statuses(
            ask_lists(loop, loop.lane(bookie_requests_per_second=50), 1, 2, 3, 4, 5)
        )
        assert 0.08 == pytest.approx(loop.time(), abs=1e-4)


def answers_some(*silent: int) -> Act:
    """Every list a second after it was asked for, but for these."""

    def act(connection: Connection, request: pb.Request) -> bool:
        ledger_id = listed(request)
        if ledger_id is not None and ledger_id not in silent:
            connection.later(1.0, list_answer(request.header.txnId, ledger_id, encode_runs([0])))
        return ledger_id is not None

    return act


def test_the_deadline_counts_what_was_spent_in_calls_and_nothing_between() -> None:
    """Two of three seconds in the first call, one in the second; then no call asks anything."""
    bookie = ScriptedBookie(ledgers(9), answers_some())
    with VirtualLoop(bookie) as loop:
        asker = loop.lane(rpc_timeout_ms=RPC_MS, bookie_deadline_ms=3_000, bookie_inflight=1)
        assert [HELD] * 2 == statuses(ask_lists(loop, asker, 1, 2))
        loop.advance(50.0)
        found = ask_lists(loop, asker, 3, 4, 5)
        assert 53.0 == loop.time()
        late = "the conversation's deadline of 3000 ms passed"
        assert [(SILENT, late)] == [(one.status, one.detail) for one in found[-1:]]
        assert (Greeting.ANSWERED, late) == asker.greeting()
        assert [SILENT] == statuses(ask_lists(loop, asker, 6))
        assert 53.0 == loop.time()
        loop.run(asyncio.sleep(0))
        assert is_closed(bookie, 1)


def test_what_had_timed_out_before_the_deadline_has_timed_out() -> None:
    """What was still waited for is silent."""
    with VirtualLoop(ScriptedBookie(ledgers(9), answers_some(1))) as loop:
        asker = loop.lane(rpc_timeout_ms=RPC_MS, bookie_deadline_ms=2_500, bookie_inflight=2)
        found = ask_lists(loop, asker, 1, 2, 3, 4, 5, 6, 7)
    assert [TIMED_OUT, HELD] == statuses(found)[:2]
    assert SILENT is found[-1].status


def test_a_deadline_before_the_greeting_is_silence() -> None:
    """The bookie never spoke."""
    with VirtualLoop(ScriptedBookie(act=lambda connection, request: True)) as loop:
        asker = loop.lane(rpc_timeout_ms=RPC_MS, bookie_deadline_ms=1_000)
        expected = Greeting.SILENT, "the conversation's deadline of 1000 ms passed"
        assert (expected, 1.0) == (loop.run(asker.greet()), loop.time())


@pytest.mark.parametrize("operation", [INFO, LIST])
def test_eua_ends_the_conversation_at_once(operation: int) -> None:
    """The connection is closed, and nothing is asked again; who was refused did not time out."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if request.header.operation == operation:
            connection.send(frame(answer(operation, request.header.txnId, pb.EUA)))
        return request.header.operation == operation

    bookie = ScriptedBookie(ledgers(9), act)
    with VirtualLoop(bookie) as loop:
        asker = loop.lane(bookie_inflight=2)
        found = ask_lists(loop, asker, *range(1, 9))
        assert {("refused", NOT_AUTHORISED)} == {(one.status.value, one.detail) for one in found}
        assert [ReadStatus.REFUSED] == statuses(ask_reads(loop, asker, 0))
        assert (Greeting.REFUSED, NOT_AUTHORISED) == loop.run(asker.greet())
        assert (1, 1, 0.0) == (len(loop.connects), asker.probes, loop.time())
        loop.run(asyncio.sleep(0))
        assert is_closed(bookie, 1)


def fails(*_: object, **__: object) -> None:
    raise RuntimeError("a bug")


@pytest.mark.parametrize("where", ["on_answers", "decode_pending", "overdue", "send"])
def test_a_fault_of_ours_is_raised_wherever_it_happens(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While answers come in, time passes or something is asked; the lane closes all the same."""
    bookie = ScriptedBookie(ledgers(1), never_lists)
    with VirtualLoop(bookie) as loop:
        asker = loop.lane(rpc_timeout_ms=RPC_MS)
        if where == "overdue":  # by the clock, and not while the greeting comes in
            loop.run(asker.greet())
        monkeypatch.setattr(Exchange, where, fails)
        with pytest.raises(RuntimeError, match="a bug"):
            ask_lists(loop, asker, 1)
        assert RPC_S > loop.time()
        loop.run(asker.close())


def test_a_question_too_odd_to_send_leaves_nothing_behind() -> None:
    """It raises; the connection is closed."""
    bookie = ScriptedBookie(ledgers(1))
    with VirtualLoop(bookie) as loop:
        asker = loop.lane()
        with pytest.raises(Exception, match="-1"):
            ask_lists(loop, asker, -1)
        loop.run(asyncio.sleep(0))
        assert is_closed(bookie, 1)

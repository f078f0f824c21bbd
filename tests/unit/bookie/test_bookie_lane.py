"""A lane against a scripted bookie: every question gets exactly one answer, whatever the bookie does.

Time-outs are short and real; no test asserts how long anything took, only what was asked and what was answered.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
from collections import Counter
from collections.abc import Callable

import pytest
from support.scripted_bookie import (
    INFO,
    LIST,
    READ,
    Connection,
    ScriptedBookie,
    answer,
    entry_body,
    frame,
    info_answer,
    list_answer,
    read_answer,
)

from auditor.bookie.client import AsyncLane, Lane, ListQuestion, ReadQuestion
from auditor.config import BookieLimits
from auditor.model.availability import Answer, AnswerStatus, EntryRead, Greeting, ReadStatus
from auditor.model.ledger import DigestType
from auditor.wire.entry_availability import encode_runs, groups_of
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

HELD, NO_SUCH_LEDGER, SILENT, TIMED_OUT = (
    AnswerStatus.HELD,
    AnswerStatus.NO_SUCH_LEDGER,
    AnswerStatus.SILENT,
    AnswerStatus.TIMED_OUT,
)
REFUSED, INVALID, TOO_LARGE, UNSUPPORTED = (
    AnswerStatus.REFUSED,
    AnswerStatus.INVALID,
    AnswerStatus.TOO_LARGE,
    AnswerStatus.UNSUPPORTED,
)

LOOK, NOW_MS = 1, 1_700_000_000_000
LIMITS: dict[str, float] = {
    "requests_per_second": 0,
    "rpc_timeout_ms": 300,
    "connect_timeout_ms": 2_000,
    "deadline_ms": 60_000,
    "frame_bytes_max": 2**20,
}


def lane(bookie: ScriptedBookie, **changes: float) -> Lane:
    return Lane("b1:3181", "127.0.0.1", bookie.port, BookieLimits(**{**LIMITS, **changes}), LOOK, lambda: NOW_MS)  # type: ignore[arg-type]


def ask(bookie: ScriptedBookie, ledger_ids: range | list[int], **changes: float) -> tuple[list[Answer], tuple[Greeting, str]]:
    """Ask a fresh lane for these lists; the answers come in the order of the questions, one each."""
    with lane(bookie, **changes) as asker:
        answers = asker.lists([ListQuestion(ledger_id) for ledger_id in ledger_ids])
        assert list(ledger_ids) == [a.ledger_id for a in answers]
        return answers, asker.greeting()


def statuses(answers: list[Answer] | list[EntryRead]) -> list[AnswerStatus | ReadStatus]:
    return [a.status for a in answers]


def listed(request: pb.Request) -> int | None:
    """The ledger of a list request, None for anything else."""
    return request.getListOfEntriesOfLedgerRequest.ledgerId if request.header.operation == LIST else None


def ledgers(count: int) -> dict[int, range]:
    return {ledger_id: range(ledger_id % 7 + 1) for ledger_id in range(1, count + 1)}


# A bookie that behaves


def test_held_and_unknown_ledgers_are_told_apart_and_dated() -> None:
    """HELD with canonical groups, NO_SUCH_LEDGER with none; each with its look, its time and what it cost."""
    with ScriptedBookie({7: [0, 2, 4]}) as bookie:
        (held, unknown), greeting = ask(bookie, [7, 8])
    size = len(list_answer(2, 7, encode_runs([0, 2, 4])))
    assert ("b1:3181", 7, LOOK, NOW_MS, HELD, "", 1, 0, size, False) == (
        held.bookie_id, held.ledger_id, held.look, held.asked_at_ms, held.status, held.detail,
        held.requests, held.retries, held.received_bytes, held.non_canonical,
    )  # fmt: skip
    assert ((0, 4, 1, 2),) == groups_of(held.groups)
    assert (NO_SUCH_LEDGER, b"", 1) == (unknown.status, unknown.groups, unknown.requests)
    assert (Greeting.ANSWERED, "") == greeting


def test_many_ledgers_are_asked_once_each_over_one_connection() -> None:
    """A thousand lists: one connection, one GET_BOOKIE_INFO, no question twice, never more outstanding than the window."""
    waiting: list[tuple[Connection, pb.Request]] = []
    most = 0

    def hold_back(connection: Connection, request: pb.Request) -> bool:
        """Answer only when eight wait or the bookie has nothing more to expect: a client that sends more shows it."""
        nonlocal most
        if listed(request) is None:
            return False
        waiting.append((connection, request))
        most = max(most, len(waiting))
        asyncio.get_running_loop().call_later(0.001, drain)
        return True

    def drain() -> None:
        for held in waiting:
            bookie.answer(*held)
        waiting.clear()

    with ScriptedBookie(ledgers(1000), hold_back) as bookie:
        answers, _ = ask(bookie, range(1, 1001), inflight_max=8)
        assert {HELD: 1000} == Counter(statuses(answers))
        assert {1: 1} == Counter(number for number, operation, *_ in bookie.requests if operation == INFO)
        assert list(range(1, 1001)) == bookie.asked(LIST)
        assert 8 == most
        assert 1 == len(bookie.connections)


def test_answers_out_of_order_find_their_questions() -> None:
    """The bookie answers each window backwards."""
    waiting: list[bytes] = []

    def backwards(connection: Connection, request: pb.Request) -> bool:
        ledger_id = listed(request)
        if ledger_id is None:
            return False
        waiting.append(list_answer(request.header.txnId, ledger_id, encode_runs([ledger_id])))
        if len(waiting) == 5:
            connection.send(b"".join(reversed(waiting)))
            waiting.clear()
        return True

    with ScriptedBookie(act=backwards) as bookie:
        answers, _ = ask(bookie, range(1, 51), inflight_max=5)
    assert [((n, n, 1, 0),) for n in range(1, 51)] == [groups_of(a.groups) for a in answers]


def test_calls_go_on_over_the_same_connection() -> None:
    """greet, lists and reads of one lane share its connection and its greeting."""
    with ScriptedBookie(ledgers(3)) as bookie, lane(bookie) as asker:
        assert (Greeting.SILENT, "the bookie was not asked") == asker.greeting()
        assert (Greeting.ANSWERED, "") == asker.greet()
        assert [HELD] == statuses(asker.lists([ListQuestion(1)]))
        assert [ReadStatus.PRESENT] == statuses(asker.reads([ReadQuestion(1, 0, DigestType.CRC32C)]))
        assert (Greeting.ANSWERED, "") == asker.greet()
        assert [] == asker.lists([])
        assert 1 == len(bookie.connections)
        assert 1 == asker.probes


def test_several_lanes_run_at_once_in_one_event_loop() -> None:
    """AsyncLane is Lane without its loop."""

    async def all_at_once(bookies: list[ScriptedBookie]) -> list[list[Answer]]:
        limits = BookieLimits(**LIMITS)  # type: ignore[arg-type]
        lanes = [AsyncLane(f"b{b.port}", "127.0.0.1", b.port, limits, LOOK, lambda: NOW_MS) for b in bookies]
        try:
            return await asyncio.gather(*(each.lists([ListQuestion(n) for n in range(1, 30)]) for each in lanes))
        finally:
            for each in lanes:
                await each.close()

    with ScriptedBookie(ledgers(30)) as one, ScriptedBookie(ledgers(10)) as other:
        first, second = asyncio.run(all_at_once([one, other]))
    assert {HELD: 29} == Counter(statuses(first))
    assert {HELD: 10, NO_SUCH_LEDGER: 19} == Counter(statuses(second))
    assert {f"b{one.port}", f"b{other.port}"} == {a.bookie_id for a in first + second}


def test_expected_bytes_hold_questions_back() -> None:
    """No more answer bytes are expected at once than allowed, yet a list larger than that is asked, alone."""
    waiting: set[int] = set()
    together: set[frozenset[int]] = set()

    def watch(connection: Connection, request: pb.Request) -> bool:
        ledger_id = listed(request)
        if ledger_id is None:
            return False
        waiting.add(ledger_id)
        together.add(frozenset(waiting))

        def later() -> None:
            waiting.discard(ledger_id)
            bookie.answer(connection, request)

        asyncio.get_running_loop().call_later(0.002, later)
        return True

    with ScriptedBookie(ledgers(20), watch) as bookie, lane(bookie, inflight_bytes_max=1000) as asker:
        answers = asker.lists([ListQuestion(n, 5000 if n == 10 else 400) for n in range(1, 21)])
    assert {HELD: 20} == Counter(statuses(answers))
    assert 2 == max(len(at_once) for at_once in together)
    assert {frozenset({10})} == {at_once for at_once in together if 10 in at_once}


def test_a_bookie_that_sends_disorder_is_heard_and_told() -> None:
    """A list that had to be put right is HELD, with its flag."""
    payload = struct.pack(">ii56s", 0, 2, bytes(56)) + struct.pack(">qqii", 5, 5, 1, 0) + struct.pack(">qqii", 0, 0, 2, 0)
    with ScriptedBookie() as bookie:
        bookie.ledgers[1] = payload
        (held,), _ = ask(bookie, [1])
    assert (HELD, True) == (held.status, held.non_canonical)
    assert ((0, 0, 2, 0), (5, 5, 1, 0)) == groups_of(held.groups)


# One ledger in trouble, the others not


def test_a_ledger_that_is_never_answered_times_out_alone() -> None:
    """While others are answered, the one that is not has timed out; it is not asked again."""
    with ScriptedBookie(ledgers(50), lambda connection, request: listed(request) == 7) as bookie:
        answers, greeting = ask(bookie, range(1, 51), inflight_max=4)
        assert 1 == bookie.asked(LIST).count(7)
    assert {HELD: 49, TIMED_OUT: 1} == Counter(statuses(answers))
    assert (TIMED_OUT, 1, 0) == (answers[6].status, answers[6].requests, answers[6].retries)
    assert "no answer within 300 ms" in answers[6].detail
    assert Greeting.ANSWERED is greeting[0]


def test_an_answer_that_comes_late_is_known_and_ignored() -> None:
    """The late answer is no breach: the connection stays and what follows is heard."""

    def late(connection: Connection, request: pb.Request) -> bool:
        if listed(request) == 1:
            connection.later(0.45, list_answer(request.header.txnId, 1, encode_runs([1])))
        elif listed(request) is not None and listed(request) > 2:
            connection.later(0.02, list_answer(request.header.txnId, listed(request), encode_runs([1])))
        else:
            return False
        return True

    with ScriptedBookie(ledgers(60), late) as bookie:
        answers, _ = ask(bookie, range(1, 61), inflight_max=2)
        assert 1 == len(bookie.connections)
    assert [TIMED_OUT] + [HELD] * 59 == statuses(answers)


@pytest.mark.parametrize(
    ("status", "expected", "says"),
    [
        (pb.EIO, REFUSED, "EIO: the bookie's storage failed"),
        (pb.EUNKNOWNLEDGERSTATE, REFUSED, "EUNKNOWNLEDGERSTATE: the bookie does not know what it holds"),
        (pb.EBADREQ, REFUSED, "EBADREQ"),
        (pb.EBADVERSION, REFUSED, "EBADVERSION"),
        (pb.EFENCED, REFUSED, "EFENCED"),
        (pb.ENOENTRY, REFUSED, "ENOENTRY"),
        (pb.ENOLEDGER, NO_SUCH_LEDGER, ""),
    ],
)
def test_a_status_is_about_its_own_ledger(status: int, expected: AnswerStatus, says: str) -> None:
    """Any refusal but EUA and ETOOMANYREQUESTS is for one question, with BookKeeper's name; it is not asked again."""

    def refuse(connection: Connection, request: pb.Request) -> bool:
        if listed(request) != 2:
            return False
        connection.send(list_answer(request.header.txnId, 2, None, status))
        return True

    with ScriptedBookie(ledgers(3), refuse) as bookie:
        answers, greeting = ask(bookie, [1, 2, 3])
    assert [HELD, expected, HELD] == statuses(answers)
    assert answers[1].detail.startswith(says)
    assert 1 == answers[1].requests
    assert Greeting.ANSWERED is greeting[0]


@pytest.mark.parametrize("payload", [b"", bytes(63), encode_runs([1])[:-1], struct.pack(">ii", 1, 0) + bytes(56)])
def test_a_list_that_cannot_be_decoded_is_invalid(payload: bytes) -> None:
    """A truncated or broken list is INVALID, with the rule it breaks, never anything missing."""
    with ScriptedBookie(ledgers(3)) as bookie:
        bookie.ledgers[2] = payload
        answers, _ = ask(bookie, [1, 2, 3])
        assert 1 == len(bookie.connections)
    assert [HELD, INVALID, HELD] == statuses(answers)
    assert answers[1].detail.startswith("the list")
    assert b"" == answers[1].groups


def test_an_answer_too_large_is_named_and_the_others_are_heard() -> None:
    """Its length and the limit are told; its bytes are skipped, on the same connection, and nothing is asked twice."""
    with ScriptedBookie(ledgers(20)) as bookie:
        bookie.ledgers[5] = encode_runs([(3 * n, 2) for n in range(50_000)])
        answers, _ = ask(bookie, range(1, 21))
        assert list(range(1, 21)) == bookie.asked(LIST)
        assert 1 == len(bookie.connections)
    assert {HELD: 19, TOO_LARGE: 1} == Counter(statuses(answers))
    size = len(list_answer(6, 5, bytes(64 + 24 * 50_000)))
    assert f"the answer has {size - 4} bytes, frame_bytes_max accepts {2**20}" == answers[4].detail
    assert size == answers[4].received_bytes


# Connections that break


def test_a_reset_is_asked_again_and_counted() -> None:
    """What was outstanding goes out again on a new connection; nobody is accused, and the tries are told."""

    def reset_once(connection: Connection, request: pb.Request) -> bool:
        if connection.number == 1 and len(bookie.asked(LIST)) == 30:
            connection.reset()
        return connection.number == 1 and len(bookie.asked(LIST)) > 20

    with ScriptedBookie(ledgers(100), reset_once) as bookie:
        answers, greeting = ask(bookie, range(1, 101), inflight_max=32)
        asked = Counter(bookie.asked(LIST))
    assert {HELD: 100} == Counter(statuses(answers))
    assert 0 < sum(a.retries for a in answers) <= 64
    assert all(asked[a.ledger_id] <= a.requests == a.retries + 1 for a in answers)
    assert Greeting.ANSWERED is greeting[0]


def test_a_reset_halves_the_window() -> None:
    """A full read queue closes the connection: half as many are sent at once on the next, and half again."""
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
        answers, _ = ask(bookie, range(1, 65), inflight_max=64, retries_max=5)
    assert {HELD: 64} == Counter(statuses(answers))
    assert [64, 32, 16] == [bursts[n] for n in (1, 2, 3)]


def test_a_ledger_that_always_resets_harms_no_other() -> None:
    """The last try is made alone: the neighbours of a poisonous ledger are answered, it alone is not."""

    def poison(connection: Connection, request: pb.Request) -> bool:
        if listed(request) != 13:
            return False
        connection.reset()
        return True

    with ScriptedBookie(ledgers(40), poison) as bookie:
        answers, greeting = ask(bookie, range(1, 41), inflight_max=16)
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
def test_a_breach_of_the_protocol_ends_as_invalid_for_its_question_alone(bad: Callable[[int, int], bytes]) -> None:
    """The connection is closed, what was outstanding is asked again; what breaks it each time, even alone, is INVALID."""

    def breach(connection: Connection, request: pb.Request) -> bool:
        if listed(request) != 3:
            return False
        connection.send(bad(request.header.txnId, 3))
        return True

    with ScriptedBookie(ledgers(12), breach) as bookie:
        answers, greeting = ask(bookie, range(1, 13), inflight_max=4)
        assert 4 == bookie.asked(LIST).count(3)
    assert {HELD: 11, INVALID: 1} == Counter(statuses(answers))
    assert (INVALID, 3) == (answers[2].status, answers[2].retries)
    assert "(asked 4 times)" in answers[2].detail
    assert Greeting.ANSWERED is greeting[0]


def test_an_answer_given_twice_costs_a_connection_and_nothing_else() -> None:
    """The first of two equal answers stands; the second is a breach, after which the rest is asked on a new connection."""

    def twice(connection: Connection, request: pb.Request) -> bool:
        if listed(request) == 5 and connection.number == 1:
            bookie.answer(connection, request)
        return False

    with ScriptedBookie(ledgers(30), twice) as bookie:
        answers, _ = ask(bookie, range(1, 31), inflight_max=3)
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
        answers, _ = ask(bookie, [1, 2, 3], inflight_max=1)
    assert [(HELD, 0), (HELD, 1), (HELD, 0)] == [(a.status, a.retries) for a in answers]


def test_a_connection_closed_between_two_calls_is_made_again() -> None:
    """A bookie that closes an idle connection costs no question a try."""
    with ScriptedBookie(ledgers(2)) as bookie, lane(bookie) as asker:
        assert [HELD] == statuses(asker.lists([ListQuestion(1)]))
        bookie._loop.call_soon_threadsafe(bookie.connections[0].close)
        _wait_for(lambda: bookie.connections[0].transport.is_closing())
        (second,) = asker.lists([ListQuestion(2)])
        assert (HELD, 0) == (second.status, second.retries)
        assert 2 == len(bookie.connections)


def _wait_for(true: Callable[[], bool]) -> None:
    import time

    for _ in range(200):
        if true():
            time.sleep(0.02)
            return
        time.sleep(0.01)
    raise AssertionError("not within 2 s")


# Bookies that say nothing


def test_a_refused_connection_is_tried_so_many_times_and_then_silent() -> None:
    """Nobody listens: connect_attempts_max attempts, then everything is SILENT, now and in later calls, unasked."""
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
    "host", ["", "a" * 70 + ".example", "nobody.invalid", "::zz", "a b", "\0", "127.0.0.1:99", "münchen..de"]
)
def test_a_name_that_cannot_be_resolved_is_silence(host: str) -> None:
    """Whatever stands in the metadata as a host: SILENT with a reason, never an exception."""
    with Lane("b1", host, 1, BookieLimits(connect_attempts_max=1, connect_timeout_ms=2000), LOOK, lambda: NOW_MS) as asker:
        (only,) = asker.lists([ListQuestion(1)])
        assert (SILENT, True) == (only.status, "no connection to" in only.detail)


@pytest.mark.parametrize("port", [0, -1, 70_000])
def test_a_port_that_is_none_is_silence(port: int) -> None:
    """As for a host."""
    with Lane("b1", "127.0.0.1", port, BookieLimits(connect_attempts_max=1), LOOK, lambda: NOW_MS) as asker:
        assert [SILENT] == statuses(asker.lists([ListQuestion(1)]))


def test_a_bookie_that_accepts_and_says_nothing_is_silent_after_one_time_out() -> None:
    """GET_BOOKIE_INFO unanswered: no list is ever sent, no second time-out is paid."""
    with ScriptedBookie(ledgers(9), lambda connection, request: True) as bookie:
        answers, (greeting, why) = ask(bookie, range(1, 200))
        assert [INFO] == [operation for _, operation, *_ in bookie.requests]
    assert {(SILENT, 0)} == {(a.status, a.requests) for a in answers}
    assert (Greeting.SILENT, "connected, but GET_BOOKIE_INFO was not answered within 300 ms") == (greeting, why)


def test_a_bookie_that_closes_every_connection_at_once_is_silent() -> None:
    """Connections without one answer count, whether they are refused or closed."""
    with ScriptedBookie(ledgers(9), greet=lambda connection: connection.close()) as bookie:
        answers, (greeting, why) = ask(bookie, range(1, 10))
        assert 3 == len(bookie.connections)
    assert {SILENT: 9} == Counter(statuses(answers))
    assert (Greeting.SILENT, True) == (greeting, why.endswith("(3 attempts)"))


def test_something_that_is_no_bookie_is_silent() -> None:
    """A peer that speaks another protocol: three breaches, then silence with the reason."""
    with ScriptedBookie(ledgers(9), greet=lambda connection: connection.send(b"SSH-2.0-OpenSSH_9.2\r\n" * 9)) as bookie:
        answers, (greeting, why) = ask(bookie, range(1, 10))
    assert {SILENT: 9} == Counter(statuses(answers))
    assert (Greeting.SILENT, True) == (greeting, "does not begin as an answer does" in why)


def test_a_bookie_that_falls_silent_is_tried_once_more_and_then_left() -> None:
    """Half-open: it answered, then nothing, GET_BOOKIE_INFO included. One new connection, then silence for all the rest."""
    heard = itertools.count()

    def fall_silent(connection: Connection, request: pb.Request) -> bool:
        return next(heard) >= 40

    with ScriptedBookie(ledgers(1000), fall_silent) as bookie:
        answers, (greeting, _) = ask(bookie, range(1, 1001), inflight_max=8)
        assert 2 == len(bookie.connections)
    assert {HELD: 39, SILENT: 961} == Counter(statuses(answers))
    assert [HELD] * 39 == statuses(answers)[:39]
    assert Greeting.SILENT is greeting


def test_a_half_open_connection_is_replaced() -> None:
    """One connection goes dead, the next one works: everything is answered, the dead one's questions at the second try."""

    def dead_after_ten(connection: Connection, request: pb.Request) -> bool:
        return connection.number == 1 and len(bookie.requests) > 10

    with ScriptedBookie(ledgers(100), dead_after_ten) as bookie:
        answers, (greeting, _) = ask(bookie, range(1, 101), inflight_max=4)
        assert 2 == len(bookie.connections)
    assert {HELD: 100} == Counter(statuses(answers))
    assert 4 == sum(a.retries for a in answers)
    assert Greeting.ANSWERED is greeting


def test_the_deadline_ends_the_conversation() -> None:
    """What is not answered by then is SILENT, and says so; what was answered stays; a later call asks nothing."""

    def slow(connection: Connection, request: pb.Request) -> bool:
        if listed(request) is None:
            return False
        connection.later(0.05, list_answer(request.header.txnId, listed(request), encode_runs([1])))
        return True

    with ScriptedBookie(ledgers(100), slow) as bookie, lane(bookie, inflight_max=1, deadline_ms=400) as asker:
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
    """A bookie that answers GET_BOOKIE_INFO and refuses lists: the first window is all it is asked."""

    def eua(connection: Connection, request: pb.Request) -> bool:
        if listed(request) is None:
            return False
        connection.send(frame(answer(LIST, request.header.txnId, pb.EUA)))
        return True

    with ScriptedBookie(ledgers(9), eua) as bookie:
        answers, (greeting, _) = ask(bookie, range(1, 1000), inflight_max=4)
        assert 4 == len(bookie.asked(LIST))
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


# Bookies that cannot list


def db_ledger_storage(connection: Connection, request: pb.Request) -> bool:
    """Never answers a list of a ledger it holds (ids up to 100), says ENOLEDGER at once for others, answers all else."""
    return listed(request) is not None and listed(request) <= 100


def test_a_bookie_that_cannot_list_is_found_out_in_one_time_out() -> None:
    """Held ledgers unanswered, GET_BOOKIE_INFO answered on the same connection: UNSUPPORTED for the whole rest, unasked."""
    with ScriptedBookie(act=db_ledger_storage) as bookie, lane(bookie, inflight_max=8) as asker:
        answers = asker.lists([ListQuestion(n) for n in [101, 102, *range(1, 90), 103]])
        assert [NO_SUCH_LEDGER] * 2 + [UNSUPPORTED] * 90 == statuses(answers)
        assert 10 == len(bookie.asked(LIST))
        assert Counter({1: 8, 0: 82}) == Counter(a.requests for a in answers[2:])
        assert (Greeting.UNSUPPORTED, answers[5].detail) == asker.greeting()
        assert "cannot list" in answers[5].detail
        assert [(LIST, 1), (INFO, None)] == [(bookie.requests[3][1], bookie.requests[3][2]), bookie.requests[-1][1:3]]
        assert 1 == len(bookie.connections)
        assert [UNSUPPORTED] == statuses(asker.lists([ListQuestion(101)]))
        assert 10 == len(bookie.asked(LIST))


def test_a_bookie_that_cannot_list_can_be_read() -> None:
    """UNSUPPORTED is about lists; reads go on over the same connection."""
    with ScriptedBookie(ledgers(5), db_ledger_storage) as bookie, lane(bookie) as asker:
        assert {UNSUPPORTED: 5} == Counter(statuses(asker.lists([ListQuestion(n) for n in range(1, 6)])))
        assert [ReadStatus.PRESENT] == statuses(asker.reads([ReadQuestion(1, 0, DigestType.CRC32C)]))
        assert 1 == len(bookie.connections)
        assert Greeting.UNSUPPORTED is asker.greeting()[0]


@pytest.mark.parametrize(("held", "unknown"), [(1, 0), (2, 0), (1, 10), (2, 10), (3, 0)])
def test_fewer_than_three_held_ledgers_suffice_if_they_are_all(held: int, unknown: int) -> None:
    """All of what it may hold went unanswered: UNSUPPORTED, also with one ledger; ENOLEDGER proves no ability to list."""
    questions = [*range(1, held + 1), *range(101, 101 + unknown)]
    with ScriptedBookie(act=db_ledger_storage) as bookie:
        answers, (greeting, _) = ask(bookie, questions)
    assert [UNSUPPORTED] * held + [NO_SUCH_LEDGER] * unknown == statuses(answers)
    assert Greeting.UNSUPPORTED is greeting


def test_one_at_a_time_three_time_outs_are_enough() -> None:
    """With a window of one, the third unanswered ledger decides, and the first two are UNSUPPORTED as well."""
    with ScriptedBookie(act=db_ledger_storage) as bookie:
        answers, _ = ask(bookie, range(1, 50), inflight_max=1, rpc_timeout_ms=120)
        assert [1, 2, 3] == bookie.asked(LIST)
    assert {UNSUPPORTED: 49} == Counter(statuses(answers))


def test_one_list_answered_proves_that_the_bookie_can_list() -> None:
    """However many others go unanswered: they have timed out, one by one, and the bookie is not called unable."""
    with ScriptedBookie(ledgers(12), lambda connection, request: (listed(request) or 1) > 1) as bookie:
        answers, (greeting, _) = ask(bookie, range(1, 13), inflight_max=4, rpc_timeout_ms=120)
    assert [HELD] + [TIMED_OUT] * 11 == statuses(answers)
    assert Greeting.ANSWERED is greeting


def test_a_bookie_that_resets_every_list_cannot_list() -> None:
    """No read threads: each list of a held ledger resets the connection, GET_BOOKIE_INFO is answered on the next one."""

    def reset_lists(connection: Connection, request: pb.Request) -> bool:
        if listed(request) is None:
            return False
        connection.reset()
        return True

    with ScriptedBookie(act=reset_lists) as bookie:
        answers, (greeting, _) = ask(bookie, range(1, 500), inflight_max=4, retries_max=1)
        assert len(bookie.asked(LIST)) < 20
    assert {UNSUPPORTED: 499} == Counter(statuses(answers))
    assert Greeting.UNSUPPORTED is greeting


# Reads


def read(bookie: ScriptedBookie, *questions: ReadQuestion, **changes: float) -> list[EntryRead]:
    with lane(bookie, **changes) as asker:
        reads = asker.reads(questions)
        assert [(q.ledger_id, q.entry_id) for q in questions] == [(r.ledger_id, r.entry_id) for r in reads]
        return reads


def reading(body: bytes | None, status: int = 0) -> Callable[[Connection, pb.Request], bool]:
    """A bookie that answers every read with this."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if request.header.operation != READ:
            return False
        asked = request.readRequest
        connection.send(read_answer(request.header.txnId, asked.ledgerId, asked.entryId, body, status))
        return True

    return act


@pytest.mark.parametrize("digest_type", DigestType)
def test_an_entry_that_is_there_and_right_is_present(digest_type: DigestType) -> None:
    """Ids and digest match; the look, the time and the cost are told."""
    body = entry_body(5, 6, digest_type, b"pw")
    with ScriptedBookie(act=reading(body)) as bookie:
        (found,) = read(bookie, ReadQuestion(5, 6, digest_type, b"pw"))
    size = len(read_answer(2, 5, 6, body))
    assert EntryRead("b1:3181", 5, 6, LOOK, NOW_MS, ReadStatus.PRESENT, "", 1, 0, size) == found


def test_hmac_without_its_password_is_present_by_its_ids() -> None:
    """The ids suffice, and the doubt is told; wrong ids do not."""
    with ScriptedBookie(act=reading(entry_body(5, 6, DigestType.HMAC, b"pw"))) as bookie:
        right, wrong = read(bookie, ReadQuestion(5, 6, DigestType.HMAC), ReadQuestion(5, 7, DigestType.HMAC))
    assert (ReadStatus.PRESENT, "digest unverified") == (right.status, right.detail)
    assert (ReadStatus.INVALID, True) == (wrong.status, "wrong ids" in wrong.detail)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (entry_body(5, 7), "wrong ids"),
        (entry_body(4, 6), "wrong ids"),
        (entry_body(5, 6)[:-1] + b"?", "wrong digest"),
        (entry_body(5, 6, DigestType.CRC32), "wrong digest"),
        (b"", "too short"),
        (entry_body(5, 6)[:35], "too short"),
    ],
)
def test_what_is_not_the_entry_is_invalid_and_never_absent(body: bytes, says: str) -> None:
    """Another entry, a changed byte, a torn one: INVALID, with what is wrong and no byte of it."""
    with ScriptedBookie(act=reading(body)) as bookie:
        (found,) = read(bookie, ReadQuestion(5, 6, DigestType.CRC32C))
    assert (ReadStatus.INVALID, True) == (found.status, found.detail.endswith(says))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (pb.ENOENTRY, ReadStatus.NO_ENTRY),
        (pb.ENOLEDGER, ReadStatus.NO_LEDGER),
        (pb.EIO, ReadStatus.REFUSED),
        (pb.EUNKNOWNLEDGERSTATE, ReadStatus.REFUSED),
        (pb.EBADREQ, ReadStatus.REFUSED),
    ],
)
def test_only_enoentry_and_enoledger_are_absence(status: int, expected: ReadStatus) -> None:
    """Every other status leaves it unknown."""
    with ScriptedBookie(act=reading(None, status)) as bookie:
        assert [expected] == statuses(read(bookie, ReadQuestion(5, 6, DigestType.CRC32C)))


def test_a_read_that_is_never_answered_times_out_alone() -> None:
    """Neither absence nor silence: the others are answered."""
    with ScriptedBookie(ledgers(3), lambda connection, request: request.readRequest.entryId == 2) as bookie:
        reads = read(bookie, *(ReadQuestion(1, n, DigestType.CRC32C) for n in range(5)), inflight_max=2)
    assert [ReadStatus.TIMED_OUT if n == 2 else ReadStatus.PRESENT for n in range(5)] == statuses(reads)


def test_too_many_requests_is_asked_again_after_a_pause() -> None:
    """A full read queue is no answer: asked again until it is one, and the tries are told."""
    tries: Counter[int] = Counter()

    def busy(connection: Connection, request: pb.Request) -> bool:
        entry_id = request.readRequest.entryId
        tries[entry_id] += request.header.operation == READ
        if request.header.operation != READ or tries[entry_id] > 2:
            return False
        connection.send(read_answer(request.header.txnId, 1, entry_id, None, pb.ETOOMANYREQUESTS))
        return True

    with ScriptedBookie(ledgers(3), busy) as bookie:
        reads = read(bookie, *(ReadQuestion(1, n, DigestType.CRC32C) for n in range(6)))
        assert 1 == len(bookie.connections)
    assert [(ReadStatus.PRESENT, 3, 2)] * 6 == [(r.status, r.requests, r.retries) for r in reads]


def test_too_many_requests_for_ever_is_a_refusal() -> None:
    """After retries_max more tries it is REFUSED, with BookKeeper's name."""
    with ScriptedBookie(act=reading(None, pb.ETOOMANYREQUESTS)) as bookie:
        (found,) = read(bookie, ReadQuestion(1, 1), retries_max=2)
    assert (ReadStatus.REFUSED, 3, 2) == (found.status, found.requests, found.retries)
    assert found.detail.startswith("ETOOMANYREQUESTS")


def test_reads_on_a_connection_that_resets_are_asked_again() -> None:
    """As for lists."""

    def reset_first(connection: Connection, request: pb.Request) -> bool:
        if request.header.operation == READ and connection.number == 1:
            connection.reset()
            return True
        return False

    with ScriptedBookie(ledgers(3), reset_first) as bookie:
        reads = read(bookie, *(ReadQuestion(1, n, DigestType.CRC32C) for n in range(6)))
    assert [(ReadStatus.PRESENT, 1)] * 6 == [(r.status, r.retries) for r in reads]


# Our own faults


def test_a_fault_of_ours_is_raised_and_not_taken_for_silence() -> None:
    """A question no ledger can have is a bug: it raises, and the lane is of no more use, but closes."""
    from auditor.errors import LocalProtocolError

    with ScriptedBookie(ledgers(3)) as bookie, lane(bookie) as asker, pytest.raises(LocalProtocolError):
        asker.lists([ListQuestion(-1)])


def test_an_exception_while_answers_come_in_is_raised_where_they_were_asked() -> None:
    """A clock that fails stands for any bug inside the event loop's callbacks."""
    calls = itertools.count()

    def clock() -> int:
        if next(calls) >= 2:
            raise RuntimeError("the clock failed")
        return NOW_MS

    with (
        ScriptedBookie(ledgers(50)) as bookie,
        Lane("b1", "127.0.0.1", bookie.port, BookieLimits(inflight_max=2), LOOK, clock) as asker,
        pytest.raises(RuntimeError, match="the clock failed"),
    ):
        asker.lists([ListQuestion(n) for n in range(1, 50)])

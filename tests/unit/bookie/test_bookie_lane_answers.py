"""A lane against a bookie that behaves, or misbehaves about one ledger: every question gets exactly
one answer.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter

import pytest
from support.lanes import (
    FAILED,
    HELD,
    INVALID,
    LIMITS,
    LOOK,
    NO_SUCH_LEDGER,
    NOW_MS,
    REFUSED,
    TOO_LARGE,
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
    list_answer,
)

from auditor.bookie.lane import AsyncLane, ListQuestion
from auditor.config import BookieLimits
from auditor.model.availability import Answer, AnswerStatus, Greeting
from auditor.wire.entry_availability import encode_runs, groups_of
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

# A bookie that behaves


def test_held_and_unknown_ledgers_are_distinguished_and_dated() -> None:
    """HELD with canonical groups, NO_SUCH_LEDGER with none; each with its look, its time and what
    it cost.
    """
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
    """A thousand lists: one connection, one GET_BOOKIE_INFO, no question twice, never more
    outstanding than the window.
    """
    waiting: list[tuple[Connection, pb.Request]] = []
    most = 0

    def hold_back(connection: Connection, request: pb.Request) -> bool:
        """Answer only when eight wait or the bookie has nothing more to expect: a client that sends
        more shows it.
        """
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
        answers, _ = ask(bookie, range(1, 1001), bookie_inflight=8)
        assert {HELD: 1000} == Counter(statuses(answers))
        assert {1: 1} == Counter(
            number for number, operation, *_ in bookie.requests if operation == INFO
        )
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
        answers, _ = ask(bookie, range(1, 51), bookie_inflight=5)
    assert [((n, n, 1, 0),) for n in range(1, 51)] == [groups_of(a.groups) for a in answers]


def test_several_lanes_run_at_once_in_one_event_loop() -> None:
    """AsyncLane is BlockingLane without its loop."""

    async def all_at_once(bookies: list[ScriptedBookie]) -> list[list[Answer]]:
        limits = BookieLimits(**LIMITS)  # type: ignore[arg-type]
        lanes = [
            AsyncLane(f"b{b.port}", "127.0.0.1", b.port, limits, LOOK, lambda: NOW_MS)
            for b in bookies
        ]
        try:
            return await asyncio.gather(
                *(each.lists([ListQuestion(n) for n in range(1, 30)]) for each in lanes)
            )
        finally:
            for each in lanes:
                await each.close()

    with ScriptedBookie(ledgers(30)) as one, ScriptedBookie(ledgers(10)) as other:
        first, second = asyncio.run(all_at_once([one, other]))
    assert {HELD: 29} == Counter(statuses(first))
    assert {HELD: 10, NO_SUCH_LEDGER: 19} == Counter(statuses(second))
    assert {f"b{one.port}", f"b{other.port}"} == {a.bookie_id for a in first + second}


def test_expected_bytes_hold_questions_back() -> None:
    """No more answer bytes are expected at once than allowed, yet a list larger than that is asked,
    alone.
    """
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

    with (
        ScriptedBookie(ledgers(20), watch) as bookie,
        lane(bookie, bookie_inflight_bytes=1000) as asker,
    ):
        answers = asker.lists([ListQuestion(n, 5000 if n == 10 else 400) for n in range(1, 21)])
    assert {HELD: 20} == Counter(statuses(answers))
    assert 2 == max(len(at_once) for at_once in together)
    assert {frozenset({10})} == {at_once for at_once in together if 10 in at_once}


def test_a_list_in_disorder_is_no_proof_of_an_entry() -> None:
    """A list whose groups are out of order is INVALID, and the detail says why."""
    payload = (
        struct.pack(">ii56s", 0, 2, bytes(56))
        + struct.pack(">qqii", 5, 5, 1, 0)
        + struct.pack(">qqii", 0, 0, 2, 0)
    )
    with ScriptedBookie() as bookie:
        bookie.ledgers[1] = payload
        (held,), _ = ask(bookie, [1])
    assert (AnswerStatus.INVALID, b"") == (held.status, held.groups)
    assert "groups overlap or are out of order" in held.detail


def test_a_list_with_reserved_bytes_is_believed_and_flagged() -> None:
    """What it says is well defined, but no bookie that is known sends it."""
    group = struct.pack(">qqii", 0, 0, 2, 0)
    with ScriptedBookie() as bookie:
        bookie.ledgers[1] = struct.pack(">ii56s", 0, 1, bytes(55) + b"\1") + group
        (held,), _ = ask(bookie, [1])
    assert (HELD, group, True) == (held.status, held.groups, held.non_canonical)


# One ledger in trouble, the others not


@pytest.mark.parametrize(
    ("status", "expected", "says"),
    [
        (pb.EIO, FAILED, "EIO: the bookie's storage failed"),
        (
            pb.EUNKNOWNLEDGERSTATE,
            FAILED,
            "EUNKNOWNLEDGERSTATE: the bookie does not know what it holds",
        ),
        (pb.EBADREQ, REFUSED, "EBADREQ"),
        (pb.EBADVERSION, REFUSED, "EBADVERSION"),
        (pb.EFENCED, REFUSED, "EFENCED"),
        (pb.ENOENTRY, REFUSED, "ENOENTRY"),
        (pb.ENOLEDGER, NO_SUCH_LEDGER, ""),
    ],
)
def test_a_status_is_about_its_own_ledger(status: int, expected: AnswerStatus, says: str) -> None:
    """Any refusal but EUA and ETOOMANYREQUESTS is for one question, with BookKeeper's name; it is
    not asked again.
    """

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


@pytest.mark.parametrize(
    "payload", [b"", bytes(63), encode_runs([1])[:-1], struct.pack(">ii", 1, 0) + bytes(56)]
)
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
    """The evidence has its length and the limit; its bytes are skipped, on the same connection, and
    nothing is asked twice.
    """
    with ScriptedBookie(ledgers(20)) as bookie:
        bookie.ledgers[5] = encode_runs([(3 * n, 2) for n in range(50_000)])
        answers, _ = ask(bookie, range(1, 21))
        assert list(range(1, 21)) == bookie.asked(LIST)
        assert 1 == len(bookie.connections)
    assert {HELD: 19, TOO_LARGE: 1} == Counter(statuses(answers))
    size = len(list_answer(6, 5, bytes(64 + 24 * 50_000)))
    assert f"the answer has {size - 4} bytes, frame_bytes_max accepts {2**20}" == answers[4].detail
    assert size == answers[4].received_bytes

"""A lane and a bookie that cannot list: found out once, for all ledgers."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from support.lanes import (
    HELD,
    NO_SUCH_LEDGER,
    SHORT_MS,
    SILENT,
    TIMED_OUT,
    UNSUPPORTED,
    ask,
    ledgers,
    listed,
    statuses,
)
from support.scripted_bookie import (
    INFO,
    LIST,
    Connection,
    ScriptedBookie,
    info_answer,
    list_answer,
)
from support.virtual_time import ask_in_virtual_time

from auditor.model.availability import Greeting
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb


def db_ledger_storage(connection: Connection, request: pb.Request) -> bool:
    """Never answers a list of a ledger it holds (ids up to 100), says ENOLEDGER at once for others,
    answers all else.
    """
    return listed(request) is not None and listed(request) <= 100


@pytest.mark.parametrize(("held", "unknown"), [(1, 0), (2, 0), (1, 10), (2, 10), (3, 0)])
def test_fewer_than_three_held_ledgers_suffice_if_they_are_all(held: int, unknown: int) -> None:
    """All of what it may hold went unanswered: UNSUPPORTED, also with one ledger; ENOLEDGER proves
    no ability to list.
    """
    questions = [*range(1, held + 1), *range(101, 101 + unknown)]
    with ScriptedBookie(act=db_ledger_storage) as bookie:
        answers, (greeting, _) = ask_in_virtual_time(bookie, questions, rpc_timeout_ms=SHORT_MS)
    assert [UNSUPPORTED] * held + [NO_SUCH_LEDGER] * unknown == statuses(answers)
    assert Greeting.UNSUPPORTED is greeting


def test_one_at_a_time_three_time_outs_are_enough() -> None:
    """With a window of one, the third unanswered ledger decides, and the first two are UNSUPPORTED
    as well.
    """
    with ScriptedBookie(act=db_ledger_storage) as bookie:
        answers, _ = ask_in_virtual_time(
            bookie, range(1, 50), bookie_inflight=1, rpc_timeout_ms=250
        )
        assert [1, 2, 3] == bookie.asked(LIST)
    assert {UNSUPPORTED: 49} == Counter(statuses(answers))


def test_one_list_answered_proves_that_the_bookie_can_list() -> None:
    """However many others go unanswered: they have timed out, one by one, and the bookie is not
    called unable.
    """
    with ScriptedBookie(
        ledgers(12), lambda connection, request: (listed(request) or 1) > 1
    ) as bookie:
        answers, (greeting, _) = ask_in_virtual_time(
            bookie, range(1, 13), bookie_inflight=4, rpc_timeout_ms=250
        )
    assert [HELD] + [TIMED_OUT] * 11 == statuses(answers)
    assert Greeting.ANSWERED is greeting


def reset_lists(connection: Connection, request: pb.Request) -> bool:
    if listed(request) is not None:
        connection.reset()
    return listed(request) is not None


def test_a_bookie_that_resets_every_list_again_cannot_list() -> None:
    """No read threads: each list of a held ledger resets the connection, GET_BOOKIE_INFO is
    answered on the next one.
    """
    with ScriptedBookie(act=reset_lists) as bookie:
        answers, (greeting, _) = ask(bookie, range(1, 500), 2, bookie_inflight=4, bookie_retries=1)
        assert len(bookie.asked(LIST)) < 20
    assert {UNSUPPORTED: 499} == Counter(statuses(answers))
    assert Greeting.UNSUPPORTED is greeting


@pytest.mark.parametrize(("expected", "count"), [({TIMED_OUT}, 3), ({TIMED_OUT, SILENT}, 499)])
def test_at_the_first_look_lists_that_reset_prove_nothing(
    expected: set[object], count: int
) -> None:
    """A network does that too, for a while: a sample taken for that would pass for all there is.
    The second look tells.
    """
    with ScriptedBookie(act=reset_lists) as bookie:
        answers, (greeting, _) = ask(
            bookie, range(1, count + 1), bookie_inflight=4, bookie_retries=1
        )
        assert len(bookie.asked(LIST)) < 100
    assert (expected, Greeting.ANSWERED) == (set(statuses(answers)), greeting)


def test_get_bookie_info_must_be_answered_after_the_lists() -> None:
    """Answered at the start only, it proves nothing: the questions are tried again before anything
    is said of the bookie.
    """

    def only_once(connection: Connection, request: pb.Request) -> bool:
        if request.header.operation == INFO:
            return (
                sum(
                    1
                    for number, sent, *_ in bookie.requests
                    if number == connection.number and sent == INFO
                )
                > 1
            )
        return db_ledger_storage(connection, request)

    with ScriptedBookie(act=only_once) as bookie:
        answers, _ = ask_in_virtual_time(
            bookie, [1, 2, 3, 101], 2, bookie_retries=1, rpc_timeout_ms=250
        )
    assert [(UNSUPPORTED, 2)] * 3 == [(a.status, a.requests) for a in answers[:3]]
    assert answers[3].status is NO_SUCH_LEDGER


def test_a_bookie_that_resets_lists_and_then_dies_is_silent() -> None:
    """Without GET_BOOKIE_INFO answered after the last try, nothing is known of what it can do."""

    def die(connection: Connection) -> None:
        if connection.number > 2:
            connection.close()

    with ScriptedBookie(act=reset_lists, greet=die) as bookie:
        answers, (greeting, _) = ask(bookie, [1], bookie_retries=1)
    assert [SILENT] == statuses(answers)
    assert Greeting.SILENT is greeting


def test_no_list_is_asked_for_while_get_bookie_info_is_awaited() -> None:
    """Once it is in doubt whether the bookie can list, it is not asked for more lists until that is
    known.
    """
    in_doubt: list[int] = []

    def slow_info(connection: Connection, request: pb.Request) -> bool:
        ledger_id, txn_id = listed(request), request.header.txnId
        if ledger_id is not None and ledger_id > 100:
            connection.later(0.01, list_answer(txn_id, ledger_id, None, pb.ENOLEDGER))
            return True
        if ledger_id is None and len(bookie.requests) > 1:
            in_doubt.append(len(bookie.asked(LIST)))
            asyncio.get_running_loop().call_later(
                0.15, lambda: in_doubt.append(len(bookie.asked(LIST)))
            )
            connection.later(0.15, info_answer(txn_id))
            return True
        return ledger_id is not None

    with ScriptedBookie(act=slow_info) as bookie:
        answers, _ = ask_in_virtual_time(
            bookie, [1, *range(101, 301)], bookie_inflight=3, rpc_timeout_ms=250
        )
    assert [UNSUPPORTED] + [NO_SUCH_LEDGER] * 200 == statuses(answers)
    assert in_doubt[0] == in_doubt[1] < 201

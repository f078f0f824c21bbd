"""A lane whose caller does not wait for overdue lists: it reads beside them, and a list that comes
late counts.
"""

from __future__ import annotations

from support.lanes import (
    HELD,
    NO_SUCH_LEDGER,
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
    Connection,
    ScriptedBookie,
    list_answer,
)
from support.virtual_time import virtual_lane

from auditor.bookie.exchange import ListPatience
from auditor.bookie.lane import ListQuestion, ReadQuestion
from auditor.model.availability import Greeting, ReadStatus
from auditor.wire.entry_availability import encode_runs
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

PATIENCE = ListPatience(overdue_ms=60, give_up_ms=400)
LONG_MS = 20_000
"""A time-out of a request, much longer than a list is awaited here."""


def never_lists(connection: Connection, request: pb.Request) -> bool:
    """As DbLedgerStorage: no answer to a list, answers to all else."""
    return listed(request) is not None


def test_entries_are_read_before_the_time_out_of_a_list() -> None:
    """A bookie that never lists is read, and found unable to list, long before the time-out of a
    request.
    """
    with (
        ScriptedBookie(ledgers(1), never_lists) as bookie,
        virtual_lane(bookie, patience=PATIENCE, rpc_timeout_ms=LONG_MS) as asker,
    ):
        assert [UNSUPPORTED] == statuses(asker.lists([ListQuestion(1)]))
        assert [ReadStatus.PRESENT] == statuses(asker.reads([ReadQuestion(1, 0)]))
        (answer,) = asker.settle_late_lists()
        greeting = asker.greeting()
        assert asker.elapsed_s() < 1
    assert [INFO, LIST, INFO, READ] == [operation for _, operation, *_ in bookie.requests]
    assert (UNSUPPORTED, 1) == (answer.status, answer.requests)
    assert "GET_LIST_OF_ENTRIES_OF_LEDGER is not within 400 ms" in answer.detail
    assert (Greeting.UNSUPPORTED, answer.detail) == greeting


def test_a_list_that_comes_during_the_reads_counts() -> None:
    """Nothing is waited for any more then."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if request.header.operation == READ:
            connection.send(list_answer(asked_by[0], 1, encode_runs([0])))
        elif listed(request) is not None:
            asked_by.append(request.header.txnId)
        return listed(request) is not None

    asked_by: list[int] = []
    with (
        ScriptedBookie(ledgers(1), act) as bookie,
        virtual_lane(bookie, patience=ListPatience(60, LONG_MS), rpc_timeout_ms=LONG_MS) as asker,
    ):
        asker.lists([ListQuestion(1)])
        asker.reads([ReadQuestion(1, 0)])
        assert [HELD] == statuses(asker.settle_late_lists())
        assert asker.elapsed_s() < 1


def test_lists_beyond_the_window_are_asked_once_the_bookie_can_list() -> None:
    """With more lists than may be outstanding, those never sent are asked too."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if listed(request) is None or len(bookie.asked(LIST)) > 4:
            return False
        ledger_id = listed(request)
        connection.later(0.2, list_answer(request.header.txnId, ledger_id, encode_runs([0])))
        return True

    with (
        ScriptedBookie(ledgers(9), act) as bookie,
        virtual_lane(bookie, patience=PATIENCE, rpc_timeout_ms=LONG_MS, bookie_inflight=4) as asker,
    ):
        assert [UNSUPPORTED] * 9 == statuses(asker.lists([ListQuestion(n) for n in range(1, 10)]))
        answers = asker.settle_late_lists()
    assert list(range(1, 10)) == [answer.ledger_id for answer in answers]
    assert [HELD] * 9 == statuses(answers)
    assert list(range(1, 10)) == bookie.asked(LIST)


def test_a_late_answer_without_a_list_counts_too() -> None:
    """ENOLEDGER is a valid answer; the other ledgers were all it may hold, and went unanswered."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if listed(request) == 2:
            connection.later(0.15, list_answer(request.header.txnId, 2, None, pb.ENOLEDGER))
        return listed(request) is not None

    with (
        ScriptedBookie(act=act) as bookie,
        virtual_lane(bookie, patience=PATIENCE, rpc_timeout_ms=LONG_MS) as asker,
    ):
        asker.lists([ListQuestion(1), ListQuestion(2)])
        assert [UNSUPPORTED, NO_SUCH_LEDGER] == statuses(asker.settle_late_lists())
        assert Greeting.UNSUPPORTED is asker.greeting()[0]


def test_a_lost_connection_proves_nothing_of_the_lists_awaited_on_it() -> None:
    """They are asked again on the next connection, and waited for as long as a request may take."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if request.header.operation == READ and connection.number == 1:
            connection.reset()
            return True
        return listed(request) is not None and connection.number == 1

    with (
        ScriptedBookie(ledgers(1), act) as bookie,
        virtual_lane(bookie, patience=PATIENCE, rpc_timeout_ms=LONG_MS) as asker,
    ):
        assert [UNSUPPORTED] == statuses(asker.lists([ListQuestion(1)]))
        assert [ReadStatus.PRESENT] == statuses(asker.reads([ReadQuestion(1, 0)]))
        assert [HELD] == statuses(asker.settle_late_lists())
        assert Greeting.ANSWERED is asker.greeting()[0]
        assert asker.elapsed_s() < 1


def test_a_bookie_that_has_listed_is_waited_for_as_ever() -> None:
    """One list in time settles that it can list: the other has the whole time-out, and nothing is
    assumed.
    """
    with (
        ScriptedBookie(ledgers(2), lambda connection, request: listed(request) == 2) as bookie,
        virtual_lane(bookie, patience=PATIENCE, rpc_timeout_ms=500) as asker,
    ):
        assert [HELD, TIMED_OUT] == statuses(asker.lists([ListQuestion(1), ListQuestion(2)]))
        assert not asker.settle_late_lists()

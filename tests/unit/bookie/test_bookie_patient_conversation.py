"""Overdue lists in virtual time: when a call goes on without them, and how long they have.

A request may take 20 s here; what is overdue is noticed within a tenth of a second.
"""

from __future__ import annotations

import pytest
from support.lanes import HELD, SILENT, TIMED_OUT, UNSUPPORTED, ledgers, listed, statuses
from support.scripted_bookie import (
    LIST,
    READ,
    Act,
    Connection,
    ScriptedBookie,
    list_answer,
    read_answer,
)
from support.virtual_time import VirtualLoop

from auditor.bookie.exchange import LateLists, ListPatience
from auditor.bookie.lane import AsyncLane, ListQuestion, ReadQuestion
from auditor.model.availability import Answer, EntryRead, Greeting, ReadStatus
from auditor.wire.entry_availability import encode_runs
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

PATIENCE = ListPatience(overdue_ms=50, give_up_ms=5_000)
LONG_MS = 20_000
TICK_S = 0.1


def lists_after(delays_s: dict[int, float]) -> Act:
    """Answers the list of each of these ledgers so much later, and no other list."""

    def act(connection: Connection, request: pb.Request) -> bool:
        ledger_id = listed(request)
        if ledger_id in delays_s:
            data = list_answer(request.header.txnId, ledger_id, encode_runs([0]))
            connection.later(delays_s[ledger_id], data)
        return ledger_id is not None

    return act


def ask_lists(loop: VirtualLoop, asker: AsyncLane, *ledger_ids: int) -> list[Answer]:
    return loop.run(asker.lists([ListQuestion(one) for one in ledger_ids]))


def ask_reads(loop: VirtualLoop, asker: AsyncLane, *entry_ids: int) -> list[EntryRead]:
    return loop.run(asker.reads([ReadQuestion(1, one) for one in entry_ids]))


def test_a_list_is_given_up_when_patience_ends() -> None:
    """The call goes on at the first tick; after five seconds the bookie cannot list."""
    with VirtualLoop(ScriptedBookie(ledgers(1), lists_after({}))) as loop:
        asker = loop.lane(patience=PATIENCE, rpc_timeout_ms=LONG_MS)
        assert not asker.has_late_lists
        assert [UNSUPPORTED] == statuses(ask_lists(loop, asker, 1))
        assert (TICK_S, True) == (loop.time(), asker.has_late_lists)
        (found,) = loop.run(asker.settle_late_lists())
        assert (pytest.approx(5.0, abs=1e-4), False) == (loop.time(), asker.has_late_lists)
        assert (UNSUPPORTED, True) == (
            found.status,
            "within 5000 ms (asked for 1 ledgers)" in found.detail,
        )
        assert (Greeting.UNSUPPORTED, found.detail) == asker.greeting()
        assert [] == loop.run(asker.settle_late_lists())
        assert 5.0 == pytest.approx(loop.time(), abs=1e-4)


def test_a_late_list_is_waited_for_no_longer_than_it_takes() -> None:
    """Each of them; then the bookie can list."""
    with VirtualLoop(ScriptedBookie(ledgers(2), lists_after({1: 3.0, 2: 4.0}))) as loop:
        asker = loop.lane(patience=PATIENCE, rpc_timeout_ms=LONG_MS)
        assert [UNSUPPORTED] * 2 == statuses(ask_lists(loop, asker, 1, 2))
        assert [HELD] * 2 == statuses(loop.run(asker.settle_late_lists()))
        assert (pytest.approx(4.0), (Greeting.ANSWERED, "")) == (loop.time(), asker.greeting())


def test_a_large_late_list_is_waited_for_while_it_comes_in() -> None:
    """Patience counts from when that was last so."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if listed(request) == 1:
            data = list_answer(
                request.header.txnId, 1, encode_runs([(3 * n, 2) for n in range(30_000)])
            )
            half = len(data) // 2
            connection.later(4.0, data[:half])
            connection.later(8.0, data[half:])
        return listed(request) is not None

    with VirtualLoop(ScriptedBookie(ledgers(1), act)) as loop:
        asker = loop.lane(patience=PATIENCE, rpc_timeout_ms=LONG_MS)
        ask_lists(loop, asker, 1)
        assert [HELD] == statuses(loop.run(asker.settle_late_lists()))
        assert 8.0 == pytest.approx(loop.time())


def test_a_bookie_that_is_slow_at_reads_is_waited_for_ten_times_as_long() -> None:
    """As its slowest read took; the words say how long that was."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if request.header.operation == READ:
            connection.later(0.75, read_answer(request.header.txnId, 1, 0, None, pb.ENOENTRY))
        return request.header.operation == READ or listed(request) is not None

    with VirtualLoop(ScriptedBookie(ledgers(1), act)) as loop:
        asker = loop.lane(patience=PATIENCE, rpc_timeout_ms=LONG_MS)
        ask_lists(loop, asker, 1)
        ask_reads(loop, asker, 0)
        (found,) = loop.run(asker.settle_late_lists())
        assert (pytest.approx(7.5), True) == (loop.time(), "within 7500 ms" in found.detail)


def test_a_read_without_an_answer_is_no_late_list() -> None:
    """It has timed out, and is not settled with the lists."""

    def act(connection: Connection, request: pb.Request) -> bool:
        return listed(request) is not None or request.readRequest.entryId == 1

    with VirtualLoop(ScriptedBookie(ledgers(1), act)) as loop:
        asker = loop.lane(patience=PATIENCE, rpc_timeout_ms=2_000)
        ask_lists(loop, asker, 1)
        began = loop.time()
        assert [ReadStatus.PRESENT, ReadStatus.TIMED_OUT] == statuses(ask_reads(loop, asker, 0, 1))
        assert 2.0 <= loop.time() - began < 2.0 + 2 * TICK_S
        assert [1] == [one.ledger_id for one in loop.run(asker.settle_late_lists())]


def test_a_bookie_that_can_list_gives_every_list_the_whole_time_out() -> None:
    """What never comes has timed out after it, from when it is asked once more."""
    with VirtualLoop(ScriptedBookie(ledgers(2), lists_after({1: 3.0}))) as loop:
        asker = loop.lane(patience=PATIENCE, rpc_timeout_ms=LONG_MS)
        assert [UNSUPPORTED] * 2 == statuses(ask_lists(loop, asker, 1, 2))
        found = loop.run(asker.settle_late_lists())
        assert [(HELD, 1), (TIMED_OUT, 2)] == [(one.status, one.requests) for one in found]
        assert 5.0 + 20.0 == pytest.approx(loop.time(), abs=2 * TICK_S)
        assert "" == asker.greeting()[1]


def test_a_bookie_that_dies_before_its_lists_came_is_silent() -> None:
    """Its lists are silent too: whether it can list is not known, and nothing is waited for."""

    def act(connection: Connection, request: pb.Request) -> bool:
        return len(bookie.requests) > 3

    bookie = ScriptedBookie(ledgers(1), lambda connection, request: listed(request) is not None)
    with VirtualLoop(bookie) as loop:
        asker = loop.lane(patience=PATIENCE, rpc_timeout_ms=LONG_MS, look=2)
        assert [UNSUPPORTED] == statuses(ask_lists(loop, asker, 1))
        bookie.act = act
        bookie.connections[0].close()
        assert [ReadStatus.SILENT] == statuses(ask_reads(loop, asker, 0))
        ended = loop.time()
        (found,) = loop.run(asker.settle_late_lists())
        assert (SILENT, Greeting.SILENT, ended) == (found.status, asker.greeting()[0], loop.time())


def test_a_bookie_that_ends_while_its_lists_are_awaited_is_asked_again() -> None:
    """On a new connection, as one list is as good as any."""
    bookie = ScriptedBookie(
        ledgers(1), lambda connection, request: connection.number == 1 and listed(request) == 1
    )
    with VirtualLoop(bookie) as loop:
        asker = loop.lane(patience=PATIENCE, rpc_timeout_ms=LONG_MS)
        ask_lists(loop, asker, 1)
        loop.call_later(2.0, bookie.connections[0].close)
        (found,) = loop.run(asker.settle_late_lists())
        assert (HELD, 2, 2, Greeting.ANSWERED) == (
            found.status,
            found.requests,
            len(bookie.connections),
            asker.greeting()[0],
        )
        assert 2.0 <= loop.time() <= 5.0


def test_a_late_list_that_is_too_much_for_the_bookie_is_asked_again() -> None:
    """ETOOMANYREQUESTS does not show that it cannot list."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if len(bookie.asked(LIST)) == 1 and listed(request) == 1:
            connection.later(1.0, list_answer(request.header.txnId, 1, None, pb.ETOOMANYREQUESTS))
            return True
        return False

    bookie = ScriptedBookie(ledgers(1), act)
    with VirtualLoop(bookie) as loop:
        asker = loop.lane(patience=PATIENCE, rpc_timeout_ms=LONG_MS)
        assert [UNSUPPORTED] == statuses(ask_lists(loop, asker, 1))
        assert [HELD] == statuses(loop.run(asker.settle_late_lists()))
        assert 1.0 == pytest.approx(loop.time())


def test_the_deadline_holds_for_late_lists_too() -> None:
    """What did not come by then is silent, as everything after it."""
    with VirtualLoop(ScriptedBookie(ledgers(4), lists_after({1: 3.0}))) as loop:
        asker = loop.lane(patience=PATIENCE, rpc_timeout_ms=LONG_MS, bookie_deadline_ms=4_000)
        ask_lists(loop, asker, 1, 2)
        found = loop.run(asker.settle_late_lists())
        assert (pytest.approx(4.0), [HELD, SILENT]) == (loop.time(), statuses(found))
        assert (
            found[1].detail
            == asker.greeting()[1]
            == "the conversation's deadline of 4000 ms passed"
        )


def test_a_fault_of_ours_while_late_lists_are_awaited_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At once, and not at the end of patience."""

    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    with VirtualLoop(ScriptedBookie(ledgers(1), lists_after({1: 1.0}))) as loop:
        asker = loop.lane(patience=PATIENCE, rpc_timeout_ms=LONG_MS)
        ask_lists(loop, asker, 1)
        monkeypatch.setattr(LateLists, "on_answer", fail)
        with pytest.raises(RuntimeError, match="a bug"):
            loop.run(asker.settle_late_lists())
        assert 1.0 == pytest.approx(loop.time())

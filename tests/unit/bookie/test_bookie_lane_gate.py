"""How many lanes talk at once, and that few sockets suffice for many bookies."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import Any

import pytest
from support.lanes import HELD, LIMITS, LOOK, NOW_MS, ask, lane, ledgers, statuses
from support.scripted_bookie import INFO, ScriptedBookie

from auditor.bookie import link
from auditor.bookie.lane import AsyncLane, LaneGate, ListQuestion
from auditor.config import BookieLimits
from auditor.errors import LocalFault
from auditor.local_faults import BARRED
from auditor.model.availability import Answer, AnswerStatus, Greeting

BOOKIES = 6


def lists_of(
    bookie: ScriptedBookie, sockets: int, monkeypatch: pytest.MonkeyPatch, *, calls: int
) -> tuple[list[list[Answer]], int]:
    """Ask BOOKIES lanes through one gate, `calls` times each, where this host gives `sockets`.

    Return the answers of all calls, and how many connections were open at once at most.
    """
    monkeypatch.setattr(
        "auditor.bookie.lane.sockets_affordable", lambda wanted: min(wanted, sockets)
    )
    limits = BookieLimits(**LIMITS)  # type: ignore[arg-type]
    opened = 0
    most = 0

    async def work() -> list[list[Answer]]:
        nonlocal most
        gate = LaneGate(BOOKIES)
        lanes = [
            AsyncLane(f"b{n}", "127.0.0.1", bookie.port, limits, LOOK, lambda: NOW_MS)
            for n in range(BOOKIES)
        ]

        async def one(asked: AsyncLane) -> list[Answer]:
            nonlocal most, opened
            async with gate.hold(asked) as talking:
                opened += 1
                most = max(most, opened)
                answers = await talking.lists([ListQuestion(1)])
                opened -= gate.must_hang_up
                return answers

        answers: list[list[Answer]] = []
        for _ in range(calls):
            answers += await asyncio.gather(*(one(asked) for asked in lanes))
        for asked in lanes:
            await asked.close()
        return answers

    return asyncio.run(work()), most


def test_where_sockets_are_few_each_bookie_is_asked_over_a_new_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every list comes, and no more connections are open than there are sockets."""
    with ScriptedBookie(ledgers(1)) as bookie:
        answers, most = lists_of(bookie, 2, monkeypatch, calls=2)
        assert 2 * BOOKIES == len(bookie.connections)
    assert {HELD} == {status for one in answers for status in statuses(one)}
    assert most <= 2


def test_where_sockets_suffice_each_bookie_keeps_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One connection and one greeting a bookie, however often it is asked."""
    with ScriptedBookie(ledgers(1)) as bookie:
        answers, _ = lists_of(bookie, BOOKIES, monkeypatch, calls=3)
        assert BOOKIES == len(bookie.connections) == len(bookie.asked(INFO))
    assert 3 * BOOKIES == len(answers)


def test_a_bookie_with_a_lister_takes_two_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both connections are counted."""
    monkeypatch.setattr("auditor.bookie.lane.sockets_affordable", lambda wanted: min(wanted, 9))

    async def must_hang_up(*, has_listers: bool) -> bool:
        return LaneGate(5, has_listers=has_listers).must_hang_up

    assert asyncio.run(must_hang_up(has_listers=True))
    assert not asyncio.run(must_hang_up(has_listers=False))


def no_sockets(monkeypatch: pytest.MonkeyPatch, times: int, number: int = errno.EMFILE) -> None:
    """Let the next sockets of this process fail, as where no descriptor is left."""
    real, left = socket.socket, [times]

    def make(*given: Any, **named: Any) -> socket.socket:
        if left[0] > 0 and not given and "fileno" not in named:  # to dial, not to accept
            left[0] -= 1
            raise OSError(number, os.strerror(number))
        return real(*given, **named)

    monkeypatch.setattr(asyncio.base_events.socket, "socket", make)  # type: ignore[attr-defined]


def test_a_lack_of_descriptors_that_lasts_is_not_the_silence_of_a_bookie(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is raised, so that no answer says anything of the bookie."""
    with ScriptedBookie(ledgers(1)) as bookie:
        with (
            lane(bookie, bookie_connect_attempts=3) as asker,
            monkeypatch.context() as patch,
            pytest.raises(LocalFault, match="ulimit -n"),
        ):
            no_sockets(patch, 100)
            asker.lists([ListQuestion(1)])
        assert not bookie.connections


def test_a_lack_of_descriptors_that_passes_costs_only_an_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others end their conversations meanwhile."""
    with ScriptedBookie(ledgers(1)) as bookie:
        no_sockets(monkeypatch, 1)
        answers, (greeting, _) = ask(bookie, [1], bookie_connect_attempts=3)
    assert [HELD] == statuses(answers)
    assert Greeting.ANSWERED is greeting


def test_a_connection_that_ends_because_no_memory_is_left_is_our_fault() -> None:
    """The transport says so where it closes; the bookie did nothing."""
    failed: list[BaseException] = []

    class Asker:
        def on_failed(self, error: BaseException) -> None:
            failed.append(error)

        def on_lost(self, *_: Any, **__: Any) -> None:
            raise AssertionError("the bookie is not at fault")

    loop = asyncio.new_event_loop()
    try:
        one = link.Link(Asker(), 2**20, loop)  # type: ignore[arg-type]
        one.connection_lost(OSError(errno.ENOBUFS, "No buffer space available"))
    finally:
        loop.close()
    assert [LocalFault] == [type(error) for error in failed]


@pytest.mark.parametrize("number", BARRED)
def test_a_bookie_to_which_this_host_has_no_way_is_not_silent(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The attempt ends on this host. Its ledgers are unknown for that reason, and nobody is
    accused; other bookies are asked.
    """
    with ScriptedBookie(ledgers(1)) as bookie:
        no_sockets(monkeypatch, 100, number)
        answers, (greeting, detail) = ask(bookie, [1], bookie_connect_attempts=2)
    assert [AnswerStatus.AUDITOR_LIMITED] == statuses(answers)
    assert Greeting.AUDITOR_LIMITED is greeting
    assert BARRED[number] in detail
    assert detail.endswith("(2 attempts)")


def test_a_bookie_that_refuses_at_last_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last attempt counts: it reached the bookie's host."""
    with ScriptedBookie(ledgers(1)) as bookie:
        port = bookie.port
    no_sockets(monkeypatch, 1, errno.ENETUNREACH)
    gone = ScriptedBookie()
    gone.port = port
    _, (greeting, _) = ask(gone, [1], bookie_connect_attempts=2)
    assert Greeting.SILENT is greeting

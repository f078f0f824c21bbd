"""Timers of one conversation, by a clock of their own."""

from __future__ import annotations

from support.scripted_bookie import ScriptedBookie
from support.virtual_time import VirtualLoop

from auditor.bookie.conversation import Timers


def test_a_timer_acts_once_at_its_time_and_may_be_started_again_by_what_it_does() -> None:
    """It is running until it acts, and no longer: what it does may start it anew."""
    acted: list[float] = []
    with VirtualLoop(ScriptedBookie()) as loop:
        timers = Timers(lambda error: acted.append(-1.0))

        def act() -> None:
            acted.append(loop.time())
            if len(acted) == 1:
                timers.start("tick", 0.5, act)

        async def start() -> None:
            timers.start("tick", 2.0, act)

        loop.run(start())
        assert ("tick" in timers, "refill" in timers) == (True, False)
        loop.call_later(9.0, loop.stop)
        loop.run_forever()
        assert "tick" not in timers
    assert [2.0, 2.5] == acted


def test_what_a_timer_raises_is_reported_and_nothing_acts_once_all_are_cancelled() -> None:
    """The others go on until then; a cancelled name is free."""
    errors: list[BaseException] = []
    acted: list[str] = []
    wrong = RuntimeError("wrong")

    def fail() -> None:
        raise wrong

    with VirtualLoop(ScriptedBookie()) as loop:
        timers = Timers(errors.append)

        async def start() -> None:
            timers.start("fails", 1.0, fail)
            timers.start("early", 2.0, lambda: acted.append("early"))
            timers.start("late", 4.0, lambda: acted.append("late"))

        loop.run(start())
        loop.call_later(3.0, loop.stop)
        loop.run_forever()
        timers.cancel_all()
        assert "late" not in timers
        loop.call_later(9.0, loop.stop)
        loop.run_forever()
    assert ([wrong], ["early"]) == (errors, acted)

"""A conversation in virtual time: when what is asked, and when a bookie is given up, to the tick."""

from __future__ import annotations

from support.lanes import HELD, ledgers
from support.scripted_bookie import ScriptedBookie
from support.virtual_time import VirtualLoop

from auditor.bookie.client import ListQuestion


def test_what_a_healthy_bookie_is_asked_takes_no_time() -> None:
    """x"""
    bookie = ScriptedBookie(ledgers(3))
    with VirtualLoop(bookie) as loop:
        asker = loop.lane()
        answers = loop.run(asker.lists([ListQuestion(n) for n in (1, 2, 3)]))
        assert [HELD] * 3 == [a.status for a in answers]
        assert 0.0 == loop.time()
        assert [(0.0, "b1", 3181)] == loop.connects
        loop.run(asker.close())

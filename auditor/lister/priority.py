"""How much of the processors that it shares with its bookie a lister takes: what is left over."""

from __future__ import annotations

import os

NICENESS = 19
"""How far it steps back where the system refuses SCHED_IDLE (nice(2))."""


def give_way() -> None:
    """Let this thread, and what it starts, compute while a processor has nothing else to do: the
    bookie takes it back at once (SCHED_IDLE, sched(7)).

    Beside threads that leave nothing over it still has three thousandths of what one of them has.
    Lists that are late for that are unknown, never wrong.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except OSError:  # a container may forbid it
        os.nice(NICENESS)

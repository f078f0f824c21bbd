"""A lister takes of the processors what its bookie leaves."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from auditor.lister.priority import NICENESS, give_way

GIVES_WAY = """
import os
from auditor.lister.priority import give_way
give_way()
print(os.sched_getscheduler(0), os.nice(0))
"""


def test_the_bookie_takes_a_processor_back_at_once() -> None:
    """A lister runs while nobody else wants to; tried in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", GIVES_WAY], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(os.SCHED_IDLE), "0"]


def test_where_that_is_forbidden_it_is_as_nice_as_can_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A container's list of system calls may not have it."""

    def refuse(*_: object) -> None:
        raise PermissionError

    nicer: list[int] = []
    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    monkeypatch.setattr(os, "nice", nicer.append)
    give_way()
    assert nicer == [NICENESS]

"""How long a trial of a mutant may take: end a child that waits for ever, and the processes that a
child leaves behind; try what is explained with few tests.

CPU time distinguishes a busy machine from a mutant that waits: a child with work to do is never
ended here, however slow it is. Only Linux shows both; elsewhere a child waits until `trial.WALL_S`
ends it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

WAIT_S = 30.0
"""Wall time in which a child that only waits uses less than WAITING_CPU_S of CPU time."""
WAITING_CPU_S = 0.3
EXPLAINED_CPU_S = 5.0
"""CPU seconds of tests for a mutant that is explained, its own module's first: an explanation that
is wrong by now is found by these. With ALL=1 it is tried with every test.
"""
_PR_SET_CHILD_SUBREAPER = 36

T = TypeVar("T")


@dataclass
class Patience:
    """Records when one child last worked. Call `has_run_out` at least once a second."""

    pid: int
    cpu_s: float = 0.0
    moved_at: float = field(default_factory=time.monotonic)

    def has_run_out(self) -> bool:
        """Return whether the child has waited for WAIT_S, with no thread that could run."""
        now, used = time.monotonic(), _used(self.pid)
        if used is None or used.is_running or used.cpu_s > self.cpu_s + WAITING_CPU_S:
            self.moved_at, self.cpu_s = now, used.cpu_s if used else self.cpu_s
        return now - self.moved_at > WAIT_S


@dataclass(frozen=True)
class _Used:
    cpu_s: float
    is_running: bool


def _used(pid: int) -> _Used | None:
    """Return the CPU time of the process and its ended children; None if it cannot be read."""
    try:
        threads = [_fields(path / "stat") for path in Path(f"/proc/{pid}/task").iterdir()]
        ticks = sum(map(int, _fields(Path(f"/proc/{pid}/stat"))[11:15]))
    except OSError:
        return None
    return _Used(ticks / os.sysconf("SC_CLK_TCK"), any(one[0] in "RD" for one in threads))


def _fields(path: Path) -> list[str]:
    """Return the fields of a stat file from the state on, which is the third; see proc(5)."""
    return path.read_text().rpartition(")")[2].split()


def adopt_orphans() -> None:
    """Become the parent of processes that a child leaves behind, such as a ZooKeeper in a session
    of its own.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans(children: Collection[int]) -> None:
    """End every child process but `children`."""
    mine = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    orphans = (
        {int(pid) for pid in mine.read_text().split()} - set(children) if mine.exists() else set()
    )
    for pid in orphans:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def first_of(ordered: Sequence[T], costs_s: Sequence[float]) -> list[T]:
    """Return the first tests, as many as EXPLAINED_CPU_S is enough for, one at least."""
    spent = [0.0, *accumulate(costs_s)]
    return [one for one, before in zip(ordered, spent, strict=False) if before < EXPLAINED_CPU_S]

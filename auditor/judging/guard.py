"""Limits on the judging of one ledger within this process: its time and its memory.

Python code is interrupted by a signal. C code that never looks for signals cannot be: after a
quarter more of the time, spent computing, the kernel ends the process, and after twice the time,
spent waiting, a thread does. Whoever runs it judges again in a child (`auditor.judging.isolation`).
Not noticed: C code that waits for ever and keeps Python's lock meanwhile.
"""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

from auditor.config import JudgingLimits

A = TypeVar("A")
T = TypeVar("T")

TICKS = 4
"""Parts the time limit is counted in. A process that is paused (SIGSTOP, a suspended host) misses
all but one of them, so a pause is not taken for a loop.
"""
HARD_FACTOR = 1.25
"""CPU seconds a wall second of the limit after which the kernel ends a process whose code does not
heed the signal.
"""


WATCH_FACTOR = 2
"""Times the limit after which a thread ends a process that has not been interrupted: then it waits
for something in C code.
"""


@dataclass(frozen=True, slots=True)
class Stopped:
    """Judging a ledger did not come to its end. `why` says what happened, as half a sentence."""

    why: str


@dataclass(frozen=True, slots=True)
class Raised:
    """Judging a ledger raised. `why` has the name of the exception and its words."""

    why: str


class _TimeUp(BaseException):
    """Raised by the signal. No `Exception`: code that catches those must not swallow it."""


class Watch:
    """A thread that ends this process, as the kernel does for its CPU time, when one ledger is at
    work for too long.

    It counts how often it woke meanwhile, so a pause of the process is one tick here too.
    """

    def __init__(self, seconds: float) -> None:
        self._tick_s = seconds / TICKS
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="auditor-watch", daemon=True)
        self.begun = 0
        """Ledgers begun so far."""
        self.is_at_work = False
        self._begun_before = 0
        self._ticks = 0

    def start(self) -> None:
        with suppress(RuntimeError):  # no thread to be had: then there is no watch
            self._thread.start()

    def end(self) -> None:
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _watch(self) -> None:
        signal.pthread_sigmask(
            signal.SIG_BLOCK, signal.valid_signals()
        )  # they are for the thread that judges
        while not self._is_over.wait(self._tick_s):
            if self.tick():
                os.kill(os.getpid(), signal.SIGVTALRM)

    def tick(self) -> bool:
        """Count a tick; return whether one ledger has been at work for too many."""
        is_same = self.is_at_work and self.begun == self._begun_before
        self._ticks = self._ticks + 1 if is_same else 0
        self._begun_before = self.begun
        return self._ticks >= TICKS * WATCH_FACTOR


class Guard:
    """Limits in force while it is entered. `run` is called within, once a ledger; it costs some two
    microseconds.

    Where this is not the process's main thread Python takes no signals, and only the memory is
    bounded.
    """

    def __init__(self, limits: JudgingLimits) -> None:
        self._limits = limits
        self._takes_signals = threading.current_thread() is threading.main_thread()
        self._watch = Watch(limits.ledger_time_max_ms / 1000)
        self._is_armed = False
        self._ticks = 0

    def __enter__(self) -> Self:
        if self._takes_signals:
            self._handler: Any = signal.signal(signal.SIGALRM, self._tick)
            self._watch.start()  # before the memory is bounded: its stack is none of a ledger's
        self._memory = _limit_memory(self._limits.ledger_memory_max)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._disarm()
        if self._memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, self._memory)
        if self._takes_signals:
            signal.signal(signal.SIGALRM, self._handler)
            self._watch.end()

    def run(self, work: Callable[[A], T], ledger: A) -> T | Stopped | Raised:
        """Return what `work` makes of the ledger, or why it makes nothing.

        This is the one place where an exception of judging becomes a value. Raises AssertionError,
        which is a fault of ours and says nothing of the ledger.
        """
        try:
            self._arm()
            try:
                return work(ledger)
            finally:
                self._disarm()
        except _TimeUp:
            self._disarm()
            return Stopped(too_long(self._limits))
        except MemoryError:
            return Stopped(
                f"it took more memory than {self._limits.ledger_memory_max // 2**20} MiB"
            )
        except AssertionError:
            raise
        except (Exception, SystemExit) as error:  # whatever a ledger nobody foresaw may cause
            return Raised(f"{type(error).__name__}: {error}")

    def _arm(self) -> None:
        if not self._takes_signals:
            return
        seconds = self._limits.ledger_time_max_ms / 1000
        self._ticks, self._is_armed = 0, True
        self._watch.begun += 1
        self._watch.is_at_work = True
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds * HARD_FACTOR)
        signal.setitimer(signal.ITIMER_REAL, seconds / TICKS, seconds / TICKS)

    def _disarm(self) -> None:
        if self._takes_signals:
            self._is_armed = self._watch.is_at_work = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def _tick(self, _signal: int, _frame: FrameType | None) -> None:
        self._ticks += 1
        if self._is_armed and self._ticks >= TICKS:
            raise _TimeUp


def too_long(limits: JudgingLimits) -> str:
    """The words for a time limit that was reached."""
    return f"it took longer than {limits.ledger_time_max_ms / 1000:g} s"


def _limit_memory(bytes_max: int) -> tuple[int, int] | None:
    """Let this process have so much address space more than it has; returns the limits before, None
    where none can be set.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:  # no Linux: there is no such bound that the kernel would keep
        return None
    soft, hard = before = resource.getrlimit(resource.RLIMIT_AS)
    wanted = pages * os.sysconf("SC_PAGE_SIZE") + bytes_max
    if any(limit not in (resource.RLIM_INFINITY,) and limit < wanted for limit in (soft, hard)):
        return None  # it is bounded more tightly already
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
        return before
    return None

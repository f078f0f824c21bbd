"""Limit the time and the memory of judging one ledger within this process.

A signal interrupts Python code. C code that never checks for signals ends the process instead: the
kernel does it after a quarter more of the time spent computing, a thread after twice the time spent
waiting. Whoever runs the process then judges again in a child (`auditor.judging.isolation`). Not
noticed: C code that waits for ever and holds Python's lock meanwhile.
"""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

from auditor.config import JudgingLimits
from auditor.local_faults import local_fault

A = TypeVar("A")
T = TypeVar("T")

TICKS = 4
"""Parts in which the time limit is counted. A process that was paused (SIGSTOP, a suspended host)
misses all parts but one, which keeps a pause from looking like a loop.
"""
HARD_FACTOR = 1.25
"""CPU seconds for each second of the limit. The kernel then ends a process whose code ignores the
signal.
"""


WATCH_FACTOR = 2
"""Multiple of the limit after which a thread ends a process that was not interrupted: it waits for
something in C code.
"""


@dataclass(frozen=True, slots=True)
class Stopped:
    """Judging a ledger was stopped. `why` says what happened, as half a sentence.

    `was_killed`: by a signal from outside, such as that of a kernel that runs out of memory.
    """

    why: str
    was_killed: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Raised:
    """Judging a ledger raised an exception. `why` has its name and its message."""

    why: str


class _TimeUp(BaseException):
    """Raised by the signal. Not an `Exception`: code that catches those must not swallow it."""


class Watch:
    """A thread that ends this process when one ledger takes too long, as the kernel does for CPU
    time.

    It counts how often it woke meanwhile: a pause of the process counts as one tick here too.
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
        with suppress(RuntimeError):  # no thread can be started: there is no watch
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
        """Count a tick. Return whether one ledger has had too many."""
        is_same = self.is_at_work and self.begun == self._begun_before
        self._ticks = self._ticks + 1 if is_same else 0
        self._begun_before = self.begun
        return self._ticks >= TICKS * WATCH_FACTOR


class Guard:
    """Limits that hold while the guard is entered. Call `run` within, once a ledger. It costs some
    two microseconds.

    Python handles signals in the main thread only: in any other, only the memory is limited.
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
            self._watch.start()  # before memory is limited: its stack must not count
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
        """Return the result of `work` on the ledger, or why there is none.

        Only here an exception of judging becomes a value. Raises AssertionError, which is our own
        fault and says nothing about the ledger, and LocalFault, which is that of this host.
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
        except MemoryError as error:
            if (
                self._memory is None
            ):  # this host's limit is the tighter one, or there is none of ours
                raise local_fault(error) or error from None
            return Stopped(
                f"it took more memory than {self._limits.ledger_memory_max // 2**20} MiB"
            )
        except AssertionError:
            raise
        except (Exception, SystemExit) as error:  # a ledger may cause anything
            if (fault := local_fault(error)) is not None:
                raise fault from error
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
    """Return the words for a time limit that was reached."""
    return f"it took longer than {limits.ledger_time_max_ms / 1000:g} s"


def _limit_memory(bytes_max: int) -> tuple[int, int] | None:
    """Limit the address space of this process to what it has and as much more. Return the limits
    before, None if none can be set.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:  # not Linux: the kernel enforces no such limit
        return None
    soft, hard = before = resource.getrlimit(resource.RLIMIT_AS)
    wanted = pages * os.sysconf("SC_PAGE_SIZE") + bytes_max
    if any(limit not in (resource.RLIM_INFINITY,) and limit < wanted for limit in (soft, hard)):
        return None  # a tighter limit is in force already
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
        return before
    return None

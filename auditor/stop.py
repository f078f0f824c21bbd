"""Stop a command on a signal: the handler records it, and safe places raise `Interrupted`."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(BaseException):
    """The process received SIGINT or SIGTERM.

    It is not an Exception: no handler swallows it on the way to the exit code.
    """

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number
        self.advice = ""
        """What the user can do now, as half a sentence that follows a semicolon."""


AFTER_FORK_S = 0.05
"""A signal that came in the middle of a fork is sent again after this time. The hooks take
microseconds."""


class StopRequest:
    """Records SIGINT and SIGTERM: raising in a handler would corrupt the exchange with the JVM."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._signal_number = 0
        self._raises_in = 0
        """The process in which a signal raises at once; 0: none."""
        self._is_forking = False
        self._abandoned: set[threading.Thread] = set()

    def install(self) -> None:
        """Handle both signals from now on.

        Other libraries' fork hooks run within ours only if they were registered earlier.
        """
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._remember)
        os.register_at_fork(before=self._begin_fork, after_in_parent=self._end_fork)

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self._signal_number = number
        self._event.set()
        if self._raises_in == os.getpid() and not self._is_forking:
            raise Interrupted(number)

    def _begin_fork(self) -> None:
        """Let no signal raise in the hooks of a fork.

        Python would drop the exception, and logging would keep its lock.
        """
        self._is_forking = True

    def _end_fork(self) -> None:
        """Send a signal that came meanwhile once more, when the hooks are done."""
        if self._event.is_set() and self._raises_in == os.getpid():
            again = threading.Timer(AFTER_FORK_S, os.kill, (os.getpid(), self._signal_number))
            again.daemon = True
            again.start()
        self._is_forking = False

    @contextmanager
    def raise_at_once(self) -> Iterator[None]:
        """Let a signal raise Interrupted at once. The main thread must not talk to the JVM
        meanwhile.

        Children that are forked within only record it: the parent ends them.
        """
        self.check()
        self._raises_in = os.getpid()
        try:
            yield
        finally:
            self._raises_in = 0
        self.check()

    def abandon(self, thread: threading.Thread) -> None:
        """Let `check` raise Interrupted in this thread from now on: nobody waits for its work."""
        self._abandoned.add(thread)

    def check(self) -> None:
        """Raise Interrupted if a signal came, or if the calling thread was abandoned."""
        if self._event.is_set():
            raise Interrupted(self._signal_number)
        if threading.current_thread() in self._abandoned:
            raise Interrupted(signal.SIGTERM)

    def wait(self, seconds: float) -> None:
        """Sleep, or raise Interrupted as soon as a signal comes."""
        self._event.wait(seconds)
        self.check()

"""Stop a command on a signal: the handler remembers it, and safe places raise `Interrupted`."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(BaseException):
    """The process received SIGINT or SIGTERM.

    Not an Exception, so that no handler swallows it on the way to the exit code.
    """

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number
        self.advice = ""
        """What the user can do now, as half a sentence that follows a semicolon."""


class StopRequest:
    """Remember SIGINT and SIGTERM: raising in a handler would corrupt the exchange with the JVM."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._signal_number = 0
        self._raises_in = 0
        """The process in which a signal raises at once; 0: none."""

    def install(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._remember)

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self._signal_number = number
        self._event.set()
        if self._raises_in == os.getpid():
            raise Interrupted(number)

    @contextmanager
    def raised_at_once(self) -> Iterator[None]:
        """Let a signal raise Interrupted at once, while the main thread does not talk to the JVM.

        Children that are forked within only remember it: the parent ends them.
        """
        self.check()
        self._raises_in = os.getpid()
        try:
            yield
        finally:
            self._raises_in = 0
        self.check()

    def check(self) -> None:
        """Raise Interrupted if a signal came."""
        if self._event.is_set():
            raise Interrupted(self._signal_number)

    def wait(self, seconds: float) -> None:
        """Sleep, or raise Interrupted as soon as a signal comes."""
        self._event.wait(seconds)
        self.check()

"""Stop a command on a signal: the handler remembers it, and safe places raise `Interrupted`."""

from __future__ import annotations

import signal
import threading
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

    def install(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._remember)

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self._signal_number = number
        self._event.set()

    def check(self) -> None:
        """Raise Interrupted if a signal came."""
        if self._event.is_set():
            raise Interrupted(self._signal_number)

    def wait(self, seconds: float) -> None:
        """Sleep, or raise Interrupted as soon as a signal comes."""
        self._event.wait(seconds)
        self.check()

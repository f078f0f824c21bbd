"""How a command notices that it should stop: signals are remembered, and raised where it is safe."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class Interrupted(BaseException):
    """The process was asked to stop. Not an Exception: nothing may swallow it on the way to the exit code."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number
        self.advice = ""
        """What may be done now: half a sentence behind a semicolon."""


class StopRequest:
    """Remembers SIGINT and SIGTERM; raising inside a handler would corrupt the conversation with the JVM."""

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

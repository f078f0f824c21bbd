"""A clock in place of the module `time`: time passes only while somebody sleeps.

    clock = SleepingTime()
    monkeypatch.setattr(s3_lease, "time", clock)

A wait of a minute costs nothing, and ends at an exact instant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

SLEEPS_MAX = 1_000
"""Sleeps after which a test ends: what it waits for never comes."""


class NeverEnds(BaseException):
    """Somebody sleeps for ever. It is not an `Exception`, which the product could handle."""


@dataclass(slots=True)
class SleepingTime:
    """`now_s` is what `monotonic` returns. `on_sleep` is called after each sleep."""

    now_s: float = 1_000.0
    sleeps: list[float] = field(default_factory=list)
    on_sleep: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        """Return the time in seconds."""
        return self.now_s

    def sleep(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self.now_s += seconds
        self.sleeps.append(seconds)
        if len(self.sleeps) > SLEEPS_MAX:
            raise NeverEnds
        self.on_sleep()

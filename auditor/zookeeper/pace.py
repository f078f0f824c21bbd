"""A token bucket: how fast one reader may ask."""

from __future__ import annotations

import time
from collections.abc import Callable

BURST_S = 0.1
"""How much of a second's allowance may be spent at once after a pause, in seconds."""


class Pace:
    """At most `per_second` permits a second on average; 0 lifts the limit.

    A demand larger than the bucket is granted at once and paid back by the ones after it, so a batch is never split.
    Clock (seconds, monotonic) and sleep are told, for tests.
    """

    def __init__(
        self,
        per_second: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        assert per_second >= 0, per_second
        self._per_second = per_second
        self._clock = clock
        self._sleep = sleep
        self._tokens = per_second * BURST_S
        self._refilled_at = clock()

    def take(self, permits: int) -> None:
        """Wait until `permits` may be spent. Waits at most the debt of the demand before, that is its size / `per_second`."""
        assert permits >= 0, permits
        if self._per_second == 0:
            return
        self._refill()
        if self._tokens < 0:
            self._sleep(-self._tokens / self._per_second)
            self._refill()
        self._tokens -= permits

    def _refill(self) -> None:
        now = self._clock()
        earned = (now - self._refilled_at) * self._per_second
        self._tokens = min(self._tokens + earned, self._per_second * BURST_S)
        self._refilled_at = now

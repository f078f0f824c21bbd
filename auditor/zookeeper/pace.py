"""A token bucket that limits how fast one reader sends requests."""

from __future__ import annotations

import time
from collections.abc import Callable

BURST_S = 0.1
"""How many seconds of unused allowance may be spent at once after a pause."""


class Pace:
    """At most `per_second` permits a second on average; 0 lifts the limit.

    A demand larger than the bucket is granted at once, and later demands wait for it. So a batch is
    never split. Tests pass their own clock (seconds, monotonic) and sleep.
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
        """Wait until `permits` may be spent.

        Waits at most for the debt of the previous demand: its size divided by `per_second`.
        """
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

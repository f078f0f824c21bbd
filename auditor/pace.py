"""Rate limits for requests: one token bucket, for bookies and for ZooKeeper."""

from __future__ import annotations

import time
from collections.abc import Callable


class TokenBucket:
    """Allows `rate` requests a second on average; 0 lifts the limit.

    A burst has `burst_s` seconds' worth of requests, at least one. All times are seconds of the
    caller's clock.
    """

    def __init__(self, rate: float, now: float, burst_s: float) -> None:
        assert rate >= 0, rate
        self._rate, self._burst_s = rate, burst_s
        self._tokens = self._burst
        self._at = now

    def set_rate(self, rate: float) -> None:
        """Continue at another rate from the last request on. Earned requests are kept, up to the
        new burst.
        """
        self._rate = rate
        self._tokens = min(self._tokens, self._burst)

    @property
    def _burst(self) -> float:
        return max(1.0, self._rate * self._burst_s)

    def take(self, wanted: int, now: float) -> int:
        """Return how many of `wanted` requests may go out now; they are then spent."""
        if self._rate <= 0:
            return wanted
        self._refill(now)
        taken = max(0, min(wanted, int(self._tokens)))
        self._tokens -= taken
        return taken

    def spend(self, wanted: int, now: float) -> None:
        """Spend `wanted` requests, even more than there are: `debt_s` returns what is owed."""
        self._refill(now)
        self._tokens -= wanted

    def give_back(self, unused: int) -> None:
        """Take back requests that were taken and not sent."""
        self._tokens = min(self._burst, self._tokens + unused)

    def wait_s(self, wanted: int) -> float:
        """Return the seconds from the last `take` until `wanted` requests, or one burst, may go.

        0 without a limit.
        """
        if self._rate <= 0:
            return 0.0
        return max(0.0, min(float(wanted), self._burst) - self._tokens) / self._rate

    def debt_s(self, now: float) -> float:
        """Return the seconds until requests spent beyond the limit are paid back."""
        if self._rate <= 0:
            return 0.0
        self._refill(now)
        return max(0.0, -self._tokens) / self._rate

    def _refill(self, now: float) -> None:
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = now


class Pace:
    """A token bucket that waits.

    A demand larger than a burst goes out whole; the next ones wait longer to pay it back. A batch
    is therefore never split. `clock` (seconds, monotonic) and `sleep` are replaced in tests.
    """

    def __init__(
        self,
        per_second: float,
        burst_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bucket = TokenBucket(per_second, clock(), burst_s)
        self._clock = clock
        self._sleep = sleep

    def take(self, permits: int) -> None:
        """Wait until `permits` may be spent: at most until the debt of the demand before is
        paid.
        """
        assert permits >= 0, permits
        owed_s = self._bucket.debt_s(self._clock())
        if owed_s > 0:
            self._sleep(owed_s)
        self._bucket.spend(permits, self._clock())

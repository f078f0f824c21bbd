"""Control how much one bookie is asked, in parallel and per second: less while it shows strain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from auditor.config import BookieLimits
from auditor.model.availability import LanePace
from auditor.pace import TokenBucket

BURST_S = 0.02
"""Requests that may go out in one write after a pause, in seconds of the rate."""
STEP_S = 0.002
"""Requests that go out in one write while the rate holds us back, in seconds of the rate: four at
2,000 a second. The reads of a bookie's clients wait behind those of one write. A write that comes
late has more, up to a burst.
"""
SAMPLES = 64
"""Responses whose median latency is compared: as many as are outstanding by default."""
RISE_MAX = 2.0
"""How many times the lowest median a median may be."""
RISE_S_MAX = 0.005
"""Seconds by which a median may always exceed the lowest one. On a fast link a median triples by
chance.
"""
SMALL_BYTES_MAX = 64 * 2**10
"""Largest response whose latency is compared. A longer list takes longer on an idle bookie too."""
SHARE_MIN = 1 / 8
"""Least share of the limits, however slow the bookie is: an audit must end. Only refusals and
resets bring the window below it.
"""


class Latencies:
    """Detects whether responses of one sort take longer than when the bookie was quiet."""

    def __init__(self) -> None:
        self._seconds: list[float] = []
        self._quietest = math.inf

    def add(self, seconds: float) -> bool:
        """Add a response. Return whether it completes SAMPLES of a median that has risen."""
        self._seconds.append(seconds)
        if len(self._seconds) < SAMPLES:
            return False
        middle = median(self._seconds)
        self._seconds.clear()
        self._quietest = min(self._quietest, middle)
        return middle > max(RISE_MAX * self._quietest, RISE_S_MAX + self._quietest)


class Throttle:
    """Requests outstanding at most (`size`), and per second (`rate`; 0: no limit).

    Both halve when the bookie refuses or resets, and shrink by a quarter when it has become slow.
    For each window's worth of answers they grow back, the size by one and the rate by a part, never
    above the limits (TCP Vegas). All times are seconds of the caller's clock.
    """

    def __init__(self, limits: BookieLimits, now: float) -> None:
        self._size_max, self._rate_max = limits.inflight_max, limits.requests_per_second
        self._bucket = TokenBucket(self._rate_max, now, BURST_S)
        self._latencies = {True: Latencies(), False: Latencies()}
        self.size: int
        self.rate: float
        self._lowest = (self._size_max, self._rate_max)
        self._set(self._size_max, self._rate_max)

    def take(self, wanted: int, now: float) -> int:
        """Return how many of `wanted` requests the rate allows now, and charge them."""
        return self._bucket.take(wanted, now)

    def give_back(self, unused: int) -> None:
        """Take back requests that were taken and not sent."""
        self._bucket.give_back(unused)

    def wait_s(self, wanted: int) -> float:
        """Return the seconds until `wanted` requests, or those of one step, may go. 0: no limit."""
        return self._bucket.wait_s(min(wanted, max(1, int(self.rate * STEP_S))))

    def halve(self) -> None:
        """Record that the bookie refused a request, or reset a connection with requests on it."""
        self._set(max(1, self.size // 2), self.rate / 2)

    def answered(self, count: int, seconds: Sequence[float], *, are_lists: bool) -> None:
        """Record that `count` answers came. `seconds`: how long each of the small ones took."""
        has_risen = [self._latencies[are_lists].add(one) for one in seconds]
        if any(has_risen):
            least = max(1, int(self._size_max * SHARE_MIN))
            self._set(max(min(self.size, least), self.size * 3 // 4), self.rate * 3 / 4)
            return
        if not self.is_low:
            return
        self._answers += count
        while self._answers >= self.size and self.is_low:
            self._answers -= self.size
            self.size = min(self._size_max, self.size + 1)
            self.rate = min(self._rate_max, self.rate + self._rate_max / self._size_max)
        self._bucket.set_rate(self.rate)

    @property
    def pace(self) -> LanePace:
        """The limits as they are now, and the lowest that they were."""
        has_grown = self._lowest < (self.size, self.rate)
        lowest = LanePace(*self._lowest, is_low=True) if has_grown else None
        return LanePace(self.size, self.rate, self.is_low, lowest)

    @property
    def is_low(self) -> bool:
        """Whether the bookie is asked less than the limits allow."""
        return self.size < self._size_max or self.rate < self._rate_max

    def _set(self, size: int, rate: float) -> None:
        self.size, self.rate = size, max(rate, self._rate_max * SHARE_MIN)
        self._lowest = min(self._lowest, (self.size, self.rate))
        self._bucket.set_rate(self.rate)
        self._answers = 0

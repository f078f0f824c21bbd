"""How fast and how much at once: a token bucket and a window, both told the time."""

from __future__ import annotations

BURST_S = 0.02
"""Seconds' worth of requests that may go out in one write after a pause: batches stay large, bursts stay small."""


class TokenBucket:
    """At most `rate` requests a second (0: no limit), in bursts of `BURST_S` seconds' worth, at least one. Times in seconds."""

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._burst = max(1.0, rate * BURST_S)
        self._tokens = self._burst
        self._at = now

    def take(self, wanted: int, now: float) -> int:
        """How many of `wanted` requests may go out now; they are then spent."""
        if self._rate <= 0:
            return wanted
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = now
        taken = min(wanted, int(self._tokens))
        self._tokens -= taken
        return taken

    def give_back(self, unused: int) -> None:
        """Requests taken and not sent after all."""
        self._tokens = min(self._burst, self._tokens + unused)

    def wait_s(self, wanted: int) -> float:
        """Seconds from the last `take` until `wanted` requests, or one burst of them, may go out. 0 without a limit."""
        if self._rate <= 0:
            return 0.0
        return max(0.0, min(float(wanted), self._burst) - self._tokens) / self._rate


class Window:
    """Requests outstanding at most: halved when the bookie closes the connection, one more each window's worth of answers."""

    def __init__(self, size_max: int) -> None:
        assert size_max >= 1, size_max
        self._size_max = size_max
        self._answers = 0
        self.size = size_max

    def halve(self) -> None:
        self.size = max(1, self.size // 2)
        self._answers = 0

    def answered(self, count: int) -> None:
        """`count` more answers came."""
        if self.size == self._size_max:
            return
        self._answers += count
        while self._answers >= self.size and self.size < self._size_max:
            self._answers -= self.size
            self.size += 1

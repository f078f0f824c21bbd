"""How much may be outstanding at one bookie at once."""

from __future__ import annotations


class Window:
    """Requests outstanding at most.

    Half as many when the bookie closes the connection, one more after each window's worth of
    answers.
    """

    def __init__(self, size_max: int) -> None:
        assert size_max >= 1, size_max
        self._size_max = size_max
        self._answers = 0
        self.size = size_max

    def halve(self) -> None:
        self.size = max(1, self.size // 2)
        self._answers = 0

    def answered(self, count: int) -> None:
        """Record that `count` more answers came."""
        if self.size == self._size_max:
            return
        self._answers += count
        while self._answers >= self.size and self.size < self._size_max:
            self._answers -= self.size
            self.size += 1

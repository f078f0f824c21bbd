"""Notice a Spark job in which no task ends any more: a worker or an executor hangs."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

PAUSE_MAX_S = 1.0
"""At most so many seconds between two calls count as time in which the job made no progress."""


class StallWatch:
    """Watches the progress of one job. `max_s`: seconds a job may go on without any progress.

    The bound is on the time between two tasks that finish, not on the whole job: a large cluster
    takes long, and each of its lanes ends within `--bookie-deadline`. Call `is_stalled` often: a
    longer pause between two calls means that this process was stopped, and counts as PAUSE_MAX_S
    only.
    """

    def __init__(self, max_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_s, self._clock = max_s, clock
        self._last: Hashable = None
        self._called_s, self._spent_s = clock(), 0.0

    def is_stalled(self, progress: Hashable) -> bool:
        """Record the progress, in any form. Return whether it was the same `max_s` ago."""
        now = self._clock()
        self._spent_s += min(now - self._called_s, PAUSE_MAX_S)
        self._called_s = now
        if progress != self._last:
            self._last, self._spent_s = progress, 0.0
        return self._spent_s >= self._max_s

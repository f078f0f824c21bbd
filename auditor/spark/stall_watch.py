"""Notice a Spark job in which nothing ends any more: a worker or an executor that hangs."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable


class StallWatch:
    """Watches the progress of one job. `max_s`: seconds a job may go on without any progress.

    The bound is on the time between two tasks that finish, not on the whole job: a large cluster
    takes long, and each of its lanes ends within `--bookie-deadline`.
    """

    def __init__(self, max_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_s, self._clock = max_s, clock
        self._last: Hashable = None
        self._since_s = clock()

    def is_stalled(self, progress: Hashable) -> bool:
        """Record how far the job is, in any form; return whether it was there `max_s` ago too."""
        if progress != self._last:
            self._last, self._since_s = progress, self._clock()
        return self._clock() - self._since_s >= self._max_s

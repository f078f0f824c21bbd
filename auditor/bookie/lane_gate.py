"""Bound how many lanes talk at once, and how many connections stay open meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from auditor.bookie.client import LANES_AT_ONCE_MAX, AsyncLane
from auditor.host_limits import sockets_affordable


class LaneGate:
    """At most LANES_AT_ONCE_MAX lanes talk at once, fewer where this host gives fewer sockets.

    `must_hang_up`: there are not enough sockets for a connection to each bookie at a time. Each
    lane then closes its connection when it leaves the gate, and connects again the next time.
    Raises LocalFault where not one socket is left.
    """

    def __init__(self, bookies: int, *, has_listers: bool = False) -> None:
        sockets_each = 2 if has_listers else 1
        affordable = sockets_affordable(max(1, bookies) * sockets_each) // sockets_each
        self.must_hang_up = affordable < bookies
        self._places = asyncio.Semaphore(max(1, min(LANES_AT_ONCE_MAX, affordable)))

    @asynccontextmanager
    async def hold(self, lane: AsyncLane) -> AsyncIterator[AsyncLane]:
        """Wait for a place, and yield the lane that may talk now."""
        async with self._places:
            try:
                yield lane
            finally:
                if self.must_hang_up:
                    await lane.close()

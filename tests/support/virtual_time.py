"""A lane and a scripted bookie in one event loop without sockets. Its clock advances only while
everything waits.

    with VirtualLoop(bookie) as loop:
        asker = loop.lane(rpc_timeout_ms=500)
        answers = loop.run(asker.lists([ListQuestion(1)]))
        assert 0.5 == loop.time()

A time-out of minutes costs nothing, and when something happens is exact. `virtual_lane` and
`ask_in_virtual_time` are used as `lane` and `ask` of `support.lanes`.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from support.lanes import LIMITS, LOOK, NOW_MS, BlockingLane
from support.scripted_bookie import Connection, ScriptedBookie

from auditor.bookie.exchange import ListPatience
from auditor.bookie.lane import AsyncLane, ListQuestion
from auditor.config import BookieLimits
from auditor.model.availability import Answer, Greeting

T = TypeVar("T")

TIME_MAX_S = 3_600.0
"""Virtual seconds after which a test is stopped: it waits for an event that never comes."""


TURNS_MAX = 1_000
TURN_S = 1e-6
"""Virtual seconds that so many turns of the loop without a wait take. Otherwise a pause too short
for a float would repeat for ever."""


class NeverEnds(BaseException):
    """Code in the loop waits for an event that does not come. It is not an `Exception`, so the
    product does not catch it."""


class _Selector(selectors.SelectSelector):
    """Advances the clock of the loop instead of waiting."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop
        self._turns = 0

    def select(self, timeout: float | None = None) -> list[Any]:
        found = super().select(0)
        if not found and (timeout is None or self._loop.time() > TIME_MAX_S):
            raise NeverEnds(f"nothing comes of it after {self._loop.time()} s")
        self._turns += 1
        if not found and (timeout or self._turns > TURNS_MAX):
            self._turns = 0
            self._loop.advance(timeout or TURN_S)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose connections go to `bookie`.

    `on_connect(number)`, with the number of the attempt, may raise or wait first; `connects` has
    (time, host, port) of each attempt."""

    def __init__(
        self,
        bookie: ScriptedBookie,
        on_connect: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        self._now = 0.0
        self._bookie = bookie
        self._on_connect = on_connect
        self.connects: list[tuple[float, str, int]] = []
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Put the clock forward."""
        self._now += seconds

    def lane(
        self,
        *,
        look: int = LOOK,
        now_ms: Callable[[], int] = lambda: NOW_MS,
        has_listed: bool = False,
        patience: ListPatience | None = None,
        **changes: float,
    ) -> AsyncLane:
        """Return a lane to the bookie, with the limits of `support.lanes` and `changes`."""
        limits = BookieLimits(**{**LIMITS, **changes})  # type: ignore[arg-type]
        known = {"has_listed": has_listed, "patience": patience}
        return AsyncLane("b1:3181", "b1", 3181, limits, look, now_ms, **known)  # type: ignore[arg-type]

    def run(self, work: Awaitable[T]) -> T:
        """Run this to its end."""
        return self.run_until_complete(work)

    async def create_connection(  # type: ignore[override]
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        """Join a new protocol and a new connection of the bookie, as the loop's own method does."""
        self.connects.append((self._now, host, port))
        if self._on_connect is not None:
            await self._on_connect(len(self.connects))
        ours, theirs = PipeEnd(self, factory()), PipeEnd(self, Connection(self._bookie))
        ours.other, theirs.other = theirs, ours
        ours.protocol.connection_made(ours)
        theirs.protocol.connection_made(theirs)
        return ours, ours.protocol

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in asyncio.all_tasks(self):
            task.cancel()
        self.call_soon(self.stop)
        self.run_forever()
        self.close()


class PipeEnd(asyncio.Transport):
    """One end of a connection in memory: bytes arrive at the next turn of the loop, in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: asyncio.Protocol) -> None:
        super().__init__({"socket": self})
        self._loop = loop
        self._error: Exception | None = None
        self.protocol = protocol
        self.other: PipeEnd | None = None
        self.is_closed = False

    def setsockopt(self, *_: object) -> None:
        """Make the end of this connection a reset: scripted bookies set SO_LINGER for that."""
        self._error = ConnectionResetError("reset by peer")

    def write(self, data: bytes) -> None:
        assert isinstance(data, bytes), data
        if not self.is_closed and self.other is not None:
            self._loop.call_soon(self.other.arrive, data)

    def arrive(self, data: bytes) -> None:
        """Hand bytes to the protocol of this end."""
        if not self.is_closed:
            self.protocol.data_received(data)

    def abort(self) -> None:
        self.close()

    def close(self) -> None:
        if not self.is_closed and self.other is not None:
            self._loop.call_soon(self.other.end, self._error)
            self.end(None)

    def end(self, error: Exception | None) -> None:
        """Tell the protocol of this end, once, that the connection is closed."""
        if not self.is_closed:
            self.is_closed = True
            self._loop.call_soon(self.protocol.connection_lost, error)


class VirtualLane(BlockingLane):
    """A lane whose calls wait in the time of a virtual loop."""

    def __init__(self, lane: AsyncLane, loop: VirtualLoop) -> None:
        super().__init__(lane, loop)
        self.elapsed_s = loop.time
        """Returns the virtual seconds since the lane was made."""


@contextmanager
def virtual_lane(
    bookie: ScriptedBookie, look: int = LOOK, patience: ListPatience | None = None, **changes: Any
) -> Iterator[VirtualLane]:
    """Yield a lane to the bookie, with the limits of `support.lanes` and `changes`. It is closed at
    the end.
    """
    with VirtualLoop(bookie) as loop:
        lane = loop.lane(look=look, patience=patience, **changes)
        try:
            yield VirtualLane(lane, loop)
        finally:
            # A connection that stays open would be aborted later, in a loop that is closed.
            loop.run(lane.close())


def ask_in_virtual_time(
    bookie: ScriptedBookie, ledger_ids: range | list[int], look: int = LOOK, **changes: Any
) -> tuple[list[Answer], tuple[Greeting, str]]:
    """Ask a fresh lane for these lists, as `support.lanes.ask` does."""
    with virtual_lane(bookie, look, **changes) as asker:
        answers = asker.lists([ListQuestion(ledger_id) for ledger_id in ledger_ids])
        assert list(ledger_ids) == [a.ledger_id for a in answers]
        return answers, asker.greeting()

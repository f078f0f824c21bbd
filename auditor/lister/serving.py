"""Decide whether the lister may answer: the bookie serves, and the directories are still its own.

After a crash the index is short until the journal is replayed. A bookie listens only after that:
one that answers GET_BOOKIE_INFO has indexed its journal.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, TypeVarTuple

from auditor.bookie.lane import AsyncLane
from auditor.clock import now_ms
from auditor.config import BookieLimits
from auditor.errors import ConfigError
from auditor.lister.bookie_configuration import BookieConfiguration
from auditor.lister.cookie import Cookie, check_cookie
from auditor.model.availability import Greeting

DISK_TIMEOUT_S = 5.0
"""How long the bookie's directories may take to answer. A disk that hangs must not stop the lister
from saying so."""
CHECK_AGE_S = 1.0
"""How long one greeting holds: a bookie is greeted at most once a second, while lists are
wanted.
"""
GREETING_TIMEOUT_MS = 2_000
"""How long the bookie may take to accept the connection, and to answer."""
Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")
LIMITS = BookieLimits(
    connect_attempts_max=1,
    connect_timeout_ms=GREETING_TIMEOUT_MS,
    rpc_timeout_ms=GREETING_TIMEOUT_MS,
    deadline_ms=3 * GREETING_TIMEOUT_MS,
)


async def off_the_loop(function: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
    """Return what a function that reads the bookie's disks returns, from a thread.

    Raises what it raises, and TimeoutError after DISK_TIMEOUT_S; the thread then waits on alone.
    """
    try:
        async with asyncio.timeout(DISK_TIMEOUT_S):
            return await asyncio.to_thread(function, *arguments)
    except TimeoutError:
        raise TimeoutError(
            f"the bookie's disks did not answer within {DISK_TIMEOUT_S:g} s"
        ) from None


@dataclass(slots=True)
class ServingCheck:
    """Whether the bookie at `address` serves from the directories that `cookie` was read from."""

    address: tuple[str, int]
    configured: BookieConfiguration
    cookie: Cookie
    monotonic: Callable[[], float] = time.monotonic
    _checked_at: float | None = field(default=None, init=False)
    _problem: str = field(default="", init=False)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False, compare=False)

    async def problem(self) -> str:
        """Return why nothing may be said now, or "".

        A refusal by the bookie (EUA) is an answer: it serves, and asks for credentials.
        """
        async with self._turn:
            if self._checked_at is None or self.monotonic() - self._checked_at > CHECK_AGE_S:
                self._problem = await self._disk_problem() or await self._greeting_problem()
                self._checked_at = self.monotonic()
            return self._problem

    async def _disk_problem(self) -> str:
        try:
            return await off_the_loop(self._cookie_problem)
        except TimeoutError as error:
            return str(error)

    def _cookie_problem(self) -> str:
        try:
            cookie = check_cookie(self.configured)
        except ConfigError as error:
            return str(error)
        return (
            ""
            if cookie == self.cookie
            else f"the directories are now those of bookie {cookie.bookie_id}"
        )

    async def _greeting_problem(self) -> str:
        lane = AsyncLane(self.cookie.bookie_id, *self.address, LIMITS, 1, now_ms)
        try:
            greeting, detail = await lane.greet()
        finally:
            await lane.close()
        return (
            ""
            if greeting in (Greeting.ANSWERED, Greeting.REFUSED)
            else f"the bookie does not serve: {detail}"
        )

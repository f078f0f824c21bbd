"""Decide whether the lister may answer: the bookie serves, and the directories are still its own.

After a crash, the index lacks entries until the journal is replayed. A bookie listens only after
that: if it answers GET_BOOKIE_INFO, it has indexed its journal.

A directory names its bookie in a cookie (`current/VERSION`). The cookie is the same in every
directory of a bookie.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from auditor.bookie.lane import AsyncLane
from auditor.clock import now_ms
from auditor.config import BookieLimits
from auditor.errors import ConfigError, LocalFault, MalformedMetadata
from auditor.lister.bookie_configuration import BookieConfiguration
from auditor.local_faults import local_fault
from auditor.model.availability import Greeting
from auditor.model.identity import split_host_port
from auditor.report.layout import printable
from auditor.wire.cookie import Cookie, parse_cookie

COOKIE = Path("current") / "VERSION"
COOKIE_BYTES_MAX = 64 * 2**10
"""Longest cookie that is read; a real one has some hundred bytes."""


def read_cookie(directory: Path) -> Cookie:
    """Return the cookie of one ledger or index directory. Raises ConfigError with the reason."""
    path = directory / COOKIE
    try:
        with path.open("rb") as file:
            data = file.read(COOKIE_BYTES_MAX)
    except OSError as error:
        raise ConfigError(f"the cookie {path} cannot be read: {error.strerror}") from None
    try:
        return parse_cookie(data.decode("utf-8", "replace"))
    except MalformedMetadata as error:
        raise ConfigError(f"{path}: {error.reason}") from None


def check_cookie(configured: BookieConfiguration) -> Cookie:
    """Return the cookie that all directories of a bookie share.

    Raises ConfigError if the cookies differ from each other, or from the configured bookie id, port
    or lists of directories.
    """
    places = dict.fromkeys((*configured.ledger_directories, *configured.index_directories))
    cookies = [read_cookie(place) for place in places]
    cookie = cookies[0]
    for place, other in zip(places, cookies, strict=True):
        if other != cookie:
            raise ConfigError(
                f"the cookies of {next(iter(places))} and {place} differ: not the directories of"
                " one bookie"
            )
    if configured.bookie_id is not None and configured.bookie_id != cookie.bookie_id:
        raise ConfigError(
            f"the cookie is of bookie {printable(cookie.bookie_id)}, configured is"
            f" {configured.bookie_id}"
        )
    named = split_host_port(cookie.bookie_id)
    if (
        configured.bookie_id is None
        and named is not None
        and named[1] not in (None, configured.port)
    ):
        raise ConfigError(
            f"the cookie is of bookie {printable(cookie.bookie_id)}, the configured bookiePort is"
            f" {configured.port}"
        )
    _check_directories(
        "ledger", configured.ledger_directories, cookie.ledger_directories, configured
    )
    if cookie.index_directories is not None:
        _check_directories(
            "index", configured.index_directories, cookie.index_directories, configured
        )
    return cookie


def _check_directories(
    what: str, places: Sequence[Path], recorded: Sequence[str], configured: BookieConfiguration
) -> None:
    if _are_same(places, [Path(name) for name in recorded], configured.working_directory):
        return
    said, here = printable(", ".join(recorded), 1_000), ", ".join(map(str, places))
    raise ConfigError(
        f"the cookie records the {what} directories {said}; configured are {here}, in this order"
    )


def _are_same(
    places: Sequence[Path], recorded: Sequence[Path], working_directory: Path | None
) -> bool:
    """Return whether the recorded directories are these places, in this order.

    A bookie records a relative directory as it is configured. If the directory in which the bookie
    was started is not known, each place must end with what is recorded, below one and the same
    directory.
    """
    if working_directory is not None:
        return list(places) == [working_directory / directory for directory in recorded]
    if len(places) != len(recorded):
        return False
    bases = set[tuple[str, ...]]()
    for place, recorded_place in zip(places, recorded, strict=True):
        if recorded_place.is_absolute():
            if recorded_place != place:
                return False
        elif place.parts[-len(recorded_place.parts) :] != recorded_place.parts:
            return False
        else:
            bases.add(place.parts[: -len(recorded_place.parts)])
    return len(bases) <= 1


DISK_TIMEOUT_S = 5.0
"""How long the bookie's directories may take to answer. If a disk hangs, the lister must still be
able to say so."""
CHECK_AGE_S = 1.0
"""How long one greeting counts: while lists are wanted, a bookie is greeted at most once a
second."""
GREETING_TIMEOUT_MS = 2_000
"""How long the bookie may take to accept the connection, and to answer."""
_NOT_ASKED = "the lister could not ask the bookie"
Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")
LIMITS = BookieLimits(
    bookie_connect_attempts=1,
    bookie_connect_timeout_ms=GREETING_TIMEOUT_MS,
    rpc_timeout_ms=GREETING_TIMEOUT_MS,
    bookie_deadline_ms=3 * GREETING_TIMEOUT_MS,
)


async def call_in_thread(
    function: Callable[[*Arguments], Result], *arguments: *Arguments
) -> Result:
    """Call a function that reads the bookie's disks in a thread, and return its result.

    Raises what it raises, TimeoutError after DISK_TIMEOUT_S, and LocalFault if this host lets no
    thread begin. After a time-out the thread goes on alone.
    """
    try:
        async with asyncio.timeout(DISK_TIMEOUT_S):
            return await asyncio.to_thread(function, *arguments)
    except TimeoutError:
        raise TimeoutError(
            f"the bookie's disks did not answer within {DISK_TIMEOUT_S:g} s"
        ) from None
    except RuntimeError as error:
        raise local_fault(error) or error from None


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

        A refusal by the bookie (EUA) is an answer: it serves, and asks for credentials. A fault of
        the lister's own host says nothing about the bookie.
        """
        async with self._turn:
            if self._checked_at is None or self.monotonic() - self._checked_at > CHECK_AGE_S:
                try:
                    self._problem = await self._disk_problem() or await self._greeting_problem()
                except LocalFault as fault:
                    self._problem = f"{_NOT_ASKED}: {fault}"
                self._checked_at = self.monotonic()
            return self._problem

    async def _disk_problem(self) -> str:
        try:
            return await call_in_thread(self._cookie_problem)
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
        if greeting in (Greeting.ANSWERED, Greeting.REFUSED):
            return ""
        if greeting is Greeting.AUDITOR_LIMITED:
            return f"{_NOT_ASKED}: {detail}"
        return f"the bookie does not serve: {detail}"

"""Whether a lister may speak: its bookie serves, from directories that are still its own."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from auditor.clock import now_ms
from auditor.errors import ConfigError, LocalFault
from auditor.lister import serving
from auditor.lister.bookie_configuration import BookieConfiguration
from auditor.lister.serving import (
    CHECK_AGE_S,
    DISK_TIMEOUT_S,
    LIMITS,
    ServingCheck,
    call_in_thread,
)
from auditor.model.availability import Greeting
from auditor.wire.cookie import Cookie

DIRECTORIES = ("/data",)
OURS = Cookie("b1", "the-instance", DIRECTORIES, DIRECTORIES)
CONFIGURED = BookieConfiguration((Path("/data"),), (Path("/data"),))


class Bookie:
    """What the bookie and its disks say, and what they were asked. `now` is the monotonic clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 50.0
        self.greeting: tuple[Greeting, str] | Exception = (Greeting.ANSWERED, "")
        self.cookie: Cookie | Exception = OURS
        self.asked: list[object] = []
        monkeypatch.setattr(serving, "check_cookie", self._check_cookie)
        monkeypatch.setattr(serving, "AsyncLane", self._lane)
        self.check = ServingCheck(("10.0.0.1", 3181), CONFIGURED, OURS, lambda: self.now)

    def _check_cookie(self, configured: BookieConfiguration) -> Cookie:
        assert configured is CONFIGURED
        if isinstance(self.cookie, Exception):
            raise self.cookie
        return self.cookie

    def _lane(self, *given: object) -> Bookie:
        self.asked.append(given)
        return self

    async def greet(self) -> tuple[Greeting, str]:
        if isinstance(self.greeting, Exception):
            raise self.greeting
        return self.greeting

    async def close(self) -> None:
        self.asked.append("closed")

    def problem(self) -> str:
        return asyncio.run(self.check.problem())


@pytest.fixture
def bookie(monkeypatch: pytest.MonkeyPatch) -> Bookie:
    return Bookie(monkeypatch)


@pytest.mark.parametrize("greeting", Greeting)
def test_a_bookie_that_answers_or_refuses_serves(bookie: Bookie, greeting: Greeting) -> None:
    """One that wants credentials answers too; any other does not serve, for a reason that is
    said.
    """
    bookie.greeting = greeting, "why"
    words = "the bookie does not serve: why"
    if greeting in (Greeting.ANSWERED, Greeting.REFUSED):
        words = ""
    if greeting is Greeting.AUDITOR_LIMITED:
        words = "the lister could not ask the bookie: why"
    assert words == bookie.problem()
    assert [("b1", "10.0.0.1", 3181, LIMITS, 1, now_ms), "closed"] == bookie.asked


def test_a_fault_of_the_listers_host_says_nothing_about_the_bookie(bookie: Bookie) -> None:
    """No list is given, and the reason is that the bookie could not be asked."""
    bookie.greeting = LocalFault("no file descriptor is left")
    assert "the lister could not ask the bookie: no file descriptor is left" == bookie.problem()
    bookie.now, bookie.greeting = bookie.now + 2 * CHECK_AGE_S, (Greeting.ANSWERED, "")
    assert "" == bookie.problem()


def test_a_thread_that_cannot_begin_is_a_fault_of_the_host(
    bookie: Bookie, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So is a disk that nobody can be sent to look at."""

    async def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(asyncio, "to_thread", refuse)
    problem = bookie.problem()
    assert problem.startswith("the lister could not ask the bookie: this host lets the auditor")


def test_a_greeting_holds_for_a_moment(bookie: Bookie) -> None:
    """What was said is said again, until it is too old."""
    assert "" == bookie.problem()
    bookie.greeting, bookie.now = (Greeting.SILENT, "gone"), bookie.now + CHECK_AGE_S
    assert "" == bookie.problem()
    bookie.now += 0.01
    assert "the bookie does not serve: gone" == bookie.problem()
    bookie.greeting, bookie.now = (Greeting.ANSWERED, ""), bookie.now + CHECK_AGE_S
    assert "the bookie does not serve: gone" == bookie.problem()
    bookie.now += 0.01
    assert "" == bookie.problem()


def test_the_conversation_is_closed_whatever_happens(bookie: Bookie) -> None:
    """A lister greets for months: each would leave a descriptor."""
    bookie.greeting = RuntimeError("ours")
    with pytest.raises(RuntimeError):
        bookie.problem()
    assert "closed" == bookie.asked[-1]


@pytest.mark.parametrize(
    ("cookie", "problem"),
    [
        (ConfigError("no cookie"), "no cookie"),
        (TimeoutError("it hangs"), "the bookie's disks did not answer within 5 s"),
        (
            Cookie("b2", "the-instance", DIRECTORIES, DIRECTORIES),
            "the directories are now those of bookie b2",
        ),
        (
            Cookie("b1", "another", DIRECTORIES, DIRECTORIES),
            "the directories are now those of bookie b1",
        ),
    ],
)
def test_directories_that_are_not_its_own_say_nothing(
    bookie: Bookie, cookie: Cookie | Exception, problem: str
) -> None:
    """The bookie is not even greeted: it would be another one's list."""
    bookie.cookie = cookie
    assert problem == bookie.problem()
    assert [] == bookie.asked


def test_disks_are_read_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what is given, and not for ever: the thread then waits on alone."""
    monkeypatch.setattr(serving, "DISK_TIMEOUT_S", 30.0)
    assert threading.main_thread() is not asyncio.run(call_in_thread(threading.current_thread))
    assert (1, "a") == asyncio.run(call_in_thread(lambda *given: given, 1, "a"))
    with pytest.raises(KeyError, match="its own"):
        asyncio.run(call_in_thread({}.__getitem__, "its own"))
    is_over = threading.Event()
    monkeypatch.setattr(serving, "DISK_TIMEOUT_S", 0.01)

    async def wait() -> None:
        try:
            await call_in_thread(is_over.wait, 60)
        finally:
            is_over.set()

    with pytest.raises(TimeoutError, match=r"did not answer within 0\.01 s"):
        asyncio.run(wait())
    assert DISK_TIMEOUT_S == 5.0

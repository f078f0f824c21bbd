"""The limits of one ledger, with a clock that the tests advance tick by tick."""

from __future__ import annotations

import os
import queue
import resource
import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from auditor.config import JudgingLimits
from auditor.judging import judge as isolation
from auditor.judging.judge import Guard, Raised, Stopped, Watch

LONG = JudgingLimits(ledger_time_max_ms=60_000, ledger_memory_max=256 * 2**20)
"""Far longer than anything in these tests takes."""
TOO_LONG = Stopped("it took longer than 60 s")
TIMERS = signal.ITIMER_REAL, signal.ITIMER_VIRTUAL


def ticks(count: int) -> int:
    """Deliver the signal this many times."""
    for _ in range(count):
        handler = signal.getsignal(signal.SIGALRM)
        assert callable(handler)
        handler(signal.SIGALRM, None)
    return count


def test_the_fourth_tick_stops_a_ledger() -> None:
    """Ticks are counted anew for each ledger. Between ledgers, and before the first, they stop
    nothing.
    """
    with Guard(LONG) as limits:
        ticks(9)
        for _ in range(2):
            assert 3 == limits.run(ticks, 3)
            assert TOO_LONG == limits.run(ticks, 4)
            ticks(9)


def test_a_ledger_has_its_time_by_the_clock_and_a_quarter_more_of_the_processor() -> None:
    """A tick comes every quarter of the time. No timer runs while no ledger is judged."""

    def timers(_: int) -> list[tuple[float, float]]:
        return [signal.getitimer(timer) for timer in TIMERS]

    with Guard(LONG) as limits:
        (tick_s, every_s), (processor_s, again_s) = limits.run(timers, 1)  # type: ignore[misc]
        assert [(0.0, 0.0)] * 2 == timers(1)
    assert (15.0, 0.0) == (pytest.approx(every_s, abs=0.01), again_s)
    assert 10.0 < tick_s <= 15.01
    assert 70.0 < processor_s <= 75.01


def test_what_a_ledger_raises_is_a_value_and_leaves_no_timer() -> None:
    """The value has the exception's name and message, and the next ledger has the whole time."""

    def fails(_: int) -> None:
        raise KeyError("a bug")

    with Guard(LONG) as limits:
        assert Raised("KeyError: 'a bug'") == limits.run(fails, 1)
        assert [(0.0, 0.0)] * 2 == [signal.getitimer(timer) for timer in TIMERS]
        ticks(9)


def test_a_ledger_that_waits_for_twice_its_time_is_noticed_at_the_eighth_tick() -> None:
    """The first tick starts the count. Another ledger, or none, starts it anew."""
    watch = Watch(60.0)
    watch.begun, watch.is_at_work = 1, True
    assert [False] * 8 + [True] == [watch.tick() for _ in range(9)]
    watch = Watch(60.0)
    assert not any(watch.tick() for _ in range(20))
    for ledger in (1, 2):
        watch.begun, watch.is_at_work = ledger, True
        assert [False] * 8 + [True] == [watch.tick() for _ in range(9)]
    watch.is_at_work = False
    assert not any(watch.tick() for _ in range(20))
    watch.is_at_work = True
    assert [False] * 7 + [True] == [watch.tick() for _ in range(8)]


def test_a_ledger_at_work_for_too_long_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends as it does when the kernel stops it for its CPU time."""
    killed: queue.Queue[tuple[object, ...]] = queue.Queue()
    monkeypatch.setattr(isolation.os, "kill", lambda *given: killed.put(given))
    watch = Watch(0.04)
    watch.is_at_work = True
    watch.start()
    try:
        assert (os.getpid(), signal.SIGVTALRM) == killed.get(timeout=30)
    finally:
        watch.end()


def test_the_watch_sees_which_ledger_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch has the limit in seconds, and knows the current ledger, or that there is none."""
    made: list[tuple[float, Watch]] = []
    monkeypatch.setattr(
        isolation, "Watch", lambda seconds: made.append((seconds, Watch(seconds))) or made[0][1]
    )
    with Guard(LONG) as limits:
        ((seconds, watch),) = made
        seen = [limits.run(lambda _: (watch.begun, watch.is_at_work), one) for one in range(3)]
        assert not watch.is_at_work
    assert (60.0, [(1, True), (2, True), (3, True)]) == (seconds, seen)


def test_the_watch_wakes_four_times_in_the_time_of_a_ledger_and_never_holds_the_process_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is a daemon thread that handles no signals of the process."""
    waits: list[float] = []
    masks: list[object] = []
    threads: list[threading.Thread] = []

    class Over:
        def __init__(self) -> None:
            self.over = threading.Event()

        def set(self) -> None:
            self.over.set()

        def wait(self, seconds: float) -> bool:
            waits.append(seconds)
            threads.append(threading.current_thread())
            masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))
            return self.over.wait(9.0)

    monkeypatch.setattr(
        isolation, "threading", SimpleNamespace(**{**vars(threading), "Event": Over})
    )
    with Guard(LONG):
        pass
    assert ([15.0], [True]) == (waits, [one.daemon for one in threads])
    assert signal.SIGALRM in masks[0]  # type: ignore[operator]
    assert "auditor-watch" == threads[0].name


def test_without_a_thread_to_be_had_there_is_no_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ledgers are judged without it."""

    def fails(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fails)
    with Guard(LONG) as limits:
        assert [TOO_LONG, 2] == [limits.run(ticks, 4), limits.run(ticks, 2)]


def test_in_another_thread_only_the_memory_is_bounded() -> None:
    """Python handles no signals there: no timer, handler or watch is started."""
    found: list[object] = []

    def judge() -> None:
        threads = threading.active_count()
        with Guard(LONG) as limits:
            found.append(limits.run(lambda _: bytes(2**30), 1))
            found.append(limits.run(lambda _: [signal.getitimer(timer)[1] for timer in TIMERS], 2))
            found.append(limits.run(lambda _: signal.getitimer(signal.ITIMER_VIRTUAL)[0], 3))
            found.append(threading.active_count() - threads)

    handler = signal.getsignal(signal.SIGALRM)
    thread = threading.Thread(target=judge)
    thread.start()
    thread.join()
    assert [Stopped("it took more memory than 256 MiB"), [0.0, 0.0], 0.0, 0] == found
    assert handler == signal.getsignal(signal.SIGALRM)


PAGE = 4_096
WANTED = 300 * PAGE + LONG.ledger_memory_max
INFINITE = resource.RLIM_INFINITY


class Limits:
    """A stand-in for the kernel's limits: a process of 300 pages, of which 7 are resident."""

    RLIMIT_AS = resource.RLIMIT_AS
    RLIM_INFINITY = INFINITE

    def __init__(self, before: tuple[int, int], error: Exception | None = None) -> None:
        self.before, self.error = before, error
        self.set: list[tuple[int, tuple[int, int]]] = []

    def getrlimit(self, which: int) -> tuple[int, int]:
        assert which == self.RLIMIT_AS
        return self.before

    def setrlimit(self, which: int, limits: tuple[int, int]) -> None:
        if self.error is not None:
            raise self.error
        self.set.append((which, limits))


def bounded(
    monkeypatch: pytest.MonkeyPatch, limits: Limits, statm: Any = "300 7 7 7 7 7 7"
) -> list[tuple[int, int]]:
    """Return the limits that a guard sets when it is entered and when it is left."""

    def read_text(_: object) -> str:
        if isinstance(statm, Exception):
            raise statm
        return str(statm)

    with monkeypatch.context() as patched:
        patched.setattr(isolation, "resource", limits)
        patched.setattr(isolation.os, "sysconf", {"SC_PAGE_SIZE": PAGE}.__getitem__)
        patched.setattr(isolation.Path, "read_text", read_text)
        with Guard(LONG) as entered:
            assert 7 == entered.run(lambda one: one, 7)
    assert all(which == resource.RLIMIT_AS for which, _ in limits.set)
    return [one for _, one in limits.set]


@pytest.mark.parametrize(
    "before", [(INFINITE, INFINITE), (WANTED, INFINITE), (WANTED + 1, WANTED), (INFINITE, WANTED)]
)
def test_a_ledger_has_so_much_memory_beyond_what_the_process_has(
    before: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The soft limit is the size of the process plus the memory of one ledger. The hard limit is
    unchanged, and the old soft limit is restored afterwards.
    """
    assert [(WANTED, before[1]), before] == bounded(monkeypatch, Limits(before))


@pytest.mark.parametrize("before", [(WANTED - 1, INFINITE), (INFINITE, WANTED - 1), (1, 1)])
def test_a_process_that_has_less_memory_keeps_its_limits(
    before: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is set or restored."""
    assert [] == bounded(monkeypatch, Limits(before))


@pytest.mark.parametrize(
    "error", [OSError("not permitted"), ValueError("current limit exceeds maximum limit")]
)
def test_where_memory_cannot_be_bounded_ledgers_are_judged_without(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel may refuse the limit, or there is no /proc that has the size of the process."""
    assert [] == bounded(monkeypatch, Limits((INFINITE, INFINITE), error))
    assert [] == bounded(
        monkeypatch, Limits((INFINITE, INFINITE)), FileNotFoundError("/proc/self/statm")
    )

"""The work of a stage in this process: a signal ends the wait for it, and its errors are raised."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from auditor.config import JudgingLimits
from auditor.judging.judge import judge_in_child
from auditor.stages import local
from auditor.stages.local import _unless_stopped
from auditor.stop import Interrupted, StopRequest

SOON_S = 5.0
"""In seconds: long enough for any machine, and far shorter than the work below."""


def test_what_the_work_yields_is_yielded() -> None:
    """The work has a thread of its own, and the main thread can watch for signals. None is a value
    like any other.
    """
    first, *more = _unless_stopped(
        StopRequest(), lambda: (one() for one in [threading.current_thread, lambda: None, dict])
    )
    assert threading.main_thread() is not first
    assert [None, {}] == more


def test_the_work_is_at_most_some_batches_ahead_of_the_writer() -> None:
    """Its batches are in memory until they are written."""
    made: list[int] = []

    def work() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            yield number

    ahead = [len(made) - number for number in _unless_stopped(StopRequest(), work)]
    assert max(ahead) <= local.BATCHES_AHEAD + 3, (
        "beyond the waiting batches: one in the work, one in the writer, and the counted one"
    )
    assert list(range(100)) == made


def test_abandoned_work_ends_when_it_yields_next() -> None:
    """Its conversations with bookies end with it."""
    ended = threading.Event()

    def work() -> Iterator[int]:
        try:
            yield from range(100)
        finally:
            ended.set()

    rows = _unless_stopped(StopRequest(), work)
    assert 0 == next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert ended.wait(60)


@pytest.mark.parametrize("is_abandoned", [False, True])
def test_a_writer_may_be_slower_than_the_work(
    monkeypatch: pytest.MonkeyPatch, is_abandoned: bool
) -> None:
    """The work waits with its next row until there is room, or until it is abandoned."""
    monkeypatch.setattr(local, "POLL_S", 0.01)
    full, ended = threading.Event(), threading.Event()

    def work() -> Iterator[int]:
        try:
            for number in range(10):
                if number == local.BATCHES_AHEAD + 1:
                    full.set()
                yield number
        finally:
            ended.set()

    rows = _unless_stopped(StopRequest(), work)
    assert 0 == next(rows)
    assert full.wait(60)
    time.sleep(20 * local.POLL_S)
    if is_abandoned:
        rows.close()  # type: ignore[attr-defined]
    else:
        assert [*range(1, 10)] == list(rows)
    assert ended.wait(60)


def test_work_that_is_abandoned_does_not_keep_the_process() -> None:
    """Its thread is a daemon, and its name says what hangs."""
    (thread,) = _unless_stopped(StopRequest(), lambda: iter([threading.current_thread()]))
    assert ("auditor-stage", True) == (thread.name, thread.daemon)


def test_what_the_work_raises_is_raised() -> None:
    """A time-out of the work itself is not taken for the end of a poll."""
    with pytest.raises(TimeoutError, match="its own"):
        list(_unless_stopped(StopRequest(), lambda: (_ for _ in ()).throw(TimeoutError("its own"))))


def test_a_signal_ends_the_wait() -> None:
    """The abandoned work continues in its thread."""
    stop, is_over = StopRequest(), threading.Event()
    threading.Timer(0.2, stop._remember, (signal.SIGTERM, None)).start()
    began = time.monotonic()
    with pytest.raises(Interrupted) as interrupted:
        list(_unless_stopped(stop, lambda: iter([is_over.wait(60)])))
    is_over.set()
    assert (signal.SIGTERM, True) == (
        interrupted.value.signal_number,
        time.monotonic() - began < SOON_S,
    )


def test_a_signal_that_came_with_the_end_of_the_work_counts() -> None:
    """The last row is not written."""
    stop = StopRequest()
    with pytest.raises(Interrupted):
        list(_unless_stopped(stop, lambda: iter([stop._remember(signal.SIGINT, None)])))


def test_a_signal_that_came_behind_the_last_row_counts() -> None:
    """The file is not kept."""
    stop = StopRequest()

    def work() -> Iterator[int]:
        yield 1
        stop._remember(signal.SIGINT, None)

    rows = _unless_stopped(stop, work)
    with pytest.raises(Interrupted):
        list(rows)


def children() -> set[str]:
    """Return the process ids of this process's children."""
    found: set[str] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # Its thread may have ended meanwhile.
            found.update(path.read_text().split())
    return found


@pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="only Linux lists the children of a process"
)
def test_a_signal_ends_the_child_that_judges() -> None:
    """The child ends at once, and no process is left."""
    stop, others = StopRequest(), children()
    before = signal.signal(signal.SIGTERM, stop._remember)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
    try:
        with pytest.raises(Interrupted), stop.raise_at_once():
            list(judge_in_child([1], lambda _: time.sleep(60), JudgingLimits()))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert others == children()

"""Signals: remembered until it is safe to raise, or raised at once where nothing can be spoilt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from auditor.stop import Interrupted, StopRequest


def test_a_signal_is_raised_at_the_next_check() -> None:
    """Not where it strikes."""
    stop = StopRequest()
    stop._remember(signal.SIGTERM, None)
    with pytest.raises(Interrupted) as interrupted:
        stop.check()
    assert signal.SIGTERM == interrupted.value.signal_number


def test_a_thread_that_is_abandoned_stops_and_no_other() -> None:
    """Nobody waits for its work, and everybody else goes on."""
    stop, said = StopRequest(), []

    def work() -> None:
        stop.check()
        stop.abandon(threading.current_thread())
        with pytest.raises(Interrupted):
            stop.check()
        said.append("stopped")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    stop.check()
    assert ["stopped"] == said


def test_within_a_stretch_that_allows_it_a_signal_is_raised_where_it_strikes() -> None:
    """And no longer behind it."""
    stop = StopRequest()
    with pytest.raises(Interrupted), stop.raise_at_once():
        stop._remember(signal.SIGINT, None)
        raise AssertionError("the signal was not raised")
    stop._remember(signal.SIGINT, None)


def test_a_signal_from_before_is_raised_at_the_beginning_of_the_stretch() -> None:
    """Nothing of it is begun."""
    stop = StopRequest()
    stop._remember(signal.SIGTERM, None)
    with pytest.raises(Interrupted), stop.raise_at_once():
        raise AssertionError("it was begun")


def test_a_child_of_the_stretch_only_remembers() -> None:
    """A signal to the whole group strikes it too; its parent ends it."""
    stop = StopRequest()
    with stop.raise_at_once():
        child = os.fork()
        if child == 0:
            try:
                stop._remember(signal.SIGTERM, None)
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
    assert 0 == os.waitstatus_to_exitcode(status)


IN_A_FORK = """
import os, signal, time
from auditor.stop import Interrupted, StopRequest
def strike(): os.kill(os.getpid(), signal.SIGTERM) if os.getpid() == parent else None
parent = os.getpid()
os.register_at_fork(
    before=lambda: {before} and strike(),
    after_in_parent=lambda: not {before} and strike(),
)
stop = StopRequest()
stop.install()
try:
    with stop.raise_at_once():
        if os.fork() == 0:
            os._exit(0)
        time.sleep(60)
except Interrupted as interrupted:
    print("stopped by", interrupted)
"""
"""A signal comes while the hooks of a fork run, which other libraries registered."""


@pytest.mark.parametrize("before", [True, False])
def test_a_signal_in_the_middle_of_a_fork_is_raised_behind_it(before: bool) -> None:
    """Raised in a hook, it would be a traceback that cannot be caught, and logging would keep its
    lock.
    """
    done = subprocess.run(
        [sys.executable, "-c", IN_A_FORK.format(before=before)],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    assert ("stopped by SIGTERM\n", "") == (done.stdout, done.stderr)

"""Signals: remembered until it is safe to raise, or raised at once where nothing can be spoilt."""

from __future__ import annotations

import os
import signal

import pytest

from auditor.stop import Interrupted, StopRequest


def test_a_signal_is_raised_at_the_next_check() -> None:
    """Not where it strikes."""
    stop = StopRequest()
    stop._remember(signal.SIGTERM, None)
    with pytest.raises(Interrupted) as interrupted:
        stop.check()
    assert signal.SIGTERM == interrupted.value.signal_number


def test_within_a_stretch_that_allows_it_a_signal_is_raised_where_it_strikes() -> None:
    """And no longer behind it."""
    stop = StopRequest()
    with pytest.raises(Interrupted), stop.raised_at_once():
        stop._remember(signal.SIGINT, None)
        raise AssertionError("the signal was not raised")
    stop._remember(signal.SIGINT, None)


def test_a_signal_from_before_is_raised_at_the_beginning_of_the_stretch() -> None:
    """Nothing of it is begun."""
    stop = StopRequest()
    stop._remember(signal.SIGTERM, None)
    with pytest.raises(Interrupted), stop.raised_at_once():
        raise AssertionError("it was begun")


def test_a_child_of_the_stretch_only_remembers() -> None:
    """A signal to the whole group strikes it too; its parent ends it."""
    stop = StopRequest()
    with stop.raised_at_once():
        child = os.fork()
        if child == 0:
            try:
                stop._remember(signal.SIGTERM, None)
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
    assert 0 == os.waitstatus_to_exitcode(status)

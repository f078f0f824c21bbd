"""A job without progress counts as stalled. A job that goes on, however slowly, does not."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import pytest

from auditor.spark.jobs import StallWatch


class Polled:
    """A watch that is called once a second by its own clock."""

    def __init__(self, max_s: float) -> None:
        self.now_s = 100.0
        self.watch = StallWatch(max_s, lambda: self.now_s)

    def stalled_after(self, progress: Hashable, within_s: int) -> int | None:
        """Return the seconds after which a job without further progress counts as stalled. None if
        it does not within `within_s`.
        """
        for second in range(within_s + 1):
            if self.watch.is_stalled(progress):
                return second
            self.now_s += 1
        return None


@pytest.fixture
def polled() -> Iterator[Polled]:
    yield Polled(60)


def test_a_job_is_stalled_once_its_progress_has_been_the_same_for_the_bound(polled: Polled):
    """It is not stalled a second earlier."""
    assert 60 == polled.stalled_after((frozenset({1}), 3), 100)


def test_each_finished_task_and_each_new_stage_begins_the_bound_anew(polled: Polled):
    """The bound is on the time between two tasks, not on the job."""
    for progress in (
        (frozenset({1}), 0),
        (frozenset({1}), 1),
        (frozenset({2}), 1),
        (frozenset({2}), 2),
    ):
        assert polled.stalled_after(progress, 58) is None
    assert polled.stalled_after((frozenset({2}), 2), 10) is not None


def test_a_job_that_never_begins_is_stalled_too(polled: Polled):
    """A cluster without executors gives no progress at all."""
    assert 60 == polled.stalled_after((frozenset(), 0), 100)


def test_a_pause_of_this_process_is_no_stall(polled: Polled):
    """A shell stopped it for hours: the job may have stood still as long."""
    assert polled.stalled_after((frozenset({1}), 3), 10) is None
    polled.now_s += 7200
    assert not polled.watch.is_stalled((frozenset({1}), 3))
    assert polled.stalled_after((frozenset({1}), 3), 100) is not None

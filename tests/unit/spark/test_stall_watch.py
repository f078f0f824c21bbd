"""A job without progress is noticed; one that goes on, however slowly, is not."""

from __future__ import annotations

from auditor.spark.stall_watch import StallWatch


def test_a_job_is_stalled_once_its_progress_has_been_the_same_for_the_bound():
    """Not a moment earlier, and whatever it was that did not change."""
    now = [100.0]
    watch = StallWatch(60, lambda: now[0])
    assert not watch.is_stalled((frozenset({1}), 3))
    now[0] = 159.9
    assert not watch.is_stalled((frozenset({1}), 3))
    now[0] = 160.0
    assert watch.is_stalled((frozenset({1}), 3))


def test_each_finished_task_and_each_new_stage_begins_the_bound_anew():
    """The bound is on the time between two tasks, not on the job."""
    now = [0.0]
    watch = StallWatch(60, lambda: now[0])
    for progress in ((frozenset({1}), 0), (frozenset({1}), 1), (frozenset({2}), 1), (frozenset({2}), 2)):
        assert not watch.is_stalled(progress)
        now[0] += 59
    assert not watch.is_stalled((frozenset({2}), 2))
    now[0] += 1
    assert watch.is_stalled((frozenset({2}), 2))


def test_a_job_that_never_begins_is_stalled_too():
    """A cluster without executors gives no progress at all."""
    now = [0.0]
    watch = StallWatch(60, lambda: now[0])
    assert not watch.is_stalled((frozenset(), 0))
    now[0] = 60
    assert watch.is_stalled((frozenset(), 0))

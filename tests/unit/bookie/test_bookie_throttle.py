"""A bookie is asked less while it refuses, resets or has become slow, and more when it recovers."""

from __future__ import annotations

import random

from auditor.bookie.exchange import RISE_S_MAX, SAMPLES, Latencies, Throttle
from auditor.config import BookieLimits
from auditor.model.availability import LanePace

SEED = 1


def throttle(size: int = 64, rate: float = 2_000.0) -> Throttle:
    return Throttle(BookieLimits(bookie_inflight=size, bookie_requests_per_second=rate), 0.0)


def answers(of: Throttle, count: int, seconds: float, *, are_lists: bool = True) -> None:
    of.answered(count, [seconds] * count, are_lists=are_lists)


def test_size_and_rate_halve_and_grow_back_to_the_limits() -> None:
    """Half at each refusal or reset, the size never under one, the rate never under an eighth. One
    more outstanding for each window's worth of answers, and never more than the limits.
    """
    one, seen = throttle(10, 800.0), []
    for _ in range(5):
        one.halve()
        seen.append((one.size, one.rate))
    assert [(5, 400.0), (2, 200.0), (1, 100.0), (1, 100.0), (1, 100.0)] == seen
    grown = []
    for _ in range(6):
        one.answered(1, [], are_lists=True)
        grown.append((one.size, one.rate))
    assert [(2, 180), (2, 180), (3, 260), (3, 260), (3, 260), (4, 340)] == grown
    assert one.is_low
    one.answered(1_000, [], are_lists=True)
    assert (10, 800.0, False) == (one.size, one.rate, one.is_low)
    one.halve()
    one.answered(4, [], are_lists=True)
    assert (5, 400.0) == (one.size, one.rate), "answers at the limits are not saved up"


def test_the_pace_is_what_the_bookie_is_asked_now() -> None:
    """Requests at once and a second, and whether that is less than the limits allow."""
    one = throttle(64, 2_000.0)
    assert one.pace == LanePace(64, 2_000.0, is_low=False)
    one.halve()
    assert one.pace == LanePace(32, 1_000.0, is_low=True)


def test_the_lowest_pace_is_kept_when_a_bookie_recovers() -> None:
    """The pace says how the bookie is asked now, and how little it was asked before. At the lowest
    pace both are the same.
    """
    one = throttle(8, 800.0)
    assert one.pace.lowest == LanePace(8, 800.0, is_low=False)
    one.halve()
    one.halve()
    assert one.pace.lowest == one.pace == LanePace(2, 200.0, is_low=True)
    one.answered(2, [], are_lists=True)
    assert one.pace == LanePace(3, 300.0, True, LanePace(2, 200.0, is_low=True))
    one.answered(1_000, [], are_lists=True)
    assert one.pace == LanePace(8, 800.0, False, LanePace(2, 200.0, is_low=True))
    one.halve()
    assert one.pace.lowest == LanePace(2, 200.0, is_low=True)
    unlimited = throttle(1, 0.0)
    unlimited.halve()
    assert unlimited.pace == LanePace(1, 0.0, is_low=False), "one request and no rate: no less"


def test_what_counts_towards_growth_is_forgotten_when_the_bookie_shows_strain() -> None:
    """It has to answer a whole window again."""
    one = throttle(8, 0.0)
    one.halve()
    one.answered(3, [], are_lists=True)
    one.halve()
    one.answered(1, [], are_lists=True)
    assert one.size == 2


def test_the_rate_is_that_of_the_requests_let_out() -> None:
    """At half the rate, half as many in the same time."""
    sent = []
    for times in range(3):
        one = throttle(rate=1_000.0)
        for _ in range(times):
            one.halve()
        assert one.take(100, 0.0) == (20, 10, 5)[times]
        sent.append(one.take(100, 0.01))
        assert one.take(100, 0.01) == 0
        one.give_back(1)
        assert one.take(100, 0.01) == 1
        assert 0 < one.wait_s(1) <= 1 / one.rate
    assert [10, 5, 2] == sent


def test_requests_go_out_in_small_steps_while_the_rate_holds_them_back() -> None:
    """Reads of the bookie's clients wait behind one step, not behind a burst. At least one goes."""
    for rate, step in ((2_000.0, 4), (1_000.0, 2), (900.0, 1), (50.0, 1)):
        one = throttle(rate=rate)
        one.take(1_000, 0.0)
        assert one.wait_s(1_000) == one.wait_s(step) == step / rate
    assert 40 == throttle().take(1_000, 0.0), "after a pause a burst goes out"
    halved = throttle()
    halved.halve()
    halved.take(1_000, 0.0)
    assert halved.wait_s(1_000) == 2 / 1_000, "a step is of the rate that holds now"


def test_without_a_limit_only_the_size_follows_the_bookie() -> None:
    """The rate stays without a limit: 0 is not a low rate."""
    one = throttle(8, 0.0)
    one.halve()
    assert (4, 0.0, 1_000, 0.0) == (one.size, one.rate, one.take(1_000, 0.0), one.wait_s(1))
    assert one.is_low
    one.answered(1_000, [], are_lists=True)
    assert not one.is_low


def test_a_bookie_that_has_become_slow_is_asked_less_but_an_eighth_at_least() -> None:
    """A quarter less for each median that is more than twice the quietest, whenever that was."""
    one, sizes = throttle(), []
    answers(one, SAMPLES, 0.020)
    answers(one, SAMPLES, 0.010)
    answers(one, SAMPLES, 0.020)
    assert (64, 2_000.0) == (one.size, one.rate), "twice is not more than twice"
    answers(one, SAMPLES, 0.021)
    assert (48, 1_500.0) == (one.size, one.rate)
    sizes.append(one.size)
    for _ in range(9):
        answers(one, SAMPLES, 0.021)
        sizes.append(one.size)
    assert [48, 36, 27, 20, 15, 11, 8, 8, 8, 8] == sizes
    assert one.rate == 250.0
    one.halve()
    answers(one, SAMPLES, 0.021)
    assert one.size == 4, "what refusals took, slowness does not give back"
    small = throttle(2)
    answers(small, SAMPLES, 0.010)
    for _ in range(5):
        answers(small, SAMPLES, 0.1)
    assert small.size == 1


def test_a_median_is_of_many_answers() -> None:
    """One that is late changes nothing, and one answer before the last of them nothing either."""
    one = throttle()
    answers(one, SAMPLES, 0.010)
    answers(one, SAMPLES // 2 + 1, 0.010)
    answers(one, SAMPLES // 2 - 1, 9.0)
    assert not one.is_low
    answers(one, SAMPLES - 1, 9.0)
    assert not one.is_low
    answers(one, 1, 9.0)
    assert one.is_low


def test_lists_are_compared_with_lists_and_reads_with_reads() -> None:
    """A read from a disk takes longer than a list from memory: that is no strain."""
    one = throttle()
    answers(one, SAMPLES, 0.001)
    answers(one, SAMPLES, 0.5, are_lists=False)
    assert not one.is_low
    answers(one, SAMPLES, 0.5)
    assert one.is_low


def test_a_few_milliseconds_more_are_no_strain() -> None:
    """Within RISE_S_MAX a median may rise by any factor."""
    found = Latencies()
    rises = [0.0001, 0.0001 + RISE_S_MAX, 0.00011 + RISE_S_MAX]
    assert [False, False, True] == [found.add([rise] * SAMPLES) for rise in rises]


def test_no_bookie_brings_the_throttle_out_of_its_limits() -> None:
    """Whatever happens in whatever order, 1 <= size <= limit, and the rate is an eighth at
    least.
    """
    draw = random.Random(SEED)
    one = throttle(draw.choice([1, 7, 64]), 800.0)
    size_max = one.size
    for _ in range(2_000):
        if draw.random() < 0.1:
            one.halve()
        else:
            answers(one, draw.randint(1, 100), draw.expovariate(20), are_lists=draw.random() < 0.5)
        assert 1 <= one.size <= size_max, SEED
        assert 100.0 <= one.rate <= 800.0, SEED
    one.answered(10**6, [], are_lists=True)
    assert not one.is_low, SEED

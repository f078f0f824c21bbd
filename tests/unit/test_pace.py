"""How fast somebody may ask: a bucket that is given the time, and one that waits."""

from __future__ import annotations

import random

import pytest

from auditor.pace import Pace, TokenBucket

BURST_S = 0.02
WAITING_BURST_S = 0.1


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rate", [0.5, 7.0, 2_000.0])
def test_no_more_than_the_rate_and_one_burst_go_out_in_any_span(rate: float, seed: int) -> None:
    """For any requests at any times, every span of time has at most rate x span requests, and one
    burst.
    """
    rng = random.Random(seed)
    bucket, now, sent = TokenBucket(rate, 0.0, BURST_S), 0.0, []
    for _ in range(300):
        now += rng.choice([0.0, 0.0001, 0.01, rng.random()])
        granted = bucket.take(rng.randint(0, 100), now)
        unused = rng.randint(0, granted)
        bucket.give_back(unused)
        sent.append((now, granted - unused))
    burst = max(1.0, rate * BURST_S)
    for start in range(0, 300, 17):
        for end in range(start, 300, 13):
            span = sent[end][0] - sent[start][0]
            assert sum(count for _, count in sent[start : end + 1]) <= rate * span + burst + 1e-6, (
                f"seed {seed}"
            )


@pytest.mark.parametrize("rate", [0.5, 3.0, 2_000.0])
def test_after_the_wait_something_may_go_out(rate: float) -> None:
    """The bucket says how long to wait, and is right; no wait is longer than that for a burst."""
    bucket, now = TokenBucket(rate, 0.0, BURST_S), 0.0
    bucket.take(10**6, now)
    for _ in range(20):
        wait_s = bucket.wait_s(10**6)
        assert 0 < wait_s <= max(1.0, rate * BURST_S) / rate
        now += wait_s + 1e-9
        assert bucket.take(10**6, now) >= 1


def test_without_a_limit_everything_goes_at_once() -> None:
    """A rate of 0 lifts the limit."""
    bucket = TokenBucket(0.0, 0.0, BURST_S)
    assert [10**9, 5] == [bucket.take(10**9, 0.0), bucket.take(5, 0.0)]
    assert bucket.wait_s(10) == 0.0


def test_a_clock_that_stands_or_goes_back_gives_nothing_for_free() -> None:
    """Time that does not pass earns no requests."""
    bucket = TokenBucket(100.0, 50.0, BURST_S)
    assert [2, 0, 0] == [bucket.take(9, 50.0), bucket.take(9, 50.0), bucket.take(9, 10.0)]


def test_the_wait_is_for_what_lacks_and_no_longer() -> None:
    """Half a request is missing: half its time."""
    bucket = TokenBucket(1_000.0, 0.0, BURST_S)
    assert 20 == bucket.take(20, 0.0)
    assert 0 == bucket.take(0, 0.0195)
    assert pytest.approx(0.0005) == bucket.wait_s(20)


def test_another_rate_holds_from_the_last_request_on() -> None:
    """What a faster rate saved up is kept as far as the slower one would have saved."""
    bucket = TokenBucket(1_000.0, 0.0, BURST_S)
    bucket.take(5, 0.0)
    bucket.set_rate(100.0)
    assert [2, 0, 1] == [bucket.take(9, 0.0), bucket.take(9, 0.009), bucket.take(9, 0.011)]
    assert pytest.approx(0.009) == bucket.wait_s(1)
    bucket.set_rate(1_000.0)
    assert [20, 2] == [bucket.take(99, 1.0), bucket.take(99, 1.0025)]


def test_what_is_given_back_may_be_taken_again() -> None:
    """All of it, and no more than one burst."""
    bucket = TokenBucket(1_000.0, 0.0, BURST_S)
    assert 20 == bucket.take(20, 0.0)
    bucket.give_back(7)
    assert 7 == bucket.take(20, 0.0)
    bucket.give_back(100)
    assert 20 == bucket.take(100, 0.0)


class StoppedClock:
    """Time passes only by sleeping."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.slept_s = 0.0

    def read(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now_s += seconds
        self.slept_s += seconds


def paced(per_second: float) -> tuple[Pace, StoppedClock]:
    clock = StoppedClock()
    return Pace(per_second, WAITING_BURST_S, clock.read, clock.sleep), clock


def test_long_run_rate_is_the_limit() -> None:
    """Many batches take as long as their permits cost, but for the burst at the start and the debt
    of the last batch.
    """
    pace, clock = paced(1_000)
    for _ in range(100):
        pace.take(200)
    assert 19.6 <= clock.slept_s <= 20.0


def test_a_demand_larger_than_the_bucket_is_granted_and_paid_back() -> None:
    """A batch of a thousand at a hundred a second goes out at once; the next one waits for what is
    still owed.
    """
    pace, clock = paced(100)
    pace.take(1_000)
    assert clock.slept_s == 0
    pace.take(1)
    assert abs(clock.slept_s - 9.9) < 1e-6


def test_one_request_a_second_and_fewer_are_limits_too() -> None:
    """What is owed is paid back at the rate, however low."""
    for per_second in (1, 0.5):
        pace, clock = paced(per_second)
        pace.take(2)
        pace.take(1)
        assert clock.slept_s == pytest.approx(1 / per_second)


def test_a_pause_earns_no_more_than_the_burst() -> None:
    """After an hour of silence the allowance is a tenth of a second's, not an hour's."""
    pace, clock = paced(100)
    clock.now_s += 3_600
    pace.take(10)
    pace.take(100)
    pace.take(1)
    assert abs(clock.slept_s - 1.0) < 1e-6


def test_zero_lifts_the_limit() -> None:
    """Without a limit nothing ever waits."""
    pace, clock = paced(0)
    for _ in range(100):
        pace.take(1_000_000)
    assert clock.slept_s == 0

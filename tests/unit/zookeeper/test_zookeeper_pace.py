from auditor.zookeeper.pace import Pace


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
    return Pace(per_second, clock.read, clock.sleep), clock


def test_long_run_rate_is_the_limit() -> None:
    """Many batches take as long as their permits cost, but for the burst at the start and the debt of the last batch."""
    pace, clock = paced(1_000)
    for _ in range(100):
        pace.take(200)
    assert 19.6 <= clock.slept_s <= 20.0


def test_a_demand_larger_than_the_bucket_is_granted_and_paid_back() -> None:
    """A batch of a thousand at a hundred a second goes out at once; the next one waits for what is still owed."""
    pace, clock = paced(100)
    pace.take(1_000)
    assert clock.slept_s == 0
    pace.take(1)
    assert abs(clock.slept_s - 9.9) < 1e-6


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

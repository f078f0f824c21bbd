"""A run works only in the hours that the operator allows."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from auditor.config.units import DailyWindow
from auditor.run import open_hours
from auditor.run.open_hours import NAP_S, OpenHours
from auditor.stop import StopRequest
from auditor.telemetry import log
from auditor.telemetry.progress import Silent

NIGHT = DailyWindow(time(1), time(5))


class Stages(Silent):
    """Progress that records the names of the stages that began."""

    def __init__(self) -> None:
        self.begun: list[str] = []

    def stage(self, name: str, total: int | None = None) -> None:
        self.begun.append(name)


class SleepingClock(StopRequest):
    """A clock that advances only while somebody waits for a signal."""

    def __init__(self, now: datetime) -> None:
        super().__init__()
        self.at, self.naps = now, []

    naps: list[float]

    def wait(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.at += timedelta(seconds=seconds)

    def now(self) -> datetime:
        return self.at


def hours(window: DailyWindow | None, clock: SleepingClock) -> tuple[OpenHours, Stages]:
    stages = Stages()
    logger = log.structlog.get_logger()
    return OpenHours(window, clock, stages, logger, clock.now), stages


@pytest.mark.parametrize("window", [None, NIGHT])
def test_within_the_window_or_without_one_a_run_goes_on(window: DailyWindow | None) -> None:
    """It does not pause, begins no stage and logs nothing."""
    clock = SleepingClock(datetime(2026, 11, 24, 1, tzinfo=UTC))
    one, stages = hours(window, clock)
    with capture_logs() as said:
        one.await_open("load")
    assert ([], [], []) == (clock.naps, stages.begun, said)


def test_outside_the_window_a_run_sleeps_until_it_opens() -> None:
    """It sleeps in naps, to notice when the clock is set. It logs the pause and its end, and names
    its stage again.
    """
    clock = SleepingClock(datetime(2026, 11, 24, 0, 57, 30, tzinfo=UTC))
    one, stages = hours(NIGHT, clock)
    with capture_logs() as said:
        one.await_open("second look")
    assert [NAP_S, NAP_S, 30.0] == clock.naps
    assert ["pause", "second look"] == stages.begun
    window: dict[str, Any] = {"window": "01:00-05:00 UTC", "log_level": "info"}
    assert [
        {"event": "run_pauses", "opens_in_s": 150, **window},
        {"event": "run_goes_on", **window},
    ] == said


@pytest.mark.parametrize(
    ("window", "hour", "opens_in"), [(None, 12, 0), (NIGHT, 2, 0), (NIGHT, 12, 13)]
)
def test_it_is_known_when_the_window_opens(
    window: DailyWindow | None, hour: int, opens_in: int
) -> None:
    """A run that could not be resumed then is refused before it waits."""
    at = datetime(2026, 11, 24, hour, tzinfo=UTC)
    one, _ = hours(window, SleepingClock(at))
    assert at + timedelta(hours=opens_in) == one.next_open()


def test_the_clock_of_a_run_is_that_of_the_machine() -> None:
    """The clock is in UTC. The window has a zone of its own."""
    one = OpenHours(None, StopRequest(), Silent(), log.structlog.get_logger())
    assert one.now is open_hours.utc_now


@pytest.mark.parametrize(
    ("window", "hour", "is_open"), [(None, 12, True), (NIGHT, 2, True), (NIGHT, 12, False)]
)
def test_whether_it_is_open_is_said_without_waiting(
    window: DailyWindow | None, hour: int, is_open: bool
) -> None:
    clock = SleepingClock(datetime(2026, 11, 24, hour, tzinfo=UTC))
    one, stages = hours(window, clock)
    assert is_open == one.is_open()
    assert [] == clock.naps == stages.begun

"""The hours in which a run may work, by the clocks of a place."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from auditor.config.units import DailyWindow, parse_window

NIGHT = DailyWindow(time(1), time(5))
OVER_MIDNIGHT = DailyWindow(time(22), time(4))
BERLIN = DailyWindow(time(1), time(5), "Europe/Berlin")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize(
    ("window", "now", "hours"),
    [
        (NIGHT, "2026-11-24T01:00+00:00", 0),
        (NIGHT, "2026-11-24T04:59:59+00:00", 0),
        (NIGHT, "2026-11-24T05:00+00:00", 20),
        (NIGHT, "2026-11-24T00:30+00:00", 0.5),
        (OVER_MIDNIGHT, "2026-11-24T23:00+00:00", 0),
        (OVER_MIDNIGHT, "2026-11-24T03:59+00:00", 0),
        (OVER_MIDNIGHT, "2026-11-24T04:00+00:00", 18),
        (OVER_MIDNIGHT, "2026-11-24T21:00+00:00", 1),
        (BERLIN, "2026-11-24T00:30+00:00", 0),
        (BERLIN, "2026-11-24T04:00+00:00", 20),
        (BERLIN, "2026-07-24T23:00+00:00", 0),
        (BERLIN, "2026-11-24T19:00-05:00", 0),
    ],
)
def test_a_window_is_open_from_its_first_minute_up_to_its_last(
    window: DailyWindow, now: str, hours: float
) -> None:
    """By the clocks of its zone, whatever the zone of the time."""
    assert hours * 3_600 == window.seconds_until_open(at(now))


@pytest.mark.parametrize(
    ("now", "hours"), [("2026-03-29T05:00+02:00", 20), ("2026-03-28T05:00+01:00", 20)]
)
def test_a_window_moves_with_the_clocks(now: str, hours: float) -> None:
    """In the night to 2026-03-29 Berlin's clocks go from 02:00 to 03:00."""
    assert hours * 3_600 == BERLIN.seconds_until_open(at(now))
    after = DailyWindow(time(4), time(5), "Europe/Berlin")
    assert 3_600 * 22 == after.seconds_until_open(at("2026-03-28T05:00+01:00"))


@pytest.mark.parametrize("window", [NIGHT, OVER_MIDNIGHT, BERLIN])
def test_after_the_wait_the_window_is_open_and_before_it_is_not(window: DailyWindow) -> None:
    """For each ten minutes of a year."""
    now, end = at("2026-01-01T00:07+00:00"), at("2027-01-01T00:00+00:00")
    zone = ZoneInfo(window.zone)
    while now < end:
        seconds = window.seconds_until_open(now)
        assert 0 <= seconds <= 25 * 3_600, now
        clock = (now + timedelta(seconds=seconds)).astimezone(zone).time()
        is_open = window.opens <= clock < window.closes
        if window.closes < window.opens:
            is_open = clock >= window.opens or clock < window.closes
        assert is_open, now
        if seconds:
            assert window.seconds_until_open(now + timedelta(seconds=seconds - 1)) == 1, now
        now += timedelta(minutes=10)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("01:00-05:00", "01:00-05:00 UTC"),
        (" 22:30-04:05  America/New_York ", "22:30-04:05 America/New_York"),
    ],
)
def test_a_window_is_shown_as_it_is_written(text: str, shown: str) -> None:
    """With its zone, so that nobody takes it for another place's hours."""
    window = parse_window(text)
    assert shown == str(window)
    assert window == parse_window(shown)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1:00-5:00", "is not a window: write 01:00-05:00 or 22:00-04:00 Europe/Berlin"),
        ("24:00-05:00", "is not a window"),
        ("01:60-05:00", "is not a window"),
        ("01:00-05:00 Europe/Berlin now", "is not a window"),
        ("05:00-05:00", "closes when it opens: leave it out to work at all hours"),
        ("01:00-05:00 Europe/Atlantis", "Europe/Atlantis, which the tz database of this machine"),
        ("01:00-05:00 ../etc/passwd", "../etc/passwd, which cannot be read"),
        ("01:00-05:00 Europe", "the time zone Europe, which cannot be read"),
    ],
)
def test_what_is_no_window_is_refused_with_what_to_write(text: str, why: str) -> None:
    """Half a sentence that goes on behind the setting's name."""
    with pytest.raises(ValueError, match=why):
        parse_window(text)

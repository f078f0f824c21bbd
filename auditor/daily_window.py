"""The hours of the day in which a run may work (`--window`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

_CLOCK = r"((?:[01][0-9]|2[0-3]):[0-5][0-9])"
_FORM = re.compile(rf"{_CLOCK}-{_CLOCK}(?: +(\S+))?")
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class DailyWindow:
    """A daily window from `opens` to `closes`, by the clocks of `zone` (tz database).

    It spans midnight if it closes earlier than it opens.
    """

    opens: time
    closes: time
    zone: str = "UTC"

    def __str__(self) -> str:
        return f"{self.opens:%H:%M}-{self.closes:%H:%M} {self.zone}"

    def seconds_until_open(self, now: datetime) -> float:
        """Return the seconds until the window is open, 0 if it is. `now` has a time zone.

        The window moves with clocks that are put forward or back.
        """
        here = ZoneInfo(self.zone)
        today = now.astimezone(here).date()
        openings = []
        for day in (today - DAY, today, today + DAY):
            opening = datetime.combine(day, self.opens, here).astimezone(UTC)
            last_day = day if self.opens < self.closes else day + DAY
            if opening <= now < datetime.combine(last_day, self.closes, here).astimezone(UTC):
                return 0.0
            openings.append((opening - now).total_seconds())
        return min(opening for opening in openings if opening > 0)


def parse_window(text: str) -> DailyWindow:
    """Parse `01:00-05:00 Europe/Berlin`; without a zone it is UTC.

    Raises ValueError with half a sentence.
    """
    form = _FORM.fullmatch(text.strip())
    if form is None:
        raise ValueError("is not a window: write 01:00-05:00 or 22:00-04:00 Europe/Berlin")
    opens, closes = time.fromisoformat(form[1]), time.fromisoformat(form[2])
    zone = form[3] or "UTC"
    if opens == closes:
        raise ValueError("closes when it opens: leave it out to work at all hours")
    try:
        ZoneInfo(zone)
    except (OSError, ValueError) as error:  # ZoneInfoNotFoundError is a KeyError
        raise ValueError(f"names the time zone {zone}, which cannot be read: {error}") from None
    except KeyError:
        raise ValueError(
            f"names the time zone {zone}, which the tz database of this machine does not have"
        ) from None
    return DailyWindow(opens, closes, zone)

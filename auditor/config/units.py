"""Parse and show the values of settings: durations, sizes, rates, counts, shares, switches, lists.

Every parser accepts what a flag or an environment variable (text) or TOML (text, int, float, bool,
array) may hold. It raises `ValueError` with half a sentence ("is not a duration: write 500ms, ...")
that the caller completes with the key. `DailyWindow` has the hours of the day in which a run may
work (`--window`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from fractions import Fraction
from typing import Generic, TypeVar
from urllib.parse import urlsplit
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


Value = str | int | float | bool | tuple[str, ...] | None
"""A parsed setting: frozen, hashable, picklable."""

TEXT_CHARS_MAX = 4096
"""At most this many characters are accepted in one text setting."""

LIST_ITEMS_MAX = 256
"""At most this many items are accepted in one list."""

_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_BYTES = {
    "": 1,
    "B": 1,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
}
_NUMBER = r"([0-9]{1,15}(?:\.[0-9]{1,6})?)"
_DURATION = re.compile(_NUMBER + r"\s*(ms|s|m|h|d)")
_SIZE = re.compile(_NUMBER + r"\s*([A-Za-z]*)")
_RATE = re.compile(_NUMBER)
_COUNT = re.compile(r"[0-9]{1,15}")
_SWITCH = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


T = TypeVar("T")


@dataclass(frozen=True)
class Unit(Generic[T]):
    """One notation for values. `show(parse(x))` is x in its shortest form, without credentials.

    `metavar` stands for a value in help texts.
    """

    metavar: str
    parse: Callable[[object], T]
    show: Callable[[T], str]


def _text_of(raw: object, what: str) -> str:
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        raise ValueError(f"is not {what}")
    return raw.strip() if isinstance(raw, str) else str(raw)


def parse_duration(raw: object) -> int:
    """Return the milliseconds of "500ms", "30s", "5m", "72h", "7d" or "0".

    Refuses any other number without unit.
    """
    text = _text_of(raw, "a duration: write 500ms, 30s, 5m or 72h")
    if text == "0":
        return 0
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("is not a duration: write 500ms, 30s, 5m or 72h (a number and its unit)")
    exact = Fraction(match[1]) * _MS[match[2]]
    if exact.denominator != 1:
        raise ValueError("is not a whole number of milliseconds")
    return int(exact)


def parse_size(raw: object) -> int:
    """Return the bytes of "64MiB", "1.5GiB", "200MB" or a plain number of bytes."""
    text = _text_of(raw, "a size: write 64MiB, or a number of bytes")
    match = _SIZE.fullmatch(text)
    if match is None or match[2] not in _BYTES:
        raise ValueError(
            "is not a size: write 64MiB, or a number of bytes (units:"
            f" {', '.join(u for u in _BYTES if u)})"
        )
    exact = Fraction(match[1]) * _BYTES[match[2]]
    if exact.denominator != 1:
        raise ValueError("is not a whole number of bytes")
    return int(exact)


def parse_rate(raw: object) -> float:
    """Return a rate a second; 0 is no limit."""
    text = _text_of(raw, "a number a second (0: no limit)")
    if _RATE.fullmatch(text) is None:
        raise ValueError("is not a number a second: write 2000, or 0 for no limit")
    return float(text)


def parse_count(raw: object) -> int:
    """Return a whole number that is not negative."""
    text = _text_of(raw, "a whole number")
    if isinstance(raw, float) or _COUNT.fullmatch(text) is None:
        raise ValueError("is not a whole number of 0 or more")
    return int(text)


def parse_umask(raw: object) -> int:
    """Return permission bits written in octal, as umask takes them: "027"."""
    if not isinstance(raw, str) or re.fullmatch(r"0?[0-7]{3}", raw.strip()) is None:
        raise ValueError(
            "is not a mask of permissions: write three octal digits in quotes, such as 027"
        )
    return int(raw.strip(), 8)


def parse_percent(raw: object) -> int:
    """Return a whole number of percent: 50 or "50%"."""
    text = _text_of(raw, "a number of percent").removesuffix("%").rstrip()
    if isinstance(raw, float) or _COUNT.fullmatch(text) is None:
        raise ValueError("is not a whole number of percent: write 50%")
    return int(text)


def parse_switch(raw: object) -> bool:
    """Return a bool: from TOML a bool, or text: true, false, yes, no, on, off, 1, 0."""
    if isinstance(raw, bool):
        return raw
    if not isinstance(raw, str) or raw.strip().lower() not in _SWITCH:
        raise ValueError("is neither true nor false")
    return _SWITCH[raw.strip().lower()]


def parse_text(raw: object) -> str:
    """Return one line of printable text that is not empty."""
    if not isinstance(raw, str):
        raise ValueError("is not text: put it in quotes")
    text = raw.strip()
    if not text:
        raise ValueError("is empty: leave it out instead")
    if len(text) > TEXT_CHARS_MAX:
        raise ValueError(f"is longer than {TEXT_CHARS_MAX} characters")
    if not text.isprintable():
        raise ValueError("holds characters that cannot be printed")
    return text


def parse_list(raw: object) -> tuple[str, ...]:
    """Return the items of a text with commas or of a TOML array of text, each once, in order.

    Refuses empty items.
    """
    written = raw if isinstance(raw, list) else parse_text(raw).split(",")
    if len(written) > LIST_ITEMS_MAX:
        raise ValueError(f"has more than {LIST_ITEMS_MAX} items")
    if (
        not all(isinstance(item, str) and item.strip() and "," not in item for item in written)
        or not written
    ):
        raise ValueError("has an item that is empty or not text: write a,b,c")
    return tuple(dict.fromkeys(parse_text(item) for item in written))


def parse_http_url(raw: object) -> str:
    """Return an http or https URL with a host."""
    text = parse_text(raw)
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - raises ValueError if the port is not a number
    except ValueError:
        raise ValueError("is not a URL: write http://host:9091") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("is not a URL: write http://host:9091")
    return text


def parse_site_url(raw: object) -> str:
    """Return an http or https URL that may stand in a document: it has no user or password."""
    text = parse_http_url(raw)
    if has_credentials(text):
        raise ValueError("has a user or a password, which would be in every page that links to it")
    return text


def has_credentials(text: str) -> bool:
    """Return whether a URL in `text` has a user or password before its host."""
    return re.search(r"//[^/?#]*@", text) is not None


def without_credentials(text: str) -> str:
    """Return `text` with *** for what is between // and @ in each URL."""
    return re.sub(r"//[^/?#\s]*@", "//***@", text)


def one_of(*words: str, refused: dict[str, str] | None = None) -> Unit[str]:
    """Return a unit that accepts fixed words only.

    `refused` maps words that a user may expect to the reason why they are not accepted.
    """

    def parse(raw: object) -> str:
        if isinstance(raw, str) and raw.strip() in words:
            return raw.strip()
        if refused and isinstance(raw, str) and raw.strip() in refused:
            raise ValueError(refused[raw.strip()])
        raise ValueError(
            f"is not one of {', '.join(words)}" if len(words) > 1 else f"can only be {words[0]}"
        )

    return Unit("|".join(words), parse, str)


def show_percent(value: int) -> str:
    return f"{value}%"


def show_umask(value: int) -> str:
    return f"{value:03o}"


def parse_daily_window(raw: object) -> str:
    """Parse hours of the day, `01:00-05:00 Europe/Berlin`."""
    return str(parse_window(str(parse_text(raw))))


def show_list(value: tuple[str, ...]) -> str:
    return ",".join(value)


def show_rate(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")


def show_switch(value: bool) -> str:
    return "true" if value else "false"


def _largest(value: int, units: dict[str, int]) -> str:
    if value == 0:
        return "0"
    unit = max((u for u in units if value % units[u] == 0), key=lambda u: units[u])
    return f"{value // units[unit]}{unit}"


def show_duration(value: int) -> str:
    """Show milliseconds in the largest unit, up to hours, that keeps them whole: "72h"."""
    return _largest(value, {u: ms for u, ms in _MS.items() if u != "d"})


def show_size(value: int) -> str:
    """Show bytes in the largest binary unit that keeps them whole: 67108864 is "64MiB"."""
    return _largest(value, {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30})


DURATION = Unit("DURATION", parse_duration, show_duration)
SIZE = Unit("SIZE", parse_size, show_size)
RATE = Unit("RATE", parse_rate, show_rate)
PERCENT = Unit("PERCENT", parse_percent, show_percent)
LIST = Unit("LIST", parse_list, show_list)
UMASK = Unit("MASK", parse_umask, show_umask)
COUNT = Unit("N", parse_count, str)
SWITCH = Unit("", parse_switch, show_switch)
ON_OFF = Unit("on|off", parse_switch, lambda value: "on" if value else "off")
"""A switch whose flag takes a value, as an operator copies it from a configuration."""
WINDOW = Unit("WINDOW", parse_daily_window, str)
TEXT = Unit("TEXT", parse_text, str)
FILE = Unit("FILE", parse_text, str)
DIRECTORY = Unit("DIR", parse_text, str)
URI = Unit("URI", parse_text, without_credentials)
HTTP_URL = Unit("URL", parse_http_url, without_credentials)
SITE_URL = Unit("URL", parse_site_url, without_credentials)

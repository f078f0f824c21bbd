"""Format times, durations, names and entry ranges for a witness.

Also the types of the functions that render a finding, its facts and all looks as sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from auditor.model.evidence import Look
from auditor.model.finding import Finding, Ranges

TellLedger: TypeAlias = Callable[[Finding, Any, Sequence[Look]], str]
TellOther: TypeAlias = Callable[[Finding, Any], str]
"""For findings on a bookie or on the cluster. The second argument is the facts dataclass of the
kind."""


RUNS_SHOWN = 5
"""A sentence shows at most this many entry ranges. The finding itself has more."""
NAMES_SHOWN = 8
"""A sentence names at most this many bookies or ledgers. The finding's facts have all."""


def moment(at_ms: int) -> str:
    """Return milliseconds since 1970 as RFC 3339 in UTC.

    A time outside the calendar is returned in milliseconds: "123 ms".
    """
    try:
        return (
            datetime.fromtimestamp(at_ms / 1000, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z")
        )
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"


def clock(at_ms: int) -> str:
    """Return the date and time of day in UTC, to the second: "2026-11-22 10:05:02"."""
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"


def clocks(times_ms: Sequence[int]) -> str:
    """Return times as a list in a sentence, each date once: "2026-11-22 10:05:02 and 10:05:19"."""
    texts, date = [], ""
    for time in map(clock, times_ms):
        texts.append(time.removeprefix(date))
        date = time.partition(" ")[0] + " "
    return join_names(texts)


def span(ms: int, *, tenths: bool = False) -> str:
    """Return a duration in at most two units: "23 s", "1 h 5 min", "10 days".

    With `tenths`, durations below ten seconds have tenths of a second unless they are whole: "0.4
    s".
    """
    left = ms // 1000
    if tenths and left < 10:
        return f"{ms // 100 / 10:g} s"
    for number, unit, smaller, small_unit in (
        (86_400, "day", 3_600, "h"),
        (3_600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if left >= number:
            whole, rest = divmod(left, number)
            plural = "s" if unit == "day" and whole > 1 else ""
            return f"{whole} {unit}{plural}" + (
                f" {rest // smaller} {small_unit}" if rest >= smaller else ""
            )
    return f"{left} s"


def runs(ranges: Ranges, total: int) -> str:
    """Return the first few ranges as text, and count the remaining entries."""
    shown = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges[:RUNS_SHOWN])
    counted = sum(b - a + 1 for a, b in ranges[:RUNS_SHOWN])
    return shown if counted == total else f"{shown} and {total - counted} more"


def name_some(names: Sequence[object], total: int | None = None) -> str:
    """Return the first few names as text, and count the rest.

    The rest are names beyond NAMES_SHOWN, and those of `total` that are not in `names`.
    """
    some = [str(name) for name in names[:NAMES_SHOWN]]
    more = (len(names) if total is None else total) - len(some)
    return ", ".join(some) + (f" and {more} more" if more > 0 else "")


def join_names(names: Sequence[object]) -> str:
    """Return names as text with "and" before the last: "b1", "b1 and b2", "b1, b2 and b3".

    More than NAMES_SHOWN names are written as by `name_some`.
    """
    if not 1 < len(names) <= NAMES_SHOWN:
        return name_some(names)
    return f"{name_some(names[:-1])} and {names[-1]}"


def percent(share: float) -> str:
    """Return a share in per cent, rounded down.

    Only a whole is "100 %", and only zero is "0 %": a tiny share is "below 0.01 %".
    """
    hundredths = int(share * 10_000 + 1e-6)
    if share == 0 or hundredths >= 100:
        return f"{hundredths // 100} %"
    return f"{hundredths / 100:g} %" if hundredths else "below 0.01 %"

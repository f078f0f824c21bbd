"""Times, spans and entry ranges as a witness says them."""

from __future__ import annotations

from datetime import UTC, datetime

from auditor.model.finding import Ranges


def moment(at_ms: int) -> str:
    """Milliseconds since 1970 as RFC 3339 in UTC; a time no calendar has is told as it is."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"


def span(seconds: str) -> str:
    """Seconds as a person says them, the two largest units at most: "23 s", "1 h 5 min", "10 days"."""
    left = int(seconds)
    for number, unit, smaller, small_unit in ((86_400, "day", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if left >= number:
            whole, rest = divmod(left, number)
            plural = "s" if unit == "day" and whole > 1 else ""
            return f"{whole} {unit}{plural}" + (f" {rest // smaller} {small_unit}" if rest >= smaller else "")
    return f"{left} s"


def runs(ranges: Ranges, total: int) -> str:
    """A few ranges in words; the rest is counted."""
    shown = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges[:RUNS_TOLD])
    counted = sum(b - a + 1 for a, b in ranges[:RUNS_TOLD])
    return shown if counted == total else f"{shown} and {total - counted} more"


def named(names: str, total: int) -> str:
    """Names, separated by spaces, as a list in a sentence; those not given are counted."""
    some = names.split()
    return ", ".join(some) + (f" and {total - len(some)} more" if total > len(some) else "")


RUNS_TOLD = 5
"""Entry ranges told in a sentence; the finding itself carries more."""

"""The wall clock. All packages but `auditor.sandbox` get the time from this module."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now_ms() -> int:
    """Return the milliseconds since 1970 by this machine's clock."""
    return time.time_ns() // 1_000_000


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """Return a moment in RFC 3339, in UTC, with milliseconds and a Z."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

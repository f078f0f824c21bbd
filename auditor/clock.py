"""The wall clock: the only place that looks at it, so that everything below is told."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now_ms() -> int:
    """Milliseconds since 1970, by this machine's clock."""
    return time.time_ns() // 1_000_000


def utc_now() -> datetime:
    """This moment."""
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """A moment as the contract writes it: UTC, milliseconds."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

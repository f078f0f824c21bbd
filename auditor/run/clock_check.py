"""Compare this host's clock with the times that ZooKeeper wrote.

No znode was written in the future. If this host's clock is behind a znode's time, ages are unknown:
they are at least what that znode proves, and may be more. A fast clock cannot be noticed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from auditor.clock import rfc3339
from auditor.errors import LocalFault
from auditor.model.evidence import Terms
from auditor.model.ledger import LedgerRecord
from auditor.witness.phrases import span
from auditor.zookeeper.cluster import NewestWrite

CLOCK_SKEW_MAX_MS = 5 * 60_000
"""A difference of clocks up to this is not reported, in ms: what Kerberos allows too."""
CLOCK_LAG_MAX_MS = 366 * 86_400_000
"""If this host's clock is further behind, in ms, nothing is audited: each time would be wrong by
more than a year, and so would the name of the run, by which the newest run is found."""


def clock_lag_ms(newest: NewestWrite | None, now_ms: int) -> int:
    """Return by how much this host's clock is behind that write; 0 within CLOCK_SKEW_MAX_MS.

    Raises LocalFault above CLOCK_LAG_MAX_MS.
    """
    lag = 0 if newest is None else newest.at_ms - now_ms
    if newest is None or lag <= CLOCK_SKEW_MAX_MS:
        return 0
    if lag > CLOCK_LAG_MAX_MS:
        raise LocalFault(_sentence(f"znode {newest.path}", newest.at_ms, now_ms))
    return lag


def clock_sentences(terms: Terms) -> list[str]:
    """Return what a late clock leaves unknown in a run."""
    if not terms.clock_lag_ms:
        return []
    return [
        f"the clock of this host lies at least {span(terms.clock_lag_ms)} behind ZooKeeper's: each"
        " age is the least that is proven, marks that are not beyond the grace by it may be, and"
        " ledgers that are not stuck or orphaned by it may be. The directory and the times of this"
        " run are those of this clock. Set it, or that of ZooKeeper if it is ahead"
    ]


def require_clock(newest_ms: int, now_ms: int, known_lag_ms: int) -> None:
    """Raise LocalFault if this host's clock is further behind than was known when the audit began.

    The audit judged by that clock. `newest_ms` is when a ledger's znode or mark was last written.
    """
    if newest_ms - now_ms > known_lag_ms + CLOCK_SKEW_MAX_MS:
        raise LocalFault(_sentence("a ledger's znode or mark", newest_ms, now_ms))


def require_clock_of_records(
    records: Iterable[LedgerRecord], now_ms: int, known_lag_ms: int
) -> None:
    """Raise LocalFault like `require_clock`, by the newest write among a few ledgers."""
    newest = 0
    for record in records:
        if record.stamp is not None:
            newest = max(newest, record.stamp.ctime_ms, record.stamp.mtime_ms)
        if record.mark is not None:
            newest = max(newest, record.mark.created_ms)
    require_clock(newest, now_ms, known_lag_ms)


def _sentence(what: str, at_ms: int, now_ms: int) -> str:
    return (
        f"the clock of this host says {_moment(now_ms)}, and ZooKeeper wrote {what} at"
        f" {_moment(at_ms)}: no age is known, and a run's directory is named by that clock. Set the"
        " clock, or that of ZooKeeper if it is ahead, and run again"
    )


def _moment(at_ms: int) -> str:
    try:
        return rfc3339(datetime.fromtimestamp(at_ms / 1000, UTC))
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms after 1970"

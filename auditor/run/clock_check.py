"""Compare this host's clock with the times that ZooKeeper wrote.

No znode is younger than now. A clock that lies behind one leaves ages unknown: they are at least
what that znode proves, and may be more. A clock ahead shows in nothing that is read.
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
"""How far two clocks may differ without a word, in ms: what Kerberos allows too."""
CLOCK_LAG_MAX_MS = 366 * 86_400_000
"""Lag above which nothing is audited, in ms: the name of a run, by which the newest is found, and
each time in it would be wrong by more than a year."""


def clock_lag_ms(newest: NewestWrite | None, now_ms: int) -> int:
    """Return by how much this host's clock lies behind that write; 0 within CLOCK_SKEW_MAX_MS.

    Raises LocalFault above CLOCK_LAG_MAX_MS.
    """
    lag = 0 if newest is None else newest.at_ms - now_ms
    if newest is None or lag <= CLOCK_SKEW_MAX_MS:
        return 0
    if lag > CLOCK_LAG_MAX_MS:
        raise LocalFault(_sentence(f"znode {newest.path}", newest.at_ms, now_ms))
    return lag


def clock_sentences(terms: Terms) -> list[str]:
    """Return what a clock that lies behind leaves unknown in a run."""
    if not terms.clock_lag_ms:
        return []
    return [
        f"the clock of this host lies at least {span(terms.clock_lag_ms)} behind ZooKeeper's: each"
        " age is the least that is proven, marks that are not beyond the grace by it may be, and"
        " ledgers that are not stuck or orphaned by it may be. The directory and the times of this"
        " run are those of this clock. Set it, or that of ZooKeeper if it is ahead"
    ]


def require_clock(newest_ms: int, now_ms: int, known_lag_ms: int) -> None:
    """Raise LocalFault if a ledger's znode or mark, written at `newest_ms`, shows that this host's
    clock lies further behind than was known when the audit began: it judged by that clock.
    """
    if newest_ms - now_ms > known_lag_ms + CLOCK_SKEW_MAX_MS:
        raise LocalFault(_sentence("a ledger's znode or mark", newest_ms, now_ms))


def require_clock_of_records(
    records: Iterable[LedgerRecord], now_ms: int, known_lag_ms: int
) -> None:
    """Raise LocalFault as `require_clock` does, by what was read of a few ledgers."""
    newest = 0
    for one in records:
        if one.stamp is not None:
            newest = max(newest, one.stamp.ctime_ms, one.stamp.mtime_ms)
        if one.mark is not None:
            newest = max(newest, one.mark.created_ms)
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

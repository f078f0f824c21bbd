"""Derive exemptions, stuck ledgers and old marks from metadata, for the second checker."""

from __future__ import annotations

from auditor.model.evidence import Terms
from auditor.model.ledger import LedgerRecord, LedgerState
from auditor.model.verdict import Exempt


def is_beyond_grace(record: LedgerRecord, terms: Terms) -> bool:
    """Return whether the older of the mark's two times is beyond the grace period.

    False if the ledger has no mark.
    """
    mark = record.mark
    if mark is None:
        return False
    since = {mark.created_ms, mark.created_ms if mark.changed_ms is None else mark.changed_ms}
    ages = (terms.judged_at_ms - time for time in since)
    return max(ages) > terms.underreplication_grace_ms


def is_age_open(record: LedgerRecord, terms: Terms) -> bool:
    """Return whether a late clock hides the mark's age: it may be beyond grace though it looks
    younger.
    """
    is_late = terms.clock_lag_ms > 0
    return is_late and record.mark is not None and not is_beyond_grace(record, terms)


def exemption(record: LedgerRecord) -> Exempt | None:
    """Return the first exemption of an existing ledger (docs/names.md, "Reasons to exempt")."""
    metadata = record.metadata
    holds = {  # EMPTY is decided by what bookies say: see `beyond_end.find_unheard`
        Exempt.MARKED_UNDERREPLICATED: record.mark is not None,
        Exempt.IN_RECOVERY: metadata is not None and metadata.state is LedgerState.IN_RECOVERY,
        Exempt.OPEN: metadata is not None and metadata.state is LedgerState.OPEN,
    }
    return next((reason for reason in Exempt if holds.get(reason)), None)


def is_stuck(record: LedgerRecord, terms: Terms) -> bool:
    """Return whether a ledger has been open or in recovery for longer than `stuck_after_ms`.

    A ledger is open since its creation, and in recovery since its znode was last written.
    """
    metadata, stamp = record.metadata, record.stamp
    if metadata is None or stamp is None or terms.stuck_after_ms == 0:
        return False
    if metadata.state is LedgerState.IN_RECOVERY:
        since = stamp.mtime_ms
    elif metadata.state is LedgerState.OPEN:
        since = (
            stamp.ctime_ms if metadata.ctime_ms is None else min(stamp.ctime_ms, metadata.ctime_ms)
        )
    else:
        return False
    return since != 0 and terms.judged_at_ms - since > terms.stuck_after_ms

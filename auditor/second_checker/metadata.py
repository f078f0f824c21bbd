"""What the second checker derives from metadata and marks: exemptions, stuck ledgers, old marks."""

from __future__ import annotations

from auditor.model.evidence import Terms
from auditor.model.ledger import LedgerRecord, LedgerState
from auditor.model.verdict import Exempt


def is_beyond_grace(record: LedgerRecord, terms: Terms) -> bool:
    """Return whether the older of the mark's two times is beyond the grace period.

    A ledger without a mark is not beyond it.
    """
    mark = record.mark
    if mark is None:
        return False
    since = {mark.created_ms, mark.created_ms if mark.changed_ms is None else mark.changed_ms}
    ages = (terms.judged_at_ms - one for one in since)
    return max(ages) > terms.underreplication_grace_ms


def is_age_open(record: LedgerRecord, terms: Terms) -> bool:
    """Return whether nobody knows if the mark is beyond the grace period: it is not by a clock that
    is known to be late.
    """
    is_late = terms.clock_lag_ms > 0
    return is_late and record.mark is not None and not is_beyond_grace(record, terms)


def exemption(record: LedgerRecord) -> Exempt | None:
    """Return the first reason of the contract's list that applies to an existing ledger."""
    metadata = record.metadata
    holds = {  # whether the ledger is empty, its bookies show: `beyond_end.unheard_of_empty`
        Exempt.MARKED_UNDERREPLICATED: record.mark is not None,
        Exempt.IN_RECOVERY: metadata is not None and metadata.state is LedgerState.IN_RECOVERY,
        Exempt.OPEN: metadata is not None and metadata.state is LedgerState.OPEN,
    }
    return next((reason for reason in Exempt if holds.get(reason)), None)


def is_stuck(record: LedgerRecord, terms: Terms) -> bool:
    """Return whether a ledger has been open or in recovery for longer than the terms allow.

    Open counts from its creation, in recovery from the last write of its znode.
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

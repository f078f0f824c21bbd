"""How old an under-replication mark is, and whether that is acceptable (BP-34: progress in handling under-replication)."""

from __future__ import annotations

from auditor.model.ledger import Mark


def age_ms(mark: Mark, now_ms: int) -> int:
    """Now minus the older of the znode's creation time and the mark's own ctime, never below 0 (contract section 4).

    The mark's ctime restarts whenever a replica is added (ZkLedgerUnderreplicationManager), the znode's does not.
    """
    oldest = mark.created_ms if mark.changed_ms is None else min(mark.created_ms, mark.changed_ms)
    return max(0, now_ms - oldest)


def is_beyond_grace(mark: Mark, now_ms: int, grace_ms: int) -> bool:
    """Whether the mark is older than acceptable; exactly at the grace it still is acceptable."""
    return age_ms(mark, now_ms) > grace_ms

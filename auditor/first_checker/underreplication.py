"""Judge an under-replication mark: its age, whether that is acceptable, and why the mark remains.

This covers BP-34's check that under-replication is being handled.
"""

from __future__ import annotations

from collections.abc import Iterator

from auditor.first_checker.coverage import Coverage
from auditor.first_checker.shares import BookieShare
from auditor.first_checker.worst import levels
from auditor.model.cluster import Surroundings
from auditor.model.evidence import Terms
from auditor.model.facts import MarkFacts, WhyMarked
from auditor.model.ledger import LedgerMetadata, LedgerRecord, Mark
from auditor.model.verdict import Unknown


def age_ms(mark: Mark, now_ms: int) -> int:
    """Return the age of the mark in ms, never below 0.

    It counts from the older of the znode's creation time and the mark's own ctime. The mark's ctime
    restarts whenever a replica is added (ZkLedgerUnderreplicationManager), the znode's does not.
    """
    oldest = mark.created_ms if mark.changed_ms is None else min(mark.created_ms, mark.changed_ms)
    return max(0, now_ms - oldest)


def is_beyond_grace(mark: Mark, now_ms: int, grace_ms: int) -> bool:
    """Return whether the mark is older than the grace. A mark exactly as old is acceptable."""
    return age_ms(mark, now_ms) > grace_ms


def mark_facts(
    record: LedgerRecord,
    seen: Coverage | None,
    terms: Terms,
    *,
    has_loss: bool,
    is_empty: bool = False,
) -> MarkFacts:
    """Return what is known of a ledger's mark and of why it remains.

    `seen` is None if no bookie was asked, or none had to be. `is_empty`: the ledger is closed
    without entries, and bookies showed that nothing lies above its end.
    """
    mark, metadata = record.mark, record.metadata
    assert mark is not None, "only a marked ledger has these facts"
    lock = mark.lock
    return MarkFacts(
        age_ms=age_ms(mark, terms.judged_at_ms),
        grace_ms=terms.underreplication_grace_ms,
        created_ms=mark.created_ms,
        changed_ms=mark.changed_ms,
        missing_replicas=mark.missing_replicas,
        problem=mark.problem or "",
        lock_holder=None if lock is None else lock.holder,
        lock_since_ms=None if lock is None else lock.since_ms,
        state=None if metadata is None else metadata.state,
        why=tuple(_why(record, seen, terms.around, has_loss=has_loss, is_empty=is_empty)),
    )


def is_stale(metadata: LedgerMetadata, seen: Coverage) -> bool:
    """Return whether every promised copy was listed or read where the metadata says.

    Then there is nothing to replicate. False if no copy is promised, or the metadata does not say
    how many are.
    """
    copies = seen.copies
    if metadata.last_entry_id is None or not copies.expected:
        return False
    return copies.listed + copies.read == copies.expected


def _why(
    record: LedgerRecord,
    seen: Coverage | None,
    around: Surroundings,
    *,
    has_loss: bool,
    is_empty: bool,
) -> Iterator[WhyMarked]:
    metadata = record.metadata
    if has_loss:
        yield WhyMarked.NO_COPY
    elif metadata is not None and seen is not None and _has_no_copy_in_reach(metadata, seen):
        yield WhyMarked.NO_COPY_IN_REACH
    if around.replication_disabled:
        yield WhyMarked.REPLICATION_DISABLED
    if around.auditor is None:
        yield WhyMarked.NO_AUDITOR
    if seen is not None and not _has_spare(seen, around):
        yield WhyMarked.NO_SPARE_BOOKIE
    if record.mark is not None and record.mark.lock is not None:
        yield WhyMarked.LOCKED
    if is_empty:
        yield WhyMarked.EMPTY_LEDGER
    if metadata is not None and seen is not None and is_stale(metadata, seen):
        yield WhyMarked.STALE


def _has_no_copy_in_reach(metadata: LedgerMetadata, seen: Coverage) -> bool:
    """Return whether some entry has only bookies that are silent, not registered or without it."""
    for one in seen.extents:
        out_of_reach = (
            share.absent | share.unknown if _is_away(seen, share) else share.absent
            for share in one.shares
        )
        if len(levels([*one.surplus, *out_of_reach])) >= metadata.write_quorum:
            return True
    return False


def _is_away(seen: Coverage, share: BookieShare) -> bool:
    """Return whether the bookie was silent or not registered.

    Unknown entries of a bookie that answered in any way may be readable there.
    """
    answered = share.bookie_id in seen.held or share.bookie_id in seen.probed
    return not answered and seen.reasons.get(share.bookie_id) == (Unknown.BOOKIE_SILENT,)


def _has_spare(seen: Coverage, around: Surroundings) -> bool:
    """Return whether each ensemble that needs a copy has a writable bookie outside to take it."""
    ensembles = (
        one.extent.segment.ensemble
        for one in seen.extents
        if one.surplus or any(share.absent or share.unknown for share in one.shares)
    )
    return all(around.writable - set(ensemble) for ensemble in ensembles)

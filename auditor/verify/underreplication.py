"""How old an under-replication mark is, whether that is acceptable (BP-34: progress in handling under-replication), and why
the mark stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

from auditor.model.cluster import Surroundings
from auditor.model.evidence import Terms
from auditor.model.identity import BookieId
from auditor.model.ledger import LedgerMetadata, LedgerRecord, Mark
from auditor.verify.coverage import Coverage

Facts = tuple[tuple[str, str], ...]


class Stuck(StrEnum):
    """Why a mark may stand for long, as far as the evidence tells (contract section 4, hidden loss)."""

    NO_COPY = "no_copy"
    REPLICATION_DISABLED = "replication_disabled"
    NO_AUDITOR = "no_auditor"
    NO_SPARE_BOOKIE = "no_spare_bookie"
    LOCKED = "locked"
    EMPTY_LEDGER = "empty_ledger"
    STALE = "stale"


def age_ms(mark: Mark, now_ms: int) -> int:
    """Now minus the older of the znode's creation time and the mark's own ctime, never below 0 (contract section 4).

    The mark's ctime restarts whenever a replica is added (ZkLedgerUnderreplicationManager), the znode's does not.
    """
    oldest = mark.created_ms if mark.changed_ms is None else min(mark.created_ms, mark.changed_ms)
    return max(0, now_ms - oldest)


def is_beyond_grace(mark: Mark, now_ms: int, grace_ms: int) -> bool:
    """Whether the mark is older than acceptable; exactly at the grace it still is acceptable."""
    return age_ms(mark, now_ms) > grace_ms


def mark_facts(mark: Mark, terms: Terms) -> Facts:
    """What a witness says of a mark, whatever it stands for."""
    lock = mark.lock
    return (
        ("age_s", str(age_ms(mark, terms.judged_at_ms) // 1000)),
        ("grace_s", str(terms.underreplication_grace_ms // 1000)),
        ("marked_at_ms", str(mark.created_ms)),
        ("mark_changed_at_ms", "" if mark.changed_ms is None else str(mark.changed_ms)),
        ("missing_replicas", " ".join(mark.missing_replicas)),
        ("mark_problem", mark.problem or ""),
        *((("lock_holder", lock.holder), ("lock_since_ms", str(lock.since_ms))) if lock is not None else ()),
    )


def why_stuck(record: LedgerRecord, seen: Coverage | None, around: Surroundings, *, has_loss: bool) -> Facts:
    """Each reason that holds, as a fact `stuck`. `seen` is None where no bookie was asked (or had to be)."""
    assert record.mark is not None, "only a marked ledger is stuck"
    return tuple(("stuck", reason.value) for reason in _reasons(record, seen, around, has_loss=has_loss))


def _reasons(record: LedgerRecord, seen: Coverage | None, around: Surroundings, *, has_loss: bool) -> Iterator[Stuck]:
    if has_loss:
        yield Stuck.NO_COPY
    if around.replication_disabled:
        yield Stuck.REPLICATION_DISABLED
    if around.auditor is None:
        yield Stuck.NO_AUDITOR
    if seen is not None and not _has_spare(seen, around):
        yield Stuck.NO_SPARE_BOOKIE
    if record.mark is not None and record.mark.lock is not None:
        yield Stuck.LOCKED
    if _is_empty(record.metadata):
        yield Stuck.EMPTY_LEDGER
    if seen is not None and seen.extents and not any(_in_need(seen)):
        yield Stuck.STALE


def _in_need(seen: Coverage) -> Iterable[tuple[BookieId, ...]]:
    """The ensembles of the extents in which some copy is lacking or unknown."""
    for one in seen.extents:
        if one.surplus or any(share.absent or share.unknown for share in one.shares):
            yield one.extent.segment.ensemble


def _has_spare(seen: Coverage, around: Surroundings) -> bool:
    """Whether each ensemble in need of a copy finds a writable bookie outside itself to take it."""
    return all(around.writable - set(ensemble) for ensemble in _in_need(seen))


def _is_empty(metadata: LedgerMetadata | None) -> bool:
    return metadata is not None and metadata.last_entry_id == -1

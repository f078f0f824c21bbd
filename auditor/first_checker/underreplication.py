"""Judge an under-replication mark: its age, whether that is acceptable, and why the mark remains.

This covers BP-34's check that under-replication is being handled.

Marks of ledgers without metadata are one finding on the cluster for all of them. Verified: at two
looks, each after a sync, the mark existed and the znode of its ledger did not. The mark is older
than the grace. Not verified: who deleted the ledger, and whether on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from auditor.first_checker.coverage import Coverage, levels
from auditor.first_checker.shares import BookieShare
from auditor.model.cluster import Surroundings
from auditor.model.evidence import Terms
from auditor.model.facts import MarkFacts, MarkWithoutLedgerFacts, WhyMarked
from auditor.model.finding import Finding, Kind
from auditor.model.identity import LedgerId
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
    for coverage in seen.extents:
        out_of_reach = (
            share.absent | share.unknown if _is_away(seen, share) else share.absent
            for share in coverage.shares
        )
        if len(levels([*coverage.surplus, *out_of_reach])) >= metadata.write_quorum:
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
    for coverage in seen.extents:
        needs_copy = coverage.surplus or any(s.absent or s.unknown for s in coverage.shares)
        if needs_copy and around.writable <= set(coverage.extent.segment.ensemble):
            return False
    return True


LEDGERS_NAMED_MAX = 20
"""At most this many ledgers are named in the finding. The others are counted."""


@dataclass(frozen=True, slots=True)
class MarkLook:
    """What one look saw of a mark and of its ledger's znode.

    `created_ms` is None if the mark was gone. `has_metadata` is None if the mark or the znode could
    not be read, or was not looked at.
    """

    read_at_ms: int
    created_ms: int | None
    changed_ms: int | None
    has_metadata: bool | None

    @property
    def mark(self) -> Mark | None:
        """The mark with only its two times; None if it was gone."""
        return None if self.created_ms is None else Mark(self.created_ms, self.changed_ms)


@dataclass(frozen=True, slots=True)
class SeenMark:
    """A mark of a ledger that was not listed, as the first look saw it and, if there was one, the
    second.
    """

    ledger_id: LedgerId
    first: MarkLook
    again: MarkLook | None = None


PathOf: TypeAlias = Callable[[LedgerId], str]


def is_suspect(look: MarkLook | None, now_ms: int, grace_ms: int) -> bool:
    """Return whether the look saw a mark beyond its grace and no metadata."""
    if look is None or look.mark is None or look.has_metadata is not False:
        return False
    return is_beyond_grace(look.mark, now_ms, grace_ms)


def judge_marks(
    marks: Iterable[SeenMark],
    now_ms: int,
    grace_ms: int,
    *,
    unchecked: int,
    path_of: PathOf,
    replication_disabled: bool,
) -> Finding | None:
    """Return the finding on the cluster, or None if no mark is a suspect at both looks.

    `unchecked`: number of marks not looked at because there were too many. `path_of`: returns the
    path of a ledger's mark.
    """
    found = confirmed_marks(marks, now_ms, grace_ms)
    if not found:
        return None
    oldest_id, oldest_age_ms = found[0].ledger_id, found[0].age_ms
    facts = MarkWithoutLedgerFacts(
        marks=len(found),
        some_ledgers=tuple(mark.ledger_id for mark in found[:LEDGERS_NAMED_MAX]),
        oldest_age_ms=oldest_age_ms,
        oldest_path=path_of(oldest_id),
        grace_ms=grace_ms,
        unchecked=unchecked,
        apart_ms=min(mark.again_at_ms for mark in found) - max(mark.first_at_ms for mark in found),
        replication_disabled=replication_disabled,
    )
    return Finding(Kind.MARK_WITHOUT_LEDGER, facts)


@dataclass(frozen=True, slots=True)
class ConfirmedMark:
    """A mark beyond its grace whose ledger had no metadata at either look."""

    ledger_id: LedgerId
    age_ms: int
    first_at_ms: int
    again_at_ms: int


def confirmed_marks(marks: Iterable[SeenMark], now_ms: int, grace_ms: int) -> list[ConfirmedMark]:
    """Return the marks that the finding is about, oldest first."""
    found = []
    for mark in marks:
        again = mark.again
        if again is None or again.mark is None:
            continue
        if is_suspect(mark.first, now_ms, grace_ms) and is_suspect(again, now_ms, grace_ms):
            age = age_ms(again.mark, now_ms)
            found.append(
                ConfirmedMark(mark.ledger_id, age, mark.first.read_at_ms, again.read_at_ms)
            )
    return sorted(found, key=lambda mark: (-mark.age_ms, mark.ledger_id))


def withheld_marks(
    marks: Iterable[SeenMark], now_ms: int, grace_ms: int, *, unchecked: int, problem: str
) -> list[str]:
    """Return sentences on the marks without a ledger that could not be judged.

    `problem`: why not all marks could be listed, "" if they were.
    """
    sentences = []
    if problem:
        sentences.append(f"{problem}; marks below it are not looked at for MARK_WITHOUT_LEDGER")
    unread = sum(_is_unread(mark, now_ms, grace_ms) for mark in marks)
    if unread:
        which = "mark of a ledger that was" if unread == 1 else "marks of ledgers that were"
        sentences.append(
            f"{unread} {which} not listed could not be read twice: MARK_WITHOUT_LEDGER is not"
            " judged there"
        )
    if unchecked:
        sentences.append(
            f"{unchecked} more marks are of ledgers that were not listed, and were not looked at:"
            " only the oldest marks are"
        )
    return sentences


def newest_marks(marks: Iterable[SeenMark]) -> Iterator[tuple[LedgerId, MarkLook]]:
    """Yield each mark that existed at its newest look, with that look."""
    for mark in marks:
        look = mark.again or mark.first
        if look.mark is not None:
            yield mark.ledger_id, look


def _is_unread(marked: SeenMark, now_ms: int, grace_ms: int) -> bool:
    """Return whether a mark beyond its grace cannot be judged, because one of its looks failed."""
    mark = marked.first.mark
    if mark is None or not is_beyond_grace(mark, now_ms, grace_ms) or marked.first.has_metadata:
        return False
    return (
        marked.first.has_metadata is None
        or marked.again is None
        or marked.again.has_metadata is None
    )

"""Entries that no bookie of their write set can serve now, though some copy may still exist.

Verified: at every look at the newest state of the metadata, at least two, each bookie of the write
set was not registered, lacked the entry, or answered the read with an error of its own (EIO,
EUNKNOWNLEDGERSTATE).

Not verified: that a copy is lost. A bookie that is not registered may come back with its copies.
Time-outs, silence, refusals and bookies in maintenance do not count: they say nothing of the copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auditor.first_checker.coverage import Copy, Coverage, ExtentCoverage
from auditor.first_checker.entry_set import EMPTY, EntrySet
from auditor.first_checker.schedule import Extent
from auditor.first_checker.shares import BookieShare
from auditor.first_checker.worst import levels
from auditor.model.availability import ABSENT_READS, AnswerStatus, ReadStatus
from auditor.model.evidence import Look
from auditor.model.identity import BookieId, EntryId

_UNSERVED_READS = ABSENT_READS | {ReadStatus.FAILED}


@dataclass(frozen=True, slots=True)
class Unserved:
    """What could not be served at any look at the newest state of the metadata.

    `bookies` were not registered. `copies` are those that no look could read: at each the bookie
    lacked the entry or was not registered, and at least once it failed with an error of its own.
    """

    bookies: frozenset[BookieId] = frozenset()
    copies: frozenset[Copy] = frozenset()

    @classmethod
    def of(cls, looks: Sequence[Look], maintenance: frozenset[BookieId]) -> Unserved:
        """Return what the looks at one state of the metadata show. Costs answers and reads."""
        asked = [look for look in looks if look.answers]
        if not asked:
            return cls()
        failed = {
            copy
            for look in asked
            for copy, read in look.reads.items()
            if read.status is ReadStatus.FAILED and copy[0] not in maintenance
        }
        return cls(
            frozenset(
                bookie
                for bookie in asked[0].answers.keys() - maintenance
                if all(_is_unregistered(look, bookie) for look in asked)
            ),
            frozenset(copy for copy in failed if all(_is_unserved(look, copy) for look in asked)),
        )

    def entries(self, share: BookieShare) -> EntrySet:
        """Return the entries of a share that its bookie lacks or could not serve."""
        if share.bookie_id in self.bookies:
            return share.absent | share.unknown
        failed = sorted(entry for bookie, entry in self.copies if bookie == share.bookie_id)
        return share.absent | (share.expected & EntrySet.of_entries(failed))


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Entries that no bookie of their write set can serve, extent by extent, and the worst.

    The worst has the fewest copies that can exist, then the lowest id.
    """

    entries: list[EntrySet]
    worst: EntryId
    possible: int
    extent: Extent

    @classmethod
    def of(cls, seen: Coverage, unserved: Unserved, write_quorum: int) -> Unavailable | None:
        """Return the entries, None if there are none. Costs pieces."""
        if not unserved.bookies and not unserved.copies:
            return None
        entries = [_unavailable_entries(one, unserved, write_quorum) for one in seen.extents]
        ranked = [
            (*_worst(hit, one, write_quorum), one.extent)
            for hit, one in zip(entries, seen.extents, strict=True)
            if hit
        ]
        if not ranked:
            return None
        possible, worst, extent = min(ranked, key=lambda one: one[:2])
        return cls(entries, worst, possible, extent)


def _is_unregistered(look: Look, bookie: BookieId) -> bool:
    answer = look.answers.get(bookie)
    return answer is not None and answer.status is AnswerStatus.UNREGISTERED


def _is_unserved(look: Look, copy: Copy) -> bool:
    read = look.reads.get(copy)
    return _is_unregistered(look, copy[0]) or (read is not None and read.status in _UNSERVED_READS)


def _unavailable_entries(one: ExtentCoverage, unserved: Unserved, write_quorum: int) -> EntrySet:
    found = levels([*one.surplus, *(unserved.entries(share) for share in one.shares)])
    return found[write_quorum - 1] if len(found) >= write_quorum else EMPTY


def _worst(hit: EntrySet, one: ExtentCoverage, write_quorum: int) -> tuple[int, EntryId]:
    """Return the worst entry of `hit`, and how many copies of it can exist."""
    lost = levels([*one.surplus, *(share.absent for share in one.shares)])
    for copies, level in reversed(list(enumerate(lost, 1))):
        if among := hit & level:
            return write_quorum - copies, among.first()
    return write_quorum, hit.first()

"""Entries without a copy where metadata says, looked for everywhere else: on every registered bookie outside all write sets.

Verified: whether a bounded number of such entries can be read on a bookie that should hold none of the ledger.
Not verified: the entries beyond that number; bookies that are not registered, which nobody can ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from auditor.model.availability import ABSENT_READS, ReadStatus
from auditor.model.cluster import Surroundings
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata
from auditor.verify.confirmation import Wanted
from auditor.verify.coverage import Reads
from auditor.verify.entry_set import EntrySet
from auditor.verify.schedule import questions

Others = tuple[BookieId, ...]


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What came of looking. `holders` has a key for each entry that is alive somewhere; `unheard` are bookies that gave no
    conclusive answer to some read."""

    looked_for: tuple[EntryId, ...] = ()
    holders: Mapping[EntryId, tuple[BookieId, ...]] = field(default_factory=dict)
    unheard: tuple[BookieId, ...] = ()

    @property
    def all_found(self) -> bool:
        """Something was looked for, and each of it is alive on another bookie."""
        return bool(self.looked_for) and len(self.holders) == len(self.looked_for)


def others(metadata: LedgerMetadata, around: Surroundings) -> Others:
    """The registered bookies that should hold no entry of the ledger, in order of their ids; also one that a segment names of
    which it should hold nothing, since nobody asks it for a list."""
    return tuple(sorted((around.writable | around.readonly) - {question.bookie_id for question in questions(metadata)}))


def named_by(metadata: LedgerMetadata) -> frozenset[BookieId]:
    """The bookies in any ensemble of the ledger: none of them collects it."""
    return frozenset(bookie for segment in metadata.segments for bookie in segment.ensemble)


def wanted_elsewhere(lost: EntrySet, where: Others, reads: Reads, entries_max: int) -> Wanted:
    """The (bookie, entry) pairs still to be read; `reads` are those of the present look.

    First the lowest entry on every other bookie; then up to `entries_max` entries in all, only on bookies that may know the
    ledger: ENOLEDGER answers for every entry of it. So a lost ledger costs one read a bookie, and a stranded one some more.
    """
    if not lost or not where or entries_max < 1:
        return ()
    mine = {key: read for key, read in reads.items() if key[0] in set(where) and key[1] in lost}
    if not mine:
        return tuple((bookie, lost.first()) for bookie in where)
    asked = sorted({entry for _, entry in mine})
    chosen = list(dict.fromkeys((*asked, *_spread(lost, entries_max))))[:entries_max]
    closed = {bookie for (bookie, _), read in mine.items() if not _may_hold_more(read.status)}
    return tuple((b, e) for e in chosen for b in where if b not in closed and (b, e) not in mine)


def found_elsewhere(lost: EntrySet, where: Others, reads: Reads) -> Elsewhere:
    """What the reads made on other bookies say of the entries without a copy. A copy that was read before its bookie said
    ENOLEDGER, which speaks of all entries, is gone."""
    mine = {key: read for key, read in reads.items() if key[0] in set(where) and key[1] in lost}
    gone_since: dict[BookieId, int] = {}
    for (bookie, _), read in mine.items():
        if read.status is ReadStatus.NO_LEDGER:
            gone_since[bookie] = max(read.look, gone_since.get(bookie, read.look))
    looked_for = tuple(sorted({entry for _, entry in mine}))
    alive = {
        key
        for key, read in mine.items()
        if read.status is ReadStatus.PRESENT and read.look >= gone_since.get(key[0], read.look)
    }
    holders = {entry: tuple(b for b in where if (b, entry) in alive) for entry in looked_for}
    unheard = {b for (b, _), read in mine.items() if read.status not in ABSENT_READS and read.status is not ReadStatus.PRESENT}
    return Elsewhere(looked_for, {entry: held_by for entry, held_by in holders.items() if held_by}, tuple(sorted(unheard)))


def _may_hold_more(status: ReadStatus) -> bool:
    return status in (ReadStatus.PRESENT, ReadStatus.NO_ENTRY)


def _spread(lost: EntrySet, count: int) -> list[EntryId]:
    """The ends, and entries spread evenly between them."""
    total = lost.count()
    number = min(count, total)
    return [*(lost.nth(total * step // number) for step in range(number - 1)), lost.last()]

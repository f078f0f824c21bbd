"""Compare restored metadata with the living: what a restore would lose, cut, open or bring back.

A bookie deletes each ledger that it holds and that the metadata service does not list, at its next
collection (ScanAndCompareGarbageCollector, every `gcWaitTime`). Every
`gcOverreplicatedLedgerWaitTime`, a day by default, it also deletes closed ledgers of which no
ensemble names it. The ledgers that a bookie holds are taken from the living metadata: those that
name it.

Sizes are of the payload, as `length` has it. The share of one bookie assumes entries of equal size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from auditor.evidence.ids import Ids
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState, RecordStatus
from auditor.witness.pulsar_commands import owner_of
from auditor.zookeeper.metadata_store import MetadataStore

LEDGERS_AT_ONCE = 2_000
"""Ledgers whose metadata is held at once, on either side."""
OWNERS_KEPT_MAX = 100_000
"""Owners that are counted by name. The ledgers of further owners are counted together."""
OTHER_OWNERS = "other owners"
"""Stands for the owners beyond OWNERS_KEPT_MAX."""
NO_OWNER = "no owner in the metadata"


class Fate(StrEnum):
    """What a restore would do to a ledger."""

    SAME = "same"
    GONE = "gone"
    """The living metadata has it, the restored has not."""
    CUT_SHORT = "cut_short"
    """Closed in both, and the restored end is lower."""
    OPEN_AGAIN = "open_again"
    """Closed in the living metadata, open or in recovery in the restored."""
    BACK = "back"
    """The restored metadata has it, the living has not."""
    MOVED = "moved"
    """The restored metadata names other bookies for some of its entries."""
    DIFFERENT = "different"
    """The metadata differs in another way."""
    UNREAD = "unread"
    """The metadata could not be read or understood on one of the sides."""


CHANGES = tuple(fate for fate in Fate if fate not in (Fate.SAME, Fate.UNREAD))
"""The fates that change a ledger."""


def _exists(record: LedgerRecord | None) -> bool:
    return record is not None and record.status is not RecordStatus.GONE


def fate_of(living: LedgerRecord | None, restored: LedgerRecord | None) -> Fate:
    """Return what a restore would do to one ledger. None: that side does not list it."""
    if not _exists(living):
        return Fate.BACK if _exists(restored) else Fate.SAME
    if not _exists(restored):
        return Fate.GONE
    assert living is not None and restored is not None
    before, after = living.metadata, restored.metadata
    if before is None or after is None:
        is_equal = living.malformed is not None and living.malformed == restored.malformed
        return Fate.SAME if is_equal else Fate.UNREAD
    if before == after:
        return Fate.SAME
    if before.state is LedgerState.CLOSED:
        if after.state is not LedgerState.CLOSED:
            return Fate.OPEN_AGAIN
        if _is_lower(after.last_entry_id, before.last_entry_id):
            return Fate.CUT_SHORT
    return Fate.MOVED if _places(before) != _places(after) else Fate.DIFFERENT


def _is_lower(end: int | None, other: int | None) -> bool:
    return end is not None and other is not None and end < other


def _places(metadata: LedgerMetadata) -> object:
    return metadata.segments, metadata.ensemble_size, metadata.write_quorum


def _bookies(metadata: LedgerMetadata) -> frozenset[BookieId]:
    return frozenset(chain.from_iterable(segment.ensemble for segment in metadata.segments))


def stored_bytes(metadata: LedgerMetadata) -> dict[BookieId, int]:
    """Return about how many bytes each bookie stores of a ledger; 0 if its length is not known.

    An open ledger has no length: BookKeeper writes it when it closes the ledger.
    """
    found = dict.fromkeys(_bookies(metadata), 0.0)
    last, size = metadata.last_entry_id, metadata.ensemble_size
    if metadata.state is LedgerState.CLOSED and last is not None and last >= 0 and size > 0:
        firsts = [segment.first_entry_id for segment in metadata.segments] + [last + 1]
        for segment, (first, end) in zip(metadata.segments, pairwise(firsts), strict=True):
            entries = max(0, min(end, last + 1) - first)
            each = metadata.length * entries / (last + 1) * metadata.write_quorum / size
            for bookie in segment.ensemble:
                found[bookie] += each
    return {bookie: round(held) for bookie, held in found.items()}


class Amount(NamedTuple):
    """Some ledgers and their bytes. `unsized` ledgers among them have no known length."""

    ledgers: int = 0
    size_bytes: int = 0
    unsized: int = 0

    def plus(self, size_bytes: int | None) -> Amount:
        """Return the amount with one more ledger of this size; None: not known."""
        unsized = self.unsized + (size_bytes is None)
        return Amount(self.ledgers + 1, self.size_bytes + (size_bytes or 0), unsized)


@dataclass(slots=True)
class Deletions:
    """What one bookie would delete: at its next collection, and later as over-replicated."""

    next_collection: Amount = field(default_factory=Amount)
    over_replicated: Amount = field(default_factory=Amount)


@dataclass(slots=True)
class Comparison:
    """What a restore would do, as counts. Holds neither ledgers nor metadata.

    `gone_above`: ledgers that would be gone and whose id is above `highest_restored`.
    `newest_restored_ms`: the newest write among the restored ledgers.
    """

    living: int = 0
    restored: int = 0
    highest_restored: LedgerId | None = None
    newest_restored_ms: int | None = None
    fates: dict[Fate, Amount] = field(default_factory=dict)
    owners: dict[Fate, dict[str, Amount]] = field(default_factory=dict)
    deletions: dict[BookieId, Deletions] = field(default_factory=dict)
    gone_above: int = 0
    unread_example: str = ""

    def amount(self, fate: Fate) -> Amount:
        """Return the ledgers with this fate."""
        return self.fates.get(fate, Amount())

    @property
    def changed(self) -> int:
        """The ledgers that a restore would change."""
        return sum(self.amount(fate).ledgers for fate in CHANGES)

    def add(
        self, ledger_id: LedgerId, living: LedgerRecord | None, restored: LedgerRecord | None
    ) -> Fate:
        """Count one ledger, and return its fate."""
        fate = fate_of(living, restored)
        if restored is not None and restored.stamp is not None:
            self.newest_restored_ms = max(self.newest_restored_ms or 0, restored.stamp.mtime_ms)
        if fate is Fate.SAME:
            self.fates[fate] = self.amount(fate).plus(0)
            return fate
        if fate is Fate.UNREAD and not self.unread_example:
            said = next(r.detail for r in (living, restored) if r is not None and not r.metadata)
            self.unread_example = f"ledger {ledger_id}: {said}"
        before = living.metadata if living is not None else None
        after = restored.metadata if restored is not None else None
        lost = _bytes_concerned(fate, before, after)
        self.fates[fate] = self.amount(fate).plus(lost)
        self._count_owner(fate, before or after, lost)
        self._count_deletions(fate, before, after)
        if fate is Fate.GONE and ledger_id > (self.highest_restored or -1):
            self.gone_above += 1
        return fate

    def _count_owner(self, fate: Fate, metadata: LedgerMetadata | None, lost: int | None) -> None:
        owner = owner_of(metadata)
        name = (owner.name or owner.application or NO_OWNER) if owner else NO_OWNER
        by_owner = self.owners.setdefault(fate, {})
        if name not in by_owner and len(by_owner) >= OWNERS_KEPT_MAX:
            name = OTHER_OWNERS
        by_owner[name] = by_owner.get(name, Amount()).plus(lost)

    def _count_deletions(
        self, fate: Fate, before: LedgerMetadata | None, after: LedgerMetadata | None
    ) -> None:
        """Count on which bookies copies would be deleted, as the living metadata names them."""
        if before is None:
            return
        if fate is Fate.GONE:
            named = _bookies(before)
        elif after is not None and after.state is LedgerState.CLOSED:
            named = _bookies(before) - _bookies(after)
        else:
            return
        is_sized = before.state is LedgerState.CLOSED
        held = stored_bytes(before) if named else {}
        for bookie in named:
            deletions = self.deletions.setdefault(bookie, Deletions())
            size = held[bookie] if is_sized else None
            if fate is Fate.GONE:
                deletions.next_collection = deletions.next_collection.plus(size)
            else:
                deletions.over_replicated = deletions.over_replicated.plus(size)


def _bytes_concerned(
    fate: Fate, before: LedgerMetadata | None, after: LedgerMetadata | None
) -> int | None:
    """Return the payload bytes that a change concerns, None if they are not known."""
    if fate is Fate.CUT_SHORT:
        assert before is not None and after is not None
        return max(0, before.length - after.length)
    sized = next(
        (m for m in (before, after) if m is not None and m.state is LedgerState.CLOSED), None
    )
    return None if sized is None else sized.length


def listed_ids(store: MetadataStore) -> Ids:
    """Return all ledger ids that a store lists, ascending. Raises StoreUnavailable."""
    parents = chain.from_iterable(
        store.list_ids(partition) for partition in store.listing_partitions().partitions
    )
    ids = chain.from_iterable(parent.ledger_ids for parent in parents)
    return np.unique(np.fromiter(ids, np.int64))


def compare(
    living: MetadataStore,
    restored: MetadataStore,
    now_ms: Callable[[], int],
    on_fates: Callable[[Sequence[tuple[LedgerId, Fate]]], None] = lambda _: None,
) -> Comparison:
    """Compare every ledger of two stores. `on_fates` gets the fates, by ascending ledger id.

    A ledger that is deleted while it is compared counts as absent. Costs a read of each ledger on
    each side. Memory holds the ids, and the metadata of LEDGERS_AT_ONCE ledgers. Raises
    StoreUnavailable.
    """
    there = listed_ids(restored)
    living.sync()
    here = listed_ids(living)
    found = Comparison(
        len(here), len(there), highest_restored=int(there[-1]) if len(there) else None
    )
    union = np.union1d(here, there)
    for start in range(0, len(union), LEDGERS_AT_ONCE):
        chunk = union[start : start + LEDGERS_AT_ONCE]
        before = _records(living, chunk[np.isin(chunk, here, assume_unique=True)], now_ms)
        after = _records(restored, chunk[np.isin(chunk, there, assume_unique=True)], now_ms)
        ids: list[LedgerId] = chunk.tolist()
        on_fates([(i, found.add(i, before.get(i), after.get(i))) for i in ids])
    return found


def _records(
    store: MetadataStore, ids: Ids, now_ms: Callable[[], int]
) -> dict[LedgerId, LedgerRecord]:
    read = store.read_ledgers(ids.tolist(), 1, now_ms, with_marks=False)
    return {record.ledger_id: record for record in read}


def largest(amounts: Iterable[tuple[str, Amount]]) -> Iterator[tuple[str, Amount]]:
    """Yield named amounts, those with the most bytes first, then those with the most ledgers."""
    yield from sorted(amounts, key=lambda item: (-item[1].size_bytes, -item[1].ledgers, item[0]))

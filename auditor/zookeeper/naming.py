"""Find the ledgers that name a bookie: it cannot be decommissioned before they are re-replicated.

Memory holds the ledgers that name the bookie, the under-replication marks, and the batches in
flight, never all ledgers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from auditor.first_checker.schedule import expected_entries, extents, positions
from auditor.model.cluster import Naming, NamingLedger
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerMetadata, LedgerState, RecordStatus
from auditor.zookeeper.ledgers import Marks
from auditor.zookeeper.metadata_store import MetadataStore

UNREAD_SHOWN_MAX = 10
"""Maximum number of ledgers with unreadable metadata that are named; the rest is only counted."""


def ledgers_naming(
    store: MetadataStore,
    bookie_id: BookieId,
    now_ms: Callable[[], int],
    on_ledger: Callable[[], None] = lambda: None,
) -> Naming:
    """Return the ledgers that name the bookie, after reading the metadata of every ledger.

    Calls `on_ledger` for each ledger read. A ledger that vanishes meanwhile names nobody. Costs one
    read a ledger, and a list and a read a mark. Raises StoreUnavailable.
    """
    store.sync()
    bookie = next(
        (bookie for bookie in store.bookies(1, now_ms) if bookie.bookie_id == bookie_id), None
    )
    marks = store.marks()
    listed = unread = 0
    unread_shown: list[tuple[LedgerId, str]] = []
    naming: list[NamingLedger] = []
    for record in store.read_ledgers(_all_ids(store), 1, now_ms, with_marks=False):
        listed += 1
        on_ledger()
        if record.metadata is not None:
            found = _naming_ledger(record.ledger_id, record.metadata, bookie_id, marks)
            naming += [found] if found else []
        elif record.status is not RecordStatus.GONE:
            unread += 1
            if len(unread_shown) < UNREAD_SHOWN_MAX:
                unread_shown.append((record.ledger_id, record.detail))
    naming.sort(key=lambda ledger: ledger.ledger_id)
    return Naming(
        bookie_id, bookie, marks.problem, listed, unread, tuple(unread_shown), tuple(naming)
    )


def _all_ids(store: MetadataStore) -> Iterator[LedgerId]:
    for partition in store.listing_partitions().partitions:
        for parent in store.list_ids(partition):
            yield from parent.ledger_ids


def _naming_ledger(
    ledger_id: LedgerId, metadata: LedgerMetadata, bookie_id: BookieId, marks: Marks
) -> NamingLedger | None:
    found = sum(bookie_id in segment.ensemble for segment in metadata.segments)
    if not found:
        return None
    is_marked = True if ledger_id in marks.by_ledger else None if marks.problem else False
    entries = _entries_on(metadata, bookie_id)
    return NamingLedger(
        ledger_id, metadata.state, len(metadata.segments), found, entries, is_marked
    )


def _entries_on(metadata: LedgerMetadata, bookie_id: BookieId) -> int | None:
    """Return how many entries the bookie should hold, or None if the metadata is not clear."""
    clear = extents(metadata)
    last = metadata.last_entry_id
    if metadata.state is not LedgerState.CLOSED or last is None:
        return None
    if sum(extent.last_entry_id - extent.first_entry_id + 1 for extent in clear) != last + 1:
        return None
    size, quorum = metadata.ensemble_size, metadata.write_quorum
    count = 0
    for extent in clear:
        at = positions(extent.segment.ensemble).get(bookie_id)
        if at is not None:
            count += expected_entries(extent, at, size, quorum).count()
    return count

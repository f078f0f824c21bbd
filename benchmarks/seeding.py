"""Many small sound ledgers on a real cluster, quickly: entries pipelined over all ledgers, znodes
in transactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from support.raw_bookie import (
    ADDS_INFLIGHT_MAX,
    RawBookie,
    UnexpectedStatus,
    add_request,
    entry_body,
    entry_ids,
    master_key,
    status_name,
)
from support.real_cluster import RealCluster
from support.zookeeper_znodes import znodes

from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import DigestType, LedgerMetadata, LedgerState, Segment
from auditor.sandbox import cluster as notation
from auditor.wire import ledger_metadata

ENSEMBLE, WRITE_QUORUM, ACK_QUORUM = 3, 2, 2
LAST_ENTRY_IDS = (2, 3, 4, 5)
"""Last entries in turn: a few entries a ledger. Never 0, which bookies may leave out of the list
until a page is flushed.
"""

Placed = tuple[LedgerId, EntryId]


def ensemble_of(ledger_id: LedgerId, bookies: tuple[BookieId, ...]) -> tuple[BookieId, ...]:
    """Ensembles go round all bookies."""
    return tuple(bookies[(ledger_id + position) % len(bookies)] for position in range(ENSEMBLE))


def metadata_of(ledger_id: LedgerId, bookies: tuple[BookieId, ...]) -> LedgerMetadata:
    """A closed ledger of one segment."""
    last = LAST_ENTRY_IDS[ledger_id % len(LAST_ENTRY_IDS)]
    return LedgerMetadata(
        format_version=3,
        state=LedgerState.CLOSED,
        ensemble_size=ENSEMBLE,
        write_quorum=WRITE_QUORUM,
        ack_quorum=ACK_QUORUM,
        last_entry_id=last,
        length=8 * (last + 1),
        segments=(Segment(0, ensemble_of(ledger_id, bookies)),),
        digest_type=DigestType.CRC32C,
    )


def seed(cluster: RealCluster, ledgers: int, first: int = 0) -> int:
    """Write ledgers `first` ... `ledgers` - 1, every entry on its write set.

    Return the entries stored. Takes 12 s for 20,000 ledgers where two cores are free.
    """
    bookies = cluster.bookie_ids
    placed: dict[BookieId, list[Placed]] = {bookie: [] for bookie in bookies}
    shapes = {ledger_id: metadata_of(ledger_id, bookies) for ledger_id in range(first, ledgers)}
    for ledger_id, metadata in shapes.items():
        for bookie, runs in notation.placement(metadata).items():
            placed[bookie] += ((ledger_id, entry_id) for entry_id in entry_ids(runs))
    for bookie, entries in placed.items():
        with cluster.connect(bookie) as connection:
            _store(connection, entries)
    with znodes(cluster.zookeeper_hosts) as writer:
        writer.put_all(
            (cluster.ledger_path(i), ledger_metadata.encode(metadata))
            for i, metadata in shapes.items()
        )
    return sum(map(len, placed.values()))


def _store(connection: RawBookie, entries: list[Placed]) -> None:
    """Add these entries with up to ADDS_INFLIGHT_MAX unanswered, whichever ledgers they belong
    to.
    """
    key = master_key()
    remaining = iter(entries)
    for batch in _batches(remaining):
        connection.send(
            *(
                add_request(
                    ledger_id,
                    entry_id,
                    entry_body(ledger_id, entry_id),
                    key,
                    connection.next_txn_id(),
                )
                for ledger_id, entry_id in batch
            )
        )
        for _ in batch:
            answer = connection.receive()
            if answer.status != 0:
                raise UnexpectedStatus(f"ADD_ENTRY: {status_name(answer.status)}")


def _batches(entries: Iterator[Placed]) -> Iterator[list[Placed]]:
    while batch := list(islice(entries, ADDS_INFLIGHT_MAX)):
        yield batch

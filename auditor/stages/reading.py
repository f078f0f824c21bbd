"""Read ledger ids, metadata and topics from ZooKeeper, batch by batch.

The run and the public Spark sources use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa

from auditor.clock import now_ms
from auditor.errors import StoreUnavailable
from auditor.evidence.rows import Row, ledger_row, table
from auditor.evidence.schemas import LEDGERS, LISTING, REFERENCES, with_read_counts
from auditor.model.identity import LedgerId
from auditor.model.ledger import LedgerRecord, Mark, RecordStatus
from auditor.model.topic import TopicName, TopicRecord, TopicStatus
from auditor.pulsar.reference_rows import reference_rows
from auditor.pulsar.topic_store import TopicsAddress
from auditor.zookeeper.ledgers import ListingPartition
from auditor.zookeeper.metadata_store import MetadataStore, StoreAddress
from auditor.zookeeper.session import ReadCounts

ROWS_PER_BATCH = 2_000
"""Ledgers in one Arrow batch: few enough for flat memory, enough to be worth the overhead."""

PARENTS = pa.schema([("parents", pa.list_(pa.string()))])
"""A portion of the listing: paths of znodes whose children are ledgers."""

TOPIC_NAMES = pa.schema([(part, pa.string()) for part in TopicName._fields])
"""The parts of a topic's name."""

COUNTED_LISTING, COUNTED_LEDGERS = with_read_counts(LISTING), with_read_counts(LEDGERS)
COUNTED_REFERENCES = with_read_counts(REFERENCES)
"""What the run writes. A reader that asks for LISTING, LEDGERS or REFERENCES does not see the
counts.
"""

Batches = Iterator[pa.RecordBatch]
Work = Callable[[Batches], Batches]


def lister(address: StoreAddress) -> Work:
    """Return work on PARENTS rows: list the ids below them, as LISTING rows with read counts."""

    def listed(store: MetadataStore, batches: Batches) -> Batches:
        for batch in batches:
            for parents in batch.column("parents").to_pylist():
                for parent in store.list_ids(ListingPartition(tuple(parents))):
                    ids = pa.array(parent.ledger_ids, pa.int64())
                    for start in range(0, len(ids), ROWS_PER_BATCH):
                        part = ids.slice(start, ROWS_PER_BATCH)
                        yield pa.RecordBatch.from_arrays([part], schema=LISTING)

    def work(batches: Batches) -> Batches:
        with address.open() as store:
            store.sync()
            yield from batches_with_counts(listed(store, batches), store.counts, COUNTED_LISTING)

    return work


def with_counts(rows: Iterable[Row], counts: ReadCounts) -> Iterator[Row]:
    """Yield the rows with the cells of READ_COUNTS: nulls, and in the last row the final counts."""
    last: Row | None = None
    for row in rows:
        if last is not None:
            yield (*last, None, None)
        last = row
    if last is not None:
        yield (*last, counts.reads, counts.reads_failed)


def batches_with_counts(read: Batches, counts: ReadCounts, schema: pa.Schema) -> Batches:
    """Yield the batches with the columns of READ_COUNTS, as `with_counts` yields rows.

    `schema` is that of the batches with these columns.
    """
    last: pa.RecordBatch | None = None
    for batch in read:
        if last is not None:
            yield _counted(last, (None, None), schema)
        last = batch
    if last is not None:
        yield _counted(last, (counts.reads, counts.reads_failed), schema)


def _counted(
    batch: pa.RecordBatch, last: tuple[int | None, int | None], schema: pa.Schema
) -> pa.RecordBatch:
    nulls = pa.nulls(batch.num_rows - 1, pa.int64())
    counts = [pa.concat_arrays([nulls, pa.array([cell], pa.int64())]) for cell in last]
    return pa.RecordBatch.from_arrays([*batch.columns, *counts], schema=schema)


def listed_ids(store: MetadataStore, partition: ListingPartition) -> Iterator[LedgerId]:
    """Yield every ledger id below the parents of one portion, once."""
    for parent in store.list_ids(partition):
        yield from parent.ledger_ids


def reader(address: StoreAddress, look: int, marks: Mapping[LedgerId, Mark] | None) -> Work:
    """Return work on rows with a ledger_id: read each ledger, as LEDGERS rows with read counts.

    At the first look the marks have been read before, all at once (`marks`). Later each ledger's
    own mark is read just before its metadata (`marks` is None), after a sync: nothing older than
    this look is seen.
    """

    def work(batches: Batches) -> Batches:
        try:
            store = address.open()
            if marks is None:
                store.sync()
        except StoreUnavailable as error:
            unread = (row for batch in batches for row in _unreadable(batch, look, str(error)))
            yield from in_batches(((*row, None, None) for row in unread), COUNTED_LEDGERS)
            return
        with store:
            ids = (batch.column("ledger_id").to_numpy() for batch in batches)
            if marks is not None:
                read = store.read_ledger_batches(ids, look, now_ms, marks)
                yield from batches_with_counts(read, store.counts, COUNTED_LEDGERS)
                return
            single = (ledger_id for some in ids for ledger_id in some.tolist())
            records = store.read_ledgers(single, look, now_ms, with_marks=True)
            rows = with_counts(map(ledger_row, records), store.counts)
            yield from in_batches(rows, COUNTED_LEDGERS)

    return work


def topic_reader(address: TopicsAddress, look: int) -> Work:
    """Return work on TOPIC_NAMES rows: read each topic after a sync, as REFERENCES rows.

    They have read counts. A topic that cannot be read has a row that says why. Never raises for a
    topic.
    """

    def work(batches: Batches) -> Batches:
        names = (TopicName(*row.values()) for batch in batches for row in batch.to_pylist())
        try:
            with address.open() as topics:
                topics.sync()
                rows = (
                    row
                    for record in topics.read(names, now_ms)
                    for row in reference_rows(record, look)
                )
                yield from in_batches(with_counts(rows, topics.counts), COUNTED_REFERENCES)
        except StoreUnavailable as error:  # raised before any topic was read, never for a topic
            rows = (
                row for name in names for row in reference_rows(_unread(name, str(error)), look)
            )
            yield from in_batches(((*row, None, None) for row in rows), COUNTED_REFERENCES)

    return work


def _unread(name: TopicName, why: str) -> TopicRecord:
    return TopicRecord(name, now_ms(), TopicStatus.UNREADABLE, problems=(why,))


def _unreadable(batch: pa.RecordBatch, look: int, why: str) -> Iterator[Row]:
    """Yield rows for ledgers that ZooKeeper did not return because it was lost during the run.

    This does not end the run, and says nothing about a ledger.
    """
    for ledger_id in batch.column("ledger_id").to_pylist():
        yield ledger_row(
            LedgerRecord(ledger_id, look, now_ms(), RecordStatus.UNREADABLE, detail=why)
        )


def in_batches(rows: Iterable[Row], schema: pa.Schema) -> Batches:
    """Yield the rows in batches of ROWS_PER_BATCH, never an empty one."""
    pending: list[Row] = []
    for row in rows:
        pending.append(row)
        if len(pending) == ROWS_PER_BATCH:
            yield table(schema, pending)
            pending = []
    if pending:
        yield table(schema, pending)

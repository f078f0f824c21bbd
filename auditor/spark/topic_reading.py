"""Read what Pulsar's topics reference in Spark tasks."""

from __future__ import annotations

import pyarrow as pa

from auditor.clock import now_ms
from auditor.errors import StoreUnavailable
from auditor.evidence.reference_rows import reference_rows
from auditor.evidence.schemas import REFERENCES, with_read_counts
from auditor.model.topic import TopicName, TopicRecord, TopicStatus
from auditor.spark.ledgers import Batches, Work, in_batches, with_counts
from auditor.zookeeper.topics import TopicsAddress

NAMES = pa.schema([(part, pa.string()) for part in TopicName._fields])
"""The parts of a topic's name."""
COUNTED_REFERENCES = with_read_counts(REFERENCES)
"""What tasks write. A reader that asks for REFERENCES does not see the counts."""


def reader(address: TopicsAddress, look: int) -> Work:
    """Return work on NAMES rows: read each topic after a sync, as REFERENCES rows with read counts.

    A topic that cannot be read has a row that says why. Never raises for a topic.
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

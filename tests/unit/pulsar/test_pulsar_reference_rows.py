"""What topics reference, as rows and back."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from auditor.evidence.rows import table
from auditor.evidence.schemas import REFERENCES
from auditor.model.topic import (
    Cursor,
    DataLedger,
    ManagedLedger,
    Position,
    SchemaVersion,
    Subscription,
    TopicName,
    TopicRecord,
    TopicStatus,
    Unread,
)
from auditor.pulsar.reference_rows import (
    TopicLook,
    listing_problem_row,
    namespace_of,
    partition_problem_row,
    partition_row,
    reference_rows,
    topic_looks,
    topic_of,
)

FULL = TopicRecord(
    TopicName("t", "", "n", "a/b c"),
    5,
    TopicStatus.FOUND,
    ManagedLedger(
        (DataLedger(5, 10, 100, 7, True, True), DataLedger(6)),
        Position(6, 3),
        TopicName("t", "", "n", "source/b c"),
    ),
    (
        Subscription("bad", None, "why"),
        Subscription(
            "s", Cursor(8, Position(5, 2), ((Position(5, 3), Position(5, 5)),), 9, (2, 4))
        ),
        Subscription("t", Cursor(None, None)),
    ),
    (SchemaVersion(0, Position(3, 1)), SchemaVersion(1, Position(3, 2))),
    ("why",),
    ((Unread.NEWEST_POSITION, 1), (Unread.PROPERTY, 3)),
)
"""A topic with everything that a topic may have."""
OTHERS = (
    TopicRecord(TopicName("t", "eu", "n", "old"), 6, TopicStatus.FOUND, ManagedLedger()),
    TopicRecord(
        TopicName("t", "", "n", "shadow"),
        6,
        TopicStatus.FOUND,
        ManagedLedger(shadow_source=TopicName("t", "eu", "n", "old"), is_source_missing=True),
    ),
    TopicRecord(TopicName("t", "", "n", "gone"), 6, TopicStatus.MISSING),
    TopicRecord(TopicName("t", "", "n", "shut"), 6, TopicStatus.UNREADABLE, problems=("a", "b")),
)


def read_back(*records: TopicRecord, look: int = 1) -> list[TopicLook]:
    rows = [row for record in records for row in reference_rows(record, look)]
    return topic_looks(
        pa.Table.from_batches(
            [table(REFERENCES, [*rows, listing_problem_row(look, 5, "not listed")])]
        )
    )


@pytest.mark.parametrize("record", [FULL, *OTHERS], ids=lambda record: str(record.topic.local_name))
def test_a_topic_is_read_as_it_was_written(record: TopicRecord) -> None:
    """With all that it references, and what could not be read of it."""
    assert [TopicLook(2, record)] == read_back(record, look=2)


def test_rows_come_in_any_order() -> None:
    """Files of several tasks are read as they are found. Problems of one topic keep the order of
    its rows.
    """
    rows = list(reference_rows(FULL, 1))
    assert [TopicLook(1, FULL)] == topic_looks(
        pa.Table.from_batches([table(REFERENCES, rows[::-1])])
    )


def test_the_looks_at_a_topic_are_distinguished() -> None:
    """In the order of the looks, each with what it read."""
    gone = replace(
        FULL,
        read_at_ms=9,
        status=TopicStatus.MISSING,
        managed_ledger=None,
        subscriptions=(),
        schemas=(),
    )
    rows = [*reference_rows(gone, 2), *reference_rows(FULL, 1)]
    assert [TopicLook(1, FULL), TopicLook(2, gone)] == topic_looks(
        pa.Table.from_batches([table(REFERENCES, rows)])
    )


def test_topics_are_distinguished_and_a_problem_of_the_listing_is_of_none() -> None:
    """Sorted by topic."""
    assert sorted(str(one.topic) for one in (FULL, *OTHERS)) == [
        str(look.record.topic) for look in read_back(FULL, *OTHERS)
    ]


@pytest.mark.parametrize("record", [FULL, *OTHERS])
def test_a_name_with_slashes_keeps_its_parts(record: TopicRecord) -> None:
    """The namespace has a column of its own: a topic's own name may hold a slash."""
    assert record.topic == topic_of(namespace_of(record.topic), str(record.topic))


def test_a_partition_without_a_znode_is_a_row_of_its_own() -> None:
    """Of the topic that is not there, or of the namespace in which some may be missed."""
    topic = TopicName("t", "", "n", "x-partition-1")
    rows = [partition_row(topic, 2, 7), partition_problem_row(1, 8, "why", "t/n")]
    of_both = {"namespace": "t/n", "row": "partition"}
    expected = [
        {**of_both, "topic": "persistent://t/n/x-partition-1", "look": 2, "read_at_ms": 7},
        {**of_both, "look": 1, "read_at_ms": 8, "problem": "why"},
    ]
    assert expected == [
        {name: value for name, value in row.items() if value is not None}
        for row in table(REFERENCES, rows).to_pylist()
    ]

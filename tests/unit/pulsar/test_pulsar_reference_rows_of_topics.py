"""The references of a topic as rows of evidence/topics."""

from __future__ import annotations

from typing import Any

from auditor.evidence.rows import table
from auditor.evidence.schemas import TOPICS
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
)
from auditor.pulsar.reference_rows import topic_rows

NAME = TopicName("t", "", "n", "x")
TOPIC = {"topic": "persistent://t/n/x", "read_at_ms": 7}


def rows_of(record: TopicRecord) -> list[dict[str, Any]]:
    """The rows as they are read back, without their nulls."""
    rows = table(TOPICS, list(topic_rows(record))).to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def test_a_data_ledger_has_what_the_topic_recorded_of_it() -> None:
    """Each once, also one that is only in long-term storage; what is not recorded is null."""
    ledgers = (DataLedger(1, 5, 600, 70, True, True), DataLedger(2))
    kept = {"offloaded": False, "bookkeeper_deleted": False}
    assert [
        {**TOPIC, "role": "data", "ledger_id": 1, "entries": 5, "size_bytes": 600, "closed_ms": 70,
        "offloaded": True,
         "bookkeeper_deleted": True},
        {**TOPIC, "role": "data", "ledger_id": 2, **kept},
    ] == rows_of(TopicRecord(NAME, 7, TopicStatus.FOUND, ManagedLedger(ledgers)))  # fmt: skip


def test_other_ledgers_have_a_row_for_each_use() -> None:
    """Those of cursors and of the compacted topic name the subscription; those of schemas name
    none.
    """
    cursor = Cursor(3, Position(1, 2), compacted_ledger_id=4)
    subscriptions = (Subscription("s", cursor), Subscription("unreadable", None, "why"))
    record = TopicRecord(
        NAME, 7, TopicStatus.FOUND, None, subscriptions, (SchemaVersion(0, Position(9, 0)),)
    )
    assert [
        {**TOPIC, "role": "cursor", "name": "s", "ledger_id": 3},
        {**TOPIC, "role": "compacted", "name": "s", "ledger_id": 4},
        {**TOPIC, "role": "schema", "ledger_id": 9},
    ] == rows_of(record)


def test_what_could_not_be_read_is_a_row_of_its_own() -> None:
    """A topic of which nothing is known has just these."""
    record = TopicRecord(NAME, 7, TopicStatus.UNREADABLE, problems=("no access", "not decoded"))
    assert [{**TOPIC, "problem": "no access"}, {**TOPIC, "problem": "not decoded"}] == rows_of(
        record
    )

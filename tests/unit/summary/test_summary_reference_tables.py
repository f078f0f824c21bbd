"""What the written tables say of the ledgers that topics reference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from support.topics import closed

from auditor.evidence.reference_rows import reference_rows
from auditor.evidence.rows import ledger_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import LEDGERS, LISTING, REFERENCES
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    RecordStatus,
    Segment,
    ZnodeStamp,
)
from auditor.model.topic import (
    Cursor,
    DataLedger,
    ManagedLedger,
    Position,
    SchemaVersion,
    Subscription,
    TopicRecord,
    TopicStatus,
)
from auditor.summary.reference_tables import (
    ids_read_again,
    referenced_ids,
    suspect_ids,
    unlisted_ids,
)
from auditor.wire.topic_paths import parse_topic

WHOLE = LedgerMetadata(3, LedgerState.CLOSED, 3, 2, 2, 9, 100, (Segment(0, ("b1", "b2", "b3")),))


@pytest.fixture
def run(tmp_path: Path) -> Place:
    """The directory of a run."""
    return place(str(tmp_path))


def write(run: Place, *topics: TopicRecord, ledgers: Iterable[int] = (), look: int = 1) -> None:
    """Write what one look read of topics, and sound ledgers of ten entries."""
    rows = [row for one in topics for row in reference_rows(one, look)]
    run.write_table("evidence/references", table(REFERENCES, rows), f"look-{look}")
    found = [
        LedgerRecord(one, 1, 5, RecordStatus.FOUND, ZnodeStamp(1, 0, 0), WHOLE) for one in ledgers
    ]
    run.write_table("evidence/ledgers", table(LEDGERS, map(ledger_row, found)), f"look-{look}")


def topic(
    *ledgers: DataLedger,
    name: str = "t",
    terminated: Position | None = None,
    schema: int | None = None,
) -> TopicRecord:
    """A topic that was found; `schema` is the entry of ledger 7 that its schema is in."""
    schemas = () if schema is None else (SchemaVersion(0, Position(7, schema)),)
    managed = ManagedLedger(ledgers, terminated)
    return TopicRecord(
        parse_topic(f"public/default/{name}"), 5, TopicStatus.FOUND, managed, schemas=schemas
    )


def test_a_ledger_is_unlisted_if_only_a_topic_names_it(run: Place) -> None:
    """Ascending; what the listing names beside them is no matter."""
    write(run, topic(closed(9), closed(7), closed(8)))
    run.write_table("evidence/listing", table(LISTING, [(8,), (10,)]), "all")
    assert [7, 9] == unlisted_ids(run).tolist()


def test_what_a_topic_deleted_in_bookkeeper_is_not_referenced_there(run: Place) -> None:
    """An offloaded copy alone does not delete it; the second look does not count."""
    write(run, topic(closed(7, offloaded=True, deleted=True), closed(8, offloaded=True)))
    write(run, topic(closed(9)), look=2)
    assert [8] == referenced_ids(run).tolist()


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (topic(closed(7, 10), closed(8, 11)), [8]),
        (topic(closed(8, 10), closed(7, 11)), [7]),
        (topic(DataLedger(7)), []),
        (topic(closed(7, 11, offloaded=True)), []),
        (topic(DataLedger(7), terminated=Position(7, 9)), []),
        (topic(DataLedger(7), terminated=Position(7, 10)), [7]),
        (topic(closed(7, 9), schema=9), []),
        (topic(closed(7, 9), schema=10), [7]),
        (topic(closed(7, 11), schema=1), [7]),
        (topic(closed(9, 99)), []),
    ],
)
def test_a_ledger_is_suspect_if_it_ends_before_the_most_that_was_recorded(
    run: Place, record: TopicRecord, expected: list[int]
) -> None:
    """By its data, a schema or the terminated position; both ledgers end with entry 9."""
    write(run, record, ledgers=(7, 8))
    assert expected == suspect_ids(run).tolist()


def test_a_version_and_where_a_subscription_is_are_no_number_of_entries(run: Place) -> None:
    """A schema has been changed fifty times, and a subscription is beyond the end."""
    record = replace(
        topic(closed(7, 10), DataLedger(8)),
        subscriptions=(Subscription("s", Cursor(None, Position(7, 50))),),
        schemas=(SchemaVersion(50, Position(7, 1)),),
    )
    write(run, record, ledgers=(7, 8))
    assert [] == suspect_ids(run).tolist()


def test_only_the_first_look_says_how_many_entries_were_recorded(run: Place) -> None:
    """The second compares with the ledger at its own time."""
    write(run, topic(closed(7)), ledgers=(7,))
    write(run, topic(closed(7, 11)), look=2)
    assert [] == suspect_ids(run).tolist()


def test_no_ledger_was_read_again_where_no_table_was_written(run: Place) -> None:
    """Nothing was in question."""
    assert [] == ids_read_again(run).tolist()


def test_only_the_second_look_counts_as_reading_again(run: Place) -> None:
    """Ascending, each once."""
    rows = [
        LedgerRecord(n, look, 5, RecordStatus.GONE) for n, look in ((7, 1), (9, 2), (8, 2), (9, 2))
    ]
    run.write_table("evidence/referenced_ledgers", table(LEDGERS, map(ledger_row, rows)), "all")
    assert [8, 9] == ids_read_again(run).tolist()

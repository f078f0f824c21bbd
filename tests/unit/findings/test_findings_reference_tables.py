"""What the written tables have of the ledgers that topics reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from support.tables_in_memory import Tables
from support.topics import closed

from auditor.evidence.rows import ledger_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import LEDGERS, LISTING, REFERENCES
from auditor.findings import reference_tables
from auditor.findings.reference_tables import (
    counted_ids,
    ids_read_again,
    known_topics,
    lone_partitions,
    looks_at,
    partitions_in_doubt,
    records_at,
    referenced_ids,
    suspect_ids,
    topics_naming,
    unlisted_ids,
    unreferenced_ledgers,
)
from auditor.findings.references import KnownTopics
from auditor.model.evidence import Terms
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
from auditor.pulsar.reference_rows import partition_problem_row, partition_row, reference_rows
from auditor.pulsar.topic_paths import parse_topic

WHOLE = LedgerMetadata(3, LedgerState.CLOSED, 3, 2, 2, 9, 100, (Segment(0, ("b1", "b2", "b3")),))


@pytest.fixture
def run() -> Place:
    """Return the tables of a run. They refuse to hand out more than memory may hold."""
    return cast(Place, Tables())


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
    acknowledged: Position | None = None,
) -> TopicRecord:
    """Return a topic that was found. Its schema is in entry `schema` of ledger 7, and its one
    subscription stands at `acknowledged`.
    """
    schemas = () if schema is None else (SchemaVersion(0, Position(7, schema)),)
    managed = ManagedLedger(ledgers, terminated)
    subscriptions = (Subscription("s", Cursor(None, acknowledged)),) if acknowledged else ()
    return TopicRecord(
        parse_topic(f"public/default/{name}"),
        5,
        TopicStatus.FOUND,
        managed,
        subscriptions,
        schemas,
    )


def test_a_ledger_is_unlisted_if_only_a_topic_names_it(run: Place) -> None:
    """The ids ascend. Other ledgers of the listing do not matter."""
    write(run, topic(closed(9), closed(7), closed(8)))
    run.write_table("evidence/listing", table(LISTING, [(8,), (10,)]), "all")
    assert [7, 9] == unlisted_ids(run).tolist()


def test_what_a_topic_deleted_in_bookkeeper_is_not_referenced_there(run: Place) -> None:
    """A ledger that is offloaded and not deleted is still referenced. The second look does not
    count.
    """
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
        (topic(closed(7, 10), closed(8, 10), terminated=Position(8, 10)), [8]),
        (topic(closed(7), acknowledged=Position(7, 10)), [7]),
        (topic(closed(7), acknowledged=Position(7, 9)), []),
    ],
)
def test_a_ledger_is_suspect_if_it_ends_before_the_most_that_was_recorded(
    run: Place, record: TopicRecord, expected: list[int]
) -> None:
    """Its data, a schema, the terminated position and the positions of subscriptions count. Both
    ledgers end with entry 9.
    """
    write(run, record, ledgers=(7, 8))
    assert expected == suspect_ids(run).tolist()


@pytest.mark.parametrize("order", [(9, 11, 3), (11, 9, 3), (3, 9, 11), (3, 9, 10)])
def test_the_most_that_any_topic_recorded_counts_wherever_it_stands(
    run: Place, monkeypatch: pytest.MonkeyPatch, order: tuple[int, ...]
) -> None:
    """Records of the same ledger come in several batches, and only the highest is kept."""
    monkeypatch.setattr(reference_tables, "RECORDS_AT_ONCE", 0)
    for entries in order:
        write(run, topic(closed(8, 1), closed(7, entries)), ledgers=())
    write(run, topic(closed(8, 2)), ledgers=(7, 8))
    assert ([7] if max(order) > 10 else []) == suspect_ids(run).tolist()


def test_the_version_of_a_schema_is_not_a_number_of_entries(run: Place) -> None:
    """Version 50 of the schema is in entry 1."""
    schemas = (SchemaVersion(50, Position(7, 1)),)
    write(run, replace(topic(closed(7, 10), DataLedger(8)), schemas=schemas), ledgers=(7, 8))
    assert [] == suspect_ids(run).tolist()


def test_only_the_first_look_says_how_many_entries_were_recorded(run: Place) -> None:
    """At the second look each ledger is read with its own end."""
    write(run, topic(closed(7)), ledgers=(7,))
    write(run, topic(closed(7, 11)), look=2)
    assert [] == suspect_ids(run).tolist()


def test_recorded_entries_are_exact_beside_ledgers_of_which_none_are_recorded(run: Place) -> None:
    """The number is too large for a floating-point number to hold exactly."""
    entries = 2**53 + 3
    write(run, topic(closed(7, entries), DataLedger(8)))
    whole = replace(WHOLE, last_entry_id=entries - 1)
    record = LedgerRecord(7, 1, 5, RecordStatus.FOUND, ZnodeStamp(1, 0, 0), whole)
    run.write_table("evidence/ledgers", table(LEDGERS, [ledger_row(record)]), "long")
    assert [] == suspect_ids(run).tolist()


NOW_MS, ORPHAN_AGE_MS = 1_000_000, 1_000
PULSARS = {"application": b"pulsar"}


def write_old(
    run: Place,
    *ledgers: int,
    custom: Mapping[str, bytes] = PULSARS,
    look: int = 1,
    created_ms: int = NOW_MS - ORPHAN_AGE_MS - 1,
) -> None:
    """Write ledgers with this custom metadata, by default just old enough for orphans."""
    metadata = replace(WHOLE, custom_metadata=tuple(custom.items()), ctime_ms=created_ms)
    stamp = ZnodeStamp(1, 0, created_ms)
    rows = [
        ledger_row(LedgerRecord(one, look, 5, RecordStatus.FOUND, stamp, metadata))
        for one in ledgers
    ]
    run.write_table("evidence/ledgers", table(LEDGERS, rows), f"{ledgers[0]}-{look}")


def find_unreferenced(run: Place) -> list[tuple[int, int]]:
    """Return the ledgers that are found, each with the look that found it."""
    terms = Terms(NOW_MS, 0, 0, 2, orphan_age_ms=ORPHAN_AGE_MS)
    return [(one.ledger_id, one.look) for one in unreferenced_ledgers(run, terms)]


def test_a_ledger_of_pulsar_is_unreferenced_if_no_topic_names_it_at_the_first_look(
    run: Place,
) -> None:
    """Ledgers of other applications and deleted references do not count, nor the second look at
    topics or ledgers.
    """
    write(run, topic(closed(3), closed(4, deleted=True)))
    write(run, topic(closed(6)), look=2)
    write_old(run, 3, 4, 5, 6)
    write_old(run, 5, look=2)
    write_old(run, 7, custom={"application": b"other"})
    write_old(run, 8, custom={})
    write_old(run, 9, custom={**PULSARS, "component": b"schema"})
    assert [(5, 1), (6, 1), (9, 1)] == find_unreferenced(run)


def test_an_orphan_is_older_than_the_orphan_age(run: Place) -> None:
    """A ledger of exactly that age is not an orphan."""
    write(run, topic())
    write_old(run, 3, created_ms=NOW_MS - ORPHAN_AGE_MS)
    write_old(run, 4)
    assert [(4, 1)] == find_unreferenced(run)


def test_unreferenced_ledgers_are_found_however_many_are_read_at_a_time(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is found once, ascending. Two of five are read at a time."""
    monkeypatch.setattr(reference_tables, "LEDGERS_AT_ONCE", 2)
    write(run, topic(closed(4)))
    write_old(run, 9, 3, 5)
    write_old(run, 4, 8, 2)
    assert [(one, 1) for one in (2, 3, 5, 8, 9)] == find_unreferenced(run)


def test_no_ledger_was_read_again_where_no_table_was_written(run: Place) -> None:
    """No ledger was in question."""
    assert [] == ids_read_again(run).tolist()


def test_only_the_second_look_counts_as_reading_again(run: Place) -> None:
    """The ids ascend, each once."""
    rows = [
        LedgerRecord(n, look, 5, RecordStatus.GONE) for n, look in ((7, 1), (9, 2), (8, 2), (9, 2))
    ]
    run.write_table("evidence/referenced_ledgers", table(LEDGERS, map(ledger_row, rows)), "all")
    assert [8, 9] == ids_read_again(run).tolist()


UNREADABLE, GONE, FOUND = RecordStatus.UNREADABLE, RecordStatus.GONE, RecordStatus.FOUND


def write_looks(run: Place, name: str, *looks: tuple[int, int, RecordStatus]) -> None:
    """Write records of ledgers from (ledger, look, status)."""
    rows = [ledger_row(LedgerRecord(n, look, 5, status)) for n, look, status in looks]
    run.write_table(f"evidence/{name}", table(LEDGERS, rows), "looks")


def test_a_ledger_counts_as_unknown_by_the_newest_look_of_the_run(run: Place) -> None:
    """Only the given ids are looked up."""
    write_looks(
        run, "ledgers",
        (7, 1, UNREADABLE), (7, 2, GONE), (8, 2, UNREADABLE), (8, 1, FOUND), (9, 1, UNREADABLE),
        (5, 1, RecordStatus.MALFORMED),
    )  # fmt: skip
    assert {5, 8} == counted_ids(run, np.array([5, 7, 8, 6]))
    assert frozenset() == counted_ids(run, np.array([], np.int64))


def test_the_first_look_of_the_run_counts_for_a_reference_and_the_second_does_not(
    run: Place,
) -> None:
    """The second look of the run did not read the references once more."""
    write_looks(run, "ledgers", (7, 1, FOUND), (7, 2, GONE), (9, 1, GONE))
    write_looks(run, "referenced_ledgers", (8, 1, GONE), (8, 2, GONE), (9, 2, UNREADABLE))
    asked = np.array([7, 8])
    assert {7: FOUND, 8: GONE} == {n: one.status for n, one in records_at(run, 1, asked).items()}
    assert {8: (2, GONE)} == {
        n: (one.look, one.status) for n, one in records_at(run, 2, asked).items()
    }


def test_topics_name_a_ledger_by_what_they_had_at_the_first_look(run: Place) -> None:
    """Each topic comes once, sorted. Topics that name only other ledgers are left out."""
    write(run, topic(closed(7), closed(8), name="u"), topic(closed(8), name="t"))
    write(run, topic(closed(9), name="v"), topic(closed(7), name="w"), look=2)
    named = [f"persistent://public/default/{name}" for name in "tu"]
    assert named == [str(one) for one in topics_naming(run, np.array([7, 8, 9]))]
    assert named[1:] == [str(one) for one in topics_naming(run, np.array([7]))]


def test_only_the_given_topics_are_read(run: Place) -> None:
    """They are read at each look. A cluster may have millions of topics."""
    first = topic(closed(7), name="t"), topic(closed(8), name="u"), topic(closed(9), name="v")
    again = topic(closed(5), name="t")
    write(run, *first)
    write(run, again, look=2)
    asked = [first[0].topic, first[2].topic]
    assert [(1, first[0]), (2, again), (1, first[2])] == looks_at(run, asked)


def test_a_namespace_is_known_if_a_topic_was_found_there_at_the_first_look(run: Place) -> None:
    """A partition without a znode is not a topic that was found. A namespace of which some
    partitions may be missed is in doubt. The second look counts for both.
    """
    gone = replace(topic(), topic=parse_topic("public/gone/t"), status=TopicStatus.MISSING)
    later = replace(topic(), topic=parse_topic("public/later/t"))
    write(run, topic(), gone)
    write(run, later, look=2)
    lone = [parse_topic(f"public/lone/t-partition-{n}") for n in (0, 1)]
    rows = [partition_row(lone[one], look, 5) for one, look in ((1, 1), (0, 2), (1, 2))]
    rows += [partition_problem_row(2, 5, "shut", "public/shut")]
    run.write_table("evidence/references", table(REFERENCES, rows), "partitions")
    assert lone == lone_partitions(run)
    assert ["public/shut"] == partitions_in_doubt(run).to_pylist()
    default, shut = [("public", "", name) for name in ("default", "shut")]
    assert KnownTopics({default}, {shut}, False, set(lone)) == known_topics(run)


def test_tables_without_a_file_have_no_rows(tmp_path: Path) -> None:
    """Spark writes no file for a table without rows. Ids have 64 bits nevertheless."""
    run = place(str(tmp_path))
    for name in ("ledgers", "listing", "references", "referenced_ledgers"):
        Path(run.path, "evidence", name).mkdir(parents=True)
    some = np.array([7])
    for found in (unlisted_ids(run), referenced_ids(run), suspect_ids(run), ids_read_again(run)):
        assert (np.int64, []) == (found.dtype, found.tolist())
    assert [] == find_unreferenced(run) == topics_naming(run, some)
    assert ({}, frozenset()) == (records_at(run, 1, some), counted_ids(run, some))

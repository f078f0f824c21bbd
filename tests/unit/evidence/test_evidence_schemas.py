"""What the written tables may hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields

import pyarrow as pa
import pytest

from auditor.evidence import schemas
from auditor.model.availability import Answer, EntryRead
from auditor.model.cluster import BookieRecord
from auditor.model.ledger import LedgerMetadata, LedgerRecord, Malformed, Mark, Segment
from auditor.model.verdict import Verdict

TABLES = {name: schema for name, schema in vars(schemas).items() if isinstance(schema, pa.Schema)}
SECRET = re.compile(
    r"pass|secret|token|credential|private|master|sasl|raw|bytes$|content|payload|body"
)
COUNTED_IN_BYTES = {
    *("size_bytes", "length_bytes", "offset_bytes", "received_bytes"),
    *("total_bytes", "free_bytes", "read_bytes"),
}


def names(kind: pa.Schema | pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Every column, however deep."""
    inner = (
        [kind.field(i) for i in range(kind.num_fields)]
        if isinstance(kind, pa.StructType)
        else list(kind)
    )
    for field in inner:
        yield field.name, field.type
        deep = field.type.value_type if isinstance(field.type, pa.ListType) else field.type
        if isinstance(deep, pa.StructType):
            yield from names(deep)


def test_every_table_is_here() -> None:
    """The contract's evidence, the verdicts, and what is gathered of a ledger."""
    assert {"LISTING", "LEDGERS", "ANSWERS", "READS", "BOOKIES", "VERDICTS", "SEEN"} <= set(TABLES)


@pytest.mark.parametrize("table", TABLES)
def test_no_table_has_a_column_for_a_secret_or_for_raw_bytes(table: str) -> None:
    """No password, key, credential; no metadata as it was read. Binary columns: the canonical
    groups, and custom metadata.
    """
    columns = list(names(TABLES[table]))
    assert [] == [
        name for name, _ in columns if SECRET.search(name) and name not in COUNTED_IN_BYTES
    ]
    binary = {
        name for name, kind in columns if pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    }
    assert binary <= {"groups", "value"}


@pytest.mark.parametrize(
    "noun",
    [
        Answer,
        EntryRead,
        BookieRecord,
        LedgerMetadata,
        LedgerRecord,
        Malformed,
        Mark,
        Segment,
        Verdict,
    ],
)
def test_no_noun_has_a_field_for_a_secret(noun: type) -> None:
    """What no value carries, no table can hold."""
    names = {field.name for field in fields(noun)} - COUNTED_IN_BYTES
    assert [] == [name for name in names if SECRET.search(name)]


@pytest.mark.parametrize("table", TABLES)
def test_ids_times_and_counts_have_room(table: str) -> None:
    """Ids, entry ids and times are 64 bits wide in every table."""
    wide = re.compile(r"ledger_id|entry_id|_ms$|_bytes$|czxid")
    assert [] == [
        name for name, kind in names(TABLES[table]) if wide.search(name) and kind != pa.int64()
    ]


@pytest.mark.parametrize("table", TABLES)
def test_column_names_are_unique_and_lower_case(table: str) -> None:
    """Spark does not tell `Look` from `look`."""
    column_names = TABLES[table].names
    assert len(column_names) == len({name.lower() for name in column_names})
    assert all(re.fullmatch(r"[a-z_0-9]+", name) for name, _ in names(TABLES[table]))


def test_a_table_of_what_zookeeper_said_counts_the_reads_behind_its_own_columns() -> None:
    """Rows of the table itself fit as they are."""
    assert [*schemas.LISTING, *schemas.READ_COUNTS] == [*schemas.with_read_counts(schemas.LISTING)]


def test_a_pace_follows_the_columns_of_a_table() -> None:
    """Rows with one are those without and one cell more."""
    assert [*schemas.READS, schemas.PACE] == list(schemas.with_pace(schemas.READS))

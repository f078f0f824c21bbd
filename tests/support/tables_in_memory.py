"""The tables of a run's directory in memory, as the end of a run reads them.

A cluster has millions of ledgers. The end of a run may scan their rows, and may hold only those
that a filter keeps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from auditor.evidence.schemas import ANSWERS, LEDGERS, READS, REFERENCES
from auditor.model.identity import LedgerId

LARGE = frozenset(
    {"evidence/answers", "evidence/ledgers", "evidence/listing_again", "evidence/reads"}
)
"""Tables with rows for every ledger that must never be held as a whole. The run holds the listing's
ids only.
"""


@dataclass
class Tables:
    """A substitute for a Place. Raises AssertionError if more is read than memory may hold."""

    tables: dict[str, pa.Table] = field(default_factory=dict)
    uri: str = "memory"
    asked: list[str] = field(default_factory=list)
    """The tables that were read, in order."""

    def read_table(
        self, name: str, schema: pa.Schema, keep: Any = None, columns: list[str] | None = None
    ) -> pa.Table:
        assert keep is not None or name not in LARGE, f"all of {name} is held at once"
        is_of_few = f"is_in({'topic' if schema is REFERENCES else 'ledger_id'}" in str(keep)
        is_wide = schema in (ANSWERS, LEDGERS, READS, REFERENCES)
        assert columns is not None or is_of_few or not is_wide, f"every column of {name} is held"
        return _kept(self._rows(name, schema), keep).select(columns or schema.names)

    def stream(
        self, name: str, schema: pa.Schema, columns: list[str], words: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        assert columns, f"every column of {name} is read"
        yield from self._rows(name, schema).select(columns).to_batches()

    def scan(self, name: str, schema: pa.Schema, _words: Sequence[str] = ()) -> RowsOfLedgers:
        return RowsOfLedgers(self, name, schema)

    def count(self, name: str, schema: pa.Schema, keep: Any = None) -> int:
        return int(_kept(self._rows(name, schema), keep).num_rows)

    def has_table(self, name: str) -> bool:
        return name in self.tables

    def has_file(self, name: str) -> bool:
        """Return False: a table is not in files."""
        return False

    def files_in(self, *_names: str) -> set[str]:
        """Return no file: a table is not in files."""
        return set()

    def write_table(self, name: str, rows: pa.RecordBatch | pa.Table, _file_name: str) -> None:
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        self.tables[name] = (
            pa.concat_tables([self.tables[name], table]) if name in self.tables else table
        )

    def _rows(self, name: str, schema: pa.Schema) -> pa.Table:
        self.asked.append(name)
        written = self.tables.get(name, schema.empty_table())
        for missing in {*schema.names} - {*written.column_names}:
            written = written.append_column(
                schema.field(missing), pa.nulls(written.num_rows, schema.field(missing).type)
            )
        return written.select(schema.names)


@dataclass
class RowsOfLedgers:
    """A substitute for a TableScan: it gives batches, or the rows of named ledgers alone."""

    tables: Tables
    name: str
    schema: pa.Schema

    def tables_of_ledgers(
        self, ledgers: Sequence[LedgerId], columns: list[str]
    ) -> Iterator[pa.Table]:
        if len(ledgers):
            keep = ds.field("ledger_id").isin(list(ledgers))
            yield self.tables.read_table(self.name, self.schema, keep).select(columns)

    @property
    def rows(self) -> ds.Dataset:
        """No file: what is read comes from the methods."""
        return ds.dataset(self.schema.empty_table())

    def check_types(self) -> None:
        """Do nothing: rows in memory have the types of their schema."""

    def parts_with(self, *_columns: str) -> RowsOfLedgers:
        """Return all rows: they are in no file."""
        return self

    def table(self, columns: list[str], keep: Any = None) -> pa.Table:
        return self.tables.read_table(self.name, self.schema, keep, columns)

    def count(self) -> int:
        return self.tables.count(self.name, self.schema)

    def batches(self, columns: list[str], keep: Any = None) -> Iterator[pa.RecordBatch]:
        if keep is None:
            yield from self.tables.stream(self.name, self.schema, columns)
            return
        rows = self.tables.read_table(self.name, self.schema, keep, self.schema.names)
        yield from rows.select(columns).to_batches()


def _kept(rows: pa.Table, keep: Any) -> pa.Table:
    """Return the rows that `keep` keeps. Scanning a dataset would start threads for each of these
    small tables.
    """
    return rows if keep is None or not rows.num_rows else rows.filter(keep)

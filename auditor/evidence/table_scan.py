"""Read a table again for each use, column by column and batch by batch, never all of it at once."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeGuard

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from auditor.errors import OutputError
from auditor.evidence.rows import rows_of
from auditor.model.identity import LedgerId

BATCH_ROWS = 16_384
"""Rows in one batch. The longest rows, those with findings, have some kilobytes."""
BATCHES_AHEAD = 2
"""Batches read ahead of the one in use. pyarrow's default, 16 batches of 131,072 rows, is a large
table."""

FILES_AHEAD = 2
"""Files read ahead. pyarrow's default of 4 holds the batches of each. With 1, the scan would wait
for every file of a remote file system."""

FILES_AT_ONCE = 4
"""Files in one scan. Where they are decoded faster than their rows are used, pyarrow holds more of
them the more there are, whatever is read ahead."""

TABLE_BYTES_MAX = 16 * 2**30
"""At most this many bytes of a table are held at once: 160 for each of 100 million ledgers. A
file's size says little: a few kilobytes on disk can hold any number of nulls."""

LEDGERS_AT_ONCE = 10_000
"""Ledgers looked up in a table at once. This bounds the expression that filters them."""
ROWS_AS_VALUES_MAX = 10_000
"""At most this many rows are held as values by `iterate_rows`. Values take far more room than
columns."""

_LINE_END = re.compile(r"\n|\\n")
"""The end of a line. hdfs-native writes a backslash and an n in its place."""


@dataclass(frozen=True, slots=True)
class TableScan:
    """A written table, or rows in memory. `name` is for errors.

    Each method reads the requested columns, and those of `keep`. Raises OutputError.
    """

    name: str
    rows: ds.Dataset

    def table(self, columns: Sequence[str], keep: ds.Expression | None = None) -> pa.Table:
        """Return the named columns of all rows that `keep` selects.

        Raises OutputError above TABLE_BYTES_MAX.
        """
        rows = self.table_within(TABLE_BYTES_MAX, columns, keep)
        if rows is None:
            raise OutputError(
                f"{self.name} has more than {TABLE_BYTES_MAX} bytes in memory: no more is held of"
                " one table"
            )
        return rows

    def table_within(
        self, bytes_max: int, columns: Sequence[str], keep: ds.Expression | None = None
    ) -> pa.Table | None:
        """Return the rows as `table` does; None if they have more than `bytes_max` bytes.

        Holds FILES_AHEAD files beside them while it reads: row groups are decoded as a whole,
        whatever few of their rows `keep` selects.
        """
        batches, size_bytes = [], 0
        with file_errors(f"read {self.name}"):
            self._check_types(keep)
            for batch in self.rows.to_batches(
                columns=list(columns),
                filter=keep,
                batch_readahead=BATCHES_AHEAD,
                fragment_readahead=FILES_AHEAD,
            ):
                size_bytes += batch.nbytes
                if size_bytes > bytes_max:
                    return None
                batches.append(batch)
            return pa.Table.from_batches(
                batches, pa.schema([self.rows.schema.field(name) for name in columns])
            )

    def whole_within(self, bytes_max: int) -> pa.Table | None:
        """Return all rows with all columns; None if they have more than `bytes_max` bytes.

        Holds one row group more than that: a scan that reads ahead holds hundreds of MiB of them,
        where ledgers have kilobytes of custom metadata.
        """
        groups, size_bytes = [], 0
        with file_errors(f"read {self.name}"):
            for fragment in self.rows.get_fragments():
                for group in fragment.split_by_row_group() if is_parquet(fragment) else [fragment]:
                    groups.append(group.to_table(schema=self.rows.schema))
                    size_bytes += groups[-1].nbytes
                    if size_bytes > bytes_max:
                        return None
            return pa.concat_tables(groups) if groups else self.rows.schema.empty_table()

    def batches(
        self, columns: Sequence[str], keep: ds.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the named columns of the rows that `keep` selects.

        Holds BATCHES_AHEAD batches of FILES_AHEAD files, and at most FILES_AT_ONCE files.
        """
        with file_errors(f"read {self.name}"):
            self._check_types(keep)
            for rows in self._portions():
                yield from rows.to_batches(
                    columns=list(columns),
                    filter=keep,
                    batch_size=BATCH_ROWS,
                    batch_readahead=BATCHES_AHEAD,
                    fragment_readahead=FILES_AHEAD,
                )

    def _portions(self) -> Iterator[ds.Dataset]:
        """Yield the rows in parts of at most FILES_AT_ONCE files, in order."""
        if not isinstance(self.rows, ds.FileSystemDataset):
            yield self.rows
            return
        fragments, known = list(self.rows.get_fragments()), self.rows
        for start in range(0, len(fragments), FILES_AT_ONCE):
            part = fragments[start : start + FILES_AT_ONCE]
            yield ds.FileSystemDataset(part, known.schema, known.format, known.filesystem)

    def parts_with(self, *columns: str) -> TableScan:
        """Return the rows of those parts of files that may have a value in one of these columns.

        An empty list does not count as a value. Arrow itself looks at what a file says of its
        values for plain columns only. Costs reading the end of each file, which the scan does not
        repeat.
        """
        if not isinstance(self.rows, ds.FileSystemDataset):
            return self
        known, found = self.rows, []
        with file_errors(f"read {self.name}"):
            for part in known.get_fragments():
                if not is_parquet(part):
                    found.append(part)
                elif groups := _groups_with(part.metadata, columns):
                    found.append(part.subset(row_group_ids=groups))
            return TableScan(
                self.name, ds.FileSystemDataset(found, known.schema, known.format, known.filesystem)
            )

    def tables_of_ledgers(
        self, ledger_ids: Sequence[LedgerId] | pa.Array, columns: Sequence[str]
    ) -> Iterator[pa.Table]:
        """Yield the named columns of these ledgers' rows, one table for every LEDGERS_AT_ONCE of
        them.
        """
        for start in range(0, len(ledger_ids), LEDGERS_AT_ONCE):
            yield self.table(columns, are_of(ledger_ids[start : start + LEDGERS_AT_ONCE]))

    def count(self, keep: ds.Expression | None = None) -> int:
        """Return how many rows `keep` selects."""
        with file_errors(f"read {self.name}"):
            self._check_types(keep)
            return int(self.rows.count_rows(filter=keep))

    def _check_types(self, keep: ds.Expression | None) -> None:
        if keep is not None:
            self.check_types()

    def check_types(self) -> None:
        """Raise OutputError if a row group's columns contradict the file's schema.

        Arrow 26 reads the statistics of such a column in a thread, where rows are filtered, and
        ends the process. Costs reading the end of each file, which the scan does not repeat.
        """
        with file_errors(f"read {self.name}"):
            for fragment in self.rows.get_fragments():
                wrong = other_types(fragment.metadata) if is_parquet(fragment) else ""
                if wrong:
                    raise OutputError(f"cannot read {self.name}: {fragment.path} {wrong}")


def is_parquet(fragment: ds.Fragment) -> TypeGuard[ds.ParquetFileFragment]:
    """Return whether the rows are in a file, not in memory."""
    return isinstance(fragment, ds.ParquetFileFragment)


def _groups_with(metadata: pq.FileMetaData, columns: Sequence[str]) -> list[int]:
    """Return the row groups that may have a value in one of these columns."""
    paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    mine = [number for number, path in enumerate(paths) if path.split(".")[0] in columns]
    return [
        group
        for group in range(metadata.num_row_groups)
        if any(_may_have_values(metadata.row_group(group).column(number)) for number in mine)
    ]


def _may_have_values(column: pq.ColumnChunkMetaData) -> bool:
    said = column.statistics
    return said is None or not said.has_null_count or said.null_count < column.num_values


def other_types(metadata: pq.FileMetaData) -> str:
    """Return which column has another type in a row group, as the end of a sentence, or ""."""
    columns = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    for group in range(metadata.num_row_groups):
        chunks = metadata.row_group(group)
        for number, column in enumerate(columns):
            found = chunks.column(number).physical_type
            if found != column.physical_type:
                return f"says {found} and {column.physical_type} of its column {column.path}"
    return ""


_WORD = pa.dictionary(pa.int32(), pa.string())


def with_dictionaries(
    schema: pa.Schema, words: Collection[str]
) -> tuple[pa.Schema, ds.ParquetFileFormat]:
    """Return a schema in which the strings of these columns are numbers of a dictionary, and the
    format that reads them so from files of `schema`.

    Files have each distinct string once. Making a string for each row takes most of the time.
    """
    columns = [schema.field(name) for name in words]
    paths = [path for field in columns for path in string_paths(field.type, field.name)]
    fields = [one.with_type(_numbered(one.type)) if one.name in words else one for one in schema]
    return pa.schema(fields), ds.ParquetFileFormat(dictionary_columns=paths)


def _numbered(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind):
        return _WORD
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_numbered(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_numbered(field.type)) for field in kind])
    return kind


def string_paths(kind: pa.DataType, path: str) -> Iterator[str]:
    """Yield the columns of a Parquet file in which the strings of a column are."""
    if pa.types.is_string(kind):
        yield path
    elif pa.types.is_list(kind):
        yield from string_paths(kind.value_type, f"{path}.list.element")
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from string_paths(field.type, f"{path}.{field.name}")


def are_of(ledger_ids: Sequence[LedgerId] | pa.Array) -> ds.Expression:
    """Return a filter for the rows of these ledgers, at least one.

    It states their bounds too: the parts of files that are outside are then not decoded.
    """
    ids = ledger_ids if isinstance(ledger_ids, pa.Array) else pa.array(ledger_ids, pa.int64())
    low, high = pc.min_max(ids).values()
    ledger_id = pc.field("ledger_id")
    return (ledger_id >= low) & (ledger_id <= high) & ledger_id.isin(ids)


@dataclass(frozen=True, slots=True)
class HeldRows(TableScan):
    """Rows that this process holds. Nothing is copied of them if all are selected."""

    held: pa.Table

    def table_within(
        self, bytes_max: int, columns: Sequence[str], keep: ds.Expression | None = None
    ) -> pa.Table | None:
        """Return the rows as `table` does; None if they have more than `bytes_max` bytes."""
        found = self.held.select(columns)
        if keep is not None:
            with file_errors(f"read {self.name}"):
                mask = self.rows.to_table(columns={"is_kept": keep})["is_kept"]
                found = rows_of(found, mask)
        return found if found.nbytes <= bytes_max else None


def scan_rows(rows: pa.Table, name: str = "rows in memory") -> TableScan:
    """Return a scan of rows that this process holds."""
    return HeldRows(name, ds.dataset(rows), rows)


def iterate_rows(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the rows one by one. Holds at most ROWS_AS_VALUES_MAX of them as values."""
    for batch in rows.to_batches(max_chunksize=ROWS_AS_VALUES_MAX):
        yield from batch.to_pylist()


@contextmanager
def file_errors(what: str) -> Iterator[None]:
    """Turn the exceptions of a file system into OutputError with a sentence.

    hdfs-native raises a plain RuntimeError. Its text ends with the name node's stack trace, which
    is left out. Subclasses of RuntimeError come from Python, and are let through.
    """
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise OutputError(f"cannot {what}: {error}") from error
    except RuntimeError as error:
        if type(error) is not RuntimeError:
            raise
        sentence = _LINE_END.split(str(error), maxsplit=1)[0]
        raise OutputError(f"cannot {what}: {sentence}") from error

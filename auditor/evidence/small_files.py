"""Small files of tables, decoded once and held.

A run over few ledgers reads the same tables, of a few kilobytes, some hundred times. Arrow needs
a millisecond to open and decode a file, whatever its size: a third of the time of such a run. Its
bytes are read each time, and rows are held by these: a file that was changed is another one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs
from pyarrow.acero import Declaration, ProjectNodeOptions, TableSourceNodeOptions

from auditor.evidence.rows import rows_of
from auditor.evidence.table_scan import (
    BATCH_ROWS,
    HeldRows,
    TableScan,
    file_errors,
    other_types,
    with_dictionaries,
)

FILES_MAX = 16
"""A table of more files is not held: it is large, or will be."""
FILE_BYTES_MAX = 32 * 2**10
"""Largest file that is held, in bytes. Those of the demo's ledgers have 10 to 20 KiB."""
ROWS_MAX = 1_000
"""Most rows of a file that is decoded: repeated texts take few bytes in its pages. A batch of a
scan has more rows."""
PAGES_BYTES_MAX = 256 * 2**10
"""Most bytes of a file's pages, uncompressed, for it to be decoded: rows of zeros take few bytes on
disk. Pages that large have more rows than are held."""
DECODED_BYTES_MAX = 128 * 2**10
"""Most bytes in memory of the rows of a file that is held."""
HELD_FILES_MAX = 64
"""Files held at once, those that were read last: at most 10 MiB, with their bytes."""


@dataclass(frozen=True, slots=True)
class SmallRows(HeldRows):
    """The rows of small files. Arrow starts no thread for them."""

    def table_within(
        self, bytes_max: int, columns: Sequence[str], keep: ds.Expression | None = None
    ) -> pa.Table | None:
        """Return the rows as `table` does; None if they have more than `bytes_max` bytes."""
        found = self._kept(columns, keep)
        return found if found.nbytes <= bytes_max else None

    def whole_within(self, bytes_max: int) -> pa.Table | None:
        """Return all rows with all columns; None if they have more than `bytes_max` bytes."""
        return self.held if self.held.nbytes <= bytes_max else None

    def batches(
        self, columns: Sequence[str], keep: ds.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the named columns of the rows that `keep` selects."""
        yield from self._kept(columns, keep).to_batches(BATCH_ROWS)

    def count(self, keep: ds.Expression | None = None) -> int:
        """Return how many rows `keep` selects."""
        return len(self._kept([], keep)) if keep is not None else len(self.held)

    def check_types(self) -> None:
        """Do nothing: they were checked when the files were decoded."""

    def _kept(self, columns: Sequence[str], keep: ds.Expression | None) -> pa.Table:
        found = self.held.select(columns)
        if keep is None:
            return found
        with file_errors(f"read {self.name}"):
            source = Declaration("table_source", TableSourceNodeOptions(self.held))
            project = Declaration("project", ProjectNodeOptions([keep], ["is_kept"]), [source])
            return rows_of(found, project.to_table(use_threads=False)["is_kept"])


def scan_small_files(
    name: str,
    files: fs.FileSystem,
    paths: Sequence[str],
    schema: pa.Schema,
    words: Collection[str] = (),
) -> TableScan | None:
    """Return the rows of files on a local disk; None if they are not small.

    None, too, for files that are not as a run writes them: a scan of these says what is wrong. The
    strings in the columns `words` are numbers of a dictionary. `name` is for errors.
    """
    if not isinstance(files, fs.LocalFileSystem) or not 0 < len(paths) <= FILES_MAX:
        return None
    wanted, dictionaries = _form_of(schema, tuple(words))
    found = []
    for path in paths:
        content = _content_of(path)
        rows = _decoded(content, dictionaries) if content else None
        if rows is None or not set(schema.names).issubset(rows.column_names):
            return None
        found.append(rows.select(schema.names))
    if any(rows.schema != wanted for rows in found):
        return None
    rows = pa.concat_tables(found)
    held = pa.Table.from_arrays(rows.columns, schema=wanted).combine_chunks()
    return SmallRows(name, ds.dataset(held), held)


def _content_of(path: str) -> bytes | None:
    """Return the bytes of a small file, None of another one."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a path that Arrow gave as text
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError:
        return None
    return content if len(content) <= FILE_BYTES_MAX else None


@lru_cache
def _form_of(schema: pa.Schema, words: tuple[str, ...]) -> tuple[pa.Schema, tuple[str, ...]]:
    """Return the schema of the rows, and the columns of text that are numbers of a dictionary."""
    wanted, form = with_dictionaries(schema, words)
    return wanted, tuple(sorted(form.read_options.dictionary_columns))


def _is_small(metadata: pq.FileMetaData) -> bool:
    """Return whether a file says that its rows are few and short."""
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    pages_bytes = sum(int(group.total_byte_size) for group in groups)
    return pages_bytes <= PAGES_BYTES_MAX and int(metadata.num_rows) <= ROWS_MAX


@lru_cache(HELD_FILES_MAX)
def _decoded(content: bytes, dictionaries: tuple[str, ...]) -> pa.Table | None:
    """Return the rows of a file of this content, None if they are many or damaged."""
    try:
        with pq.ParquetFile(pa.py_buffer(content), read_dictionary=list(dictionaries)) as file:
            if not _is_small(file.metadata):
                return None
            rows = file.read(use_threads=False)
            # Only now: pyarrow ends the process if it is asked about some damaged columns.
            if other_types(file.metadata):
                return None
    except (OSError, ValueError, pa.ArrowException):
        return None
    return rows if rows.nbytes <= DECODED_BYTES_MAX else None

"""A run's directory in memory, for an audit of few ledgers that leaves no files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs
from pyarrow.acero import Declaration, FilterNodeOptions, TableSourceNodeOptions

from auditor.errors import OutputError
from auditor.evidence.run_directory import Place
from auditor.evidence.table_scan import TableScan


@dataclass(frozen=True, slots=True)
class MemoryDirectory(Place):
    """A directory whose tables and files are values. Its file system is never used."""

    files: fs.FileSystem = field(default_factory=fs.LocalFileSystem)
    path: str = "memory"
    uri: str = "memory:"
    _tables: dict[str, pa.Table] = field(default_factory=dict)
    """By the path that the file would have."""
    _texts: dict[str, str] = field(default_factory=dict)

    def create(self) -> None:
        """Do nothing: a directory is there once it has a file."""

    def write_text(self, name: str, text: str) -> None:
        """Keep the text of a file."""
        self._texts[f"{self.path}/{name}"] = text

    def read_text(self, name: str) -> str | None:
        """Return the file's text, or None if there is no such file."""
        return self._texts.get(f"{self.path}/{name}")

    def scan(self, name: str, schema: pa.Schema) -> TableScan:
        """Return a written table, or one of its files. Raises OutputError if it does not exist."""
        return TableScan(f"{self.uri}/{name}", ds.dataset(self._rows_of(name, schema)))

    def read_table(
        self,
        name: str,
        schema: pa.Schema,
        keep: ds.Expression | None = None,
        columns: list[str] | None = None,
    ) -> pa.Table:
        """Return the rows of a written table that `keep` selects.

        `columns` are names of `schema` (None: all of them). No thread is started for so few rows.
        """
        rows = self._rows_of(name, schema)
        if keep is not None:
            source = Declaration("table_source", TableSourceNodeOptions(rows))
            keeping = Declaration("filter", FilterNodeOptions(keep), [source])
            rows = keeping.to_table(use_threads=False)
        return rows if columns is None else rows.select(columns)

    def stream(self, name: str, schema: pa.Schema, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield the named columns of a written table, or of one of its files."""
        yield from self.read_table(name, schema, None, columns).to_batches()

    def count(self, name: str, schema: pa.Schema, keep: ds.Expression | None = None) -> int:
        """Return how many rows of a written table `keep` keeps."""
        return len(self.read_table(name, schema, keep))

    def _rows_of(self, name: str, schema: pa.Schema) -> pa.Table:
        found = [self._tables[path] for path in self._paths(name)]
        if not found:
            raise OutputError(f"{self.uri}/{name} is not there")
        rows = (one.select(schema.names) for one in found)
        return pa.concat_tables(rows) if len(found) > 1 else next(rows)

    def write_table(self, name: str, rows: pa.RecordBatch | pa.Table, file_name: str) -> None:
        """Keep rows as one more file of a table."""
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        self._tables[f"{self.path}/{name}/{file_name}.parquet"] = table

    def write_stream(
        self, name: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema, file_name: str
    ) -> None:
        """Keep rows as one more file of a table. If `batches` raises, none is kept."""
        self.write_table(name, pa.Table.from_batches(list(batches), schema=schema), file_name)

    def has_table(self, name: str) -> bool:
        """Return whether there is a table of that name."""
        return any(path != f"{self.path}/{name}" for path in self._paths(name))

    def has_file(self, name: str) -> bool:
        """Return whether there is a file of that name."""
        path = f"{self.path}/{name}"
        return path in self._tables or path in self._texts

    def file_sizes(self, *names: str) -> dict[str, int]:
        """Return the rows of each table's files below the named directories, in place of bytes."""
        paths = (path for name in names for path in self._paths(name))
        return {path.removeprefix(f"{self.path}/"): len(self._tables[path]) for path in paths}

    def remove_file(self, name: str) -> None:
        """Forget a file. It must exist."""
        path = f"{self.path}/{name}"
        del (self._tables if path in self._tables else self._texts)[path]

    def remove(self, name: str) -> None:
        """Forget a table, if it exists."""
        for path in self._paths(name):
            del self._tables[path]

    def _paths(self, name: str) -> list[str]:
        """Return the files of a table, or the file itself, in the order of their names."""
        at = f"{self.path}/{name}"
        return sorted(path for path in self._tables if path == at or path.startswith(f"{at}/"))

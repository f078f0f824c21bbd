"""The directory of a run: its files and tables, on a local disk, in a store or in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs
from pyarrow.acero import Declaration, FilterNodeOptions, TableSourceNodeOptions

from auditor.errors import OutputError
from auditor.evidence.file_systems import is_object_store, open_file_system, refuse_secrets
from auditor.evidence.local_files import (
    find_files,
    find_table_files,
    is_table_file,
    is_uri,
    synchronise,
)
from auditor.evidence.small_files import scan_small_files
from auditor.evidence.table_scan import TableScan, file_errors, string_paths, with_dictionaries

TEXT_BYTES_MAX = 4 * 2**30
"""Largest JSON file of a run that is read, in bytes: a findings.jsonl of a million findings. A
sparse file takes no disk, but could fill the memory."""


def read_text_file(files: fs.FileSystem, path: str, name: str) -> str | None:
    """Return the text of a file, or None if it does not exist.

    Raises OutputError, which calls the file `name`, if it cannot be read, is not UTF-8, or has more
    than TEXT_BYTES_MAX: such a file is not opened.
    """
    with file_errors(f"read {name}"):
        info = files.get_file_info(path)
        if info.type is not fs.FileType.File:
            return None
        if (info.size or 0) > TEXT_BYTES_MAX:
            raise OutputError(
                f"{name} has {info.size} bytes, more than the {TEXT_BYTES_MAX} that are read of one"
                " file"
            )
        with files.open_input_stream(path) as stream:
            content = bytes(stream.read())
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise OutputError(f"{name} is not UTF-8 text (byte {error.start}): it is damaged") from None


LEVELS_MAX = 4
"""Levels of directories below OUTPUT: a run, its evidence, a table, and one to spare."""

_PATTERN = re.compile(r"[][{}*?\\]")


@dataclass(frozen=True, slots=True)
class Place:
    """A directory on a file system. `uri` is how Spark names it.

    A missing table is an error: a table that Spark wrote on another machine must not look like an
    empty one. Only a run that died may lack tables: pass `missing_is_empty` to read one.
    """

    files: fs.FileSystem
    path: str
    uri: str
    missing_is_empty: bool = False

    def __truediv__(self, name: str) -> Place:
        return replace(self, path=f"{self.path}/{name}", uri=f"{self.uri}/{name}")

    @property
    def address(self) -> str:
        """The local path or the URI by which commands name it."""
        return self.path if isinstance(self.files, fs.LocalFileSystem) else self.uri

    def create(self) -> None:
        """Create the directory if it does not exist."""
        make_directory(self)

    def write_text(self, name: str, text: str) -> None:
        """Write a file in one step: a reader sees either the whole old file or the whole new one.

        On a local disk this also holds after a loss of power: the file is synchronised before it
        gets its name.
        """
        if is_object_store(self.files):
            with (
                file_errors(f"write {self.uri}/{name}"),
                self.files.open_output_stream(f"{self.path}/{name}") as stream,
            ):
                stream.write(text.encode())
            return
        unnamed = f"{self.path}/.{name}.tmp"
        with file_errors(f"write {self.uri}/{name}"):
            with self.files.open_output_stream(unnamed) as stream:
                stream.write(text.encode())
            self._synchronise(unnamed)
            self.files.move(unnamed, f"{self.path}/{name}")
            self._synchronise(self.path)

    def _synchronise(self, path: str) -> None:
        """Flush a local file or directory to its disk. Other file systems do so when a stream
        ends.
        """
        if isinstance(self.files, fs.LocalFileSystem):
            synchronise(path)

    def read_text(self, name: str) -> str | None:
        """Return the file's text, or None if there is no such file.

        Raises OutputError if it is too large or not UTF-8.
        """
        return read_text_file(self.files, f"{self.path}/{name}", f"{self.uri}/{name}")

    def read_table(
        self,
        name: str,
        schema: pa.Schema,
        keep: ds.Expression | None = None,
        columns: list[str] | None = None,
    ) -> pa.Table:
        """Return the rows of a written table that `keep` selects.

        `columns` are names of `schema` (None: all of them).
        """
        return self.scan(name, schema).table(columns or schema.names, keep)

    def stream(
        self, name: str, schema: pa.Schema, columns: list[str], words: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Yield the named columns of a written table, or of one of its files, batch by batch.

        The strings in the columns `words` are numbers of a dictionary.
        """
        return self.scan(name, schema, words).batches(columns)

    def count(self, name: str, schema: pa.Schema, keep: ds.Expression | None = None) -> int:
        """Return how many rows of a written table `keep` keeps."""
        return self.scan(name, schema).count(keep)

    def scan(self, name: str, schema: pa.Schema, words: Collection[str] = ()) -> TableScan:
        """Return a written table, or one of its files, to be read in parts.

        The strings in the columns `words` are numbers of a dictionary. Raises OutputError if the
        table does not exist.
        """
        with file_errors(f"read {self.uri}/{name}"):
            return self._scan(name, schema, words)

    def _scan(self, name: str, schema: pa.Schema, words: Collection[str]) -> TableScan:
        whole_name = f"{self.uri}/{name}"
        found = self._table_files(f"{self.path}/{name}")
        if found is None:
            if self.missing_is_empty:
                return TableScan(whole_name, ds.dataset(schema.empty_table()))
            raise self._missing(name)
        if not found:
            return TableScan(whole_name, ds.dataset(schema.empty_table()))
        small = scan_small_files(whole_name, self.files, found, schema, words)
        if small is not None:
            return small
        schema, form = with_dictionaries(schema, words)
        rows = ds.dataset(found, filesystem=self.files, schema=schema, format=form)
        return TableScan(whole_name, rows)

    def _missing(self, name: str) -> OutputError:
        return OutputError(
            f"{self.uri}/{name} is not there, although it was written: where Spark's executors run"
            " on other machines, --output must be a place that all of them share"
        )

    def _table_files(self, path: str) -> list[str] | list[fs.FileInfo] | None:
        """Return the files of the table in a directory, or the file itself; None if it does not
        exist.

        Unless on a local disk, this costs one request.
        """
        if isinstance(self.files, fs.LocalFileSystem):
            is_there = self.files.get_file_info(path).type is not fs.FileType.NotFound
            return find_table_files(path) if is_there else None
        if path.endswith(".parquet"):
            info = self.files.get_file_info(path)
            return [info] if info.type is fs.FileType.File else None
        selector = fs.FileSelector(path, allow_not_found=True, recursive=True)
        infos = self.files.get_file_info(selector)
        if not infos and self.files.get_file_info(path).type is fs.FileType.NotFound:
            return None
        return [
            info
            for info in infos
            if info.type is fs.FileType.File and is_table_file(info.path.removeprefix(path))
        ]

    def write_table(self, name: str, rows: pa.RecordBatch | pa.Table, file_name: str) -> None:
        """Write rows that this process holds as one more file of a table."""
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        with file_errors(f"write {self.uri}/{name}"):
            make_directory(self / name)
            pq.write_table(
                table,
                f"{self.path}/{name}/{file_name}.parquet",
                filesystem=self.files,
                compression="zstd",
                use_dictionary=_texts_in(table.schema),
            )

    def write_stream(
        self, name: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema, file_name: str
    ) -> None:
        """Write rows as one more file of a table, batch by batch. If `batches` raises, no file is
        left.
        """
        file = f"{name}/{file_name}.parquet"
        with file_errors(f"write {self.uri}/{name}"):
            make_directory(self / name)
            writer = pq.ParquetWriter(
                f"{self.path}/{file}",
                schema,
                filesystem=self.files,
                compression="zstd",
                use_dictionary=_texts_in(schema),
            )
        try:
            for batch in batches:
                with file_errors(f"write {self.uri}/{name}"):
                    writer.write_batch(batch)
            with file_errors(f"write {self.uri}/{name}"):
                writer.close()
        except BaseException:
            with suppress(OSError, RuntimeError, pa.ArrowException):
                writer.close()
            with suppress(OutputError):
                self.remove_file(file)
            raise

    def has_table(self, name: str) -> bool:
        """Return whether there is a table of that name. Raises OutputError."""
        return self._type_of(name) is fs.FileType.Directory

    def require_table(self, name: str) -> None:
        """Raise OutputError if there is no table of that name."""
        if not self.has_table(name):
            raise self._missing(name)

    def has_file(self, name: str) -> bool:
        """Return whether there is a file of that name. Raises OutputError."""
        return self._type_of(name) is fs.FileType.File

    def _type_of(self, name: str) -> fs.FileType:
        with file_errors(f"read {self.uri}/{name}"):
            return self.files.get_file_info(f"{self.path}/{name}").type

    def files_in(self, *names: str) -> set[str]:
        """Return every file below the named directories, at any depth, by its path below this
        directory.
        """
        return set(self.file_sizes(*names))

    def file_sizes(self, *names: str) -> dict[str, int]:
        """Return the size in bytes of every file below the named directories, at any depth.

        Keys are paths below this directory.
        """
        found: dict[str, int] = {}
        with file_errors(f"list {self.uri}"):
            for name in names:
                if isinstance(self.files, fs.LocalFileSystem):
                    found.update(find_files(f"{self.path}/{name}"))
                    continue
                selector = fs.FileSelector(
                    f"{self.path}/{name}", allow_not_found=True, recursive=True
                )
                found.update(
                    (i.path, i.size)
                    for i in self.files.get_file_info(selector)
                    if i.type is fs.FileType.File
                )
        return {path.removeprefix(f"{self.path}/"): size for path, size in found.items()}

    def rename_file(self, name: str, to: str) -> None:
        """Give a file below this directory another name below it. No file has that name.

        Raises OutputError, also if the file is not there.
        """
        try:
            with file_errors(f"write {self.uri}/{to}"):
                self.files.move(f"{self.path}/{name}", f"{self.path}/{to}")
        except OutputError as error:
            if self.has_file(name):
                raise
            raise self._missing(name) from error

    def remove_file(self, name: str) -> None:
        """Remove a file below this directory. It must exist."""
        with file_errors(f"remove {self.uri}/{name}"):
            self.files.delete_file(f"{self.path}/{name}")

    def remove(self, name: str) -> None:
        """Remove a directory below this one, if it exists."""
        with file_errors(f"remove {self.uri}/{name}"):
            if self.files.get_file_info(f"{self.path}/{name}").type is fs.FileType.Directory:
                self._delete_directory(f"{self.path}/{name}")

    def _delete_directory(self, path: str) -> None:
        """Delete a directory, level by level if the store cannot do it at once.

        An S3 server over a POSIX file system refuses to delete a directory in one request with the
        files in it.
        """
        for _ in range(LEVELS_MAX if is_object_store(self.files) else 0):
            with suppress(OSError):
                self.files.delete_dir(path)
                return
        self.files.delete_dir(path)


def _texts_in(columns: pa.Schema) -> list[str]:
    """Return Parquet's names of the columns of text: those that are worth a dictionary.

    Ids, times and counts hardly repeat. With dictionaries a ledger takes 17 bytes, without them 6.
    """
    return [path for column in columns for path in string_paths(column.type, column.name)]


def make_directory(directory: Place) -> None:
    """Create a directory if it does not exist. Does nothing in an object store, which has none."""
    if not is_object_store(directory.files):
        with file_errors(f"write to {directory.uri}"):
            directory.files.create_dir(directory.path)


def place(text: str) -> Place:
    """Return the directory named by a local path or a URI.

    Raises OutputError for a URI of an unknown file system or with secrets, and for a name that is
    not valid UTF-8.
    """
    if is_uri(text):
        refuse_secrets(text)
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise OutputError(
            f"{text} is not valid UTF-8, in which Parquet and Spark name files: use another path"
        )
    if _PATTERN.search(text if is_uri(text) else str(Path(text).absolute())):
        raise OutputError(
            f"{text} has a character that Spark takes for a pattern (one of []{{}}*?\\): use"
            " another path"
        )
    if not is_uri(text):
        path = str(Path(text).absolute())
        return Place(fs.LocalFileSystem(), path, f"file://{path}")
    with file_errors(f"use {text}"):
        files, path = open_file_system(text)
        return Place(files, path, text.rstrip("/"))


def write_ledger_files(run: Place, files: Mapping[str, npt.NDArray[np.int64]]) -> None:
    """Write ledger ids to the named files, one a line, as --ledgers-from reads them.

    Without files, no directory is created.
    """
    for name, ids in files.items():
        folder, _, file = name.rpartition("/")
        (run / folder).create()
        (run / folder).write_text(file, "".join(f"{ledger_id}\n" for ledger_id in ids.tolist()))


def write_json(run: Place, name: str, value: Mapping[str, Any]) -> None:
    """Write a JSON object to a file, indented for people."""
    run.write_text(name, json.dumps(value, indent=2, allow_nan=False) + "\n")


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

    def scan(self, name: str, schema: pa.Schema, words: Collection[str] = ()) -> TableScan:
        """Return a written table, or one of its files. Raises OutputError if it does not exist.

        Its strings stay strings: they are values already.
        """
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

    def stream(
        self, name: str, schema: pa.Schema, columns: list[str], words: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Yield the named columns of a written table, or of one of its files.

        Its strings stay strings.
        """
        yield from self.read_table(name, schema, None, columns).to_batches()

    def count(self, name: str, schema: pa.Schema, keep: ds.Expression | None = None) -> int:
        """Return how many rows of a written table `keep` keeps."""
        return len(self.read_table(name, schema, keep))

    def _rows_of(self, name: str, schema: pa.Schema) -> pa.Table:
        found = [self._tables[path] for path in self._paths(name)]
        if not found:
            raise OutputError(f"{self.uri}/{name} is not there")
        rows = (table.select(schema.names) for table in found)
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

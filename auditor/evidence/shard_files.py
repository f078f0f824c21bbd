"""Find the files of a run's tables that may have rows of a shard.

Every stage adds files for one shard to a table. A table of a large run has thousands of them, and a
reader that opens all of them for each shard takes time that grows with the square of the ledgers.
Files never change: the end of each, which says between which ledger ids its rows are, is read once.

The stages of a shard read the same files one after the other. The rows of these are held, so that
each file is decoded once, not by each stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from auditor.evidence.ids import EVERYTHING, Shard
from auditor.evidence.local_files import is_table_file
from auditor.evidence.run_directory import MemoryDirectory, Place
from auditor.evidence.schemas import LEDGERS
from auditor.evidence.small_files import scan_small_files
from auditor.evidence.table_scan import TableScan, file_errors, scan_rows
from auditor.model.identity import LEDGER_ID_MAX, LedgerId

Span: TypeAlias = tuple[LedgerId, LedgerId]
"""The lowest and the highest ledger id of some rows."""
_ANY: Span = (0, LEDGER_ID_MAX)


HELD_BYTES_MAX = 160 * 2**20
"""Rows of files are held up to so many bytes: those of a shard of 200,000 ledgers on three bookies
take 90 MiB. The rows of files that have more together are decoded by each scan."""
NULLS_AT_ONCE = 65_536
"""Rows for which a column without a value has memory. With fewer, rows would come in many parts."""
SHARDS_HELD = 2
"""Rows are held of so many shards: of that in work, and of the next, which Spark is asked about
meanwhile."""
ROW_BYTES_MIN = 64
"""Files are not decoded to be held if so many bytes a row are more than HELD_BYTES_MAX."""


class _End(NamedTuple):
    """What the end of a file says: between which ledger ids its rows are, and their number."""

    span: Span | None
    rows: int


@dataclass(slots=True)
class ShardFiles:
    """The files of one run. They are only added to, or removed.

    `holds`: the rows that were scanned last are held, up to HELD_BYTES_MAX, until `release`, or
    until SHARDS_HELD other shards were begun.
    """

    run: Place
    holds: bool = False
    _ends: dict[str, _End] = field(default_factory=dict)
    _held: dict[str, pa.Table] = field(default_factory=dict)
    """The rows of files, those that were scanned last at the end."""
    _begun: list[Shard] = field(default_factory=list)
    """The SHARDS_HELD shards that were begun last."""
    _too_large: set[str] = field(default_factory=set)
    """Files that were found to have too many bytes, alone or with others."""

    def of(self, table: str, shard: Shard) -> list[str]:
        """Return the files of a table that may have rows of the shard's ledgers, sorted.

        They are named by their paths below the run's directory. Rows without a ledger id do not
        count. Costs a listing of the table, and reading the end of each file that is new. Raises
        OutputError.
        """
        self._begin(shard)
        files = self.run.files_in(table)
        return [
            file
            for file in sorted(files)
            if file.endswith(".parquet") and is_table_file(file) and self._may_have(file, shard)
        ]

    def scan(self, table: str, schema: pa.Schema, shard: Shard) -> TableScan:
        """Return a table, without the files that have no row of the shard's ledgers.

        A table is always scanned with the same schema. Raises OutputError.
        """
        if shard.is_all:
            return self.run.scan(table, schema)
        return self.scan_files(table, schema, self.of(table, shard))

    def scan_files(self, table: str, schema: pa.Schema, files: Sequence[str]) -> TableScan:
        """Return some files of a table, as `of` names them. Raises OutputError."""
        if not files:
            return scan_rows(schema.empty_table())
        name = f"{self.run.uri}/{table}"
        held = self._hold(files, schema) if self.holds else None
        if held is not None:
            return scan_rows(held, name)
        paths = [f"{self.run.path}/{file}" for file in files]
        small = scan_small_files(name, self.run.files, paths, schema)
        if small is not None:
            return small
        with file_errors(f"read {name}"):
            rows = ds.dataset(paths, filesystem=self.run.files, schema=schema, format="parquet")
            return TableScan(name, rows)

    def release(self) -> None:
        """Hold no rows any more, until the next scan."""
        self._held.clear()

    def _begin(self, shard: Shard) -> None:
        """Let go of the rows of shards that are done, before rows of another shard are decoded."""
        if not self.holds or shard in self._begun:
            return
        self._begun = [*self._begun[1 - SHARDS_HELD :], shard]
        self._held = {
            file: rows
            for file, rows in self._held.items()
            if any(self._may_have(file, one) for one in self._begun)
        }

    def _hold(self, files: Sequence[str], schema: pa.Schema) -> pa.Table | None:
        """Return the rows of these files, each decoded once; None if they have too many bytes."""
        rows_max = HELD_BYTES_MAX // ROW_BYTES_MIN
        is_large = sum(self._ends[file].rows for file in files) > rows_max
        if is_large or not self._too_large.isdisjoint(files):
            return None
        found: list[pa.Table] = []
        left = HELD_BYTES_MAX
        for file in files:
            rows = self._held.get(file)
            if rows is None:
                rows = self.run.scan(file, schema).whole_within(left)
            if rows is None or rows.nbytes > left:
                self._too_large.update(files)
                return None
            found.append(share_nulls(rows))
            left -= rows.nbytes
        self._keep(dict(zip(files, found, strict=True)))
        return pa.concat_tables(found)

    def _keep(self, newest: dict[str, pa.Table]) -> None:
        """Hold these rows, and as many of the others as there is room for."""
        others = {file: rows for file, rows in self._held.items() if file not in newest}
        size = sum(rows.nbytes for rows in (*others.values(), *newest.values()))
        for file in list(others):
            if size <= HELD_BYTES_MAX:
                break
            size -= others.pop(file).nbytes
        self._held = {**others, **newest}

    def _may_have(self, file: str, shard: Shard) -> bool:
        if isinstance(self.run, MemoryDirectory):  # few ledgers, which are one shard
            return True
        if file not in self._ends:
            with file_errors(f"read {self.run.uri}/{file}"):
                path = f"{self.run.path}/{file}"
                metadata = pq.read_metadata(path, filesystem=self.run.files)
                self._ends[file] = _End(span_of(metadata), metadata.num_rows)
        span = self._ends[file].span
        return span is not None and span[0] <= shard.last and shard.first <= span[1]


CARRIED_FILES = "carried"
"""How the names begin of the files with rows that were copied from the run from which verdicts are
carried over."""


def is_carried(file: str) -> bool:
    """Return whether a file of a table has the rows of ledgers whose verdicts are carried over.

    A run of an older release has one such file in a table, others have several.
    """
    name, _, _ = file.rpartition("/")[2].partition(".")
    return name.partition("-")[0] == CARRIED_FILES


def ledgers_read(files: ShardFiles, shard: Shard = EVERYTHING) -> TableScan:
    """Return the rows of evidence/ledgers that a run read itself: none of a ledger whose verdict it
    carried over. Files without a row of the shard are left out.

    Costs a listing of the table and, if the run carried some, reading the end of each file that is
    new. Raises OutputError.
    """
    if not any(map(is_carried, files.run.files_in("evidence/ledgers"))):
        return files.scan("evidence/ledgers", LEDGERS, shard)
    own = [file for file in files.of("evidence/ledgers", shard) if not is_carried(file)]
    return files.scan_files("evidence/ledgers", LEDGERS, own)


def share_nulls(rows: pa.Table) -> pa.Table:
    """Return the rows with the same NULLS_AT_ONCE nulls again and again in each column that has
    nothing else.

    Arrow has 4 or 8 bytes for each null. `nbytes` is as before.
    """
    columns = []
    for column in rows.columns:
        if len(rows) > NULLS_AT_ONCE and column.null_count == len(rows):
            some = pa.nulls(NULLS_AT_ONCE, column.type)
            times, rest = divmod(len(rows), NULLS_AT_ONCE)
            column = pa.chunked_array([*([some] * times), some.slice(0, rest)])
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=rows.schema)


def span_of(metadata: pq.FileMetaData) -> Span | None:
    """Return between which ledger ids the rows of a file are; None if no row has one.

    All ids if the file does not say it.
    """
    spans = [span for span in _spans_of_groups(metadata) if span is not None]
    return (min(low for low, _ in spans), max(high for _, high in spans)) if spans else None


def _spans_of_groups(metadata: pq.FileMetaData) -> Iterator[Span | None]:
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group)
        if not rows.num_rows:
            continue
        columns = (rows.column(number) for number in range(rows.num_columns))
        said = next((one for one in columns if one.path_in_schema == "ledger_id"), None)
        statistics = said.statistics if said is not None else None
        if statistics is not None and statistics.has_min_max:
            yield statistics.min, statistics.max
        elif statistics is not None and statistics.null_count == rows.num_rows:
            yield None
        else:
            yield _ANY

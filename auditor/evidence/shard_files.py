"""Find the files of a run's tables that may have rows of a shard.

Every stage adds files for one shard to a table. A table of a large run has thousands of them, and a
reader that opens all of them for each shard takes time that grows with the square of the ledgers.
Files never change: the end of each, which says between which ledger ids its rows are, is read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from auditor.evidence.ids import Shard
from auditor.evidence.local_files import is_table_file
from auditor.evidence.run_directory import Place
from auditor.evidence.table_scan import TableScan, file_errors, scan_rows
from auditor.model.identity import LEDGER_ID_MAX, LedgerId

Span: TypeAlias = tuple[LedgerId, LedgerId]
"""The lowest and the highest ledger id of some rows."""
_ANY: Span = (0, LEDGER_ID_MAX)


@dataclass(slots=True)
class ShardFiles:
    """The files of one run. They are only added to, or removed."""

    run: Place
    _spans: dict[str, Span | None] = field(default_factory=dict)

    def of(self, table: str, shard: Shard) -> list[str]:
        """Return the files of a table that may have rows of the shard's ledgers, sorted.

        They are named by their paths below the run's directory. Rows without a ledger id do not
        count. Costs a listing of the table, and reading the end of each file that is new. Raises
        OutputError.
        """
        files = self.run.files_in(table)
        return [
            file
            for file in sorted(files)
            if file.endswith(".parquet") and is_table_file(file) and self._may_have(file, shard)
        ]

    def scan(self, table: str, schema: pa.Schema, shard: Shard) -> TableScan:
        """Return a table, without the files that have no row of the shard's ledgers.

        Raises OutputError.
        """
        if shard.is_all:
            return self.run.scan(table, schema)
        return self.scan_files(table, schema, self.of(table, shard))

    def scan_files(self, table: str, schema: pa.Schema, files: Sequence[str]) -> TableScan:
        """Return some files of a table, as `of` names them. Raises OutputError."""
        if not files:
            return scan_rows(schema.empty_table())
        name, paths = f"{self.run.uri}/{table}", [f"{self.run.path}/{file}" for file in files]
        with file_errors(f"read {name}"):
            rows = ds.dataset(paths, filesystem=self.run.files, schema=schema, format="parquet")
            return TableScan(name, rows)

    def _may_have(self, file: str, shard: Shard) -> bool:
        if file not in self._spans:
            with file_errors(f"read {self.run.uri}/{file}"):
                path = f"{self.run.path}/{file}"
                self._spans[file] = span_of(pq.read_metadata(path, filesystem=self.run.files))
        span = self._spans[file]
        return span is not None and span[0] <= shard.last and shard.first <= span[1]


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

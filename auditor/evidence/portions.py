"""Read a table of ledgers a range of ids at a time, and each file once.

A file says between which ledger ids its rows are. Files of one shard have no rows of another. A
filter on ids costs as much as reading does, and is applied only to files that reach beyond the
range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from auditor.evidence.ids import Shard, cut_shards
from auditor.evidence.shard_files import Span, span_of
from auditor.evidence.table_scan import TableScan, file_errors, is_parquet
from auditor.model.identity import LEDGER_ID_MAX

FEW_ROWS = 5_000
"""A file of fewer rows does not decide where a range ends. Later looks write small files with
ledgers of all shards."""


@dataclass(frozen=True, slots=True)
class _File:
    """`span` is None if no row has a ledger id."""

    part: ds.ParquetFileFragment
    rows: int
    span: Span | None

    def is_inside(self, shard: Shard) -> bool:
        return self.span is not None and shard.first <= self.span[0] and self.span[1] <= shard.last

    def overlaps(self, shard: Shard) -> bool:
        return self.span is not None and shard.first <= self.span[1] and self.span[0] <= shard.last


@dataclass(frozen=True, slots=True)
class LedgerTable:
    """A written table, or rows in memory, with the column `ledger_id`. Raises OutputError."""

    scan: TableScan
    files: tuple[_File, ...]

    @classmethod
    def of(cls, scan: TableScan) -> LedgerTable:
        """Return the table. Costs reading the end of each file, which no scan repeats."""
        scan.check_types()
        files = []
        with file_errors(f"read {scan.name}"):
            for part in scan.rows.get_fragments():
                if is_parquet(part):
                    metadata = part.metadata
                    files.append(_File(part, metadata.num_rows, span_of(metadata)))
        return cls(scan, tuple(files))

    def table(
        self, columns: Sequence[str], shard: Shard, keep: pc.Expression | None = None
    ) -> pa.Table:
        """Return the named columns of the rows of the shard's ledgers that `keep` selects."""
        ledger_id = pc.field("ledger_id")
        within = (ledger_id >= shard.first) & (ledger_id <= shard.last)
        of_these = within if keep is None else within & keep
        if not self.files:  # rows in memory
            return self.scan.table(columns, of_these)
        inside = [one for one in self.files if one.is_inside(shard)]
        astride = [one for one in self.files if one.overlaps(shard) and not one.is_inside(shard)]
        return pa.concat_tables(
            [self._only(inside).table(columns, keep), self._only(astride).table(columns, of_these)]
        )

    def _only(self, files: Sequence[_File]) -> TableScan:
        rows = self.scan.rows
        with file_errors(f"read {self.scan.name}"):
            parts = [one.part for one in files]
            chosen = ds.FileSystemDataset(parts, rows.schema, rows.format, rows.filesystem)
            return TableScan(self.scan.name, chosen)

    def portions(self, ledgers_max: int) -> list[Shard]:
        """Return ranges that cover all ids, of about `ledgers_max` rows each.

        A range ends where a file ends, unless more rows are in files that overlap.
        """
        if not self.files:
            parts = [batch["ledger_id"] for batch in self.scan.batches(["ledger_id"])]
            return cut_shards(pa.chunked_array(parts, pa.int64()), ledgers_max)
        firsts = [0]
        waiting = 0
        for cluster in self._clusters():
            first, rows = min(span[0] for _, span in cluster), sum(rows for rows, _ in cluster)
            if waiting and waiting + rows > ledgers_max:
                firsts.append(first)
                waiting = 0
            if rows > ledgers_max:
                last = max(span[1] for _, span in cluster)
                ids = self.table(["ledger_id"], Shard(0, first, last))["ledger_id"]
                firsts += [one.first for one in cut_shards(ids, ledgers_max)[1:]]
            waiting += rows
        ends = [*firsts, LEDGER_ID_MAX + 1]
        return [Shard(number, a, b - 1) for number, (a, b) in enumerate(pairwise(ends))]

    def _clusters(self) -> Iterator[list[tuple[int, Span]]]:
        """Yield the rows and the spans of large files, those that overlap together, ascending."""
        large = sorted(
            (
                (one.rows, one.span)
                for one in self.files
                if one.span is not None and one.rows >= FEW_ROWS
            ),
            key=lambda one: one[1],
        )
        cluster: list[tuple[int, Span]] = []
        end = -1
        for rows, span in large:
            if cluster and span[0] > end:
                yield cluster
                cluster = []
            cluster.append((rows, span))
            end = max(end, span[1])
        if cluster:
            yield cluster

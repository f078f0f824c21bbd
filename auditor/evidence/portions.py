"""Read a table of ledgers a range of ids at a time, and each file once.

A file says between which ledger ids its rows are. Files of one shard have no rows of another. A
filter on ids costs as much as reading does, and is applied only to files that reach beyond the
range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from auditor.evidence.ids import EVERYTHING, Shard, cut_shards, distinct_numbers
from auditor.evidence.shard_files import Span, span_of
from auditor.evidence.table_scan import TableScan, file_errors, is_parquet
from auditor.model.identity import LEDGER_ID_MAX, LedgerId

FEW_ROWS = 5_000
"""No range ends within a file of this many rows. Smaller ones may lie in several ranges: later
looks write small files with ledgers of all shards."""
CROSSING_MAX = 1 / 4
"""A range ends only where the small files that reach beyond it have at most this share of the rows
of a range. They are read for each range. A range may have so many rows more."""


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
        """Return the named columns of the rows of the shard's ledgers that `keep` selects.

        Rows without a ledger id are not among them.
        """
        parts = self._parts(shard, keep)
        return pa.concat_tables([rows.table(columns, of_these) for rows, of_these in parts])

    def batches(self, columns: Sequence[str], shard: Shard) -> Iterator[pa.RecordBatch]:
        """Yield the named columns of the rows of the shard's ledgers, batch by batch."""
        for rows, of_these in self._parts(shard, None):
            yield from rows.batches(columns, of_these)

    def _parts(
        self, shard: Shard, keep: pc.Expression | None
    ) -> Iterator[tuple[TableScan, pc.Expression]]:
        """Yield the rows among which those of the shard are, each with what selects these."""
        ledger_id = pc.field("ledger_id")
        within = (ledger_id >= shard.first) & (ledger_id <= shard.last)
        has_ledger = pc.is_valid(ledger_id)
        of_these, of_any = (rows if keep is None else rows & keep for rows in (within, has_ledger))
        if not self.files:  # rows in memory
            yield self.scan, of_these
            return
        yield self._only([one for one in self.files if one.is_inside(shard)]), of_any
        astride = [one for one in self.files if one.overlaps(shard) and not one.is_inside(shard)]
        yield self._only(astride), of_these

    def _only(self, files: Sequence[_File]) -> TableScan:
        rows = self.scan.rows
        with file_errors(f"read {self.scan.name}"):
            parts = [one.part for one in files]
            chosen = ds.FileSystemDataset(parts, rows.schema, rows.format, rows.filesystem)
            return TableScan(self.scan.name, chosen)

    def portions(self, ledgers_max: int) -> list[Shard]:
        """Return ranges that cover all ids, of about `ledgers_max` rows each.

        A range ends where a file begins, unless more rows are in files that overlap: these are
        cut by their ids. A range may have CROSSING_MAX more rows, and those of small files that
        begin before it. Costs a scan of the ids in files that overlap, where they have more.
        """
        if not self.files:
            parts = [batch["ledger_id"] for batch in self.scan.batches(["ledger_id"])]
            return cut_shards(pa.chunked_array(parts, pa.int64()), ledgers_max)
        firsts = [0]
        waiting, most = 0, ledgers_max + int(ledgers_max * CROSSING_MAX)
        clusters = list(self._clusters(int(ledgers_max * CROSSING_MAX)))
        ends = [*(first for first, _ in clusters[1:]), LEDGER_ID_MAX + 1]
        for (first, rows), end in zip(clusters, ends, strict=False):  # without rows no cluster
            if waiting and waiting + rows > most:
                firsts.append(first)
                waiting = 0
            if rows > most:
                ids = self.table(["ledger_id"], Shard(0, first, end - 1))["ledger_id"]
                firsts += [one.first for one in cut_shards(ids, ledgers_max)[1:]]
            waiting += rows
        ends = [*firsts[1:], LEDGER_ID_MAX + 1]
        pairs = zip(firsts, ends, strict=True)
        return [Shard(number, first, end - 1) for number, (first, end) in enumerate(pairs)]

    def _clusters(self, crossing_max: int) -> Iterator[tuple[LedgerId, int]]:
        """Yield the first ledger and the rows of files that are read together, ascending.

        A file counts where it begins. Beyond the end of a cluster reach only small files, with at
        most `crossing_max` rows together.
        """
        spans = sorted((*one.span, one.rows) for one in self.files if one.span is not None)
        reaching: list[tuple[LedgerId, int]] = []  # a heap of last ledgers and rows
        first = rows = crossing = large = 0
        for low, high, size in spans:
            while reaching and reaching[0][0] < low:
                ended = heappop(reaching)[1]
                crossing, large = crossing - ended, large - (ended >= FEW_ROWS)
            if rows and low > first and not large and crossing <= crossing_max:
                yield first, rows
                rows = 0
            first = first if rows else low
            rows += size
            heappush(reaching, (high, size))
            crossing, large = crossing + size, large + (size >= FEW_ROWS)
        if rows:
            yield first, rows


SAMPLED_OF_RANGE = 1_000
"""Ledgers by which the end of a range is chosen."""


def id_ranges(ids: TableScan, ledgers_max: int) -> list[Shard]:
    """Return ranges that cover all ledger ids, each with about `ledgers_max` of a table's rows.

    They are chosen by a sample: the ids come in any order, and some may occur twice or be null.
    Holds the sample alone. Costs a scan of the ids.
    """
    ranges = -(-ids.count() // ledgers_max)
    if ranges < 2:
        return [EVERYTHING]
    step = max(1, ledgers_max // SAMPLED_OF_RANGE)
    parts, seen = [], 0
    for batch in ids.batches(["ledger_id"]):
        some = batch["ledger_id"].drop_null().to_numpy()
        parts.append(some[-seen % step :: step].copy())  # a slice would keep the whole batch
        seen += len(some)
    sample = distinct_numbers(np.concatenate(parts))
    places = (len(sample) * number // ranges for number in range(1, ranges))
    ends = sorted({int(sample[at]) for at in places if len(sample)} - {0})
    firsts, lasts = [0, *ends], [*(end - 1 for end in ends), LEDGER_ID_MAX]
    return [
        Shard(number, first, last)
        for number, (first, last) in enumerate(zip(firsts, lasts, strict=True))
    ]

"""Keep the rows of the ledgers that are judged again and again.

A look judges its suspects after their metadata, after their lists, and after each round of reads.
Each time their evidence is gathered, from files with the rows of all ledgers of the shard. Files
never change: the rows of these ledgers are taken from each file once.

Between two looks come those at other shards. Until its next look the rows of a suspect are set
aside, compressed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import Ids, Shard, are_among
from auditor.evidence.shard_files import ShardFiles
from auditor.evidence.table_scan import are_of
from auditor.model.identity import LedgerId

KEPT_BYTES_MAX = 64 * 2**20
"""At most so many bytes are kept: those of some ten thousand ledgers. More are read each time."""
ASIDE_BYTES_MAX = 16 * 2**20
"""At most so many bytes are set aside: a suspect has 200 to 400. The rows of more are read again
from the files of their shards."""


class _SetAside(NamedTuple):
    """Rows of some ledgers of a shard, in Arrow's stream format, and by table the files that were
    read for them.
    """

    shard: Shard
    ids: Ids
    rows: Mapping[str, tuple[set[str], pa.Buffer]]

    @property
    def size_bytes(self) -> int:
        return sum(stream.size for _, stream in self.rows.values())


@dataclass(slots=True)
class KeptRows:
    """The rows of some ledgers in some tables of a run, from the files read so far."""

    files: ShardFiles
    _ids: Ids = field(default_factory=lambda: np.empty(0, np.int64))
    _rows: dict[str, tuple[set[str], pa.Table]] = field(default_factory=dict)
    """By table the files that were read, and their rows."""
    _aside: list[_SetAside] = field(default_factory=list)
    """No ledger is in two of them."""

    def release(self) -> None:
        """Keep no rows any more, until they are asked for again."""
        self._forget()
        self._aside = []

    def _forget(self) -> None:
        self._ids = self._ids[:0].copy()
        self._rows = {}

    def set_aside(self, shard: Shard, ids: Sequence[LedgerId]) -> None:
        """Set the rows aside of those of these ledgers of a shard whose rows are kept now.

        `of` takes them back as soon as it is asked for them, with what was written since: those
        that are set aside already stay as they are. Nothing is set aside beyond ASIDE_BYTES_MAX.
        """
        mine = np.sort(np.array(ids, np.int64))
        mine = mine[are_among(mine, self._ids)]
        for one in self._aside:
            mine = mine[~are_among(mine, one.ids)]
        if not len(mine) or not self._rows:
            return
        mask = pa.array(mine)
        rows = {
            name: (files, _stream(found.filter(pc.is_in(found["ledger_id"], mask))))
            for name, (files, found) in self._rows.items()
        }
        new = _SetAside(shard, mine, rows)
        if sum(one.size_bytes for one in (*self._aside, new)) <= ASIDE_BYTES_MAX:
            self._aside.append(new)

    def _take_back(self, shard: Shard) -> None:
        """Keep the rows of the wanted ledgers of a shard, if those of all were set aside, and what
        was written about them since. Rows that are too many are left to be read again.
        """
        mine: list[_SetAside] = []
        others: list[_SetAside] = []
        for one in self._aside:
            is_mine = shard.first <= one.shard.first and one.shard.last <= shard.last
            (mine if is_mine else others).append(one)
        known = np.sort(np.concatenate([np.empty(0, np.int64), *(one.ids for one in mine)]))
        if not are_among(self._ids, known).all():
            return
        self._aside, left = others, KEPT_BYTES_MAX
        for name in set.intersection(*({*one.rows} for one in mine)):
            files: set[str] = set()
            parts = []
            for one in mine:
                parts.append(self._since(name, one, left))
                if parts[-1] is None:
                    self._rows = {}
                    return
                left -= parts[-1].nbytes
                files.update(self.files.of(name, one.shard))
            rows = pa.concat_tables(parts)
            if len(known) > len(self._ids):
                rows = rows.filter(pc.is_in(rows["ledger_id"], pa.array(self._ids)))
            self._rows[name] = (files, rows)

    def _since(self, name: str, one: _SetAside, bytes_max: int) -> pa.Table | None:
        """Return the rows of a table for ledgers that were set aside, with those that were written
        since; None if they have more than `bytes_max` bytes.
        """
        read, stream = one.rows[name]
        rows = pa.ipc.open_stream(stream).read_all()
        new = [file for file in self.files.of(name, one.shard) if file not in read]
        if new:
            scan = self.files.scan_files(name, rows.schema, new)
            more = scan.table_within(max(0, bytes_max), rows.schema.names, are_of(one.ids))
            if more is None:
                return None
            rows = pa.concat_tables([rows, more])
        return rows if rows.nbytes <= bytes_max else None

    def of(self, name: str, schema: pa.Schema, shard: Shard, ids: pa.Array) -> pa.Table | None:
        """Return the rows of a table about these ledgers of a shard, ascending ids.

        None if they are too many to be kept, or if no file may have one. Costs a scan of the files
        that are new, or of all if other ledgers were kept and these not set aside. Raises
        OutputError.
        """
        wanted: Ids = ids.to_numpy()
        if not are_among(wanted, self._ids).all():
            self._ids, self._rows = wanted, {}
            self._take_back(shard)
        known, rows = self._rows.get(name, (set[str](), schema.empty_table()))
        new = [file for file in self.files.of(name, shard) if file not in known]
        if new:
            left = KEPT_BYTES_MAX - sum(kept.nbytes for _, kept in self._rows.values())
            scan = self.files.scan_files(name, schema, new)
            more = scan.table_within(max(0, left), schema.names, are_of(self._ids))
            if more is None:
                self._forget()
                return None
            rows = pa.concat_tables([rows, more])
            self._rows[name] = (known.union(new), rows)
        elif not known:
            return None
        if len(wanted) == len(self._ids):
            return rows
        return rows.filter(pc.is_in(rows["ledger_id"], ids))


def _stream(rows: pa.Table) -> pa.Buffer:
    """Return rows in Arrow's stream format, compressed."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows.combine_chunks())
    return sink.getvalue()

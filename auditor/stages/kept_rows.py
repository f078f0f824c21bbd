"""Keep the rows of the ledgers that are judged again and again.

A look judges its suspects after their metadata, after their lists, and after each round of reads.
Each time their evidence is gathered, from files with the rows of all ledgers of the shard. Files
never change: the rows of these ledgers are taken from each file once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import Ids, Shard, are_among
from auditor.evidence.shard_files import ShardFiles
from auditor.evidence.table_scan import are_of

KEPT_BYTES_MAX = 64 * 2**20
"""At most so many bytes are kept: those of some ten thousand ledgers. More are read each time."""


@dataclass(slots=True)
class KeptRows:
    """The rows of some ledgers in some tables of a run, from the files read so far."""

    files: ShardFiles
    _ids: Ids = field(default_factory=lambda: np.empty(0, np.int64))
    _rows: dict[str, tuple[set[str], pa.Table]] = field(default_factory=dict)
    """By table the files that were read, and their rows."""

    def release(self) -> None:
        """Keep no rows any more, until they are asked for again."""
        self._ids = self._ids[:0].copy()
        self._rows = {}

    def of(self, name: str, schema: pa.Schema, shard: Shard, ids: pa.Array) -> pa.Table | None:
        """Return the rows of a table about these ledgers of a shard, ascending ids.

        None if they are too many to be kept, or if no file may have one. Costs a scan of the files
        that are new, or of all if other ledgers were kept. Raises OutputError.
        """
        wanted: Ids = ids.to_numpy()
        if not are_among(wanted, self._ids).all():
            self._ids, self._rows = wanted, {}
        known, rows = self._rows.get(name, (set[str](), schema.empty_table()))
        new = [file for file in self.files.of(name, shard) if file not in known]
        if new:
            left = KEPT_BYTES_MAX - sum(kept.nbytes for _, kept in self._rows.values())
            scan = self.files.scan_files(name, schema, new)
            more = scan.table_within(max(0, left), schema.names, are_of(self._ids))
            if more is None:
                self.release()
                return None
            rows = pa.concat_tables([rows, more])
            self._rows[name] = (known.union(new), rows)
        elif not known:
            return None
        if len(wanted) == len(self._ids):
            return rows
        return rows.filter(pc.is_in(rows["ledger_id"], ids))

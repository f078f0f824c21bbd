"""Read many ledgers, as Arrow batches of LEDGERS rows, or compare their znodes with what is known.

A ledger whose metadata is plain (`auditor.wire.metadata_columns`) costs no Python object. All
others go through the records of `auditor.zookeeper.ledgers`. Comparing decodes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from auditor.evidence.ids import Ids
from auditor.evidence.ledger_columns import found_ledgers
from auditor.evidence.rows import Row, ledger_row, mark_cells, table
from auditor.evidence.schemas import LEDGERS, MARK
from auditor.model.identity import LedgerId
from auditor.model.ledger import LedgerRecord, Mark
from auditor.wire import znode_paths
from auditor.wire.metadata_columns import MetadataDecoder
from auditor.wire.znode_paths import LedgerLayout
from auditor.zookeeper.ledgers import record_of, unplaced_record
from auditor.zookeeper.multi_read import OK, LedgerPaths, Numbers, ZnodeColumns, concatenate
from auditor.zookeeper.reading import read_columns
from auditor.zookeeper.session import Session

ROWS_PER_BATCH = 2_000
"""A batch has so many ledgers and those of one request more: few enough for flat memory, enough to
be worth the overhead."""

BYTES_PER_BATCH = 8 * 2**20
"""A batch has fewer ledgers if their znodes have so many bytes: custom metadata may be large."""

Marks = Mapping[LedgerId, Mark]


def read_batches(
    session: Session,
    root: str,
    layout: LedgerLayout,
    ids: Iterable[Ids],
    look: int,
    now_ms: Callable[[], int],
    marks: Marks,
) -> Iterator[pa.RecordBatch]:
    """Yield one row for each of `ids`, in order. Never raises for a ledger.

    Ids that have no place in the layout come last. Costs one read a ledger.
    """
    unplaced: list[LedgerId] = []

    def blocks() -> Iterator[LedgerPaths]:
        for some in ids:
            placed = znode_paths.have_place(layout, some)
            unplaced.extend(some[~placed].tolist())
            yield LedgerPaths(root, layout, some[placed])

    pending = _Pending(root, layout, look, marks)
    for paths, znodes in read_columns(session, blocks()):
        pending.add(paths, znodes, now_ms())
        if pending.is_full:
            yield pending.take()
    if not pending.is_empty:
        yield pending.take()
    for start in range(0, len(unplaced), ROWS_PER_BATCH):
        portion = unplaced[start : start + ROWS_PER_BATCH]
        records = (
            unplaced_record(ledger_id, look, now_ms(), znode_paths.no_place(layout, ledger_id))
            for ledger_id in portion
        )
        yield table(LEDGERS, map(pending.row, records))


def changed_ids(
    session: Session, root: str, layout: LedgerLayout, ids: Ids, czxids: Numbers, versions: Numbers
) -> Ids:
    """Return the ledgers whose znode no longer has the known czxid and version, ascending.

    Ledgers that are gone or unreadable are among them: those of which
    `auditor.zookeeper.ledgers.LedgerReader.changed` yields a record. Costs one read a ledger. Never
    raises for a ledger.
    """
    placed = znode_paths.have_place(layout, ids)
    is_changed = ~placed
    rows, done = np.flatnonzero(placed), 0
    for paths, znodes in read_columns(session, [LedgerPaths(root, layout, ids[rows])]):
        these = rows[done : done + len(paths)]
        is_same = (znodes.errors == OK) & (znodes.czxids == czxids[these])
        is_changed[these] = ~(is_same & (znodes.versions == versions[these]))
        done += len(paths)
    assert done == len(rows), f"{done} of {len(rows)} znodes were answered for"
    return ids[is_changed]


class _Pending:
    """Ledgers that were read and are not rows yet."""

    def __init__(self, root: str, layout: LedgerLayout, look: int, marks: Marks) -> None:
        self._rows = self._bytes = 0
        self._root = root
        self._layout = layout
        self._look = look
        self._marks = marks
        self._decoder = MetadataDecoder()
        self._read: list[tuple[LedgerPaths, ZnodeColumns, int]] = []

    def add(self, paths: LedgerPaths, znodes: ZnodeColumns, read_at_ms: int) -> None:
        """Add ledgers and their znodes, which came at this time."""
        self._read.append((paths, znodes, read_at_ms))
        self._rows += len(paths)
        self._bytes += len(znodes.buffer)

    @property
    def is_empty(self) -> bool:
        return not self._rows

    @property
    def is_full(self) -> bool:
        """Whether these ledgers are enough for a batch."""
        return self._rows >= ROWS_PER_BATCH or self._bytes >= BYTES_PER_BATCH

    def take(self) -> pa.RecordBatch:
        """Return a row for each ledger that was added, and forget them. There is at least one."""
        znodes = concatenate([znodes for _, znodes, _ in self._read])
        ids: Numbers = np.concatenate([paths.ids for paths, _, _ in self._read])
        read_at_ms = np.concatenate([np.full(len(paths), at) for paths, _, at in self._read])
        self._rows, self._bytes, self._read = 0, 0, []
        metadata = self._decoder.decode(znodes.buffer, znodes.starts, znodes.sizes)
        plain = np.flatnonzero(metadata.are_plain)
        found = found_ledgers(
            self._look,
            metadata,
            {
                "ledger_id": ids[plain],
                "read_at_ms": read_at_ms[plain],
                "czxid": znodes.czxids[plain],
                "znode_version": znodes.versions[plain],
                "znode_ctime_ms": znodes.ctimes_ms[plain],
                "znode_mtime_ms": znodes.mtimes_ms[plain],
                "mark": self._mark_column(ids[plain]),
            },
        )
        others = np.flatnonzero(~metadata.are_plain)
        if not len(others):
            return found
        paths = LedgerPaths(self._root, self._layout, ids)
        records = (
            record_of(
                int(ids[row]), self._look, int(read_at_ms[row]), None, znodes.znode(row, paths[row])
            )
            for row in others.tolist()
        )
        rows = table(LEDGERS, map(self.row, records))
        return _in_order(found, rows, np.argsort(np.concatenate([plain, others])))

    def row(self, record: LedgerRecord) -> Row:
        """Return the row of a ledger that is not plain."""
        mark = self._marks.get(record.ledger_id)
        return ledger_row(record if mark is None else replace(record, mark=mark))

    def _mark_column(self, ids: Numbers) -> pa.Array:
        if not self._marks:
            return pa.nulls(len(ids), MARK)
        marks = map(self._marks.get, ids.tolist())
        return pa.array([None if mark is None else mark_cells(mark) for mark in marks], MARK)


def _in_order(found: pa.RecordBatch, others: pa.RecordBatch, order: Numbers) -> pa.RecordBatch:
    """Return the rows of both, the n-th of which is the row `order[n]` of the two together."""
    both = pa.Table.from_batches([found, others]).combine_chunks()
    (batch,) = both.take(pa.array(order)).combine_chunks().to_batches()
    return batch

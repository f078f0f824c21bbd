"""Count the copies that each bookie should hold, from the metadata as it was first read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.rows import numbers_of, rows_of
from auditor.evidence.table_scan import iterate_rows
from auditor.first_checker.probing import SWEPT_ENTRIES_MAX
from auditor.first_checker.schedule import expected_entries, extents, positions
from auditor.model.identity import BookieId
from auditor.model.ledger import LedgerMetadata, LedgerState, Segment

DUE_COLUMNS = [
    *("look", "state", "ensemble_size", "write_quorum", "last_entry_id", "length_bytes"),
    "segments",
]
"""The columns of LEDGERS that say how many entries each bookie should hold."""


class Due(NamedTuple):
    """What a bookie should hold of closed ledgers: entries, those of them that are the first or the
    last one of a segment at most, their bytes, and in how many segments.
    """

    copies: float
    ends: float
    size_bytes: float = 0.0
    segments: float = 0.0

    def times(self, count: float) -> Due:
        """Return what the bookie should hold of so many times as many ledgers."""
        return Due(*(value * count for value in self))


def due_by_bookie(ledgers: Iterable[pa.RecordBatch]) -> Mapping[BookieId, Due]:
    """Return what each bookie should hold of closed ledgers.

    `ledgers` have the columns DUE_COLUMNS; rows of other looks than the first do not count. The
    results are never too low, and too high by less than one round of the ensemble for each segment.
    A bookie that stands twice in an ensemble counts twice. One segment counts up to
    SWEPT_ENTRIES_MAX: longer shares are not swept. Costs one pass.
    """
    found: dict[BookieId, Due] = {}
    for batch in ledgers:
        add_due(found, batch)
    return found


def add_due(found: dict[BookieId, Due], ledgers: pa.RecordBatch) -> None:
    """Add to `found` what each bookie should hold of one batch, as `due_by_bookie` counts it."""
    is_closed = pc.equal(ledgers["state"], LedgerState.CLOSED.value)
    is_due = pc.and_(is_closed, pc.greater_equal(ledgers["last_entry_id"], 0))
    is_due = pc.fill_null(pc.and_(is_due, pc.equal(ledgers["look"], 1)), False)
    for bookie, due in _due_by_bookie(rows_of(ledgers, is_due)):
        before = found.get(bookie, Due(0.0, 0.0))
        found[bookie] = Due(*map(sum, zip(before, due, strict=True)))


def _due_by_bookie(ledgers: pa.RecordBatch) -> list[tuple[BookieId, Due]]:
    segments = ledgers["segments"].flatten()
    ensembles = segments.field("ensemble")
    of_segment = _copies_of_positions(ledgers, segments)
    named = ensembles.flatten().dictionary_encode()
    segment_of = pc.list_parent_indices(ensembles).to_numpy()
    weights = of_segment[segment_of]
    owners = pc.list_parent_indices(ledgers["segments"]).to_numpy()[segment_of]
    sizes = ledgers["length_bytes"].fill_null(0).to_numpy().astype(np.float64)
    mean_bytes = np.maximum(sizes, 0) / (ledgers["last_entry_id"].to_numpy() + 1.0)
    at, names = named.indices.to_numpy(), named.dictionary.to_pylist()
    counts, *sums = (
        np.bincount(at, of, minlength=len(names)).tolist()
        for of in (
            np.ones(len(at)),
            weights,
            np.minimum(weights, 2),
            weights * mean_bytes[owners],
            weights > 0,
        )
    )
    dues = zip(names, counts, zip(*sums, strict=True), strict=True)
    # A dictionary of a file may have names that no row of this batch has.
    return [(name, Due(*cells)) for name, count, cells in dues if count]


def _copies_of_positions(ledgers: pa.RecordBatch, segments: pa.Array) -> npt.NDArray[np.float64]:
    """Return for each segment how many of its entries one position of its ensemble holds at
    most.
    """
    owners = pc.list_parent_indices(ledgers["segments"]).to_numpy()
    columns = (ledgers["ensemble_size"], ledgers["write_quorum"], ledgers["last_entry_id"])
    size, write, last = (column.to_numpy()[owners] for column in columns)
    firsts = segments.field("first_entry_id").to_numpy()
    ends = last.copy()
    goes_on = owners[:-1] == owners[1:]
    ends[:-1][goes_on] = firsts[1:][goes_on] - 1
    # As floats: metadata may claim 2**63 entries, and an estimate needs no more digits.
    entries = np.maximum(np.subtract(ends, firsts, dtype=np.float64) + 1, 0)
    rounds, rest = np.divmod(entries, np.maximum(size, 1))
    copies: npt.NDArray[np.float64] = rounds * np.maximum(write, 0) + np.minimum(
        rest, np.maximum(write, 0)
    )
    return np.minimum(copies, SWEPT_ENTRIES_MAX)


SHARE_COLUMNS = [
    *("ledger_id", "state", "ensemble_size", "write_quorum", "last_entry_id", "segments")
]
"""The columns of LEDGERS from which `shares_in` counts."""
_ENTRIES_MAX = 2**61
"""Ledgers that claim more entries are counted one by one: sums of columns would overflow."""


class Shares(NamedTuple):
    """How many entries of a closed ledger a bookie should hold, once for each pair of them.

    `rows` are numbers of rows of the ledgers, and `bookies` numbers of `names`. `last_entries` has
    the last entry of each ledger.
    """

    rows: npt.NDArray[np.int64]
    bookies: npt.NDArray[np.int64]
    copies: npt.NDArray[np.int64]
    last_entries: npt.NDArray[np.int64]
    names: Sequence[BookieId]


def shares_in(ledgers: pa.RecordBatch) -> Shares:
    """Return how many entries each bookie should hold, exactly. `ledgers` has the SHARE_COLUMNS,
    each ledger once.

    Counts in columns where striping is plain: one segment begins behind the other, and each names
    as many bookies as the ensemble size, each once. Other ledgers become values one by one.
    """
    closed = pc.fill_null(pc.equal(ledgers["state"], LedgerState.CLOSED.value), False)
    number_of = np.flatnonzero(closed.to_numpy(zero_copy_only=False))
    batch = ledgers if len(number_of) == len(ledgers) else ledgers.take(pa.array(number_of))
    named = batch["segments"].flatten().field("ensemble").flatten().dictionary_encode()
    codes, names = named.indices.to_numpy(), named.dictionary.to_pylist()
    is_plain = _is_plain(batch, codes, len(names))
    is_single = pc.equal(pc.list_value_length(batch["segments"]), 1)
    is_single = is_plain & is_single.fill_null(False).to_numpy(zero_copy_only=False)
    parts = []
    for keep, count in (
        (is_single, _shares_of_segments),
        (is_plain & ~is_single, _plain_shares),
        (~is_plain, _other_shares),
    ):
        if keep.any():
            rows = np.flatnonzero(keep)
            some = batch if len(rows) == len(batch) else batch.take(pa.array(rows))
            owners, *cells = count(some, names)
            parts.append((number_of[rows[owners]], *cells))
    if not parts:
        none = np.empty(0, np.int64)
        return Shares(none, none, none, none, names)
    found, bookies, copies, last = (np.concatenate(cells) for cells in zip(*parts, strict=True))
    return Shares(found, bookies, copies, last, names)


def _is_plain(
    ledgers: pa.RecordBatch, names: npt.NDArray[np.int32], count: int
) -> npt.NDArray[np.bool_]:
    """Return for which ledgers `_plain_shares` counts right. `names` are numbers of the bookies of
    all ensembles, of `count` bookies.
    """
    size, write = (ledgers[name].to_numpy() for name in ("ensemble_size", "write_quorum"))
    last = ledgers["last_entry_id"].fill_null(-2).to_numpy(zero_copy_only=False)
    plain: npt.NDArray[np.bool_] = (write >= 1) & (write <= size) & (last >= -1)
    plain &= last < _ENTRIES_MAX
    segments = ledgers["segments"].flatten()
    owners = pc.list_parent_indices(ledgers["segments"]).to_numpy()
    firsts, ensembles = segments.field("first_entry_id").to_numpy(), segments.field("ensemble")
    plain[owners[firsts < 0]] = False
    plain[owners[1:][(owners[1:] == owners[:-1]) & (firsts[1:] <= firsts[:-1])]] = False
    plain[owners[pc.list_value_length(ensembles).to_numpy() != size[owners]]] = False
    segment_of = pc.list_parent_indices(ensembles).to_numpy()
    named = np.sort(segment_of.astype(np.int64) * max(1, count) + names)
    twice = named[1:][named[1:] == named[:-1]] // max(1, count)
    plain[owners[twice]] = False
    return plain


_Column: TypeAlias = npt.NDArray[np.int64]
_Cells: TypeAlias = tuple[_Column, _Column, _Column, _Column]
"""The columns of Shares."""


def _plain_shares(ledgers: pa.RecordBatch, names: Sequence[BookieId]) -> _Cells:
    """Count where a bookie may stand in several segments of a ledger."""
    rows, bookies, copies, last = _shares_of_segments(ledgers, names)
    pairs, first, at = np.unique(
        rows * len(names) + bookies, return_index=True, return_inverse=True
    )
    sums = np.zeros(len(pairs), np.int64)
    np.add.at(sums, at, copies)
    return pairs // len(names), pairs % len(names), sums, last[first]


def _shares_of_segments(ledgers: pa.RecordBatch, names: Sequence[BookieId]) -> _Cells:
    """Return the columns of Shares with a row for each place of a bookie in an ensemble."""
    owners = pc.list_parent_indices(ledgers["segments"]).to_numpy().astype(np.int64)
    segments = ledgers["segments"].flatten()
    size, write, last = (
        ledgers[name].to_numpy()[owners].astype(np.int64)
        for name in ("ensemble_size", "write_quorum", "last_entry_id")
    )
    firsts = segments.field("first_entry_id").to_numpy()
    ends = last.copy()
    goes_on = owners[:-1] == owners[1:]
    ends[:-1][goes_on] = np.minimum(last[:-1], firsts[1:] - 1)[goes_on]
    ensembles = segments.field("ensemble")
    number_of = {name: number for number, name in enumerate(names)}
    named = numbers_of(ensembles.flatten(), number_of)
    at = pc.list_parent_indices(ensembles).to_numpy()
    starts = np.concatenate([[0], np.cumsum(pc.list_value_length(ensembles).to_numpy())])
    position = np.arange(len(named)) - starts[at]
    window = position, size[at], write[at]
    held = _held_below(ends[at] + 1, *window) - _held_below(firsts[at], *window)
    copies = np.where(firsts[at] <= ends[at], held, 0)
    return owners[at], named, copies, last[at]


def _held_below(
    end: npt.NDArray[np.int64],
    position: npt.NDArray[np.int64],
    size: npt.NDArray[np.int64],
    write: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Return how many entries from 0 to `end` (exclusive) each position of an ensemble holds.

    These are the entries e with (position - e) mod size < write: in each round the ranks from
    position - write + 1 to position, of which those below 0 are at the end of the round.
    """
    rounds, rest = np.divmod(end, size)
    low = position - write + 1
    front = np.maximum(np.minimum(position + 1, rest) - np.maximum(low, 0), 0)
    behind = np.where(low < 0, np.maximum(rest - (size + low), 0), 0)
    held: npt.NDArray[np.int64] = rounds * write + front + behind
    return held


def _other_shares(ledgers: pa.RecordBatch, names: Sequence[BookieId]) -> _Cells:
    """Count as `_plain_shares` does, ledger by ledger."""
    number_of = {name: number for number, name in enumerate(names)}
    cells = []
    for number, row in enumerate(iterate_rows(pa.Table.from_batches([ledgers]))):
        size, write, last = row["ensemble_size"], row["write_quorum"], row["last_entry_id"]
        segments = (
            Segment(segment["first_entry_id"], tuple(segment["ensemble"]))
            for segment in row["segments"]
        )
        metadata = LedgerMetadata(
            3, LedgerState.CLOSED, size, write, write, last, 0, tuple(segments)
        )
        parts = extents(metadata)
        for bookie in {b for part in parts for b in part.segment.ensemble}:
            copies = sum(
                expected_entries(part, at, size, write).count()
                for part in parts
                if (at := positions(part.segment.ensemble).get(bookie))
            )
            last_entry = parts[-1].last_entry_id if last is None else last
            cells.append((number, number_of[bookie], copies, last_entry))
    found = np.array(cells, np.int64).reshape(-1, 4)
    return found[:, 0], found[:, 1], found[:, 2], found[:, 3]

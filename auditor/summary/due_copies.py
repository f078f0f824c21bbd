"""Counts the copies that the fullest bookie should hold, from the metadata as it was first read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.first_checker.sweep import SWEPT_ENTRIES_MAX
from auditor.model.identity import BookieId
from auditor.model.ledger import LedgerState

DUE_COLUMNS = ["look", "state", "ensemble_size", "write_quorum", "last_entry_id", "segments"]
"""The columns of LEDGERS that say how many entries each bookie should hold."""


def fullest_bookie_copies(ledgers: Iterable[pa.RecordBatch]) -> float:
    """Return how many entries of closed ledgers the fullest bookie should hold, as
    `copies_by_bookie` counts them.
    """
    return max(copies_by_bookie(ledgers).values(), default=0.0)


def copies_by_bookie(ledgers: Iterable[pa.RecordBatch]) -> Mapping[BookieId, float]:
    """Return how many entries of closed ledgers each bookie should hold.

    `ledgers` have the columns DUE_COLUMNS; rows of other looks than the first do not count. The
    results are never too low, and too high by less than one round of the ensemble for each segment.
    A bookie that stands twice in an ensemble counts twice. One segment counts up to
    SWEPT_ENTRIES_MAX: longer shares are not swept. Costs one pass.
    """
    copies: Counter[BookieId] = Counter()
    for batch in ledgers:
        closed = (pc.field("look") == 1) & (pc.field("state") == LedgerState.CLOSED.value)
        rows = (
            pa.Table.from_batches([batch])
            .filter(closed & (pc.field("last_entry_id") >= 0))
            .combine_chunks()
        )
        for part in rows.to_batches():
            copies.update(_copies_by_bookie(part))
    return copies


def _copies_by_bookie(ledgers: pa.RecordBatch) -> dict[str, float]:
    segments = ledgers["segments"].flatten()
    ensembles = segments.field("ensemble")
    of_segment = _copies_of_positions(ledgers, segments)
    named = ensembles.flatten().dictionary_encode()
    weights = of_segment[pc.list_parent_indices(ensembles).to_numpy()]
    sums = np.bincount(named.indices.to_numpy(), weights)
    return dict(zip(named.dictionary.to_pylist(), sums.tolist(), strict=True))


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

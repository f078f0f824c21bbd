"""Find in the columns of the evidence which ledgers may have a spot read.

A sweep reads few entries of few ledgers. Whether it reads any of a ledger depends on a hash of the
ledger's id and its bookies, and on its number of entries. So most ledgers are passed over before
they become Python values.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.first_checker.sweep import first_rank
from auditor.model.evidence import Sweep
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerState

LAST_UNKNOWN = 2**63 - 1
"""Stands for the end of a closed ledger without lastEntryId: no rank is above it."""


def may_have_spots(
    batch: pa.RecordBatch, seed: int, steps: Mapping[BookieId, int]
) -> pa.BooleanArray:
    """Return which rows of a SEEN batch have entries that
    `auditor.first_checker.spot_reads.spot_copies` may draw with these steps.

    It draws nothing of any other row: a bookie should hold at most the entries up to lastEntryId,
    and the lowest rank that is read is above it. Costs a hash for each ledger and bookie.
    """
    sweeps = {bookie: Sweep(seed, step=step) for bookie, step in steps.items() if step}
    found = np.zeros(batch.num_rows, np.bool_)
    for row, ledger_id, last, bookie in _promises(batch):
        if bookie in sweeps and first_rank(sweeps[bookie], ledger_id, bookie) <= last:
            found[row] = True
    return pa.array(found)


def _promises(batch: pa.RecordBatch) -> set[tuple[int, LedgerId, EntryId, BookieId]]:
    """Return for each closed ledger and bookie of an ensemble: the ledger's row and id, its last
    entry and the bookie.
    """
    rows = _owners(batch["records"])
    records = batch["records"].flatten()
    is_closed = pc.fill_null(
        pc.equal(pc.struct_field(records, "state"), LedgerState.CLOSED.value), False
    )
    rows, records = rows[is_closed.to_numpy(zero_copy_only=False)], records.filter(is_closed)
    last = pc.fill_null(pc.struct_field(records, "last_entry_id"), LAST_UNKNOWN)
    segments = pc.struct_field(records, "segments")
    ensembles = pc.struct_field(segments.flatten(), "ensemble")
    owners = _owners(segments)[_owners(ensembles)]
    rows = rows[owners]
    ids, ends = batch["ledger_id"].to_numpy()[rows], last.to_numpy()[owners]
    bookies = ensembles.flatten().to_pylist()
    return set(zip(rows.tolist(), ids.tolist(), ends.tolist(), bookies, strict=True))


def _owners(column: pa.ListArray) -> np.ndarray:
    """Return the row of each flattened value of a column of lists."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    return np.repeat(np.arange(len(column)), lengths)

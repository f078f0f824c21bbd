"""Find in columns of metadata the ledgers of which a run reads entries to test lists.

A run reads few entries of few ledgers. Whether it reads any of a ledger depends on hashes of the
ledger's id and its bookies, and on its number of entries. Only these ledgers become Python values:
`ListTests.copies` is the reference that says which copies are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import places_by_code
from auditor.first_checker.probing import place
from auditor.first_checker.spot_reads import Density, ListTests
from auditor.model.identity import BookieId
from auditor.model.ledger import LedgerState

LAST_UNKNOWN = 2**63 - 1
"""Stands for the end of a closed ledger without lastEntryId: no rank is above it."""
TESTED_COLUMNS = (
    *("ledger_id", "state", "ensemble_size", "write_quorum", "last_entry_id", "segments"),
)
"""The columns of LEDGERS that say of which ledgers entries are read."""
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def may_have_reads(records: pa.StructArray, tests: ListTests) -> Mask:
    """Return of which records the tests may read an entry. They have the TESTED_COLUMNS.

    Of any other record `ListTests.copies` yields nothing. An arc has no entry of a ledger if the
    lowest rank in it is above the last entry: a bookie should hold at most the entries up to it. A
    ledger whose ends of segments are not plain has such ends. Costs some operations on whole
    columns for each bookie.
    """
    found = np.zeros(len(records), np.bool_)
    for bookie, places in _places(records, list(tests.bookies)):
        density = tests.bookies[bookie]
        found[places.rows[_has_spot(tests, bookie, density, places)]] = True
        if tests.of_lists and density.ends_step:
            found[places.rows[_has_end(tests, bookie, places)]] = True
    return found


class _Places(NamedTuple):
    """Places of one bookie in ensembles of closed ledgers.

    `rows` are the numbers of the records. `is_plain`: the only segment begins at entry 0, and has
    as many bookies as the ensemble size.
    """

    rows: Numbers
    ledgers: Numbers
    last: Numbers
    positions: Numbers
    sizes: Numbers
    quorums: Numbers
    is_plain: Mask


def _places(
    records: pa.StructArray, bookies: Sequence[BookieId]
) -> Iterator[tuple[BookieId, _Places]]:
    """Yield the places of each of these bookies."""
    cells = {name: pc.struct_field(records, name) for name in TESTED_COLUMNS}
    is_closed = pc.fill_null(pc.equal(cells["state"], LedgerState.CLOSED.value), False)
    ledgers, last, sizes, quorums = (
        cells[name].fill_null(unknown).to_numpy(zero_copy_only=False).astype(np.int64)
        for name, unknown in (
            ("ledger_id", -1),
            ("last_entry_id", LAST_UNKNOWN),
            ("ensemble_size", 0),
            ("write_quorum", 0),
        )
    )
    segments = cells["segments"].flatten()
    owners = pc.list_parent_indices(cells["segments"]).to_numpy()
    ensembles = pc.struct_field(segments, "ensemble")
    lengths = ensembles.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    first = pc.struct_field(segments, "first_entry_id").fill_null(-1)
    is_plain = (first.to_numpy(zero_copy_only=False) == 0) & (lengths == sizes[owners])
    is_plain &= np.bincount(owners, minlength=len(records))[owners] == 1
    is_plain &= (quorums[owners] >= 1) & (quorums[owners] <= sizes[owners])
    is_plain &= (last[owners] >= 0) & (last[owners] < LAST_UNKNOWN)
    segment_of = np.repeat(np.arange(len(lengths)), lengths)
    names = pc.index_in(ensembles.flatten(), pa.array(bookies, pa.string())).fill_null(-1)
    numbers = np.where(
        is_closed.to_numpy(zero_copy_only=False)[owners[segment_of]],
        names.to_numpy(zero_copy_only=False),
        -1,
    )
    begins = np.cumsum(lengths) - lengths
    for bookie, at in zip(bookies, places_by_code(numbers, len(bookies)), strict=True):
        segment = segment_of[at]
        of = owners[segment]
        columns = (ledgers[of], last[of], at - begins[segment], sizes[of], quorums[of])
        yield bookie, _Places(of, *columns, is_plain[segment])


def _has_spot(tests: ListTests, bookie: BookieId, density: Density, places: _Places) -> Mask:
    """Return which ledgers may have an entry in the bookie's arc."""
    found = np.zeros(len(places.rows), np.bool_)
    if density.arc.length:
        starts = tests.starts.of_ledgers(places.ledgers, bookie)
        for draw in density.arc.draws():
            ranks = (starts + np.uint64(place(draw))) % np.uint64(draw.step)
            found |= ranks.astype(np.int64) <= places.last
    return found


def _has_end(tests: ListTests, bookie: BookieId, places: _Places) -> Mask:
    """Return which ledgers have a chosen end of a segment on the bookie, or may have one.

    An entry is at the positions p of an ensemble with (p - entry) mod size < write quorum.
    """
    sizes = np.maximum(places.sizes, 1)
    first = np.where(places.positions < places.quorums, 0, places.positions - places.quorums + 1)
    behind = (places.positions - places.last) % sizes
    last = np.where(behind < places.quorums, places.last, places.last - (sizes - behind))
    is_chosen = np.zeros(len(places.rows), np.bool_)
    for entries in (first, last):
        is_chosen |= tests.chosen_ends(bookie, places.ledgers, entries)
    return ~places.is_plain | (is_chosen & (first <= places.last))

"""The copies that the metadata in a stored run promises, as arrays: a row a segment, a column a bookie.

Built from the tables of a run in time and memory linear in the number of segments, without a Python
object for a ledger that is in order. Only closed ledgers with entries are in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.model.identity import BookieId
from auditor.model.ledger import LedgerState, RecordStatus

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

LEDGER_COLUMNS = ["ledger_id", "look", "status", "state", "last_entry_id", "write_quorum", "ack_quorum", "segments"]
"""The columns of evidence/ledgers that are needed."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Segments with one ensemble size E and one write quorum. `n` rows.

    ledgers: (n,) index into `StoredCopies.ledger_ids`. ensembles: (n, E) codes of bookies. begun:
    (n, E) entries of the segment whose write set begins at this position. doubtful: (n, E) whether
    the run does not vouch for the copies of this ledger on this bookie. absent: (n, E) whether the
    bookie surely holds no entry of this ledger.
    """

    write_quorum: int
    ack_quorums: Ints
    ledgers: Ints
    ensembles: Ints
    begun: Ints
    doubtful: Flags
    absent: Flags

    @property
    def is_used(self) -> Flags:
        """(n, E): whether some entry begins its write set at this position."""
        return self.begun > 0

    def write_sets(self) -> Iterator[tuple[Ints, Flags]]:
        """Yield for each place in a write set the columns of the ensemble that take this place.

        The columns are (E,), by the position at which the write set begins. Beside them (n, E):
        whether the bookie has no earlier place. A bookie twice in a write set holds one copy.
        """
        size = self.ensembles.shape[1]
        for place in range(self.write_quorum):
            columns = (np.arange(size) + place) % size
            bookies = self.ensembles[:, columns]
            is_first = np.ones(bookies.shape, bool)
            for before in range(place):
                is_first &= bookies != self.ensembles[:, (np.arange(size) + before) % size]
            yield columns, is_first


@dataclass(frozen=True, slots=True)
class StoredCopies:
    """The copies of every closed ledger with entries. `bookies` names the codes."""

    ledger_ids: Ints
    bookies: tuple[BookieId, ...]
    segments: tuple[Segments, ...]


def promised_copies(ledgers: pa.Table) -> StoredCopies:
    """Return the copies that metadata promises, none of them doubtful.

    `ledgers` has LEDGER_COLUMNS at every look. Metadata that contradicts itself has no copies that
    count.
    """
    flat = _flatten(_newest_closed(ledgers))
    return StoredCopies(flat.ledger_ids, flat.bookies, tuple(_by_shape(flat)))


def _newest_closed(ledgers: pa.Table) -> pa.Table:
    """Return the row of the last look of each ledger, if that ledger is closed and has entries."""
    order = np.lexsort((ledgers["look"].to_numpy(), ledgers["ledger_id"].to_numpy()))
    ids = ledgers["ledger_id"].to_numpy()[order]
    is_last = np.append(ids[1:] != ids[:-1], True) if len(ids) else np.empty(0, bool)
    rows = ledgers.take(pa.array(order[is_last]))
    is_found = pc.equal(rows["status"], RecordStatus.FOUND.value)
    is_closed = pc.equal(rows["state"], LedgerState.CLOSED.value)
    has_entries = pc.greater_equal(rows["last_entry_id"], 0)
    keep = pc.and_(pc.and_(is_found, is_closed), has_entries)
    return rows.filter(pc.fill_null(keep, False)).combine_chunks()


@dataclass(frozen=True, slots=True)
class _Flat:
    """Every segment in one row: where its ensemble lies in `codes`, and which entries it has."""

    ledger_ids: Ints
    bookies: tuple[BookieId, ...]
    ledgers: Ints
    firsts: Ints
    counts: Ints
    write_quorums: Ints
    ack_quorums: Ints
    starts: Ints
    sizes: Ints
    codes: Ints


def _flatten(rows: pa.Table) -> _Flat:
    segments = _one_array(rows["segments"])
    ledgers = pc.list_parent_indices(segments).to_numpy().astype(np.int64)
    flat = segments.flatten()
    ensembles, firsts = flat.field("ensemble"), flat.field("first_entry_id").to_numpy()
    names = pc.dictionary_encode(ensembles.flatten())
    offsets = ensembles.offsets.to_numpy().astype(np.int64)
    lasts = rows["last_entry_id"].to_numpy()[ledgers]
    has_next = np.append(ledgers[1:] == ledgers[:-1], False) if len(ledgers) else np.empty(0, bool)
    lasts = np.where(has_next, np.append(firsts[1:], 0) - 1, lasts)
    return _Flat(
        ledger_ids=rows["ledger_id"].to_numpy(),
        bookies=tuple(names.dictionary.to_pylist()),
        ledgers=ledgers,
        firsts=firsts,
        counts=lasts - firsts + 1,
        write_quorums=rows["write_quorum"].to_numpy()[ledgers].astype(np.int64),
        ack_quorums=rows["ack_quorum"].to_numpy()[ledgers].astype(np.int64),
        starts=offsets[:-1] - offsets[0],
        sizes=np.diff(offsets),
        codes=names.indices.to_numpy().astype(np.int64),
    )


def _one_array(column: pa.ChunkedArray) -> pa.ListArray:
    chunks = column.chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else pa.array([], column.type)


def _by_shape(flat: _Flat) -> Iterator[Segments]:
    """Yield the segments with entries, those of one ensemble size and write quorum together."""
    is_sane = (flat.counts > 0) & (flat.sizes > 0) & (flat.write_quorums > 0) & (flat.write_quorums <= flat.sizes)
    shapes = np.stack([flat.sizes, flat.write_quorums], axis=1)[is_sane]
    for size, quorum in np.unique(shapes, axis=0).tolist() if len(shapes) else []:
        rows = np.flatnonzero(is_sane & (flat.sizes == size) & (flat.write_quorums == quorum))
        ensembles = flat.codes[flat.starts[rows][:, None] + np.arange(size)]
        offsets = (np.arange(size) - flat.firsts[rows][:, None]) % size
        counts = flat.counts[rows][:, None]
        begun = np.where(counts > offsets, (counts - offsets - 1) // size + 1, 0)
        nobody = np.zeros(ensembles.shape, bool)
        yield Segments(int(quorum), flat.ack_quorums[rows], flat.ledgers[rows], ensembles, begun, nobody, nobody)

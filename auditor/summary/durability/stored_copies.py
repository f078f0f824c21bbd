"""The copies that the metadata in a stored run promises, as arrays: a row a segment, a column a
bookie.

Built from the tables of a run in time and memory linear in the number of segments, without a Python
object for a healthy ledger. Only closed ledgers with entries are included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import last_of_each
from auditor.model.identity import BookieId
from auditor.model.ledger import LedgerState, RecordStatus

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

LEDGER_COLUMNS = [
    "ledger_id",
    "look",
    "status",
    "state",
    "last_entry_id",
    "ensemble_size",
    "write_quorum",
    "ack_quorum",
    "segments",
]
"""The columns of evidence/ledgers that are needed."""


def zero_counts(shape: int | tuple[int, ...]) -> Ints:
    """Return a new array of zeros."""
    return np.zeros(shape, np.int64)


def no_flags(shape: int | tuple[int, ...]) -> Flags:
    """Return a new array of False."""
    return np.zeros(shape, bool)


@dataclass(frozen=True, slots=True)
class Segments:
    """`n` segments with the same ensemble size E and write quorum.

    ledgers: (n,) index into `StoredCopies.ledger_ids`. ensembles: (n, E) codes of bookies. begun:
    (n, E) entries of the segment whose write set begins at this position. doubtful: (n, E) whether
    the run does not confirm the copies of this ledger on this bookie. absent: (n, E) whether the
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
        """Yield, for each place in a write set, the columns of the ensemble that take it.

        The columns are (E,), by the position at which the write set begins. The second value, (n,
        E), says whether the bookie has no earlier place in the write set. A bookie that is named
        twice holds one copy.
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
    """The copies of every closed ledger with entries. `bookies` names the codes.

    `unread`: ledgers that are left out because their metadata could not be read or decoded, or
    because they are closed and it contradicts itself. They may have copies anywhere.
    """

    ledger_ids: Ints
    bookies: tuple[BookieId, ...]
    segments: tuple[Segments, ...]
    unread: int = 0


def promised_copies(ledgers: pa.Table) -> StoredCopies:
    """Return the copies that metadata promises, none of them doubtful.

    `ledgers` has LEDGER_COLUMNS at every look.
    """
    newest = _newest_rows(ledgers)
    closed = newest.filter(_is_closed(newest))
    is_contradictory = pa.array(_contradicts_itself(closed))
    sound = closed.filter(pc.invert(is_contradictory))
    flat = _flatten(sound.filter(pc.greater_equal(sound["last_entry_id"], 0)))
    unread = _count_unread(newest) + int(pc.sum(is_contradictory).as_py() or 0)
    return StoredCopies(flat.ledger_ids, flat.bookies, tuple(_by_shape(flat)), unread)


def _newest_rows(ledgers: pa.Table) -> pa.Table:
    """Return the row of the last look of each ledger."""
    order = np.lexsort((ledgers["look"].to_numpy(), ledgers["ledger_id"].to_numpy()))
    is_last = last_of_each(ledgers["ledger_id"].to_numpy()[order])
    return ledgers.take(pa.array(order[is_last]))


def _is_closed(rows: pa.Table) -> pa.ChunkedArray:
    """Return for each row whether its metadata was read and says that the ledger is closed."""
    is_found = pc.equal(rows["status"], RecordStatus.FOUND.value)
    return pc.and_(is_found, pc.equal(rows["state"], LedgerState.CLOSED.value))


def _count_unread(rows: pa.Table) -> int:
    """Count the ledgers without readable metadata."""
    known = pa.array([RecordStatus.FOUND.value, RecordStatus.GONE.value])
    return int(pc.sum(pc.invert(pc.is_in(rows["status"], known))).as_py() or 0)


def _contradicts_itself(rows: pa.Table) -> Flags:
    """Return for closed ledgers whether `first_checker.metadata.contradictions` finds any."""
    size, write, ack, last = (
        pc.fill_null(rows[name], -2).to_numpy()
        for name in ("ensemble_size", "write_quorum", "ack_quorum", "last_entry_id")
    )
    # A quorum below one is above another or leaves the ack quorum below one; an end below -1 lies
    # before the first segment.
    is_contradictory: Flags = (ack < 1) | (ack > write) | (write > size)
    segments = rows["segments"].combine_chunks()
    ledgers = pc.list_parent_indices(segments).to_numpy().astype(np.int64)
    flat = segments.flatten()
    firsts = flat.field("first_entry_id").to_numpy()
    is_last = last_of_each(ledgers)
    is_wrong = np.where(np.roll(is_last, 1), firsts != 0, firsts <= np.roll(firsts, 1))
    is_wrong |= pc.list_value_length(flat.field("ensemble")).to_numpy() != size[ledgers]
    is_wrong |= is_last & (firsts > last[ledgers] + 1)
    is_contradictory[ledgers[is_wrong]] = True
    is_contradictory[np.bincount(ledgers, minlength=len(is_contradictory)) == 0] = True
    return is_contradictory


@dataclass(frozen=True, slots=True)
class _Flat:
    """Every segment in one row: where its ensemble is in `codes`, and which entries it has."""

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
    segments = rows["segments"].combine_chunks()
    ledgers = pc.list_parent_indices(segments).to_numpy().astype(np.int64)
    flat = segments.flatten()
    ensembles, firsts = flat.field("ensemble"), flat.field("first_entry_id").to_numpy()
    names = pc.dictionary_encode(ensembles.flatten())
    sizes = pc.list_value_length(ensembles).to_numpy().astype(np.int64)
    lasts = np.where(
        last_of_each(ledgers), rows["last_entry_id"].to_numpy()[ledgers], np.roll(firsts, -1) - 1
    )
    return _Flat(
        ledger_ids=rows["ledger_id"].to_numpy(),
        bookies=tuple(names.dictionary.to_pylist()),
        ledgers=ledgers,
        firsts=firsts,
        counts=lasts - firsts + 1,
        write_quorums=rows["write_quorum"].to_numpy()[ledgers],
        ack_quorums=rows["ack_quorum"].to_numpy()[ledgers],
        starts=np.cumsum(sizes) - sizes,
        sizes=sizes,
        codes=names.indices.to_numpy().astype(np.int64),
    )


def _by_shape(flat: _Flat) -> Iterator[Segments]:
    """Yield the segments, grouped by ensemble size and write quorum."""
    shapes = np.stack([flat.sizes, flat.write_quorums], axis=1)
    for size, quorum in np.unique(shapes, axis=0).tolist():
        rows = np.flatnonzero((flat.sizes == size) & (flat.write_quorums == quorum))
        ensembles = flat.codes[flat.starts[rows][:, None] + np.arange(size)]
        offsets = (np.arange(size) - flat.firsts[rows][:, None]) % size
        counts = flat.counts[rows][:, None]
        begun = np.maximum((counts - offsets - 1) // size + 1, 0)
        nobody = no_flags(ensembles.shape)
        yield Segments(
            quorum, flat.ack_quorums[rows], flat.ledgers[rows], ensembles, begun, nobody, nobody
        )

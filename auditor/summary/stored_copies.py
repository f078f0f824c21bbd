"""The copies that a stored run vouches for, as arrays: one row a segment, one column a bookie.

Built from the tables of a run in time and memory linear in the number of segments, without a Python
object for a ledger that is in order. Only closed ledgers with entries are in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.model.identity import BookieId
from auditor.model.ledger import LedgerState, RecordStatus
from auditor.model.verdict import Unknown

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

LEDGER_COLUMNS = ["ledger_id", "look", "status", "state", "last_entry_id", "write_quorum", "ack_quorum", "segments"]
"""The columns of evidence/ledgers that are needed."""
VERDICT_COLUMNS = ["ledger_id", "unknowns", "lacks"]
"""The columns of verdicts that are needed."""

_ABOUT_SILENT = [Unknown.BOOKIE_SILENT.value, Unknown.BOOKIE_REFUSED.value]
"""Reasons that are about bookies the run did not hear; any other makes all copies doubtful."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Segments with one ensemble size E and one write quorum. `n` rows.

    ledgers: (n,) index into `StoredCopies.ledger_ids`. ensembles: (n, E) codes of bookies. used:
    (n, E) whether some entry of the segment begins its write set at this position. doubtful: (n, E)
    whether the run does not vouch for the copies of this ledger on this bookie.
    """

    write_quorum: int
    ack_quorums: Ints
    ledgers: Ints
    ensembles: Ints
    used: Flags
    doubtful: Flags


@dataclass(frozen=True, slots=True)
class StoredCopies:
    """The copies of every closed ledger with entries. `bookies` names the codes."""

    ledger_ids: Ints
    bookies: tuple[BookieId, ...]
    segments: tuple[Segments, ...]


def copies_of_run(ledgers: pa.Table, verdicts: pa.Table, unheard: Collection[BookieId]) -> StoredCopies:
    """Return the copies of a run.

    `ledgers` has LEDGER_COLUMNS at every look, `verdicts` VERDICT_COLUMNS. `unheard` are the bookies
    that gave the run no answer. Metadata that contradicts itself has no copies that count.
    """
    newest = _newest_closed(ledgers)
    flat = _flatten(newest)
    doubts = _doubts(flat.ledger_ids, verdicts, flat.bookies, unheard)
    return StoredCopies(flat.ledger_ids, flat.bookies, tuple(_by_shape(flat, doubts)))


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


@dataclass(frozen=True, slots=True)
class _Doubts:
    """Whom the run does not vouch for. `pairs`: codes of (ledger, bookie), sorted."""

    all_of: Flags
    unheard_of: Flags
    unheard: Flags
    pairs: Ints


def _doubts(ledger_ids: Ints, verdicts: pa.Table, bookies: tuple[BookieId, ...], unheard: Collection[BookieId]) -> _Doubts:
    """Return the doubts about ledgers. One without a verdict is doubtful altogether."""
    code = {bookie: number for number, bookie in enumerate(bookies)}
    troubled = _rows_with_doubts(verdicts)
    rows = np.flatnonzero(np.isin(ledger_ids, troubled["ledger_id"].to_numpy()))
    row_of = dict(zip(ledger_ids[rows].tolist(), rows.tolist(), strict=True))
    all_of = ~np.isin(ledger_ids, verdicts["ledger_id"].to_numpy())
    unheard_of, pairs = np.zeros(len(ledger_ids), bool), list[int]()
    for verdict in troubled.to_pylist():
        row = row_of.get(verdict["ledger_id"])
        if row is None:
            continue
        all_of[row] |= any(reason not in _ABOUT_SILENT for reason in verdict["unknowns"])
        unheard_of[row] = bool(verdict["unknowns"])
        lacking = [lack["bookie_id"] for lack in verdict["lacks"] or ()]
        pairs += [row * len(bookies) + code[bookie] for bookie in lacking if bookie in code]
    is_unheard = np.isin(np.array(bookies, dtype=object), list(unheard))
    return _Doubts(all_of, unheard_of, is_unheard, np.unique(np.array(pairs, np.int64)))


def _rows_with_doubts(verdicts: pa.Table) -> pa.Table:
    """Return the verdicts with a reason to be unknown, or with a bookie that lacks entries."""
    unknown = pc.fill_null(pc.list_value_length(verdicts["unknowns"]), 0)
    lacking = pc.fill_null(pc.list_value_length(verdicts["lacks"]), 0)
    return verdicts.filter(pc.greater(pc.add(unknown, lacking), 0))


def _by_shape(flat: _Flat, doubts: _Doubts) -> Iterator[Segments]:
    """Yield the segments with entries, those of one ensemble size and write quorum together."""
    is_sane = (flat.counts > 0) & (flat.sizes > 0) & (flat.write_quorums > 0) & (flat.write_quorums <= flat.sizes)
    shapes = np.stack([flat.sizes, flat.write_quorums], axis=1)[is_sane]
    for size, quorum in np.unique(shapes, axis=0).tolist() if len(shapes) else []:
        rows = np.flatnonzero(is_sane & (flat.sizes == size) & (flat.write_quorums == quorum))
        ledgers = flat.ledgers[rows]
        ensembles = flat.codes[flat.starts[rows][:, None] + np.arange(size)]
        offsets = (np.arange(size) - flat.firsts[rows][:, None]) % size
        doubtful = doubts.all_of[ledgers][:, None] | (doubts.unheard_of[ledgers][:, None] & doubts.unheard[ensembles])
        doubtful |= np.isin(ledgers[:, None] * len(flat.bookies) + ensembles, doubts.pairs)
        used = offsets < flat.counts[rows][:, None]
        yield Segments(int(quorum), flat.ack_quorums[rows], ledgers, ensembles, used, doubtful)

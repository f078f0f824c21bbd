"""The copies that a stored run's metadata promises, and which of them the run does not confirm.

They are arrays: a row a segment, a column a bookie. They are built from the tables of a run in time
and memory linear in the number of segments, without a Python object for a healthy ledger. Only
closed ledgers with entries are included.

A verdict counts how many copies were listed, read or assumed. If these are not all, the bookies
that gave no valid answer, or surely lack entries, must explain the difference. If they do not,
every copy of the ledger is doubtful. Some copies surely do not exist. Ledgers without a difference
cost no Python object.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import last_of_each, newest_rows
from auditor.model.availability import VALID_ANSWERS, AnswerStatus
from auditor.model.identity import BookieId
from auditor.model.ledger import LedgerState, RecordStatus
from auditor.model.verdict import Unknown

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

LEDGER_COLUMNS = [
    "ledger_id",
    "look",
    "status",
    "state",
    "last_entry_id",
    "length_bytes",
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
    """The copies of every closed ledger with entries. `bookies` names the codes. `lengths` has the
    bytes of all entries of each ledger, once, as the metadata says.

    `unread`: ledgers that are left out because their metadata could not be read or decoded, or
    because they are closed and it contradicts itself. They may have copies anywhere.
    """

    ledger_ids: Ints
    bookies: tuple[BookieId, ...]
    segments: tuple[Segments, ...]
    lengths: Ints
    unread: int = 0


def promised_copies(ledgers: pa.Table) -> StoredCopies:
    """Return the copies that metadata promises, none of them doubtful.

    `ledgers` has LEDGER_COLUMNS at every look.
    """
    newest = newest_rows(ledgers)
    closed = newest.filter(is_closed(newest))
    is_contradictory = pa.array(_contradicts_itself(closed))
    sound = closed.filter(pc.invert(is_contradictory))
    flat = _flatten(sound.filter(pc.greater_equal(sound["last_entry_id"], 0)))
    unread = _count_unread(newest) + int(pc.sum(is_contradictory).as_py() or 0)
    segments = tuple(_by_shape(flat))
    return StoredCopies(flat.ledger_ids, flat.bookies, segments, flat.lengths, unread)


def is_closed(rows: pa.Table) -> pa.ChunkedArray:
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
    lengths: Ints
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
        lengths=pc.fill_null(rows["length_bytes"], 0).to_numpy(),
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


COUNTS = ("copies_expected", "copies_listed", "copies_read", "copies_assumed")
VERDICT_COLUMNS = ["ledger_id", "unknowns", "lacks", *COUNTS]
"""The columns of verdicts that are needed."""
ANSWER_COLUMNS = ["ledger_id", "bookie_id", "look", "status"]
"""The columns of evidence/answers that are needed."""

_ABOUT_SOME = [
    Unknown.BOOKIE_SILENT.value,
    Unknown.BOOKIE_REFUSED.value,
    Unknown.BOOKIE_UNSUPPORTED.value,
    Unknown.ANSWER_TIMEOUT.value,
    Unknown.ANSWER_INVALID.value,
    Unknown.ANSWER_TOO_LARGE.value,
    Unknown.ADDRESS_UNKNOWN.value,
    Unknown.AUDITOR_LIMITED.value,
    Unknown.TOPOLOGY_UNKNOWN.value,
]
"""Reasons about bookies, for which counts and answers say more, and about placement, which does not
affect copies. Any other reason makes all copies of a ledger doubtful."""


def ledgers_in_doubt(verdicts: pa.Table) -> pa.Array:
    """Return the ids of the ledgers with fewer confirmed copies than promised."""
    return verdicts.filter(pc.greater(_gaps(verdicts), 0))["ledger_id"].combine_chunks()


def with_doubts(copies: StoredCopies, verdicts: pa.Table, answers: pa.Table) -> StoredCopies:
    """Return the copies with `doubtful` and `absent`.

    `verdicts` has VERDICT_COLUMNS, `answers` has ANSWER_COLUMNS of `ledgers_in_doubt` at every
    look.
    """
    known = _known_of(copies.ledger_ids, verdicts)
    pairs = _pairs_of(copies, known.gaps > 0, verdicts, answers)
    ledger = pairs.keys // len(copies.bookies)
    few, many = pairs.unheard * pairs.copies, (pairs.unheard | pairs.unlisted) * pairs.copies
    few, many = (np.where(lost > 0, lost, pairs.lacks) for lost in (few, many))
    explained = [
        np.bincount(ledger, lost, len(known.gaps)) + pairs.second_copies for lost in (few, many)
    ]
    is_few, is_many = (known.gaps <= total for total in explained)
    doubtful = pairs.keys[np.where(is_few[ledger], few > 0, many > 0)]
    return _apply_doubts(copies, known.all_of | ~is_many, doubtful, pairs.keys[pairs.absent])


def doubt_bookies(copies: StoredCopies, bookies: Collection[BookieId]) -> StoredCopies:
    """Return the copies with every copy on these bookies doubtful."""
    if not bookies:
        return copies
    codes = [code for code, bookie in enumerate(copies.bookies) if bookie in bookies]
    return replace(
        copies,
        segments=tuple(
            replace(block, doubtful=block.doubtful | np.isin(block.ensembles, codes))
            for block in copies.segments
        ),
    )


def count_by_bookie(copies: StoredCopies) -> dict[BookieId, tuple[int, int]]:
    """Return for each bookie how many copies are promised on it, and how many are not doubtful.

    A bookie that is named twice in a write set holds one copy.
    """
    promised, confirmed = (zero_counts(len(copies.bookies)) for _ in range(2))
    for block in copies.segments:
        for columns, is_first in block.write_sets():
            codes, amounts = block.ensembles[:, columns], block.begun * is_first
            np.add.at(promised, codes, amounts)
            np.add.at(confirmed, codes, amounts * ~block.doubtful[:, columns])
    numbers = zip(promised.tolist(), confirmed.tolist(), strict=True)
    return dict(zip(copies.bookies, numbers, strict=True))


def bytes_on(copies: StoredCopies, bookies: Collection[BookieId]) -> int:
    """Return how many bytes of closed ledgers are promised on these bookies together.

    The entries of a ledger count as equally long.
    """
    is_asked = np.array([bookie in bookies for bookie in copies.bookies], bool)
    entries, held = (zero_counts(len(copies.ledger_ids)) for _ in range(2))
    for block in copies.segments:
        np.add.at(entries, block.ledgers, block.begun.sum(axis=1))
        for columns, is_first in block.write_sets():
            amounts = block.begun * (is_first & is_asked[block.ensembles[:, columns]])
            np.add.at(held, block.ledgers, amounts.sum(axis=1))
    return int((copies.lengths * (held / np.maximum(entries, 1))).sum())


def _apply_doubts(
    copies: StoredCopies, all_of: Flags, doubtful: Ints, absent: Ints
) -> StoredCopies:
    """Return the copies with these doubts. `doubtful` and `absent` are keys of (ledger, bookie)
    pairs.
    """
    touched = no_flags(len(copies.ledger_ids))
    touched[np.concatenate([doubtful, absent]) // len(copies.bookies)] = True
    blocks = []
    for block in copies.segments:
        of_all = np.repeat(all_of[block.ledgers][:, None], block.ensembles.shape[1], axis=1)
        of_none = no_flags(block.ensembles.shape)
        rows = np.flatnonzero(touched[block.ledgers])
        keys = _keys(copies, block, rows)
        of_all[rows] |= np.isin(keys, doubtful)
        of_none[rows] = np.isin(keys, absent)
        blocks.append(replace(block, doubtful=of_all | of_none, absent=of_none))
    return replace(copies, segments=tuple(blocks))


@dataclass(frozen=True, slots=True)
class _Known:
    """What verdicts say of each ledger: copies not confirmed, and whether all are doubtful."""

    gaps: Ints
    all_of: Flags


def _known_of(ledger_ids: Ints, verdicts: pa.Table) -> _Known:
    """Return what is known of each ledger. Without a verdict or counts, all its copies are
    doubtful.
    """
    gaps, all_of = zero_counts(len(ledger_ids)), ~no_flags(len(ledger_ids))
    rows, is_closed = _rows_of(ledger_ids, verdicts["ledger_id"].to_numpy())
    counted = _gaps(verdicts)
    gaps[rows] = pc.fill_null(counted, 0).to_numpy()[is_closed]
    all_of[rows] = (pc.is_null(counted).to_numpy() | _has_other_reason(verdicts))[is_closed]
    return _Known(np.where(all_of, 0, gaps), all_of)


def _gaps(verdicts: pa.Table) -> pa.ChunkedArray:
    """Return how many promised copies of each ledger are not confirmed; null where none was
    counted.
    """
    expected, listed, read, assumed = (verdicts[name] for name in COUNTS)
    return pc.subtract(expected, pc.add(pc.add(listed, read), assumed))


def _has_other_reason(verdicts: pa.Table) -> Flags:
    """Return for each verdict whether a reason is not about bookies or placement."""
    reasons = verdicts["unknowns"].combine_chunks()
    is_other = pc.invert(pc.is_in(reasons.flatten(), pa.array(_ABOUT_SOME)))
    found = no_flags(len(reasons))
    found[pc.list_parent_indices(reasons).filter(is_other).to_numpy()] = True
    return found


@dataclass(frozen=True, slots=True)
class _Pairs:
    """(Ledger, bookie) pairs of ledgers with a difference, by bookie.

    A key is the ledger's index times the number of bookies, plus the code. copies: how many are
    promised. unheard: whether the newest answer is not valid, or missing. unlisted: whether the
    bookie cannot list. lacks: entries that it surely lacks; absent: whether these are all.
    second_copies: by ledger, copies promised twice on one bookie.
    """

    keys: Ints
    copies: Ints
    unheard: Flags
    unlisted: Flags
    lacks: Ints
    absent: Flags
    second_copies: Ints


def _pairs_of(
    copies: StoredCopies, is_open: Flags, verdicts: pa.Table, answers: pa.Table
) -> _Pairs:
    """Return the pairs of the ledgers that the mask `is_open` selects."""
    keys, amounts, second = [zero_counts(0)], [zero_counts(0)], zero_counts(len(is_open))
    for block in copies.segments:
        rows = np.flatnonzero(is_open[block.ledgers])
        numbered = _keys(copies, block, rows)
        for columns, is_first in block.write_sets():
            begun = block.begun[rows]
            keys.append(numbered[:, columns].ravel())
            amounts.append((begun * is_first[rows]).ravel())
            np.add.at(second, block.ledgers[rows], (begun * ~is_first[rows]).sum(axis=1))
    found, where = np.unique(np.concatenate(keys), return_inverse=True)
    promised = zero_counts(len(found))
    np.add.at(promised, where.ravel(), np.concatenate(amounts))
    answered, unlisted = _find_answers(copies, answers)
    lacking, entries, is_all = _find_lacks(copies, verdicts)
    lacks, absent = zero_counts(len(found)), np.isin(found, lacking[is_all])
    lacks[np.searchsorted(found, lacking[np.isin(lacking, found)])] = entries[
        np.isin(lacking, found)
    ]
    is_unlisted = np.isin(found, unlisted)
    return _Pairs(
        found,
        promised,
        ~np.isin(found, answered) & ~is_unlisted,
        is_unlisted,
        lacks,
        absent,
        second,
    )


def _find_answers(copies: StoredCopies, answers: pa.Table) -> tuple[Ints, Ints]:
    """Return the pairs whose newest answer is valid, and those where the bookie cannot list."""
    keys, is_known = _pair_keys(
        copies, answers["ledger_id"].to_numpy(), answers["bookie_id"].combine_chunks()
    )
    looks, statuses = answers["look"].to_numpy()[is_known], answers["status"].to_numpy()[is_known]
    order = np.lexsort((looks, keys))
    keys, statuses = keys[order], statuses[order]
    is_last = last_of_each(keys)
    is_heard = np.isin(statuses, [status.value for status in VALID_ANSWERS])
    return keys[is_last & is_heard], keys[is_last & (statuses == AnswerStatus.UNSUPPORTED.value)]


def _find_lacks(copies: StoredCopies, verdicts: pa.Table) -> tuple[Ints, Ints, Flags]:
    """Return the pairs that surely lack entries, how many, and whether these are all."""
    lacks = verdicts["lacks"].combine_chunks()
    items = lacks.flatten()
    ids = verdicts["ledger_id"].to_numpy()[pc.list_parent_indices(lacks).to_numpy()]
    keys, is_known = _pair_keys(copies, ids, items.field("bookie_id"))
    expected, absent = (items.field(name).to_numpy()[is_known] for name in ("expected", "absent"))
    return keys, absent, absent >= expected


def _pair_keys(copies: StoredCopies, ledger_ids: Ints, bookies: pa.Array) -> tuple[Ints, Flags]:
    """Return the keys of pairs of closed ledgers and bookies that they name, and which pairs these
    are.
    """
    codes = pc.index_in(bookies, pa.array(copies.bookies, pa.string()))
    rows, is_closed = _rows_of(copies.ledger_ids, ledger_ids)
    is_known = is_closed & codes.is_valid().to_numpy(zero_copy_only=False)
    return (
        rows[is_known[is_closed]] * len(copies.bookies)
        + codes.filter(pa.array(is_known)).to_numpy(),
        is_known,
    )


def _rows_of(ledger_ids: Ints, wanted: Ints) -> tuple[Ints, Flags]:
    """Return the index in `ledger_ids` of each wanted ledger that is there, and which ones are.

    `ledger_ids` are sorted.
    """
    rows = np.searchsorted(ledger_ids, wanted)
    is_there = np.isin(wanted, ledger_ids)
    return rows[is_there], is_there


def _keys(copies: StoredCopies, block: Segments, rows: Ints) -> Ints:
    return block.ledgers[rows][:, None] * len(copies.bookies) + block.ensembles[rows]

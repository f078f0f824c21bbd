"""Which promised copies a stored run confirms.

A verdict counts how many copies were listed, read or assumed. If these are not all, the bookies
that gave no valid answer, or surely lack entries, must explain the difference. If they do not,
every copy of the ledger is doubtful. Some copies surely do not exist. Ledgers without a difference
cost no Python object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.after.copy_patterns import share_patterns
from auditor.after.promised_copies import Metadata
from auditor.after.stored_copies import (
    Flags,
    Ints,
    StoredCopies,
    no_flags,
    pair_keys,
    places_of,
    zero_counts,
)
from auditor.evidence.ids import last_of_each
from auditor.model.availability import VALID_ANSWERS, AnswerStatus
from auditor.model.verdict import Unknown

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


def confirmed_copies(ledgers: pa.Table, verdicts: pa.Table, answers: pa.Table) -> StoredCopies:
    """Return the copies that metadata promises, with `doubtful` and `absent` as `with_doubts` has
    them.

    The tables are those of `promised_copies` and `with_doubts`. Ledgers share patterns. Costs some
    operations on whole columns where each copy is confirmed.
    """
    metadata = Metadata.of(ledgers)
    is_confirmed = _is_confirmed(verdicts)
    confirmed = np.sort(verdicts["ledger_id"].to_numpy()[is_confirmed])
    _, is_plain = places_of(confirmed, metadata.ledger_ids)
    is_plain &= metadata.segment_counts == 1
    plain = metadata.copies_alike(np.flatnonzero(is_plain))
    _, is_of_plain = places_of(plain.ledger_ids, verdicts["ledger_id"].to_numpy())
    of_others = verdicts.filter(pa.array(~is_of_plain))
    others = with_doubts(metadata.copies_of(np.flatnonzero(~is_plain)), of_others, answers)
    return join_parts([plain, replace(others, unread=0)])


def join_parts(parts: Sequence[StoredCopies]) -> StoredCopies:
    """Return the copies of parts that have no ledger in common, the ledgers in ascending order."""
    copies = share_patterns(parts)
    order = np.argsort(copies.ledger_ids, kind="stable")
    names = ("ledger_ids", "patterns", "ends", "lengths")
    return replace(copies, **{name: getattr(copies, name)[order] for name in names})


def _is_confirmed(verdicts: pa.Table) -> Flags:
    """Return for each verdict whether it counts each promised copy as confirmed."""
    is_complete: Flags = pc.fill_null(_gaps(verdicts), 1).to_numpy() <= 0
    return is_complete & ~_has_other_reason(verdicts)


def ledgers_in_doubt(verdicts: pa.Table) -> pa.Array:
    """Return the ids of the ledgers with fewer confirmed copies than promised, where what bookies
    surely lack is not the whole difference. Their answers say more.
    """
    gaps = pc.fill_null(_gaps(verdicts), 0).to_numpy()
    return verdicts["ledger_id"].combine_chunks().filter(pa.array(gaps > _lacking(verdicts)))


def _lacking(verdicts: pa.Table) -> Ints:
    """Return for each verdict how many entries bookies surely lack, those of all bookies added."""
    lacks = verdicts["lacks"].combine_chunks()
    found = zero_counts(len(lacks))
    np.add.at(
        found,
        pc.list_parent_indices(lacks).to_numpy(),
        lacks.flatten().field("absent").to_numpy(),
    )
    return found


def with_doubts(copies: StoredCopies, verdicts: pa.Table, answers: pa.Table) -> StoredCopies:
    """Return the copies with `doubtful` and `absent`. Each ledger has a pattern of its own.

    `verdicts` has VERDICT_COLUMNS, `answers` has ANSWER_COLUMNS of `ledgers_in_doubt` at every
    look.
    """
    known = _known_of(copies.ledger_ids, verdicts)
    pairs = _pairs_of(copies, known.gaps > 0, verdicts, answers)
    ledger = pairs.keys // len(copies.bookies)
    # Where lacking entries are the whole difference, each other copy is confirmed.
    unheard, unlisted = (one & known.in_doubt[ledger] for one in (pairs.unheard, pairs.unlisted))
    few, many = unheard * pairs.copies, (unheard | unlisted) * pairs.copies
    few, many = (np.where(lost > 0, lost, pairs.lacks) for lost in (few, many))
    explained = [
        np.bincount(ledger, lost, len(known.gaps)) + pairs.second_copies for lost in (few, many)
    ]
    is_few, is_many = (known.gaps <= total for total in explained)
    doubtful = pairs.keys[np.where(is_few[ledger], few > 0, many > 0)]
    return _apply_doubts(copies, known.all_of | ~is_many, doubtful, pairs.keys[pairs.absent])


def _apply_doubts(
    copies: StoredCopies, all_of: Flags, doubtful: Ints, absent: Ints
) -> StoredCopies:
    """Return the copies with these doubts. `doubtful` and `absent` are keys of (pattern, bookie)
    pairs.
    """
    touched = no_flags(len(all_of))
    touched[np.concatenate([doubtful, absent]) // len(copies.bookies)] = True
    blocks = []
    for block in copies.segments:
        of_all = np.repeat(all_of[block.patterns][:, None], block.ensembles.shape[1], axis=1)
        of_none = no_flags(block.ensembles.shape)
        rows = np.flatnonzero(touched[block.patterns])
        keys = pair_keys(copies, block.take(rows))
        of_all[rows] |= np.isin(keys, doubtful)
        of_none[rows] = np.isin(keys, absent)
        blocks.append(replace(block, doubtful=of_all | of_none, absent=of_none))
    return replace(copies, segments=tuple(blocks))


@dataclass(frozen=True, slots=True)
class _Known:
    """What verdicts say of each ledger: how many copies are not confirmed, whether its bookies
    surely lack fewer (`in_doubt`), and whether all copies are doubtful.
    """

    gaps: Ints
    in_doubt: Flags
    all_of: Flags


def _known_of(ledger_ids: Ints, verdicts: pa.Table) -> _Known:
    """Return what is known of each ledger. Without a verdict or counts, all its copies are
    doubtful.
    """
    gaps, all_of = zero_counts(len(ledger_ids)), ~no_flags(len(ledger_ids))
    lacking = zero_counts(len(ledger_ids))
    rows, is_closed = places_of(ledger_ids, verdicts["ledger_id"].to_numpy())
    counted = _gaps(verdicts)
    gaps[rows] = pc.fill_null(counted, 0).to_numpy()[is_closed]
    lacking[rows] = _lacking(verdicts)[is_closed]
    all_of[rows] = (pc.is_null(counted).to_numpy() | _has_other_reason(verdicts))[is_closed]
    gaps = np.where(all_of, 0, gaps)
    return _Known(gaps, gaps > lacking, all_of)


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
    for whole in copies.segments:
        block = whole.take(np.flatnonzero(is_open[whole.patterns]))
        numbered, begun = pair_keys(copies, block), block.begun(copies.ends[block.patterns])
        for columns, is_first in block.write_sets():
            keys.append(numbered[:, columns].ravel())
            amounts.append((begun * is_first).ravel())
            np.add.at(second, block.patterns, (begun * ~is_first).sum(axis=1))
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
    rows, is_closed = places_of(copies.ledger_ids, ledger_ids)
    is_known = is_closed & codes.is_valid().to_numpy(zero_copy_only=False)
    return (
        rows[is_known[is_closed]] * len(copies.bookies)
        + codes.filter(pa.array(is_known)).to_numpy(),
        is_known,
    )

"""Find the ledgers that are alike in all that a failure may do to them: they share a pattern."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from auditor.after.stored_copies import (
    BY_SEGMENT,
    Codes,
    Flags,
    Ints,
    Segments,
    StoredCopies,
    places_of,
    zero_counts,
)

JOINED_MIN = 500_000
"""Segments that wait before equal ones are joined."""


def join_portions(portions: Iterable[StoredCopies]) -> StoredCopies:
    """Return the copies of all portions, of which each has greater ledger ids than the one before.

    Ledgers of one segment share a pattern with all that are like them. Takes the memory of one
    portion, of the distinct segments, and 28 bytes for each ledger.
    """
    nothing = zero_counts(0)
    waiting: list[StoredCopies] = []
    ids, ends, lengths = zero_counts(0), zero_counts(0), zero_counts(0)
    before = 0
    for portion in portions:
        _extend(ids, portion.ledger_ids)
        _extend(ends, portion.ends)
        _extend(lengths, portion.lengths)
        waiting.append(replace(portion, ledger_ids=nothing, ends=nothing, lengths=nothing))
        if sum(map(_count_segments, waiting)) > max(JOINED_MIN, 2 * before):
            waiting = [share_patterns(waiting)]
            before = _count_segments(waiting[0])
    return replace(share_patterns(waiting), ledger_ids=ids, ends=ends, lengths=lengths)


def _extend(column: Ints, more: Ints) -> None:
    """Append to an array that nobody else holds. A list of parts would end up in memory twice."""
    before = len(column)
    column.resize(before + len(more), refcheck=False)
    column[before:] = more


def _count_segments(copies: StoredCopies) -> int:
    return sum(len(block.patterns) for block in copies.segments)


def share_patterns(parts: Sequence[StoredCopies]) -> StoredCopies:
    """Return the copies of all parts. Ledgers of one segment that are alike share a pattern."""
    bookies = tuple(dict.fromkeys(bookie for part in parts for bookie in part.bookies))
    codes = {bookie: code for code, bookie in enumerate(bookies)}
    shapes: dict[tuple[int, int], list[Segments]] = {}
    patterns, count = [np.zeros(0, np.int32)], 0
    for part in parts:
        patterns.append(part.patterns + np.int32(count))
        recoded = np.array([codes[bookie] for bookie in part.bookies], np.int32)
        for block in part.segments:
            shape = block.ensembles.shape[1], block.write_quorum
            moved = replace(
                block, patterns=block.patterns + count, ensembles=recoded[block.ensembles]
            )
            shapes.setdefault(shape, []).append(moved)
        count += part.pattern_count
    blocks = [_concatenate(shapes[shape]) for shape in sorted(shapes)]
    segments = np.zeros(count, np.int32)
    for block in blocks:
        segments += np.bincount(block.patterns, minlength=count).astype(np.int32)
    # A pattern with several segments stays that of one ledger.
    first_of = np.arange(count, dtype=np.int32)
    for block in blocks:
        rows = np.flatnonzero(segments[block.patterns] == 1)
        alike = _first_alike(block.take(rows))
        first_of[block.patterns[rows]] = block.patterns[rows[alike]]
    is_kept = first_of == np.arange(count)
    number = (np.cumsum(is_kept) - 1).astype(np.int32)
    return StoredCopies(
        _all_of(parts, "ledger_ids"),
        number[first_of[np.concatenate(patterns)]],
        bookies,
        tuple(_kept(block, is_kept, number) for block in blocks),
        _all_of(parts, "ends"),
        _all_of(parts, "lengths"),
        sum(part.unread for part in parts),
    )


def _all_of(parts: Sequence[StoredCopies], name: str) -> Ints:
    return np.concatenate([zero_counts(0), *(getattr(part, name) for part in parts)])


def _concatenate(blocks: Sequence[Segments]) -> Segments:
    """Return the segments of blocks with the same shape as one block."""
    arrays = (np.concatenate([getattr(one, name) for one in blocks]) for name in BY_SEGMENT)
    return Segments(blocks[0].write_quorum, *arrays)


def _kept(block: Segments, is_kept: Flags, number: Codes) -> Segments:
    kept = block.take(np.flatnonzero(is_kept[block.patterns]))
    return replace(kept, patterns=number[kept.patterns].astype(np.int64))


def _first_alike(block: Segments) -> Ints:
    """Return for each segment the first one that is like it, but for its ledger's last entry.

    All are the only segments of their ledgers.
    """
    flags = (block.is_used, block.doubtful, block.absent)
    firsts, which = alike(
        [block.ack_quorums, *(one for mask in flags for one in mask.T), *block.ensembles.T]
    )
    return firsts[which]


def with_own_patterns(copies: StoredCopies, ledger_ids: Ints) -> StoredCopies:
    """Return the copies with a pattern for each of these ledgers that no other ledger has.

    What is then changed of such a pattern changes one ledger.
    """
    places, _ = places_of(copies.ledger_ids, ledger_ids)
    before = copies.patterns[places]
    own = copies.pattern_count + np.arange(len(places))
    patterns = copies.patterns.copy()
    patterns[places] = own
    blocks = []
    for block in copies.segments:
        which, rows = block.rows_of(before)
        blocks += [block, replace(block.take(rows), patterns=own[which])]
    return replace(copies, patterns=patterns, segments=tuple(blocks))


_TABLE_KEYS = 2**22
"""Keys below it are looked up in a table, which takes 4 bytes each. Others are sorted."""


def alike(columns: Sequence[npt.NDArray[Any]]) -> tuple[Ints, Ints]:
    """Return the first of each group of equal rows, and for each row the number of its group.

    `columns` have whole numbers from 0 on that fit into 31 bits, or flags. Keys then fit into 62.
    """
    keys, end = zero_counts(len(columns[0])), 1
    for column in columns:
        limit = int(column.max(initial=0)) + 1
        if limit == 1:
            continue
        if end * limit > _TABLE_KEYS:
            firsts, keys = _groups(keys, end)
            end = len(firsts)
        keys, end = keys * limit + column, end * limit
    return _groups(keys, end)


def _groups(keys: Ints, end: int) -> tuple[Ints, Ints]:
    """Return the first of each group of equal keys, and for each key the number of its group."""
    if end > _TABLE_KEYS:
        _, firsts, which = np.unique(keys, return_index=True, return_inverse=True)
        return firsts, which
    first_of = np.full(end, -1, np.int32)
    first_of[keys[::-1]] = np.arange(len(keys) - 1, -1, -1)
    there = np.flatnonzero(first_of >= 0)
    number_of = zero_counts(end)
    number_of[there] = np.arange(len(there))
    return first_of[there].astype(np.int64), number_of[keys]

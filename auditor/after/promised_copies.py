"""The copies that the metadata of a stored run promises.

They are made of whole columns, in time linear in the number of segments. Only closed ledgers with
entries are included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.after.copy_patterns import alike
from auditor.after.stored_copies import (
    LEDGER_END,
    Codes,
    Flags,
    Ints,
    Segments,
    StoredCopies,
    flat_ranges,
    no_flags,
    zero_counts,
)
from auditor.evidence.ids import newest_row_numbers
from auditor.model.identity import BookieId
from auditor.model.ledger import LedgerState, RecordStatus

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
LEDGER_WORDS = ["status", "state", "segments"]
"""Those of them whose strings are better read as numbers of a dictionary."""


def promised_copies(ledgers: pa.Table) -> StoredCopies:
    """Return the copies that metadata promises, none of them doubtful. Each ledger has a pattern of
    its own, which is its place.

    `ledgers` has LEDGER_COLUMNS at every look.
    """
    metadata = Metadata.of(ledgers)
    return metadata.copies_of(np.arange(len(metadata.ledger_ids)))


def is_closed(rows: pa.Table) -> pa.ChunkedArray:
    """Return for each row whether its metadata was read and says that the ledger is closed."""
    is_found = pc.equal(rows["status"], RecordStatus.FOUND.value)
    return pc.and_(is_found, pc.equal(rows["state"], LedgerState.CLOSED.value))


def _as_flags(mask: pa.ChunkedArray) -> Flags:
    """Return a mask of Arrow. Null is not true."""
    flags: Flags = pc.fill_null(mask, False).to_numpy()
    return flags


def _is_unread(rows: pa.Table) -> Flags:
    """Return which rows lack readable metadata."""
    known = pa.array([RecordStatus.FOUND.value, RecordStatus.GONE.value])
    return ~_as_flags(pc.is_in(rows["status"], known))


@dataclass(frozen=True, slots=True)
class Metadata:
    """The newest metadata of ledgers with copies, as arrays.

    By ledger, ascending: `ledger_ids`, `ends` (its last entry), `lengths`, `write_quorums`,
    `ack_quorums`, and where its segments are (`segment_starts`, `segment_counts`). By segment of
    any ledger: `firsts` (its first entry), `starts` and `sizes` (its ensemble in `codes`).
    `unread`: as in `StoredCopies`.
    """

    ledger_ids: Ints
    ends: Ints
    lengths: Ints
    write_quorums: Ints
    ack_quorums: Ints
    segment_starts: Ints
    segment_counts: Ints
    firsts: Ints
    starts: Ints
    sizes: Ints
    codes: Codes
    bookies: tuple[BookieId, ...]
    unread: int

    @classmethod
    def of(cls, rows: pa.Table) -> Metadata:
        """Return the metadata in LEDGER_COLUMNS at every look."""

        def numbers(name: str, null: int = _NO_NUMBER) -> Ints:
            cells: Ints = pc.fill_null(rows[name], null).to_numpy().astype(np.int64, copy=False)
            return cells

        segments = rows["segments"].combine_chunks()
        bounds = segments.offsets.to_numpy().astype(np.int64)
        # Values of null cells and of a sliced column are among them.
        ensembles = segments.values.field("ensemble")
        firsts = segments.values.field("first_entry_id").to_numpy()
        ends_of = ensembles.offsets.to_numpy().astype(np.int64)
        names = pc.dictionary_encode(ensembles.values)
        starts, sizes = ends_of[:-1], np.diff(ends_of)
        ids, ends = numbers("ledger_id"), numbers("last_entry_id")
        quorums = numbers("write_quorum"), numbers("ack_quorum")
        counts = np.where(segments.is_valid().to_numpy(False), np.diff(bounds), 0)
        wanted = _Shape(numbers("ensemble_size"), *quorums, ends)
        is_there = _as_flags(is_closed(rows))
        is_contradictory = is_there & _contradicts_itself(
            wanted, bounds[:-1], counts, firsts, sizes
        )
        newest = newest_row_numbers(rows)
        unread = int((_is_unread(rows) | is_contradictory)[newest].sum())
        kept = newest[(is_there & ~is_contradictory & (ends >= 0))[newest]]
        lengths = numbers("length_bytes", 0)
        return cls(
            ids[kept],
            ends[kept],
            lengths[kept],
            quorums[0][kept],
            quorums[1][kept],
            segment_starts=bounds[:-1][kept],
            segment_counts=counts[kept],
            firsts=firsts,
            starts=starts,
            sizes=sizes,
            codes=names.indices.to_numpy(),
            bookies=tuple(names.dictionary.to_pylist()),
            unread=unread,
        )

    def copies_of(self, ledgers: Ints) -> StoredCopies:
        """Return the copies of some ledgers, given by their places, each with its own pattern."""
        which, segments, is_last = flat_ranges(
            self.segment_starts[ledgers], self.segment_counts[ledgers]
        )
        owners = ledgers[which]
        next_firsts = self.firsts[np.minimum(segments + 1, len(self.firsts) - 1)]
        lasts = np.where(is_last, LEDGER_END, next_firsts - 1)
        blocks = []
        for (size, quorum, _), rows in self._by_shape(owners, segments):
            ensembles = self._ensembles(segments[rows], size)
            nobody = no_flags(ensembles.shape)
            block = Segments(
                quorum,
                self.ack_quorums[owners[rows]],
                which[rows],
                ensembles,
                self.firsts[segments[rows]],
                lasts[rows],
                is_used=nobody,
                doubtful=nobody,
                absent=nobody,
            )
            blocks.append(replace(block, is_used=block.begun(self.ends[owners[rows]]) > 0))
        own = np.arange(len(ledgers), dtype=np.int32)
        return self._with(ledgers, own, blocks)

    def copies_alike(self, ledgers: Ints) -> StoredCopies:
        """Return the copies of some ledgers of one segment each. Those alike share a pattern."""
        patterns, blocks, before = np.zeros(len(ledgers), np.int32), [], 0
        for (size, quorum, ack), rows in self._by_shape(ledgers, self.segment_starts[ledgers]):
            ensembles = self._ensembles(self.segment_starts[ledgers[rows]], size)
            used = np.minimum(self.ends[ledgers[rows]] + 1, size)
            firsts, which = alike([used, *ensembles.T])
            patterns[rows] = before + which
            count = len(firsts)
            nobody = no_flags((count, size))
            blocks.append(
                Segments(
                    quorum,
                    np.full(count, ack),
                    before + np.arange(count),
                    ensembles[firsts],
                    zero_counts(count),
                    np.full(count, LEDGER_END),
                    is_used=np.arange(size) < used[firsts][:, None],
                    doubtful=nobody,
                    absent=nobody,
                )
            )
            before += count
        return self._with(ledgers, patterns, blocks)

    def _with(self, ledgers: Ints, patterns: Codes, blocks: Sequence[Segments]) -> StoredCopies:
        ids, ends, lengths = (one[ledgers] for one in (self.ledger_ids, self.ends, self.lengths))
        return StoredCopies(ids, patterns, self.bookies, tuple(blocks), ends, lengths, self.unread)

    def _ensembles(self, segments: Ints, size: int) -> Codes:
        ensembles: Codes = self.codes[self.starts[segments][:, None] + np.arange(size)]
        return ensembles

    def _by_shape(
        self, owners: Ints, segments: Ints
    ) -> Iterator[tuple[tuple[int, int, int], Ints]]:
        """Yield each ensemble size, write quorum and ack quorum, and the numbers of the segments
        that have them. `owners`: the ledger of each segment.
        """
        shape = self.sizes[segments], self.write_quorums[owners], self.ack_quorums[owners]
        firsts, which = alike(shape)
        for number, first in enumerate(firsts.tolist()):
            size, quorum, ack = (int(one[first]) for one in shape)
            rows = np.flatnonzero(which == number) if len(firsts) > 1 else np.arange(len(which))
            yield (size, quorum, ack), rows


_NO_NUMBER = -2
"""Stands for a null. It makes closed metadata contradict itself."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """What metadata says of each ledger beside its segments."""

    sizes: Ints
    write_quorums: Ints
    ack_quorums: Ints
    ends: Ints


def _contradicts_itself(
    wanted: _Shape, segment_starts: Ints, segment_counts: Ints, firsts: Ints, sizes: Ints
) -> Flags:
    """Return for closed ledgers whether `first_checker.metadata.contradictions` finds any."""
    size, write, ack, last = (
        *(wanted.sizes, wanted.write_quorums),
        *(wanted.ack_quorums, wanted.ends),
    )
    # A quorum below one is above another or leaves the ack quorum below one; an end below -1 lies
    # before the first segment.
    is_contradictory: Flags = (ack < 1) | (ack > write) | (write > size) | (segment_counts == 0)
    ledgers, segments, is_last = flat_ranges(segment_starts, segment_counts)
    first, before = firsts[segments], firsts[np.maximum(segments - 1, 0)]
    is_wrong = np.where(np.roll(is_last, 1), first != 0, first <= before)
    is_wrong |= sizes[segments] != size[ledgers]
    is_wrong |= is_last & (first > last[ledgers] + 1)
    is_contradictory[ledgers[is_wrong]] = True
    return is_contradictory

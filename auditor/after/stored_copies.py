"""The copies of closed ledgers, as arrays: which the metadata promises, and which are confirmed.

A row is a segment, a column a bookie. There is no Python object for a ledger. Most ledgers have one
segment, and many have the same ensemble. Such ledgers are alike in all that a failure may do to
them: they share a pattern (`auditor.after.copy_patterns`). A ledger then takes 28 bytes, and what
is computed for a pattern holds for all its ledgers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from auditor.evidence.ids import last_of_each
from auditor.model.identity import BookieId

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


def zero_counts(shape: int | tuple[int, ...]) -> Ints:
    """Return a new array of zeros."""
    return np.zeros(shape, np.int64)


def no_flags(shape: int | tuple[int, ...]) -> Flags:
    """Return a new array of False."""
    return np.zeros(shape, bool)


LEDGER_END = -1
"""Stands for the last entry of a ledger's last segment, which is that of the ledger."""


@dataclass(frozen=True, slots=True)
class Segments:
    """`n` segments with the same ensemble size E and write quorum.

    patterns: (n,) which pattern of `StoredCopies` the segment belongs to. ensembles: (n, E) codes
    of bookies. firsts, lasts: (n,) its entries; `lasts` is LEDGER_END for the last segment of a
    ledger. is_used: (n, E) whether some entry begins its write set at this position. doubtful: (n,
    E) whether the run does not confirm the copies of this ledger on this bookie. absent: (n, E)
    whether the bookie surely holds no entry of this ledger.
    """

    write_quorum: int
    ack_quorums: Ints
    patterns: Ints
    ensembles: Codes
    firsts: Ints
    lasts: Ints
    is_used: Flags
    doubtful: Flags
    absent: Flags

    def take(self, rows: Ints) -> Segments:
        """Return some of the segments."""
        arrays = (getattr(self, name)[rows] for name in BY_SEGMENT)
        return Segments(self.write_quorum, *arrays)

    def begun(self, ends: Ints) -> Ints:
        """Return how many entries begin their write set at each position: (n, E).

        `ends` has the last entry of the ledger of each segment.
        """
        size = self.ensembles.shape[1]
        lasts = np.where(self.lasts == LEDGER_END, ends, self.lasts)
        offsets = (np.arange(size) - self.firsts[:, None]) % size
        counts = (lasts - self.firsts + 1)[:, None]
        begun: Ints = np.maximum((counts - offsets - 1) // size + 1, 0)
        return begun

    def rows_of(self, patterns: Ints | Codes) -> tuple[Ints, Ints]:
        """Return the segments of these patterns: an index into `patterns`, and a row, for each."""
        order = np.argsort(self.patterns, kind="stable")
        in_order = self.patterns[order]
        starts = np.searchsorted(in_order, patterns)
        counts = np.searchsorted(in_order, patterns, "right") - starts
        which, numbers, _ = flat_ranges(starts, counts)
        return which, order[numbers]

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


BY_SEGMENT = (
    *("ack_quorums", "patterns", "ensembles", "firsts", "lasts", "is_used", "doubtful", "absent"),
)
"""The fields of `Segments` with a row for each of them, in their order."""


@dataclass(frozen=True, slots=True)
class StoredCopies:
    """The copies of every closed ledger with entries. `bookies` names the codes.

    ledger_ids: ascending. patterns: the pattern of each ledger. ends: its last entry. lengths: the
    bytes of all its entries, once, as the metadata says.

    `unread`: ledgers that are left out because their metadata could not be read or decoded, or
    because they are closed and it contradicts itself. They may have copies anywhere.
    """

    ledger_ids: Ints
    patterns: Codes
    bookies: tuple[BookieId, ...]
    segments: tuple[Segments, ...]
    ends: Ints
    lengths: Ints
    unread: int = 0

    @property
    def pattern_count(self) -> int:
        """How many patterns are numbered. Not each of them has a ledger."""
        return 1 + max((int(one.patterns.max(initial=-1)) for one in self.segments), default=-1)

    def count_ledgers(self) -> Ints:
        """Return how many ledgers each pattern has."""
        return np.bincount(self.patterns, minlength=self.pattern_count)


def pair_keys(copies: StoredCopies, block: Segments) -> Ints:
    """Return a number for the pattern and the bookie of each copy of these segments: (n, E)."""
    keys: Ints = block.patterns[:, None] * len(copies.bookies) + block.ensembles
    return keys


def places_of(ledger_ids: Ints, wanted: Ints) -> tuple[Ints, Flags]:
    """Return the index in `ledger_ids` of each wanted ledger that is there, and which ones are.

    `ledger_ids` are sorted.
    """
    rows = np.searchsorted(ledger_ids, wanted)
    is_there = no_flags(len(wanted))
    inside = rows < len(ledger_ids)
    is_there[inside] = ledger_ids[rows[inside]] == wanted[inside]
    return rows[is_there], is_there


def flat_ranges(starts: Ints, counts: Ints) -> tuple[Ints, Ints, Flags]:
    """Return the numbers of ranges that begin at `starts`: the place of its range, the number, and
    whether it is the last one of its range, for each.
    """
    which = np.repeat(np.arange(len(starts)), counts)
    ends = np.cumsum(counts)
    numbers = np.arange(len(which)) + np.repeat(starts - ends + counts, counts)
    return which, numbers, last_of_each(which)


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
    for _, block, begun in _by_portion(copies, np.arange(len(copies.ledger_ids))):
        for columns, is_first in block.write_sets():
            codes, amounts = block.ensembles[:, columns], begun * is_first
            np.add.at(promised, codes, amounts)
            np.add.at(confirmed, codes, amounts * ~block.doubtful[:, columns])
    numbers = zip(promised.tolist(), confirmed.tolist(), strict=True)
    return dict(zip(copies.bookies, numbers, strict=True))


def bytes_on(copies: StoredCopies, bookies: Collection[BookieId]) -> int:
    """Return how many bytes of closed ledgers are promised on these bookies together.

    The entries of a ledger count as equally long.
    """
    is_asked = np.array([bookie in bookies for bookie in copies.bookies], bool)
    names_one = no_flags(copies.pattern_count)
    for block in copies.segments:
        names_one[block.patterns[is_asked[block.ensembles].any(axis=1)]] = True
    held = zero_counts(len(copies.ledger_ids))
    there = np.flatnonzero(names_one[copies.patterns])
    for ledgers, block, begun in _by_portion(copies, there):
        amounts = zero_counts(len(ledgers))
        for columns, is_first in block.write_sets():
            is_held = is_first & is_asked[block.ensembles[:, columns]]
            amounts += (begun * is_held).sum(axis=1)
        np.add.at(held, ledgers, amounts)
    return int((copies.lengths * (held / (copies.ends + 1))).sum())


PORTION_LEDGERS = 200_000
"""Ledgers whose segments are in memory at a time: as many as a shard has by default."""


def _by_portion(copies: StoredCopies, ledgers: Ints) -> Iterator[tuple[Ints, Segments, Ints]]:
    """Yield the segments of these ledgers, given by their places, PORTION_LEDGERS at a time: the
    place of each one's ledger, the segments, and their `begun`.
    """
    for start in range(0, len(ledgers), PORTION_LEDGERS):
        places = ledgers[start : start + PORTION_LEDGERS]
        for block in copies.segments:
            which, rows = block.rows_of(copies.patterns[places])
            taken = block.take(rows)
            yield places[which], taken, taken.begun(copies.ends[places[which]])

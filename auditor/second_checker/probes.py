"""Which entries must be read on a bookie that cannot list, as the second checker derives them.

They are the first and the last entry of each stretch on that bookie, those that a sweep reads by
rank (decision 0037), and `probe_entries` others. The others are drawn by a hash of the run's seed,
the ledger and the bookie (decision 0014). Both checkers use the same hash, to draw the same
entries, but each derives the candidates alone. In a ledger too long to be examined whole, any
`probe_entries` others will do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auditor.model.evidence import Sweep, Terms
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.second_checker.blocks import Block
from auditor.second_checker.copies import written_to
from auditor.second_checker.entry_bits import positions_of
from auditor.second_checker.schedule import Stretch, first_of, last_of

RANKED_MAX = 2**31
"""Most entries of one ledger that a bookie should hold to be read by rank."""

ENDS_MAX = 128
"""Most ends of stretches read on one bookie: the outer two and a drawn choice if there are more."""


NO_ENTRIES: NDArray[np.int64] = np.empty(0, np.int64)


class Due(NamedTuple):
    """What must be read on one bookie: the ends of stretches, the drawn entries, those by rank.

    `drawn` is None if the drawn entries are not known; then only `drawn_count` is.
    """

    ends: frozenset[EntryId]
    drawn: frozenset[EntryId] | None
    drawn_count: int
    ranked: frozenset[EntryId] = frozenset()

    def was_read(self, entries: Collection[EntryId]) -> bool:
        """Return whether `entries` contain all that is due."""
        read, surely = set(entries), self.ends | self.ranked
        if self.drawn is not None:
            return surely | self.drawn <= read
        return surely <= read and len(read - surely) >= self.drawn_count


def reads_due(
    ledger: LedgerId,
    bookie: BookieId,
    stretches: Sequence[Stretch],
    blocks: Sequence[Block],
    terms: Terms,
) -> Due:
    """Return what must be read on a bookie. `blocks` are the examined blocks of the stretches.

    Stretches of other bookies add cost, but do not change the result.
    """
    pairs = ((first_of(one, bookie), last_of(one, bookie)) for one in stretches)
    ends = sorted({entry for pair in pairs for entry in pair if entry is not None})
    key = f"{terms.probe_seed}/{ledger}/{bookie}"
    if len(ends) > ENDS_MAX:
        inner = ends[1:-1]
        ends = [
            ends[0],
            *(inner[at] for at in _draw(f"{key}/ends", len(inner), ENDS_MAX - 2)),
            ends[-1],
        ]
    ranked = frozenset(entries_by_rank(ledger, bookie, stretches, terms.sweep))
    surely = ranked | set(ends)
    whole = {
        block.low
        for block in blocks
        if block == Block(block.stretch, block.stretch.first, block.stretch.last)
    }
    if any(bookie in one.ensemble for one in stretches if one.first not in whole):
        others = sum(_Round.of(one, bookie).total for one in stretches) - len(surely)
        return Due(frozenset(ends), None, min(others, terms.probe_entries), ranked)
    every = np.concatenate([NO_ENTRIES, *(_entries_of(one, bookie) for one in blocks)])
    rest = np.setdiff1d(every, np.array(sorted(surely), np.int64), assume_unique=True)
    chosen = _draw(f"{key}/entries", len(rest), terms.probe_entries)
    drawn = frozenset(rest[sorted(chosen)].tolist())
    return Due(frozenset(ends), drawn, len(drawn), ranked)


def entries_by_rank(
    ledger: LedgerId, bookie: BookieId, stretches: Sequence[Stretch], sweep: Sweep
) -> Iterator[EntryId]:
    """Yield the entries of a bookie that a sweep reads; `stretches` ascend.

    Those written to the bookie are numbered from 0. The numbers to read are `sweep.step` apart. The
    lowest is a hash of the series, the ledger and the bookie, plus the turn with its bits mirrored.
    Costs ensembles and the entries read, also in a long ledger.
    """
    rounds = [_Round.of(one, bookie) for one in stretches]
    numbered = sum(one.total for one in rounds)
    if sweep.step == 0 or numbered > RANKED_MAX:
        return
    hashed = blake2b(f"{sweep.seed}/{ledger}/{bookie}/sweep".encode(), digest_size=8).hexdigest()
    binary = format(sweep.turn % sweep.step, "b").zfill(sweep.step.bit_length() - 1)
    mirrored = int(binary[::-1], 2)
    number, before = (int(hashed, 16) + mirrored) % sweep.step, 0
    for one in rounds:
        while number - before < one.total:
            yield one.entry(number - before)
            number += sweep.step
        before += one.total


class _Round(NamedTuple):
    """How often a bookie comes in a stretch.

    `first`: the stretch's first entry. `size`: entries of one round of the ensemble. `offsets`:
    which of these are written to the bookie. `total`: how many of the whole stretch are.
    """

    first: EntryId
    size: int
    offsets: tuple[int, ...]
    total: int

    @classmethod
    def of(cls, stretch: Stretch, bookie: BookieId) -> _Round:
        size = len(stretch.ensemble)
        offsets = tuple(
            at for at in range(size) if bookie in stretch.bookies_of(stretch.first + at)
        )
        rounds, rest = divmod(stretch.entry_count, size)
        return cls(
            stretch.first, size, offsets, rounds * len(offsets) + sum(at < rest for at in offsets)
        )

    def entry(self, number: int) -> EntryId:
        """Return the entry of the stretch with `number` lower ones written to the bookie."""
        rounds, at = divmod(number, len(self.offsets))
        return self.first + rounds * self.size + self.offsets[at]


def _entries_of(block: Block, bookie: BookieId) -> NDArray[np.int64]:
    """Return the entries of the block written to the bookie, ascending."""
    mine = written_to(block).get(bookie)
    return NO_ENTRIES if mine is None else block.low + positions_of(mine.bits)


def _draw(key: str, population: int, count: int) -> set[int]:
    """Return `count` distinct numbers below `population`, by Floyd's sampling algorithm.

    For each of the highest `count` numbers, a number up to it is drawn by a hash. If that is taken
    already, the number itself is taken.
    """
    taken: set[int] = set()
    for highest in range(max(0, population - count), population):
        hashed = blake2b(f"{key}/{highest}".encode(), digest_size=16).hexdigest()
        drawn = int(hashed, 16) % (highest + 1)
        taken.add(highest if drawn in taken else drawn)
    return taken

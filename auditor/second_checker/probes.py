"""Which entries must be read on a bookie that cannot list, as the second checker derives them.

They are the first and the last entry of each stretch on that bookie, and `probe_entries` others.
Those are drawn by a hash of the run's seed, the ledger and the bookie (decision 0014). Both
checkers use the same hash, to draw the same entries, but each derives the candidates alone. In a
ledger too long to be examined whole, any `probe_entries` others will do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

from auditor.model.evidence import Terms
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.second_checker.blocks import Block
from auditor.second_checker.copies import write_sets
from auditor.second_checker.schedule import Stretch, first_of, last_of

ENDS_MAX = 128
"""Ends of stretches read on one bookie. Of more, the outer two and a drawn choice are read."""


class Due(NamedTuple):
    """What must be read on one bookie.

    `drawn` is None if the drawn entries are not known; then only `drawn_count` is.
    """

    ends: frozenset[EntryId]
    drawn: frozenset[EntryId] | None
    drawn_count: int

    def was_read(self, entries: Collection[EntryId]) -> bool:
        """Return whether `entries` contain all that is due."""
        read = set(entries)
        if self.drawn is not None:
            return self.ends | self.drawn <= read
        return self.ends <= read and len(read - self.ends) >= self.drawn_count


def reads_due(ledger: LedgerId, bookie: BookieId, stretches: Sequence[Stretch], blocks: Sequence[Block], terms: Terms) -> Due:
    """Return what must be read on a bookie. `blocks` are the examined blocks of the stretches.

    Stretches of other bookies add cost, but do not change the result.
    """
    pairs = ((first_of(one, bookie), last_of(one, bookie)) for one in stretches)
    ends = sorted({entry for pair in pairs for entry in pair if entry is not None})
    key = f"{terms.probe_seed}/{ledger}/{bookie}"
    if len(ends) > ENDS_MAX:
        inner = ends[1:-1]
        ends = [ends[0], *(inner[at] for at in _draw(f"{key}/ends", len(inner), ENDS_MAX - 2)), ends[-1]]
    whole = {block.low for block in blocks if block == Block(block.stretch, block.stretch.first, block.stretch.last)}
    if any(bookie in one.ensemble for one in stretches if one.first not in whole):
        return Due(frozenset(ends), None, terms.probe_entries)
    rest = sorted({entry for block in blocks for entry in _entries_of(block, bookie)} - set(ends))
    drawn = frozenset(rest[at] for at in _draw(f"{key}/entries", len(rest), terms.probe_entries))
    return Due(frozenset(ends), drawn, len(drawn))


def _entries_of(block: Block, bookie: BookieId) -> Iterator[EntryId]:
    """Yield every entry of the block that was written to the bookie."""
    for at, bookies in write_sets(block):
        if bookie in bookies:
            yield from range(block.low, block.high + 1)[at]


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

"""Whether a bookie that cannot list was read as it should be, as the second checker sees it.

Due are the first and the last entry of each stretch, and as many others as the terms say, drawn by a hash of the run's seed,
the ledger and the bookie (decision 0014). Both checkers must draw the same ones, so the hash is what they agree on; of which
entries it draws, each finds out alone. In a ledger too long to be looked at whole, as many others are due, whichever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

from auditor.model.evidence import Terms
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.second_checker.blocks import Block
from auditor.second_checker.copies import written
from auditor.second_checker.schedule import Stretch, first_of, last_of

ENDS_MAX = 128
"""Ends of stretches that are read on one bookie; of more, the outer two and a drawn choice."""


class Due(NamedTuple):
    """What has to be read on one bookie. `drawn` is None where the sample is not known entry by entry, but `drawn_count` is."""

    ends: frozenset[EntryId]
    drawn: frozenset[EntryId] | None
    drawn_count: int

    def was_read(self, entries: Collection[EntryId]) -> bool:
        """Whether these entries are all that is due."""
        read = set(entries)
        if self.drawn is not None:
            return self.ends | self.drawn <= read
        return self.ends <= read and len(read - self.ends) >= self.drawn_count


def due(ledger: LedgerId, bookie: BookieId, stretches: Sequence[Stretch], blocks: Sequence[Block], terms: Terms) -> Due:
    """`blocks` are those of the stretches that are looked at. Stretches of other bookies change nothing; they only cost."""
    pairs = ((first_of(one, bookie), last_of(one, bookie)) for one in stretches)
    ends = sorted({entry for pair in pairs for entry in pair if entry is not None})
    key = f"{terms.probe_seed}/{ledger}/{bookie}"
    if len(ends) > ENDS_MAX:
        inner = ends[1:-1]
        ends = [ends[0], *(inner[at] for at in _drawn(f"{key}/ends", len(inner), ENDS_MAX - 2)), ends[-1]]
    whole = {block.low for block in blocks if block == Block(block.stretch, block.stretch.first, block.stretch.last)}
    if any(bookie in one.ensemble for one in stretches if one.first not in whole):
        return Due(frozenset(ends), None, terms.probe_entries)
    rest = sorted({entry for block in blocks for entry in _written_to(block, bookie)} - set(ends))
    drawn = frozenset(rest[at] for at in _drawn(f"{key}/entries", len(rest), terms.probe_entries))
    return Due(frozenset(ends), drawn, len(drawn))


def _written_to(block: Block, bookie: BookieId) -> Iterator[EntryId]:
    """Every entry of the block that was written to the bookie."""
    for at, bookies in written(block):
        if bookie in bookies:
            yield from range(block.low, block.high + 1)[at]


def _drawn(key: str, population: int, count: int) -> set[int]:
    """`count` of the numbers below `population`. For each of the highest `count` numbers in turn, a number up to it is drawn;
    it is taken itself where that one was taken before."""
    taken: set[int] = set()
    for highest in range(max(0, population - count), population):
        hashed = blake2b(f"{key}/{highest}".encode(), digest_size=16).hexdigest()
        drawn = int(hashed, 16) % (highest + 1)
        taken.add(highest if drawn in taken else drawn)
    return taken

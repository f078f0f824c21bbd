"""Give each copy of an entry a place on a circle, of which each run reads an arc.

The entries of one ledger that a bookie should hold are ranked from 0, in ascending order. The
place of a copy is its rank, counted from a start that a hash draws for the ledger and the bookie
(`Starts`), with its bits in reverse order. Neighbouring ranks are therefore far apart on the
circle: an arc of 1/n of it has one of about n consecutive ranks, of every ledger. Runs that read
arc after arc have read every copy when they are once around. A sweep
(`auditor.first_checker.probing`) of step s reads an arc of 1/s of the circle.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from auditor.first_checker.entry_set import EntrySet
from auditor.first_checker.probing import STEP_MAX, SWEPT_ENTRIES_MAX, Draw, place, start_of
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.mixing import Words, mix, mix_one

CIRCLE = STEP_MAX
"""The number of places."""
UNITS = 8
"""An arc is at most twice as many units long, each a power of two. Few hashes and few steps
through a ledger then find its copies in the arc."""


BLAKE2B, MIXED = 1, 2
"""How starts are drawn: by BLAKE2b of the ledger and the bookie, or by mixing the ledger's id with
BLAKE2b of the bookie. The first costs a microsecond a ledger and bookie, the second some
nanoseconds. An arc means other copies under another way."""


class Starts(NamedTuple):
    """Draws at which rank of a ledger the circle of a bookie starts.

    Runs that continue one another have the same `seed`, and draw the same `way`.
    """

    seed: int
    way: int = MIXED

    def of(self, ledger_id: LedgerId, bookie: BookieId) -> int:
        """Return the start of one ledger on a bookie."""
        if self.way == BLAKE2B:
            return start_of(self.seed, ledger_id, bookie)
        return mix_one((ledger_id + _circle_key(self.seed, bookie)) % 2**64)

    def of_ledgers(self, ledger_ids: npt.NDArray[np.int64], bookie: BookieId) -> Words:
        """Return the start of each ledger on a bookie."""
        if self.way == BLAKE2B:
            starts = (start_of(self.seed, one, bookie) for one in ledger_ids.tolist())
            return np.fromiter(starts, np.uint64, len(ledger_ids))
        return mix(ledger_ids.astype(np.uint64) + np.uint64(_circle_key(self.seed, bookie)))


@lru_cache(10_000)
def _circle_key(seed: int, bookie: BookieId) -> int:
    digest = blake2b(f"{seed}/{bookie}/circle".encode(), digest_size=8).digest()
    return int.from_bytes(digest)


class Arc(NamedTuple):
    """The places from `first`, `length` of them. It may go on beyond the last place, at place 0."""

    first: int
    length: int

    def __contains__(self, at: object) -> bool:
        """Return whether a place is in the arc."""
        return isinstance(at, int) and (at - self.first) % CIRCLE < self.length

    @property
    def end(self) -> int:
        """The place behind the arc."""
        return (self.first + self.length) % CIRCLE

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Yield the arc as one or two ranges of places, without their ends."""
        behind = self.first + self.length
        if self.length:
            yield self.first, min(behind, CIRCLE)
        if behind > CIRCLE:
            yield 0, behind - CIRCLE

    def draws(self) -> Iterator[Draw]:
        """Yield the sweeps that together read the arc, each copy once."""
        for first, behind in self.pieces():
            at = first
            while at < behind:
                size = min(at & -at or CIRCLE, 1 << (behind - at).bit_length() - 1)
                yield Draw(CIRCLE // size, at // size)
                at += size


NO_ARC, WHOLE = Arc(0, 0), Arc(0, CIRCLE)


def arc_of(draw: Draw) -> Arc:
    """Return the arc that a sweep reads; none for a step of 0."""
    if not draw.step:
        return NO_ARC
    size = CIRCLE // draw.step
    return Arc(draw.turn % draw.step * size, size)


def arc_from(first: int, length: int) -> Arc:
    """Return an arc in whole units that has the `length` places from `first`.

    It begins before `first` and ends behind the last of them by less than a unit.
    """
    if length >= CIRCLE:
        return WHOLE
    if length < 1:
        return NO_ARC
    unit = max(1, (1 << length.bit_length() - 1) // UNITS)
    begin = first // unit * unit
    return Arc(begin, min(CIRCLE, -(-(first + length - begin) // unit) * unit))


def place_of_rank(rank: int, start: int) -> int:
    """Return the place of a copy. `start` is the hash of the ledger and the bookie."""
    return place(Draw(CIRCLE, (rank - start) % CIRCLE))


def arc_entries(arc: Arc, start: int, share: EntrySet) -> list[EntryId]:
    """Return the entries of a bookie's share of a ledger in an arc, the highest first.

    `start` is the hash of the ledger and the bookie. Costs pieces and the entries returned.
    """
    if share.count() > SWEPT_ENTRIES_MAX:
        return []
    found: list[EntryId] = []
    for draw in arc.draws():
        found += share.every(draw.step, (start + place(draw)) % draw.step)
    return sorted(found, reverse=True)

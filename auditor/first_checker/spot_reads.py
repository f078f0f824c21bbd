"""Choose the listed entries that are read to test the lists of bookies.

A list comes from a bookie's index, or from its memory: it may name entries that the bookie cannot
read. A run therefore reads some entries of what each bookie should hold, spread over its ledgers:
those in an arc (`auditor.first_checker.circle`). Which ones depends on nothing that a bookie says.

A bookie that fails such a test, or lacks an entry, is in doubt. More of what it lists is then read:
ends of segments, and a longer arc.

Verified: the entries read, with their digests. Not verified: every other listed entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from auditor.first_checker.circle import (
    NO_ARC,
    Arc,
    Starts,
    arc_entries,
    arc_of,
    place_of_rank,
)
from auditor.first_checker.coverage import Copy
from auditor.first_checker.entry_set import EntrySet
from auditor.first_checker.probing import (
    SEGMENT_ENDS_MAX,
    SWEPT_ENTRIES_MAX,
    Draw,
    place,
    step_within,
)
from auditor.first_checker.schedule import Extent, expected_entries, extents, positions
from auditor.model.availability import AnswerStatus
from auditor.model.evidence import LedgerEvidence
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerMetadata
from auditor.model.mixing import mix, mix_one

Numbers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


class Density(NamedTuple):
    """How densely a bookie's lists are tested.

    The entries in an arc are read, and one of `ends_step` ends of segments (0: none).
    """

    arc: Arc
    ends_step: int = 0

    @classmethod
    def within(
        cls, budget: int, copies: float, ends: float, *, ends_max: int | None = None
    ) -> Density:
        """Return the density that reads at most `budget` entries of a bookie.

        It should hold `copies` entries, of which `ends` are ends of segments. `ends_max` of the
        budget are for the ends, by default half of it; what they leave over is for the others.
        """
        for_ends = budget // 2 if ends_max is None else ends_max
        ends_step = step_within(for_ends, ends)
        left = budget - (ceil(ends / ends_step) if ends_step else 0)
        return cls(arc_of(Draw(step_within(left, copies), 0)), ends_step)


CopyOfLedger: TypeAlias = tuple[LedgerId, BookieId, EntryId]


@dataclass(frozen=True, slots=True)
class ListTests:
    """Which reads test the lists of some bookies at the first look, and how densely.

    `of_lists`: only what they listed and no read touched is read, ends of segments too.
    `is_denser`: these bookies are in doubt. `already_read`: copies that this look has read.
    """

    starts: Starts
    bookies: Mapping[BookieId, Density]
    of_lists: bool = False
    is_denser: bool = False
    already_read: frozenset[CopyOfLedger] = frozenset()

    @property
    def arcs(self) -> dict[BookieId, Arc]:
        """The arc that is read on each bookie."""
        return {bookie: density.arc for bookie, density in self.bookies.items()}

    def copies(self, evidence: LedgerEvidence) -> Iterator[Copy]:
        """Yield the copies of a ledger to read, the highest entry of each bookie first."""
        look, ledger_id = evidence.looks[-1], evidence.ledger_id
        metadata = look.record.metadata
        if metadata is None:
            return
        chosen = spot_copies(metadata, ledger_id, self.starts, self.arcs)
        if not self.of_lists:
            yield from (copy for copy in chosen if (ledger_id, *copy) not in self.already_read)
            return
        ends = (copy for copy in end_copies(metadata) if self._has_end(ledger_id, copy))
        for copy in sorted({*ends, *chosen}, key=lambda pair: (pair[0], -pair[1])):
            answer = look.answers.get(copy[0])
            is_listed = answer is not None and answer.status is AnswerStatus.HELD
            if is_listed and copy not in look.reads:
                yield copy

    def _has_end(self, ledger_id: LedgerId, copy: Copy) -> bool:
        """Return whether a hash chooses this end of a segment: one of `ends_step`."""
        bookie, entry = copy
        density = self.bookies.get(bookie)
        if density is None or density.ends_step == 0:
            return False
        drawn = mix_one((self.starts.of(ledger_id, bookie) + entry) % 2**64)
        return drawn % density.ends_step == 0

    def chosen_ends(self, bookie: BookieId, ledgers: Numbers, entries: Numbers) -> Mask:
        """Return which ends of segments on a bookie a hash chooses: one of its `ends_step`, which
        is not 0.
        """
        drawn = mix(self.starts.of_ledgers(ledgers, bookie) + entries.astype(np.uint64))
        chosen: Mask = drawn % np.uint64(self.bookies[bookie].ends_step) == 0
        return chosen


def spot_copies(
    metadata: LedgerMetadata, ledger_id: LedgerId, starts: Starts, arcs: Mapping[BookieId, Arc]
) -> Iterator[Copy]:
    """Yield the copies of a closed ledger that a run reads, each bookie's highest entry first.

    These are the copies in the bookie's arc. Without an arc nothing is read. Costs the segments and
    the copies yielded: few ledgers have any.
    """
    parts = extents(metadata)
    for bookie in dict.fromkeys(b for part in parts for b in part.segment.ensemble):
        arc = arcs.get(bookie, NO_ARC)
        if not arc.length:
            continue
        start, share_max = starts.of(ledger_id, bookie), _share_max(parts, metadata, bookie)
        if all((start + place(draw)) % draw.step >= share_max for draw in arc.draws()):
            continue
        share = EntrySet.join(_wants(parts, metadata, bookie))
        for entry in arc_entries(arc, start, share):
            yield bookie, entry


def place_of(metadata: LedgerMetadata, ledger_id: LedgerId, starts: Starts, copy: Copy) -> int:
    """Return the place on the circle of a copy that the metadata promises. Costs the segments."""
    bookie, entry = copy
    share = EntrySet.join(_wants(extents(metadata), metadata, bookie))
    rank = (share & EntrySet.span(0, entry - 1)).count()
    return place_of_rank(rank, starts.of(ledger_id, bookie))


def end_copies(metadata: LedgerMetadata) -> Iterator[Copy]:
    """Yield the first and the last copy that each bookie should hold of each segment.

    Each bookie's highest entry comes first. At most SEGMENT_ENDS_MAX a bookie, those of the newest
    segments.
    """
    parts = extents(metadata)
    for bookie in dict.fromkeys(b for part in parts for b in part.segment.ensemble):
        wants = [want for want in _wants(parts, metadata, bookie) if want]
        ends = sorted({end for want in wants for end in (want.first(), want.last())}, reverse=True)
        yield from ((bookie, entry) for entry in ends[:SEGMENT_ENDS_MAX])


def _wants(
    parts: tuple[Extent, ...], metadata: LedgerMetadata, bookie: BookieId
) -> Iterator[EntrySet]:
    """Yield what the bookie should hold of each part that names it."""
    for part in parts:
        at = positions(part.segment.ensemble).get(bookie)
        if at is not None:
            yield expected_entries(part, at, metadata.ensemble_size, metadata.write_quorum)


def _share_max(parts: tuple[Extent, ...], metadata: LedgerMetadata, bookie: BookieId) -> EntryId:
    """Return how many entries the bookie should hold at most."""
    size, quorum = metadata.ensemble_size, metadata.write_quorum
    copies = 0
    for part in parts:
        rounds, rest = divmod(part.last_entry_id - part.first_entry_id + 1, size)
        places = part.segment.ensemble.count(bookie)
        copies += places * (rounds * quorum + min(rest, quorum))
    return min(copies, SWEPT_ENTRIES_MAX)


NamedEntries: TypeAlias = Mapping[LedgerId, Sequence[Copy]]
"""Copies that the scrubs of listers named, by ledger."""


def expected_among(metadata: LedgerMetadata, copies: Iterable[Copy]) -> list[Copy]:
    """Return those of the copies that the metadata promises, each bookie's highest entry first."""
    parts = extents(metadata)
    shares: dict[BookieId, EntrySet] = {}
    found = []
    for bookie, entry in sorted(set(copies), key=lambda copy: (copy[0], -copy[1])):
        if bookie not in shares:
            shares[bookie] = EntrySet.join(_wants(parts, metadata, bookie))
        if entry in shares[bookie]:
            found.append((bookie, entry))
    return found

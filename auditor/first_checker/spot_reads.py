"""Choose the listed entries that are read to test the lists of bookies.

A list comes from a bookie's index, or from its memory: it may name entries that the bookie cannot
read. A run therefore reads some entries of what each bookie should hold, spread over its ledgers by
a sweep (`auditor.first_checker.sweep`). Which ones depends on nothing that a bookie says.

Verified: the entries read, with their digests. Not verified: every other listed entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from auditor.first_checker.coverage import Copy
from auditor.first_checker.entry_set import EntrySet
from auditor.first_checker.probing import SEGMENT_ENDS_MAX
from auditor.first_checker.schedule import Extent, expected_entries, extents, positions
from auditor.first_checker.sweep import (
    SWEPT_ENTRIES_MAX,
    first_rank,
    step_within,
    swept_entries,
)
from auditor.model.evidence import Sweep, Terms
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerMetadata


def spot_copies(
    metadata: LedgerMetadata, ledger_id: LedgerId, seed: int, steps: Mapping[BookieId, int]
) -> Iterator[Copy]:
    """Yield the copies of a closed ledger that a run reads, the highest entry of each bookie first:
    one of `steps[bookie]` of its share. A step of 0, or none, reads nothing.

    Costs the segments and the copies yielded: few ledgers have any.
    """
    parts = extents(metadata)
    for bookie in dict.fromkeys(b for part in parts for b in part.segment.ensemble):
        sweep = Sweep(seed, step=steps.get(bookie, 0))
        if not sweep.step or first_rank(sweep, ledger_id, bookie) >= _share_max(
            parts, metadata, bookie
        ):
            continue
        share = EntrySet.join(_wants(parts, metadata, bookie))
        for entry in reversed(list(swept_entries(sweep, ledger_id, bookie, share))):
            yield bookie, entry


def end_copies(metadata: LedgerMetadata) -> Iterator[Copy]:
    """Yield the first and the last copy that each bookie should hold of each segment, the highest
    entry of each bookie first: at most SEGMENT_ENDS_MAX a bookie, those of the newest segments.
    """
    parts = extents(metadata)
    for bookie in dict.fromkeys(b for part in parts for b in part.segment.ensemble):
        wants = [want for want in _wants(parts, metadata, bookie) if want]
        ends = sorted({end for want in wants for end in (want.first(), want.last())}, reverse=True)
        yield from ((bookie, entry) for entry in ends[:SEGMENT_ENDS_MAX])


def single_spots(
    metadata: Mapping[LedgerId, LedgerMetadata | None],
    listed: Iterable[tuple[BookieId, LedgerId]],
    terms: Terms,
) -> list[tuple[BookieId, LedgerId, EntryId]]:
    """Return the entries to read where single ledgers are audited, for each bookie and ledger that
    it listed: both ends of each segment, then others by a sweep.

    At most `terms.spot_reads` a bookie; the ends go first.
    """
    lists, chosen = set(listed), list[tuple[BookieId, LedgerId, EntryId]]()
    sought = [(i, one) for i, one in metadata.items() if one is not None]
    steps = _steps_within(sought, terms.spot_reads)
    ends = ((b, i, entry) for i, one in sought for b, entry in end_copies(one))
    swept = (
        (b, i, entry)
        for i, one in sought
        for b, entry in spot_copies(one, i, terms.probe_seed, steps)
    )
    made: Counter[BookieId] = Counter()
    for bookie, ledger_id, entry in dict.fromkeys(chain(ends, swept)):
        if (bookie, ledger_id) in lists and made[bookie] < terms.spot_reads:
            made[bookie] += 1
            chosen.append((bookie, ledger_id, entry))
    return chosen


def _steps_within(
    ledgers: Iterable[tuple[LedgerId, LedgerMetadata]], budget: int
) -> dict[BookieId, int]:
    """Return for each bookie one of how many of its entries in these ledgers are read."""
    copies: Counter[BookieId] = Counter()
    for _, one in ledgers:
        parts = extents(one)
        for bookie in {b for part in parts for b in part.segment.ensemble}:
            copies[bookie] += _share_max(parts, one, bookie)
    return {bookie: step_within(budget, count) for bookie, count in copies.items()}


def _wants(
    parts: tuple[Extent, ...], metadata: LedgerMetadata, bookie: BookieId
) -> Iterator[EntrySet]:
    """Yield what the bookie should hold of each segment that names it."""
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

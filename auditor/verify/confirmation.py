"""Which entries to read before anything counts as missing, and on which bookies.

Reads are chosen per entry and sent to every bookie of its write set that is said to lack it, so that the worst entry named
is confirmed everywhere; long runs are confirmed at their ends and by an evenly spread sample (contract section 4).
"""

from __future__ import annotations

from collections.abc import Iterator

from auditor.model.identity import BookieId, EntryId
from auditor.verify.coverage import Coverage, ExtentCoverage, Reads
from auditor.verify.entry_set import EntrySet
from auditor.verify.worst import levels, worst_entry

SAMPLE_PER_BOOKIE = 3
"""Entries between the ends of what one bookie lacks in one segment that are read too, where the bound leaves room."""

RESERVED_READS = 2
"""Of the reads allowed for a bookie, those kept back in the first round, for a worst entry that has to be chosen anew."""

Wanted = tuple[tuple[BookieId, EntryId], ...]


def wanted_reads(found: Coverage, write_quorum: int, reads: Reads, reads_max: int) -> Wanted:
    """The (bookie, entry) pairs still to be read at this look; empty when nothing more would be learnt or allowed.

    At most `reads_max` per bookie, those already made included. Asked again after each round: while reading only turns up
    entries that are there after all, the worst entry named must be chosen anew.
    """
    spent: dict[BookieId, int] = {}
    for bookie, _ in reads:
        spent[bookie] = spent.get(bookie, 0) + 1
    allowed = reads_max if reads else max(1, reads_max - RESERVED_READS)
    wanted: dict[tuple[BookieId, EntryId], None] = {}
    for entry, lackers in _candidates(found, write_quorum, first_round=not reads):
        for bookie in lackers:
            if (bookie, entry) not in reads and (bookie, entry) not in wanted and spent.get(bookie, 0) < allowed:
                wanted[bookie, entry] = None
                spent[bookie] = spent.get(bookie, 0) + 1
    return tuple(wanted)


def _candidates(found: Coverage, write_quorum: int, *, first_round: bool) -> Iterator[tuple[EntryId, list[BookieId]]]:
    """Entries worth reading, the worst first, each with the bookies that are said to lack it.

    In the first round also the ends of each level of loss, and the ends and a sample of what each bookie lacks.
    """
    for one in found.extents:
        suspects = _suspects(one)
        for entry in _worst_entries(one, suspects, write_quorum, first_round=first_round):
            yield entry, [bookie for bookie, lacks in suspects.items() if entry in lacks]
    for one in found.extents if first_round else ():
        for share in one.shares:
            for entry in _ends_and_sample(share.lacking):
                yield entry, [other.bookie_id for other in one.shares if entry in other.lacking]


def _suspects(one: ExtentCoverage) -> dict[BookieId, EntrySet]:
    """What each bookie is said to lack and no read has shown to be there."""
    return {share.bookie_id: (share.absent | share.unknown) & share.lacking for share in one.shares if share.lacking}


def _worst_entries(
    one: ExtentCoverage, suspects: dict[BookieId, EntrySet], write_quorum: int, *, first_round: bool
) -> list[EntryId]:
    """The worst entry as it will be named if every suspect proves absent; at first also the ends of each level of loss."""
    ranked = levels([*one.surplus, *suspects.values()]) if any(suspects.values()) else []
    worst = worst_entry(ranked, (share.unknown - share.lacking for share in one.shares), write_quorum)
    if worst is None:
        return []
    ends = [end for level in reversed(ranked) for end in (level.first(), level.last())] if first_round else []
    return list(dict.fromkeys((worst.entry_id, *ends)))


def _ends_and_sample(lacking: EntrySet) -> list[EntryId]:
    """The ends of the first run, the last entry, and a sample spread evenly over the rest."""
    if not lacking:
        return []
    count = lacking.count()
    first_run = next(lacking.runs())
    spread = [lacking.nth(count * step // (SAMPLE_PER_BOOKIE + 1)) for step in range(1, SAMPLE_PER_BOOKIE + 1)]
    return list(dict.fromkeys((*first_run, lacking.last(), *spread)))

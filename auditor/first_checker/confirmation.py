"""Which entries to read before anything counts as missing, and on which bookies.

Reads are chosen per entry and sent to every bookie of its write set that is said to lack it, and to those that cannot list,
so that the worst entry named is confirmed everywhere; long runs are confirmed at their ends and by an evenly spread sample
(contract section 4). Bookies that cannot list are sent the probes planned for them as well.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from auditor.first_checker.coverage import Coverage, Reads
from auditor.first_checker.entry_set import EMPTY, EntrySet
from auditor.first_checker.schedule import Extent
from auditor.first_checker.shares import TAIL_PAGE_ENTRIES, BookieShare
from auditor.first_checker.worst import Worst, levels, worst_entry
from auditor.model.availability import ABSENT_READS, EntryRead, ReadStatus
from auditor.model.identity import BookieId, EntryId

SAMPLE_PER_BOOKIE = 3
"""Entries between the ends of what one bookie lacks in one segment that are read too, where the bound leaves room."""

RESERVED_READS = 2
"""Of the reads allowed for a bookie, those kept back in the first round, for a worst entry that has to be chosen anew."""

FIRST_ROUND_READS_MIN = 2
"""Reads of the first round that are never kept back: the tail, which proves nothing, and another entry, which does."""

Wanted = tuple[tuple[BookieId, EntryId], ...]


def wanted_reads(found: Coverage, write_quorum: int, reads: Reads, reads_max: int) -> Wanted:
    """The (bookie, entry) pairs still to be read at this look; empty when nothing more would be learnt or allowed.

    All probes planned for bookies that cannot list; beside them at most `reads_max` per bookie, those already made at this
    look (`reads`) included; reads that looked for an entry elsewhere do not count. Asked again after each round: while reading
    turns up entries that are there after all, or are lacking after all, the worst entry named must be chosen anew. A bookie
    that lists and showed an entry that way, or could not be read, is not asked again: what it lacks stays unknown, and its
    word can't move the worst entry any more.
    """
    reads = {copy: read for copy, read in reads.items() if copy in found.reads}
    planned = {(bookie, entry) for bookie, probed in found.probed.items() for entry in probed.planned.all}
    tails = _tails(found)
    doubted = {b for (b, _), read in reads.items() if b not in found.probed and _is_doubtful(read, tails.get(b))}
    spent = Counter(bookie for bookie, entry in reads if (bookie, entry) not in planned)
    at_first = max(FIRST_ROUND_READS_MIN, reads_max - RESERVED_READS)
    wanted = dict.fromkeys(sorted(planned - reads.keys()))
    for bookie, entry in found.corrupt:
        if (bookie, entry) not in reads and (bookie, entry) not in wanted and spent[bookie] < reads_max:
            wanted[bookie, entry] = None
            spent[bookie] += 1
    for one in _candidates(found, write_quorum, doubted, tails, first_round=not reads):
        allowed = reads_max if reads and one.is_worst else at_first
        for bookie in one.bookies:
            if (bookie, one.entry_id) not in reads and (bookie, one.entry_id) not in wanted and spent[bookie] < allowed:
                wanted[bookie, one.entry_id] = None
                spent[bookie] += 1
    return tuple(wanted)


def _is_doubtful(read: EntryRead, tail: EntryId | None) -> bool:
    """Whether this read leaves what its bookie lacks unknown."""
    if read.status is ReadStatus.PRESENT:
        return read.entry_id != tail
    return read.status not in ABSENT_READS


def _tails(found: Coverage) -> dict[BookieId, EntryId]:
    """The highest entry a bookie should hold and is said to lack, where that may be the tail defect and proves nothing."""
    highest: dict[BookieId, EntryId] = {}
    tails: dict[BookieId, EntryId] = {}
    for extent in reversed(found.extents):
        for share in extent.shares:
            if share.bookie_id in highest or not share.expected:
                continue
            last = highest[share.bookie_id] = share.expected.last()
            if last % TAIL_PAGE_ENTRIES == 0 and last in share.lacking:
                tails[share.bookie_id] = last
    return tails


class _Candidate(NamedTuple):
    """An entry worth reading, and the bookies to read it on."""

    entry_id: EntryId
    bookies: list[BookieId]
    is_worst: bool = False


def _candidates(
    found: Coverage, write_quorum: int, doubted: set[BookieId], tails: dict[BookieId, EntryId], *, first_round: bool
) -> Iterator[_Candidate]:
    """Entries worth reading, each with the bookies that are said to lack it or cannot list: the worst of all extents first.

    In the first round the tails stand before them, and behind them the ends of each level of loss, and the ends and a sample
    of what each bookie lacks. Behind all stand entries that were read somewhere in vain: they may lack on those that cannot
    list, too. Entries with a wrong digest stand behind the worst of all: the lowest is named where nothing is worse.
    """
    if first_round:
        yield from (_Candidate(tail, [bookie]) for bookie, tail in tails.items())
    ranked = sorted(_ranked(found, write_quorum, doubted), key=lambda one: one.worst)
    worst = [_Candidate(one.worst.entry_id, one.askable(one.worst.entry_id), is_worst=True) for one in ranked]
    yield from (*worst[:1], *_of_corrupt(found), *worst[1:])
    for one in ranked if first_round else ():
        for entry in (end for level in reversed(one.levels) for end in (level.first(), level.last())):
            yield _Candidate(entry, one.askable(entry))
    for extent in found.extents if first_round else ():
        for share in extent.shares:
            for entry in _ends_and_sample(share.lacking):
                askable = [b.bookie_id for b in extent.shares if entry in b.lacking or _is_open_to_probes(b, entry)]
                yield _Candidate(entry, askable)
    for extent in found.extents if found.probed else ():
        for entry in _within(extent.extent, found.read_absent):
            yield _Candidate(entry, [share.bookie_id for share in extent.shares if _is_open_to_probes(share, entry)])


def _of_corrupt(found: Coverage) -> Iterator[_Candidate]:
    """Entries with a corrupt copy, each with the bookies that are said to lack it or cannot list."""
    corrupt = sorted({entry for _, entry in found.corrupt})
    for extent in found.extents if corrupt else ():
        for entry in _within(extent.extent, corrupt):
            askable = [b.bookie_id for b in extent.shares if entry in b.lacking or _is_open_to_probes(b, entry)]
            yield _Candidate(entry, askable, is_worst=entry == corrupt[0])


def _is_open_to_probes(share: BookieShare, entry: EntryId) -> bool:
    """Whether its bookie should hold the entry and cannot list."""
    return share.is_probed and entry in share.expected


def _within(extent: Extent, entries: Sequence[EntryId]) -> Sequence[EntryId]:
    """Those of the ascending entries that lie in the extent."""
    return entries[bisect_left(entries, extent.first_entry_id) : bisect_right(entries, extent.last_entry_id)]


class _Ranked(NamedTuple):
    """An extent with its worst entry, as it will be named if every suspect proves absent."""

    worst: Worst
    levels: list[EntrySet]
    suspects: dict[BookieId, EntrySet]
    shares: tuple[BookieShare, ...]

    def askable(self, entry: EntryId) -> list[BookieId]:
        """The bookies said to lack the entry, and those that cannot say."""
        return [
            b.bookie_id for b in self.shares if entry in self.suspects.get(b.bookie_id, EMPTY) or _is_open_to_probes(b, entry)
        ]


def _ranked(found: Coverage, write_quorum: int, doubted: set[BookieId]) -> Iterator[_Ranked]:
    """Yield the extents in which anything is absent or suspected to be, and those with a doubled bookie and one that cannot
    list: there the metadata alone makes an entry the worst. What a doubted bookie lacks is not suspected any more."""
    for one in found.extents:
        suspects = {b.bookie_id: _suspected(b, b.bookie_id in doubted) for b in one.shares}
        if not any(suspects.values()) and not (one.surplus and any(b.is_probed for b in one.shares)):
            continue
        ranked = levels([*one.surplus, *suspects.values()])
        unknown = (share.unknown - suspects[share.bookie_id] for share in one.shares)
        worst = worst_entry(ranked, unknown, write_quorum)
        assert worst is not None, "some entry has fewer copies than promised"
        listing = {b.bookie_id: suspects[b.bookie_id] & b.lacking for b in one.shares if b.bookie_id not in doubted}
        yield _Ranked(worst, ranked, listing, one.shares)


def _suspected(share: BookieShare, is_doubted: bool) -> EntrySet:
    return share.absent if is_doubted else share.absent | (share.unknown & share.lacking)


def _ends_and_sample(lacking: EntrySet) -> list[EntryId]:
    """The ends of the first run, the last entry, and a sample spread evenly over the rest."""
    if not lacking:
        return []
    count = lacking.count()
    first_run = next(lacking.runs())
    spread = [lacking.nth(count * step // (SAMPLE_PER_BOOKIE + 1)) for step in range(1, SAMPLE_PER_BOOKIE + 1)]
    return list(dict.fromkeys((*first_run, lacking.last(), *spread)))

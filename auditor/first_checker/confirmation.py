"""Choose which entries to read before anything counts as missing, and on which bookies.

An entry is read on every bookie of its write set whose list lacks it, and on those that cannot
list. This confirms the worst entry on all of them. Long ranges are confirmed at their ends and by
an evenly spread sample. Bookies that cannot list also get the probes planned for them.

A copy that a list names and a read denied is read again at each look, and its entry on every other
bookie that should hold it. Spot reads do not count as confirming reads.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from auditor.first_checker.coverage import Copy, Coverage, Reads, Worst, levels, worst_entry
from auditor.first_checker.entry_set import EMPTY, EntrySet
from auditor.first_checker.schedule import Extent
from auditor.first_checker.shares import TAIL_PAGE_ENTRIES, BookieShare
from auditor.model.availability import ABSENT_READS, EntryRead, ReadStatus
from auditor.model.identity import BookieId, EntryId

SAMPLE_PER_BOOKIE = 3
"""At most this many entries are read between the ends of what one bookie lacks in one segment."""

RESERVED_READS = 2
"""Reads per bookie that the first round leaves over, in case another worst entry must be chosen."""

FIRST_ROUND_READS_MIN = 2
"""Reads that the first round may always use: one for the last entry, which may prove nothing, and
one for an entry that does."""

Wanted = tuple[tuple[BookieId, EntryId], ...]


def wanted_reads(found: Coverage, write_quorum: int, reads: Reads, reads_max: int) -> Wanted:
    """Return the (bookie, entry) pairs still to be read at this look.

    The result is empty if reads can show nothing more, or no more are allowed. The pairs are all
    probes planned for bookies that cannot list, the highest entry first, and at most `reads_max`
    others per bookie. That limit includes the reads already made at this look (`reads`), except
    those that searched for an entry outside its write set.

    Call it again after each round. A read may find an entry that the list lacks, or confirm that an
    entry is missing: then the worst entry must be chosen again. If a bookie that lists sends an
    entry that its list lacks, or cannot be read, then what it lacks stays unknown and no longer
    affects the worst entry. The bookie is then asked again only for entries with a corrupt copy.
    """
    made = {copy: read for copy, read in reads.items() if copy in found.reads}
    reads = {copy: read for copy, read in made.items() if not _is_spot(found, read)}
    planned = {
        (bookie, entry) for bookie, probed in found.probed.items() for entry in probed.planned.all
    }
    tails = _tails(found)
    doubted = {
        b
        for (b, _), read in reads.items()
        if b not in found.probed and _is_doubtful(read, tails.get(b))
    }
    spent = Counter(bookie for bookie, entry in reads if (bookie, entry) not in planned)
    at_first = max(FIRST_ROUND_READS_MIN, reads_max - RESERVED_READS)
    # Downwards: a bookie reads ahead, and then serves entries that its index has lost.
    downwards = sorted(planned - made.keys(), key=lambda copy: (copy[0], -copy[1]))
    choice = _Choice(made, spent, dict.fromkeys(downwards))
    for copy in found.corrupt:
        choice.add(copy, reads_max)
    for copy in found.refuted:
        choice.add(copy, at_first)
    for entry, bookies in _others_of_refuted(found):
        for bookie in bookies:
            choice.add((bookie, entry), at_first)
    for candidate in _candidates(found, write_quorum, doubted, tails, first_round=not reads):
        allowed = reads_max if reads and candidate.is_worst else at_first
        for bookie in candidate.bookies:
            choice.add((bookie, candidate.entry_id), allowed)
    return tuple(choice.wanted)


@dataclass(frozen=True, slots=True)
class _Choice:
    """The wanted reads, in order. Counts those made at this look, and all of each bookie."""

    reads: Reads
    spent: Counter[BookieId]
    wanted: dict[Copy, None]

    def add(self, copy: Copy, allowed: int) -> None:
        """Add a read, unless it was made or added before or its bookie has reached its limit."""
        bookie, _ = copy
        if copy not in self.reads and copy not in self.wanted and self.spent[bookie] < allowed:
            self.wanted[copy] = None
            self.spent[bookie] += 1


def _is_spot(found: Coverage, read: EntryRead) -> bool:
    """Return whether the read tests an entry that its bookie lists."""
    return read.is_spot and read.entry_id in found.held.get(read.bookie_id, EMPTY)


def _others_of_refuted(found: Coverage) -> Iterator[tuple[EntryId, list[BookieId]]]:
    """Yield each entry with a denied copy, and the bookies that should hold it and gave a list."""
    entries = sorted({entry for _, entry in found.refuted})
    for coverage in found.extents if entries else ():
        for entry in _within(coverage.extent, entries):
            yield (
                entry,
                [
                    share.bookie_id
                    for share in coverage.shares
                    if entry in share.expected and share.bookie_id in found.held
                ],
            )


def _is_doubtful(read: EntryRead, tail: EntryId | None) -> bool:
    """Return whether this read leaves it unknown what its bookie lacks."""
    if read.status is ReadStatus.PRESENT:
        return read.entry_id != tail
    return read.status not in ABSENT_READS


def _tails(found: Coverage) -> dict[BookieId, EntryId]:
    """Return, by bookie, the highest entry that it should hold if the tail defect may hide it.

    Only entries that the bookie's list lacks count. A read that finds such an entry proves nothing
    about the other entries.
    """
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
    found: Coverage,
    write_quorum: int,
    doubted: set[BookieId],
    tails: dict[BookieId, EntryId],
    *,
    first_round: bool,
) -> Iterator[_Candidate]:
    """Yield entries worth reading, each with the bookies whose list lacks it or that cannot list.

    The order is: the tails (first round only), the worst entry of all extents, the entries with a
    wrong digest, the worst entries of the other extents. The first round adds the ends of each
    level of loss, and the ends and a sample of what each bookie lacks. Last are the entries that a
    read found absent: bookies that cannot list may lack them too. The finding names the lowest
    entry with a wrong digest if nothing is worse.
    """
    if first_round:
        yield from (_Candidate(tail, [bookie]) for bookie, tail in tails.items())
    ranked = sorted(_rank_extents(found, write_quorum, doubted), key=lambda extent: extent.worst)
    worst = [
        _Candidate(
            coverage.worst.entry_id, coverage.askable(coverage.worst.entry_id), is_worst=True
        )
        for coverage in ranked
    ]
    yield from (*worst[:1], *_of_corrupt(found), *worst[1:])
    for coverage in ranked if first_round else ():
        ends = (end for level in reversed(coverage.levels) for end in (level.first(), level.last()))
        yield from (_Candidate(entry, coverage.askable(entry)) for entry in ends)
    for extent in found.extents if first_round else ():
        for share in extent.shares:
            for entry in _ends_and_sample(share.lacking):
                yield _Candidate(entry, _askable(extent.shares, entry))
    for extent in found.extents if found.probed else ():
        for entry in _within(extent.extent, found.read_absent):
            probed = [b.bookie_id for b in extent.shares if _is_open_to_probes(b, entry)]
            yield _Candidate(entry, probed)
    yield from _of_failing(found, write_quorum)


def _of_corrupt(found: Coverage) -> Iterator[_Candidate]:
    """Yield entries with a corrupt copy, each with the bookies to read it on.

    These are the bookies whose list lacks the entry, and those that should hold it and cannot list.
    """
    corrupt = sorted({entry for _, entry in found.corrupt})
    for extent in found.extents:
        for entry in _within(extent.extent, corrupt):
            askable = _askable(extent.shares, entry)
            yield _Candidate(entry, askable, is_worst=entry == corrupt[0])


def _of_failing(found: Coverage, write_quorum: int) -> Iterator[_Candidate]:
    """Yield entries that perhaps no bookie can send, each with the bookies to read it on.

    These are entries that some bookie failed to read. They are also the ends of entries without a
    confirmed copy that a bookie should hold and failed to list: that bookie is read instead.
    """
    for extent in found.extents:
        for entry in _within(extent.extent, found.read_failed):
            yield _Candidate(entry, _askable(extent.shares, entry))
        unable = [b for b in extent.shares if b.bookie_id in found.cannot_list_it]
        if not unable:
            continue
        unconfirmed = levels([*extent.surplus, *(b.absent | b.unknown for b in extent.shares)])
        if len(unconfirmed) < write_quorum:
            continue
        bare = unconfirmed[write_quorum - 1]
        mine = [its for b in unable if (its := bare & b.expected)]
        for entry in dict.fromkeys(end for its in mine for end in (its.first(), its.last())):
            on = [b.bookie_id for b in unable if entry in b.expected]
            yield _Candidate(entry, [*on, *_askable(extent.shares, entry)])


def _askable(shares: Sequence[BookieShare], entry: EntryId) -> list[BookieId]:
    """Return the bookies whose list lacks the entry, and those that should hold it but cannot
    list.
    """
    return [b.bookie_id for b in shares if entry in b.lacking or _is_open_to_probes(b, entry)]


def _is_open_to_probes(share: BookieShare, entry: EntryId) -> bool:
    """Return whether the share's bookie should hold the entry and cannot list."""
    return share.is_probed and entry in share.expected


def _within(extent: Extent, entries: Sequence[EntryId]) -> Sequence[EntryId]:
    """Return the given entries that lie in the extent; they ascend."""
    return entries[
        bisect_left(entries, extent.first_entry_id) : bisect_right(entries, extent.last_entry_id)
    ]


class _Ranked(NamedTuple):
    """An extent, and its worst entry if every suspected absence is confirmed."""

    worst: Worst
    levels: list[EntrySet]
    suspects: dict[BookieId, EntrySet]
    shares: tuple[BookieShare, ...]

    def askable(self, entry: EntryId) -> list[BookieId]:
        """Return the bookies to read the entry on.

        They are suspected to lack it, or should hold it and cannot list.
        """
        return [
            b.bookie_id
            for b in self.shares
            if entry in self.suspects.get(b.bookie_id, EMPTY) or _is_open_to_probes(b, entry)
        ]


def _rank_extents(found: Coverage, write_quorum: int, doubted: set[BookieId]) -> Iterator[_Ranked]:
    """Yield the extents in which some entry is absent or suspected to be absent.

    Also yield those with a doubled bookie and a bookie that cannot list: there, the metadata alone
    decides which entry is the worst. What a doubted bookie lacks is no longer suspected.
    """
    for coverage in found.extents:
        suspects = {
            b.bookie_id: _suspect_entries(b, b.bookie_id in doubted) for b in coverage.shares
        }
        if not any(suspects.values()) and not (
            coverage.surplus and any(b.is_probed for b in coverage.shares)
        ):
            continue
        ranked = levels([*coverage.surplus, *suspects.values()])
        unknown = (share.unknown - suspects[share.bookie_id] for share in coverage.shares)
        worst = worst_entry(ranked, unknown, write_quorum)
        assert worst is not None, "some entry has fewer copies than promised"
        listing = {
            b.bookie_id: suspects[b.bookie_id]
            for b in coverage.shares
            if b.bookie_id not in doubted and b.bookie_id in found.held
        }
        yield _Ranked(worst, ranked, listing, coverage.shares)


def _suspect_entries(share: BookieShare, is_doubted: bool) -> EntrySet:
    return share.absent if is_doubted else share.absent | (share.unknown & share.lacking)


def _ends_and_sample(lacking: EntrySet) -> list[EntryId]:
    """Return the ends of the first range, the last entry, and an evenly spread sample."""
    if not lacking:
        return []
    count = lacking.count()
    first_run = next(lacking.runs())
    spread = [
        lacking.nth(count * step // (SAMPLE_PER_BOOKIE + 1))
        for step in range(1, SAMPLE_PER_BOOKIE + 1)
    ]
    return list(dict.fromkeys((*first_run, lacking.last(), *spread)))

"""The durability contract (BP-34) in closed form: every entry is on each bookie of its write set.

Verified, for every entry of every clear extent of a closed ledger: how many distinct bookies of its
write set hold it, lack it, or gave no valid answer. A bookie lacks an entry if its list lacks it
and reads there confirm that. The worst entry has the fewest possible copies, then the fewest
confirmed copies, then the lowest id.

A list is believed as long as reads agree with it. A listed entry that was read and denied at two
looks is absent; one whose read failed is unknown.

Not verified: that a listed entry can be read, unless it was read (a list is made from the index);
that copies outside the write set are of any use (an extra entry is not a violation).

An entry that a list lacks is only suspected to be missing: bookies leave readable entries out of
the list for hours (see `shares.TAIL_PAGE_ENTRIES`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from auditor.first_checker.entry_set import EMPTY, EntrySet
from auditor.first_checker.probing import ProbedBookie, ProbePlan, in_order
from auditor.first_checker.schedule import (
    Extent,
    expected_entries,
    expected_groups,
    extents,
    held_entries,
    positions,
    promised_copies,
)
from auditor.first_checker.shares import (
    NONE_DENIED,
    BookieEvidence,
    BookieShare,
    Denied,
    Probed,
    Sifter,
    choose_source,
    is_usable,
)
from auditor.model.availability import ABSENT_READS, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata
from auditor.model.verdict import BookieLack, CopyCounts, Probes, Unknown


class Worst(NamedTuple):
    """The rank of an entry: worse entries sort first.

    `possible` counts confirmed and unknown copies.
    """

    possible: int
    confirmed: int
    entry_id: EntryId


def levels(sets: Iterable[EntrySet]) -> list[EntrySet]:
    """Return sets: number n - 1 holds the entries that lie in at least n of `sets`.

    There is no empty level.
    """
    found: list[EntrySet] = []
    for entries in sets:
        carried = entries
        for index, level in enumerate(found):
            if not carried:
                break
            found[index], carried = level | carried, level & carried
        if carried:
            found.append(carried)
    return found


def worst_entry(
    lost: list[EntrySet], unknown: Iterable[EntrySet], write_quorum: int
) -> Worst | None:
    """Return the worst of the entries that lost a copy, or None if none did.

    `lost[n - 1]` holds the entries that lost at least n of `write_quorum` copies. In each set of
    `unknown`, the entries have one confirmed copy less. Costs set operations, at most the square of
    the number of bookies.
    """
    if not lost:
        return None
    possible = write_quorum - len(lost)
    candidates, unknown_count = lost[-1], 0
    for level in levels(unknown):
        narrowed = candidates & level
        if not narrowed:
            break
        candidates, unknown_count = narrowed, unknown_count + 1
    return Worst(possible, possible - unknown_count, candidates.first())


Copy = tuple[BookieId, EntryId]
Answers = Mapping[BookieId, Answer]
Reads = Mapping[Copy, EntryRead]
Denials = Mapping[BookieId, Denied]
"""By bookie, the entries that it lists and denied when they were read."""
NO_DENIALS: Denials = MappingProxyType({})


def is_healthy(metadata: LedgerMetadata, answers: Answers) -> bool:
    """Return whether each bookie's answer equals the canonical form of what it should hold.

    Ignores reads. Only a ledger with one segment and distinct bookies can be healthy. True means
    that every entry has its full write quorum. False means only that the ledger must go through
    `coverage`. Costs one comparison per bookie.
    """
    found = extents(metadata)
    if len(found) != 1 or len(metadata.segments) != 1:
        return False
    extent, size, quorum = found[0], metadata.ensemble_size, metadata.write_quorum
    ensemble = extent.segment.ensemble
    if len(set(ensemble)) != len(ensemble):
        return False
    for position, bookie in enumerate(ensemble):
        groups = expected_groups(
            extent.first_entry_id, extent.last_entry_id, position, size, quorum
        )
        answer = answers.get(bookie)
        if not groups and groups is not None:
            if answer is not None and (answer.groups or answer.status is AnswerStatus.UNSUPPORTED):
                return False  # what lies above the end must be judged
            continue
        if answer is None or answer.status is not AnswerStatus.HELD or answer.groups != groups:
            return False
    return True


@dataclass(frozen=True, slots=True)
class ExtentCoverage:
    """One extent with every distinct bookie of its ensemble.

    `surplus` has the entries whose write set names a bookie more than once: one set for each time
    beyond the first. Such a bookie can hold only one copy.
    """

    extent: Extent
    shares: tuple[BookieShare, ...]
    surplus: tuple[EntrySet, ...]


@dataclass(frozen=True, slots=True)
class Coverage:
    """What is known of every copy of one ledger."""

    extents: tuple[ExtentCoverage, ...]
    reasons: Mapping[BookieId, tuple[Unknown, ...]]
    """By bookie, why some of its entries are unknown."""
    false_negatives: int
    held: Mapping[BookieId, EntrySet]
    """What each bookie with a usable answer holds, including entries beyond its share."""
    probed: Mapping[BookieId, ProbedBookie]
    """The bookies that are judged by probes, with the planned probes and their results."""
    corrupt: tuple[Copy, ...]
    """Promised copies whose read found a wrong digest, ascending."""
    refuted: tuple[Copy, ...]
    """Promised copies that a list names although a read failed or was denied, ascending."""
    read_absent: tuple[EntryId, ...]
    """Entries that a read found absent on a bookie that should hold them, ascending."""
    read_failed: tuple[EntryId, ...]
    """Entries whose read ended in an error of a bookie that should hold them, ascending."""
    cannot_list_it: frozenset[BookieId]
    """Bookies whose answer to the list request was an error of their own."""
    gone: frozenset[BookieId]
    """Bookies with neither a registration nor a cookie: their copies are absent."""
    reads: Reads
    """Reads of promised copies, without those that searched for an entry elsewhere."""
    promised: int
    """The copies that the metadata promises.

    They include segments whose extent is not clear, and the further copies of a bookie that a write
    set names twice. Shares have neither."""

    @property
    def unknowns(self) -> tuple[Unknown, ...]:
        """The reasons for unknown entries, in the catalogue's order."""
        return in_order(reason for reasons in self.reasons.values() for reason in reasons)

    @property
    def probes(self) -> Probes | None:
        """The answered probes, and those of them drawn at random. None if no bookie is probed."""
        if not self.probed:
            return None
        bookies = self.probed.values()
        return Probes(
            read=sum(b.answered for b in bookies), random=sum(b.random_answered for b in bookies)
        )

    @property
    def copies(self) -> CopyCounts:
        """What each promised copy rests on: a list, a read or an assumption.

        A listed copy that was also read counts as read. A copy with a wrong digest counts as
        neither listed nor read. Costs pieces.
        """
        sent: dict[BookieId, list[EntryId]] = {}
        for (bookie, entry), entry_read in self.reads.items():
            if entry_read.status is ReadStatus.PRESENT:
                sent.setdefault(bookie, []).append(entry)
        brought = {bookie: EntrySet.of_entries(entries) for bookie, entries in sent.items()}
        listed = read = assumed = 0
        for share in (share for part in self.extents for share in part.shares):
            if share.is_probed:
                held = share.expected - share.absent - share.unknown
                seen = (held & self.probed[share.bookie_id].present).count()
                read += seen
                assumed += held.count() - seen
            elif share.bookie_id in self.held:
                held = share.expected - share.absent - share.unknown
                seen = (held & brought.get(share.bookie_id, EMPTY)).count()
                read += seen
                listed += held.count() - seen
            else:
                read += (share.expected - share.absent - share.unknown).count()
        return CopyCounts(self.promised, listed, read, assumed)

    @property
    def lacks(self) -> tuple[BookieLack, ...]:
        """Each bookie that surely lacks entries, in the order in which ensembles name them.

        Costs pieces.
        """
        counts: dict[BookieId, tuple[int, int]] = {}
        for part in self.extents:
            for share in part.shares:
                wants, absent = counts.get(share.bookie_id, (0, 0))
                counts[share.bookie_id] = (
                    wants + share.expected.count(),
                    absent + share.absent.count(),
                )
        return tuple(
            BookieLack(bookie, wants, absent)
            for bookie, (wants, absent) in counts.items()
            if absent
        )


def coverage(
    metadata: LedgerMetadata,
    answers: Answers,
    reads: Reads,
    *,
    gone: Collection[BookieId] = frozenset(),
    probing: ProbePlan | None = None,
    denials: Denials = NO_DENIALS,
) -> Coverage:
    """Judge every clear extent by what the bookies said.

    Costs groups, missing ranges and probes, never entries. `gone`: bookies that will not come back
    (`Answer.is_gone`). All that they should hold is absent: no read could say more. `probing`: how
    to probe bookies that cannot list. Without it, what these should hold is unknown. `denials`:
    entries that bookies list and denied.
    """
    shares_of = [(extent, _expected_entries(extent, metadata)) for extent in extents(metadata)]
    wants: dict[BookieId, list[EntrySet]] = {}
    for _, shares in shares_of:
        for bookie, want in shares.items():
            wants.setdefault(bookie, []).append(want)
    held = {b: held_entries(a.groups) for b, a in answers.items() if is_usable(a, metadata)}
    mine = _reads_of_copies(reads, wants)
    seen = {
        b: BookieEvidence(
            b, wants[b], answers.get(b), held.get(b), mine[b], denials.get(b, NONE_DENIED)
        )
        for b in wants
    }
    sources = {b: choose_source(entries, b in gone, probing) for b, entries in seen.items()}
    judged = []
    for extent, shares in shares_of:
        split = tuple(sources[bookie].share(want) for bookie, want in shares.items())
        judged.append(ExtentCoverage(extent, split, _surplus(extent, metadata)))
    of_copies = {(b, e): read for b, of_bookie in mine.items() for e, read in of_bookie.items()}
    return Coverage(
        extents=tuple(judged),
        reasons={bookie: sources[bookie].reasons for bookie in _unknown_on(judged)},
        false_negatives=sum(len(s.present) for s in sources.values() if isinstance(s, Sifter)),
        held=held,
        probed={
            bookie: source.probed
            for bookie, source in sources.items()
            if isinstance(source, Probed)
        },
        corrupt=tuple(_copies_with_status({ReadStatus.CORRUPT}, of_copies)),
        refuted=tuple(_refuted(of_copies, held, denials)),
        read_absent=tuple(sorted({e for _, e in _copies_with_status(ABSENT_READS, of_copies)})),
        read_failed=tuple(
            sorted({e for _, e in _copies_with_status({ReadStatus.FAILED}, of_copies)})
        ),
        cannot_list_it=frozenset(
            b for b in wants if b in answers and answers[b].status is AnswerStatus.FAILED
        ),
        gone=frozenset(gone),
        reads=of_copies,
        promised=promised_copies(metadata),
    )


def _unknown_on(judged: Iterable[ExtentCoverage]) -> dict[BookieId, None]:
    """Return the bookies on which some entries are unknown, in the order of the ensembles."""
    shares = (share for part in judged for share in part.shares)
    return dict.fromkeys(share.bookie_id for share in shares if share.unknown)


def _reads_of_copies(
    reads: Reads, wants: Mapping[BookieId, list[EntrySet]]
) -> dict[BookieId, dict[EntryId, EntryRead]]:
    """Return, by bookie, the reads of entries that it should hold.

    Reads that searched for an entry elsewhere are left out: they say nothing about these copies.
    """
    mine: dict[BookieId, dict[EntryId, EntryRead]] = {bookie: {} for bookie in wants}
    for (bookie, entry), read in reads.items():
        if bookie in mine:
            mine[bookie][entry] = read
    for bookie, found in mine.items():
        if found:
            whole = EntrySet.join(wants[bookie])
            mine[bookie] = {entry: read for entry, read in found.items() if entry in whole}
    return mine


def _refuted(reads: Reads, held: Mapping[BookieId, EntrySet], denials: Denials) -> Iterable[Copy]:
    """Return the listed copies whose read failed or was denied, sorted."""
    denied = {(b, e) for b, entries in denials.items() for e in entries}
    return sorted(
        (bookie, entry)
        for (bookie, entry), read in reads.items()
        if (read.status is ReadStatus.FAILED or (bookie, entry) in denied)
        and entry in held.get(bookie, EMPTY)
    )


def _copies_with_status(statuses: Collection[ReadStatus], reads: Reads) -> list[Copy]:
    """Return the copies whose read ended with one of `statuses`, sorted."""
    return sorted(copy for copy, read in reads.items() if read.status in statuses)


def _expected_entries(extent: Extent, metadata: LedgerMetadata) -> dict[BookieId, EntrySet]:
    at = positions(extent.segment.ensemble)
    return {
        b: expected_entries(extent, p, metadata.ensemble_size, metadata.write_quorum)
        for b, p in at.items()
    }


def _surplus(extent: Extent, metadata: LedgerMetadata) -> tuple[EntrySet, ...]:
    """Return the entries whose write set names a bookie twice.

    Two promised copies are then one on disk. The result has a set for each further position of a
    bookie.
    """
    found: list[EntrySet] = []
    for at in positions(extent.segment.ensemble).values():
        seen = EMPTY
        for position in at if len(at) > 1 else ():
            window = expected_entries(
                extent, (position,), metadata.ensemble_size, metadata.write_quorum
            )
            again = seen & window
            if again:
                found.append(again)
            seen = seen | window
    return tuple(found)

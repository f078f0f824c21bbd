"""The durability contract (BP-34) in closed form: every entry is on each bookie of its write set.

Verified, for every entry of every clear extent of a closed ledger: how many distinct bookies of its
write set hold it, lack it, or gave no valid answer. A bookie lacks an entry when its list lacks it
and reads there confirm that.

Not verified, because only reading every entry could: that a listed entry can be read (the list is
made from the index). Not verified either: that copies beyond the write set are of any use (an extra
entry is not a violation).

An entry that a list lacks is only suspected to be missing: bookies leave readable entries out of
the list for hours (entry-availability.md section 6).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from auditor.first_checker.entry_set import EMPTY, EntrySet
from auditor.first_checker.probing import ProbedBookie, ProbePlan, plan_probes
from auditor.first_checker.reasons import REASON_OF_ANSWER, in_order
from auditor.first_checker.schedule import (
    GROUP_BYTES,
    Extent,
    expected_entries,
    expected_groups,
    extents,
    foreign_runs,
    held_entries,
    positions,
    promised_copies,
)
from auditor.first_checker.shares import BookieShare, Probed, Sifter, Source, Untold
from auditor.model.availability import (
    ABSENT_READS,
    VALID_ANSWERS,
    Answer,
    AnswerStatus,
    EntryRead,
    ReadStatus,
)
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata
from auditor.model.verdict import BookieLack, CopyCounts, Probes, Unknown

FOREIGN_RUNS_MAX = 10_000
"""Maximum number of runs that one list may hold in long progressions foreign to striping
(`schedule.foreign_runs`). Bookies list run by run and hold stripes, but a few bytes can describe
more runs than could ever be judged. An answer is invalid above this limit, unless the bytes
received can have carried its runs one by one."""

Copy = tuple[BookieId, EntryId]
Answers = Mapping[BookieId, Answer]
Reads = Mapping[Copy, EntryRead]


def is_healthy(metadata: LedgerMetadata, answers: Answers) -> bool:
    """Return whether each bookie's answer equals the canonical form of what it should hold.

    Only a ledger with one segment and distinct bookies can be healthy. True means that every entry
    has its full write quorum. False means only that the ledger must go through `coverage`. Costs
    one comparison per bookie.
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
        if not groups and groups is not None:
            continue
        answer = answers.get(bookie)
        if answer is None or answer.status is not AnswerStatus.HELD or answer.groups != groups:
            return False
    return True


@dataclass(frozen=True, slots=True)
class ExtentCoverage:
    """One extent with every distinct bookie of its ensemble.

    `surplus` are the entries whose write set names a duplicate bookie more than once: one set for
    each time beyond the first. Such a bookie can hold only one copy.
    """

    extent: Extent
    shares: tuple[BookieShare, ...]
    surplus: tuple[EntrySet, ...]


@dataclass(frozen=True, slots=True)
class Coverage:
    """What is known of every copy of one ledger."""

    extents: tuple[ExtentCoverage, ...]
    reasons: Mapping[BookieId, tuple[Unknown, ...]]
    """Why entries are unknown, for each bookie on which some are."""
    false_negatives: int
    held: Mapping[BookieId, EntrySet]
    """What each bookie with a usable answer holds, including entries beyond its share."""
    probed: Mapping[BookieId, ProbedBookie]
    """The bookies that are judged by probes, with the probes planned and their results."""
    corrupt: tuple[Copy, ...]
    """Copies that should be there and whose read found a wrong digest, ascending."""
    read_absent: tuple[EntryId, ...]
    """Entries that a read found absent on a bookie that should hold them, ascending."""
    gone: frozenset[BookieId]
    """Bookies with neither a registration nor a cookie: their copies are absent."""
    reads: Reads
    """Reads of copies where they should be, without those that searched for an entry elsewhere."""
    promised: int
    """The copies that the metadata promises. This includes segments whose extent is not clear, and
    the further copies of a bookie that stands twice in a write set: these are in no share."""

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

        A copy with a wrong digest counts as neither listed nor read. Costs pieces.
        """
        listed = read = assumed = 0
        for share in (share for one in self.extents for share in one.shares):
            if share.is_probed:
                held = share.expected - share.absent - share.unknown
                seen = (held & self.probed[share.bookie_id].present).count()
                read += seen
                assumed += held.count() - seen
            elif share.bookie_id in self.held:
                listed += (share.expected - share.lacking - share.unknown).count()
                read += (share.lacking - share.absent - share.unknown).count()
        return CopyCounts(self.promised, listed, read, assumed)

    @property
    def lacks(self) -> tuple[BookieLack, ...]:
        """Each bookie that surely lacks entries, in the order in which the ensembles name them.

        Costs pieces.
        """
        counts: dict[BookieId, tuple[int, int]] = {}
        for one in self.extents:
            for share in one.shares:
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
) -> Coverage:
    """Judge every clear extent from what the bookies said.

    Costs groups, missing runs and probes, never entries. `gone`: bookies that will not come back
    (`Answer.is_gone`). What they should hold is absent, for no read could say more. `probing`: how
    to probe bookies that cannot list. Without it, what these should hold is unknown.
    """
    shares_of = [(extent, _expected_entries(extent, metadata)) for extent in extents(metadata)]
    wants: dict[BookieId, list[EntrySet]] = {}
    for _, shares in shares_of:
        for bookie, want in shares.items():
            wants.setdefault(bookie, []).append(want)
    held = {b: held_entries(a.groups) for b, a in answers.items() if _is_usable(a, metadata)}
    mine = _reads_of_copies(reads, wants)
    sources = {
        b: _source(b, answers.get(b), held.get(b), wants[b], mine[b], b in gone, probing)
        for b in wants
    }
    judged = tuple(
        ExtentCoverage(
            extent,
            tuple(sources[b].share(want) for b, want in shares.items()),
            _surplus(extent, metadata),
        )
        for extent, shares in shares_of
    )
    unknown_on = dict.fromkeys(
        share.bookie_id for one in judged for share in one.shares if share.unknown
    )
    return Coverage(
        extents=judged,
        reasons={bookie: sources[bookie].reasons for bookie in unknown_on},
        false_negatives=sum(
            len(one.present) for one in sources.values() if isinstance(one, Sifter)
        ),
        held=held,
        probed={bookie: one.probed for bookie, one in sources.items() if isinstance(one, Probed)},
        corrupt=tuple(_copies_with_status({ReadStatus.CORRUPT}, mine)),
        read_absent=tuple(sorted({entry for _, entry in _copies_with_status(ABSENT_READS, mine)})),
        gone=frozenset(gone),
        reads={
            (bookie, entry): read
            for bookie, of_bookie in mine.items()
            for entry, read in of_bookie.items()
        },
        promised=promised_copies(metadata),
    )


def _source(
    bookie: BookieId,
    answer: Answer | None,
    held: EntrySet | None,
    wants: list[EntrySet],
    reads: Mapping[EntryId, EntryRead],
    is_gone: bool,
    probing: ProbePlan | None,
) -> Source:
    """Choose where our knowledge of this bookie's entries comes from."""
    if is_gone:
        return Untold(bookie, is_gone=True)
    if answer is not None and held is not None:
        return Sifter.of(bookie, answer, held, reads, wants)
    if (
        probing is not None
        and answer is not None
        and answer.status is AnswerStatus.UNSUPPORTED
        and any(wants)
    ):
        return Probed(bookie, ProbedBookie.of(plan_probes(probing, bookie, wants), wants, reads))
    return Untold(bookie, reasons=(_reason(answer),))


def _reads_of_copies(
    reads: Reads, wants: Mapping[BookieId, list[EntrySet]]
) -> dict[BookieId, dict[EntryId, EntryRead]]:
    """Return for each bookie the reads of entries that it should hold.

    Reads that searched for an entry elsewhere say nothing about these copies and are left out.
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


def _copies_with_status(
    statuses: Collection[ReadStatus], reads: Mapping[BookieId, Mapping[EntryId, EntryRead]]
) -> list[Copy]:
    """Return the copies whose read ended with one of `statuses`, sorted."""
    return sorted(
        (b, e)
        for b, of_bookie in reads.items()
        for e, read in of_bookie.items()
        if read.status in statuses
    )


def _is_usable(answer: Answer, metadata: LedgerMetadata) -> bool:
    """Return whether the answer is valid and its runs are not too many to judge.

    Runs that were really sent one by one are believed, however many: the bytes received bound the
    cost.
    """
    runs_max = max(FOREIGN_RUNS_MAX, answer.received_bytes // GROUP_BYTES)
    return (
        answer.status in VALID_ANSWERS
        and foreign_runs(answer.groups, metadata.ensemble_size) <= runs_max
    )


def _reason(answer: Answer | None) -> Unknown:
    """Return why nothing is known of what a bookie holds.

    A valid answer that is not usable counts as ANSWER_INVALID, no answer as BOOKIE_SILENT.
    """
    return (
        REASON_OF_ANSWER.get(answer.status, Unknown.ANSWER_INVALID)
        if answer
        else Unknown.BOOKIE_SILENT
    )


def _expected_entries(extent: Extent, metadata: LedgerMetadata) -> dict[BookieId, EntrySet]:
    at = positions(extent.segment.ensemble)
    return {
        b: expected_entries(extent, p, metadata.ensemble_size, metadata.write_quorum)
        for b, p in at.items()
    }


def _surplus(extent: Extent, metadata: LedgerMetadata) -> tuple[EntrySet, ...]:
    """Return the entries whose write set contains one bookie at two positions.

    Two promised copies are one on disk. The result has a set for each further position of a bookie.
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

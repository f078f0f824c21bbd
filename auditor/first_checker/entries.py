"""Make the finding on a ledger's entries: the strongest kind, shown by the worst entry.

An entry is unavailable if no bookie of its write set can serve it now, though some copy may still
exist. Verified: at every look at the newest state of the metadata, at least two, each bookie of the
write set was not registered, lacked the entry, or answered the read with an error of its own (EIO,
EUNKNOWNLEDGERSTATE).

Not verified: that a copy is lost. A bookie that is not registered may come back with its copies.
Time-outs, silence, refusals and bookies in maintenance do not count: they say nothing of the copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from auditor.first_checker.coverage import (
    Copy,
    Coverage,
    ExtentCoverage,
    Worst,
    levels,
    worst_entry,
)
from auditor.first_checker.entry_set import EMPTY, EntrySet
from auditor.first_checker.schedule import Extent
from auditor.first_checker.shares import BookieShare
from auditor.model.availability import ABSENT_READS, AnswerStatus, ReadStatus
from auditor.model.evidence import Look
from auditor.model.facts import (
    CorruptFacts,
    EntryFacts,
    Facts,
    MarkFacts,
    Search,
    UnavailableFacts,
    UnrecoverableFacts,
)
from auditor.model.finding import RANGES_MAX, Copies, Finding, FindingSegment, Kind, Ranges
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerMetadata

_UNSERVED_READS = ABSENT_READS | {ReadStatus.FAILED}


@dataclass(frozen=True, slots=True)
class Unserved:
    """What could not be served at any look at the newest state of the metadata.

    `bookies` were not registered. `copies` are those that no look could read: at each the bookie
    lacked the entry or was not registered, and at least once it failed with an error of its own.
    """

    bookies: frozenset[BookieId] = frozenset()
    copies: frozenset[Copy] = frozenset()

    @classmethod
    def of(cls, looks: Sequence[Look], maintenance: frozenset[BookieId]) -> Unserved:
        """Return what the looks at one state of the metadata show. Costs answers and reads."""
        asked = [look for look in looks if look.answers]
        if not asked:
            return cls()
        failed = {
            copy
            for look in asked
            for copy, read in look.reads.items()
            if read.status is ReadStatus.FAILED and copy[0] not in maintenance
        }
        return cls(
            frozenset(
                bookie
                for bookie in asked[0].answers.keys() - maintenance
                if all(_is_unregistered(look, bookie) for look in asked)
            ),
            frozenset(copy for copy in failed if all(_is_unserved(look, copy) for look in asked)),
        )

    def entries(self, share: BookieShare) -> EntrySet:
        """Return the entries of a share that its bookie lacks or could not serve."""
        if share.bookie_id in self.bookies:
            return share.absent | share.unknown
        failed = sorted(entry for bookie, entry in self.copies if bookie == share.bookie_id)
        return share.absent | (share.expected & EntrySet.of_entries(failed))


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Entries that no bookie of their write set can serve, extent by extent, and the worst.

    The worst has the fewest copies that can exist, then the lowest id.
    """

    entries: list[EntrySet]
    worst: EntryId
    possible: int
    extent: Extent

    @classmethod
    def of(cls, seen: Coverage, unserved: Unserved, write_quorum: int) -> Unavailable | None:
        """Return the entries, None if there are none. Costs pieces."""
        if not unserved.bookies and not unserved.copies:
            return None
        entries = [
            _unavailable_entries(coverage, unserved, write_quorum) for coverage in seen.extents
        ]
        ranked = [
            (*_worst_unavailable(hit, coverage, write_quorum), coverage.extent)
            for hit, coverage in zip(entries, seen.extents, strict=True)
            if hit
        ]
        if not ranked:
            return None
        possible, worst, extent = min(ranked, key=lambda ranked: ranked[:2])
        return cls(entries, worst, possible, extent)


def _is_unregistered(look: Look, bookie: BookieId) -> bool:
    answer = look.answers.get(bookie)
    return answer is not None and answer.status is AnswerStatus.UNREGISTERED


def _is_unserved(look: Look, copy: Copy) -> bool:
    read = look.reads.get(copy)
    return _is_unregistered(look, copy[0]) or (read is not None and read.status in _UNSERVED_READS)


def _unavailable_entries(
    coverage: ExtentCoverage, unserved: Unserved, write_quorum: int
) -> EntrySet:
    found = levels([*coverage.surplus, *(unserved.entries(share) for share in coverage.shares)])
    return found[write_quorum - 1] if len(found) >= write_quorum else EMPTY


def _worst_unavailable(
    hit: EntrySet, coverage: ExtentCoverage, write_quorum: int
) -> tuple[int, EntryId]:
    """Return the worst entry of `hit`, and how many copies of it can exist."""
    lost = levels([*coverage.surplus, *(share.absent for share in coverage.shares)])
    for copies, level in reversed(list(enumerate(lost, 1))):
        if among := hit & level:
            return write_quorum - copies, among.first()
    return write_quorum, hit.first()


class Losses(NamedTuple):
    """What a ledger lost, extent by extent.

    Level n - 1 holds the entries of which at least n promised copies cannot exist.
    """

    metadata: LedgerMetadata
    seen: Coverage
    levels: list[list[EntrySet]]

    @classmethod
    def of(cls, metadata: LedgerMetadata, seen: Coverage) -> Losses:
        return cls(metadata, seen, [_lost_entries(coverage) for coverage in seen.extents])

    def beyond(self, copies_lost: int) -> list[EntrySet]:
        """Return, by extent, the entries that lost at least `copies_lost` copies."""
        return [
            level[copies_lost - 1] if len(level) >= copies_lost else EMPTY for level in self.levels
        ]

    def without_replica(self) -> EntrySet:
        """Return the entries that have no possible copy in their write set."""
        return EntrySet.join(self.beyond(self.metadata.write_quorum))


def _lost_entries(coverage: ExtentCoverage) -> list[EntrySet]:
    return levels([*coverage.surplus, *(share.absent for share in coverage.shares)])


def entry_findings(
    ledger_id: LedgerId,
    losses: Losses,
    search: Search | None,
    unserved: Unserved,
    *,
    excused: bool,
) -> list[Finding]:
    """Return at most one finding: the strongest kind that is true of any entry.

    `search` is the result of searching other bookies for entries without a copy. A mark within
    grace (`excused`) excuses entries with too few copies, but not entries that are lost, corrupt or
    `unserved` by their whole write set.
    """
    metadata = losses.metadata
    write, ack = metadata.write_quorum, min(metadata.ack_quorum, metadata.write_quorum)
    hit = losses.beyond(write)
    if any(hit):
        is_stranded = search is not None and search.entries_unnamed == search.entries
        kind = Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE if is_stranded else Kind.ENTRY_WITHOUT_REPLICA
        return [_entry_finding(kind, ledger_id, losses, hit, _entry_facts(losses, search))]
    unavailable = Unavailable.of(losses.seen, unserved, write)
    if unavailable is not None:
        return [_unavailable_finding(ledger_id, losses, unavailable, unserved)]
    hit = losses.beyond(write - ack + 1)
    if any(hit) and not excused:
        return [
            _entry_finding(
                Kind.ENTRY_BELOW_ACK_QUORUM, ledger_id, losses, hit, _entry_facts(losses)
            )
        ]
    if losses.seen.corrupt:
        return [_corrupt(ledger_id, losses)]
    hit = losses.beyond(1)
    if not any(hit) or excused:
        return []
    return [
        _entry_finding(Kind.ENTRY_BELOW_WRITE_QUORUM, ledger_id, losses, hit, _entry_facts(losses))
    ]


def _unavailable_finding(
    ledger_id: LedgerId, losses: Losses, unavailable: Unavailable, unserved: Unserved
) -> Finding:
    metadata, seen = losses.metadata, losses.seen
    worst, extent, entries = (
        unavailable.worst,
        unavailable.extent,
        EntrySet.join(unavailable.entries),
    )
    write_set = _write_set(metadata, extent, worst)
    mine = next(coverage for coverage in seen.extents if coverage.extent == extent)
    absent = {share.bookie_id for share in mine.shares if worst in share.absent}
    may_hold = [bookie for bookie in write_set if bookie not in absent]
    facts = UnavailableFacts(
        worst_entry=worst,
        write_set=write_set,
        unregistered=tuple(sorted(b for b in may_hold if b in unserved.bookies)),
        failed=tuple(sorted(b for b in may_hold if b not in unserved.bookies)),
        gone=tuple(sorted(seen.gone.intersection(write_set))),
    )
    return Finding(
        Kind.ENTRY_UNAVAILABLE,
        facts,
        ledger_id=ledger_id,
        segment=FindingSegment.of(extent.segment, extent.last_entry_id),
        entries=entries.ranges(RANGES_MAX),
        entries_total=entries.count(),
        missing_on=_missing_on(seen),
        copies=Copies(metadata.write_quorum, metadata.ack_quorum, 0, unavailable.possible),
    )


def unrecoverable_finding(
    ledger_id: LedgerId, losses: Losses, search: Search | None, mark: MarkFacts
) -> Finding:
    """Return UNDERREPLICATED_UNRECOVERABLE for a marked ledger that has an entry without a copy."""
    hit = losses.beyond(losses.metadata.write_quorum)
    facts = UnrecoverableFacts(_entry_facts(losses, search), mark)
    return _entry_finding(Kind.UNDERREPLICATED_UNRECOVERABLE, ledger_id, losses, hit, facts)


def _entry_finding(
    kind: Kind, ledger_id: LedgerId, losses: Losses, hit: list[EntrySet], facts: Facts
) -> Finding:
    metadata, seen = losses.metadata, losses.seen
    entries = EntrySet.join(hit)
    worst, extent = _worst(losses)
    copies = Copies(
        metadata.write_quorum,
        metadata.ack_quorum,
        worst.confirmed,
        worst.possible - worst.confirmed,
    )
    return Finding(
        kind,
        facts,
        ledger_id=ledger_id,
        segment=FindingSegment.of(extent.segment, extent.last_entry_id),
        entries=entries.ranges(RANGES_MAX),
        entries_total=entries.count(),
        missing_on=_missing_on(seen),
        copies=copies,
    )


def _worst(losses: Losses) -> tuple[Worst, Extent]:
    """Return the worst entry of the ledger and its extent. Some entry must have lost a copy."""
    quorum = losses.metadata.write_quorum
    ranked = [
        (worst, coverage.extent)
        for level, coverage in zip(losses.levels, losses.seen.extents, strict=True)
        if (worst := worst_entry(level, (share.unknown for share in coverage.shares), quorum))
        is not None
    ]
    return min(ranked, key=lambda pair: pair[0])


def _missing_on(seen: Coverage) -> tuple[tuple[BookieId, Ranges], ...]:
    absent: dict[BookieId, list[EntrySet]] = {}
    for coverage in seen.extents:
        for share in coverage.shares:
            absent.setdefault(share.bookie_id, []).append(share.absent)
    return tuple(
        (bookie, EntrySet.join(sets).ranges(RANGES_MAX))
        for bookie, sets in absent.items()
        if any(sets)
    )


def _entry_facts(losses: Losses, search: Search | None = None) -> EntryFacts:
    worst, extent = _worst(losses)
    write_set = _write_set(losses.metadata, extent, worst.entry_id)
    held = losses.seen.held
    lacking = {
        share.bookie_id
        for coverage in losses.seen.extents
        for share in coverage.shares
        if share.absent
    }
    return EntryFacts(
        worst_entry=worst.entry_id,
        write_set=write_set,
        listed_outside=tuple(
            sorted(b for b in held if b not in write_set and worst.entry_id in held[b])
        ),
        gone=tuple(sorted(lacking & losses.seen.gone)),
        at_tail=worst.confirmed >= max(1, losses.metadata.ack_quorum) and _is_at_tail(losses),
        search=search,
    )


def _write_set(metadata: LedgerMetadata, extent: Extent, entry: EntryId) -> tuple[BookieId, ...]:
    ensemble, size = extent.segment.ensemble, metadata.ensemble_size
    return tuple(
        dict.fromkeys(ensemble[(entry + copy) % size] for copy in range(metadata.write_quorum))
    )


def _is_at_tail(losses: Losses) -> bool:
    """Return whether only the end of the ledger is missing.

    True if each bookie that lacks entries lacks none before the last segment. In the last segment
    it must hold some of its share, and none behind the first entry that it lacks. All that it holds
    must have been listed or read. False if a write set names a bookie twice, or the last segment is
    not clear.
    """
    seen, extents = losses.seen, losses.seen.extents
    if extents[-1].extent.last_entry_id != losses.metadata.last_entry_id or any(
        coverage.surplus for coverage in extents
    ):
        return False
    if any(share.absent for coverage in extents[:-1] for share in coverage.shares):
        return False
    lacking = [share for share in extents[-1].shares if share.absent]
    names = {share.bookie_id for share in lacking}
    if any(
        _has_doubt(seen, share)
        for coverage in extents
        for share in coverage.shares
        if share.bookie_id in names
    ):
        return False
    kept = [share.expected - share.absent for share in lacking]
    return all(
        rest and rest.last() < share.absent.first()
        for share, rest in zip(lacking, kept, strict=True)
    )


def _has_doubt(seen: Coverage, share: BookieShare) -> bool:
    """Return whether some copy of the share is unknown, or rests only on a sample."""
    if not share.is_probed:
        return bool(share.unknown)
    return bool(share.expected - share.absent - seen.probed[share.bookie_id].present)


def _corrupt(ledger_id: LedgerId, losses: Losses) -> Finding:
    """Return ENTRY_CORRUPT: entries whose stored copy on some bookie does not match its digest.

    The caller leaves out copies that too few looks read with a wrong digest.
    """
    metadata, seen = losses.metadata, losses.seen
    bad = EntrySet.of_entries(sorted({entry for _, entry in seen.corrupt}))
    entry = bad.first()
    hit = next(
        coverage
        for coverage in seen.extents
        if coverage.extent.first_entry_id <= entry <= coverage.extent.last_entry_id
    )
    mine = [share for share in hit.shares if entry in share.expected]
    unknown = sum(entry in share.unknown for share in mine)
    confirmed = sum(entry not in share.unknown and entry not in share.absent for share in mine)
    on: dict[BookieId, list[EntryId]] = {}
    for bookie, at in sorted(seen.corrupt):
        on.setdefault(bookie, []).append(at)
    copies = tuple((bookie, tuple(entries[:RANGES_MAX])) for bookie, entries in on.items())
    return Finding(
        Kind.ENTRY_CORRUPT,
        CorruptFacts(entry, _write_set(metadata, hit.extent, entry), copies),
        ledger_id=ledger_id,
        segment=FindingSegment.of(hit.extent.segment, hit.extent.last_entry_id),
        entries=bad.ranges(RANGES_MAX),
        entries_total=bad.count(),
        missing_on=_missing_on(seen),
        copies=Copies(metadata.write_quorum, metadata.ack_quorum, confirmed, unknown),
    )

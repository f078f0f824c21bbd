"""The second checker's findings on one ledger, in a form that is comparable with the first's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from auditor.model.availability import EntryRead
from auditor.model.evidence import Terms
from auditor.model.facts import (
    ContradictionFacts,
    CorruptFacts,
    DuplicateFacts,
    Facts,
    UnavailableFacts,
    UndecodableFacts,
    UnrecoverableFacts,
)
from auditor.model.finding import RANGES_MAX, Copies, FindingSegment, Kind
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata, LedgerRecord
from auditor.model.placement import Adherence
from auditor.second_checker.beyond_end import NOTHING, Beyond
from auditor.second_checker.copies import Entries, Tally, Worst
from auditor.second_checker.facts import contradictions, entry_facts, mark_facts, stuck_facts
from auditor.second_checker.ledger_count import LedgerCount
from auditor.second_checker.metadata import is_beyond_grace, is_stuck
from auditor.second_checker.newest_words import Words
from auditor.second_checker.placement import adherence, judges, placement_facts
from auditor.second_checker.recovery import recovery_facts
from auditor.second_checker.schedule import Stretch
from auditor.second_checker.search import search_facts

_OF_PLACEMENT: Mapping[Adherence | None, Kind] = {
    Adherence.FAIL: Kind.PLACEMENT_FAILED,
    Adherence.SOFT: Kind.PLACEMENT_SOFT,
}


@dataclass(frozen=True, slots=True)
class CrossCheckFinding:
    """One finding of the second checker, with the facts it derives.

    `segment` is set if the finding is about a segment, `entries` if it is about entries.
    `missing_on` and `copies` are set if it is about copies of them. In PlacementFacts, `shown`
    omits the write sets in `left_open` (the positions where they begin), which were too open to be
    tried.
    """

    kind: Kind
    facts: Facts
    segment: FindingSegment | None = None
    entries: Entries | None = None
    missing_on: Mapping[BookieId, Entries] = field(default_factory=dict)
    copies: Copies | None = None
    left_open: frozenset[int | None] = frozenset()

    @property
    def stands_alone(self) -> bool:
        """Whether it replaces the ledger's findings on its mark and on placement."""
        return self.kind is Kind.UNDERREPLICATED_UNRECOVERABLE


def mark_findings(
    record: LedgerRecord,
    tally: Tally | None,
    terms: Terms,
    *,
    is_stale: bool = False,
    is_empty: bool = False,
) -> list[CrossCheckFinding]:
    """Return the finding on a mark that is beyond the grace period, if any.

    `tally` is None if no bookie was asked.
    """
    if not is_beyond_grace(record, terms):
        return []
    facts = mark_facts(record, tally, terms, is_stale=is_stale, is_empty=is_empty)
    return [CrossCheckFinding(Kind.UNDERREPLICATED_BEYOND_GRACE, facts)]


def metadata_findings(
    heard: Words,
    terms: Terms,
    reads: Iterable[EntryRead] = (),
    beyond: Beyond = NOTHING,
) -> list[CrossCheckFinding]:
    """Return the finding on malformed or contradictory metadata, else on a recovery that cannot
    succeed, else on a stuck ledger, else on entries beyond the end, if any.
    """
    record = heard.record
    bad, metadata = record.malformed, record.metadata
    if bad is not None:
        facts = UndecodableFacts(bad.reason, bad.offset, bad.length, bad.sha256)
        return [CrossCheckFinding(Kind.METADATA_MALFORMED, facts)]
    if metadata is None:
        return []
    unproven = None if beyond.cut_off else beyond.facts
    against = contradictions(metadata, reads)
    if against:
        contradicts = ContradictionFacts(tuple(against), len(against), unproven)
        return [CrossCheckFinding(Kind.METADATA_MALFORMED, contradicts)]
    blocked = recovery_facts(heard, metadata, terms)
    if blocked is not None:
        return [CrossCheckFinding(Kind.RECOVERY_BLOCKED, blocked)]
    if is_stuck(record, terms):
        return [CrossCheckFinding(Kind.LEDGER_STUCK, stuck_facts(record, terms))]
    if unproven is None:
        return []
    return [CrossCheckFinding(Kind.ENTRIES_BEYOND_END, unproven, entries=beyond.entries)]


def cut_off_findings(beyond: Beyond) -> list[CrossCheckFinding]:
    """Return the finding on acknowledged entries that the end cut off, if a header proves any."""
    if beyond.cut_off is None or beyond.facts is None:
        return []
    return [CrossCheckFinding(Kind.LEDGER_CLOSED_SHORT, beyond.facts, entries=beyond.cut_off)]


def placement_findings(
    metadata: LedgerMetadata, parts: Sequence[Stretch], terms: Terms
) -> tuple[list[CrossCheckFinding], frozenset[EntryId], bool]:
    """Return (findings, segments too open to try, whether a location that matters is unknown).

    The findings are on segments at fault. Segments too open to try are given by their first
    entries.
    """
    doubled = {part.first: part for part in parts if len(set(part.ensemble)) < len(part.ensemble)}
    findings = [
        CrossCheckFinding(
            Kind.ENSEMBLE_DUPLICATE_BOOKIE, DuplicateFacts(_twice(part.ensemble)), _segment(part)
        )
        for part in doubled.values()
    ]
    rule, open_segments, is_open = terms.placement, set[EntryId](), False
    if not judges(rule, metadata):
        return findings, frozenset(), False
    for segment in (
        _every_segment(metadata) if rule.java_compatible else [_segment(part) for part in parts]
    ):
        found = adherence(
            segment.ensemble, metadata.write_quorum, metadata.ack_quorum, rule, terms.around
        )
        if found is None:
            open_segments.add(segment.first_entry_id)
        is_open |= found is Adherence.UNKNOWN
        kind = _OF_PLACEMENT.get(found)
        if kind is not None and segment.first_entry_id not in doubled:
            facts, left_open = placement_facts(segment.ensemble, metadata, terms)
            findings.append(CrossCheckFinding(kind, facts, segment, left_open=left_open))
    return findings, frozenset(open_segments), is_open


def _twice(ensemble: Sequence[BookieId]) -> tuple[tuple[BookieId, tuple[int, ...]], ...]:
    """Return each bookie that stands more than once in the ensemble, with its positions."""
    times = Counter(ensemble)
    return tuple(
        (bookie, tuple(at for at, one in enumerate(ensemble) if one == bookie))
        for bookie in times
        if times[bookie] > 1
    )


def _segment(part: Stretch) -> FindingSegment:
    return FindingSegment(part.first, part.last, part.ensemble)


def _every_segment(metadata: LedgerMetadata) -> Iterator[FindingSegment]:
    """Yield all segments as Java walks them, with or without entries.

    A segment without entries ends before it begins.
    """
    ends = [segment.first_entry_id - 1 for segment in metadata.segments[1:]]
    ends.append(-1 if metadata.last_entry_id is None else metadata.last_entry_id)
    for segment, end in zip(metadata.segments, ends, strict=True):
        yield FindingSegment(
            segment.first_entry_id, max(end, segment.first_entry_id - 1), segment.ensemble
        )


def entry_findings(
    heard: Words, metadata: LedgerMetadata, count: LedgerCount, terms: Terms, *, excused: bool
) -> list[CrossCheckFinding]:
    """Return at most one finding: the strongest kind that is true of any entry.

    If `excused` (marked within the grace period), entries below a quorum are not reported.
    """
    tally = count.tally
    if not tally.counted:
        return []
    write, ack = metadata.write_quorum, min(metadata.ack_quorum, metadata.write_quorum)
    worst = tally.worst()
    if worst.possible == 0:
        return [_lost_finding(heard, metadata, count, terms, worst)]
    unserved = tally.unserved()
    if unserved.total:
        return [_unavailable_finding(heard, metadata, count, unserved)]
    if worst.possible < ack and not excused:
        kind, few = Kind.ENTRY_BELOW_ACK_QUORUM, tally.with_at_most(ack - 1)
    elif count.corrupt:
        return [_corrupt(heard, metadata, count)]
    elif worst.possible < write and not excused:
        kind, few = Kind.ENTRY_BELOW_WRITE_QUORUM, tally.with_at_most(write - 1)
    else:
        return []
    facts = entry_facts(heard, metadata, count, worst, None)
    return [_entry_finding(kind, facts, metadata, tally, few, worst)]


def _lost_finding(
    heard: Words, metadata: LedgerMetadata, count: LedgerCount, terms: Terms, worst: Worst
) -> CrossCheckFinding:
    """Return the finding on entries of which no copy can exist where the metadata says."""
    tally, lost = count.tally, count.tally.with_at_most(0)
    search = search_facts(heard, metadata, count, terms)
    facts = entry_facts(heard, metadata, count, worst, search)
    if heard.record.mark is not None:
        both = UnrecoverableFacts(facts, mark_facts(heard.record, tally, terms, is_stale=False))
        return _entry_finding(
            Kind.UNDERREPLICATED_UNRECOVERABLE, both, metadata, tally, lost, worst
        )
    is_elsewhere = search is not None and search.entries == search.entries_unnamed
    kind = Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE if is_elsewhere else Kind.ENTRY_WITHOUT_REPLICA
    return _entry_finding(kind, facts, metadata, tally, lost, worst)


def _unavailable_finding(
    heard: Words, metadata: LedgerMetadata, count: LedgerCount, unserved: Entries
) -> CrossCheckFinding:
    """Return the finding on entries that no bookie of their write set served at any look."""
    worst = count.tally.worst_unserved()
    write_set = worst.stretch.bookies_of(worst.entry)
    among = count.tally.block_of(worst.entry)
    assert among is not None, worst
    at = worst.entry - among.block.low
    may_hold = sorted(b for b in write_set if not among.absent.get(b, 0) >> at & 1)
    facts = UnavailableFacts(
        worst.entry,
        write_set,
        tuple(bookie for bookie in may_hold if bookie in heard.out),
        tuple(bookie for bookie in may_hold if bookie not in heard.out),
        tuple(sorted(b for b in write_set if b in heard.answers and heard.answers[b].is_gone)),
    )
    return _entry_finding(Kind.ENTRY_UNAVAILABLE, facts, metadata, count.tally, unserved, worst)


def _corrupt(heard: Words, metadata: LedgerMetadata, count: LedgerCount) -> CrossCheckFinding:
    lowest = min(count.corrupt)
    worst = count.corrupt[lowest]
    on: dict[BookieId, list[EntryId]] = {}
    for bookie, entry in sorted(heard.corrupt):
        if entry in count.corrupt and bookie in count.corrupt[entry].stretch.bookies_of(entry):
            on.setdefault(bookie, []).append(entry)
    copies = tuple((bookie, tuple(entries[:RANGES_MAX])) for bookie, entries in on.items())
    facts = CorruptFacts(lowest, worst.stretch.bookies_of(lowest), copies)
    return _entry_finding(
        Kind.ENTRY_CORRUPT, facts, metadata, count.tally, Entries.of(count.corrupt), worst
    )


def _entry_finding(
    kind: Kind,
    facts: Facts,
    metadata: LedgerMetadata,
    tally: Tally,
    entries: Entries,
    worst: Worst,
) -> CrossCheckFinding:
    copies = Copies(
        metadata.write_quorum,
        metadata.ack_quorum,
        worst.confirmed,
        worst.possible - worst.confirmed,
    )
    return CrossCheckFinding(kind, facts, _segment(worst.stretch), entries, tally.absent, copies)

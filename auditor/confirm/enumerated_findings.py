"""What the second checker finds wrong with a ledger, as far as it can be compared with a finding of the first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from auditor.confirm.enumerated_copies import Entries, Tally, Worst
from auditor.confirm.enumerated_metadata import contradicts_itself, is_beyond_grace, is_stuck
from auditor.confirm.enumerated_placement import adherence, judges
from auditor.confirm.enumerated_schedule import Stretch, last_of, stretches
from auditor.confirm.enumerated_words import Words
from auditor.model.availability import ReadStatus
from auditor.model.evidence import Terms
from auditor.model.finding import Copies, FindingSegment, Kind
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata, LedgerRecord, RecordStatus
from auditor.model.placement import Adherence

_OF_PLACEMENT: Mapping[Adherence | None, Kind] = {
    Adherence.FAIL: Kind.PLACEMENT_FAILED,
    Adherence.SOFT: Kind.PLACEMENT_SOFT,
}


@dataclass(frozen=True, slots=True)
class Told:
    """One finding. `segment` is there where it is about one, the rest where it is about entries."""

    kind: Kind
    segment: FindingSegment | None = None
    entries: Entries | None = None
    missing_on: Mapping[BookieId, Entries] = field(default_factory=dict)
    copies: Copies | None = None
    worst: EntryId | None = None

    @property
    def stands_alone(self) -> bool:
        """Of a marked ledger it is all there is to say, beside its metadata."""
        return self.kind is Kind.UNDERREPLICATED_UNRECOVERABLE


def mark_told(record: LedgerRecord, terms: Terms) -> list[Told]:
    """A mark that stands for too long."""
    return [Told(Kind.UNDERREPLICATED_BEYOND_GRACE)] if is_beyond_grace(record, terms) else []


def described(heard: Words, terms: Terms) -> list[Told]:
    """Metadata that cannot be decoded or contradicts itself; else a ledger left open."""
    record = heard.record
    if record.status is RecordStatus.MALFORMED:
        return [Told(Kind.METADATA_MALFORMED)]
    if record.metadata is None:
        return []
    if contradicts_itself(record.metadata):
        return [Told(Kind.METADATA_MALFORMED)]
    return [Told(Kind.LEDGER_STUCK)] if is_stuck(record, terms) else []


def placement_told(
    metadata: LedgerMetadata, parts: Sequence[Stretch], terms: Terms
) -> tuple[list[Told], frozenset[EntryId], bool]:
    """(a finding for each segment at fault, segments too open to be tried, whether some location that matters is not known)."""
    doubled = {part.first: part for part in parts if len(set(part.ensemble)) < len(part.ensemble)}
    told = [Told(Kind.ENSEMBLE_DUPLICATE_BOOKIE, _segment(part)) for part in doubled.values()]
    rule, open_segments, is_open = terms.placement, set[EntryId](), False
    if not judges(rule, metadata):
        return told, frozenset(), False
    for segment in _every_segment(metadata) if rule.java_compatible else [_segment(part) for part in parts]:
        found = adherence(segment.ensemble, metadata.write_quorum, metadata.ack_quorum, rule, terms.around)
        if found is None:
            open_segments.add(segment.first_entry_id)
        is_open |= found is Adherence.UNKNOWN
        kind = _OF_PLACEMENT.get(found)
        if kind is not None and segment.first_entry_id not in doubled:
            told.append(Told(kind, segment))
    return told, frozenset(open_segments), is_open


def _segment(part: Stretch) -> FindingSegment:
    return FindingSegment(part.first, part.last, part.ensemble)


def _every_segment(metadata: LedgerMetadata) -> Iterator[FindingSegment]:
    """As Java walks them: all, whether or not they hold an entry; one that holds none ends before it begins."""
    ends = [segment.first_entry_id - 1 for segment in metadata.segments[1:]]
    ends.append(-1 if metadata.last_entry_id is None else metadata.last_entry_id)
    for segment, end in zip(metadata.segments, ends, strict=True):
        yield FindingSegment(segment.first_entry_id, max(end, segment.first_entry_id - 1), segment.ensemble)


def entries_told(
    heard: Words,
    metadata: LedgerMetadata,
    tally: Tally,
    terms: Terms,
    corrupt: Mapping[EntryId, tuple[Stretch, int, int]],
    *,
    excused: bool,
) -> list[Told]:
    """At most one: the strongest kind that is true of any entry. `corrupt`: the entries with a corrupt copy where one should
    be, each with (its stretch, confirmed copies, copies that can exist)."""
    if not tally.counted:
        return []
    write, ack = metadata.write_quorum, min(metadata.ack_quorum, metadata.write_quorum)
    lost = tally.with_at_most(0)
    if lost.total:
        if heard.record.mark is not None:
            return [_told(Kind.UNDERREPLICATED_UNRECOVERABLE, metadata, tally, lost)]
        looked_for, found = _elsewhere(heard, metadata, tally, terms)
        if looked_for and looked_for == found:
            return [_told(Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE, metadata, tally, Entries.of(looked_for))]
        return [_told(Kind.ENTRY_WITHOUT_REPLICA, metadata, tally, lost)]
    if not excused and (few := tally.with_at_most(ack - 1)).total:
        return [_told(Kind.ENTRY_BELOW_ACK_QUORUM, metadata, tally, few)]
    if corrupt:
        lowest = min(corrupt)
        stretch, confirmed, possible = corrupt[lowest]
        return [_told(Kind.ENTRY_CORRUPT, metadata, tally, Entries.of(corrupt), Worst(lowest, possible, confirmed, stretch))]
    if not excused and (few := tally.with_at_most(write - 1)).total:
        return [_told(Kind.ENTRY_BELOW_WRITE_QUORUM, metadata, tally, few)]
    return []


def _told(kind: Kind, metadata: LedgerMetadata, tally: Tally, entries: Entries, worst: Worst | None = None) -> Told:
    worst = tally.worst() if worst is None else worst
    copies = Copies(metadata.write_quorum, metadata.ack_quorum, worst.confirmed, worst.possible - worst.confirmed)
    return Told(kind, _segment(worst.stretch), entries, tally.absent, copies, worst.entry)


def _elsewhere(heard: Words, metadata: LedgerMetadata, tally: Tally, terms: Terms) -> tuple[set[EntryId], set[EntryId]]:
    """(entries without a copy that were looked for on registered bookies to which none was written, those of them that such a
    bookie holds which no ensemble names).

    A bookie that came to know no such ledger has lost what it showed before.
    """
    named = {bookie for segment in metadata.segments for bookie in segment.ensemble}
    written_to = {bookie for part in stretches(metadata) for bookie in part.bookies if last_of(part, bookie) is not None}
    strange = (terms.around.writable | terms.around.readonly) - written_to
    reads = [read for (bookie, entry), read in heard.reads.items() if bookie in strange and tally.can_exist(entry) == 0]
    forgot: dict[BookieId, int] = {}
    for read in reads:
        if read.status is ReadStatus.NO_LEDGER:
            forgot[read.bookie_id] = max(forgot.get(read.bookie_id, read.look), read.look)
    shown = [read for read in reads if read.status is ReadStatus.PRESENT and read.look >= forgot.get(read.bookie_id, 0)]
    return {read.entry_id for read in reads}, {read.entry_id for read in shown if read.bookie_id not in named}

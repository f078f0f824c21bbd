"""Derive the second checker's findings on one ledger, and their facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from auditor.model.availability import NOT_DIALLED, AnswerStatus, EntryRead, ReadStatus
from auditor.model.evidence import Adherence, Look, Terms
from auditor.model.facts import (
    Contradiction,
    ContradictionFacts,
    Contradicts,
    CorruptFacts,
    DuplicateFacts,
    EntryFacts,
    Facts,
    MarkFacts,
    RecoveryFacts,
    Search,
    StuckFacts,
    UnavailableFacts,
    UndecodableFacts,
    UnrecoverableFacts,
    WhyMarked,
)
from auditor.model.finding import RANGES_MAX, Copies, FindingSegment, Kind
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState
from auditor.model.verdict import CopyCounts
from auditor.second_checker.beyond_end import NOTHING, Beyond
from auditor.second_checker.blocks import (
    Stretch,
    entries_from_below,
    first_of,
    lowest_of,
    stretches,
)
from auditor.second_checker.copies import Entries, LedgerCount, Tally, Worst
from auditor.second_checker.holdings import HELD, Testimony, is_listed
from auditor.second_checker.looks import Statements, is_beyond_grace, is_stuck
from auditor.second_checker.placement import adherence, is_judged, placement_facts
from auditor.second_checker.search import search_facts

_SERVES = ("held", "no_such_ledger", "unsupported", "failed")
"""Answers which show that a bookie can be reached from this host."""


def recovery_facts(
    statements: Statements, metadata: LedgerMetadata, terms: Terms
) -> RecoveryFacts | None:
    """Return the facts of a recovery that cannot succeed.

    Return None if it can succeed, or if the ledger is not in recovery.
    """
    if metadata.state is not LedgerState.IN_RECOVERY or not metadata.segments:
        return None
    asked = [look for look in statements.looks if look.answers]
    if not asked:
        return None
    last, write, ack = metadata.segments[-1], metadata.write_quorum, metadata.ack_quorum
    size = len(last.ensemble)
    if size != metadata.ensemble_size or not 0 < ack <= write <= size:
        return None
    away = terms.around.maintenance
    is_unknown = [
        bookie not in away and all(_gives_nothing(look, bookie) for look in asked)
        for bookie in last.ensemble
    ]
    blocked = []
    for start in range(size):
        places = [(start + step) % size for step in range(write)]
        if len([place for place in places if is_unknown[place]]) >= ack:
            blocked.append(places)
    if not blocked:
        return None
    missing = {last.ensemble[at] for places in blocked for at in places if is_unknown[at]}
    return RecoveryFacts(
        last.first_entry_id,
        last.ensemble,
        ack,
        size,
        len(blocked),
        tuple(dict.fromkeys(last.ensemble[at] for at in blocked[0])),
        tuple(sorted(missing)),
    )


def _gives_nothing(look: Look, bookie: BookieId) -> bool:
    """Return whether the look got nothing from the bookie that recovery could use."""
    answer = look.answers.get(bookie)
    if answer is None:
        return False
    if answer.status != "silent":
        return answer.status in ("unregistered", "failed")
    if answer.detail.startswith(NOT_DIALLED):
        return False
    return any(answer.status in _SERVES for who, answer in look.answers.items() if who != bookie)


Testimonies = Mapping[BookieId, Testimony]


def _contradictions_of_length(
    length: int, last: EntryId, reads: Iterable[EntryRead]
) -> Iterator[tuple[Contradicts, tuple[int, ...]]]:
    """Yield a contradiction if the length does not fit the last entry's header that was read.

    If a lower entry's header has a larger length than the last entry's, that lower entry was sent
    later. The ledger's length may then be larger than in the last entry's header.
    """
    lengths: dict[EntryId, set[int]] = {}
    for read in reads:
        if read.length_bytes is None or read.status is not ReadStatus.PRESENT:
            continue
        entry = read.entry_id if read.stored_entry_id is None else read.stored_entry_id
        if entry >= 0:
            lengths.setdefault(entry, set()).add(read.length_bytes)
    proven = lengths.get(last)
    if not proven:
        return
    was_late = any(
        max(of_it) > max(proven) for entry, of_it in lengths.items() if 0 <= entry < last
    )
    if length not in proven and not (length > max(proven) and was_late):
        yield Contradicts.LENGTH_NOT_OF_LAST_ENTRY, (length, last, max(proven))


def entry_facts(
    statements: Statements,
    metadata: LedgerMetadata,
    count: LedgerCount,
    worst: Worst,
    search: Search | None,
) -> EntryFacts:
    """Return the facts about the worst entry. `at_tail` needs all entries examined."""
    write_set = worst.stretch.bookies_of(worst.entry)
    others = [bookie for bookie in count.lists if bookie not in write_set]
    return EntryFacts(
        worst.entry,
        write_set,
        tuple(sorted([b for b in others if is_listed(count.lists[b], worst.entry)])),
        _gone_bookies(statements, metadata),
        0 < worst.confirmed >= metadata.ack_quorum
        and _is_at_tail(metadata, count.tally, count.testimonies),
        search,
    )


def _gone_bookies(statements: Statements, metadata: LedgerMetadata) -> tuple[BookieId, ...]:
    """Return the gone bookies to which some entry was written, examined or not, sorted."""
    gone = [
        bookie
        for bookie, answer in statements.answers.items()
        if answer.status is AnswerStatus.UNREGISTERED and answer.is_gone
    ]
    if not gone:
        return ()
    parts = stretches(metadata)
    return tuple(
        bookie
        for bookie in sorted(gone)
        if any(bookie in part.ensemble and first_of(part, bookie) is not None for part in parts)
    )


def _is_at_tail(metadata: LedgerMetadata, tally: Tally, testimonies: Testimonies) -> bool:
    """Return whether each bookie that lacks entries lacks only the end of the last stretch.

    Such a bookie must hold its first entry there, and none of its entries may be unknown or
    assumed. Each write set must name W distinct bookies, and the last stretch must reach
    lastEntryId.
    """
    blocks = [counts.block for counts in tally.block_counts]
    end = blocks[-1].stretch
    if end.last != metadata.last_entry_id:
        return False
    if any(
        len(block.stretch.bookies_of(entry)) < block.stretch.write_quorum
        for block in blocks
        for entry in entries_from_below(block.stretch)
    ):
        return False
    if any(
        bookie in tally.unknown_on or _count_assumed(tally, testimonies, bookie)
        for bookie in tally.absent
    ):
        return False
    for counts in tally.block_counts:
        for bookie, missing in counts.absent.items():
            held = counts.written[bookie].bits ^ missing
            if counts.block.stretch != end or not held or held.bit_length() > lowest_of(missing):
                return False
    return True


def _count_assumed(tally: Tally, testimonies: Testimonies, bookie: BookieId) -> int:
    """Return how many copies on a bookie that cannot list were assumed from a sample, not read."""
    testimony = testimonies[bookie]
    return (
        tally.held[bookie] - sum(word == HELD for word in testimony.by_entry.values())
        if testimony.rest == HELD
        else 0
    )


def copy_counts(
    tally: Tally, testimonies: Testimonies, probed: Sequence[BookieId], promised: int
) -> CopyCounts:
    """Count the copies that were listed, read and assumed. Only examined entries count."""
    listed = read = assumed = 0
    for bookie, held in tally.held.items():
        read_here = list(testimonies[bookie].by_entry.values()).count(HELD)
        read += read_here
        if bookie in probed:
            assumed += held - read_here
        else:
            listed += held - read_here
    return CopyCounts(promised, listed, read, assumed)


def is_mark_stale(record: LedgerRecord, tally: Tally, copies: CopyCounts) -> bool:
    """Return whether all entries of a marked ledger have all their copies, none of them assumed."""
    metadata = record.metadata
    if (
        record.mark is None
        or metadata is None
        or not tally.block_counts
        or metadata.last_entry_id is None
    ):
        return False
    entries = sum(counts.block.high - counts.block.low + 1 for counts in tally.block_counts)
    lacks = any(
        counts.confirmed.at_most(metadata.write_quorum - 1) for counts in tally.block_counts
    )
    return entries == metadata.last_entry_id + 1 and not lacks and copies.assumed == 0


def mark_facts(
    record: LedgerRecord,
    tally: Tally | None,
    terms: Terms,
    *,
    is_stale: bool,
    is_empty: bool = False,
) -> MarkFacts:
    """Return the facts about a mark. `tally` is None if no bookie was asked.

    `is_empty`: bookies showed that the ledger has no entry.
    """
    mark, metadata = record.mark, record.metadata
    assert mark is not None, record
    times = [mark.created_ms, *([] if mark.changed_ms is None else [mark.changed_ms])]
    held = mark.lock
    return MarkFacts(
        max(0, max(terms.judged_at_ms - time for time in times)),
        terms.underreplication_grace_ms,
        mark.created_ms,
        mark.changed_ms,
        mark.missing_replicas,
        mark.problem or "",
        held.holder if held else None,
        held.since_ms if held else None,
        metadata.state if metadata else None,
        tuple(_why(record, tally, terms, is_stale=is_stale, is_empty=is_empty)),
    )


def _why(
    record: LedgerRecord, tally: Tally | None, terms: Terms, *, is_stale: bool, is_empty: bool
) -> Iterator[WhyMarked]:
    around = terms.around
    counted = tally.block_counts if tally is not None else []
    if any(counts.possible.at_most(0) for counts in counted):
        yield WhyMarked.NO_COPY
    elif any(counts.in_reach.at_most(0) for counts in counted):
        yield WhyMarked.NO_COPY_IN_REACH
    if around.replication_disabled:
        yield WhyMarked.REPLICATION_DISABLED
    if around.auditor is None:
        yield WhyMarked.NO_AUDITOR
    lacking = {
        counts.block.stretch
        for counts in counted
        if counts.confirmed.at_most(counts.block.stretch.write_quorum - 1)
    }
    if any(around.writable <= set(stretch.ensemble) for stretch in lacking):
        yield WhyMarked.NO_SPARE_BOOKIE
    if record.mark is not None and record.mark.lock is not None:
        yield WhyMarked.LOCKED
    if is_empty:
        yield WhyMarked.EMPTY_LEDGER
    if is_stale:
        yield WhyMarked.STALE


def stuck_facts(record: LedgerRecord, terms: Terms) -> StuckFacts:
    """Return since when a stuck ledger has been open or in recovery, and how that is known."""
    metadata, stamp = record.metadata, record.stamp
    assert metadata is not None and stamp is not None, record
    if metadata.state is LedgerState.IN_RECOVERY:
        since, by_metadata = stamp.mtime_ms, False
    else:
        own = stamp.ctime_ms if metadata.ctime_ms is None else metadata.ctime_ms
        since, by_metadata = min(own, stamp.ctime_ms), own < stamp.ctime_ms
    return StuckFacts(
        metadata.state, since, by_metadata, terms.judged_at_ms - since, terms.stuck_after_ms
    )


def contradictions(
    metadata: LedgerMetadata, reads: Iterable[EntryRead] = ()
) -> list[Contradiction]:
    """Return every rule of BookKeeper's metadata that this metadata breaks."""
    size, write, ack = metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum
    firsts = [segment.first_entry_id for segment in metadata.segments]
    last, is_closed = metadata.last_entry_id, metadata.state is LedgerState.CLOSED
    broken: list[tuple[Contradicts, tuple[int, ...]]] = []
    if min(size, write, ack) < 1:
        broken.append((Contradicts.QUORUM_BELOW_ONE, (size, write, ack)))
    if write > size:
        broken.append((Contradicts.WRITE_QUORUM_ABOVE_ENSEMBLE, (write, size)))
    if ack > write:
        broken.append((Contradicts.ACK_QUORUM_ABOVE_WRITE, (ack, write)))
    if not firsts:
        broken.append((Contradicts.NO_SEGMENT, ()))
    elif firsts[0] != 0:
        broken.append((Contradicts.FIRST_SEGMENT_NOT_AT_ZERO, (firsts[0],)))
    if is_closed and last is None:
        broken.append((Contradicts.NO_LAST_ENTRY, ()))
    if is_closed and last is not None:
        if last < -1:
            broken.append((Contradicts.LAST_ENTRY_BELOW_MINUS_ONE, (last,)))
        elif firsts and firsts[-1] - 1 > last:
            broken.append((Contradicts.SEGMENT_BEYOND_LAST_ENTRY, (firsts[-1], last)))
        if last == -1 and metadata.length > 0:
            broken.append((Contradicts.LENGTH_WITHOUT_ENTRY, (metadata.length,)))
        broken += _contradictions_of_length(metadata.length, last, reads)
    for before, first in pairwise(firsts):
        if first <= before:
            broken.append((Contradicts.SEGMENTS_OUT_OF_ORDER, (first, before)))
    for segment in metadata.segments:
        members = len(segment.ensemble)
        if members != size:
            numbers = (segment.first_entry_id, members, size)
            broken.append((Contradicts.WRONG_ENSEMBLE_SIZE, numbers))
    return [Contradiction(what, numbers) for what, numbers in broken]


_OF_PLACEMENT: Mapping[Adherence | None, Kind] = {
    Adherence.FAIL: Kind.PLACEMENT_FAILED,
    Adherence.SOFT: Kind.PLACEMENT_SOFT,
}


@dataclass(slots=True)
class CrossCheckFinding:
    """One finding of the second checker, with the facts it derives.

    `segment` is set if the finding is about a segment, `entries` if it is about entries.
    `missing_on` and `copies` are set if it is about copies of them. `left_open`: where the write
    sets begin whose placement could not be judged; PlacementFacts' `shown` omits them.
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
        """Whether the ledger's findings on its mark and its placement are dropped beside it."""
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
    statements: Statements,
    terms: Terms,
    reads: Iterable[EntryRead] = (),
    beyond: Beyond = NOTHING,
) -> list[CrossCheckFinding]:
    """Return at most one finding on the metadata: the first that applies.

    They are, in order: malformed or contradictory metadata, a recovery that cannot succeed, a stuck
    ledger, entries beyond the end.
    """
    record = statements.record
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
    blocked = recovery_facts(statements, metadata, terms)
    if blocked is not None:
        return [CrossCheckFinding(Kind.RECOVERY_BLOCKED, blocked)]
    if is_stuck(record, terms):
        return [CrossCheckFinding(Kind.LEDGER_STUCK, stuck_facts(record, terms))]
    if unproven is None:
        return []
    return [CrossCheckFinding(Kind.ENTRIES_BEYOND_END, unproven, entries=beyond.entries)]


def cut_off_findings(beyond: Beyond) -> list[CrossCheckFinding]:
    """Return the finding on acknowledged entries that the end cut off, if a header proves one."""
    if beyond.cut_off is None or beyond.facts is None:
        return []
    return [CrossCheckFinding(Kind.LEDGER_CLOSED_SHORT, beyond.facts, entries=beyond.cut_off)]


def placement_findings(
    metadata: LedgerMetadata, parts: Sequence[Stretch], terms: Terms
) -> tuple[list[CrossCheckFinding], frozenset[EntryId], bool]:
    """Return (findings, segments that could not be judged, whether a needed location is unknown).

    The findings are on segments at fault. Segments that could not be judged are given by their
    first entries.
    """
    doubled = {part.first: part for part in parts if len(set(part.ensemble)) < len(part.ensemble)}
    findings = [
        CrossCheckFinding(
            Kind.ENSEMBLE_DUPLICATE_BOOKIE, DuplicateFacts(_twice(part.ensemble)), _segment(part)
        )
        for part in doubled.values()
    ]
    rule, open_segments, is_open = terms.placement, set[EntryId](), False
    if not is_judged(rule, metadata):
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
    """Return each bookie that the ensemble names more than once, with its positions."""
    times = Counter(ensemble)
    return tuple(
        (bookie, tuple(at for at, named in enumerate(ensemble) if named == bookie))
        for bookie in times
        if times[bookie] > 1
    )


def _segment(part: Stretch) -> FindingSegment:
    return FindingSegment(part.first, part.last, part.ensemble)


def _every_segment(metadata: LedgerMetadata) -> Iterator[FindingSegment]:
    """Yield all segments as Java walks them, with or without entries.

    Java ends each segment before the next one, the last at lastEntryId.
    """
    ends = [segment.first_entry_id - 1 for segment in metadata.segments[1:]]
    ends.append(-1 if metadata.last_entry_id is None else metadata.last_entry_id)
    for segment, end in zip(metadata.segments, ends, strict=True):
        yield FindingSegment(
            segment.first_entry_id, max(end, segment.first_entry_id - 1), segment.ensemble
        )


def entry_findings(
    statements: Statements,
    metadata: LedgerMetadata,
    count: LedgerCount,
    terms: Terms,
    *,
    excused: bool,
) -> list[CrossCheckFinding]:
    """Return at most one finding: the strongest kind that is true of any entry.

    If `excused` (marked within the grace period), entries below a quorum are not reported.
    """
    tally = count.tally
    if not tally.block_counts:
        return []
    write, ack = metadata.write_quorum, min(metadata.ack_quorum, metadata.write_quorum)
    worst = tally.worst()
    if worst.possible == 0:
        return [_lost_finding(statements, metadata, count, terms, worst)]
    # Every entry has a possible copy here.
    unserved = tally.unserved() if tally.has_unserved_copies() else Entries()
    if unserved.total:
        return [_unavailable_finding(statements, metadata, count, unserved)]
    if worst.possible < ack and not excused:
        kind, few = Kind.ENTRY_BELOW_ACK_QUORUM, tally.with_at_most(ack - 1)
    elif count.corrupt:
        return [_corrupt(statements, metadata, count)]
    elif worst.possible < write and not excused:
        kind, few = Kind.ENTRY_BELOW_WRITE_QUORUM, tally.with_at_most(write - 1)
    else:
        return []
    facts = entry_facts(statements, metadata, count, worst, None)
    return [_entry_finding(kind, facts, metadata, tally, few, worst)]


def _lost_finding(
    statements: Statements, metadata: LedgerMetadata, count: LedgerCount, terms: Terms, worst: Worst
) -> CrossCheckFinding:
    """Return the finding on entries without any possible copy in their write sets."""
    tally, lost = count.tally, count.tally.with_at_most(0)
    search = search_facts(statements, metadata, count, terms)
    facts = entry_facts(statements, metadata, count, worst, search)
    if statements.record.mark is not None:
        mark = mark_facts(statements.record, tally, terms, is_stale=False)
        both = UnrecoverableFacts(facts, mark)
        return _entry_finding(
            Kind.UNDERREPLICATED_UNRECOVERABLE, both, metadata, tally, lost, worst
        )
    is_elsewhere = search is not None and search.entries == search.entries_unnamed
    kind = Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE if is_elsewhere else Kind.ENTRY_WITHOUT_REPLICA
    return _entry_finding(kind, facts, metadata, tally, lost, worst)


def _unavailable_finding(
    statements: Statements, metadata: LedgerMetadata, count: LedgerCount, unserved: Entries
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
        tuple(bookie for bookie in may_hold if bookie in statements.out),
        tuple(bookie for bookie in may_hold if bookie not in statements.out),
        tuple(
            sorted(
                b for b in write_set if b in statements.answers and statements.answers[b].is_gone
            )
        ),
    )
    return _entry_finding(Kind.ENTRY_UNAVAILABLE, facts, metadata, count.tally, unserved, worst)


def _corrupt(
    statements: Statements, metadata: LedgerMetadata, count: LedgerCount
) -> CrossCheckFinding:
    lowest = min(count.corrupt)
    worst = count.corrupt[lowest]
    on: dict[BookieId, list[EntryId]] = {}
    for bookie, entry in sorted(statements.corrupt):
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

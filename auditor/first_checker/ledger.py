"""Judge one ledger: marks, metadata, placement, duplicates and coverage put together.

This is the first checker. It is pure: evidence and terms are its arguments. It judges one state of
the metadata. `auditor.first_checker.recheck` decides which looks belong to that state, and whether
another look is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from auditor.first_checker.beyond_end import BeyondEnd, EmptyLedger, has_sent_beyond_end
from auditor.first_checker.coverage import (
    NO_DENIALS,
    Answers,
    Copy,
    Coverage,
    Denials,
    Reads,
    coverage,
    is_healthy,
)
from auditor.first_checker.entries import Losses, Unserved, entry_findings, unrecoverable_finding
from auditor.first_checker.entry_set import EntrySet
from auditor.first_checker.metadata import (
    contradictions,
    metadata_findings,
    undecodable_findings,
)
from auditor.first_checker.placement import Placement, placement
from auditor.first_checker.probing import ProbePlan, in_order
from auditor.first_checker.schedule import extents, is_promised, positions, promised_copies
from auditor.first_checker.stranded import Outside, ensemble_bookies
from auditor.first_checker.underreplication import is_beyond_grace, is_stale, mark_facts
from auditor.model.availability import (
    ABSENT_READS,
    UNREADABLE_READS,
    AnswerStatus,
    ReadStatus,
)
from auditor.model.cluster import Surroundings
from auditor.model.evidence import Terms
from auditor.model.facts import DuplicateFacts, Search
from auditor.model.finding import Finding, FindingSegment, Kind, Severity
from auditor.model.identity import BookieId
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState, RecordStatus
from auditor.model.verdict import AWAY, CopyCounts, Exempt, Standing, Unknown, Verdict

_UNJUDGED = Placement()
NOTHING_UNSERVED = Unserved()
_REFUTING = ABSENT_READS | UNREADABLE_READS
"""Results of a read that contradict a list which names the entry."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """What each part of judging a ledger found."""

    entries: list[Finding]
    placement: list[Finding]
    mark: list[Finding]
    metadata: list[Finding]
    unknowns: tuple[Unknown, ...] = ()
    seen: Coverage | None = None
    copies: CopyCounts | None = None
    away: frozenset[BookieId] = frozenset()
    """Bookies that did not say whether they hold an entry of a ledger closed without entries."""


def judge(
    record: LedgerRecord,
    answers: Answers,
    reads: Reads,
    terms: Terms,
    *,
    doubted: Collection[Copy] = frozenset(),
    unserved: Unserved = NOTHING_UNSERVED,
    denials: Denials = NO_DENIALS,
    unknown: frozenset[BookieId] = frozenset(),
    cover: Callable[[], Coverage] | None = None,
) -> Verdict:
    """Return the verdict on one ledger, with every reason and finding it has.

    A copy read with a wrong digest is unknown. It is also a finding unless it is among the
    `doubted`. `unserved`: bookies and copies that no look could get anything from. `denials`:
    entries that bookies list and denied when they were read. `unknown`: for a ledger in recovery,
    the bookies from which recovery has no answer. `cover` returns the coverage by these answers and
    reads, if the caller needs it too. Costs groups and missing ranges.
    """
    if record.status is RecordStatus.GONE:
        return Verdict(record.ledger_id, Standing.EXEMPT, exempt=Exempt.DELETED)
    metadata, exempt = record.metadata, _exemption(record)
    if metadata is None:
        unread = () if record.status is RecordStatus.MALFORMED else (Unknown.METADATA_UNREADABLE,)
        marked = _mark_findings(record, terms, None)
        return _verdict(
            record, exempt, _Parts([], [], marked, undecodable_findings(record), unread), terms
        )
    placed = _placement(record, terms)
    placing = (Unknown.TOPOLOGY_UNKNOWN,) if placed.unknown else ()
    if (
        exempt is None
        and not any(read.status in _REFUTING for read in reads.values())
        and not has_sent_beyond_end(metadata, reads)
        and not unserved.copies
        and is_healthy(metadata, answers)
        and not contradictions(metadata, reads)
    ):
        copies = _all_listed(metadata, reads)
        healthy = _Parts([], list(placed.findings), [], [], placing, copies=copies)
        return _verdict(record, None, healthy, terms)
    is_excused = _is_excused(record, terms)
    duplicates = [] if is_excused else _placement_family(record, metadata, placed)
    if record.mark is not None and not answers:
        described = metadata_findings(record, metadata, terms, reads)
        marked = _mark_findings(record, terms, None)
        return _verdict(record, exempt, _Parts([], duplicates, marked, described, placing), terms)
    plan = ProbePlan.of(terms, record.ledger_id)
    if cover is None:
        gone = gone_bookies(answers)
        seen = coverage(metadata, answers, reads, gone=gone, probing=plan, denials=denials)
    else:
        seen = cover()
    seen = replace(seen, corrupt=tuple(copy for copy in seen.corrupt if copy not in doubted))
    losses = Losses.of(metadata, seen)
    beyond = BeyondEnd.of(record.ledger_id, metadata, answers, seen, reads)
    cut_off = [beyond.finding] if beyond is not None and beyond.is_cut_off else []
    described = metadata_findings(
        record, metadata, terms, reads, None if beyond is None or cut_off else beyond.facts, unknown
    )
    if beyond is not None and not cut_off and not described:
        described = [beyond.finding]
    empty = EmptyLedger.of(metadata, answers, seen, reads, probes=plan is not None)
    is_empty = empty is not None and empty.is_shown and beyond is None and not described
    lost = losses.without_replica()
    unheard = _unheard(record, answers, seen, empty)
    search = _search(lost, metadata, seen, reads, terms)
    # A loss stands alone: findings on entries, placement and the mark would follow from it.
    if lost and record.mark is not None:
        facts = mark_facts(record, seen, terms, has_loss=True)
        loss = unrecoverable_finding(record.ledger_id, losses, search, facts)
        unrecoverable = _Parts(cut_off, [], [loss], described, unheard, seen, _copies(seen))
        return _verdict(record, exempt, unrecoverable, terms)
    entries = entry_findings(record.ledger_id, losses, search, unserved, excused=is_excused)
    parts = _Parts(
        [*cut_off, *entries],
        duplicates,
        _mark_findings(record, terms, seen, is_empty=is_empty),
        described,
        in_order((*unheard, *placing)),
        seen,
        _copies(seen),
        frozenset() if empty is None else frozenset(empty.unheard),
    )
    return _verdict(record, Exempt.EMPTY if exempt is None and is_empty else exempt, parts, terms)


def _search(
    lost: EntrySet, metadata: LedgerMetadata, seen: Coverage, reads: Reads, terms: Terms
) -> Search | None:
    """Return the result of searching other bookies for entries without a copy.

    None if nothing is lost, or the terms allow no search.
    """
    if not lost or terms.stranded_entries_max < 1:
        return None
    return Outside.of(lost, seen, terms.around).result(reads, ensemble_bookies(metadata))


def _copies(seen: Coverage) -> CopyCounts | None:
    return seen.copies if seen.promised else None


def _all_listed(metadata: LedgerMetadata, reads: Reads) -> CopyCounts:
    """Return the copy counts of a healthy ledger: those that were read; all others are listed."""
    promised = promised_copies(metadata)
    read = sum(
        read.status is ReadStatus.PRESENT and is_promised(metadata, bookie, entry)
        for (bookie, entry), read in reads.items()
    )
    return CopyCounts(promised, promised - read, read, 0)


def _unheard(
    record: LedgerRecord, answers: Answers, seen: Coverage, empty: EmptyLedger | None
) -> tuple[Unknown, ...]:
    """Return why copies are unknown, or why nobody knows whether an empty ledger has entries.

    For a marked ledger, unregistered bookies give no reason: they are what the mark is for.
    """
    reasons_on: Mapping[BookieId, tuple[Unknown, ...]] = seen.reasons
    if empty is not None and not empty.is_shown:
        reasons_on = {bookie: (why,) for bookie, why in empty.unheard.items()}
    expected = {
        b
        for b, answer in answers.items()
        if record.mark is not None and answer.status is AnswerStatus.UNREGISTERED
    }
    return in_order(
        reason
        for bookie, reasons in reasons_on.items()
        if bookie not in expected
        for reason in reasons
    )


def gone_bookies(answers: Answers) -> frozenset[BookieId]:
    """Return the bookies with neither registration nor cookie. Every copy on them is absent."""
    return frozenset(bookie for bookie, answer in answers.items() if answer.is_gone)


def _verdict(record: LedgerRecord, exempt: Exempt | None, parts: _Parts, terms: Terms) -> Verdict:
    """Return the verdict on the ledger.

    The worst standing wins, also for a marked ledger, and every reason stays.
    """
    parts = replace(parts, unknowns=in_order((*parts.unknowns, *_age_unknown(record, terms))))
    findings = (*parts.mark, *parts.metadata, *parts.placement, *parts.entries)
    if any(finding.severity > Severity.INFO for finding in findings):
        standing = Standing.VIOLATED
    elif parts.unknowns:
        standing = Standing.INDETERMINATE
    else:
        standing = Standing.SOUND if exempt is None else Standing.EXEMPT
    seen = parts.seen
    return Verdict(
        record.ledger_id,
        standing,
        exempt,
        parts.unknowns,
        findings,
        listing_false_negatives=seen.false_negatives if seen else 0,
        probes=seen.probes if seen else None,
        lacks=seen.lacks if seen else (),
        only_maintenance=standing is Standing.INDETERMINATE
        and _only_maintenance(parts, terms.around),
        copies=parts.copies,
        is_mark_stale=_is_mark_stale(record, seen),
    )


def _is_mark_stale(record: LedgerRecord, seen: Coverage | None) -> bool:
    return (
        record.mark is not None
        and record.metadata is not None
        and seen is not None
        and is_stale(record.metadata, seen)
    )


def _only_maintenance(parts: _Parts, around: Surroundings) -> bool:
    """Return whether all unknown copies are on bookies in maintenance that do look down (AWAY)."""
    if parts.seen is None or not set(parts.unknowns) <= AWAY:
        return False
    unheard = {
        share.bookie_id
        for coverage in parts.seen.extents
        for share in coverage.shares
        if share.unknown
    }
    unheard |= parts.away
    return bool(unheard) and unheard <= around.maintenance


def _exemption(record: LedgerRecord) -> Exempt | None:
    """Return why the ledger is exempt: the first reason of docs/names.md, "Reasons to exempt".

    The caller has handled `deleted` before. `is_empty` comes from what bookies said.
    """
    if record.mark is not None:
        return Exempt.MARKED_UNDERREPLICATED
    metadata = record.metadata
    if metadata is None:
        return None
    if metadata.state is LedgerState.IN_RECOVERY:
        return Exempt.IN_RECOVERY
    return Exempt.OPEN if metadata.state is LedgerState.OPEN else None


def _age_unknown(record: LedgerRecord, terms: Terms) -> tuple[Unknown, ...]:
    """Return why a mark's age is unknown: a late clock may show it younger than the grace."""
    return (Unknown.AUDITOR_LIMITED,) if terms.clock_lag_ms and _is_excused(record, terms) else ()


def _is_excused(record: LedgerRecord, terms: Terms) -> bool:
    """Return whether the ledger is marked, and for no longer than the grace."""
    mark = record.mark
    return mark is not None and not is_beyond_grace(
        mark, terms.judged_at_ms, terms.underreplication_grace_ms
    )


def _placement(record: LedgerRecord, terms: Terms) -> Placement:
    """Judge the placement of a closed ledger, unless it is marked within grace."""
    if record.metadata is None or _is_excused(record, terms):
        return _UNJUDGED
    return placement(record.ledger_id, record.metadata, terms)


def _placement_family(
    record: LedgerRecord, metadata: LedgerMetadata, placed: Placement
) -> list[Finding]:
    """Return at most one finding per segment: on a duplicate bookie, else on placement."""
    duplicates = _duplicate_findings(record, metadata)
    duplicate_starts = {finding.segment.first_entry_id for finding in duplicates if finding.segment}
    rest = (
        finding
        for finding in placed.findings
        if finding.segment is None or finding.segment.first_entry_id not in duplicate_starts
    )
    return [*duplicates, *rest]


def _mark_findings(
    record: LedgerRecord, terms: Terms, seen: Coverage | None, *, is_empty: bool = False
) -> list[Finding]:
    """Return UNDERREPLICATED_BEYOND_GRACE, whatever the state of the ledger.

    `is_empty`: bookies showed that a ledger which is closed without entries has none.
    """
    mark = record.mark
    if mark is None or _is_excused(record, terms):
        return []
    facts = mark_facts(record, seen, terms, has_loss=False, is_empty=is_empty)
    return [Finding(Kind.UNDERREPLICATED_BEYOND_GRACE, facts, ledger_id=record.ledger_id)]


def _duplicate_findings(record: LedgerRecord, metadata: LedgerMetadata) -> list[Finding]:
    """Return ENSEMBLE_DUPLICATE_BOOKIE for each segment with entries that names a bookie twice."""
    found = []
    for extent in extents(metadata):
        twice = {b: at for b, at in positions(extent.segment.ensemble).items() if len(at) > 1}
        if twice:
            segment = FindingSegment.of(extent.segment, extent.last_entry_id)
            facts = DuplicateFacts(tuple(twice.items()))
            found.append(
                Finding(Kind.ENSEMBLE_DUPLICATE_BOOKIE, facts, record.ledger_id, segment=segment)
            )
    return found

"""The first checker's verdict on one ledger: marks, metadata, duplicates and coverage put together.

Pure: told the evidence and the terms, it never looks. It judges one state of the metadata; which looks belong to that
state, and whether another look is needed, is decided in `auditor.confirm.recheck`.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

from auditor.model.evidence import Terms
from auditor.model.finding import RANGES_MAX, Copies, Finding, FindingSegment, Kind, Severity
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState, RecordStatus
from auditor.model.verdict import Exempt, Standing, Unknown, Verdict
from auditor.verify.coverage import Answers, Coverage, ExtentCoverage, Reads, coverage, is_healthy
from auditor.verify.entry_set import EMPTY, EntrySet
from auditor.verify.metadata import contradictions
from auditor.verify.schedule import extents, positions
from auditor.verify.underreplication import age_ms, is_beyond_grace
from auditor.verify.worst import levels, worst_entry


def judge(record: LedgerRecord, answers: Answers, reads: Reads, terms: Terms) -> Verdict:
    """The standing of one ledger with every reason and finding it has. Costs groups and missing runs."""
    if record.status is RecordStatus.GONE:
        return Verdict(record.ledger_id, Standing.EXEMPT, exempt=Exempt.DELETED)
    exempt = _exemption(record)
    metadata = record.metadata
    if exempt is None and metadata is not None and is_healthy(metadata, answers) and not contradictions(metadata):
        return Verdict(record.ledger_id, Standing.SOUND)
    findings = [*_mark_findings(record, terms), *_metadata_findings(record)]
    unknowns: tuple[Unknown, ...] = ()
    false_negatives = 0
    if metadata is None:
        if record.status is not RecordStatus.MALFORMED:
            unknowns = (Unknown.METADATA_UNREADABLE,)
    else:
        excused = record.mark is not None and not is_beyond_grace(
            record.mark, terms.judged_at_ms, terms.underreplication_grace_ms
        )
        if not excused:
            findings += _duplicate_findings(record, metadata)
        if record.mark is None or answers:
            seen = coverage(metadata, answers, reads)
            findings += _entry_findings(record, metadata, seen, excused=excused)
            unknowns = seen.unknowns if record.mark is None else ()
            false_negatives = seen.false_negatives
    return _verdict(record, exempt, unknowns, findings, false_negatives)


def _verdict(
    record: LedgerRecord, exempt: Exempt | None, unknowns: tuple[Unknown, ...], findings: list[Finding], false_negatives: int
) -> Verdict:
    """The worst standing wins; every reason stays."""
    if any(finding.severity > Severity.INFO for finding in findings):
        standing = Standing.VIOLATED
    elif unknowns:
        standing = Standing.INDETERMINATE
    else:
        standing = Standing.SOUND if exempt is None else Standing.EXEMPT
    return Verdict(record.ledger_id, standing, exempt, unknowns, tuple(findings), false_negatives)


def _exemption(record: LedgerRecord) -> Exempt | None:
    """In the contract's precedence; `deleted` was decided before."""
    if record.mark is not None:
        return Exempt.MARKED_UNDERREPLICATED
    metadata = record.metadata
    if metadata is None:
        return None
    if metadata.state is LedgerState.IN_RECOVERY:
        return Exempt.IN_RECOVERY
    if metadata.state is LedgerState.OPEN:
        return Exempt.OPEN
    return Exempt.EMPTY if metadata.last_entry_id == -1 else None


def _mark_findings(record: LedgerRecord, terms: Terms) -> list[Finding]:
    """UNDERREPLICATED_BEYOND_GRACE, in whatever state the ledger is."""
    mark = record.mark
    if mark is None or not is_beyond_grace(mark, terms.judged_at_ms, terms.underreplication_grace_ms):
        return []
    facts = (
        ("age_s", str(age_ms(mark, terms.judged_at_ms) // 1000)),
        ("grace_s", str(terms.underreplication_grace_ms // 1000)),
        ("marked_at_ms", str(mark.created_ms)),
        ("mark_changed_at_ms", "" if mark.changed_ms is None else str(mark.changed_ms)),
        ("missing_replicas", " ".join(mark.missing_replicas)),
        ("mark_problem", mark.problem or ""),
    )
    return [Finding(Kind.UNDERREPLICATED_BEYOND_GRACE, ledger_id=record.ledger_id, facts=facts)]


def _metadata_findings(record: LedgerRecord) -> list[Finding]:
    """METADATA_MALFORMED: bytes that cannot be decoded, or that contradict themselves."""
    if record.malformed is not None:
        bad = record.malformed
        facts = (
            ("undecodable", bad.reason),
            ("offset_bytes", str(bad.offset)),
            ("length_bytes", str(bad.length)),
            ("sha256", bad.sha256),
        )
        return [Finding(Kind.METADATA_MALFORMED, ledger_id=record.ledger_id, facts=facts)]
    against = contradictions(record.metadata) if record.metadata is not None else ()
    if not against:
        return []
    return [
        Finding(
            Kind.METADATA_MALFORMED,
            ledger_id=record.ledger_id,
            facts=tuple(("contradiction", one) for one in against),
        )
    ]


def _duplicate_findings(record: LedgerRecord, metadata: LedgerMetadata) -> list[Finding]:
    """ENSEMBLE_DUPLICATE_BOOKIE, one for each segment with entries in which a bookie stands twice."""
    found = []
    for extent in extents(metadata):
        twice = {b: at for b, at in positions(extent.segment.ensemble).items() if len(at) > 1}
        if twice:
            facts = tuple((bookie, " ".join(map(str, at))) for bookie, at in twice.items())
            segment = FindingSegment.of(extent.segment, extent.last_entry_id)
            found.append(Finding(Kind.ENSEMBLE_DUPLICATE_BOOKIE, record.ledger_id, segment=segment, facts=facts))
    return found


def _entry_findings(record: LedgerRecord, metadata: LedgerMetadata, seen: Coverage, *, excused: bool) -> list[Finding]:
    """At most one: the strongest kind that is true of any entry. A mark within grace excuses all but a confirmed loss."""
    write, ack = metadata.write_quorum, min(metadata.ack_quorum, metadata.write_quorum)
    lost = [_lost(one) for one in seen.extents]
    thresholds = (
        (Kind.ENTRY_WITHOUT_REPLICA, write),
        (Kind.ENTRY_BELOW_ACK_QUORUM, write - ack + 1),
        (Kind.ENTRY_BELOW_WRITE_QUORUM, 1),
    )
    for kind, copies_lost in thresholds[: 1 if excused else 3]:
        hit = [level[copies_lost - 1] if len(level) >= copies_lost else EMPTY for level in lost]
        if any(hit):
            return [_entry_finding(kind, record, metadata, seen, lost, hit)]
    return []


def _lost(one: ExtentCoverage) -> list[EntrySet]:
    """Level n: the entries of which at least n of the promised copies cannot exist."""
    return levels([*one.surplus, *(share.absent for share in one.shares)])


def _entry_finding(
    kind: Kind,
    record: LedgerRecord,
    metadata: LedgerMetadata,
    seen: Coverage,
    lost: list[list[EntrySet]],
    hit: list[EntrySet],
) -> Finding:
    entries = reduce(or_, hit, EMPTY)
    ranked = [
        (worst, one.extent)
        for level, one in zip(lost, seen.extents, strict=True)
        if (worst := worst_entry(level, (share.unknown for share in one.shares), metadata.write_quorum)) is not None
    ]
    worst, extent = min(ranked, key=lambda pair: pair[0])
    absent: dict[BookieId, EntrySet] = {}
    for one in seen.extents:
        for share in one.shares:
            absent[share.bookie_id] = absent.get(share.bookie_id, EMPTY) | share.absent
    return Finding(
        kind,
        ledger_id=record.ledger_id,
        segment=FindingSegment.of(extent.segment, extent.last_entry_id),
        entries=entries.ranges(RANGES_MAX),
        entries_total=entries.count(),
        missing_on=tuple((bookie, gone.ranges(RANGES_MAX)) for bookie, gone in absent.items() if gone),
        copies=Copies(metadata.write_quorum, metadata.ack_quorum, worst.confirmed, worst.possible - worst.confirmed),
        facts=_worst_facts(worst.entry_id, extent.segment.ensemble, metadata, seen),
    )


def _worst_facts(
    entry: EntryId, ensemble: tuple[str, ...], metadata: LedgerMetadata, seen: Coverage
) -> tuple[tuple[str, str], ...]:
    """The worst entry, its write set, and members of the ensemble outside it that hold it all the same."""
    size = metadata.ensemble_size
    write_set = list(dict.fromkeys(ensemble[(entry + w) % size] for w in range(metadata.write_quorum)))
    beside = [b for b in dict.fromkeys(ensemble) if b not in write_set and b in seen.held and entry in seen.held[b]]
    return (("worst_entry", str(entry)), ("write_set", " ".join(write_set)), ("held_outside_write_set", " ".join(beside)))

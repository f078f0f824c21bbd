"""The second checker: judge one ledger again from the same evidence, with its own derivations.

It checks everything that the first checker says about a ledger, entry by entry: which looks count,
where each entry was written, what each bookie said of it, how many copies can exist, the marks, the
metadata, the placement, and every fact of each finding.

It does not check:

- entries of very long ledgers between those examined (`second_checker.blocks`);
- placement with too many unknown locations to try (`second_checker.placement`);
- more runs above the end of a ledger than it can count (`second_checker.beyond_end`).

Findings on bookies, the cluster and references are not derived a second time. Nothing here is
shared with `auditor.first_checker` but the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from auditor.model.availability import AnswerStatus
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.finding import CATALOGUE, Severity
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState, RecordStatus
from auditor.model.verdict import AWAY, CopyCounts, Exempt, Standing, Unknown
from auditor.second_checker.beyond_end import NOBODY, Unheard, beyond_end, find_unheard
from auditor.second_checker.blocks import Block, copies_due, stretches
from auditor.second_checker.copies import LedgerCount, count_entries
from auditor.second_checker.findings import (
    CrossCheckFinding,
    copy_counts,
    cut_off_findings,
    entry_findings,
    is_mark_stale,
    mark_findings,
    metadata_findings,
    placement_findings,
)
from auditor.second_checker.looks import (
    Statements,
    exemption,
    is_age_open,
    is_beyond_grace,
    newest_statements,
)


@dataclass(slots=True)
class Opinion:
    """What the second checker concludes about a ledger.

    `blocks`: the entries it examined; `is_whole`: these are all entries. `unjudged`: the first
    entries of segments whose placement it could not judge. `end_is_open`: too many runs lie above
    the end. `probes`: how many reads were answered by bookies that cannot list, and how many of
    those were drawn (None if not known). `lacks`: by bookie, the numbers of expected and of absent
    entries. `only_maintenance`: the ledger is indeterminate only because bookies are away for
    maintenance.
    """

    standing: Standing
    exempt: Exempt | None = None
    unknowns: frozenset[Unknown] = frozenset()
    findings: tuple[CrossCheckFinding, ...] = ()
    listing_false_negatives: int = 0
    probes: tuple[int, int | None] | None = None
    lacks: Mapping[BookieId, tuple[int, int]] = field(default_factory=dict)
    only_maintenance: bool = False
    blocks: tuple[Block, ...] = ()
    is_whole: bool = True
    unjudged: frozenset[EntryId] = frozenset()
    end_is_open: bool = False
    copies: CopyCounts | None = None
    is_mark_stale: bool = False


def judge_entry_by_entry(
    evidence: LedgerEvidence, terms: Terms, claimed: Iterable[EntryId] = ()
) -> Opinion:
    """Return the second checker's opinion on the newest state of the ledger.

    `claimed`: entries that are examined even if the ledger is too long to be examined whole. Costs
    entries times bookies, bounded by `second_checker.blocks`.
    """
    statements = newest_statements(evidence.looks, terms)
    opinion = _newest_state(statements, terms, claimed)
    is_violated = opinion.standing is Standing.VIOLATED
    if opinion.findings and len(statements.looks) < 2 and not is_violated:
        # INFO findings need metadata that was read twice alike.
        return replace(opinion, findings=())
    return opinion


def _newest_state(statements: Statements, terms: Terms, claimed: Iterable[EntryId]) -> Opinion:
    record = statements.record
    if record.status is RecordStatus.GONE:
        return Opinion(Standing.EXEMPT, Exempt.DELETED)
    exempt, metadata = exemption(record), record.metadata
    if metadata is None:
        malformed = record.status is RecordStatus.MALFORMED
        unread = frozenset() if malformed else frozenset({Unknown.METADATA_UNREADABLE})
        return _opinion(
            exempt,
            unread | _why_no_age(record, terms),
            [*mark_findings(record, None, terms), *metadata_findings(statements, terms)],
        )
    return _judge_entries(statements, metadata, exempt, terms, claimed)


def _judge_entries(
    statements: Statements,
    metadata: LedgerMetadata,
    exempt: Exempt | None,
    terms: Terms,
    claimed: Iterable[EntryId],
) -> Opinion:
    record = statements.record
    excused = record.mark is not None and not is_beyond_grace(record, terms)
    parts = stretches(metadata)
    placed, unjudged, is_open = (
        placement_findings(metadata, parts, terms) if not excused else ([], frozenset(), False)
    )
    topology = frozenset({Unknown.TOPOLOGY_UNKNOWN}) if is_open else frozenset()
    aged = _why_no_age(record, terms)
    if record.mark is not None and not statements.answers:
        said = metadata_findings(statements, terms, statements.reads.values())
        return _opinion(
            exempt, topology | aged, [*mark_findings(record, None, terms), *said, *placed], unjudged
        )
    count = count_entries(statements, metadata, parts, terms, claimed)
    copies, is_stale = _copies(record, count, copies_due(metadata, parts))
    above = beyond_end(statements, count.lists, metadata)
    said = metadata_findings(statements, terms, statements.reads.values(), above)
    unheard, is_empty = NOBODY, False
    if metadata.state is LedgerState.CLOSED and metadata.last_entry_id == -1:
        unheard = find_unheard(statements, metadata, count.lists, terms)
        hides = unheard.may_hide_an_entry(metadata.ack_quorum)
        is_empty = not (hides or said or above.facts is not None or above.is_open)
    of_mark = mark_findings(record, count.tally, terms, is_stale=is_stale, is_empty=is_empty)
    findings = [*of_mark, *said, *placed]
    of_entries = entry_findings(statements, metadata, count, terms, excused=excused)
    if any(finding.stands_alone for finding in of_entries):
        findings, topology, unjudged = said, frozenset(), frozenset()
    why = topology | aged | _reasons(statements, count, unheard, metadata.ack_quorum)
    findings += [*of_entries, *cut_off_findings(above)]
    return _opinion_on_entries(
        count,
        terms,
        Exempt.EMPTY if exempt is None and is_empty else exempt,
        why,
        findings,
        unheard=unheard,
        unjudged=unjudged,
        end_is_open=above.is_open,
        copies=copies,
        is_mark_stale=is_stale,
    )


def _opinion_on_entries(
    count: LedgerCount,
    terms: Terms,
    exempt: Exempt | None,
    why: frozenset[Unknown],
    findings: list[CrossCheckFinding],
    *,
    unheard: Unheard,
    unjudged: frozenset[EntryId],
    end_is_open: bool,
    copies: CopyCounts | None,
    is_mark_stale: bool,
) -> Opinion:
    """Return the opinion on a ledger whose entries were counted."""
    standing = _worst_standing(exempt, why, findings)
    lacks = {b: (count.tally.expected[b], lacks.total) for b, lacks in count.tally.absent.items()}
    return Opinion(
        standing,
        exempt,
        why,
        tuple(findings),
        listing_false_negatives=sum(
            [testimony.present_unlisted for testimony in count.testimonies.values()]
        ),
        probes=count.probes,
        lacks=lacks,
        only_maintenance=standing is Standing.INDETERMINATE
        and {*count.tally.unknown_on, *unheard.why} <= terms.around.maintenance
        and why <= AWAY,
        blocks=count.blocks,
        is_whole=count.is_whole,
        unjudged=unjudged,
        end_is_open=end_is_open,
        copies=copies,
        is_mark_stale=is_mark_stale,
    )


def _copies(
    record: LedgerRecord, count: LedgerCount, promised: int
) -> tuple[CopyCounts | None, bool]:
    """Return what the promised copies rest on, and whether the ledger's mark is stale."""
    if not promised:
        return None, False
    copies = copy_counts(count.tally, count.testimonies, list(count.dues), promised)
    return copies, count.is_whole and is_mark_stale(record, count.tally, copies)


def _reasons(
    statements: Statements, count: LedgerCount, unheard: Unheard, ack_quorum: int
) -> frozenset[Unknown]:
    """Return why some entries are unknown, or why nobody knows whether the ledger has any.

    A mark already says that bookies are not registered: their silence is not a reason then.
    """
    why_on = {bookie: count.testimonies[bookie].why for bookie in count.tally.unknown_on}
    if unheard.may_hide_an_entry(ack_quorum):
        why_on = {bookie: frozenset({why}) for bookie, why in unheard.why.items()}
    if statements.record.mark is not None:
        why_on = {b: why for b, why in why_on.items() if not _is_unregistered(statements, b)}
    return frozenset(reason for why in why_on.values() for reason in why)


def _why_no_age(record: LedgerRecord, terms: Terms) -> frozenset[Unknown]:
    return frozenset({Unknown.AUDITOR_LIMITED}) if is_age_open(record, terms) else frozenset()


def _is_unregistered(statements: Statements, bookie: BookieId) -> bool:
    return (
        bookie in statements.answers
        and statements.answers[bookie].status is AnswerStatus.UNREGISTERED
    )


def _opinion(
    exempt: Exempt | None,
    unknowns: frozenset[Unknown],
    findings: list[CrossCheckFinding],
    unjudged: frozenset[EntryId] = frozenset(),
) -> Opinion:
    """Return an opinion on a ledger whose entries were not counted."""
    standing = _worst_standing(exempt, unknowns, findings)
    return Opinion(standing, exempt, unknowns, tuple(findings), unjudged=unjudged)


def _worst_standing(
    exempt: Exempt | None, unknowns: frozenset[Unknown], findings: Iterable[CrossCheckFinding]
) -> Standing:
    """Return VIOLATED for findings, INDETERMINATE for unknowns, else EXEMPT or SOUND."""
    if any(CATALOGUE[finding.kind].severity is not Severity.INFO for finding in findings):
        return Standing.VIOLATED
    if unknowns:
        return Standing.INDETERMINATE
    return Standing.SOUND if exempt is None else Standing.EXEMPT

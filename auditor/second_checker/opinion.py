"""The second checker: judge one ledger again from the same evidence, by derivations of its own.

It verifies all that the first checker verifies of a ledger (its module docstrings say what), entry
by entry: which looks count, where each entry was written, what each bookie said of it, how many
copies can exist, the marks, the metadata, the placement, and every fact of each finding.

It does not verify:

- entries of very long ledgers between those examined (`second_checker.blocks`);
- placement that is too open to try (`second_checker.placement`);
- more runs above the end of a ledger than it can count (`second_checker.beyond_end`).

Findings on bookies and the cluster are in `second_checker.bookies` and `second_checker.cluster`.
Nothing here is shared with `auditor.first_checker` but the model.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from auditor.model.availability import AnswerStatus, EntryRead
from auditor.model.cluster import Surroundings
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.finding import CATALOGUE, Severity
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata, RecordStatus
from auditor.model.verdict import AWAY, CopyCounts, Exempt, Standing, Unknown
from auditor.second_checker.blocks import Block, blocks
from auditor.second_checker.copies import Tally, Worst, tally
from auditor.second_checker.facts import copy_counts, is_mark_stale
from auditor.second_checker.findings import (
    Count,
    CrossCheckFinding,
    beyond_end_finding,
    entry_findings,
    mark_findings,
    metadata_findings,
    placement_findings,
)
from auditor.second_checker.holdings import (
    Testimony,
    edges_of,
    gone_testimony,
    list_testimony,
    reads_testimony,
    unheard_testimony,
)
from auditor.second_checker.metadata import exemption, is_beyond_grace
from auditor.second_checker.newest_words import Words, words
from auditor.second_checker.probes import Due, reads_due
from auditor.second_checker.schedule import Stretch, copies_due, last_of, stretches

Reads = Mapping[EntryId, EntryRead]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Opinion:
    """What the second checker concludes about a ledger.

    `blocks`: the entries it examined; `is_whole`: they are all. `unjudged`: segments (their first
    entries) whose placement is too open to try. `end_is_open`: too many runs lie above the end.
    `probes`: reads answered by bookies that cannot list, and how many of those were drawn (None if
    not known). `lacks`: by bookie, the expected and the absent entries.
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


@dataclass(frozen=True, slots=True)
class _Count:
    """The counts of a ledger, with what its bookies said."""

    tally: Tally
    blocks: tuple[Block, ...]
    is_whole: bool
    testimonies: Mapping[BookieId, Testimony]
    dues: Mapping[BookieId, Due]
    probes_answered: Mapping[BookieId, frozenset[EntryId]]


def judge_entry_by_entry(
    evidence: LedgerEvidence, terms: Terms, claimed: Iterable[EntryId] = ()
) -> Opinion:
    """Return the second checker's opinion on the newest state of the ledger.

    `claimed`: entries that are examined however long the ledger is. Costs entries times write
    quorum, bounded by `second_checker.blocks`.
    """
    heard = words(evidence.looks, terms)
    opinion = _newest_state(heard, terms, claimed)
    if len(heard.looks) < 2 and opinion.standing is not Standing.VIOLATED:
        return replace(
            opinion, findings=()
        )  # INFO findings need metadata that was read twice alike
    return opinion


def _newest_state(heard: Words, terms: Terms, claimed: Iterable[EntryId]) -> Opinion:
    record = heard.record
    if record.status is RecordStatus.GONE:
        return Opinion(Standing.EXEMPT, Exempt.DELETED)
    exempt, metadata = exemption(record), record.metadata
    if metadata is None:
        malformed = record.status is RecordStatus.MALFORMED
        unread = frozenset() if malformed else frozenset({Unknown.METADATA_UNREADABLE})
        return _opinion(
            exempt, unread, [*mark_findings(record, None, terms), *metadata_findings(record, terms)]
        )
    return _judge_entries(heard, metadata, exempt, terms, claimed)


def _judge_entries(
    heard: Words,
    metadata: LedgerMetadata,
    exempt: Exempt | None,
    terms: Terms,
    claimed: Iterable[EntryId],
) -> Opinion:
    record = heard.record
    is_marked = record.mark is not None
    excused = is_marked and not is_beyond_grace(record, terms)
    parts = stretches(metadata)
    placed, unjudged, is_open = (
        placement_findings(metadata, parts, terms) if not excused else ([], frozenset(), False)
    )
    said = metadata_findings(record, terms)
    topology = frozenset({Unknown.TOPOLOGY_UNKNOWN}) if is_open else frozenset()
    if is_marked and not heard.answers:
        return _opinion(
            exempt, topology, [*mark_findings(record, None, terms), *said, *placed], unjudged
        )
    count = _count(heard, metadata, parts, terms, claimed)
    promised = copies_due(metadata, parts)
    copies = (
        copy_counts(count.tally, count.testimonies, list(count.dues), promised)
        if promised
        else None
    )
    is_stale = copies is not None and count.is_whole and is_mark_stale(record, count.tally, copies)
    above, end_is_open = beyond_end_finding(heard, metadata) if not said else ([], False)
    said = [*said, *above]
    findings = [*mark_findings(record, count.tally, terms, is_stale=is_stale), *said, *placed]
    counted = Count(count.tally, count.testimonies, _corrupt(heard, count))
    of_entries = entry_findings(heard, metadata, counted, terms, excused=excused)
    if any(one.stands_alone for one in of_entries):
        findings, topology, unjudged = said, frozenset(), frozenset()
    unheard_on = count.tally.unknown_on
    # A mark already says that bookies are not registered: their silence is not a reason.
    missed = {bookie for bookie in unheard_on if is_marked and _is_unregistered(heard, bookie)}
    why = frozenset(
        reason for bookie in unheard_on - missed for reason in count.testimonies[bookie].why
    )
    opinion = _opinion(exempt, topology | why, [*findings, *of_entries], unjudged)
    opinion = replace(opinion, copies=copies, is_mark_stale=is_stale, end_is_open=end_is_open)
    return _with_counts(opinion, count, terms.around)


def _is_unregistered(heard: Words, bookie: BookieId) -> bool:
    return bookie in heard.answers and heard.answers[bookie].status is AnswerStatus.UNREGISTERED


def _opinion(
    exempt: Exempt | None,
    unknowns: frozenset[Unknown],
    findings: list[CrossCheckFinding],
    unjudged: frozenset[EntryId] = frozenset(),
) -> Opinion:
    """Return an opinion with the worst standing that its arguments call for."""
    violated = any(CATALOGUE[one.kind].severity is not Severity.INFO for one in findings)
    standing = Standing.EXEMPT if exempt is not None else Standing.SOUND
    standing = Standing.VIOLATED if violated else Standing.INDETERMINATE if unknowns else standing
    return Opinion(standing, exempt, unknowns, tuple(findings), unjudged=unjudged)


def _with_counts(opinion: Opinion, count: _Count, around: Surroundings) -> Opinion:
    """Return the opinion with the counts.

    `only_maintenance`: only bookies away for maintenance left the ledger indeterminate.
    """
    waits = (
        opinion.standing is Standing.INDETERMINATE and count.tally.unknown_on <= around.maintenance
    )
    return replace(
        opinion,
        listing_false_negatives=sum(one.present_unlisted for one in count.testimonies.values()),
        probes=_probes(count),
        lacks={
            bookie: (count.tally.expected[bookie], gone_testimony.total)
            for bookie, gone_testimony in count.tally.absent.items()
        },
        only_maintenance=waits and opinion.unknowns <= AWAY,
        blocks=count.blocks,
        is_whole=count.is_whole,
    )


def _probes(count: _Count) -> tuple[int, int | None] | None:
    if not count.dues:
        return None
    answered = sum(len(entries) for entries in count.probes_answered.values())
    drawn = 0
    for bookie, one in count.dues.items():
        if one.drawn is None:
            return answered, None
        drawn += len(one.drawn & count.probes_answered[bookie])
    return answered, drawn


def _count(
    heard: Words,
    metadata: LedgerMetadata,
    parts: tuple[Stretch, ...],
    terms: Terms,
    claimed: Iterable[EntryId],
) -> _Count:
    """Count what every bookie said of every examined entry."""
    ledger = heard.record.ledger_id
    edges = {bookie: edges_of(answer) for bookie, answer in heard.answers.items()}
    chosen, is_whole = blocks(
        ledger, parts, edges, (*claimed, *(entry for _, entry in heard.reads)), terms
    )
    testimonies, dues = dict[BookieId, Testimony](), dict[BookieId, Due]()
    parts_of, blocks_of = (
        _by_bookie((part, part) for part in parts),
        _by_bookie((one.stretch, one) for one in chosen),
    )
    reads_of: dict[BookieId, dict[EntryId, EntryRead]] = {bookie: {} for bookie in parts_of}
    for (reader, entry), read in heard.reads.items():
        reads_of.setdefault(reader, {})[entry] = read
    for bookie, its_parts in parts_of.items():
        answer = heard.answers.get(bookie)
        reads = {
            entry: read
            for entry, read in reads_of[bookie].items()
            if is_written(its_parts, bookie, entry)
        }
        highest = max(
            (last for part in its_parts if (last := last_of(part, bookie)) is not None), default=-1
        )
        if answer is not None and answer.is_gone:
            testimonies[bookie] = gone_testimony()
        elif answer is not None and answer.status in (
            AnswerStatus.HELD,
            AnswerStatus.NO_SUCH_LEDGER,
        ):
            testimonies[bookie] = list_testimony(answer, metadata.ensemble_size, highest, reads)
        elif (
            answer is not None
            and answer.status is AnswerStatus.UNSUPPORTED
            and terms.probe_entries > 0
            and highest >= 0
        ):
            dues[bookie] = reads_due(ledger, bookie, its_parts, blocks_of[bookie], terms)
            testimonies[bookie] = reads_testimony(
                reads, all_due_were_made=dues[bookie].was_read(reads)
            )
        else:
            testimonies[bookie] = unheard_testimony(answer)
    answered = {bookie: testimonies[bookie].answered for bookie in dues}
    return _Count(
        tally(chosen, testimonies, is_whole=is_whole), chosen, is_whole, testimonies, dues, answered
    )


def _corrupt(heard: Words, count: _Count) -> dict[EntryId, Worst]:
    """Return each entry with a corrupt copy on a bookie of its write set, with its copies."""
    found = {}
    for bookie, entry in heard.corrupt:
        counted = count.tally.block_of(entry)
        if counted is not None and bookie in counted.block.stretch.bookies_of(entry):
            at = entry - counted.block.low
            found[entry] = Worst(
                entry, int(counted.possible[at]), int(counted.confirmed[at]), counted.block.stretch
            )
    return found


def _by_bookie(placed: Iterable[tuple[Stretch, T]]) -> dict[BookieId, list[T]]:
    """Group values that belong to stretches by the bookies of their ensembles.

    No bookie then walks through the stretches of all others.
    """
    found: dict[BookieId, list[T]] = {}
    for stretch, one in placed:
        for bookie in stretch.bookies:
            found.setdefault(bookie, []).append(one)
    return found


def is_written(parts: Sequence[Stretch], bookie: BookieId, entry: EntryId) -> bool:
    """Return whether the entry was written to the bookie; `parts` ascend."""
    at = bisect_left(parts, entry, key=lambda part: part.last)
    return at < len(parts) and parts[at].first <= entry and bookie in parts[at].bookies_of(entry)

"""Judge what Pulsar's topics reference: findings, counts, and sentences on what is unknown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import REFERENCES
from auditor.findings.dropped_ledgers import judge_drops
from auditor.findings.reference_tables import (
    AGAIN,
    AT_FIRST,
    FIRST,
    SUSPECTS_MAX,
    WHERE,
    counted_ids,
    ids_read_again,
    known_topics,
    lone_partitions,
    looks_at,
    partitions_in_doubt,
    records_at,
    referenced_ids,
    sourceless_shadows,
    suspect_ids,
    topics_naming,
    unread_counts,
    unreferenced_ledgers,
    were_references_read,
)
from auditor.findings.references import (
    Doubt,
    Judged,
    Orphans,
    SeenOrphan,
    SeenReference,
    UsesOfTopic,
    can_decide,
    judge_orphans,
    judge_reference,
    pair_uses,
    topic_named_by,
)
from auditor.model.evidence import Look
from auditor.model.facts import (
    MissingLedgerFacts,
    NewestMissingFacts,
    OrphanedFacts,
    PositionBeyondFacts,
    TruncatedLedgerFacts,
)
from auditor.model.finding import Finding, Kind
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import LedgerId
from auditor.model.ledger import LedgerRecord
from auditor.model.summary import References
from auditor.model.topic import Role, TopicName, TopicRecord, TopicStatus
from auditor.pulsar.reference_rows import RowOf, TopicLook
from auditor.summary.about import About
from auditor.witness.finding_lines import ClusterLook, cluster_testimony, znode_testimony
from auditor.witness.pulsar_commands import owner_by_use, owner_of

_NAMED_MAX = 5
"""A sentence names at most this many topics or ledgers."""


_DOUBTS = {
    Doubt.UNREAD: (
        "could not be read at some look: whether their metadata is there, and whole, is not known"
    ),
    Doubt.MISSING: (
        "had no metadata at some look, and the other did not confirm that a topic lacks them:"
        " whether anything is lost is not known"
    ),
    Doubt.SHORT: (
        "ended before what a topic recorded at some look, and the other did not confirm it: whether"
        " anything is lost is not known"
    ),
    Doubt.POSITION: (
        "ended before a position of a subscription at some look, and the other did not confirm it:"
        " whether the end was cut is not known"
    ),
}


def withheld_sentences(
    unknown: Mapping[LedgerId, Doubt],
    outdated: Sequence[LedgerId],
    unreadable: Sequence[str | None],
    undecided: int,
) -> Iterator[str]:
    """Yield what is withheld and why. None among `unreadable` means that not all topics were
    listed.
    """
    topics = sorted(topic for topic in unreadable if topic is not None)
    if topics:
        yield (
            f"reference_unreadable: of {_count(topics, 'topic')} something could not be read or"
            f" decoded (such as {_some(topics)}): what they reference is not known in full, and"
            " nothing is said of orphans in their namespaces"
        )
    if None in unreadable:
        yield (
            "reference_unreadable: not all of Pulsar's topics could be listed: nothing is said of"
            " orphans where they may be"
        )
    for doubt, words in _DOUBTS.items():
        ids = [ledger_id for ledger_id, why in unknown.items() if why is doubt]
        if ids:
            yield f"{_count(ids, 'ledger')} that topics reference (such as {_some(ids)}) {words}"
    if outdated:
        yield (
            f"{_count(outdated, 'compacted ledger')} (such as {_some(outdated)}) that ZooKeeper has"
            " of a subscription in use could not be found as it was: each compaction deletes the"
            " ledger of the one before, and the newest is named in the subscription's own ledger,"
            " which is not read"
        )
    if undecided:
        yield _undecided_sentence(undecided)


def _undecided_sentence(number: int) -> str:
    is_one = number == 1
    call = "is not called an orphan" if is_one else "are not called orphans"
    return (
        f"{_count(range(number), 'ledger')} of Pulsar without a known reference {call}: something"
        " that is not decoded, could not be read, or belongs to another Pulsar may reference"
        f" {'it' if is_one else 'them'}, or a run cannot look at so many again"
    )


def unjudged_sentences(more: int, suspects_max: int) -> Iterator[str]:
    """Yield how many referenced ledgers were too many to judge."""
    if more:
        yield (
            f"{_count(range(more), 'more ledger')} that topics reference could not be read at some"
            " look, or seemed missing or cut short, and nothing was found out about them: a run"
            f" judges the first {suspects_max:,}"
        )


def partition_sentences(lone: Sequence[object], in_doubt: Sequence[str]) -> Iterator[str]:
    """Yield which named partitions have no znode, and in which namespaces some may be missed."""
    if in_doubt:
        yield (
            f"not all partitioned topics of {_count(in_doubt, 'namespace')} (such as"
            f" {_some(in_doubt)}) could be listed or read: nothing is said of orphans there"
        )
    if lone:
        have = "has" if len(lone) == 1 else "have"
        yield (
            f"{_count(lone, 'partition')} of partitioned topics (such as {_some(lone)}) {have} no"
            " znode: Pulsar deletes inactive partitions, and the messages of a lost one can"
            " no longer be found; no ledger that names such a partition is called an orphan"
        )


def shadow_sentences(sourceless: Sequence[str]) -> Iterator[str]:
    """Yield the shadow topics whose source no longer exists."""
    if sourceless:
        its, them = ("its", "it") if len(sourceless) == 1 else ("their", "them")
        yield (
            f"{_count(sourceless, 'shadow topic')} (such as {_some(sourceless)}): {its} source does"
            f" not exist, and no broker can load {them}"
        )


def _count(counted: Sequence[object], noun: str) -> str:
    return f"{len(counted)} {noun}{'' if len(counted) == 1 else 's'}"


def _some(named: Sequence[object]) -> str:
    return ", ".join(map(str, named[:_NAMED_MAX]))


@dataclass(frozen=True, slots=True)
class ReferenceFindings:
    """What the references show.

    `counts` is None where no topics were looked for. `withheld` says in sentences what is unknown;
    `is_complete` whether everything about losses is known. `orphaned` are the ledgers of the
    finding on orphans, ascending.
    """

    findings: tuple[FindingRecord, ...] = ()
    withheld: tuple[str, ...] = ()
    counts: References | None = None
    is_complete: bool = True
    orphaned: tuple[LedgerId, ...] = ()


@dataclass(slots=True)
class _Judgement:
    """The judged references of a run."""

    findings: list[Finding] = field(default_factory=list)
    seen: dict[LedgerId, SeenReference] = field(default_factory=dict)
    unknown: dict[LedgerId, Doubt] = field(default_factory=dict)
    outdated: list[LedgerId] = field(default_factory=list)
    more: int = 0
    """The number of further ledgers that had to be judged and were not."""


def reference_findings(run: Place, about: About) -> ReferenceFindings:
    """Return what evidence/references shows; nothing if the run did not look for topics."""
    if not were_references_read(run):
        return ReferenceFindings()
    judged = _judge_references(run)
    orphans = _judge_orphans(run, about)
    dropped, unconfirmed = _judge_drops(run, {one.ledger_id for one in judged.findings}, about)
    found = [
        _record(finding, judged.seen[finding.ledger_id], about)
        for finding in judged.findings
        if finding.ledger_id is not None
    ]
    if orphans.finding is not None:
        found.append(_cluster_record(run, orphans.finding, orphans, about))
    found += dropped
    problems = _topics_with_problems(run)
    unreadable: list[str | None] = pc.unique(problems).to_pylist()
    return ReferenceFindings(
        findings=tuple(found),
        withheld=(
            *withheld_sentences(judged.unknown, judged.outdated, unreadable, orphans.undecided),
            *unjudged_sentences(judged.more, SUSPECTS_MAX),
            *dropped_sentences(unconfirmed),
            *partition_sentences(
                lone_partitions(run), sorted(set(partitions_in_doubt(run).to_pylist()))
            ),
            *shadow_sentences(sourceless_shadows(run)),
        ),
        counts=replace(
            _counts(run, judged, problems, orphans),
            dropped=len(dropped),
            positions_beyond=sum(
                finding.kind is Kind.POSITION_BEYOND_END for finding in judged.findings
            ),
            unknown=len(judged.unknown) + judged.more + len(unconfirmed),
        ),
        is_complete=not (judged.unknown or judged.more or unreadable or unconfirmed),
        orphaned=orphans.ledger_ids,
    )


def _judge_drops(
    run: Place, found: Set[LedgerId | None], about: About
) -> tuple[list[FindingRecord], list[LedgerId]]:
    """Return the findings on ledgers that topics lost, and the ledgers of which it is not known.

    Ledgers in `found` have a stronger finding of the family.
    """
    records, unknown = [], []
    for judged in judge_drops(run):
        if not isinstance(judged, tuple):
            unknown.append(judged)
            continue
        finding, seen = judged
        if finding.ledger_id in found:
            continue
        looks = [
            ClusterLook(seen.looks[look].read_at_ms, "topic", f"without {finding.ledger_id}")
            for look in (FIRST, AGAIN)
        ]
        owner = owner_by_use(seen.looks[AGAIN].topic, Role.DATA, "")
        records.append(cluster_testimony(finding, looks, about.facts, owner))
    return records, unknown


def dropped_sentences(unknown: Sequence[LedgerId]) -> Iterator[str]:
    """Yield which ledgers may be gone from inside a topic's list."""
    if unknown:
        yield (
            f"{_count(unknown, 'ledger')} (such as {_some(unknown)}) that an earlier run read in a"
            " topic's list, behind others: two looks did not show whether the list has lost them"
        )


def _judge_references(run: Place) -> _Judgement:
    ids, more = np.split(suspect_ids(run), [SUSPECTS_MAX])
    first, again = records_at(run, FIRST, ids), records_at(run, AGAIN, ids)
    looks = _by_topic(looks_at(run, topics_naming(run, ids)))
    naming = defaultdict[LedgerId, list[UsesOfTopic]](list)
    wanted = set(ids.tolist())
    for topic in sorted(looks):
        pairs = pair_uses(looks[topic][FIRST], looks[topic].get(AGAIN))
        for ledger_id in pairs.keys() & wanted:
            naming[ledger_id].append(pairs[ledger_id])
    judgement = _Judgement(more=len(more))
    counted = counted_ids(run, ids)
    for ledger_id in ids.tolist():
        uses = tuple(naming[ledger_id])
        seen = SeenReference(
            ledger_id, first[ledger_id], again.get(ledger_id), uses, ledger_id in counted
        )
        _add(judgement, seen, judge_reference(seen))
    return judgement


def _add(judgement: _Judgement, seen: SeenReference, judged: Judged) -> None:
    judgement.seen[seen.ledger_id] = seen
    judgement.findings += [judged.finding] if judged.finding else []
    if judged.doubt is not None:
        judgement.unknown[seen.ledger_id] = judged.doubt
    judgement.outdated += [seen.ledger_id] if judged.is_outdated else []


def _by_topic(looks: Iterable[TopicLook]) -> dict[TopicName, dict[int, TopicRecord]]:
    found: dict[TopicName, dict[int, TopicRecord]] = {}
    for look, record in looks:
        found.setdefault(record.topic, {})[look] = record
    return found


def _judge_orphans(run: Place, about: About) -> Orphans:
    known, read_again = known_topics(run, (FIRST, AGAIN)), frozenset(ids_read_again(run).tolist())
    decided: list[LedgerRecord] = []
    undecided = 0
    for record in unreferenced_ledgers(run, about.terms):
        if record.ledger_id in read_again and can_decide(record, known):
            decided.append(record)
        else:
            undecided += 1
    ids = np.array([record.ledger_id for record in decided], np.int64)
    again = records_at(run, AGAIN, ids)
    named = _topics_named_by(decided)
    looks = _by_topic(looks_at(run, named.values()))
    seen = (
        SeenOrphan(
            record, again.get(record.ledger_id), looks.get(named[record.ledger_id], {}).get(AGAIN)
        )
        for record in decided
    )
    terms = about.terms
    return judge_orphans(seen, terms.judged_at_ms, terms.orphan_age_ms, undecided, known)


def _topics_named_by(ledgers: Iterable[LedgerRecord]) -> dict[LedgerId, TopicName]:
    """Return the topic that each ledger names; none for a ledger that `can_decide` rejects."""
    return {
        record.ledger_id: topic
        for record in ledgers
        if record.metadata and (topic := topic_named_by(record.metadata)) is not None
    }


def _record(finding: Finding, seen: SeenReference, about: About) -> FindingRecord:
    assert seen.again is not None, "a finding takes two looks"
    facts = finding.facts
    if isinstance(facts, PositionBeyondFacts):
        named_topic, role, name = facts.some_positions[0].topic, Role.DATA, ""
    else:
        assert isinstance(facts, MissingLedgerFacts | NewestMissingFacts | TruncatedLedgerFacts), (
            finding
        )
        use = facts.some_uses[0]
        named_topic, role, name = use.topic, use.role, use.name
    topic = next(read.topic for read in seen.topics if str(read.topic) == named_topic)
    named = owner_by_use(topic, role, name)
    looks = [Look(seen.first), Look(seen.again)]
    owner = owner_of(seen.again.metadata) or named
    return znode_testimony(finding, looks, about.facts, owner)


def _cluster_record(run: Place, finding: Finding, orphans: Orphans, about: About) -> FindingRecord:
    ids = np.array(orphans.ledger_ids, np.int64)
    said = f"{len(orphans.ledger_ids)} unreferenced"
    times = (
        max(_times(records_at(run, FIRST, ids).values())),
        min(_times(records_at(run, AGAIN, ids).values())),
    )
    looks = [ClusterLook(at_ms, "references", said) for at_ms in times]
    return cluster_testimony(finding, looks, about.facts)


def _times(records: Iterable[LedgerRecord]) -> list[int]:
    return [record.read_at_ms for record in records]


def _topics_with_problems(run: Place) -> pa.ChunkedArray:
    """Return the topic of each problem at either look; null if topics could not be listed."""
    return run.read_table(WHERE, REFERENCES, pc.field("row") == RowOf.PROBLEM.value, ["topic"])[
        "topic"
    ]


def _orphaned_bytes(orphans: Orphans) -> tuple[int, int]:
    """Return the bytes of the orphans in all copies, and how many of them have no length."""
    if orphans.finding is None:
        return 0, 0
    assert isinstance(orphans.finding.facts, OrphanedFacts), orphans
    return orphans.finding.facts.stored_bytes, orphans.finding.facts.without_length


def _counts(
    run: Place, judged: _Judgement, problems: pa.ChunkedArray, orphans: Orphans
) -> References:
    rows = run.read_table(WHERE, REFERENCES, AT_FIRST, ["row", "status", "position"])
    found = (pc.field("row") == RowOf.TOPIC.value) & (pc.field("status") == TopicStatus.FOUND.value)
    schemas = rows.filter(pc.field("row") == RowOf.SCHEMA.value)["position"]
    orphaned_bytes, without_length = _orphaned_bytes(orphans)
    return References(
        topics=rows.filter(found).num_rows,
        cursors=rows.filter(pc.field("row") == RowOf.CURSOR.value).num_rows,
        schemas=len({(schema["ledger_id"], schema["entry_id"]) for schema in schemas.to_pylist()}),
        ledgers_referenced=len(referenced_ids(run)),
        missing=sum(finding.kind is Kind.REFERENCED_LEDGER_MISSING for finding in judged.findings),
        newest_missing=sum(
            finding.kind is Kind.NEWEST_LEDGER_MISSING for finding in judged.findings
        ),
        truncated=sum(finding.kind is Kind.LEDGER_TRUNCATED for finding in judged.findings),
        orphaned=len(orphans.ledger_ids),
        orphaned_bytes=orphaned_bytes,
        orphaned_without_length=without_length,
        unreadable=len(pc.unique(problems.drop_null())),
        not_listed=problems.null_count,
        unknown=len(judged.unknown) + judged.more,
        outdated=len(judged.outdated),
        orphaned_unknown=orphans.undecided,
        partitions_without_znode=len(lone_partitions(run)),
        unread=unread_counts(run),
    )

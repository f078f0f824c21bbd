"""Topics in a report: which are hit by findings on ledgers, worst first, and their JSON form.

Also their effect on the outcome, and the owners of ledgers whose metadata names none.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from auditor.evidence.run_directory import Place
from auditor.findings.reference_tables import (
    FIRST,
    known_topics,
    looks_at,
    topics_naming,
    were_references_read,
)
from auditor.findings.references import Use, uses_by_ledger
from auditor.model.codec import encode
from auditor.model.finding import Kind, Ranges, Severity
from auditor.model.finding_record import FindingRecord, Owner
from auditor.model.identity import ENTRY_ID_MAX, LedgerId
from auditor.model.summary import HitNamespace, HitTopic, References, TopicLine, WorstTopics
from auditor.model.topic import (
    COMPACTION_CURSOR,
    DataLedger,
    Reference,
    Role,
    TopicRecord,
    TopicStatus,
)
from auditor.pulsar.readability import (
    LOSSES,
    LOST_KINDS,
    Answer,
    Condition,
    LedgerCondition,
    Reading,
    TopicLedger,
    TopicReadability,
    TopicReport,
    TopicSchema,
    TopicSubscription,
    judge_reader,
)
from auditor.pulsar.reference_rows import namespace_of
from auditor.witness.next_commands import with_topic
from auditor.witness.pulsar_commands import owner_by_use, pulsar_ledger

TOPICS_IN_SUMMARY = 10
"""The summary lists at most this many topics, and namespaces, one by one; topics.jsonl has all
topics."""

_LOSSES = LOST_KINDS | {
    Kind.REFERENCED_LEDGER_MISSING,
    Kind.NEWEST_LEDGER_MISSING,
    Kind.LEDGER_TRUNCATED,
}
_WITHOUT_ENTRIES = frozenset({Kind.REFERENCED_LEDGER_MISSING, Kind.NEWEST_LEDGER_MISSING})
"""Kinds whose findings may name no entries: then any entry may be lost."""

_POSSIBLY_BLOCKED = frozenset({Answer.POSSIBLY_BLOCKED, Answer.UNKNOWN})
"""Unknown: the finding does not name all lost entries, and this reader is past the named ones."""


@dataclass(slots=True)
class _LedgerHit:
    """What findings say of one ledger. `lost` are entries that cannot be read; `lost_more`: others
    too.
    """

    kinds: set[Kind] = field(default_factory=set)
    lost: set[tuple[int, int]] = field(default_factory=set)
    lost_more: bool = False

    def add(self, found: FindingRecord) -> None:
        self.kinds.add(found.kind)
        if found.kind not in _LOSSES:
            return
        runs = found.entries
        if found.kind in _WITHOUT_ENTRIES and not runs:
            runs = ((0, ENTRY_ID_MAX),)
        elif found.entries_unnamed:
            self.lost_more = True
        self.lost.update(runs)

    def condition(self, ledger_id: LedgerId) -> LedgerCondition:
        """Return the condition in which a reader finds the ledger."""
        lost: Ranges = tuple(sorted(self.lost))
        is_newest = Kind.NEWEST_LEDGER_MISSING in self.kinds
        condition = Condition.NEWEST_MISSING if is_newest else Condition.ENTRIES_LOST
        return LedgerCondition(ledger_id, condition, lost, self.lost_more)


@dataclass(frozen=True, slots=True)
class TopicHits:
    """`lines` of topics.jsonl, worst first; how many topics are `hit`, and the `worst` of them.

    `findings` are all findings, with the owner of each ledger that a topic references.
    """

    findings: Sequence[FindingRecord]
    lines: tuple[str, ...] = ()
    hit: int | None = None
    worst: WorstTopics | None = None


def topic_hits(run: Place, findings: Sequence[FindingRecord]) -> TopicHits:
    """Return which topics are hit by findings on ledgers, of severity warning and worse.

    The number is None if no topic is known to be hit and not all topics could be listed. Costs one
    scan of the references, and memory for the topics that are hit.
    """
    if not were_references_read(run):
        return TopicHits(findings)
    named = {finding.ledger_id for finding in findings if finding.ledger_id is not None}
    records = _newest_records(run, named)
    hits: dict[LedgerId, _LedgerHit] = {}
    for finding in findings:
        if finding.ledger_id is not None and finding.severity >= Severity.WARNING:
            hits.setdefault(finding.ledger_id, _LedgerHit()).add(finding)
    topics = sorted(filter(None, (_topic(record, hits) for record in records)), key=_badness)
    lines = tuple(json.dumps(encode(topic), separators=(",", ":")) for topic in topics)
    owned = _with_owners(findings, records)
    if not topics and known_topics(run).is_blind:
        return TopicHits(owned)
    return TopicHits(owned, lines, len(topics), _worst(topics))


def _newest_records(run: Place, ledgers: set[LedgerId]) -> list[TopicRecord]:
    """Return the topics that name one of these ledgers, each in the newest state that was read."""
    ids = np.array(sorted(ledgers), np.int64)
    newest: dict[str, TopicRecord] = {}
    for look, record in looks_at(run, topics_naming(run, ids)):
        if look == FIRST or record.status is TopicStatus.FOUND:
            newest[str(record.topic)] = record
    return [newest[topic] for topic in sorted(newest)]


def _topic(record: TopicRecord, hits: Mapping[LedgerId, _LedgerHit]) -> TopicLine | None:
    """Return the line of a topic, None if nothing that it needs in BookKeeper is hit."""
    named = uses_by_ledger(record)
    uses = [
        (ledger, use)
        for ledger in sorted(named.keys() & hits)
        for use in named[ledger]
        if not use.is_elsewhere
    ]
    if not uses:
        return None
    lost = [(ledger, use) for ledger, use in uses if hits[ledger].kinds & _LOSSES]
    data = [
        (DataLedger(ledger, use.entries), hits[ledger].condition(ledger))
        for ledger, use in lost
        if use.role is Role.DATA
    ]
    answers = [
        (subscription.name, judge_reader(subscription, data).answer)
        for subscription in record.subscriptions
        if subscription.cursor is not None
    ]
    kinds = {kind for ledger, _ in uses for kind in hits[ledger].kinds}
    return TopicLine(
        topic=str(record.topic),
        namespace=namespace_of(record.topic),
        has_loss=any(_loses_messages(use) for _, use in lost),
        kinds=tuple(kind.value for kind in Kind if kind in kinds),
        ledgers=tuple(sorted({ledger for ledger, _ in uses})),
        subscriptions_blocked=tuple(name for name, answer in answers if answer is Answer.BLOCKED),
        subscriptions_possibly_blocked=tuple(
            name for name, answer in answers if answer in _POSSIBLY_BLOCKED
        ),
    )


def _loses_messages(use: Use) -> bool:
    """Return whether some reader of the topic loses something without the ledger of this use."""
    is_compaction = use.role is Role.CURSOR and use.name == COMPACTION_CURSOR
    return is_compaction or use.role in (Role.DATA, Role.SCHEMA, Role.COMPACTED)


def _badness(topic: TopicLine) -> tuple[bool, int, int, int, str]:
    return (
        not topic.has_loss,
        -len(topic.subscriptions_blocked),
        -len(topic.subscriptions_possibly_blocked),
        -len(topic.ledgers),
        topic.topic,
    )


def _worst(topics: Sequence[TopicLine]) -> WorstTopics:
    """Return the counts of hit topics, and the worst of them and of their namespaces."""
    by_namespace: dict[str, list[TopicLine]] = {}
    for topic in topics:
        by_namespace.setdefault(topic.namespace, []).append(topic)
    namespaces = sorted(
        (_namespace(name, mine) for name, mine in by_namespace.items()), key=_badness_of_namespace
    )
    return WorstTopics(
        sum(namespace.with_loss for namespace in namespaces),
        sum(namespace.subscriptions_blocked for namespace in namespaces),
        sum(namespace.subscriptions_possibly_blocked for namespace in namespaces),
        len(namespaces),
        tuple(namespaces[:TOPICS_IN_SUMMARY]),
        tuple(map(_brief, topics[:TOPICS_IN_SUMMARY])),
    )


def _namespace(name: str, topics: Sequence[TopicLine]) -> HitNamespace:
    return HitNamespace(
        name,
        sum(topic.has_loss for topic in topics),
        sum(len(topic.subscriptions_blocked) for topic in topics),
        sum(len(topic.subscriptions_possibly_blocked) for topic in topics),
        len(topics),
    )


def _badness_of_namespace(namespace: HitNamespace) -> tuple[int, int, int, int, str]:
    return (
        -namespace.with_loss,
        -namespace.subscriptions_blocked,
        -namespace.subscriptions_possibly_blocked,
        -namespace.topics,
        namespace.namespace,
    )


def _brief(topic: TopicLine) -> HitTopic:
    """Return a line of topics.jsonl for the summary: long lists become their lengths."""
    return HitTopic(
        topic.topic,
        topic.namespace,
        topic.has_loss,
        topic.kinds,
        len(topic.ledgers),
        len(topic.subscriptions_blocked),
        len(topic.subscriptions_possibly_blocked),
    )


def _with_owners(
    findings: Sequence[FindingRecord], records: Iterable[TopicRecord]
) -> list[FindingRecord]:
    """Return the findings. A ledger whose metadata names no owner gets the topic that references
    it.
    """
    unowned = {
        finding.ledger_id
        for finding in findings
        if finding.owner is None and finding.ledger_id is not None
    }
    owners = dict(_owners(unowned, records))
    return [_with_owner(finding, owners) for finding in findings]


def _owners(
    ledgers: set[LedgerId], records: Iterable[TopicRecord]
) -> Iterator[tuple[LedgerId, Owner]]:
    """Yield each ledger with the first topic, in order, that references it. Later pairs win."""
    for record in reversed(list(records)):
        named = uses_by_ledger(record)
        for ledger in named.keys() & ledgers:
            yield ledger, owner_by_use(record.topic, named[ledger][0].role, named[ledger][0].name)


def _with_owner(found: FindingRecord, owners: Mapping[LedgerId, Owner]) -> FindingRecord:
    owner = None if found.ledger_id is None else owners.get(found.ledger_id)
    if owner is None or found.owner is not None:
        return found
    steps = with_topic(found.next, found.kind, pulsar_ledger(owner))
    return replace(found, owner=owner, next=tuple(steps))


def report_topic(topic: TopicReadability, standings: Mapping[LedgerId, str]) -> TopicReport:
    """Return a topic as it is reported. `standings` are by ledger id."""
    record = topic.record
    return TopicReport(
        topic=str(record.topic),
        status=record.status,
        is_complete=is_complete(topic),
        answer=topic.start.answer if topic.start else Answer.UNKNOWN,
        first_loss=None if topic.start is None else topic.start.first_loss,
        blocker=topic.blocker,
        shadow_source=_shadow_source(topic),
        problems=tuple(record.problems),
        unread=_count_unread(record),
        ledgers=(
            *(_data_ledger(ledger, found, standings) for ledger, found in topic.data),
            *(_other_ledger(reference, found, standings) for reference, found in topic.others),
        ),
        subscriptions=tuple(map(_subscription, topic.readings)),
        schemas=tuple(TopicSchema(schema.version, schema.position) for schema in record.schemas),
    )


def _shadow_source(topic: TopicReadability) -> str | None:
    managed = topic.record.managed_ledger
    return None if managed is None or managed.shadow_source is None else str(managed.shadow_source)


def worst_of_topics(topics: Iterable[TopicReadability]) -> Severity | None:
    """Return CRITICAL if a ledger of a topic is missing or truncated, or a topic is not readable;
    else None.
    """
    is_hit = any(
        (topic.start is not None and topic.start.answer is Answer.BLOCKED)
        or any(ledger.condition in _HIT for ledger in topic.conditions)
        for topic in topics
    )
    return Severity.CRITICAL if is_hit else None


_HIT = frozenset({Condition.MISSING, Condition.NEWEST_MISSING, Condition.TRUNCATED})


def reference_counts(topics: Sequence[TopicReadability]) -> References:
    """Return how many topics, cursors and schemas there are, and what is wrong with their ledgers.

    `unreadable` counts topics of which something could not be read or decoded. A ledger of several
    topics counts by its worst condition.
    """
    conditions: dict[LedgerId, Condition] = {}
    for ledger in (ledger for topic in topics for ledger in topic.conditions):
        before = conditions.get(ledger.ledger_id, ledger.condition)
        conditions[ledger.ledger_id] = max(before, ledger.condition, key=_WORSE.index)
    return References(
        topics=sum(topic.record.status is TopicStatus.FOUND for topic in topics),
        cursors=sum(len(topic.record.subscriptions) for topic in topics),
        schemas=len({found.position for topic in topics for found in topic.record.schemas}),
        ledgers_referenced=len(conditions),
        missing=sum(condition is Condition.MISSING for condition in conditions.values()),
        newest_missing=sum(
            condition is Condition.NEWEST_MISSING for condition in conditions.values()
        ),
        truncated=sum(condition is Condition.TRUNCATED for condition in conditions.values()),
        unreadable=sum(bool(topic.record.problems) for topic in topics),
        unread=dict(
            sum((Counter(_count_unread(topic.record)) for topic in topics), Counter[str]())
        ),
    ).without(
        "dropped",
        "positions_beyond",
        "orphaned",
        "orphaned_bytes",
        "orphaned_without_length",
        "orphaned_growth",
        "not_listed",
        "unknown",
        "outdated",
        "orphaned_unknown",
        "partitions_without_znode",
    )


_WORSE = tuple(Condition)


def _count_unread(record: TopicRecord) -> dict[str, int]:
    return {part.value: count for part, count in record.unread}


def is_complete(topic: TopicReadability) -> bool:
    """Return whether every requested fact of a topic is known."""
    unknown = any(ledger.is_unknown for ledger in topic.conditions)
    return topic.record.status is TopicStatus.FOUND and not topic.record.problems and not unknown


def _data_ledger(
    ledger: DataLedger, found: LedgerCondition, standings: Mapping[LedgerId, str]
) -> TopicLedger:
    return replace(
        _ledger(found, standings, Role.DATA, None),
        entries=ledger.entries,
        size_bytes=ledger.size_bytes,
        closed_ms=ledger.closed_ms,
        offloaded=ledger.offloaded,
        bookkeeper_deleted=ledger.bookkeeper_deleted,
    )


def _other_ledger(
    reference: Reference, found: LedgerCondition, standings: Mapping[LedgerId, str]
) -> TopicLedger:
    ledger = _ledger(found, standings, reference.role, reference.name or None)
    return ledger.without("entries", "size_bytes", "closed_ms", "offloaded", "bookkeeper_deleted")


_LOST = LOSSES - {Condition.NEWEST_MISSING, Condition.UNRECOVERABLE}
"""Conditions that prove that entries are lost. Two others do not: a missing newest ledger may have
been empty, and one that cannot be recovered now may have all its entries."""


def _ledger(
    found: LedgerCondition, standings: Mapping[LedgerId, str], role: Role, name: str | None
) -> TopicLedger:
    lost = ((first, None if last == ENTRY_ID_MAX else last) for first, last in found.lost)
    return TopicLedger(
        found.ledger_id,
        found.condition,
        standings.get(found.ledger_id),
        tuple(lost) if found.condition in _LOST else (),
        found.lost_more,
        found.is_unknown,
        found.detail,
        role,
        name,
    )


def _subscription(reading: Reading) -> TopicSubscription:
    subscription = reading.subscription
    assert subscription is not None, reading
    return TopicSubscription(
        subscription.name,
        reading.position,
        reading.is_newest,
        subscription.cursor.ledger_id if subscription.cursor else None,
        reading.answer,
        reading.first_loss,
        subscription.problem,
    )

"""Topics in a report: which are hit by findings on ledgers, worst first, and their JSON form.

Also their effect on the outcome, and the owners of ledgers whose metadata names none.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

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
from auditor.model.finding import Kind, Ranges, Severity
from auditor.model.finding_record import FindingRecord, Owner
from auditor.model.identity import ENTRY_ID_MAX, LedgerId
from auditor.model.readability import (
    LOSSES,
    Answer,
    Condition,
    LedgerCondition,
    Reading,
    TopicReadability,
)
from auditor.model.summary import Summary
from auditor.model.topic import (
    COMPACTION_CURSOR,
    DataLedger,
    Position,
    Reference,
    Role,
    TopicRecord,
    TopicStatus,
)
from auditor.pulsar.readability import LOST_KINDS, judge_reader
from auditor.pulsar.reference_rows import namespace_of
from auditor.summary.outcome import (
    OUTCOME_FAULT,
    OUTCOME_INCOMPLETE,
    OUTCOME_SOUND,
    OUTCOME_VIOLATED,
)
from auditor.witness.next_commands import with_topic
from auditor.witness.pulsar_commands import owner_by_use, pulsar_ledger

TOPICS_IN_SUMMARY = 10
"""The summary lists at most this many topics, and namespaces, one by one; topics.jsonl has all
topics."""

Json = dict[str, Any]

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
    """`lines` of topics.jsonl, worst first; `summary` has the fields of the summary on topics.

    `findings` are all findings, with the owner of each ledger that a topic references.
    """

    findings: Sequence[FindingRecord]
    lines: tuple[str, ...] = ()
    summary: Mapping[str, Any] = field(
        default_factory=lambda: {"topics_hit": None, "topics_worst": None}
    )


def topic_hits(run: Place, findings: Sequence[FindingRecord]) -> TopicHits:
    """Return which topics are hit by findings on ledgers, of severity warning and worse.

    The number is None if no topic is known to be hit and not all topics could be listed. Costs one
    scan of the references, and memory for the topics that are hit.
    """
    if not were_references_read(run):
        return TopicHits(findings)
    named = {one.ledger_id for one in findings if one.ledger_id is not None}
    records = _newest_records(run, named)
    hits: dict[LedgerId, _LedgerHit] = {}
    for one in findings:
        if one.ledger_id is not None and one.severity >= Severity.WARNING:
            hits.setdefault(one.ledger_id, _LedgerHit()).add(one)
    topics = sorted(filter(None, (_topic(record, hits) for record in records)), key=_badness)
    lines = tuple(json.dumps(one, separators=(",", ":")) for one in topics)
    owned = _with_owners(findings, records)
    if not topics and known_topics(run).is_blind:
        return TopicHits(owned)
    return TopicHits(owned, lines, _summary(topics))


def _newest_records(run: Place, ledgers: set[LedgerId]) -> list[TopicRecord]:
    """Return the topics that name one of these ledgers, each in the newest state that was read."""
    ids = np.array(sorted(ledgers), np.int64)
    newest: dict[str, TopicRecord] = {}
    for look, record in looks_at(run, topics_naming(run, ids)):
        if look == FIRST or record.status is TopicStatus.FOUND:
            newest[str(record.topic)] = record
    return [newest[topic] for topic in sorted(newest)]


def _topic(record: TopicRecord, hits: Mapping[LedgerId, _LedgerHit]) -> Json | None:
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
        (one.name, judge_reader(one, data).answer)
        for one in record.subscriptions
        if one.cursor is not None
    ]
    return {
        "topic": str(record.topic),
        "namespace": namespace_of(record.topic),
        "has_loss": any(_loses_messages(use) for _, use in lost),
        "kinds": [
            kind.value for kind in Kind if any(kind in hits[ledger].kinds for ledger, _ in uses)
        ],
        "ledgers": sorted({ledger for ledger, _ in uses}),
        "subscriptions_blocked": [name for name, answer in answers if answer is Answer.BLOCKED],
        "subscriptions_possibly_blocked": [
            name for name, answer in answers if answer in _POSSIBLY_BLOCKED
        ],
    }


def _loses_messages(use: Use) -> bool:
    """Return whether some reader of the topic loses something without the ledger of this use."""
    is_compaction = use.role is Role.CURSOR and use.name == COMPACTION_CURSOR
    return is_compaction or use.role in (Role.DATA, Role.SCHEMA, Role.COMPACTED)


def _badness(topic: Json) -> tuple[Any, ...]:
    blocked, possibly = topic["subscriptions_blocked"], topic["subscriptions_possibly_blocked"]
    return (
        not topic["has_loss"],
        -len(blocked),
        -len(possibly),
        -len(topic["ledgers"]),
        topic["topic"],
    )


def _summary(topics: Sequence[Json]) -> Json:
    """Return the counts of hit topics, and the worst of them and of their namespaces."""
    namespaces: dict[str, Counter[str]] = {}
    for one in topics:
        namespaces.setdefault(one["namespace"], Counter()).update(_counts_of(one))
    worst = sorted(
        namespaces, key=lambda name: (*(-namespaces[name][word] for word in _WORDS), name)
    )
    return {
        "topics_hit": len(topics),
        "topics_worst": {
            **{word: sum(of[word] for of in namespaces.values()) for word in _WORDS[:3]},
            "namespaces": len(namespaces),
            "worst_namespaces": [
                {"namespace": name, **{word: namespaces[name][word] for word in _WORDS}}
                for name in worst[:TOPICS_IN_SUMMARY]
            ],
            "worst_topics": [_brief(one) for one in topics[:TOPICS_IN_SUMMARY]],
        },
    }


_WORDS = ("with_loss", "subscriptions_blocked", "subscriptions_possibly_blocked", "topics")


def _counts_of(topic: Json) -> Json:
    lengths = {word: len(topic[word]) for word in _WORDS[1:3]}
    return {"with_loss": int(topic["has_loss"]), "topics": 1, **lengths}


def _brief(topic: Json) -> Json:
    """Return a line of topics.jsonl for the summary: long lists become their lengths."""
    lists = ("ledgers", "subscriptions_blocked", "subscriptions_possibly_blocked")
    return {**topic, **{name: len(topic[name]) for name in lists}}


def _with_owners(
    findings: Sequence[FindingRecord], records: Iterable[TopicRecord]
) -> list[FindingRecord]:
    """Return the findings. A ledger whose metadata names no owner gets the topic that references
    it.
    """
    unowned = {one.ledger_id for one in findings if one.owner is None and one.ledger_id is not None}
    owners = dict(_owners(unowned, records))
    return [_with_owner(one, owners) for one in findings]


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


def topic_json(topic: TopicReadability, standings: Mapping[LedgerId, str]) -> Json:
    """Return a topic for JSON and for the text report. `standings` are by ledger id.

    A ledger whose metadata is gone, or that is only in long-term storage, has the standing null.
    """
    record = topic.record
    return {
        "topic": str(record.topic),
        "status": record.status.value,
        "is_complete": is_complete(topic),
        "answer": topic.start.answer.value if topic.start else Answer.UNKNOWN.value,
        "first_loss": None if topic.start is None else _position(topic.start.first_loss),
        "blocker": topic.blocker,
        "shadow_source": _shadow_source(topic),
        "problems": list(record.problems),
        "unread": _unread_json(record),
        "ledgers": [
            *(_data_json(ledger, found, standings) for ledger, found in topic.data),
            *(_other_json(reference, found, standings) for reference, found in topic.others),
        ],
        "subscriptions": [_reading_json(one) for one in topic.readings],
        "schemas": [
            {"version": one.version, "position": _position(one.position)} for one in record.schemas
        ],
    }


def _shadow_source(topic: TopicReadability) -> str | None:
    managed = topic.record.managed_ledger
    return None if managed is None or managed.shadow_source is None else str(managed.shadow_source)


def with_topics(summary: Summary, topics: Sequence[TopicReadability], fail_on: str) -> Summary:
    """Return the summary of the ledgers with what the topics add: counts, outcome and exit code.

    A ledger that is missing or truncated is a critical violation, and so is a topic that is not
    readable. If something of a topic could not be read, the result is incomplete.
    """
    counts = reference_counts(topics)
    complete = summary.is_complete and all(map(is_complete, topics))
    is_blocked = any(one.start is not None and one.start.answer is Answer.BLOCKED for one in topics)
    lost = ("missing", "newest_missing", "truncated")
    is_hit = any(counts[word] for word in lost) or is_blocked
    is_violated = summary.outcome == OUTCOME_VIOLATED or is_hit
    exit_code, outcome = summary.exit_code, summary.outcome
    if outcome != OUTCOME_FAULT:
        outcome = (
            OUTCOME_VIOLATED if is_violated else OUTCOME_SOUND if complete else OUTCOME_INCOMPLETE
        )
        reaches = exit_code == 1 or (fail_on != "never" and is_hit)
        exit_code = 1 if reaches else 0 if complete else 3
    return summary | {
        "references": counts,
        "complete": complete,
        "outcome": outcome,
        "exit_code": exit_code,
    }


def reference_counts(topics: Sequence[TopicReadability]) -> Json:
    """Return how many topics, cursors and schemas there are, and what is wrong with their ledgers.

    `unreadable` counts topics of which something could not be read or decoded.
    """
    conditions = {one.ledger_id: one.condition for topic in topics for one in topic.conditions}
    return {
        "topics": sum(one.record.status is TopicStatus.FOUND for one in topics),
        "cursors": sum(len(one.record.subscriptions) for one in topics),
        "schemas": len({found.position for one in topics for found in one.record.schemas}),
        "ledgers_referenced": len(conditions),
        "missing": sum(one is Condition.MISSING for one in conditions.values()),
        "newest_missing": sum(one is Condition.NEWEST_MISSING for one in conditions.values()),
        "truncated": sum(one is Condition.TRUNCATED for one in conditions.values()),
        "unreadable": sum(bool(one.record.problems) for one in topics),
        "unread": dict(sum((Counter(_unread_json(one.record)) for one in topics), Counter[str]())),
    }


def _unread_json(record: TopicRecord) -> dict[str, int]:
    return {one.value: count for one, count in record.unread}


def is_complete(topic: TopicReadability) -> bool:
    """Return whether every requested fact of a topic is known."""
    unknown = any(one.is_unknown for one in topic.conditions)
    return topic.record.status is TopicStatus.FOUND and not topic.record.problems and not unknown


def _data_json(
    ledger: DataLedger, found: LedgerCondition, standings: Mapping[LedgerId, str]
) -> Json:
    return {
        **_condition_json(found, standings),
        "role": Role.DATA.value,
        "name": None,
        "entries": ledger.entries,
        "size_bytes": ledger.size_bytes,
        "closed_ms": ledger.closed_ms,
        "offloaded": ledger.offloaded,
        "bookkeeper_deleted": ledger.bookkeeper_deleted,
    }


def _other_json(
    reference: Reference, found: LedgerCondition, standings: Mapping[LedgerId, str]
) -> Json:
    return {
        **_condition_json(found, standings),
        "role": reference.role.value,
        "name": reference.name or None,
    }


_LOST = LOSSES - {Condition.NEWEST_MISSING, Condition.UNRECOVERABLE}
"""Conditions that prove that entries are lost. Two others do not: a missing newest ledger may have
been empty, and one that cannot be recovered now may have all its entries."""


def _condition_json(found: LedgerCondition, standings: Mapping[LedgerId, str]) -> Json:
    lost = [[first, None if last == ENTRY_ID_MAX else last] for first, last in found.lost]
    return {
        "ledger_id": found.ledger_id,
        "condition": found.condition.value,
        "standing": standings.get(found.ledger_id),
        "lost": lost if found.condition in _LOST else [],
        "lost_more": found.lost_more,
        "is_unknown": found.is_unknown,
        "detail": found.detail,
    }


def _reading_json(reading: Reading) -> Json:
    assert reading.subscription is not None, reading
    return {
        "name": reading.subscription.name,
        "position": _position(reading.position),
        "is_newest_position": reading.is_newest,
        "cursor_ledger_id": (
            reading.subscription.cursor.ledger_id if reading.subscription.cursor else None
        ),
        "answer": reading.answer.value,
        "first_loss": _position(reading.first_loss),
        "problem": reading.subscription.problem,
    }


def _position(position: Position | None) -> list[int] | None:
    return None if position is None else list(position)

"""Topics in a report: their JSON form, and their effect on the outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

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
from auditor.model.topic import DataLedger, Position, Reference, Role, TopicRecord, TopicStatus
from auditor.summary.outcome import (
    OUTCOME_FAULT,
    OUTCOME_INCOMPLETE,
    OUTCOME_SOUND,
    OUTCOME_VIOLATED,
)

Json = dict[str, Any]


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

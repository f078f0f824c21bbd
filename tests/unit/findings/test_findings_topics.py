"""Topics in a summary: what they add to the counts, the outcome and the exit code of their
ledgers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from auditor.findings.topics import is_complete, reference_counts, report_topic, worst_of_topics
from auditor.model.codec import encode
from auditor.model.finding import Severity
from auditor.model.identity import ENTRY_ID_MAX
from auditor.model.topic import (
    Cursor,
    DataLedger,
    ManagedLedger,
    Position,
    Reference,
    Role,
    SchemaVersion,
    Subscription,
    TopicName,
    TopicRecord,
    TopicStatus,
    Unread,
)
from auditor.pulsar.readability import Answer, Condition, LedgerCondition, Reading, TopicReadability
from auditor.summary.outcome import exit_code, exit_code_if_clean, outcome_of, worst_of

NAME = TopicName("t", "", "n", "x")
START = Reading(None, None, True, Answer.READABLE)
BLOCKED = Reading(None, None, True, Answer.BLOCKED)


@dataclass(frozen=True)
class Ledgers:
    """What the ledgers of a topic contribute to the outcome."""

    worst: Severity | None = None
    is_complete: bool = True
    is_fault: bool = False


SOUND, INCOMPLETE, FAULT = Ledgers(), Ledgers(is_complete=False), Ledgers(is_fault=True)
VIOLATED, WARNED = Ledgers(Severity.CRITICAL), Ledgers(Severity.WARNING)


def topic(
    condition: Condition = Condition.NOTHING_LOST,
    *,
    problems: tuple[str, ...] = (),
    unknown: bool = False,
    start: Reading = START,
) -> Any:
    record = TopicRecord(NAME, 0, TopicStatus.FOUND, problems=problems)
    return TopicReadability(
        record,
        ((DataLedger(1, 5), LedgerCondition(1, condition, is_unknown=unknown)),),
        start=start,
    )


@pytest.mark.parametrize(
    ("ledgers", "one", "fail_on", "outcome", "code"),
    [
        (SOUND, topic(), "warning", "SOUND", 0),
        (SOUND, topic(Condition.MISSING), "warning", "VIOLATED", 1),
        (SOUND, topic(Condition.TRUNCATED), "critical", "VIOLATED", 1),
        (SOUND, topic(Condition.NEWEST_MISSING), "critical", "VIOLATED", 1),
        (SOUND, topic(start=BLOCKED), "critical", "VIOLATED", 1),
        (SOUND, topic(start=BLOCKED), "never", "VIOLATED", 0),
        (SOUND, topic(Condition.MISSING), "never", "VIOLATED", 0),
        (SOUND, topic(problems=("why",)), "warning", "INCOMPLETE", 3),
        (SOUND, topic(Condition.UNKNOWN, unknown=True), "warning", "INCOMPLETE", 3),
        (
            SOUND,
            TopicReadability(TopicRecord(NAME, 0, TopicStatus.MISSING)),
            "warning",
            "INCOMPLETE",
            3,
        ),
        (INCOMPLETE, topic(), "warning", "INCOMPLETE", 3),
        (INCOMPLETE, topic(Condition.MISSING), "never", "VIOLATED", 3),
        (VIOLATED, topic(), "warning", "VIOLATED", 1),
        (VIOLATED, topic(problems=("why",)), "warning", "VIOLATED", 1),
        (WARNED, topic(), "critical", "VIOLATED", 0),
        (WARNED, topic(problems=("why",)), "critical", "VIOLATED", 3),
        (FAULT, topic(Condition.MISSING), "warning", "AUDITOR_FAULT", 4),
    ],
)
def test_the_worst_of_ledgers_and_topics_decides(
    ledgers: Ledgers, one: Any, fail_on: str, outcome: str, code: int
):
    """A fault of the auditor comes first, then a violation, then something unknown."""
    worst = worst_of((), ledgers.worst, worst_of_topics([one]))
    whole = {
        "is_complete": ledgers.is_complete and is_complete(one), "is_fault": ledgers.is_fault
    }  # fmt: skip
    assert outcome == outcome_of(worst, **whole)
    assert code == exit_code(worst, fail_on, exit_code_if_clean(**whole))


def test_a_ledger_of_two_topics_counts_once():
    """The partitions of a topic share the ledger of its schema, for example."""
    schemas = (SchemaVersion(0, Position(9, 0)), SchemaVersion(1, Position(9, 1)))
    subscription = Subscription("s", Cursor(None, None))
    record = TopicRecord(NAME, 0, TopicStatus.FOUND, None, (subscription,), schemas, ("why",))
    one = TopicReadability(
        record, others=((Reference(9, Role.SCHEMA), LedgerCondition(9, Condition.MISSING)),)
    )
    assert {
        "topics": 2, "cursors": 2, "schemas": 2, "ledgers_referenced": 1, "missing": 1,
        "newest_missing": 0, "truncated": 0, "unreadable": 2, "unread": {},
    } == encode(reference_counts([one, one]))  # fmt: skip


def test_a_topic_in_json_has_its_records_and_findings():
    """A range of unknown length has no end, and a ledger without metadata has no standing."""
    subscription = Subscription("s", Cursor(7, Position(1, 2)))
    record = TopicRecord(
        NAME, 0, TopicStatus.FOUND, None, (subscription,), (SchemaVersion(3, Position(9, 1)),)
    )
    condition = LedgerCondition(1, Condition.MISSING, ((0, ENTRY_ID_MAX),))
    blocked = Reading(subscription, Position(1, 2), False, Answer.POSSIBLY_BLOCKED, Position(1, 3))
    start = Reading(None, None, True, Answer.BLOCKED, Position(1, 0))
    others = ((Reference(7, Role.CURSOR, "s"), LedgerCondition(7, Condition.NOTHING_LOST)),)
    found = encode(
        report_topic(
            TopicReadability(record, ((DataLedger(1), condition),), others, start, (blocked,)),
            {7: "sound"},
        )
    )
    assert ("persistent://t/n/x", "found", True, "blocked", [1, 0], []) == tuple(
        found[key] for key in ("topic", "status", "is_complete", "answer", "first_loss", "problems")
    )
    data, cursor = found["ledgers"]
    assert (1, "missing", None, [[0, None]], "data", None) == tuple(
        data[key] for key in ("ledger_id", "condition", "standing", "lost", "role", "entries")
    )
    assert (7, "sound", [], "cursor", "s") == tuple(
        cursor[key] for key in ("ledger_id", "standing", "lost", "role", "name")
    )
    assert [
        {
            "name": "s", "position": [1, 2], "is_newest_position": False, "cursor_ledger_id": 7,
            "answer": "possibly_blocked",
            "first_loss": [1, 3], "problem": "",
        }
    ] == found["subscriptions"]  # fmt: skip
    assert [{"version": 3, "position": [9, 1]}] == found["schemas"]


def test_a_topic_in_json_has_every_field():
    """A data ledger has what the topic recorded, another ledger its role and name. Entries are lost
    only if their condition says so.
    """
    subscriptions = Subscription("s", None, "its cursor could not be read")
    managed = ManagedLedger(shadow_source=NAME._replace(local_name="y"))
    unread = ((Unread.PROPERTY, 2),)
    record = TopicRecord(
        NAME, 0, TopicStatus.FOUND, managed, (subscriptions,), (), ("why",), unread
    )
    data = DataLedger(1, 5, 600, 70, True, True)
    lost = LedgerCondition(1, Condition.TRUNCATED, ((2, 3), (5, ENTRY_ID_MAX)), 4, True, "said")
    kept = LedgerCondition(7, Condition.UNKNOWN, ((0, 1),))
    reading = Reading(subscriptions, None, True, Answer.UNKNOWN)
    one = TopicReadability(
        record, ((data, lost),), ((Reference(7, Role.SCHEMA), kept),), None, (reading,), "shut"
    )
    assert {
        "topic": "persistent://t/n/x", "status": "found", "is_complete": False, "answer": "unknown",
        "first_loss": None,
        "blocker": "shut", "shadow_source": "persistent://t/n/y",
        "problems": ["why"], "unread": {"property": 2}, "schemas": [],
        "ledgers": [
            {
                "ledger_id": 1, "condition": "truncated", "standing": "violated",
                "lost": [[2, 3], [5, None]], "lost_more": 4,
                "is_unknown": True, "detail": "said", "role": "data", "name": None, "entries": 5,
                "size_bytes": 600,
                "closed_ms": 70, "offloaded": True, "bookkeeper_deleted": True,
            },
            {
                "ledger_id": 7, "condition": "unknown", "standing": None, "lost": [],
                "lost_more": 0, "is_unknown": False,
                "detail": "", "role": "schema", "name": None,
            },
        ],
        "subscriptions": [
            {
                "name": "s", "position": None, "is_newest_position": True, "cursor_ledger_id": None,
                "answer": "unknown",
                "first_loss": None, "problem": "its cursor could not be read",
            }
        ],
    } == encode(report_topic(one, {1: "violated"}))  # fmt: skip


def test_a_ledger_of_two_topics_counts_by_its_worst_condition():
    """One topic may have recorded more of it than the other."""
    both = [topic(Condition.TRUNCATED), topic()]
    for topics in (both, both[::-1]):
        counts = encode(reference_counts(topics))
        assert (1, 1) == (counts["ledgers_referenced"], counts["truncated"])
        assert Severity.CRITICAL is worst_of_topics(topics)


@pytest.mark.parametrize(
    ("one", "complete"),
    [
        (topic(), True),
        (topic(Condition.MISSING), True),
        (topic(problems=("why",)), False),
        (topic(unknown=True), False),
        (TopicReadability(TopicRecord(NAME, 0, TopicStatus.UNREADABLE)), False),
    ],
)
def test_a_topic_is_complete_where_every_fact_is_known(one: Any, complete: bool):
    """A missing ledger is a known fact."""
    assert complete is is_complete(one)

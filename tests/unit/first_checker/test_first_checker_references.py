"""What topics use a ledger for, and what two looks at it show. The laws of findings are in test_summary_reference_findings."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.topics import closed

from auditor.first_checker.references import NOTHING, SeenReference, judge_reference, pair_uses, uses_by_ledger
from auditor.model.ledger import LedgerRecord, RecordStatus
from auditor.model.reference_facts import MissingLedgerFacts
from auditor.model.topic import (
    Cursor,
    DataLedger,
    ManagedLedger,
    Position,
    Role,
    SchemaVersion,
    Subscription,
    TopicName,
    TopicRecord,
    TopicStatus,
)

NAME = TopicName("t", "", "n", "x")
TOPIC = TopicRecord(
    NAME,
    5,
    TopicStatus.FOUND,
    ManagedLedger((closed(5), closed(6, offloaded=True), DataLedger(7))),
    (Subscription("s", Cursor(8, Position(5, 2), (), 9)), Subscription("unread", None, "shut")),
    (SchemaVersion(0, Position(5, 3)), SchemaVersion(1, Position(5, 6))),
)


def gone(look: int) -> LedgerRecord:
    return LedgerRecord(5, look, 1_000 * look, RecordStatus.GONE)


def test_every_use_of_a_ledger_is_told() -> None:
    """By ledger: what for, how many entries, and whether its absence proves a loss."""
    found = uses_by_ledger(TOPIC)
    assert [5, 6, 7, 8, 9] == sorted(found)
    assert [(Role.DATA, 10), (Role.SCHEMA, 7)] == [(use.role, use.entries) for use in found[5]]
    assert [True, False] == [found[6][0].is_elsewhere, found[6][0].can_be_lost]
    assert [True, False] == [found[7][0].is_unsure, found[5][0].is_unsure]
    assert (Role.CURSOR, "s", Position(5, 2)) == (*found[8][0][1:3], found[8][0].position)
    assert (Role.COMPACTED, True) == (found[9][0].role, found[9][0].is_unsure)


@pytest.mark.parametrize(
    ("again", "may_miss"),
    [
        (None, True),
        (TOPIC, False),
        (replace(TOPIC, problems=("shut",)), True),
        (TopicRecord(NAME, 5, TopicStatus.MISSING, problems=("shut",)), False),
    ],
)
def test_a_second_look_that_read_all_misses_nothing(again: TopicRecord | None, may_miss: bool) -> None:
    """A topic that is gone references nothing."""
    assert {may_miss} == {one.may_miss for one in pair_uses(TOPIC, again).values()}


def test_what_a_missing_ledger_held_is_the_most_that_was_recorded() -> None:
    """By any topic; a schema's entries are no messages."""
    more = replace(TOPIC, topic=NAME._replace(local_name="y"), managed_ledger=ManagedLedger((closed(5, 12),)))
    uses = tuple(pair_uses(one, one)[5] for one in (TOPIC, more))
    finding = judge_reference(SeenReference(5, gone(1), gone(2), uses)).finding
    assert finding is not None and isinstance(finding.facts, MissingLedgerFacts)
    assert (2, 4, 12, 1_200) == (finding.facts.topics, finding.facts.uses, finding.facts.entries, finding.facts.size_bytes)


def test_a_ledger_that_nobody_uses_is_nothing() -> None:
    """However gone it is."""
    assert NOTHING == judge_reference(SeenReference(5, gone(1), gone(2), ()))

"""What topics use ledgers for, as read at one look or at both."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.topics import NAME, TOPIC

from auditor.findings.references import pair_uses, uses_by_ledger
from auditor.model.topic import Position, Role, TopicRecord, TopicStatus


def test_every_use_of_a_ledger_is_reported() -> None:
    """By ledger: the purpose, the number of entries, and whether its absence proves a loss."""
    found = uses_by_ledger(TOPIC)
    assert [5, 6, 7, 8, 9] == sorted(found)
    assert [(Role.DATA, 10), (Role.SCHEMA, 7)] == [(use.role, use.entries) for use in found[5]]
    assert [True, False] == [found[6][0].is_elsewhere, found[6][0].can_be_lost]
    assert [True, False] == [found[7][0].is_newest, found[5][0].is_newest]
    assert (Role.CURSOR, "s", Position(5, 2)) == (*found[8][0][1:3], found[8][0].position)
    assert (Role.COMPACTED, True) == (found[9][0].role, found[9][0].is_unsure)


@pytest.mark.parametrize(
    ("again", "may_miss"),
    [
        (None, True),
        (TOPIC, False),
        (replace(TOPIC, problems=("shut",)), True),
        (TopicRecord(NAME, 5, TopicStatus.MISSING), False),
        (TopicRecord(NAME, 5, TopicStatus.MISSING, problems=("shut",)), True),
    ],
)
def test_a_second_look_that_read_all_misses_nothing(
    again: TopicRecord | None, may_miss: bool
) -> None:
    """A deleted topic references nothing, unless its schema could not be read again."""
    pairs = pair_uses(TOPIC, again).values()
    assert {(NAME, may_miss)} == {(one.topic, one.may_miss) for one in pairs}

"""The second checker on orphans, from rows as they were written."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.model.reference_facts import OrphanedFacts
from auditor.second_checker.orphans import Topics, UnreferencedLedger, orphaned_facts
from auditor.second_checker.references import AGAIN, FIRST, LedgerLook, TopicRow

NOW_MS, AGE_MS = 1_000, 100
KNOWN = Topics(frozenset({"t/n"}), frozenset(), all_listed=True)
ROWS = {"persistent://t/n/a b": [TopicRow("persistent://t/n/a b", AGAIN, "topic", "found")]}
CUSTOM = {"application": b"pulsar", "component": b"managed-ledger", "pulsar/managed-ledger": b"t/n/persistent/a+b"}


def look(at_ms: int, **changes: Any) -> LedgerLook:
    return LedgerLook(at_ms, "found", "CLOSED", 9, 70, 1, 0, CUSTOM)._replace(**changes)


def facts(topics: Topics = KNOWN, rows: Any = ROWS, **again: Any) -> OrphanedFacts | None:
    """One sure orphan, 4, and ledger 3 as the second look saw it."""
    sure = UnreferencedLedger(4, {FIRST: look(10), AGAIN: look(60)})
    other = UnreferencedLedger(3, {FIRST: look(10), AGAIN: look(70, **again)})
    return orphaned_facts([sure, other], topics, rows, NOW_MS, AGE_MS)


def test_all_orphans_are_one_finding() -> None:
    """Ascending, with their bytes, and the shortest time between looks."""
    assert OrphanedFacts(2, (3, 4), 140, 0, NOW_MS, AGE_MS, 0, 50) == facts()


@pytest.mark.parametrize(("again", "undecided"), [({"status": "gone"}, 0), ({"czxid": 2}, 0), ({"czxid": None}, 1)])
def test_what_the_second_look_saw_counts(again: dict[str, Any], undecided: int) -> None:
    """Gone: it was on its way out. Another ledger by now. Not read: unknown."""
    assert OrphanedFacts(1, (4,), 70, 0, NOW_MS, AGE_MS, undecided, 50) == facts(**again)


@pytest.mark.parametrize(
    ("topics", "rows"),
    [
        (KNOWN._replace(all_listed=False), ROWS),
        (KNOWN._replace(read=frozenset({"t/m"})), ROWS),
        (KNOWN._replace(unread=frozenset({"t/n"})), ROWS),
        (KNOWN, {}),
        (KNOWN, {name: [*rows, TopicRow(name, AGAIN, "problem")] for name, rows in ROWS.items()}),
        (KNOWN, {name: [*rows, *(TopicRow(name, AGAIN, "data", ledger_id=n) for n in (3, 4))] for name, rows in ROWS.items()}),
    ],
)
def test_a_doubt_or_a_reference_leaves_no_orphan(topics: Topics, rows: Any) -> None:
    """Then nothing is found at all."""
    assert facts(topics, rows) is None

"""The second checker on orphans, with rows as a run writes them."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.model.reference_facts import OrphanedFacts
from auditor.second_checker.orphans import Topics, UnreferencedLedger, orphaned_facts
from auditor.second_checker.references import AGAIN, FIRST, LedgerLook, TopicRow

NOW_MS, AGE_MS = 1_000, 100
KNOWN = Topics(frozenset({"t/n"}), frozenset(), all_listed=True)
ROWS = {"persistent://t/n/a b": [TopicRow("persistent://t/n/a b", AGAIN, "topic", "found")]}
CUSTOM = {
    "application": b"pulsar",
    "component": b"managed-ledger",
    "pulsar/managed-ledger": b"t/n/persistent/a+b",
}


def look(at_ms: int, **changes: Any) -> LedgerLook:
    return LedgerLook(at_ms, "found", "CLOSED", 9, 70, 1, 0, CUSTOM)._replace(**changes)


def facts(topics: Topics = KNOWN, rows: Any = ROWS, **again: Any) -> OrphanedFacts | None:
    """Return the facts with one certain orphan, 4, and ledger 3 as the second look saw it."""
    sure = UnreferencedLedger(4, {FIRST: look(10), AGAIN: look(60)})
    other = UnreferencedLedger(3, {FIRST: look(10), AGAIN: look(70, **again)})
    return orphaned_facts([sure, other], topics, rows, NOW_MS, AGE_MS)


def test_all_orphans_are_one_finding() -> None:
    """Ids ascend, with their bytes, and the shortest time between looks."""
    assert OrphanedFacts(2, (3, 4), 140, 0, NOW_MS, AGE_MS, 0, 50) == facts()


@pytest.mark.parametrize(
    ("again", "undecided"), [({"status": "gone"}, 0), ({"czxid": 2}, 0), ({"czxid": None}, 1)]
)
def test_what_the_second_look_saw_counts(again: dict[str, Any], undecided: int) -> None:
    """A deleted ledger was being deleted. A recreated one is not an orphan. One that was not read
    is unknown.
    """
    assert OrphanedFacts(1, (4,), 70, 0, NOW_MS, AGE_MS, undecided, 50) == facts(**again)


@pytest.mark.parametrize(
    ("topics", "rows"),
    [
        (KNOWN._replace(all_listed=False), ROWS),
        (KNOWN._replace(read=frozenset({"t/m"})), ROWS),
        (KNOWN._replace(unread=frozenset({"t/n"})), ROWS),
        (KNOWN, {}),
        (KNOWN, {name: [*rows, TopicRow(name, AGAIN, "problem")] for name, rows in ROWS.items()}),
        (
            KNOWN,
            {
                name: [*rows, *(TopicRow(name, AGAIN, "data", ledger_id=n) for n in (3, 4))]
                for name, rows in ROWS.items()
            },
        ),
    ],
)
def test_a_doubt_or_a_reference_leaves_no_orphan(topics: Topics, rows: Any) -> None:
    """Without any orphan there is no finding."""
    assert facts(topics, rows) is None


def alone(
    orphan_age_ms: int = AGE_MS, rows: Any = ROWS, topics: Topics = KNOWN, **both: Any
) -> OrphanedFacts | None:
    """Return the result for ledger 3, changed at both looks, beside the certain orphan 4; 3 comes
    first.
    """
    other = UnreferencedLedger(3, {FIRST: look(10, **both), AGAIN: look(70, **both)})
    sure = UnreferencedLedger(4, {FIRST: look(10), AGAIN: look(60)})
    return orphaned_facts([other, sure], topics, rows, NOW_MS, orphan_age_ms)


NAME = "pulsar/managed-ledger"
UNDECIDED = {
    "no component": {key: CUSTOM[key] for key in ("application", NAME)},
    "of a schema": CUSTOM | {"component": b"schema"},
    "no name": {key: CUSTOM[key] for key in ("application", "component")},
    "a name that is not UTF-8": CUSTOM | {NAME: b"t/n/persistent/a\xff"},
    "a slash in the topic's part": CUSTOM | {NAME: b"t/n/persistent/a/b"},
    "no tenant": CUSTOM | {NAME: b"n/persistent/a"},
    "another domain": CUSTOM | {NAME: b"t/n/non-persistent/a+b"},
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_a_name_that_is_not_understood_is_undecided(name: str) -> None:
    """A topic with a similar name does not matter."""
    rows = ROWS | {
        f"persistent://t/n/{one}": [TopicRow("x", AGAIN, "topic", "found")]
        for one in ("a/b", "a", "")
    }
    assert OrphanedFacts(1, (4,), 70, 0, NOW_MS, AGE_MS, 1, 50) == alone(
        rows=rows, custom=UNDECIDED[name]
    )


@pytest.mark.parametrize(
    ("changes", "age_ms"),
    [
        ({"custom": {"application": b"mine"}}, AGE_MS),
        ({"custom": {}}, AGE_MS),
        ({"created_ms": NOW_MS - AGE_MS}, AGE_MS),
        ({"created_ms": 1}, NOW_MS - 1),
    ],
)
def test_young_ledgers_and_those_of_others_are_passed_over(
    changes: dict[str, Any], age_ms: int
) -> None:
    """They are not even undecided, and the next ledger is judged."""
    assert OrphanedFacts(1, (4,), 70, 0, NOW_MS, age_ms, 0, 50) == alone(age_ms, **changes)


def test_a_ledger_just_older_than_the_age_is_an_orphan() -> None:
    """It is older by a millisecond. A ledger without a creation time counts as old."""
    assert OrphanedFacts(2, (3, 4), 140, 0, NOW_MS, AGE_MS, 0, 50) == alone(
        created_ms=NOW_MS - AGE_MS - 1
    )
    assert OrphanedFacts(2, (3, 4), 140, 0, NOW_MS, NOW_MS - 1, 0, 50) == alone(
        NOW_MS - 1, created_ms=None
    )
    dated = [
        UnreferencedLedger(n, {FIRST: look(10, created_ms=n), AGAIN: look(60)}) for n in (30, 20)
    ]
    assert OrphanedFacts(2, (20, 30), 140, 0, NOW_MS - 20, AGE_MS, 0, 50) == orphaned_facts(
        dated, KNOWN, ROWS, NOW_MS, AGE_MS
    )
    sure = UnreferencedLedger(4, {FIRST: look(10, created_ms=None), AGAIN: look(60)})
    assert OrphanedFacts(1, (4,), 70, 0, NOW_MS, NOW_MS - 1, 0, 50) == orphaned_facts(
        [sure], KNOWN, ROWS, NOW_MS, NOW_MS - 1
    )


def test_only_closed_ledgers_have_a_length() -> None:
    """The bytes of an open ledger are not counted; an empty one has none."""
    assert OrphanedFacts(2, (3, 4), 70, 1, NOW_MS, AGE_MS, 0, 50) == alone(
        state="OPEN", length_bytes=0
    )
    assert OrphanedFacts(2, (3, 4), 70, 0, NOW_MS, AGE_MS, 0, 50) == alone(length_bytes=0)


def test_namespaces_of_each_form_are_decided_but_that_of_transactions() -> None:
    """Topics named as before Pulsar 2.0 have a cluster in their names."""
    names = ("t/eu/n", "t/eu/persistent", "pulsar/system")
    rows = ROWS | {
        f"persistent://{one}/x": [TopicRow("x", AGAIN, "topic", "found")] for one in names
    }
    known = KNOWN._replace(read=frozenset({"t/n", *names}))
    *both, one = (
        alone(rows=rows, topics=known,
        custom=CUSTOM | {NAME: f"{name}/persistent/x".encode()}) for name in names
    )  # fmt: skip
    assert [OrphanedFacts(2, (3, 4), 140, 0, NOW_MS, AGE_MS, 0, 50)] * 2 == both
    assert OrphanedFacts(1, (4,), 70, 0, NOW_MS, AGE_MS, 1, 50) == one


def test_ledgers_and_topics_that_were_not_read_again_are_counted() -> None:
    """Each of them is counted. A deleted topic was read, and names nothing."""
    once = [UnreferencedLedger(n, {FIRST: look(10)}) for n in (1, 2)]
    sure = UnreferencedLedger(4, {FIRST: look(10), AGAIN: look(60)})
    topic = "persistent://t/n/a b"
    beside = {
        topic: [
            TopicRow(topic, AGAIN, "topic", "missing"),
            TopicRow(topic, AGAIN, "data", ledger_id=8),
        ]
    }
    assert OrphanedFacts(1, (4,), 70, 0, NOW_MS, AGE_MS, 2, 50) == orphaned_facts(
        [*once, sure], KNOWN, beside, NOW_MS, AGE_MS
    )
    unreadable = {topic: [TopicRow(topic, AGAIN, "topic", "unreadable")]}
    assert orphaned_facts([sure], KNOWN, unreadable, NOW_MS, AGE_MS) is None


@pytest.mark.parametrize("row", ["data", "cursor", "compacted", "schema"])
def test_a_reference_of_any_role_saves_a_ledger(row: str) -> None:
    """The ledger is needed, not undecided."""
    topic = "persistent://t/n/a b"
    rows = {topic: [*ROWS[topic], TopicRow(topic, AGAIN, row, ledger_id=3)]}
    assert OrphanedFacts(1, (4,), 70, 0, NOW_MS, AGE_MS, 0, 50) == alone(rows=rows)

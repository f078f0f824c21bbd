"""The second checker on references, with rows as a run writes them."""

from __future__ import annotations

import pytest

from auditor.model.reference_facts import MissingLedgerFacts, TruncatedLedgerFacts, UseFacts
from auditor.model.topic import Position, Role
from auditor.second_checker.references import AGAIN, FIRST, LedgerLook, TopicRow, reference_facts

TOPIC = "persistent://t/n/x"
USE = UseFacts(TOPIC, Role.DATA, "", Position(7, 0))
GONE = {FIRST: LedgerLook(100, "gone"), AGAIN: LedgerLook(1_350, "gone")}


def rows(*looks: int, **changes: object) -> list[TopicRow]:
    """Return the rows of a topic that references ledger 7 with ten entries."""
    topic_rows = [
        row
        for look in looks
        for row in (
            TopicRow(TOPIC, look, "topic", "found"),
            TopicRow(TOPIC, look, "data", ledger_id=7, entries=10),
        )
    ]
    return [row._replace(**changes) if row.row == "data" else row for row in topic_rows]


def closed(last: int, at_ms: int) -> LedgerLook:
    return LedgerLook(at_ms, "found", "CLOSED", last, 90)


def test_a_ledger_that_is_gone_and_needed_at_both_looks_is_missing() -> None:
    """The finding has the time between the looks at it."""
    assert MissingLedgerFacts(1, 1, (USE,), 10, None, 1_250) == reference_facts(
        7, rows(FIRST, AGAIN), GONE
    )


def test_looks_that_are_too_close_prove_nothing() -> None:
    """They must be at least a second apart."""
    close = {FIRST: GONE[FIRST], AGAIN: GONE[AGAIN]._replace(read_at_ms=1_099)}
    assert reference_facts(7, rows(FIRST, AGAIN), close) is None
    assert (
        reference_facts(
            7, rows(FIRST, AGAIN), close | {AGAIN: GONE[AGAIN]._replace(read_at_ms=1_100)}
        )
        is not None
    )


@pytest.mark.parametrize("looks", [(FIRST,), (AGAIN,)])
def test_a_reference_at_one_look_proves_nothing(looks: tuple[int, ...]) -> None:
    """The ledger was trimmed meanwhile, or is new."""
    assert reference_facts(7, rows(*looks), GONE) is None


def test_one_look_at_the_ledger_proves_nothing() -> None:
    """The second look is required."""
    assert reference_facts(7, rows(FIRST, AGAIN), {FIRST: GONE[FIRST]}) is None


@pytest.mark.parametrize(
    "changes",
    [{"offloaded": True}, {"bookkeeper_deleted": True}, {"entries": 0}, {"entries": None}],
)
def test_what_is_elsewhere_empty_or_not_recorded_is_not_missing(changes: dict[str, object]) -> None:
    """Not recorded: the newest ledger of the topic, which is ledger 7 here."""
    assert reference_facts(7, rows(FIRST, AGAIN, **changes), GONE) is None


def test_a_newer_ledger_of_a_cursor_does_not_follow_a_ledger_of_messages() -> None:
    """The broker made it for a subscription, and may not have rolled over."""
    newer = [TopicRow(TOPIC, look, "cursor", name="s", ledger_id=12) for look in (FIRST, AGAIN)]
    assert reference_facts(7, [*rows(FIRST, AGAIN, entries=None), *newer], GONE) is None


def test_a_ledger_without_a_record_is_missing_if_a_newer_one_follows() -> None:
    """The broker has rolled over, so the ledger was in use. The same holds if the topic is known to
    end in the newer one.
    """
    newer = [TopicRow(TOPIC, look, "data", ledger_id=8) for look in (FIRST, AGAIN)]
    topic_rows = [*rows(FIRST, AGAIN, entries=None), *newer]
    ended = [row._replace(position=(8, 4)) if row.row == "topic" else row for row in topic_rows]
    missing = MissingLedgerFacts(1, 1, (USE,), None, None, 1_250)
    assert [missing, missing] == [reference_facts(7, one, GONE) for one in (topic_rows, ended)]


def test_a_closed_ledger_that_ends_too_early_at_both_looks_is_truncated() -> None:
    """Both looks must see the same end. Another end at the second look proves nothing."""
    facts = TruncatedLedgerFacts(
        8, 10, 1, 1, (USE.__class__(TOPIC, Role.DATA, "", Position(7, 9)),), 90, None, 1_250
    )
    assert facts == reference_facts(
        7, rows(FIRST, AGAIN), {FIRST: closed(8, 100), AGAIN: closed(8, 1_350)}
    )
    assert (
        reference_facts(7, rows(FIRST, AGAIN), {FIRST: closed(8, 100), AGAIN: closed(7, 1_350)})
        is None
    )
    assert (
        reference_facts(7, rows(FIRST, AGAIN), {FIRST: closed(9, 100), AGAIN: closed(9, 1_350)})
        is None
    )
    assert (
        reference_facts(7, rows(FIRST, AGAIN), {FIRST: closed(-2, 100), AGAIN: closed(-2, 1_350)})
        is None
    ), "malformed"

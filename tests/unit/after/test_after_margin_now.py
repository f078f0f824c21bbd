"""What a gate counts: lost bookies, and what blocks the repair of marked ledgers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.closed_ledgers import closed_copies

from auditor.after.copies_now import CopiesNow
from auditor.after.margin_now import (
    Purpose,
    Repair,
    StateNow,
    count_unlocated,
    loss_of,
    repair_now,
)
from auditor.after.repairing import MarksSince
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.ledger import Mark, ReplicationLock
from auditor.sandbox.cluster import ledger

NOW = CopiesNow(
    closed_copies(dict.fromkeys((1, 2, 3), "e2 w2 a2 0:[b1 b2] closed 9")),
    {7: ledger("e2 w2 a2 0:[b1 b2] open")},
    changed=0,
    unseen=0,
)


def state(marks: dict[int, Mark], down: str = "", readonly: str = "") -> StateNow:
    """Return the state of three bookies."""
    at = dict.fromkeys(("b1", "b2", "b3"), Registration.WRITABLE)
    at |= dict.fromkeys(down.split(), Registration.NONE)
    at |= dict.fromkeys(readonly.split(), Registration.READONLY)
    records = {bookie: BookieRecord(bookie, 1, 0, found) for bookie, found in at.items()}
    return StateNow("2026-11-22T10:00:00Z", records, marks, False)


def repair(now: StateNow) -> Repair:
    return repair_now(MarksSince("the-run", 7200.0, 0, len(now.marks), 0, len(now.marks)), NOW, now)


def test_marks_say_who_works_and_what_cannot_be_repaired_yet():
    """Ledger 7 is not closed. The older mark is that of ledger 1, where a worker is."""
    marks = {1: Mark(900, lock=ReplicationLock("b3", 0)), 7: Mark(1_000)}
    found = repair(state(marks))
    assert (1, 1, 900, 0) == (found.locked, found.in_use, found.oldest_ms, found.blocked.ledgers)
    assert repair(state({})).oldest_ms is None


@pytest.mark.parametrize(
    ("down", "readonly", "blocked"), [("b2", "", ()), ("b2", "b3", (1,)), ("", "b3", ())]
)
def test_a_marked_ledger_needs_a_writable_bookie_outside(
    down: str, readonly: str, blocked: tuple[int, ...]
):
    """b2 is missing, and b3 alone could replace it. Ledger 2 is not marked."""
    assert blocked == repair(state({1: Mark(0)}, down, readonly)).blocked.ids


def test_a_restart_cannot_harm_through_a_bookie_that_is_down():
    """A decommission loses its copies for good."""
    asked, missing, writable = frozenset({"b1", "b2"}), frozenset({"b2", "b3"}), frozenset({"b1"})
    restart = loss_of(asked, Purpose.RESTART, missing, writable)
    final = loss_of(asked, Purpose.DECOMMISSION, missing, writable)
    assert ({"b1"}, {"b2", "b3"}) == (restart.asked, restart.missing)
    assert ({"b1", "b2"}, {"b3"}) == (final.asked, final.missing)
    assert restart.down == final.down and set() == restart.left


def test_a_bookie_that_is_newer_than_the_run_may_be_at_the_location():
    """b3 is registered, and no closed ledger names it. It may be at the location asked about."""
    known = {"b1": "/r1", "b2": "/r2"}
    assert 1 == count_unlocated(state({}), NOW, known.get)
    assert 0 == count_unlocated(state({}), NOW, (known | {"b3": "/r1"}).get)
    opened = replace(NOW, in_use={7: ledger("e2 w2 a2 0:[b1 b9] open")})
    assert 2 == count_unlocated(state({}), opened, known.get)

"""What a gate counts: lost bookies, and how far the repair of marked ledgers went since a run."""

from __future__ import annotations

import numpy as np
import pytest
from support.closed_ledgers import closed_copies

from auditor.after.copies_now import CopiesNow
from auditor.after.margin_now import Purpose, Repair, StateNow, loss_of, repair_since
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.ledger import Mark, ReplicationLock
from auditor.sandbox.cluster import ledger

HOURS_2 = 7200.0
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


def repair(then: list[int], deleted: list[int], now: StateNow, since_s: float = HOURS_2) -> Repair:
    as_ids = (np.array(ids, np.int64) for ids in (then, deleted))
    marked, gone = as_ids
    return repair_since(marked, since_s, NOW, gone, now)


def test_a_mark_that_went_is_a_repair_unless_its_ledger_was_deleted():
    """Of four ledgers one is still marked, one was deleted and two were repaired in two hours."""
    marks = {1: Mark(900, lock=ReplicationLock("b3", 0)), 7: Mark(1_000)}
    found = repair([1, 2, 3, 8], [8], state(marks))
    assert (4, 2, 1, 1, 1) == (
        found.marked_then,
        found.repaired,
        found.new,
        found.locked,
        found.in_use,
    )
    assert (1.0, 900, 0) == (found.per_hour, found.oldest_ms, found.blocked.ledgers)


@pytest.mark.parametrize(("then", "since_s"), [([1], HOURS_2), ([], HOURS_2), ([1, 2], -5.0)])
def test_without_a_repair_or_a_time_there_is_no_rate(then: list[int], since_s: float):
    """A clock that is wrong must not become a rate."""
    assert repair(then, [], state({1: Mark(0)}), since_s).per_hour is None


@pytest.mark.parametrize(
    ("down", "readonly", "blocked"), [("b2", "", ()), ("b2", "b3", (1,)), ("", "b3", ())]
)
def test_a_marked_ledger_needs_a_writable_bookie_outside(
    down: str, readonly: str, blocked: tuple[int, ...]
):
    """b2 is missing, and b3 alone could replace it. Ledger 2 is not marked."""
    assert blocked == repair([], [], state({1: Mark(0)}, down, readonly)).blocked.ids


def test_a_restart_cannot_harm_through_a_bookie_that_is_down():
    """A decommission loses its copies for good."""
    asked, missing, writable = frozenset({"b1", "b2"}), frozenset({"b2", "b3"}), frozenset({"b1"})
    restart = loss_of(asked, Purpose.RESTART, missing, writable)
    final = loss_of(asked, Purpose.DECOMMISSION, missing, writable)
    assert ({"b1"}, {"b2", "b3"}) == (restart.asked, restart.missing)
    assert ({"b1", "b2"}, {"b3"}) == (final.asked, final.missing)
    assert restart.down == final.down and set() == restart.left

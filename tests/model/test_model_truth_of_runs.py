"""What whole runs say beside the verdicts on ledgers, compared with the model by examples derived
by hand.
"""

from __future__ import annotations

from support.model import actions
from support.model.properties import differing, wrong_bookies
from support.model.rows import FindingRow, Row
from support.model.truth import Truth
from support.model.truth_of_runs import wrong_facts_of_run, wrong_marks, wrong_summary

WRITTEN = "create 1 e3 w2 a2 b1 b2 b3; append 1 5; close 1"
"""Entry e is on positions e and e + 1: b1 has 0 2 3, b2 has 0 1 3 4, b3 has 1 2 4."""


def after(history: str) -> Truth:
    truth = Truth.of()
    for line in actions.lines_of(history):
        assert actions.happen(truth, line), f"{line} could not happen"
    return truth


def test_what_a_run_says_of_a_renamed_bookie_is_held_against_the_truth():
    """A bookie holds what the other should, and no ledger names it; its ledgers are counted by
    their marks.
    """
    history = (
        f"{WRITTEN}; create 2 e2 w2 a2 b1 b2; append 2 3; close 2; rename b1 b6; mark 2;"
        " replication off"
    )
    truth = after(history)
    says = {
        "unmarked_ledgers": 1,
        "marked_ledgers_first": 1,
        "renamed_to": "b6",
        "has_cookie": False,
        "apart_ms": 3,
    }
    found = {"kind": "BOOKIE_LOST_UNNOTICED", "bookie_id": "b1", "facts": says}
    assert [] == list(wrong_facts_of_run(truth, [found]))
    truth.bookies["b6"].drop(1, 0)
    assert ["a false fact on b1: renamed_to is b6, and in truth None"] == list(
        wrong_facts_of_run(truth, [found])
    )


def test_what_a_run_says_of_a_failing_bookie_is_held_against_the_truth():
    """It is owed from three ledgers on, and its facts are those of the refused requests."""
    ledgers = (f"create {n} e3 w2 a2 b1 b2 b3; append {n} 5; close {n}" for n in (1, 2, 3))
    truth = after("; ".join([*ledgers, "refuse b3"]))
    assert [] == list(wrong_bookies(truth, [("BOOKIE_FAILING_REQUESTS", "b3")]))
    assert ["a miss: BOOKIE_FAILING_REQUESTS on b3"] == list(wrong_bookies(truth, []))
    says = {"registration": "writable", "looks": 2, "ledgers": 3, "some_ledgers": [1, 2, 3]}
    counts = {"lists_refused": 6, "reads_refused": 2, "statuses": [["EUA", 8]]}
    found = {"kind": "BOOKIE_FAILING_REQUESTS", "bookie_id": "b3", "facts": {**says, **counts}}
    assert [] == list(wrong_facts_of_run(truth, [found]))
    false = {**found, "facts": {**says, **counts, "lists_refused": 3}}
    assert 2 == len(list(wrong_facts_of_run(truth, [false]))), "of the lists, and of the statuses"
    truth.ledgers[3].deleted = True
    alarm = ["a false alarm: BOOKIE_FAILING_REQUESTS on b3"]
    assert alarm == list(wrong_bookies(truth, [("BOOKIE_FAILING_REQUESTS", "b3")]))


def test_what_a_summary_says_of_renames_and_copies_is_held_against_the_truth():
    """An indeterminate ledger adds no copies to the sum."""
    history = f"{WRITTEN}; create 2 e1 w1 a1 b4; append 2 3; close 2; rename b4 b6"
    truth = after(f"{history}; create 3 e1 w1 a1 b5; append 3 1; close 3; crash b5 silent")
    summary = {
        "bookies_renamed": [{"bookie_id": "b4", "renamed_to": "b6", "ledgers": [2]}],
        "copies": {"expected": 13, "listed": 10, "read": 0, "assumed": 0},
        "verified_ratio": 0.76923,
    }
    assert [] == list(wrong_summary(truth, summary))
    (ratio,) = wrong_summary(truth, {**summary, "verified_ratio": 0.769231})
    assert "verified_ratio is 0.769231, and in truth 0.76923" in ratio
    assert 1 == len(list(wrong_summary(truth, {**summary, "bookies_renamed": []})))


def test_what_a_run_says_of_marks_is_held_against_the_truth():
    """Marks are young, old, stale, or without a ledger."""
    truth = after(f"{WRITTEN}; create 2 e1 w1 a1 b1; mark 2; delete 2; time 150; mark 1")
    counts = {"total": 2, "within_grace": 1, "beyond_grace": 1, "stale": 1, "without_ledger": 1}
    facts = {"marks": 1, "some_ledgers": [2], "oldest_age_ms": 9_000_400, "grace_ms": 3_600_000}
    found = {"kind": "MARK_WITHOUT_LEDGER", "bookie_id": None, "facts": facts}
    assert [] == [*wrong_marks(truth, [found], counts), *wrong_facts_of_run(truth, [found])]
    (miss,) = wrong_marks(truth, [], counts)
    assert "a miss: MARK_WITHOUT_LEDGER" in miss
    (wrong,) = wrong_marks(truth, [found], {**counts, "stale": 0})
    assert "stale is 0, and in truth 1" in wrong
    (false,) = wrong_facts_of_run(truth, [{**found, "facts": {**facts, "some_ledgers": [1]}}])
    assert "some_ledgers is [1], and in truth [2]" in false


def test_a_run_that_differs_in_one_row_is_reported():
    """Rows are compared one by one; a run does not list a deleted ledger."""
    single = {
        1: Row("sound"),
        2: Row("violated", None, (), (FindingRow("METADATA_MALFORMED"),)),
        3: Row("exempt", "deleted"),
    }
    assert [] == list(differing(single, {1: Row("sound"), 2: single[2]}))
    assert 1 == len([*differing(single, {1: Row("sound"), 2: Row("sound")})])
    assert 1 == len([*differing(single, {1: Row("sound")})])
    assert 1 == len([*differing(single, {1: Row("sound"), 2: single[2], 3: single[3]})])


def test_what_a_run_says_of_bookies_is_held_against_the_truth():
    """A bookie that is silent or gone is reported, and no other; lost content needs three ledgers
    that lost most.
    """
    truth = after(f"{WRITTEN}; crash b1 silent; crash b2 gone; wipe b3")
    owed = [("BOOKIE_SILENT_YET_REGISTERED", "b1"), ("BOOKIE_LOST_UNNOTICED", "b2")]
    assert [] == list(wrong_bookies(truth, owed))
    assert ["a miss: BOOKIE_LOST_UNNOTICED on b2"] == list(wrong_bookies(truth, owed[:1]))
    assert ["a false alarm: BOOKIE_LOST_CONTENT on b3"] == list(
        wrong_bookies(truth, [*owed, ("BOOKIE_LOST_CONTENT", "b3")])
    )


def test_what_may_be_said_of_a_bookie_and_need_not():
    """It may be called silent if it was asked only for a lost entry; and gone if it left a cookie
    and may come back.
    """
    truth = after(f"{WRITTEN}; crash b1 lost; crash b4 silent")
    reported = [("BOOKIE_LOST_UNNOTICED", "b1"), ("BOOKIE_SILENT_YET_REGISTERED", "b4")]
    assert [] == list(wrong_bookies(truth, []))
    assert [] == list(wrong_bookies(truth, reported))
    up = after(WRITTEN)
    assert [f"a false alarm: {kind} on {bookie}" for kind, bookie in reported] == list(
        wrong_bookies(up, reported)
    )

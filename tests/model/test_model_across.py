"""What an audit owes that was resumed after the cluster changed, by examples derived by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.model import actions
from support.model.across import (
    Heard,
    facts_across,
    owed_across,
    wrong_across,
    wrong_bookies_across,
)
from support.model.rows import CopyFacts, FindingRow, Row
from support.model.truth import Truth

WRITTEN = "create 1 e3 w2 a2 b1 b2 b3; append 1 5; close 1"
"""Entry e is on positions e and e + 1: b1 has 0 2 3, b2 has 0 1 3 4, b3 has 1 2 4."""
NAMED = ("b1", "b2", "b3")
LOST_4_ON_B3 = FindingRow("ENTRY_BELOW_ACK_QUORUM", 0, (4,), (("b3", (4,)),), 1, 0)
OF_B3_UNKNOWN = Row("indeterminate", None, ("bookie_silent",))


def parts(before: str, between: str) -> tuple[Truth, Truth]:
    """Return the cluster at the cut, and when the audit is resumed."""
    truths = Truth.of(), Truth.of()
    for truth, history in zip(truths, (before, f"{before}; {between}"), strict=True):
        for line in actions.lines_of(history):
            assert actions.happen(truth, line), f"{line} could not happen"
    return truths


def heard(read: int, *asked: int, bookies: tuple[str, ...] = NAMED) -> Heard:
    return Heard(read, {bookie: set(asked) for bookie in bookies}, max(asked))


@pytest.mark.parametrize(
    "looked", [heard(0, 0), heard(0, 1), heard(1, 0), heard(1, 1), heard(1, 0, 1)]
)
def test_what_nothing_happened_to_is_owed_its_own_verdict(looked: Heard):
    """It does not matter when it was looked at: other ledgers and other bookies do not change
    it.
    """
    assert [Row("violated", None, (), (LOST_4_ON_B3,))] == owed_across(
        parts(
            f"{WRITTEN}; lose 1 4 b3",
            "create 2 e1 w1 a1 b5; append 2 3; crash b4 gone; wipe b5; time 150",
        ),
        1,
        looked,
    )


def test_a_copy_that_was_spoilt_between_two_looks_is_no_finding_yet():
    """It may be a finding: whether the first look read the copy before is unknown. The copy is
    unknown in any case.
    """
    truths = parts(
        "create 1 e2 w2 a2 b1 b2; append 1 9; close 1; unlist b1; spoil 1 b1 digest 1",
        "spoil 1 b1 digest 0",
    )
    owed = owed_across(truths, 1, Heard(1, {"b1": {0, 1}, "b2": {0, 1}}, 1, 1))
    assert [(0, 1), (1,)] == [row.findings[0].entries for row in owed]
    assert [("violated", ("answer_invalid",))] * 2 == [(row.standing, row.unknowns) for row in owed]
    (once,) = owed_across(truths, 1, heard(1, 1))
    assert owed[0] == once


@pytest.mark.parametrize(
    ("row", "looked"),
    [
        (Row("sound"), heard(0, 0)),
        (Row("sound"), heard(1, 0)),
        (Row("violated", None, (), (LOST_4_ON_B3,)), heard(0, 1)),
        (Row("violated", None, (), (LOST_4_ON_B3,)), heard(1, 0, 1)),
    ],
)
def test_a_loss_is_owed_where_bookies_were_asked_since(row: Row, looked: Heard):
    """The newest word of a bookie counts."""
    assert [row] == owed_across(parts(WRITTEN, "lose 1 4 b3"), 1, looked)


def test_a_bookie_that_came_back_is_heard():
    """It was silent at first, and is not at the last look."""
    assert [Row("sound")] == owed_across(
        parts(f"{WRITTEN}; crash b3 silent", "restart b3"), 1, heard(1, 0, 1)
    )


def test_no_word_is_undone_by_silence():
    """What a bookie said before it fell silent may count; or it was not read in time, and is
    unknown. The ledger is never sound.
    """
    owed = owed_across(parts(f"{WRITTEN}; lose 1 4 b3", "crash b3 silent"), 1, heard(1, 0, 1))
    assert [Row("violated", None, (), (LOST_4_ON_B3,)), OF_B3_UNKNOWN] == owed


def test_what_was_said_of_other_metadata_does_not_count():
    """The ledger was copied from the bookie that lacked an entry."""
    then, now = parts(f"{WRITTEN}; lose 1 4 b3", "rereplicate 1 b3 b4")
    assert [Row("sound")] == owed_across(
        (then, now), 1, Heard(1, {"b1": {0, 1}, "b2": {0, 1}, "b3": {0}, "b4": {1}}, 1)
    )
    assert [Row("violated", None, (), (LOST_4_ON_B3,))] == owed_across((then, now), 1, heard(0, 0))


@pytest.mark.parametrize(
    ("between", "looks_before", "expected"),
    [
        ("rereplicate 1 b1 b4", 1, Row("violated", None, (), (LOST_4_ON_B3,))),
        ("rereplicate 1 b1 b4", 2, Row("indeterminate", None, ("unsettled",))),
        ("mark 1", 2, Row("exempt", "marked_underreplicated")),
        ("time 25", 2, Row("violated", None, (), (LOST_4_ON_B3,))),
        ("rereplicate 1 b3 b4", 2, Row("sound")),
    ],
)
def test_a_ledger_that_changed_behind_its_second_look_is_given_up(
    between: str, looks_before: int, expected: Row
):
    """It is not given up if nothing is wrong with it then, if only time went by, or if a mark
    came.
    """
    truths = parts(f"{WRITTEN}; lose 1 4 b3", between)
    names = ("b1", "b2", "b3", "b4")
    looked = Heard(1, {name: {0, 1} for name in names}, 1, looks_before)
    assert [expected] == owed_across(truths, 1, looked)


@pytest.mark.parametrize("lost", ["", "; lose 1 4 b2 b3", "; crash b3 silent"])
def test_a_mark_that_stood_at_both_of_the_last_looks_is_owed(lost: str):
    """This includes a ledger that changed between them. If more is wrong with the ledger, only the
    mark is owed.
    """
    truths = parts(f"{WRITTEN}; mark 1; time 150{lost}", "rereplicate 1 b1 b4")
    looked = Heard(1, {name: {0, 1} for name in ("b1", "b2", "b3", "b4")}, 1, 2)
    unknowns = ("unsettled",) if lost else ()
    marked = (FindingRow("UNDERREPLICATED_BEYOND_GRACE"),)
    assert [Row("violated", "marked_underreplicated", unknowns, marked)] == owed_across(
        truths, 1, looked
    )


def test_the_mark_is_that_of_the_last_reading():
    """If it was marked when it was last read, it is exempt, whatever bookies said before."""
    truths = parts(f"{WRITTEN}; lose 1 4 b3", "mark 1")
    assert [Row("exempt", "marked_underreplicated")] == owed_across(truths, 1, heard(1, 0))
    assert [Row("violated", None, (), (LOST_4_ON_B3,))] == owed_across(truths, 1, heard(0, 0))


def test_a_remark_needs_the_same_metadata_twice():
    """An open ledger that became too old between the reads may be remarked as stuck, or not."""
    truths = parts("create 1 e3 w2 a2 b1 b2 b3; time 150", "time 25")
    assert [
        Row("exempt", "open", (), (FindingRow("LEDGER_STUCK"),)),
        Row("exempt", "open"),
    ] == owed_across(truths, 1, Heard(1))
    assert [Row("exempt", "open", (), (FindingRow("LEDGER_STUCK"),))] == owed_across(
        truths[:1], 1, Heard(0)
    )


def test_a_verdict_that_was_never_true_is_reported():
    """A false alarm and a miss are both reported; a right verdict is not."""
    truths = parts(WRITTEN, "lose 1 4 b3")
    lost = truths[1].owed(1)
    assert Row("violated", None, (), (LOST_4_ON_B3,)) == lost.bare()
    assert [] == list(wrong_across(truths, {1: lost}, {1: heard(1, 1)}))
    (miss,) = wrong_across(truths, {1: truths[0].owed(1)}, {1: heard(1, 1)})
    (alarm,) = wrong_across(truths, {1: lost}, {1: heard(0, 0)})
    assert "says of ledger 1 sound" in miss and "b3 lacks 4" in alarm


def test_a_fact_that_was_never_true_is_reported():
    """A fact that was true in a state that the audit may have seen is accepted."""
    truths = parts(
        f"{WRITTEN}; lose 1 4 b2 b3; mark 1; lock 1 b5", "replication off; lock 1 nobody"
    )
    locked, free = truths[0].owed(1), truths[1].owed(1)
    assert [] == list(wrong_across(truths, {1: locked}, {1: heard(0, 0)}))
    assert [] == list(wrong_across(truths, {1: free}, {1: heard(1, 0)}))
    holder, why = wrong_across(truths, {1: locked}, {1: heard(1, 1)})
    assert "mark.lock_holder is b5, and in truth None" in holder
    assert "mark.why is ('no_copy', 'no_auditor', 'locked')" in why
    copies = free._replace(copies=CopyFacts(10, 10, 0), is_mark_stale=True)
    counts, stale = wrong_across(truths, {1: copies}, {1: heard(1, 1)})
    assert "copies: " in counts and "a stale mark: True" in stale


@pytest.mark.parametrize(
    ("copies", "is_right"),
    [(CopyFacts(10, 9, 1), True), (CopyFacts(10, 9, 0), False), (CopyFacts(10, 10, 1), False)],
)
@pytest.mark.parametrize("is_read_later", [True, False])
def test_a_copy_that_came_behind_the_list_was_read(
    copies: CopyFacts, is_right: bool, is_read_later: bool
):
    """It counts as listed in truth. No copy counts twice or not at all."""
    (said,) = parts(WRITTEN, "time 25")[1:]
    owed = said.owed(1)
    wrong = list(facts_across(owed._replace(copies=copies), [owed], is_read_later=is_read_later))
    assert (is_right and is_read_later) == (not wrong)


@pytest.mark.parametrize(("entries", "is_right"), [(1, True), (2, True), (3, True), (4, False)])
def test_entries_looked_for_in_an_earlier_part_count(entries: int, is_right: bool):
    """One entry was looked for since, and up to three before: a count of four is wrong."""
    (truth,) = parts(
        "create 1 e1 w1 a1 b1; append 1 5; close 1; wipe b1; crash b5 silent", "time 1"
    )[1:]
    rows = [replace(truth, read_before=frozenset(read)).owed(1) for read in ((), (0, 1, 2))]
    (found,) = rows[0].findings
    facts = {**dict(found.facts), "search.entries": entries, "search.entries_left": 5 - entries}
    said = rows[0]._replace(findings=(found._replace(facts=tuple(facts.items())),))
    assert is_right == (not list(facts_across(said, rows)))


def test_what_is_said_of_bookies_was_true_at_some_time():
    """A finding that was true throughout must be there."""
    truths = parts(f"{WRITTEN}; crash b1 silent; crash b2 gone", "restart b2; crash b3 silent")
    always, once, later = (
        ("BOOKIE_SILENT_YET_REGISTERED", "b1"),
        ("BOOKIE_LOST_UNNOTICED", "b2"),
        ("BOOKIE_SILENT_YET_REGISTERED", "b3"),
    )
    assert [] == list(wrong_bookies_across(truths, [always]))
    assert [] == list(wrong_bookies_across(truths, [always, once, later]))
    assert ["a miss: BOOKIE_SILENT_YET_REGISTERED on b1"] == list(
        wrong_bookies_across(truths, [once])
    )
    never = ("BOOKIE_SILENT_YET_REGISTERED", "b4")
    lost = ("BOOKIE_LOST_CONTENT", "b4")
    alarms = [
        "a false alarm: BOOKIE_SILENT_YET_REGISTERED on b4",
        "a false alarm: BOOKIE_LOST_CONTENT on b4",
    ]
    assert alarms == list(wrong_bookies_across(truths, [always, never, lost]))

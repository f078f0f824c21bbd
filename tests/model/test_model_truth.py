"""The model's own arithmetic, by examples derived by hand; and its notation."""

from __future__ import annotations

from collections import Counter

import pytest
from support.model import actions
from support.model.history import draw_history, shortest
from support.model.rows import CopyFacts, FindingRow, Row, wrong_facts
from support.model.truth import Truth
from support.model.worlds import notation, runs

WRITTEN = "create 1 e3 w2 a2 b1 b2 b3; append 1 5; close 1"
"""Entry e is on positions e and e + 1: b1 has 0 2 3, b2 has 0 1 3 4, b3 has 1 2 4."""
WRITTEN_BY_ONE = WRITTEN.replace("a2", "a1")
"""A ledger with an ack quorum of one."""


def after(history: str) -> Truth:
    truth = Truth.of()
    for line in actions.lines_of(history):
        assert actions.happen(truth, line), f"{line} could not happen"
    return truth


def owed(history: str, number: int = 1) -> Row:
    return after(history).owed(number)


def test_entries_are_written_round_robin():
    """Entry e goes to the positions e, e + 1, ... modulo the ensemble size."""
    held = {
        name: sorted(bookie.holds[1])
        for name, bookie in after(WRITTEN).bookies.items()
        if bookie.holds
    }
    assert {"b1": [0, 2, 3], "b2": [0, 1, 3, 4], "b3": [1, 2, 4]} == held


def test_a_new_segment_goes_on_with_the_same_entry_ids():
    """The write set follows from the entry's own id, not from its place in the segment."""
    truth = after("create 1 e3 w2 a2 b1 b2 b3; append 1 1; ensemble 1 2 b4; append 1 3; close 1")
    assert "e3 w2 a2 0:[b1 b2 b3] 1:[b1 b2 b4] closed 3" == notation(truth.ledgers[1])
    assert {1, 2} == truth.bookies["b4"].holds[1]


@pytest.mark.parametrize(
    ("row", "history"),
    [
        (Row("sound"), WRITTEN),
        (Row("exempt", "open"), "create 1 e3 w2 a2 b1 b2 b3; append 1 5; wipe b1"),
        (Row("exempt", "empty"), "create 1 e3 w2 a2 b1 b2 b3; close 1"),
        (Row("exempt", "in_recovery"), "create 1 e3 w2 a2 b1 b2 b3; fence 1; time 100; time 100"),
        (
            Row("exempt", "open", (), (FindingRow("LEDGER_STUCK"),)),
            "create 1 e3 w2 a2 b1 b2 b3; time 100; time 25",
        ),
        (Row("exempt", "deleted"), f"{WRITTEN}; wipe b1; wipe b2; delete 1"),
        (Row("indeterminate", None, ("bookie_silent",)), f"{WRITTEN}; crash b1 silent"),
        (Row("indeterminate", None, ("bookie_silent",)), f"{WRITTEN}; crash b1 lost"),
        (
            Row("indeterminate", "marked_underreplicated", ("bookie_silent",)),
            f"{WRITTEN}; crash b1 silent; mark 1",
        ),
        (Row("exempt", "marked_underreplicated"), f"{WRITTEN}; crash b1 lost; mark 1"),
        (Row("indeterminate", None, ("bookie_refused",)), f"{WRITTEN}; refuse b1"),
        (
            Row("indeterminate", "marked_underreplicated", ("bookie_silent", "bookie_refused")),
            f"{WRITTEN}; crash b1 silent; refuse b2; mark 1",
        ),
        (Row("sound"), f"{WRITTEN}; refuse b1; refuse b4; refuse b1"),
        (Row("exempt", "marked_underreplicated"), f"{WRITTEN}; wipe b1; mark 1; time 50"),
        (Row("sound"), f"{WRITTEN}; readonly b1; crash b2 silent; restart b2; crash b4 gone"),
    ],
)
def test_what_is_owed_without_a_word_on_entries(row: Row, history: str):
    """They are standing, exemption and reasons."""
    assert row == owed(history).bare()


SAID = {
    *("sound", "exempt", "indeterminate", "violated", "bookie_silent"),
    *(
        "ENTRY_WITHOUT_REPLICA",
        "ENTRY_ONLY_OUTSIDE_ENSEMBLE",
        "ENTRY_UNAVAILABLE",
        "ENTRY_BELOW_ACK_QUORUM",
        "ENTRY_BELOW_WRITE_QUORUM",
    ),
    *("ENSEMBLE_DUPLICATE_BOOKIE", "UNDERREPLICATED_UNRECOVERABLE", "UNDERREPLICATED_BEYOND_GRACE"),
    "bookie_refused",
    *(
        "METADATA_MALFORMED",
        "RECOVERY_BLOCKED",
        "LEDGER_STUCK",
        "ENTRIES_BEYOND_END",
        "LEDGER_CLOSED_SHORT",
        "ENTRY_CORRUPT",
        "PLACEMENT_FAILED",
        "answer_invalid",
    ),
}
"""All verdicts that the model can owe."""

LOST_4 = (("b2", (4,)), ("b3", (4,)))


@pytest.mark.parametrize(
    ("finding", "history"),
    [
        (
            FindingRow("ENTRY_BELOW_ACK_QUORUM", 0, (4,), (("b3", (4,)),), 1, 0),
            f"{WRITTEN}; lose 1 4 b3",
        ),
        (
            FindingRow("ENTRY_BELOW_WRITE_QUORUM", 0, (4,), (("b3", (4,)),), 1, 0),
            "create 1 e3 w2 a1 b1 b2 b3; append 1 5; close 1; lose 1 4 b3",
        ),
        (
            FindingRow("ENTRY_BELOW_ACK_QUORUM", 0, (4,), (("b3", (4,)),), 0, 1),
            f"{WRITTEN}; lose 1 4 b3; crash b2 silent",
        ),
        (
            FindingRow("ENTRY_BELOW_ACK_QUORUM", 0, (1, 2, 4), (("b3", (1, 2, 4)),), 1, 0),
            f"{WRITTEN}; crash b3 gone",
        ),
        (
            FindingRow("ENTRY_UNAVAILABLE", 0, (4,), (("b3", (4,)),), 0, 1),
            f"{WRITTEN}; lose 1 4 b3; crash b2 lost; mark 1",
        ),
        (FindingRow("ENTRY_WITHOUT_REPLICA", 0, (4,), LOST_4, 0, 0), f"{WRITTEN}; lose 1 4 b2 b3"),
        (
            FindingRow("ENTRY_ONLY_OUTSIDE_ENSEMBLE", 0, (4,), LOST_4, 0, 0),
            f"{WRITTEN}; stray 1 4 b5",
        ),
        (
            FindingRow("ENTRY_WITHOUT_REPLICA", 0, (4,), LOST_4, 0, 0),
            f"{WRITTEN}; stray 1 4 b5; crash b5 silent",
        ),
        (
            FindingRow("UNDERREPLICATED_UNRECOVERABLE", 0, (4,), LOST_4, 0, 0),
            f"{WRITTEN}; lose 1 4 b2 b3; mark 1; time 100",
        ),
        (
            FindingRow(
                "UNDERREPLICATED_UNRECOVERABLE", 0, (4,), (("b2", (0, 1, 3, 4)), ("b3", (4,))), 0, 0
            ),
            f"{WRITTEN}; lose 1 4 b3; crash b2 gone; mark 1",
        ),
    ],
)
def test_what_is_owed_on_entries(finding: FindingRow, history: str):
    """They are the strongest kind, its entries, what each bookie lacks, and the worst entry's
    copies.
    """
    assert (finding,) == owed(history).bare().findings


UNLIST = "unlist b2; spoil 1 b2"


@pytest.mark.parametrize(
    ("facts", "history"),
    [
        (
            {"worst_entry": 4, "write_set": ("b2", "b3"), "gone": (), "at_tail": False},
            f"{WRITTEN}; lose 1 4 b3",
        ),
        ({"worst_entry": 1, "at_tail": False, "listed_outside": ()}, f"{WRITTEN}; lose 1 1 b3"),
        (
            {"worst_entry": 0, "write_set": ("b1", "b2"), "gone": ("b3",)},
            f"{WRITTEN}; lose 1 0 b1 b2; crash b3 gone",
        ),
        ({"worst_entry": 4, "at_tail": True}, f"{WRITTEN_BY_ONE}; lose 1 4 b3"),
        ({"worst_entry": 4, "at_tail": False}, f"{WRITTEN_BY_ONE}; lose 1 4 b3; crash b2 silent"),
        ({"listed_outside": ("b2",), "gone": ("b3",)}, f"{WRITTEN}; swap 1 0 0 1; crash b3 gone"),
        (
            {
                "search.entries": 1,
                "search.entries_left": 0,
                "search.found_on": ("b5",),
                "search.found_unnamed": ("b5",),
            },
            f"{WRITTEN}; stray 1 4 b5",
        ),
        (
            {
                "search.searched": ("b1", "b4", "b6"),
                "search.found_on": (),
                "search.unheard": ("b5",),
            },
            f"{WRITTEN}; stray 1 4 b5; crash b5 silent",
        ),
        (
            {"search.corrupt_on": ("b5",), "search.found_on": ()},
            f"{WRITTEN}; stray 1 4 b5; spoil 1 b5 digest 4",
        ),
        (
            {"search.corrupt_on": ("b5",), "search.found_on": ()},
            f"{WRITTEN}; stray 1 4 b5; spoil 1 b5 ids 4",
        ),
        ({"worst_entry": 1, "copies": (("b2", (1,)),)}, f"{WRITTEN}; {UNLIST} digest 1"),
        ({"why": ("no_auditor", "stale")}, f"{WRITTEN}; mark 1; time 150"),
        (
            {"why": ("replication_disabled",)},
            f"{WRITTEN}; crash b1 lost; mark 1; time 150; elect b2; replication off",
        ),
        (
            {"why": ("no_copy_in_reach", "no_auditor")},
            f"{WRITTEN}; crash b1 lost; crash b2 lost; mark 1; time 150",
        ),
        (
            {"why": ("no_auditor",)},
            f"{WRITTEN}; unlist b1; spoil 1 b1 digest 0; crash b2 lost; mark 1; time 150",
        ),
        (
            {"why": ("no_auditor", "empty_ledger")},
            "create 1 e1 w1 a1 b1; close 1; mark 1; time 150",
        ),
        (
            {"why": ("no_auditor",), "state": "OPEN"},
            "create 1 e1 w1 a1 b1; append 1 1; mark 1; time 150",
        ),
        (
            {"why": ("no_auditor", "no_spare_bookie")},
            f"{WRITTEN}; readonly b4; readonly b5; readonly b6; lose 1 4 b3; mark 1; time 150",
        ),
        (
            {"mark.why": ("no_copy", "no_auditor"), "mark.age_minutes": 0},
            f"{WRITTEN}; lose 1 4 b2 b3; mark 1",
        ),
        (
            {"last_entry_id": 2, "header.last_confirmed": 3, "ack_quorum": 2},
            f"{WRITTEN}; truncate 1 2",
        ),
        ({"deciding": 1, "write_sets": 3}, f"{WRITTEN}; rack b1 /r2"),
        (
            {"positions": (("b1", (0, 1)),)},
            "create 1 e2 w2 a2 b1 b2; ensemble 1 1 b1; append 1 2; close 1",
        ),
    ],
)
def test_the_facts_that_are_owed(facts: dict[str, object], history: str):
    """They are those of the finding."""
    owed_facts = [dict(one.facts) for one in owed(history).findings]
    assert any(facts.items() <= one.items() for one in owed_facts), owed_facts


@pytest.mark.parametrize(
    ("copies", "is_stale", "history"),
    [
        (CopyFacts(10, 10, 0), False, WRITTEN),
        (CopyFacts(10, 10, 0), True, f"{WRITTEN}; mark 1"),
        (CopyFacts(10, 6, 4), True, f"{WRITTEN}; unlist b2; mark 1"),
        (CopyFacts(10, 6, 3), False, f"{WRITTEN}; {UNLIST} digest 1; mark 1"),
        (CopyFacts(10, 6, 0), False, f"{WRITTEN}; {UNLIST} ids 1"),
        (CopyFacts(10, 9, 0), False, f"{WRITTEN}; lose 1 4 b3; mark 1"),
        (None, False, "create 1 e3 w2 a2 b1 b2 b3; append 1 5; mark 1"),
    ],
)
def test_what_copies_rest_on(copies: CopyFacts | None, is_stale: bool, history: str):
    """They rest on lists, or on reads if a bookie cannot list; a wrong copy counts as neither. A
    mark is stale if no copy is missing.
    """
    row = owed(history)
    assert (copies, is_stale) == (row.copies, row.is_mark_stale)


def test_a_false_fact_is_named():
    """The sentence has the stated value and the true one."""
    row = owed(f"{WRITTEN}; lose 1 4 b3")
    (one,) = row.findings
    facts = tuple((name, 3 if name == "worst_entry" else value) for name, value in one.facts)
    said = row._replace(
        findings=(one._replace(facts=facts),), copies=CopyFacts(10, 10, 0), is_mark_stale=True
    )
    worst, copies, stale = wrong_facts(said, row)
    assert "ENTRY_BELOW_ACK_QUORUM: worst_entry is 3, and in truth 4" == worst
    assert "copies" in copies and "a stale mark" in stale


def test_a_bookie_that_stands_twice_holds_one_copy():
    """Two copies in metadata are one on disk."""
    findings = owed("create 1 e2 w2 a2 b1 b2; ensemble 1 1 b1; append 1 2; close 1").findings
    assert ["ENSEMBLE_DUPLICATE_BOOKIE", "ENTRY_BELOW_ACK_QUORUM"] == [one.kind for one in findings]
    assert ((0, 1), ()) == (findings[1].entries, findings[1].missing)


def test_an_old_mark_excuses_nothing():
    """Beyond the grace the mark itself is a finding, beside the loss."""
    row = owed(f"{WRITTEN}; lose 1 4 b3; mark 1; time 50; time 25")
    assert ["ENTRY_BELOW_ACK_QUORUM", "UNDERREPLICATED_BEYOND_GRACE"] == [
        one.kind for one in row.findings
    ]


def test_re_replication_copies_what_can_be_read():
    """The metadata names the new bookie, the entries are there, and entries without a copy stay
    lost.
    """
    assert Row("sound") == owed(f"{WRITTEN}; crash b1 gone; rereplicate 1 b1 b4").bare()
    truth = after(f"{WRITTEN}; lose 1 0 b2; crash b1 gone; rereplicate 1 b1 b4")
    assert ["b1", "b2", "b3"] == truth.ledgers[1].segments[0].ensemble, (
        "entry 0 can be read nowhere"
    )


def test_what_cannot_happen_does_nothing():
    """Any part of a history is a history; an unknown action is an error."""
    truth = Truth.of()
    assert not actions.happen(truth, "append 1 3")
    assert not actions.happen(truth, "lock 1 b1")
    assert Truth.of() == truth
    with pytest.raises(ValueError, match="no action is called"):
        actions.happen(truth, "explode b1")
    with pytest.raises(ValueError, match="is no action"):
        actions.happen(truth, "lose")


def test_each_seed_tells_a_history_that_can_happen():
    """The same seed draws the same history, action by action; and what an action does not touch
    stays owed.
    """
    for seed in range(60):
        lines = draw_history(seed, 20, Truth.of())
        assert lines == draw_history(seed, 20, Truth.of())
        truth = Truth.of()
        for line in lines:
            before = {number: truth.owed(number).bare() for number in truth.ledgers}
            assert actions.happen(truth, line), f"seed {seed}: {line}"
            for number in before.keys() - actions.touched(truth, line):
                assert before[number] == truth.owed(number).bare(), (
                    f"seed {seed}: {line} moved ledger {number}"
                )


def test_the_swarm_reaches_everything():
    """Every action happens, and every word is owed, in some history."""
    happened, owed_words = Counter[str](), Counter[str]()
    for seed in range(240):
        truth = Truth.of()
        for line in draw_history(seed, 12, truth):
            assert actions.happen(truth, line)
            happened[line.split()[0]] += 1
        for row in map(truth.owed, truth.ledgers):
            owed_words.update([row.standing, *row.unknowns, *(one.kind for one in row.findings)])
    assert set(actions.BY_NAME) == set(happened)
    assert SAID == set(owed_words)


def test_the_shortest_history_lacks_nothing_that_matters():
    """Every remaining action is needed."""
    lines = [f"action {number}" for number in range(40)]
    assert ["action 7", "action 31"] == shortest(
        lines, lambda some: {"action 7", "action 31"} <= set(some)
    )


def test_entries_as_runs():
    """Runs are inclusive, ascending, and do not touch."""
    assert [(0, 2), (4, 4), (7, 8)] == runs({8, 0, 1, 2, 4, 7})

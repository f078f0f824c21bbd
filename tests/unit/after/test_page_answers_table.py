"""Who says what of a finding: no cell says more than the finding does."""

from __future__ import annotations

from typing import Any

import pytest
from support.report_stories import changed, finding

from auditor.after.page.findings_data import BOOKIES_MAX, LOOKS_MAX, cell, time_line, who_says_what
from auditor.model.availability import VALID_ANSWERS, AnswerStatus
from auditor.model.finding import Kind
from auditor.model.finding_record import FindingRecord, RecordedLook
from auditor.report.findings_text import answer_words


def of_ledger(**changes: Any) -> FindingRecord:
    """Return a finding on entries 10-19 and 42 of a ledger, which b3 lacks."""
    document = finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 7)
    facts = {"worst_entry": 10, "write_set": ["b1", "b3"], "search": None}
    segment = {"first_entry_id": 0, "last_entry_id": 99, "ensemble": ["b1", "b2", "b3"]}
    looks = [
        {
            "at": "2026-01-01T03:09:00.000Z",
            "znode_version": 2,
            "marked": False,
            "answers": {"b1": "held", "b3": "held"},
        }
    ]
    base = {
        "entries": [[10, 19], [42, 42]],
        "entries_total": 11,
        "missing_on": {"b3": [[10, 19], [42, 42]]},
    }
    given = base | {"facts": facts, "segment": segment, "looks": looks} | changes
    return changed(document, **given)


def test_a_bookie_lacks_what_the_finding_says_it_lacks():
    """All of a range, or some of it."""
    assert ["lacks", "lacks"] == [cell(of_ledger(), "b3", pair) for pair in ([10, 19], [42, 42])]
    assert "lacks some" == cell(of_ledger(missing_on={"b3": [[12, 14]]}), "b3", [10, 19])


@pytest.mark.parametrize("status", AnswerStatus)
def test_only_a_valid_answer_makes_a_cell_empty(status: AnswerStatus):
    """Silence is neither a copy nor its absence."""
    looks = [
        {
            "at": "2026-01-01T03:09:00Z",
            "znode_version": 0,
            "marked": False,
            "answers": {"b1": status.value},
        }
    ]
    words = {AnswerStatus.HELD: "none missing", AnswerStatus.NO_SUCH_LEDGER: ""}
    assert words.get(status, "unknown") == cell(of_ledger(looks=looks), "b1", [10, 19])
    assert words.keys() == VALID_ANSWERS


def test_what_a_bookie_should_hold_and_should_not_hold_has_two_signs():
    """Entry 42 of the striped segment belongs on b1 and b2; b3 is asked and should hold none.

    Beyond the segment, and beyond the ranges that a finding stores, neither is said.
    """
    held = {"at": "2026-01-01T03:09:00Z", "znode_version": 0, "answers": dict.fromkeys(
        ("b1", "b2", "b3"), "held"
    )}  # fmt: skip
    copies = {"write_quorum": 2, "ack_quorum": 2, "confirmed": 2, "unknown": 0}
    one = of_ledger(looks=[held], copies=copies, missing_on={})
    assert ["none missing", "none missing", "not due"] == [
        cell(one, bookie, [42, 42]) for bookie in ("b1", "b2", "b3")
    ]
    assert "" == cell(one, "b3", [100, 100])
    cut = of_ledger(
        looks=[held], copies=copies, missing_on={"b1": [[2 * n, 2 * n] for n in range(20)]}
    )
    assert "" == cell(cut, "b1", [42, 42])


def test_a_list_is_described_by_how_much_of_its_share_it_names():
    """`held` alone would read as if it held the entry that is lost."""
    look = {
        "at": "2026-01-01T03:09:00Z", "znode_version": 0,
        "answers": {"b1": "held", "b2": "held", "b3": "silent"},
        "listed": {"b1": [1_099, 1_100], "b2": [0, 0]},
    }  # fmt: skip
    assert ["1,099 of 1,100 listed", "should hold none", "silent", ""] == [
        answer_words(RecordedLook.from_json(look), bookie) for bookie in ("b1", "b2", "b3", "b4")
    ]


def test_the_newest_answer_counts():
    """A bookie that answered and then fell silent is unknown. A bookie that was never asked is
    shown as not asked.
    """
    first, second = (
        {"at": f"2026-01-01T03:0{n}:00Z", "znode_version": 0, "answers": {"b1": s}}
        for n, s in ((1, "held"), (2, "silent"))
    )
    assert "unknown" == cell(of_ledger(looks=[first, second]), "b1", [10, 19])
    assert "none missing" == cell(
        of_ledger(looks=[second | {"at": first["at"]}, first]), "b1", [10, 19]
    )
    assert "not asked" == cell(of_ledger(), "b2", [10, 19])


def test_what_a_search_found_is_in_its_cell():
    """The lowest entry found on a bookie, where it is in the range."""
    facts = {
        "worst_entry": 42,
        "write_set": ["b1"],
        "search": {"found_on": ["b7"], "found_first": [42]},
    }
    finding = of_ledger(facts=facts)
    assert ("not asked", "holds") == (cell(finding, "b7", [10, 19]), cell(finding, "b7", [42, 42]))
    assert "holds 42" == cell(finding, "b7", [40, 49])
    (row,) = (row for row in who_says_what(finding)["rows"] if row["bookie"] == "b7")
    assert "found there by the search" == row["part"]


def test_facts_on_the_entries_of_a_marked_ledger_are_found():
    """UNDERREPLICATED_UNRECOVERABLE has them one level down, and ENTRY_CORRUPT has copies."""
    finding = of_ledger(
        facts={"entries": {"worst_entry": 10, "write_set": ["b1"], "search": None}, "mark": {}}
    )
    assert "should hold entry 10" == next(
        row["part"] for row in who_says_what(finding)["rows"] if row["bookie"] == "b1"
    )
    corrupt = of_ledger(
        facts={"worst_entry": 42, "write_set": ["b1"], "copies": [["b1", [42]]]}, missing_on={}
    )
    assert ("none missing", "digest wrong") == (
        cell(corrupt, "b1", [10, 19]),
        cell(corrupt, "b1", [42, 42]),
    )


def test_bookies_that_lack_entries_come_first_and_none_twice():
    """Then those of the ensemble, then others that answered."""
    finding = of_ledger(
        looks=[
            {
                "at": "2026-01-01T03:09:00Z",
                "znode_version": 1,
                "answers": {"b9": "held", "b1": "held"},
            }
        ]
    )
    assert ["b3", "b1", "b2", "b9"] == [row["bookie"] for row in who_says_what(finding)["rows"]]


def test_the_table_is_bounded_and_counts_what_it_leaves_out():
    """However many bookies and looks a finding has."""
    answers = {f"x{n:03d}": "held" for n in range(100)}
    looks = [
        {"at": f"2026-01-01T03:{n:02d}:00Z", "znode_version": n, "answers": answers}
        for n in range(30)
    ]
    finding = of_ledger(looks=looks)
    table = who_says_what(finding)
    assert (BOOKIES_MAX, 103 - BOOKIES_MAX) == (len(table["rows"]), table["bookies_left"])
    line = time_line(finding)
    assert (LOOKS_MAX, "03:00:00", "03:29:00") == (len(line), line[0]["clock"], line[-1]["clock"])


def test_the_time_line_says_when_and_what_was_read():
    """A look has its time, the gap to the look before, and the version of the znode if it was read.
    It says if the ledger was marked.
    """
    looks = [
        {"at": "2026-01-01T03:00:00.000Z", "znode_version": 2, "marked": False, "answers": {}},
        {"at": "2026-01-01T03:05:01.400Z", "znode_version": None, "marked": True, "answers": {}},
    ]
    first, second = time_line(of_ledger(looks=looks))
    assert ("2026-01-01", "03:00:00", "", "version 2", 0.0) == tuple(first.values())
    assert ("03:05:01", "+5 min 1 s", "marked") == (second["clock"], second["gap"], second["says"])
    third = looks[0] | {"at": "2026-01-01T03:20:05.600Z"}
    assert [0.0, 0.25, 1.0] == [one["at"] for one in time_line(of_ledger(looks=[*looks, third]))]


def test_a_finding_on_a_bookie_has_answers_and_no_entries():
    """It says how the bookie greeted at each look."""
    table = who_says_what(finding(Kind.BOOKIE_LOST_UNNOTICED, "b7"))
    assert [] == table["ranges"]
    assert [(["unregistered", "unregistered"], [])] == [
        (row["answers"], row["cells"]) for row in table["rows"]
    ]


def test_a_write_set_that_blocks_recovery_names_no_entry():
    """The facts of RECOVERY_BLOCKED have the write set alone; the other bookies are in the
    ensemble.
    """
    blocked = of_ledger(kind="RECOVERY_BLOCKED", facts={"write_set": ["b1", "b3"]}, entries=[])
    rows = {row["bookie"]: row["part"] for row in who_says_what(blocked)["rows"]}
    assert {"b1": "in a blocked write set", "b3": "in a blocked write set"} == {
        bookie: part for bookie, part in rows.items() if part != "in the ensemble"
    }

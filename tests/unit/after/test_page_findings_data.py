"""The findings as the page's script gets them."""

from __future__ import annotations

import json

import pytest
from support.page_stories import HOSTILE, every_kind, finding, many

from auditor.after.page import findings_data as module
from auditor.after.page import findings_data as selection
from auditor.after.page.findings_data import BOOKIES_OF_A_ROW_MAX, finding_in_full, findings_data
from auditor.model.finding import CATALOGUE, Kind

KIND, LEDGER, BOOKIE, OWNER, ENTRIES, FOUND, UNKNOWN, QUORUM, BOOKIES, ID = range(10)


def test_each_finding_is_a_row():
    """It has what the table shows, sorts and filters by."""
    findings = every_kind("b")
    data = findings_data(findings, "/run")
    assert len(findings) == data["total"] == len(data["rows"])
    for row, found in zip(data["rows"], findings, strict=True):
        name, severity, says, _ = data["kinds"][row[KIND]]
        assert (found.kind.value, found.severity.word, CATALOGUE[Kind(name)].says) == (
            name,
            severity,
            says,
        )
        ledger = None if found.ledger_id is None else str(found.ledger_id)
        assert (ledger, str(found.entries_total), found.id) == (
            row[LEDGER],
            row[ENTRIES],
            row[ID],
        )
        named = {*found.missing_on, *([found.bookie_id] if found.bookie_id else [])}
        named |= {"b1"} if found.kind is Kind.ENTRY_CORRUPT else set()  # whose copy is corrupt
        assert named == {data["bookies"][n] for n in row[BOOKIES]}


def test_large_numbers_are_digits():
    """They are text, because a browser reads numbers as doubles and would change a ledger id of 63
    bits.
    """
    large = 2**63 - 1
    (row,) = findings_data([finding(Kind.ENTRY_CORRUPT, large, entries_total=large)], "/run")[
        "rows"
    ]
    assert (str(large), str(large)) == (row[LEDGER], row[ENTRIES])


def test_every_text_is_printable_ascii():
    """The script puts names on the page as they are in the data."""
    as_json = json.dumps(findings_data(every_kind(HOSTILE), HOSTILE), ensure_ascii=False)
    assert as_json.isprintable() and as_json.isascii()


def test_a_command_with_other_characters_cannot_be_copied():
    """The copied text would not be the one that is shown, or would reach a terminal as more than
    one line.
    """
    plain, odd = finding_in_full(every_kind("b")[0]), finding_in_full(every_kind(HOSTILE)[0])
    assert [True, True] == [one["copy"] for one in (*plain["look"], *plain["change"])]
    assert [False, False] == [one["copy"] for one in (*odd["look"], *odd["change"])]
    assert (
        findings_data([], "/a run")["run_dir"] == "'/a run'"
        and findings_data([], "/a\nrun")["run_dir"] is None
    )


def test_what_changes_the_cluster_stands_apart():
    """Commands that look come first, and a change is not among them."""
    full = finding_in_full(every_kind("b")[0])
    assert [["bookkeeper shell x -b b"], ["recover b"]] == [
        [c["text"] for c in full[part]] for part in ("look", "change")
    ]


def test_rows_and_findings_in_full_are_bounded(monkeypatch: pytest.MonkeyPatch):
    """Rows are bounded by number, and findings in full by number and bytes. The total stays."""
    monkeypatch.setattr(selection.choose_listed, "__defaults__", (20,))
    monkeypatch.setattr(selection.choose_in_full, "__defaults__", (8,))
    data = findings_data(many(100), "/run")
    assert (100, 20, 8) == (data["total"], len(data["rows"]), len(data["full"]))
    one = len(json.dumps(data["full"]["0"]))
    monkeypatch.setattr(module, "FULL_BYTES_MAX", 3 * one + one // 2)
    assert 3 == len(findings_data(many(100), "/run")["full"])


def test_findings_in_full_belong_to_their_rows():
    """The key is the number of the row."""
    findings = every_kind("b")
    data = findings_data(findings, "/run")
    assert {str(n) for n in range(len(findings))} == set(data["full"])
    assert all(
        f"ledger {row[LEDGER]}" in data["full"][str(n)]["line"]
        for n, row in enumerate(data["rows"])
        if row[LEDGER]
    )


def test_a_row_of_very_many_bookies_says_so():
    """Its list of bookies is cut and ends with -1. The page then shows it for every bookie."""
    lacking = {f"b{n}": [[0, 1]] for n in range(BOOKIES_OF_A_ROW_MAX + 1)}
    (row,) = findings_data([finding(Kind.ENTRY_WITHOUT_REPLICA, 1, missing_on=lacking)], "/run")[
        "rows"
    ]
    assert (BOOKIES_OF_A_ROW_MAX + 1, -1) == (len(row[BOOKIES]), row[BOOKIES][-1])


def test_entries_that_are_not_stored_are_counted():
    """A finding stores at most twenty ranges."""
    assert "" == finding_in_full(finding(Kind.ENTRY_CORRUPT, 1))["more"]
    assert "7" == finding_in_full(finding(Kind.ENTRY_CORRUPT, 1, entries_total=2_007))["more"]

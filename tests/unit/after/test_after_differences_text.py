"""The text and the JSON form of what changed between two runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from support.report_stories import finding

from auditor.after.compared_finding import ComparedFinding
from auditor.after.differences import Change, Difference, compare_findings
from auditor.after.differences_text import (
    SHOWN_MAX,
    ComparedRun,
    differences_json,
    differences_text,
    extent_words,
)
from auditor.after.rechecks import Judged, Row
from auditor.model.finding import CATALOGUE, Kind, Subject
from auditor.model.finding_record import FindingRecord
from auditor.report.layout import PLAIN, Screen

EARLIER = ComparedRun("run-a", "2026-01-01T03:14:46.500Z", "SOUND", "0.1.0", is_complete=True)
LATER = ComparedRun("run-b", "2026-01-02T03:14:46.500Z", "VIOLATED", "0.1.0", is_complete=True)
KNOWN = Judged(False, False, True, {n: Row(None, ()) for n in range(100)}, {})


def differences(before: list[FindingRecord], after: list[FindingRecord]) -> list[Difference]:
    old, new = (map(ComparedFinding.of, side) for side in (before, after))
    return compare_findings(old, new, KNOWN, KNOWN)


def test_the_first_line_counts_every_change_and_the_last_is_for_machines():
    """Counts of zero are included: a script finds each word."""
    found = differences(
        [finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 7)],
        [finding(Kind.ENTRY_WITHOUT_REPLICA, 7, entries_total=3)],
    )
    lines = differences_text(EARLIER, LATER, ["A note."], found, PLAIN).splitlines()
    assert "0 new, 1 worse, 0 still, 0 better, 0 resolved, 0 not checked again" == lines[0]
    assert (
        "auditor: DIFF earlier=run-a later=run-b new=0 worse=1 still=0 better=0 resolved=0"
        " not_checked_again=0" == lines[-1]
    )
    assert "A note." in lines
    kinds = "CRITICAL ENTRY_BELOW_WRITE_QUORUM -> ENTRY_WITHOUT_REPLICA"
    text = " ".join(" ".join(lines).split())
    assert f"{kinds} ledger 7 of pulsar managed-ledger" in text and "t-7, 3 entries" in text


def test_the_numbers_before_and_after_are_shown_if_the_kind_is_the_same():
    """Numbers of entries of two different kinds could not be compared."""
    before = [finding(Kind.ENTRY_WITHOUT_REPLICA, 7, entries_total=2000)]
    after = [finding(Kind.ENTRY_WITHOUT_REPLICA, 7, entries_total=3)]
    text = differences_text(EARLIER, LATER, [], differences(before, after), PLAIN)
    assert "2,000 -> 3 entries" in " ".join(text.split())


@pytest.mark.parametrize(
    ("kind", "changes", "extent"),
    [
        (Kind.CLOSED_METADATA_CHANGED, {"entries_total": 9}, "9 entries"),
        (Kind.VERIFICATION_OVERDUE, {"facts": {"bookies": 3}}, "3 bookies"),
        (Kind.LEDGER_ORPHANED, {"facts": {"ledgers": 2}}, "2 ledgers"),
        (Kind.MARK_WITHOUT_LEDGER, {"facts": {"marks": 1}}, "1 mark"),
    ],
)
def test_an_extent_has_the_unit_that_its_kind_counts(
    kind: Kind, changes: Mapping[str, Any], extent: str
):
    """Entries that a new end cuts off are no ledgers, and neither are bookies that are behind."""
    subject = 7 if CATALOGUE[kind].subject is Subject.LEDGER else "cluster"
    (found,) = differences([], [finding(kind, subject, **changes)])
    assert extent == extent_words(found)


def test_findings_that_stand_unchanged_are_only_counted():
    """The report of the later run has them."""
    same = [finding(Kind.ENTRY_WITHOUT_REPLICA, 7)]
    text = differences_text(EARLIER, LATER, [], differences(same, same), PLAIN)
    assert "1 still" in text and "ledger 7" not in text


def test_each_change_shows_a_bounded_number_of_findings():
    """The rest is counted, and the JSON form has it."""
    after = [finding(Kind.ENTRY_WITHOUT_REPLICA, n) for n in range(SHOWN_MAX + 5)]
    found = differences([], after)
    text = differences_text(EARLIER, LATER, [], found, PLAIN)
    assert SHOWN_MAX == text.count("CRITICAL") and "... and 5 more (--format json has all)" in text
    document = differences_json(EARLIER, LATER, [], found)
    assert SHOWN_MAX + 5 == len(document["changes"]) == document["counts"]["new"]


def test_lines_keep_to_the_width_and_names_are_escaped():
    """Owners and bookie ids are chosen by others."""
    owner = {
        "application": "pulsar",
        "component": "managed-ledger",
        "name": "a\x1b[31m\n" + "t" * 300,
    }
    after = [
        finding(Kind.ENTRY_WITHOUT_REPLICA, 7, owner=owner),
        finding(Kind.BOOKIE_LOST_CONTENT, "b\n1"),
    ]
    text = differences_text(EARLIER, LATER, [], differences([], after), Screen(80))
    body = text.splitlines()[:-1]
    assert "\x1b" not in text and "bookie b\\n1" in text
    assert all(len(line) <= 80 or " " not in line.strip() for line in body), body


def test_the_json_form_has_both_sides():
    """A side is null if that run has no such finding."""
    document = differences_json(
        EARLIER, LATER, ["x"], differences([finding(Kind.PLACEMENT_FAILED, 7)], [])
    )
    (change,) = document["changes"]
    assert (Change.RESOLVED.value, None, "PLACEMENT_FAILED") == (
        change["change"],
        change["after"],
        change["before"]["kind"],
    )
    assert ["x"] == document["notes"] and "run-a" == document["earlier"]["run_id"]

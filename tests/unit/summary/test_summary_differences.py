"""What became of a finding: decided by both runs, and never by the later one's silence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from support.report_stories import finding

from auditor.model.cluster import Registration
from auditor.model.finding import Kind, Severity
from auditor.model.verdict import Unknown
from auditor.summary.differences import Change, Difference, Judged, Row, compare_findings

SOUND = Row(None, ())
ANSWERED = (Registration.WRITABLE, True)


def judged(
    rows: Mapping[int, Row] | None = None, bookies: Mapping[str, tuple[Registration, bool]] | None = None, **changes: bool
) -> Judged:
    known = changes.get("are_references_known", True)
    return Judged(changes.get("is_partial", False), changes.get("withholds", False), known, rows or {}, bookies or {})


def compared(before: list[Any], after: list[Any], earlier: Judged | None = None, later: Judged | None = None) -> Difference:
    """The one difference between two runs that both judged ledger 7, if nothing else is said."""
    (found,) = compare_findings(before, after, earlier or judged({7: SOUND}), later or judged({7: SOUND}))
    return found


def test_the_same_finding_in_both_runs_is_still_there():
    """Nothing is said to explain it."""
    found = compared([finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 7)], [finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 7)])
    assert (Change.STILL, "", Severity.WARNING) == (found.change, found.why, found.severity)


@pytest.mark.parametrize(
    ("kind", "entries", "change"),
    [
        (Kind.ENTRY_WITHOUT_REPLICA, 1, Change.WORSE),
        (Kind.ENTRY_BELOW_WRITE_QUORUM, 9000, Change.BETTER),
        (Kind.ENTRY_BELOW_ACK_QUORUM, 2001, Change.WORSE),
        (Kind.ENTRY_BELOW_ACK_QUORUM, 1999, Change.BETTER),
    ],
)
def test_the_kind_decides_first_then_the_number_of_entries(kind: Kind, entries: int, change: Change):
    """One lost entry is worse than any number below their quorum."""
    before = finding(Kind.ENTRY_BELOW_ACK_QUORUM, 7, entries_total=2000)
    assert change is compared([before], [finding(kind, 7, entries_total=entries)]).change


def test_placement_counts_segments():
    """It has one finding a segment; those of the strongest kind count."""
    failed, soft = finding(Kind.PLACEMENT_FAILED, 7), finding(Kind.PLACEMENT_SOFT, 7)
    found = compared([failed, failed, soft], [failed, soft, soft])
    assert found.before is not None and found.after is not None
    assert (Change.BETTER, 2, 1) == (found.change, found.before.extent, found.after.extent)


def test_families_of_one_ledger_are_matched_apart():
    """A new loss beside an old placement is new, and the placement is still there."""
    old = [finding(Kind.PLACEMENT_FAILED, 7)]
    found = compare_findings(old, [*old, finding(Kind.ENTRY_CORRUPT, 7)], judged({7: SOUND}), judged({7: SOUND}))
    assert [("entry", Change.NEW), ("placement", Change.STILL)] == [(one.subjects.family, one.change) for one in found]


@pytest.mark.parametrize(
    ("row", "is_partial", "why"),
    [
        (SOUND, False, ""),
        (None, False, "the earlier run did not list this ledger"),
        (None, True, "the earlier run did not name this ledger"),
        (Row(None, (Unknown.BOOKIE_SILENT,)), False, "the earlier run could not judge it (bookie_silent)"),
        (Row("open", ()), False, "the earlier run exempted it (open)"),
    ],
)
def test_a_new_finding_says_whether_the_earlier_run_could_have_had_it(row: Row | None, is_partial: bool, why: str):
    """New in the results is not always new in the cluster."""
    earlier = judged({} if row is None else {7: row}, is_partial=is_partial)
    found = compared([], [finding(Kind.ENTRY_WITHOUT_REPLICA, 7)], earlier)
    assert (Change.NEW, why) == (found.change, found.why)


@pytest.mark.parametrize(
    ("row", "is_partial", "why"),
    [
        (None, False, "the later run did not list this ledger"),
        (None, True, "the later run did not name this ledger"),
        (Row("deleted", ()), False, "the ledger was deleted while the later run looked"),
        (Row(None, (Unknown.BOOKIE_SILENT,)), False, "the later run could not judge it (bookie_silent)"),
        (Row("marked_underreplicated", ()), False, "its under-replication mark, within grace, excuses it now"),
    ],
)
def test_what_the_later_run_did_not_judge_is_not_resolved(row: Row | None, is_partial: bool, why: str):
    """Silence, a mark and a deletion heal nothing."""
    later = judged({} if row is None else {7: row}, is_partial=is_partial)
    found = compared([finding(Kind.ENTRY_BELOW_ACK_QUORUM, 7)], [], later=later)
    assert (Change.NOT_CHECKED_AGAIN, why) == (found.change, found.why)


def test_a_finding_is_resolved_when_the_ledger_was_judged_without_it():
    """And only then."""
    found = compared([finding(Kind.ENTRY_BELOW_ACK_QUORUM, 7)], [])
    assert (Change.RESOLVED, "") == (found.change, found.why)


def test_resolved_names_what_the_subject_has_now():
    """A mark that is gone beside a loss that is not: the ledger is no better."""
    before = [finding(Kind.UNDERREPLICATED_UNRECOVERABLE, 7)]
    found = compare_findings(before, [finding(Kind.ENTRY_WITHOUT_REPLICA, 7)], judged({7: SOUND}), judged({7: SOUND}))
    resolved = next(one for one in found if one.change is Change.RESOLVED)
    assert "it has ENTRY_WITHOUT_REPLICA now" == resolved.why


@pytest.mark.parametrize(
    ("kind", "bookie", "changes", "why"),
    [
        (Kind.BOOKIE_SILENT_YET_REGISTERED, ANSWERED, {}, None),
        (Kind.BOOKIE_LOST_UNNOTICED, (Registration.NONE, False), {}, None),
        (Kind.BOOKIE_LOST_CONTENT, (Registration.NONE, False), {}, "the bookie is not registered any more"),
        (Kind.BOOKIE_LOST_CONTENT, None, {}, "the bookie is not registered any more"),
        (Kind.BOOKIE_FAILING_REQUESTS, (Registration.READONLY, False), {}, "the bookie gave the later run no answer"),
        (Kind.BOOKIE_LOST_CONTENT, ANSWERED, {"is_partial": True}, "the later run was of named ledgers"),
        (Kind.BOOKIE_LOST_CONTENT, ANSWERED, {"withholds": True}, "the later run withheld something"),
    ],
)
def test_a_finding_on_a_bookie_is_resolved_only_when_the_bookie_was_seen(
    kind: Kind, bookie: tuple[Registration, bool] | None, changes: dict[str, bool], why: str | None
):
    """It answered, or for a lost one its ledgers are no longer unnoticed."""
    later = judged(bookies={"b1": bookie} if bookie else {}, **changes)
    found = compared([finding(kind, "b1")], [], later=later)
    assert (Change.RESOLVED if why is None else Change.NOT_CHECKED_AGAIN) is found.change
    assert found.why.startswith(why or "") and (why is not None or found.why == "")


def test_a_finding_on_the_cluster_needs_a_whole_run():
    """Marks without ledgers are not looked for by a run of named ledgers."""
    before = [finding(Kind.MARK_WITHOUT_LEDGER, "cluster")]
    assert Change.RESOLVED is compared(before, []).change
    assert Change.NOT_CHECKED_AGAIN is compared(before, [], later=judged(is_partial=True)).change


def test_a_missing_ledger_is_resolved_only_where_references_were_read():
    """No run lists it, so that it is not listed says nothing."""
    before = [finding(Kind.REFERENCED_LEDGER_MISSING, 70)]
    assert Change.RESOLVED is compared(before, []).change
    assert Change.NOT_CHECKED_AGAIN is compared(before, [], later=judged(are_references_known=False)).change
    assert Change.NOT_CHECKED_AGAIN is compared(before, [], later=judged(is_partial=True)).change
    assert "" == compared([], before).why


def test_the_most_severe_comes_first_then_the_kind_then_the_ledger():
    """As in a report."""
    after = [
        finding(Kind.LEDGER_STUCK, 1),
        finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 2),
        finding(Kind.BOOKIE_LOST_UNNOTICED, "b1"),
        finding(Kind.ENTRY_WITHOUT_REPLICA, 9),
        finding(Kind.ENTRY_WITHOUT_REPLICA, 3),
    ]
    found = compare_findings([], after, judged(), judged())
    assert [3, 9, None, 2, 1] == [one.subjects.ledger_id for one in found]

"""What became of a finding: decided by both runs, and never by the later one's silence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from support.report_stories import finding

from auditor.model.cluster import Registration
from auditor.model.finding import Kind, Severity
from auditor.model.verdict import Unknown
from auditor.summary.changes.differences import Change, Difference, compare_findings
from auditor.summary.changes.rechecks import Judged, Row

SOUND = Row(None, ())
ANSWERED = (Registration.WRITABLE, True)


def judged(
    rows: Mapping[int, Row] | None = None,
    bookies: Mapping[str, tuple[Registration, bool]] | None = None,
    **changes: Any,
) -> Judged:
    """A whole run that judged these ledgers and saw these bookies."""
    given = {"is_partial": False, "withholds": False, "are_references_known": True} | changes
    return Judged(rows=rows or {}, bookies=bookies or {}, **given)


def compared(
    before: list[Any], after: list[Any], earlier: Judged | None = None, later: Judged | None = None
) -> Difference:
    """The one difference between two runs that both judged ledger 7, if nothing else is said."""
    (found,) = compare_findings(
        before, after, earlier or judged({7: SOUND}), later or judged({7: SOUND})
    )
    return found


def test_the_same_finding_in_both_runs_is_still_there():
    """Nothing is said to explain it."""
    found = compared(
        [finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 7)], [finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 7)]
    )
    assert (Change.STILL, "", Severity.WARNING) == (found.change, found.why, found.severity)


def test_a_difference_has_what_both_runs_say():
    """The severity is that of now; each side has the ids of its findings and the owner."""
    before, after = (
        finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 7),
        finding(Kind.ENTRY_WITHOUT_REPLICA, 7),
    )
    found = compared([before], [after | {"owner": {"name": "x"}}])
    assert (Change.WORSE, "", Severity.CRITICAL) == (found.change, found.why, found.severity)
    assert found.before is not None and found.after is not None
    assert ((before["id"],), (after["id"],)) == (found.before.ids, found.after.ids)
    assert (before["owner"], {"name": "x"}) == (found.before.owner, found.after.owner)
    assert Severity.WARNING is compared([before], []).severity


def test_the_strongest_kind_of_a_family_counts():
    """Strength is the order of the catalogue, not of the alphabet."""
    weak, strong = finding(Kind.ENTRY_BELOW_ACK_QUORUM, 7), finding(Kind.ENTRY_WITHOUT_REPLICA, 7)
    found = compared([], [weak, strong])
    assert found.after is not None
    assert (Kind.ENTRY_WITHOUT_REPLICA, (weak["id"], strong["id"])) == (
        found.after.kind,
        found.after.ids,
    )


@pytest.mark.parametrize(
    ("kind", "entries", "change"),
    [
        (Kind.ENTRY_WITHOUT_REPLICA, 1, Change.WORSE),
        (Kind.ENTRY_BELOW_WRITE_QUORUM, 9000, Change.BETTER),
        (Kind.ENTRY_BELOW_ACK_QUORUM, 2001, Change.WORSE),
        (Kind.ENTRY_BELOW_ACK_QUORUM, 1999, Change.BETTER),
    ],
)
def test_the_kind_decides_first_then_the_number_of_entries(
    kind: Kind, entries: int, change: Change
):
    """One lost entry is worse than any number below their quorum."""
    before = finding(Kind.ENTRY_BELOW_ACK_QUORUM, 7, entries_total=2000)
    assert change is compared([before], [finding(kind, 7, entries_total=entries)]).change


@pytest.mark.parametrize(
    ("lacking", "entries", "change"),
    [
        ({"b1": [[5, 5]], "b2": [[5, 5]]}, 1, Change.STILL),
        ({"b1": [[5, 9]], "b2": [[5, 5]]}, 1, Change.WORSE),
        ({"b1": [[5, 5]], "b2": [[5, 5]], "b3": [[7, 7]]}, 1, Change.WORSE),
        ({"b1": [[5, 5]]}, 1, Change.STILL),
        ({"b1": [[6, 6]]}, 0, Change.STILL),
        (None, 1, Change.STILL),
    ],
)
def test_a_bookie_that_lacks_more_makes_it_worse(
    lacking: dict[str, Any] | None, entries: int, change: Change
):
    """Though as many entries are of the strongest kind; and never better."""
    before = finding(
        Kind.ENTRY_WITHOUT_REPLICA, 7, entries_total=1, missing_on={"b1": [[5, 5]], "b2": [[5, 5]]}
    )
    found = compared([before], [before | {"entries_total": entries, "missing_on": lacking}])
    assert change is found.change
    assert ("did not lack" in found.why) or change is not Change.WORSE


def test_of_what_a_finding_has_no_room_for_nothing_is_said():
    """It names twenty ranges a bookie: one behind them may have been lacking before."""
    ranges = [[2 * n, 2 * n] for n in range(20)]
    before = finding(Kind.ENTRY_WITHOUT_REPLICA, 7, missing_on={"b1": ranges})
    later = before | {"missing_on": {"b1": [*ranges[1:], [40, 40]]}}
    assert Change.STILL is compared([before], [later]).change
    assert (
        Change.WORSE
        is compared([before], [before | {"missing_on": {"b1": [*ranges[:-1], [37, 38]]}}]).change
    )


def test_placement_counts_segments():
    """It has one finding a segment; those of the strongest kind count."""
    failed, soft = finding(Kind.PLACEMENT_FAILED, 7), finding(Kind.PLACEMENT_SOFT, 7)
    found = compared([failed, failed, soft], [failed, soft, soft])
    assert found.before is not None and found.after is not None
    assert (Change.BETTER, 2, 1) == (found.change, found.before.extent, found.after.extent)


def test_families_of_one_ledger_are_matched_apart():
    """A new loss beside an old placement is new, and the placement is still there."""
    old = [finding(Kind.PLACEMENT_FAILED, 7)]
    found = compare_findings(
        old, [*old, finding(Kind.ENTRY_CORRUPT, 7)], judged({7: SOUND}), judged({7: SOUND})
    )
    assert [("entry", Change.NEW), ("placement", Change.STILL)] == [
        (one.subjects.family, one.change) for one in found
    ]


@pytest.mark.parametrize(
    ("row", "is_partial", "why"),
    [
        (SOUND, False, ""),
        (None, False, "the earlier run did not list this ledger"),
        (None, True, "the earlier run did not name this ledger"),
        (
            Row(None, (Unknown.BOOKIE_SILENT,)),
            False,
            "the earlier run could not judge it (bookie_silent)",
        ),
        (Row("open", ()), False, "the earlier run exempted it (open)"),
        (Row(None, (), "probed"), False, "the earlier run only read a sample of its entries"),
        (Row(None, (), "listed"), False, ""),
    ],
)
def test_a_new_finding_says_whether_the_earlier_run_could_have_had_it(
    row: Row | None, is_partial: bool, why: str
):
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
        (
            Row(None, (Unknown.BOOKIE_SILENT,)),
            False,
            "the later run could not judge it (bookie_silent)",
        ),
        (
            Row("marked_underreplicated", ()),
            False,
            "its under-replication mark, within grace, excuses it now",
        ),
    ],
)
def test_what_the_later_run_did_not_judge_is_not_resolved(
    row: Row | None, is_partial: bool, why: str
):
    """Silence, a mark and a deletion heal nothing."""
    later = judged({} if row is None else {7: row}, is_partial=is_partial)
    found = compared([finding(Kind.ENTRY_BELOW_ACK_QUORUM, 7)], [], later=later)
    assert (Change.NOT_CHECKED_AGAIN, why) == (found.change, found.why)


def test_a_finding_is_resolved_when_the_ledger_was_judged_without_it():
    """And only then."""
    found = compared([finding(Kind.ENTRY_BELOW_ACK_QUORUM, 7)], [])
    assert (Change.RESOLVED, "") == (found.change, found.why)


def test_resolved_says_that_the_ledger_is_exempt():
    """It has no writer any more to lose anything, or one that is still at work."""
    found = compared(
        [finding(Kind.ENTRY_BELOW_ACK_QUORUM, 7)], [], later=judged({7: Row("open", ())})
    )
    assert (Change.RESOLVED, "exempt now: open") == (found.change, found.why)


def test_what_another_ledger_has_is_not_reported_on_this_one():
    """Nor what another bookie has, or the cluster in another kind."""
    before = [finding(Kind.ENTRY_BELOW_ACK_QUORUM, 7), finding(Kind.MARK_WITHOUT_LEDGER, "cluster")]
    after = [finding(Kind.ENTRY_WITHOUT_REPLICA, 8), finding(Kind.LEDGER_ORPHANED, "cluster")]
    after.append(finding(Kind.BOOKIE_LOST_UNNOTICED, "b1"))
    found = compare_findings(
        before, after, judged({7: SOUND, 8: SOUND}), judged({7: SOUND, 8: SOUND})
    )
    assert ["", ""] == [one.why for one in found if one.change is Change.RESOLVED]


def test_resolved_names_what_the_subject_has_now():
    """A mark that is gone beside a loss that is not: the ledger is no better."""
    before = [finding(Kind.UNDERREPLICATED_UNRECOVERABLE, 7)]
    found = compare_findings(
        before, [finding(Kind.ENTRY_WITHOUT_REPLICA, 7)], judged({7: SOUND}), judged({7: SOUND})
    )
    resolved = next(one for one in found if one.change is Change.RESOLVED)
    assert "it has ENTRY_WITHOUT_REPLICA now" == resolved.why


@pytest.mark.parametrize(
    ("kind", "bookie", "changes", "why"),
    [
        (Kind.BOOKIE_SILENT_YET_REGISTERED, ANSWERED, {}, None),
        (Kind.BOOKIE_LOST_UNNOTICED, (Registration.NONE, False), {}, None),
        (
            Kind.BOOKIE_LOST_CONTENT,
            (Registration.NONE, False),
            {},
            "the bookie is not registered any more",
        ),
        (Kind.BOOKIE_LOST_CONTENT, None, {}, "the bookie is not registered any more"),
        (
            Kind.BOOKIE_FAILING_REQUESTS,
            (Registration.READONLY, False),
            {},
            "the bookie gave the later run no answer",
        ),
        (
            Kind.BOOKIE_LOST_CONTENT,
            ANSWERED,
            {"is_partial": True},
            "the later run was of named ledgers",
        ),
        (
            Kind.BOOKIE_LOST_CONTENT,
            ANSWERED,
            {"withholds": True},
            "the later run withheld something",
        ),
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
    assert "" == compared([], before).why
    assert (
        "the earlier run was of named ledgers" == compared([], before, judged(is_partial=True)).why
    )


def test_a_missing_ledger_is_resolved_only_where_references_were_read():
    """No run lists it, so that it is not listed says nothing."""
    before = [finding(Kind.REFERENCED_LEDGER_MISSING, 70)]
    assert Change.RESOLVED is compared(before, []).change
    assert (
        Change.NOT_CHECKED_AGAIN
        is compared(before, [], later=judged(are_references_known=False)).change
    )
    assert Change.NOT_CHECKED_AGAIN is compared(before, [], later=judged(is_partial=True)).change
    assert "" == compared([], before).why


PROBED = Row(None, (), "probed")


def test_a_sample_without_the_finding_resolves_nothing():
    """The lost entry may not have been among those that were read."""
    for kind in (
        Kind.ENTRY_WITHOUT_REPLICA,
        Kind.UNDERREPLICATED_UNRECOVERABLE,
        Kind.ENTRIES_BEYOND_END,
    ):
        found = compared([finding(kind, 7)], [], later=judged({7: PROBED}))
        assert (Change.NOT_CHECKED_AGAIN, "the later run only read a sample of its entries") == (
            found.change,
            found.why,
        )
    assert (
        Change.RESOLVED
        is compared([finding(Kind.PLACEMENT_FAILED, 7)], [], later=judged({7: PROBED})).change
    )


@pytest.mark.parametrize("sides", [(PROBED, SOUND), (SOUND, PROBED)])
@pytest.mark.parametrize(
    ("kind", "entries", "change"),
    [
        (Kind.ENTRY_BELOW_ACK_QUORUM, 1, Change.STILL),
        (Kind.ENTRY_BELOW_ACK_QUORUM, 9000, Change.STILL),
        (Kind.ENTRY_BELOW_WRITE_QUORUM, 1, Change.STILL),
        (Kind.ENTRY_WITHOUT_REPLICA, 1, Change.WORSE),
    ],
)
def test_a_sample_shows_kinds_and_no_extent(
    sides: tuple[Row, Row], kind: Kind, entries: int, change: Change
):
    """Two samples are of other entries, and a weaker kind in one is not better."""
    before = finding(Kind.ENTRY_BELOW_ACK_QUORUM, 7, entries_total=2000)
    earlier, later = (judged({7: row}) for row in sides)
    found = compared([before], [finding(kind, 7, entries_total=entries)], earlier, later)
    is_weaker = kind is Kind.ENTRY_BELOW_WRITE_QUORUM
    why = (
        "a run that only reads a sample of the entries does not show that it is better"
        if is_weaker
        else ""
    )
    assert (change, why) == (found.change, found.why)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (None, "the later run could not judge all of it"),
        (
            Row(None, (Unknown.BOOKIE_SILENT,)),
            "the later run could not judge all of it (bookie_silent)",
        ),
        (Row("marked_underreplicated", ()), "it is marked under-replicated in the later run"),
    ],
)
def test_what_could_not_be_seen_is_not_better(row: Row | None, why: str):
    """A silent bookie or a mark may hide the rest; what is worse is worse all the same."""
    lost, fewer = finding(Kind.ENTRY_WITHOUT_REPLICA, 7), finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 7)
    later = judged({7: row} if row else {})
    found = compared([lost], [fewer], later=later)
    assert (Change.STILL, why) == (found.change, found.why)
    assert Change.WORSE is compared([fewer], [lost], later=later).change
    same = compared([lost], [lost], later=later)
    assert (Change.STILL, "") == (same.change, same.why)


def test_kinds_of_one_bookie_are_not_stronger_or_weaker():
    """A bookie that came back empty is no longer lost unnoticed: another problem, not a better
    one.
    """
    before, after = (
        finding(Kind.BOOKIE_LOST_UNNOTICED, "b1"),
        finding(Kind.BOOKIE_LOST_CONTENT, "b1"),
    )
    found = compare_findings([before], [after], judged(), judged(bookies={"b1": ANSWERED}))
    assert [(Change.RESOLVED, "it has BOOKIE_LOST_CONTENT now"), (Change.NEW, "")] == [
        (one.change, one.why) for one in found
    ]


@pytest.mark.parametrize(
    ("kind", "term"),
    [
        (Kind.PLACEMENT_FAILED, "placement"),
        (Kind.UNDERREPLICATED_BEYOND_GRACE, "underreplication_grace_ms"),
    ],
)
def test_a_run_with_another_setting_checks_nothing_again(kind: Kind, term: str):
    """No rule finds no violation of it."""
    earlier, later = judged({7: SOUND}, terms={term: 1}), judged({7: SOUND}, terms={term: 2})
    found = finding(kind, 7)
    assert Change.NOT_CHECKED_AGAIN is compared([found], [], earlier, later).change
    assert "another setting" in compared([], [found], earlier, later).why
    assert Change.STILL is compared([found, found], [found], earlier, later).change
    assert Change.RESOLVED is compared([finding(Kind.ENTRY_CORRUPT, 7)], [], earlier, later).change
    assert Change.RESOLVED is compared([found], [], earlier, earlier).change


def test_a_bookie_in_maintenance_is_not_resolved():
    """The later run does not page for it."""
    before = [finding(Kind.BOOKIE_LOST_UNNOTICED, "b1")]
    found = compared(before, [], later=judged(maintenance=frozenset({"b1"})))
    assert (Change.NOT_CHECKED_AGAIN, "the bookie is in planned maintenance in the later run") == (
        found.change,
        found.why,
    )


def test_a_lost_entry_log_needs_a_lister():
    """Without one nobody looks for the file."""
    before = [finding(Kind.ENTRY_LOG_LOST, "b1")]
    assert (
        Change.NOT_CHECKED_AGAIN
        is compared(before, [], later=judged(bookies={"b1": ANSWERED})).change
    )
    listed = judged(bookies={"b1": ANSWERED}, listers=frozenset({"b1"}))
    assert Change.RESOLVED is compared(before, [], later=listed).change


def test_a_bookie_that_refuses_everything_has_not_shown_its_content():
    """It accepts connections, so its greeting counts as an answer."""
    after = [finding(Kind.BOOKIE_FAILING_REQUESTS, "b1")]
    later = judged(bookies={"b1": ANSWERED})
    found = compare_findings([finding(Kind.BOOKIE_LOST_CONTENT, "b1")], after, judged(), later)
    assert {Change.NOT_CHECKED_AGAIN, Change.NEW} == {one.change for one in found}


@pytest.mark.parametrize(
    ("mark", "change", "says"),
    [
        (Kind.UNDERREPLICATED_UNRECOVERABLE, Change.STILL, "which stands alone"),
        (Kind.UNDERREPLICATED_BEYOND_GRACE, Change.NOT_CHECKED_AGAIN, "beyond grace now"),
    ],
)
def test_a_mark_with_a_finding_is_not_within_grace(mark: Kind, change: Change, says: str):
    """It excuses nothing, and a loss that is reported with the mark is still there."""
    later = judged({7: Row("marked_underreplicated", ())})
    found = compare_findings(
        [finding(Kind.ENTRY_WITHOUT_REPLICA, 7)], [finding(mark, 7)], judged({7: SOUND}), later
    )
    (entry,) = [one for one in found if one.subjects.family == "entry"]
    assert change is entry.change and says in entry.why


def test_findings_on_the_cluster_are_counted_by_their_facts():
    """They hit no entries: marks, orphans, and ledgers that are gone."""
    for kind, name, step in (
        (Kind.MARK_WITHOUT_LEDGER, "marks", 1),
        (Kind.LEDGER_ORPHANED, "ledgers", 1),
        (Kind.LEDGER_POPULATION_DROPPED, "ledgers", -1),
    ):
        before = finding(kind, "cluster")
        after = before | {"facts": before["facts"] | {name: before["facts"][name] + step}}
        assert [Change.WORSE, Change.BETTER] == [
            compared([before], [after]).change,
            compared([after], [before]).change,
        ], kind


def test_a_drop_that_was_accepted_is_said():
    """The ledgers did not come back."""
    before = [finding(Kind.LEDGER_POPULATION_DROPPED, "cluster")]
    assert "the lower number was accepted" in compared(before, []).why
    again = compared(before, [], later=judged(baseline="run-1"))
    assert (Change.RESOLVED, "") == (again.change, again.why)


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
    bookies = [finding(Kind.BOOKIE_SILENT_YET_REGISTERED, bookie) for bookie in ("b3", "b1", "b2")]
    assert ["b1", "b2", "b3"] == [
        one.subjects.bookie_id for one in compare_findings([], bookies, judged(), judged())
    ]

"""What became of a finding between two runs. A later run that did not check it resolves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from support.report_stories import changed, finding

from auditor.after.compared_finding import ComparedFinding
from auditor.after.differences import Change, Difference, compare_findings
from auditor.after.rechecks import Judged, Row
from auditor.model.cluster import Registration
from auditor.model.finding import Kind, Severity
from auditor.model.finding_record import FindingRecord, Owner
from auditor.model.verdict import Unknown

SOUND = Row(None, ())
ANSWERED = (Registration.WRITABLE, True)


def judged_run(
    rows: Mapping[int, Row] | None = None,
    bookies: Mapping[str, tuple[Registration, bool]] | None = None,
    **changes: Any,
) -> Judged:
    """Return a whole run that judged these ledgers and saw these bookies."""
    given = {"is_partial": False, "withholds": False, "are_references_known": True} | changes
    return Judged(rows=rows or {}, bookies=bookies or {}, **given)


def compare(
    before: list[FindingRecord], after: list[FindingRecord], earlier: Judged, later: Judged
) -> list[Difference]:
    old, new = (map(ComparedFinding.of, side) for side in (before, after))
    return compare_findings(old, new, earlier, later)


def compare_one(
    before: list[Any], after: list[Any], earlier: Judged | None = None, later: Judged | None = None
) -> Difference:
    """Return the one difference between two runs. Both judged ledger 7, unless given otherwise."""
    (found,) = compare(
        before,
        after,
        earlier or judged_run({7: SOUND}),
        later or judged_run({7: SOUND}),
    )
    return found


def test_the_same_finding_in_both_runs_is_still_there():
    """It needs no explanation: `why` is empty."""
    found = compare_one(
        [finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 7)], [finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 7)]
    )
    assert (Change.STILL, "", Severity.WARNING) == (found.change, found.why, found.severity)


def test_a_difference_has_what_both_runs_say():
    """The severity is that of the later run, or of the earlier one if the finding is gone. Each
    side has the ids of its findings and the owner.
    """
    before, after = (
        finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 7),
        finding(Kind.ENTRY_WITHOUT_REPLICA, 7),
    )
    found = compare_one([before], [changed(after, owner={"name": "x"})])
    assert (Change.WORSE, "", Severity.CRITICAL) == (found.change, found.why, found.severity)
    assert found.before is not None and found.after is not None
    assert ((before.id,), (after.id,)) == (found.before.ids, found.after.ids)
    assert (before.owner, Owner(name="x")) == (found.before.owner, found.after.owner)
    assert Severity.WARNING is compare_one([before], []).severity


def test_the_strongest_kind_of_a_family_counts():
    """Strength is the order of the catalogue, not of the alphabet."""
    weak, strong = finding(Kind.ENTRY_BELOW_ACK_QUORUM, 7), finding(Kind.ENTRY_WITHOUT_REPLICA, 7)
    found = compare_one([], [weak, strong])
    assert found.after is not None
    assert (Kind.ENTRY_WITHOUT_REPLICA, (weak.id, strong.id)) == (
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
    """One entry without a replica is worse than any number of entries below their ack quorum."""
    before = finding(Kind.ENTRY_BELOW_ACK_QUORUM, 7, entries_total=2000)
    assert change is compare_one([before], [finding(kind, 7, entries_total=entries)]).change


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
    """It does even if the number of entries is the same. A bookie that lacks less does not make it
    better.
    """
    before = finding(
        Kind.ENTRY_WITHOUT_REPLICA, 7, entries_total=1, missing_on={"b1": [[5, 5]], "b2": [[5, 5]]}
    )
    found = compare_one([before], [changed(before, entries_total=entries, missing_on=lacking)])
    assert change is found.change
    assert ("did not lack" in found.why) or change is not Change.WORSE


def test_a_range_above_the_last_stored_one_is_not_compared():
    """A finding stores twenty ranges for each bookie. The bookie may have lacked entries above them
    before.
    """
    ranges = [[2 * n, 2 * n] for n in range(20)]
    before = finding(Kind.ENTRY_WITHOUT_REPLICA, 7, missing_on={"b1": ranges})
    later = changed(before, missing_on={"b1": [*ranges[1:], [40, 40]]})
    assert Change.STILL is compare_one([before], [later]).change
    assert (
        Change.WORSE
        is compare_one(
            [before], [changed(before, missing_on={"b1": [*ranges[:-1], [37, 38]]})]
        ).change
    )
    grown = changed(before, missing_on={"b1": [*ranges[:-1], [38, 39]]})
    assert Change.WORSE is compare_one([before], [grown]).change, (
        "the range was stored whole, and entry 39 is new"
    )


def test_what_bookies_lack_of_a_marked_ledger_is_not_compared():
    """Replication moves its copies: only the number of entries counts."""
    before = finding(Kind.UNDERREPLICATED_UNRECOVERABLE, 7, missing_on={"b1": [[5, 5]]})
    later = changed(before, missing_on={"b1": [[5, 5]], "b2": [[5, 5]]})
    assert Change.STILL is compare_one([before], [later]).change


def test_placement_counts_segments():
    """Placement has one finding for each segment. Those of the strongest kind are counted."""
    failed, soft = finding(Kind.PLACEMENT_FAILED, 7), finding(Kind.PLACEMENT_SOFT, 7)
    found = compare_one([failed, failed, soft], [failed, soft, soft])
    assert found.before is not None and found.after is not None
    assert (Change.BETTER, 2, 1) == (found.change, found.before.extent, found.after.extent)


def test_families_of_one_ledger_are_matched_apart():
    """A new loss beside an old placement is new, and the placement is still there."""
    old = [finding(Kind.PLACEMENT_FAILED, 7)]
    found = compare(
        old, [*old, finding(Kind.ENTRY_CORRUPT, 7)], judged_run({7: SOUND}), judged_run({7: SOUND})
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
        (Row("open", ()), False, "it was open in the earlier run"),
        (Row(None, (), "probed"), False, "the earlier run only read a sample of its entries"),
        (Row(None, (), "listed"), False, ""),
    ],
)
def test_a_new_finding_says_whether_the_earlier_run_could_have_had_it(
    row: Row | None, is_partial: bool, why: str
):
    """New in the results is not always new in the cluster."""
    earlier = judged_run({} if row is None else {7: row}, is_partial=is_partial)
    found = compare_one([], [finding(Kind.ENTRY_WITHOUT_REPLICA, 7)], earlier)
    assert (Change.NEW, why) == (found.change, found.why)


@pytest.mark.parametrize(
    ("row", "is_partial", "why"),
    [
        (None, False, "the later run did not list this ledger"),
        (None, True, "the later run did not name this ledger"),
        (Row("deleted", ()), False, "the ledger was not there when the later run read it last"),
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
    """A silent bookie, a mark within grace or a deleted ledger does not resolve a finding."""
    later = judged_run({} if row is None else {7: row}, is_partial=is_partial)
    found = compare_one([finding(Kind.ENTRY_BELOW_ACK_QUORUM, 7)], [], later=later)
    assert (Change.NOT_CHECKED_AGAIN, why) == (found.change, found.why)


def test_a_finding_is_resolved_when_the_ledger_was_judged_without_it():
    """Nothing has to be added to it: `why` is empty."""
    found = compare_one([finding(Kind.ENTRY_BELOW_ACK_QUORUM, 7)], [])
    assert (Change.RESOLVED, "") == (found.change, found.why)


def test_resolved_says_that_the_ledger_is_exempt():
    """The later run exempts the ledger, for example because it is open."""
    found = compare_one(
        [finding(Kind.ENTRY_BELOW_ACK_QUORUM, 7)], [], later=judged_run({7: Row("open", ())})
    )
    assert (Change.RESOLVED, "exempt now: open") == (found.change, found.why)


def test_what_another_ledger_has_is_not_reported_on_this_one():
    """Neither is a finding on a bookie, nor a finding of another kind on the cluster."""
    before = [finding(Kind.ENTRY_BELOW_ACK_QUORUM, 7), finding(Kind.MARK_WITHOUT_LEDGER, "cluster")]
    after = [finding(Kind.ENTRY_WITHOUT_REPLICA, 8), finding(Kind.LEDGER_ORPHANED, "cluster")]
    after.append(finding(Kind.BOOKIE_LOST_UNNOTICED, "b1"))
    found = compare(
        before, after, judged_run({7: SOUND, 8: SOUND}), judged_run({7: SOUND, 8: SOUND})
    )
    assert ["", ""] == [one.why for one in found if one.change is Change.RESOLVED]


def test_resolved_names_what_the_subject_has_now():
    """The mark is gone, but the ledger has lost an entry and is no better."""
    before = [finding(Kind.UNDERREPLICATED_UNRECOVERABLE, 7)]
    found = compare(
        before,
        [finding(Kind.ENTRY_WITHOUT_REPLICA, 7)],
        judged_run({7: SOUND}),
        judged_run({7: SOUND}),
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
    """The bookie answered the later run. BOOKIE_LOST_UNNOTICED needs no answer: it depends on the
    marks of the ledgers.
    """
    later = judged_run(bookies={"b1": bookie} if bookie else {}, **changes)
    found = compare_one([finding(kind, "b1")], [], later=later)
    assert (Change.RESOLVED if why is None else Change.NOT_CHECKED_AGAIN) is found.change
    assert found.why.startswith(why or "") and (why is not None or found.why == "")


def test_a_finding_on_the_cluster_needs_a_whole_run():
    """Marks without ledgers are not looked for by a run of named ledgers."""
    before = [finding(Kind.MARK_WITHOUT_LEDGER, "cluster")]
    assert Change.RESOLVED is compare_one(before, []).change
    assert (
        Change.NOT_CHECKED_AGAIN
        is compare_one(before, [], later=judged_run(is_partial=True)).change
    )
    assert "" == compare_one([], before).why
    assert (
        "the earlier run was of named ledgers"
        == compare_one([], before, judged_run(is_partial=True)).why
    )


def test_a_missing_ledger_is_resolved_only_where_references_were_read():
    """No run lists a missing ledger. That the later run does not list it shows nothing."""
    before = [finding(Kind.REFERENCED_LEDGER_MISSING, 70)]
    assert Change.RESOLVED is compare_one(before, []).change
    assert (
        Change.NOT_CHECKED_AGAIN
        is compare_one(before, [], later=judged_run(are_references_known=False)).change
    )
    assert (
        Change.NOT_CHECKED_AGAIN
        is compare_one(before, [], later=judged_run(is_partial=True)).change
    )
    assert "" == compare_one([], before).why


PROBED = Row(None, (), "probed")


def test_a_sample_without_the_finding_resolves_nothing():
    """The lost entry may not have been among those that were read."""
    for kind in (
        Kind.ENTRY_WITHOUT_REPLICA,
        Kind.UNDERREPLICATED_UNRECOVERABLE,
        Kind.ENTRIES_BEYOND_END,
    ):
        found = compare_one([finding(kind, 7)], [], later=judged_run({7: PROBED}))
        assert (Change.NOT_CHECKED_AGAIN, "the later run only read a sample of its entries") == (
            found.change,
            found.why,
        )
    assert (
        Change.RESOLVED
        is compare_one(
            [finding(Kind.PLACEMENT_FAILED, 7)], [], later=judged_run({7: PROBED})
        ).change
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
    """Two samples read different entries: their numbers are not compared, and a weaker kind is not
    better.
    """
    before = finding(Kind.ENTRY_BELOW_ACK_QUORUM, 7, entries_total=2000)
    earlier, later = (judged_run({7: row}) for row in sides)
    found = compare_one([before], [finding(kind, 7, entries_total=entries)], earlier, later)
    is_weaker = kind is Kind.ENTRY_BELOW_WRITE_QUORUM
    why = (
        "a run that only reads a sample of the entries does not show that it is better"
        if is_weaker
        else ""
    )
    assert (change, why) == (found.change, found.why)


def test_a_sample_of_entries_still_shows_in_how_many_segments_placement_fails():
    """Placement is judged by metadata, and no entry is needed for it."""
    failed = finding(Kind.PLACEMENT_FAILED, 7)
    found = compare_one(
        [failed, failed], [failed], judged_run({7: PROBED}), judged_run({7: PROBED})
    )
    assert Change.BETTER is found.change


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
    """A silent bookie or a mark may hide other losses. A stronger kind is worse nevertheless."""
    lost, fewer = finding(Kind.ENTRY_WITHOUT_REPLICA, 7), finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 7)
    later = judged_run({7: row} if row else {})
    found = compare_one([lost], [fewer], later=later)
    assert (Change.STILL, why) == (found.change, found.why)
    assert Change.WORSE is compare_one([fewer], [lost], later=later).change
    same = compare_one([lost], [lost], later=later)
    assert (Change.STILL, "") == (same.change, same.why)


def test_kinds_of_one_bookie_are_not_stronger_or_weaker():
    """A bookie that came back empty is no longer lost unnoticed, but has another problem."""
    before, after = (
        finding(Kind.BOOKIE_LOST_UNNOTICED, "b1"),
        finding(Kind.BOOKIE_LOST_CONTENT, "b1"),
    )
    found = compare([before], [after], judged_run(), judged_run(bookies={"b1": ANSWERED}))
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
    """A run without a placement rule, for example, finds no violation of it. Kinds that do not
    depend on the setting are resolved.
    """
    earlier, later = (
        judged_run({7: SOUND}, terms={term: 1}),
        judged_run({7: SOUND}, terms={term: 2}),
    )
    found = finding(kind, 7)
    assert Change.NOT_CHECKED_AGAIN is compare_one([found], [], earlier, later).change
    assert "another setting" in compare_one([], [found], earlier, later).why
    assert Change.STILL is compare_one([found, found], [found], earlier, later).change
    loss = finding(Kind.ENTRY_WITHOUT_REPLICA, 7)
    assert Change.RESOLVED is compare_one([loss], [], earlier, later).change
    assert Change.RESOLVED is compare_one([found], [], earlier, earlier).change


@pytest.mark.parametrize(
    ("drop", "change"),
    [(50, Change.RESOLVED), (0, Change.NOT_CHECKED_AGAIN), (80, Change.NOT_CHECKED_AGAIN)],
)
def test_a_run_that_allows_another_drop_does_not_resolve_a_drop(drop: int, change: Change):
    """Both runs were compared with the same number of ledgers."""
    before = finding(Kind.LEDGER_POPULATION_DROPPED, "cluster")
    earlier = judged_run(baseline="run-1", terms={"population_drop": 50})
    later = judged_run(baseline="run-1", terms={"population_drop": drop})
    found = compare_one([before], [], earlier, later)
    why = "the later run had another setting (population_drop)"
    assert (change, "" if change is Change.RESOLVED else why) == (found.change, found.why)


def test_an_accepted_number_of_ledgers_is_not_another_setting():
    """The later run was compared with no number of ledgers, and has no drop that is allowed."""
    before = finding(Kind.LEDGER_POPULATION_DROPPED, "cluster")
    earlier = judged_run(baseline="run-1", terms={"population_drop": 50})
    for later in (judged_run(), judged_run(terms={"population_drop": None})):
        found = compare_one([before], [], earlier, later)
        assert Change.RESOLVED is found.change and "was accepted" in found.why
    first = judged_run(terms={"population_drop": None})
    assert "" == compare_one([], [before], first, earlier).why


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (
            SOUND,
            "its corrupt copies were not all read again: a list does not show whether the bytes are"
            " right",
        ),
        (Row(None, (), "probed"), "the later run only read a sample of its entries"),
    ],
)
def test_a_corrupt_copy_is_resolved_only_where_it_was_read_again(row: Row, why: str):
    """A list names the entry, whatever its bytes are."""
    before = [finding(Kind.ENTRY_CORRUPT, 7)]
    found = compare_one(before, [], later=judged_run({7: row}))
    assert (Change.NOT_CHECKED_AGAIN, why) == (found.change, found.why)
    read = compare_one(before, [], later=judged_run({7: row}, reread=frozenset({7})))
    assert (Change.RESOLVED, "") == (read.change, read.why)
    other = judged_run({7: row}, reread=frozenset({8}))
    assert Change.NOT_CHECKED_AGAIN is compare_one(before, [], later=other).change


def test_overdue_reads_are_resolved_only_by_a_run_that_counted_ages():
    """Not by one without a period or without spot reads."""
    before = [finding(Kind.VERIFICATION_OVERDUE, "cluster", facts={"bookies": 1})]
    found = compare_one(before, [], later=judged_run())
    assert Change.NOT_CHECKED_AGAIN is found.change and "did not count how long" in found.why
    assert (
        Change.RESOLVED is compare_one(before, [], later=judged_run(are_ages_counted=True)).change
    )


def test_changed_metadata_is_resolved_only_where_it_is_as_it_was():
    """The later run may have compared with a run that read the changed metadata already."""
    before = [finding(Kind.CLOSED_METADATA_CHANGED, 7)]
    found = compare_one(before, [], later=judged_run({7: SOUND}))
    assert Change.NOT_CHECKED_AGAIN is found.change
    assert "did not read its metadata as it was" in found.why
    found = compare_one(before, [], later=judged_run({7: SOUND}, put_back=frozenset({7})))
    assert (Change.RESOLVED, "") == (found.change, found.why)


def test_corruption_that_was_not_read_again_is_not_better():
    """The later run found a weaker kind on the ledger, and did not read the corrupt copies."""
    before = [finding(Kind.ENTRY_CORRUPT, 7)]
    after = [finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 7)]
    found = compare_one(before, after)
    assert Change.STILL is found.change and "not all read again" in found.why
    reread = judged_run({7: SOUND}, reread=frozenset({7}))
    assert Change.BETTER is compare_one(before, after, later=reread).change


@pytest.mark.parametrize("kind", [Kind.BOOKIE_LOST_UNNOTICED, Kind.BOOKIE_LOST_CONTENT])
def test_a_run_that_no_bookie_answered_resolves_no_finding_on_a_bookie(kind: Kind):
    """The fault lies with our network, and the run judged no bookie. Marks are in ZooKeeper: a
    finding on them is resolved.
    """
    later = judged_run(bookies={"b1": (Registration.NONE, False)}, nobody_answered=True)
    found = compare_one([finding(kind, "b1")], [], later=later)
    assert (Change.NOT_CHECKED_AGAIN, "no bookie answered the later run") == (
        found.change,
        found.why,
    )
    marks = [finding(Kind.MARK_WITHOUT_LEDGER, "cluster")]
    assert Change.RESOLVED is compare_one(marks, [], later=later).change


def test_a_bookie_whose_content_is_unknown_is_not_resolved():
    """Its greeting does not show what it holds. Other findings on it are resolved, and so is this
    one on a bookie of which the later run knows the content.
    """
    later = judged_run(bookies={"b1": ANSWERED}, content_unknown={"b1": "it answered for 0 of 9"})
    found = compare_one([finding(Kind.BOOKIE_LOST_CONTENT, "b1")], [], later=later)
    assert (Change.NOT_CHECKED_AGAIN, "it answered for 0 of 9") == (found.change, found.why)
    known = judged_run(bookies={"b1": ANSWERED}, content_unknown={"b2": "it answered for 0 of 9"})
    lost = [finding(Kind.BOOKIE_LOST_CONTENT, "b1")]
    assert Change.RESOLVED is compare_one(lost, [], later=known).change
    silent = [finding(Kind.BOOKIE_SILENT_YET_REGISTERED, "b1")]
    assert Change.RESOLVED is compare_one(silent, [], later=later).change


def test_a_bookie_in_maintenance_is_not_resolved():
    """The later run does not accuse a bookie in planned maintenance."""
    before = [finding(Kind.BOOKIE_LOST_UNNOTICED, "b1")]
    found = compare_one(before, [], later=judged_run(maintenance=frozenset({"b1"})))
    assert (Change.NOT_CHECKED_AGAIN, "the bookie is in planned maintenance in the later run") == (
        found.change,
        found.why,
    )


def test_a_lost_entry_log_needs_a_lister():
    """Only a lister looks for the file of an entry log."""
    before = [finding(Kind.ENTRY_LOG_LOST, "b1")]
    assert (
        Change.NOT_CHECKED_AGAIN
        is compare_one(before, [], later=judged_run(bookies={"b1": ANSWERED})).change
    )
    listed = judged_run(bookies={"b1": ANSWERED}, listers=frozenset({"b1"}))
    assert Change.RESOLVED is compare_one(before, [], later=listed).change


def test_a_bookie_that_refuses_everything_has_not_shown_its_content():
    """Its greeting counts as an answer, but it answers no request about a ledger."""
    after = [finding(Kind.BOOKIE_FAILING_REQUESTS, "b1")]
    later = judged_run(bookies={"b1": ANSWERED})
    found = compare([finding(Kind.BOOKIE_LOST_CONTENT, "b1")], after, judged_run(), later)
    assert {Change.NOT_CHECKED_AGAIN, Change.NEW} == {one.change for one in found}


@pytest.mark.parametrize(
    ("mark", "change", "says"),
    [
        (Kind.UNDERREPLICATED_UNRECOVERABLE, Change.STILL, "which stands alone"),
        (Kind.UNDERREPLICATED_BEYOND_GRACE, Change.NOT_CHECKED_AGAIN, "beyond grace now"),
    ],
)
def test_a_mark_with_a_finding_is_not_within_grace(mark: Kind, change: Change, says: str):
    """The mark excuses nothing. An unrecoverable mark replaces the finding on the loss, which is
    still there. Beside a mark beyond grace the loss was not checked.
    """
    later = judged_run({7: Row("marked_underreplicated", ())})
    found = compare(
        [finding(Kind.ENTRY_WITHOUT_REPLICA, 7)], [finding(mark, 7)], judged_run({7: SOUND}), later
    )
    (entry,) = [one for one in found if one.subjects.family == "entry"]
    assert change is entry.change and says in entry.why


def test_findings_on_the_cluster_are_counted_by_their_facts():
    """They name no entries. More marks, more orphans or fewer ledgers are worse."""
    for kind, name, step in (
        (Kind.MARK_WITHOUT_LEDGER, "marks", 1),
        (Kind.LEDGER_ORPHANED, "ledgers", 1),
        (Kind.LEDGER_POPULATION_DROPPED, "ledgers", -1),
    ):
        before = finding(kind, "cluster")
        after = changed(
            before, facts=before.facts.values | {name: before.facts.values[name] + step}
        )
        assert [Change.WORSE, Change.BETTER] == [
            compare_one([before], [after]).change,
            compare_one([after], [before]).change,
        ], kind


def test_a_drop_that_was_accepted_is_said():
    """The lower number of ledgers was accepted as the new baseline. With the old baseline the
    ledgers must have come back.
    """
    before = [finding(Kind.LEDGER_POPULATION_DROPPED, "cluster")]
    assert "the lower number was accepted" in compare_one(before, []).why
    again = compare_one(before, [], later=judged_run(baseline="run-1"))
    assert (Change.RESOLVED, "") == (again.change, again.why)


def test_the_most_severe_comes_first_then_the_kind_then_the_ledger():
    """This is the order of the report. Bookies are sorted by name."""
    after = [
        finding(Kind.LEDGER_STUCK, 1),
        finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 2),
        finding(Kind.BOOKIE_LOST_UNNOTICED, "b1"),
        finding(Kind.ENTRY_WITHOUT_REPLICA, 9),
        finding(Kind.ENTRY_WITHOUT_REPLICA, 3),
    ]
    found = compare([], after, judged_run(), judged_run())
    assert [3, 9, None, 2, 1] == [one.subjects.ledger_id for one in found]
    bookies = [finding(Kind.BOOKIE_SILENT_YET_REGISTERED, bookie) for bookie in ("b3", "b1", "b2")]
    assert ["b1", "b2", "b3"] == [
        one.subjects.bookie_id for one in compare([], bookies, judged_run(), judged_run())
    ]

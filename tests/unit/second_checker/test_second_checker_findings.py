"""The second checker's findings on one ledger: the kind, the worst entry, and what a mark and
metadata show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from support.stories import (
    GRACE_MS,
    LEDGER,
    NOW_MS,
    Bookie,
    State,
    Story,
    drive,
    groups,
)

from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.cluster import Surroundings
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.facts import CorruptFacts, EntryFacts
from auditor.model.finding import Kind
from auditor.model.ledger import LedgerRecord, LedgerState, Mark, RecordStatus, ZnodeStamp
from auditor.model.placement import PlacementRule, Policy
from auditor.model.verdict import Exempt, Standing
from auditor.sandbox.notation import ledger
from auditor.second_checker.agreement import differences, worst_entry_of
from auditor.second_checker.copies import Entries
from auditor.second_checker.findings import placement_findings
from auditor.second_checker.metadata import exemption, is_beyond_grace, is_stuck
from auditor.second_checker.opinion import Opinion, judge_entry_by_entry
from auditor.second_checker.schedule import stretches

AROUND = Surroundings(writable=frozenset({"b1", "b2", "b3", "x1"}))
TERMS = Terms(NOW_MS, GRACE_MS, 16, 5, stranded_entries_max=16, around=AROUND)

Lists = Mapping[str, set[int]]
Reads = Mapping[tuple[str, int], ReadStatus]


def opinion(
    text: str,
    lists: Lists,
    reads: Reads,
    *,
    terms: Terms = TERMS,
    looks: int = 2,
    mark: Mark | None = None,
) -> Opinion:
    """Return the opinion on bookies that list these entries, and were read with these results, at
    each of so many looks.
    """
    answers = {
        b: Answer(b, LEDGER, 0, NOW_MS, AnswerStatus.HELD, groups(held))
        for b, held in lists.items()
    }
    read = {(b, e): EntryRead(b, LEDGER, e, 0, NOW_MS, status) for (b, e), status in reads.items()}
    record = LedgerRecord(
        LEDGER, 0, NOW_MS, RecordStatus.FOUND, ZnodeStamp(1, 0, NOW_MS), ledger(text), mark=mark
    )
    return judge_entry_by_entry(
        LedgerEvidence(LEDGER, (Look(record, answers, read),) * looks), terms
    )


def in_vain(*copies: tuple[str, int]) -> Reads:
    return dict.fromkeys(copies, ReadStatus.NO_ENTRY)


ALL = set(range(6))


@pytest.mark.parametrize(
    ("lacking", "kind"),
    [
        (["b1"], Kind.ENTRY_BELOW_WRITE_QUORUM),
        (["b1", "b2"], Kind.ENTRY_BELOW_ACK_QUORUM),
        (["b1", "b2", "b3"], Kind.ENTRY_WITHOUT_REPLICA),
    ],
)
def test_the_kind_follows_from_the_copies_that_can_exist(lacking: list[str], kind: Kind) -> None:
    """Of three written and two acknowledged copies: fewer than three, fewer than two, or none can
    exist.
    """
    lists = {bookie: ALL - {4} if bookie in lacking else ALL for bookie in ("b1", "b2", "b3")}
    found = opinion(
        "e3 w3 a2 0:[b1 b2 b3] closed 5", lists, in_vain(*((bookie, 4) for bookie in lacking))
    )
    assert [(kind, 4, Entries(((4, 4),), 1))] == [
        (one.kind, worst_entry_of(one), one.entries) for one in found.findings
    ]


def test_of_a_marked_ledger_a_loss_is_reported_alone() -> None:
    """A loss stands alone, whatever the mark excuses, with the lost entries."""
    lists = {"b1": ALL - {4}, "b2": ALL - {2, 4}}
    reads = in_vain(("b1", 4), ("b2", 2), ("b2", 4))
    found = opinion(
        "e2 w2 a1 0:[b1 b2] closed 5", lists, reads, mark=Mark(NOW_MS - GRACE_MS - 1, None)
    )
    expected = (Kind.UNDERREPLICATED_UNRECOVERABLE, Entries(((4, 4),), 1), 4)
    assert [expected] == [(one.kind, one.entries, worst_entry_of(one)) for one in found.findings]


def test_of_entries_equally_lost_the_lowest_is_the_worst() -> None:
    """Entries 1 and 4 each lack a copy."""
    lists = {"b1": ALL, "b2": ALL - {1, 4}, "b3": ALL}
    (finding,) = opinion(
        "e3 w3 a2 0:[b1 b2 b3] closed 5", lists, in_vain(("b2", 1), ("b2", 4))
    ).findings
    assert 1 == worst_entry_of(finding)


def test_of_entries_that_lost_as_many_copies_that_with_fewer_confirmed_is_the_worst() -> None:
    """Entries 1 and 4 each lack a copy, and another copy of entry 4 is unknown."""
    lists = {"b1": ALL - {4}, "b2": ALL - {1, 4}, "b3": ALL}
    reads = {**in_vain(("b2", 1), ("b2", 4)), ("b1", 4): ReadStatus.TIMED_OUT}
    (finding,) = opinion("e3 w3 a1 0:[b1 b2 b3] closed 5", lists, reads).findings
    assert finding.copies is not None
    assert (4, 1, 1) == (worst_entry_of(finding), finding.copies.confirmed, finding.copies.unknown)


@pytest.mark.parametrize(
    ("lacks", "reads", "at_tail"),
    [
        ({5}, {}, True),
        ({4, 5}, {}, True),
        ({4}, {}, False),
        (ALL, {}, False),
        ({4, 5}, {("b3", 4): ReadStatus.TIMED_OUT}, False),
    ],
)
@pytest.mark.parametrize(("ack", "of_others"), [(2, {}), (1, {"b2": ALL - {5}})])
def test_only_the_end_is_missing_where_all_before_it_is_there_and_nothing_is_unknown(
    ack: int, of_others: Lists, lacks: set[int], reads: Reads, at_tail: bool
) -> None:
    """This holds for each bookie that lacks an entry, and the ack quorum of copies is enough."""
    lists = {"b1": ALL, "b2": ALL, **of_others, "b3": ALL - lacks}
    absent = in_vain(*((b, e) for b, held in lists.items() for e in ALL - held))
    judged = opinion(f"e3 w3 a{ack} 0:[b1 b2 b3] closed 5", lists, {**absent, **reads})
    (finding,) = judged.findings
    assert isinstance(finding.facts, EntryFacts) and at_tail is finding.facts.at_tail


@pytest.mark.parametrize(("probes", "at_tail"), [(1, False), (5, True)])
def test_only_the_end_is_missing_on_a_bookie_that_cannot_list_if_the_rest_was_read(
    probes: int, at_tail: bool
) -> None:
    """Its sample leaves other entries assumed. It has all but the last one."""
    unable = Bookie(frozenset(range(3)), answer=AnswerStatus.UNSUPPORTED)
    whole = dict.fromkeys(("b1", "b2"), Bookie(frozenset(range(4))))
    metadata = ledger("e3 w3 a2 0:[b1 b2 b3] closed 3")
    state = State(metadata, {**whole, "b3": unable})
    story = Story("tail", (state,), more_terms={"probe_entries": probes})
    driven = drive(story)
    (finding,) = judge_entry_by_entry(driven.evidence, story.terms).findings
    assert isinstance(finding.facts, EntryFacts) and at_tail is finding.facts.at_tail
    assert () == differences(driven.step.verdict, driven.evidence, story.terms)


def test_a_gone_bookie_that_should_hold_no_entry_is_not_reported() -> None:
    """The first segment has one entry, which belongs on b1 alone."""
    gone = Bookie(answer=AnswerStatus.UNREGISTERED, is_forgotten=True)
    empty = dict.fromkeys(("b1", "b4", "b5"), Bookie())
    metadata = ledger("e3 w1 a1 0:[b1 b2 b3] 1:[b1 b4 b5] closed 9")
    story = Story("short", (State(metadata, {**empty, "b2": Bookie(), "b3": gone}),))
    driven = drive(story)
    (finding,) = judge_entry_by_entry(driven.evidence, story.terms).findings
    assert isinstance(finding.facts, EntryFacts) and () == finding.facts.gone
    assert () == differences(driven.step.verdict, driven.evidence, story.terms)


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        ({1, 4}, Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE),
        ({4}, Kind.ENTRY_WITHOUT_REPLICA),
        (set(), Kind.ENTRY_WITHOUT_REPLICA),
    ],
)
def test_each_lost_entry_that_is_looked_for_elsewhere_must_be_found_there(
    found: set[int], kind: Kind
) -> None:
    """Bookie x1, which no ensemble names, was read for entries 1 and 4."""
    lists = {bookie: ALL - {1, 4} for bookie in ("b1", "b2")}
    reads = in_vain(*((bookie, entry) for bookie in ("b1", "b2") for entry in (1, 4)))
    elsewhere = {
        ("x1", entry): ReadStatus.PRESENT if entry in found else ReadStatus.NO_ENTRY
        for entry in (1, 4)
    }
    assert [kind] == [
        one.kind
        for one in opinion("e2 w2 a1 0:[b1 b2] closed 5", lists, {**reads, **elsewhere}).findings
    ]


def test_what_is_open_of_placement_is_reported_on_any_segment() -> None:
    """The first segment has too many members without location to be tried, the second holds or
    fails by one, the third holds.
    """
    text = "e5 w5 a3 0:[b1 b2 n1 n2 n3] 5:[b1 b3 b4 b5 n1] 9:[b1 b2 b3 b4 b5] closed 19"
    metadata = ledger(text)
    around = Surroundings(
        locations={"b1": "/r1", "b2": "/r2", "b3": "/r1", "b4": "/r1", "b5": "/r1"}
    )
    terms = replace(TERMS, placement=PlacementRule(Policy.RACK), around=around)
    assert ([], {0}, True) == placement_findings(metadata, stretches(metadata), terms)


def test_a_placement_finding_names_the_write_sets_that_were_too_open_to_try() -> None:
    """One write set is in one rack. Others have three members without location."""
    metadata = ledger("e9 w5 a2 0:[b1 b3 b4 b5 b6 b2 n1 n2 n3] closed 19")
    around = Surroundings(
        locations={"b2": "/r2", **dict.fromkeys(("b1", "b3", "b4", "b5", "b6"), "/r1")}
    )
    terms = replace(TERMS, placement=PlacementRule(Policy.RACK), around=around)
    (finding,), _, _ = placement_findings(metadata, stretches(metadata), terms)
    assert (Kind.PLACEMENT_FAILED, {4, 5}) == (finding.kind, finding.left_open)


def test_a_corrupt_copy_outside_the_write_set_is_not_among_the_corrupt_copies() -> None:
    """Entry 4 has a wrong digest on b1, and on a bookie that was only searched."""
    reads = {("b1", 4): ReadStatus.CORRUPT, ("x1", 4): ReadStatus.CORRUPT}
    lists = {"b1": ALL, "b2": ALL, "x1": ALL}
    found = opinion("e2 w2 a1 0:[b1 b2] closed 5", lists, reads).findings
    (facts,) = (one.facts for one in found if one.kind is Kind.ENTRY_CORRUPT)
    assert isinstance(facts, CorruptFacts)
    assert (("b1", (4,)),) == facts.copies


def test_entries_beyond_the_end_are_those_that_any_bookie_lists() -> None:
    """One bookie lists one entry more."""
    lists = {"b1": ALL | {6, 7}, "b2": ALL | {6}}
    found = opinion("e2 w2 a2 0:[b1 b2] closed 5", lists, {}).findings
    assert [(Kind.ENTRIES_BEYOND_END, Entries(((6, 7),), 2))] == [
        (one.kind, one.entries) for one in found
    ]


@pytest.mark.parametrize(
    ("age_ms", "expected"), [(GRACE_MS, []), (GRACE_MS + 1, [Kind.PLACEMENT_FAILED])]
)
@pytest.mark.parametrize("lists", [{}, {"b1": ALL, "b2": ALL}])
def test_a_mark_excuses_placement_within_its_grace(
    age_ms: int, expected: list[Kind], lists: Lists
) -> None:
    """Both bookies are in one rack. It does not matter whether a bookie was asked."""
    around = Surroundings(locations={"b1": "/r1", "b2": "/r1"})
    terms = replace(TERMS, placement=PlacementRule(Policy.RACK), around=around)
    found = opinion(
        "e2 w2 a1 0:[b1 b2] closed 5", lists, {}, terms=terms, mark=Mark(NOW_MS - age_ms, None)
    )
    assert expected == [
        one.kind for one in found.findings if one.kind is not Kind.UNDERREPLICATED_BEYOND_GRACE
    ]
    assert Exempt.MARKED_UNDERREPLICATED is found.exempt


X1, X2, B3 = "x1", "x2", "b3"


@pytest.mark.parametrize(
    ("elsewhere", "kind"),
    [
        ({(X1, 1): (1, ReadStatus.PRESENT)}, Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE),
        (
            {(X2, 1): (0, ReadStatus.PRESENT), (X1, 4): (0, ReadStatus.PRESENT)},
            Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE,
        ),
        ({(X1, 4): (1, ReadStatus.PRESENT)}, Kind.ENTRY_WITHOUT_REPLICA),
        (
            {(X1, 1): (1, ReadStatus.PRESENT), (B3, 4): (1, ReadStatus.PRESENT)},
            Kind.ENTRY_WITHOUT_REPLICA,
        ),
        ({("y1", 4): (1, ReadStatus.PRESENT)}, Kind.ENTRY_WITHOUT_REPLICA),
        ({(X1, 5): (1, ReadStatus.PRESENT)}, Kind.ENTRY_WITHOUT_REPLICA),
    ],
)
def test_a_copy_elsewhere_counts_on_a_registered_bookie_that_no_ensemble_names(
    elsewhere: Mapping[tuple[str, int], tuple[int, ReadStatus]], kind: Kind
) -> None:
    """Bookie b3 is named only beyond the end, y1 is not registered, and entry 5 is not lost. All
    lost entries have the kind.
    """
    entries = ((1, 1), (3, 4))
    assert [(kind, entries)] == [
        (one.kind, one.entries and one.entries.ranges)
        for one in found_elsewhere(elsewhere).findings
    ]


@pytest.mark.parametrize(
    ("forgot_at", "shown_at", "kind"),
    [
        ((2, 1), 1, Kind.ENTRY_WITHOUT_REPLICA),
        ((1, 2), 1, Kind.ENTRY_WITHOUT_REPLICA),
        ((2, 1), 2, Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE),
        ((0, 0), 0, Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE),
    ],
)
def test_a_bookie_that_forgot_the_ledger_has_lost_what_it_showed_before(
    forgot_at: tuple[int, int], shown_at: int, kind: Kind
) -> None:
    """Bookie x1 returned entry 4; for entries 1 and 3, which x2 has, it said that it does not know
    the ledger.
    """
    elsewhere = {
        (X1, entry): (look, ReadStatus.NO_LEDGER)
        for entry, look in zip((1, 3), forgot_at, strict=True)
    }
    elsewhere |= {(X1, 4): (shown_at, ReadStatus.PRESENT)}
    elsewhere |= {(X2, entry): (0, ReadStatus.PRESENT) for entry in (1, 3)}
    assert [kind] == [one.kind for one in found_elsewhere(elsewhere).findings]


def found_elsewhere(elsewhere: Mapping[tuple[str, int], tuple[int, ReadStatus]]) -> Opinion:
    """Return the result for entries 1, 3 and 4, which b1 and b2 lost, with these reads on other
    bookies, each with its look.
    """
    metadata = ledger("e2 w2 a1 0:[b1 b2] 6:[b1 b3] closed 5")
    lost = {
        (bookie, entry): (0, ReadStatus.NO_ENTRY) for bookie in ("b1", "b2") for entry in (1, 3, 4)
    }
    reads = {
        (bookie, entry): EntryRead(bookie, LEDGER, entry, number, NOW_MS, status)
        for (bookie, entry), (number, status) in {**lost, **elsewhere}.items()
    }
    answers = {
        b: Answer(b, LEDGER, 0, NOW_MS, AnswerStatus.HELD, groups(ALL - {1, 3, 4}))
        for b in ("b1", "b2")
    }
    record = LedgerRecord(LEDGER, 0, NOW_MS, RecordStatus.FOUND, ZnodeStamp(1, 0, NOW_MS), metadata)
    around = Surroundings(writable=frozenset({"b1", "b2", B3, X1}), readonly=frozenset({X2}))
    return judge_entry_by_entry(
        LedgerEvidence(LEDGER, (Look(record, answers, reads),) * 2), replace(TERMS, around=around)
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0:[b1 b2] closed", [(0, -1)]),
        ("0:[b1 b2] closed -1", [(0, -1)]),
        ("0:[b1 b2] 5:[b1 b3] closed 9", [(0, 4), (5, 9)]),
        ("0:[b1 b2] 5:[b1 b3] 8:[b1 b2] closed 3", [(0, 4), (5, 7), (8, 7)]),
    ],
)
def test_java_walks_all_segments_whether_or_not_they_hold_an_entry(
    text: str, expected: list[tuple[int, int]]
) -> None:
    """All bookies are in one rack. A segment without entries ends before it begins."""
    terms = replace(TERMS, placement=PlacementRule(Policy.RACK, java_compatible=True))
    metadata = ledger(f"e2 w2 a1 {text}")
    findings, _, _ = placement_findings(metadata, stretches(metadata), terms)
    assert [(Kind.PLACEMENT_FAILED, *at) for at in expected] == [
        (one.kind, one.segment.first_entry_id, one.segment.last_entry_id)
        for one in findings
        if one.segment
    ]


@pytest.mark.parametrize(("last", "lacking"), [(1024, (1025, 2)), (1023, (1024, 1))])
def test_only_the_first_entry_of_a_page_may_be_left_out_of_an_honest_list(
    last: int, lacking: tuple[int, int]
) -> None:
    """A list lacks entries 5 and 7 and the last one, which reads back; entry 5 was read in vain,
    entry 7 was not read.
    """
    held = set(range(last + 1))
    reads = {("b1", last): ReadStatus.PRESENT, ("b1", 5): ReadStatus.NO_ENTRY}
    found = opinion(
        f"e2 w2 a1 0:[b1 b2] closed {last}", {"b1": held - {5, 7, last}, "b2": held}, reads
    )
    assert {"b1": lacking} == found.lacks


@pytest.mark.parametrize(
    ("created_ms", "changed_ms", "expected"),
    [
        (NOW_MS - GRACE_MS, None, []),
        (NOW_MS - GRACE_MS - 1, None, [Kind.UNDERREPLICATED_BEYOND_GRACE]),
        (NOW_MS - GRACE_MS - 1, NOW_MS, [Kind.UNDERREPLICATED_BEYOND_GRACE]),
        (NOW_MS, NOW_MS - GRACE_MS - 1, [Kind.UNDERREPLICATED_BEYOND_GRACE]),
    ],
)
def test_a_mark_is_as_old_as_the_older_of_its_times(
    created_ms: int, changed_ms: int | None, expected: list[Kind]
) -> None:
    """A mark exactly at its grace is acceptable."""
    lists = {"b1": ALL, "b2": ALL}
    found = opinion("e2 w2 a1 0:[b1 b2] closed 5", lists, {}, mark=Mark(created_ms, changed_ms))
    assert expected == [one.kind for one in found.findings]


@pytest.mark.parametrize(
    "text",
    [
        "e2 w2 a3 0:[b1 b2] closed 5",
        "e2 w3 a1 0:[b1 b2] closed 5",
        "e2 w2 a1 1:[b1 b2] closed 5",
        "e2 w2 a1 0:[b1 b2 b3] closed 5",
        "e2 w2 a1 0:[b1 b2] 9:[b1 b3] closed 5",
        "e2 w2 a1 0:[b1 b2] closed -2",
        "e2 w2 a0 0:[b1 b2] closed 5",
        "e2 w2 a1 -1:[b1 b2] closed 5",
        "e2 w2 a1 closed 5",
        "e2 w2 a1 0:[b1 b2] closed",
        "e2 w2 a1 0:[b1 b2] 0:[b1 b3] closed 5",
        "e2 w2 a1 0:[b1 b2] 3:[b1 b3] 2:[b1 b2] closed 5",
        "e2 w2 a1 0:[b1 b2] 3:[b3] closed 5",
        "e2 w2 a1 0:[b1 b2] 7:[b1 b3] closed 5",
        "e2 w2 a1 0:[b1 b2] 3:[b1 b3] 7:[b1 b2] closed 5",
    ],
)
def test_metadata_that_contradicts_itself_is_malformed(text: str) -> None:
    """A quorum is larger than the next one, a first segment does not begin at 0, an ensemble has
    another size, or the end is before a segment.
    """
    assert Kind.METADATA_MALFORMED in [one.kind for one in opinion(text, {}, {}).findings]


@pytest.mark.parametrize(
    "text",
    [
        "e1 w1 a1 0:[b1] closed 5",
        "e2 w2 a1 0:[b1 b2] 1:[b1 b3] closed 5",
        "e2 w2 a1 0:[b1 b2] 6:[b1 b3] closed 5",
        "e2 w2 a1 0:[b1 b2] closed -1",
        "e2 w2 a1 0:[b1 b2] 3:[b1 b3] open",
    ],
)
def test_metadata_that_is_just_right_is_none(text: str) -> None:
    """Quorums of one, a segment of one entry, a segment that begins behind the end, an end before
    all entries, and no end are valid.
    """
    assert Kind.METADATA_MALFORMED not in [one.kind for one in opinion(text, {}, {}).findings]


@pytest.mark.parametrize(
    ("text", "mark", "expected"),
    [
        ("open", None, Exempt.OPEN),
        ("in_recovery", None, Exempt.IN_RECOVERY),
        ("closed -1", None, None),
        ("closed 0", None, None),
        ("closed 1", None, None),
        ("closed -2", None, None),
        ("open", Mark(NOW_MS, None), Exempt.MARKED_UNDERREPLICATED),
    ],
)
def test_why_a_ledger_is_exempt(text: str, mark: Mark | None, expected: Exempt | None) -> None:
    """The first reason that holds counts: its mark, its state. Bookies show that it is empty."""
    record = LedgerRecord(
        LEDGER,
        0,
        NOW_MS,
        RecordStatus.FOUND,
        ZnodeStamp(1, 0, 0),
        ledger(f"e2 w2 a1 0:[b1 b2] {text}"),
        mark=mark,
    )
    assert expected is exemption(record)


def test_metadata_that_nobody_can_read_exempts_no_ledger() -> None:
    """Its state is unknown."""
    assert (
        exemption(LedgerRecord(LEDGER, 0, NOW_MS, RecordStatus.MALFORMED, ZnodeStamp(1, 0, 0)))
        is None
    )


@pytest.mark.parametrize(
    ("ctime_ms", "stamp", "state", "expected"),
    [
        (None, (2_000, 9_000), LedgerState.OPEN, True),
        (None, (3_000, 2_000), LedgerState.OPEN, False),
        (2_000, (3_000, 9_000), LedgerState.OPEN, True),
        (3_000, (2_000, 9_000), LedgerState.OPEN, True),
        (None, (9_000, 2_000), LedgerState.IN_RECOVERY, True),
        (2_000, (2_000, 3_000), LedgerState.IN_RECOVERY, False),
        (2_000, (2_000, 2_000), LedgerState.CLOSED, False),
        (0, (2_000, 2_000), LedgerState.OPEN, False),
        (1, (2_000, 2_000), LedgerState.OPEN, True),
        (None, None, LedgerState.OPEN, False),
    ],
)
def test_a_ledger_is_left_open_since_it_was_made_and_in_recovery_since_it_was_written(
    ctime_ms: int | None, stamp: tuple[int, int] | None, state: LedgerState, expected: bool
) -> None:
    """At time 13,000 with a limit of 10,000 ms; 0 is not a time. `stamp`: when the znode was
    created and written.
    """
    metadata = replace(ledger("e2 w2 a1 0:[b1 b2] closed 5"), state=state, ctime_ms=ctime_ms)
    znode = None if stamp is None else ZnodeStamp(1, 0, *stamp)
    record = LedgerRecord(LEDGER, 0, NOW_MS, RecordStatus.FOUND, znode, metadata)
    terms = replace(TERMS, judged_at_ms=13_000, stuck_after_ms=10_000)
    assert expected is is_stuck(record, terms)
    assert not is_stuck(record, replace(terms, stuck_after_ms=0))


def test_a_mark_of_this_moment_is_not_beyond_a_grace_of_nothing() -> None:
    """A mark that is a millisecond old is beyond it."""
    record = LedgerRecord(
        LEDGER, 0, NOW_MS, RecordStatus.FOUND, ZnodeStamp(1, 0, 0), None, mark=Mark(NOW_MS, None)
    )
    terms = replace(TERMS, underreplication_grace_ms=0)
    assert not is_beyond_grace(record, terms)
    assert is_beyond_grace(record, replace(terms, judged_at_ms=NOW_MS + 1))


@pytest.mark.parametrize(("looks", "expected"), [(1, []), (2, [Kind.LEDGER_STUCK])])
def test_a_remark_takes_two_looks(looks: int, expected: list[Kind]) -> None:
    """A ledger that is open a second too long is exempt, with or without the remark."""
    terms = replace(TERMS, judged_at_ms=NOW_MS + 11_000, stuck_after_ms=10_000)
    found = opinion("e2 w2 a1 0:[b1 b2] open", {}, {}, terms=terms, looks=looks)
    assert (Standing.EXEMPT, expected) == (found.standing, [one.kind for one in found.findings])

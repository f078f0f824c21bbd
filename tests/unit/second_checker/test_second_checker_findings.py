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
from auditor.model.evidence import LedgerEvidence, Look, PlacementRule, Policy, Terms
from auditor.model.facts import EntryFacts
from auditor.model.finding import Kind
from auditor.model.ledger import LedgerRecord, LedgerState, Mark, RecordStatus, ZnodeStamp
from auditor.model.verdict import Standing
from auditor.sandbox.cluster import ledger
from auditor.second_checker.agreement import differences, worst_entry_of
from auditor.second_checker.blocks import stretches
from auditor.second_checker.copies import Entries
from auditor.second_checker.findings import placement_findings
from auditor.second_checker.looks import is_stuck
from auditor.second_checker.opinion import Opinion, judge_entry_by_entry

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


def test_of_entries_equally_lost_the_lowest_is_the_worst() -> None:
    """Entries 1 and 4 each lack a copy."""
    lists = {"b1": ALL, "b2": ALL - {1, 4}, "b3": ALL}
    (finding,) = opinion(
        "e3 w3 a2 0:[b1 b2 b3] closed 5", lists, in_vain(("b2", 1), ("b2", 4))
    ).findings
    assert 1 == worst_entry_of(finding)


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


@pytest.mark.parametrize(("looks", "expected"), [(1, []), (2, [Kind.LEDGER_STUCK])])
def test_a_remark_takes_two_looks(looks: int, expected: list[Kind]) -> None:
    """A ledger that is open a second too long is exempt, with or without the remark."""
    terms = replace(TERMS, judged_at_ms=NOW_MS + 11_000, stuck_after_ms=10_000)
    found = opinion("e2 w2 a1 0:[b1 b2] open", {}, {}, terms=terms, looks=looks)
    assert (Standing.EXEMPT, expected) == (found.standing, [one.kind for one in found.findings])

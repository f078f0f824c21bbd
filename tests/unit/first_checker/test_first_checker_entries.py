"""All facts of a finding on entries."""

from __future__ import annotations

from collections.abc import Mapping

from support.entry_by_entry import expected_on
from support.stories import GRACE_MS, LEDGER, NOW_MS, groups

from auditor.first_checker.ledger import judge
from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.cluster import Surroundings
from auditor.model.evidence import Terms
from auditor.model.facts import (
    CorruptFacts,
    EntryFacts,
    Search,
)
from auditor.model.finding import Copies, Finding, FindingSegment, Kind
from auditor.model.ledger import LedgerMetadata, LedgerRecord, Mark, RecordStatus
from auditor.sandbox.cluster import ledger

Reads = Mapping[tuple[str, int], ReadStatus]
PRESENT, NO_ENTRY, CORRUPT = ReadStatus.PRESENT, ReadStatus.NO_ENTRY, ReadStatus.CORRUPT
NOBODY = Surroundings()
CHANGED = ledger("e4 w4 a2 0:[b1 b2 b3 b4] 5:[b1 b2 b3 b5] closed 9")


def found(
    metadata: LedgerMetadata,
    read: Reads,
    mark: Mark | None = None,
    around: Surroundings = NOBODY,
    beside: Mapping[str, set[int]] | None = None,
) -> list[Finding]:
    """Return the findings if every bookie lists what it should hold and what it holds `beside`,
    without the lost entries, which were read in vain.
    """
    answers = {}
    for bookie, wanted in expected_on(metadata).items():
        gone = {e for (b, e), status in read.items() if b == bookie and status is NO_ENTRY}
        held = (wanted | (beside or {}).get(bookie, set())) - gone
        if wanted or held:  # no other bookie is asked for a list
            answers[bookie] = Answer(bookie, LEDGER, 0, NOW_MS, AnswerStatus.HELD, groups(held))
    reads = {
        key: EntryRead(key[0], LEDGER, key[1], 0, NOW_MS, status) for key, status in read.items()
    }
    record = LedgerRecord(LEDGER, 0, NOW_MS, RecordStatus.FOUND, metadata=metadata, mark=mark)
    terms = Terms(NOW_MS, GRACE_MS, 16, 5, stranded_entries_max=16, around=around)
    return list(judge(record, answers, reads, terms).findings)


def test_entries_only_elsewhere_are_all_counted_and_the_search_says_how_far_it_went() -> None:
    """Two of a hundred entries were looked for, and ten bookies have one: the kind is true of all
    hundred.
    """
    metadata = ledger("e1 w1 0:[b1] closed 99")
    strangers, mute = [f"x{n}" for n in range(10)], [f"y{n}" for n in range(9)]
    read = dict.fromkeys([("b1", e) for e in range(100)], NO_ENTRY) | {("x0", 99): PRESENT}
    read |= {(b, 0): PRESENT for b in strangers} | {(b, 0): ReadStatus.TIMED_OUT for b in mute}
    unheard = (*strangers[1:], *mute)  # of entry 99
    search = Search(
        2, 2, 2, 98, ("x0",), tuple(strangers), tuple(strangers), (), unheard, found_first=(0,) * 10
    )
    expected = Finding(
        Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE,
        EntryFacts(0, ("b1",), search=search),
        ledger_id=LEDGER,
        segment=FindingSegment(0, 99, ("b1",)),
        entries=((0, 99),),
        entries_total=100,
        missing_on=(("b1", ((0, 99),)),),
        copies=Copies(1, 1, 0, 0),
    )
    assert [expected] == found(
        metadata, read, around=Surroundings(frozenset(strangers), frozenset(mute))
    )


def test_a_holder_that_a_segment_names_is_distinguished() -> None:
    """A bookie that a segment names does not collect the ledger, so the entry is not only
    outside.
    """
    metadata = ledger("e1 w1 0:[b1] 2:[n1] closed 1")
    read = {("b1", 0): NO_ENTRY, ("b1", 1): NO_ENTRY, ("n1", 0): PRESENT, ("x1", 0): PRESENT}
    around = Surroundings(frozenset({"n1", "x1"}))
    (one,) = found(metadata, read | {("x1", 1): PRESENT, ("n1", 1): PRESENT}, around=around)
    assert (Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE, ("n1", "x1"), ("x1",)) == (one.kind, *holders(one))
    (one,) = found(metadata, read | {("n1", 1): PRESENT}, around=around)
    assert (Kind.ENTRY_WITHOUT_REPLICA, ((0, 1),), ("n1", "x1")) == (
        one.kind,
        one.entries,
        holders(one)[0],
    )


def holders(one: Finding) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return all holders, and those that no segment names."""
    assert isinstance(one.facts, EntryFacts) and one.facts.search is not None
    return one.facts.search.found_on, one.facts.search.found_unnamed


def test_the_finding_on_corrupt_copies_carries_all_that_is_needed_to_check_it() -> None:
    """It has the copies of the lowest entry (of four one is corrupt and so unknown, one is
    missing), and each corrupt copy.
    """
    read = {("b1", 5): CORRUPT, ("b2", 5): NO_ENTRY, ("b3", 9): CORRUPT, ("b3", 7): CORRUPT}
    expected = Finding(
        Kind.ENTRY_CORRUPT,
        CorruptFacts(5, ("b2", "b3", "b5", "b1"), (("b1", (5,)), ("b3", (7, 9)))),
        ledger_id=LEDGER,
        segment=FindingSegment(5, 9, ("b1", "b2", "b3", "b5")),
        entries=((5, 5), (7, 7), (9, 9)),
        entries_total=3,
        missing_on=(("b2", ((5, 5),)),),
        copies=Copies(4, 2, 2, 1),
    )
    assert [expected] == found(CHANGED, read, beside={"b4": {5}})

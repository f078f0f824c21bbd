"""The verdict on one state of one ledger: single laws of the contract's sections 3 and 4, each in a
one-line story.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.entry_by_entry import expected_on
from support.stories import GRACE_MS, LEDGER, NOW_MS, groups

from auditor.first_checker.ledger import judge
from auditor.model.availability import NO_COOKIE, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.evidence import PlacementRule, Policy, Terms
from auditor.model.facts import (
    CONTRADICTIONS_MAX,
    ContradictionFacts,
    Contradicts,
    EntryFacts,
    MarkFacts,
    UndecodableFacts,
    WhyMarked,
)
from auditor.model.finding import RANGES_MAX, Copies, Finding, Kind
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    Malformed,
    Mark,
    RecordStatus,
    ZnodeStamp,
)
from auditor.model.verdict import (
    Exempt,
    Standing,
    Unknown,
    Verdict,
)
from auditor.sandbox.cluster import holds, ledger

TERMS = Terms(NOW_MS, GRACE_MS, 16, 5)
YOUNG, OLD = Mark(NOW_MS - GRACE_MS), Mark(NOW_MS - GRACE_MS - 1)
SILENT = AnswerStatus.SILENT


def record(
    metadata: LedgerMetadata | None,
    mark: Mark | None = None,
    status: RecordStatus = RecordStatus.FOUND,
) -> LedgerRecord:
    """Return what ZooKeeper said."""
    return LedgerRecord(LEDGER, 0, NOW_MS, status, ZnodeStamp(1, 0, 0), metadata, mark=mark)


def verdict_on(
    text: str, mark: Mark | None = None, terms: Terms = TERMS, **lost: str | AnswerStatus
) -> Verdict:
    """Return the verdict if each bookie holds what it should, except the runs it lost (all read and
    confirmed), or answers with the status.
    """
    metadata = ledger(text)
    answers: dict[str, Answer] = {}
    reads: dict[tuple[str, int], EntryRead] = {}
    for bookie, wanted in expected_on(metadata).items():
        said = lost.get(bookie, "")
        if isinstance(said, AnswerStatus):
            answers[bookie] = Answer(bookie, LEDGER, 0, NOW_MS, said)
            continue
        gone = {e for first, last in holds(said) for e in range(first, last + 1)} & wanted
        answers[bookie] = Answer(
            bookie, LEDGER, 0, NOW_MS, AnswerStatus.HELD, groups(wanted - gone)
        )
        reads |= {
            (bookie, e): EntryRead(bookie, LEDGER, e, 0, NOW_MS, ReadStatus.NO_ENTRY)
            for e in sorted(gone)[:2]
        }
    return judge(record(metadata, mark), answers, reads, terms)


def kinds(verdict: Verdict) -> list[Kind]:
    return [finding.kind for finding in verdict.findings]


E3 = "e3 w3 a2 0:[b1 b2 b3] closed 9"
E5 = "e5 w3 a2 0:[b1 b2 b3 b4 b5] closed 9"


@pytest.mark.parametrize(
    ("lost", "kind", "copies"),
    [
        ({"b1": "4"}, Kind.ENTRY_BELOW_WRITE_QUORUM, Copies(3, 2, 2, 0)),
        ({"b1": "4", "b2": "4"}, Kind.ENTRY_BELOW_ACK_QUORUM, Copies(3, 2, 1, 0)),
        ({"b1": "4", "b2": "4", "b3": "4"}, Kind.ENTRY_WITHOUT_REPLICA, Copies(3, 2, 0, 0)),
        ({"b1": "4", "b2": "5", "b3": "6"}, Kind.ENTRY_BELOW_WRITE_QUORUM, Copies(3, 2, 2, 0)),
        ({"b1": "4", "b2": "4", "b3": SILENT}, Kind.ENTRY_BELOW_ACK_QUORUM, Copies(3, 2, 0, 1)),
        (
            {"b1": "4", "b2": SILENT, "b3": SILENT},
            Kind.ENTRY_BELOW_WRITE_QUORUM,
            Copies(3, 2, 0, 2),
        ),
        ({"b1": "4", "b2": SILENT}, Kind.ENTRY_BELOW_WRITE_QUORUM, Copies(3, 2, 1, 1)),
    ],
)
def test_the_kind_is_what_is_proven_even_if_every_silent_bookie_holds_a_copy(
    lost: dict[str, str], kind: Kind, copies: Copies
) -> None:
    """Silence and loss are counted together: a missing entry beside unreachable replicas is not a
    good entry. Nothing is reported that a silent bookie could still refute.
    """
    verdict = verdict_on(E3, **lost)
    assert ([kind], copies) == (kinds(verdict), verdict.findings[0].copies)
    assert verdict.standing is Standing.VIOLATED
    assert (SILENT in lost.values()) == (Unknown.BOOKIE_SILENT in verdict.unknowns)


def test_all_replicas_unreachable_is_unknown_never_sound() -> None:
    """Nothing proven, nothing known: INDETERMINATE."""
    verdict = verdict_on(E3, b1=SILENT, b2=SILENT, b3=SILENT)
    assert (Standing.INDETERMINATE, (Unknown.BOOKIE_SILENT,), ()) == (
        verdict.standing,
        verdict.unknowns,
        verdict.findings,
    )


def test_only_the_strongest_kind_is_reported_with_the_entries_it_is_true_of() -> None:
    """Entry 4 is lost, 6 to 8 lack copies: one finding, on entry 4, with everything that is
    missing.
    """
    verdict = verdict_on(E3, b1="4 6-8", b2="4", b3="4")
    (finding,) = verdict.findings
    assert (Kind.ENTRY_WITHOUT_REPLICA, ((4, 4),), 1) == (
        finding.kind,
        finding.entries,
        finding.entries_total,
    )
    assert (("b1", ((4, 4), (6, 8))), ("b2", ((4, 4),)), ("b3", ((4, 4),))) == finding.missing_on


def test_the_worst_entry_is_named_with_its_write_set_by_absolute_ids() -> None:
    """Entry 7 of E=5 W=3 was written to positions 2, 3, 4."""
    (finding,) = verdict_on(E5, b3="7", b4="7").findings
    assert EntryFacts(7, ("b3", "b4", "b5")) == finding.facts
    assert Copies(3, 2, 1, 0) == finding.copies


def test_ranges_are_cut_and_totals_are_not() -> None:
    """Sixty single losses: twenty ranges are shown, sixty counted, for the finding and for each
    bookie.
    """
    (finding,) = verdict_on(
        "e3 w3 a2 0:[b1 b2 b3] closed 200", b1=" ".join(str(e) for e in range(0, 120, 2))
    ).findings
    assert (RANGES_MAX, 60) == (len(finding.entries), finding.entries_total)
    assert [RANGES_MAX] == [len(ranges) for _, ranges in finding.missing_on]


@pytest.mark.parametrize(
    ("text", "exempt"),
    [
        ("open", Exempt.OPEN),
        ("in_recovery", Exempt.IN_RECOVERY),
        ("closed -1", Exempt.EMPTY),
        ("closed 9", None),
    ],
)
def test_ledgers_that_are_not_judged_say_why(text: str, exempt: Exempt | None) -> None:
    """Open, in recovery and empty ledgers are exempt; a closed ledger with entries is judged."""
    verdict = verdict_on(f"e3 w3 a2 0:[b1 b2 b3] {text}")
    assert (exempt, Standing.EXEMPT if exempt else Standing.SOUND) == (
        verdict.exempt,
        verdict.standing,
    )


def test_no_mark_excuses_a_confirmed_loss() -> None:
    """An entry without any copy is reported within grace and beyond. It stands alone, with the
    mark's age in its facts.
    """
    lost = {"b1": "4", "b2": "4", "b3": "4"}
    for mark in (YOUNG, OLD):
        assert [Kind.UNDERREPLICATED_UNRECOVERABLE] == kinds(verdict_on(E3, mark, **lost))


def test_beyond_grace_a_mark_excuses_nothing() -> None:
    """There is one finding for each family: the mark's age and the missing copies."""
    assert {Kind.ENTRY_BELOW_WRITE_QUORUM, Kind.UNDERREPLICATED_BEYOND_GRACE} == set(
        kinds(verdict_on(E3, OLD, b1="4"))
    )


def test_a_marked_ledger_nobody_was_asked_about_is_exempt_not_unknown() -> None:
    """Before its bookies are asked, no answer is missed."""
    verdict = judge(record(ledger(E3), YOUNG), {}, {}, TERMS)
    assert (Standing.EXEMPT, ()) == (verdict.standing, verdict.unknowns)


def test_metadata_that_cannot_be_decoded_is_the_clusters_fault_and_never_quoted() -> None:
    """METADATA_MALFORMED has length, hash and offset, and the verdict has no reason of ours."""
    bad = replace(
        record(None, status=RecordStatus.MALFORMED),
        malformed=Malformed("not UTF-8", 17, 99, "ab" * 32),
    )
    verdict = judge(bad, {}, {}, TERMS)
    assert ([Kind.METADATA_MALFORMED], ()) == (kinds(verdict), verdict.unknowns)
    assert UndecodableFacts("not UTF-8", 17, 99, "ab" * 32) == verdict.findings[0].facts


def test_a_ledger_of_2_to_the_62_entries_is_judged_like_any_other() -> None:
    """No count is expanded, no index overflows."""
    last = 2**62
    metadata = ledger(f"e3 w3 a2 0:[b1 b2 b3] closed {last}")
    answers = {b: Answer(b, LEDGER, 0, 0, AnswerStatus.NO_SUCH_LEDGER) for b in ("b1", "b2", "b3")}
    reads = {(b, 0): EntryRead(b, LEDGER, 0, 0, 0, ReadStatus.NO_LEDGER) for b in answers}
    (finding,) = judge(record(metadata), answers, reads, TERMS).findings
    assert (Kind.ENTRY_WITHOUT_REPLICA, last + 1, ((0, last),)) == (
        finding.kind,
        finding.entries_total,
        finding.entries,
    )


# Whole verdicts


def test_of_a_marked_ledger_nobody_was_asked_about_the_rest_is_reported() -> None:
    """The verdict has the age of its mark, what its metadata says, its ensembles, and that its
    placement is unknown.
    """
    terms = replace(TERMS, placement=PlacementRule(Policy.RACK))
    verdict = judge(record(ledger("e3 w3 a2 5:[b1 b1 b3] closed 9"), OLD), {}, {}, terms)
    expected = [
        Kind.UNDERREPLICATED_BEYOND_GRACE,
        Kind.METADATA_MALFORMED,
        Kind.ENSEMBLE_DUPLICATE_BOOKIE,
    ]
    assert (expected, (Unknown.TOPOLOGY_UNKNOWN,)) == (kinds(verdict), verdict.unknowns)
    assert [LEDGER] * 3 == [finding.ledger_id for finding in verdict.findings]


def test_bytes_that_cannot_be_decoded_are_reported_without_being_quoted() -> None:
    """The whole finding, and the whole verdict."""
    bad = replace(
        record(None, status=RecordStatus.MALFORMED),
        malformed=Malformed("not UTF-8", 17, 99, "ab" * 32),
    )
    finding = Finding(
        Kind.METADATA_MALFORMED, UndecodableFacts("not UTF-8", 17, 99, "ab" * 32), LEDGER
    )
    assert Verdict(LEDGER, Standing.VIOLATED, findings=(finding,)) == judge(bad, {}, {}, TERMS)


def test_each_contradiction_of_metadata_is_reported() -> None:
    """One finding has each contradiction. A bookie that the cluster does not know is not a
    contradiction.
    """
    gone = {"b1": Answer("b1", LEDGER, 0, NOW_MS, AnswerStatus.UNREGISTERED, detail=NO_COOKIE)}
    for mark in (None, YOUNG):
        findings = judge(
            record(ledger("e3 w3 a4 5:[b1 b2 b3] closed 9"), mark), gone, {}, TERMS
        ).findings
        (finding,) = [f for f in findings if f.kind is Kind.METADATA_MALFORMED]
        assert isinstance(finding.facts, ContradictionFacts)
        assert [Contradicts.ACK_QUORUM_ABOVE_WRITE, Contradicts.FIRST_SEGMENT_NOT_AT_ZERO] == [
            one.what for one in finding.facts.contradictions
        ]


def test_contradictions_beyond_the_bound_are_counted() -> None:
    """A finding stays short, however many segments are out of order."""
    segments = " ".join(f"{number}:[b1 b2 b3]" for number in range(30, 0, -1))
    (finding,) = judge(
        record(ledger(f"e3 w3 a2 0:[b1 b2 b3] {segments} closed 40")), {}, {}, TERMS
    ).findings
    assert isinstance(finding.facts, ContradictionFacts)
    assert (CONTRADICTIONS_MAX, 29) == (len(finding.facts.contradictions), finding.facts.total)


def test_that_a_ledger_is_open_for_long_is_no_violation() -> None:
    """STUCK_OPEN is a remark: the standing is that of any open ledger."""
    terms, metadata = replace(TERMS, stuck_after_ms=60_000), ledger("e3 w3 a2 0:[b1 b2 b3] open")
    verdict = judge(replace(record(metadata), stamp=ZnodeStamp(1, 0, 1, 1)), {}, {}, terms)
    assert (Standing.EXEMPT, [Kind.LEDGER_STUCK]) == (verdict.standing, kinds(verdict))


def test_what_a_bookie_held_that_is_gone_is_absent_whether_the_ledger_is_marked_or_not() -> None:
    """The entry that the others lack then has no copy, and all others lack one. Nothing contradicts
    itself.
    """
    metadata = ledger(E3)
    answers = {
        b: Answer(b, LEDGER, 0, 0, AnswerStatus.HELD, groups(set(range(10)) - {4}))
        for b in ("b2", "b3")
    }
    answers["b1"] = Answer("b1", LEDGER, 0, 0, AnswerStatus.UNREGISTERED, detail=NO_COOKIE)
    reads = {(b, 4): EntryRead(b, LEDGER, 4, 0, 0, ReadStatus.NO_ENTRY) for b in ("b2", "b3")}
    assert [Kind.UNDERREPLICATED_UNRECOVERABLE] == kinds(
        judge(record(metadata, YOUNG), answers, reads, TERMS)
    )
    (finding,) = judge(record(metadata), answers, reads, TERMS).findings
    assert (Kind.ENTRY_WITHOUT_REPLICA, ("b1",)) == (finding.kind, finding.facts.gone)
    assert (("b1", ((0, 9),)), ("b2", ((4, 4),)), ("b3", ((4, 4),))) == finding.missing_on


@pytest.mark.parametrize(
    ("lost", "at_tail"),
    [
        ({"b3": "9"}, True),
        ({"b3": "7-9"}, True),
        ({"b2": "8-9", "b3": "9"}, True),
        ({"b3": "8"}, False),
        ({"b3": "0-9"}, False),
        ({"b2": "3", "b3": "9"}, False),
        ({"b1": "9", "b2": "8-9", "b3": "9"}, False),
    ],
)
def test_a_copy_that_is_missing_only_at_the_end_is_distinguished_from_a_hole(
    lost: dict[str, str], at_tail: bool
) -> None:
    """A tail: each bookie that lacks entries holds everything that it should before them, and some
    of the segment.
    """
    (finding,) = verdict_on("e3 w3 a1 0:[b1 b2 b3] closed 9", **lost).findings
    assert at_tail is finding.facts.at_tail


@pytest.mark.parametrize("state", ["open", "in_recovery"])
def test_an_open_ledger_is_never_called_empty(state: str) -> None:
    """BookKeeper writes lastEntryId -1 until the end is known."""
    verdict = judge(record(ledger(f"e3 w3 a2 0:[b1 b2 b3] {state}")), {}, {}, TERMS)
    assert (Standing.EXEMPT, state) == (verdict.standing, verdict.exempt)


@pytest.mark.parametrize("state", ["open", "in_recovery"])
def test_a_marked_ledger_that_is_not_closed_is_never_called_empty(state: str) -> None:
    """BookKeeper writes lastEntryId -1 while a ledger is open, so only a closed one can be
    empty.
    """
    text = f"e3 w3 a2 0:[b1 b2 b3] {state}"
    metadata = replace(ledger(text), last_entry_id=-1)
    none = {
        b: Answer(b, LEDGER, 0, NOW_MS, AnswerStatus.NO_SUCH_LEDGER) for b in ("b1", "b2", "b3")
    }
    (finding,) = judge(record(metadata, OLD), none, {}, TERMS).findings
    assert isinstance(finding.facts, MarkFacts)
    assert (metadata.state, False) == (
        finding.facts.state,
        WhyMarked.EMPTY_LEDGER in finding.facts.why,
    )
    (empty,) = verdict_on("e3 w3 a2 0:[b1 b2 b3] closed -1", OLD).findings
    assert isinstance(empty.facts, MarkFacts) and WhyMarked.EMPTY_LEDGER in empty.facts.why


def test_one_doubled_first_entry_id_costs_its_own_segments_only() -> None:
    """Segments at 0, 4, 4 and 7: it is unclear which bookies hold 4 to 6, but a copy lost elsewhere
    is found.
    """
    text = "e3 w3 a2 0:[b1 b2 b3] 4:[b1 b2 b3] 4:[b1 b2 b4] 7:[b1 b2 b3] closed 9"
    assert [Kind.METADATA_MALFORMED] == kinds(verdict_on(text))
    verdict = verdict_on(text, b3="2 8")
    assert [Kind.METADATA_MALFORMED, Kind.ENTRY_BELOW_WRITE_QUORUM] == kinds(verdict)
    assert ((2, 2), (8, 8)) == verdict.findings[1].entries

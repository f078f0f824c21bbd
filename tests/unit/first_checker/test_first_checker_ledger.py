"""The verdict on one state of one ledger: single laws of the contract's sections 3 and 4, each in a
one-line story.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.entry_by_entry import expected_on
from support.stories import GRACE_MS, LEDGER, NOW_MS, groups

from auditor.first_checker.entry_set import EntrySet
from auditor.first_checker.ledger import judge
from auditor.first_checker.probing import REASON_OF_ANSWER, ProbePlan, plan_probes
from auditor.model.availability import NO_COOKIE, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.cluster import Surroundings
from auditor.model.evidence import Terms
from auditor.model.facts import (
    CONTRADICTIONS_MAX,
    BeyondEndFacts,
    Contradiction,
    ContradictionFacts,
    Contradicts,
    DuplicateFacts,
    EndHeader,
    EntryFacts,
    HeldBeyondEnd,
    MarkFacts,
    UndecodableFacts,
    UnrecoverableFacts,
    WhyMarked,
)
from auditor.model.finding import RANGES_MAX, Copies, Finding, FindingSegment, Kind
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    Malformed,
    Mark,
    RecordStatus,
    ZnodeStamp,
)
from auditor.model.placement import PlacementRule, Policy
from auditor.model.verdict import (
    AWAY,
    BookieLack,
    CopyCounts,
    Exempt,
    Probes,
    Standing,
    Unknown,
    Verdict,
)
from auditor.sandbox.notation import holds, ledger

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


def test_every_reason_stays_in_the_order_of_the_catalogue() -> None:
    """Three bookies, three reasons."""
    verdict = verdict_on(
        E3, b1=AnswerStatus.TOO_LARGE, b2=AnswerStatus.TIMED_OUT, b3=AnswerStatus.REFUSED
    )
    assert (
        Unknown.BOOKIE_REFUSED,
        Unknown.ANSWER_TIMEOUT,
        Unknown.ANSWER_TOO_LARGE,
    ) == verdict.unknowns


def test_with_equal_quorums_the_write_quorum_kind_still_differs_from_the_ack_quorum_kind() -> None:
    """A = W: one lost copy is below the ack quorum, which is critical. A < W: it is below the write
    quorum, a warning.
    """
    assert [Kind.ENTRY_BELOW_ACK_QUORUM] == kinds(
        verdict_on("e3 w3 a3 0:[b1 b2 b3] closed 9", b1="4")
    )
    assert [Kind.ENTRY_BELOW_WRITE_QUORUM] == kinds(
        verdict_on("e3 w3 a2 0:[b1 b2 b3] closed 9", b1="4")
    )


def test_one_lost_copy_of_one_is_a_lost_entry() -> None:
    """W=1: losing the only copy loses the entry."""
    assert [Kind.ENTRY_WITHOUT_REPLICA] == kinds(verdict_on("e3 w1 0:[b1 b2 b3] closed 9", b2="4"))


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


def test_the_segment_of_a_finding_is_that_of_its_worst_entry() -> None:
    """The finding is on the segment of the worst entry, although the second segment lost more."""
    (finding,) = verdict_on(
        "e3 w3 a1 0:[b1 b2 b3] 5:[b1 b4 b3] closed 9", b1="2 7", b4="7"
    ).findings
    assert finding.segment is not None
    assert (5, 9, ("b1", "b4", "b3")) == (
        finding.segment.first_entry_id,
        finding.segment.last_entry_id,
        finding.segment.ensemble,
    )


def test_a_holder_outside_the_write_set_is_no_replica_and_is_named() -> None:
    """Entry 0 of E=3 W=1 belongs to b1 alone, but b3 holds it: b3 is named, and is not a
    replica.
    """
    metadata = ledger("e3 w1 0:[b1 b2 b3] closed 2")
    answers = {
        b: Answer(b, LEDGER, 0, 0, AnswerStatus.HELD, groups(held))
        for b, held in {"b1": [], "b2": [1], "b3": [0, 2]}.items()
    }
    reads = {("b1", 0): EntryRead("b1", LEDGER, 0, 0, 0, ReadStatus.NO_ENTRY)}
    (finding,) = judge(record(metadata), answers, reads, TERMS).findings
    assert (Kind.ENTRY_WITHOUT_REPLICA, EntryFacts(0, ("b1",), ("b3",))) == (
        finding.kind,
        finding.facts,
    )


def test_ranges_are_cut_and_totals_are_not() -> None:
    """Sixty single losses: twenty ranges are shown, sixty counted, for the finding and for each
    bookie.
    """
    (finding,) = verdict_on(
        "e3 w3 a2 0:[b1 b2 b3] closed 200", b1=" ".join(str(e) for e in range(0, 120, 2))
    ).findings
    assert (RANGES_MAX, 60) == (len(finding.entries), finding.entries_total)
    assert [RANGES_MAX] == [len(ranges) for _, ranges in finding.missing_on]


def test_a_doubled_bookie_is_one_copy_and_a_finding_of_its_own() -> None:
    """Two copies in metadata are one on disk: a warning on the ensemble, and the entries lack a
    copy.
    """
    verdict = verdict_on("e3 w3 a2 0:[b1 b1 b3] closed 9")
    assert {Kind.ENSEMBLE_DUPLICATE_BOOKIE, Kind.ENTRY_BELOW_WRITE_QUORUM} == set(kinds(verdict))
    (duplicate,) = [f for f in verdict.findings if f.kind is Kind.ENSEMBLE_DUPLICATE_BOOKIE]
    assert DuplicateFacts((("b1", (0, 1)),)) == duplicate.facts
    (entry,) = [f for f in verdict.findings if f.kind is Kind.ENTRY_BELOW_WRITE_QUORUM]
    assert (10, Copies(3, 2, 2, 0), ()) == (entry.entries_total, entry.copies, entry.missing_on)


def test_a_doubled_bookie_that_is_silent_is_one_unknown_copy() -> None:
    """Of three promised copies at most two can exist, one of them unknown."""
    verdict = verdict_on("e3 w3 a3 0:[b1 b1 b3] closed 9", b1=SILENT)
    (entry,) = [f for f in verdict.findings if f.kind is Kind.ENTRY_BELOW_ACK_QUORUM]
    assert Copies(3, 3, 1, 1) == entry.copies


def test_duplicates_are_reported_once_a_segment_with_entries() -> None:
    """Two segments, two findings; the empty last one has none."""
    verdict = verdict_on("e3 w1 a1 0:[b1 b1 b3] 4:[b1 b3 b3] 10:[b1 b1 b1] closed 9")
    assert [(0, 3), (4, 9)] == [
        (f.segment.first_entry_id, f.segment.last_entry_id) for f in verdict.findings if f.segment
    ]


def test_entries_before_the_first_segment_are_not_passed_over_in_silence() -> None:
    """Metadata that does not cover the first entries contradicts itself; what is clear is still
    judged.
    """
    assert [Kind.METADATA_MALFORMED] == kinds(verdict_on("e3 w3 a2 5:[b1 b2 b3] closed 9"))
    verdict = verdict_on("e3 w3 a2 5:[b1 b2 b3] closed 9", b1="7")
    assert {Kind.METADATA_MALFORMED, Kind.ENTRY_BELOW_WRITE_QUORUM} == set(kinds(verdict))


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


@pytest.mark.parametrize("state", ["open", "in_recovery", "closed -1", "closed 9"])
def test_a_mark_takes_precedence_and_its_age_counts_in_every_state(state: str) -> None:
    """Within grace the ledger is EXEMPT(marked_underreplicated), in any state; beyond grace it has
    a finding, in any state.
    """
    text = f"e3 w3 a2 0:[b1 b2 b3] {state}"
    young, old = verdict_on(text, YOUNG), verdict_on(text, OLD)
    assert (Standing.EXEMPT, Exempt.MARKED_UNDERREPLICATED) == (young.standing, young.exempt)
    assert [Kind.UNDERREPLICATED_BEYOND_GRACE] == kinds(old)
    assert (Standing.VIOLATED, Exempt.MARKED_UNDERREPLICATED) == (old.standing, old.exempt)


def test_within_grace_a_mark_excuses_too_few_copies() -> None:
    """The cluster knows of the loss: BELOW_* kinds and duplicates are not reported, nor that a
    bookie is not registered.
    """
    for lost in ({"b1": "4"}, {"b1": "4", "b2": "4"}, {"b1": AnswerStatus.UNREGISTERED}):
        verdict = verdict_on(E3, YOUNG, **lost)
        assert (Standing.EXEMPT, (), ()) == (verdict.standing, verdict.findings, verdict.unknowns)
    assert () == verdict_on("e3 w3 a2 0:[b1 b1 b3] closed 9", YOUNG).findings


@pytest.mark.parametrize("status", sorted(REASON_OF_ANSWER.keys() - {AnswerStatus.UNREGISTERED}))
def test_a_marked_ledger_keeps_the_reasons_of_bookies_that_are_registered(
    status: AnswerStatus,
) -> None:
    """The worst standing wins. A registered bookie without a valid word leaves the ledger
    INDETERMINATE, also within grace. The age of the mark, or an entry without any copy, makes it
    VIOLATED.
    """
    for mark, lost, standing in (
        (YOUNG, "", "indeterminate"),
        (OLD, "", "violated"),
        (YOUNG, "5", "violated"),
    ):
        others = {"b2": lost, "b3": lost, "b4": lost} if lost else {}
        verdict = verdict_on("e4 w3 a2 0:[b1 b2 b3 b4] closed 9", mark, b1=status, **others)
        assert (standing, (REASON_OF_ANSWER[status],)) == (
            verdict.standing.word,
            verdict.unknowns,
        ), (mark, lost)


def test_what_is_unknown_of_a_marked_ledgers_placement_is_a_reason_once_it_is_judged() -> None:
    """Unknown placement is a reason beyond grace. Within grace placement is excused, and beside an
    entry without any copy it is not mentioned.
    """
    terms = replace(TERMS, placement=PlacementRule(Policy.RACK))
    assert (Unknown.TOPOLOGY_UNKNOWN,) == verdict_on(E3, OLD, terms).unknowns
    assert () == verdict_on(E3, YOUNG, terms).unknowns
    assert () == verdict_on(E3, OLD, terms, b1="4", b2="4", b3="4").unknowns


@pytest.mark.parametrize("lost", [{}, {"b1": "4"}, {"b1": "4", "b2": "4", "b3": "4"}])
def test_the_age_of_a_mark_is_unknown_by_a_clock_that_is_late(lost: dict[str, str]) -> None:
    """A mark within grace may be beyond it: the ledger is not exempt, and nothing that the mark
    excuses is found. One that is beyond grace even so is found as ever.
    """
    late = replace(TERMS, clock_lag_ms=1)
    young, old = verdict_on(E3, YOUNG, late, **lost), verdict_on(E3, OLD, late, **lost)
    assert (Unknown.AUDITOR_LIMITED,) == young.unknowns
    is_lost = len(lost) == 3
    assert (Standing.VIOLATED if is_lost else Standing.INDETERMINATE) is young.standing
    assert kinds(verdict_on(E3, YOUNG, **lost)) == kinds(young)
    assert verdict_on(E3, OLD, **lost) == old
    assert verdict_on(E3, None, **lost) == verdict_on(E3, None, late, **lost)


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


def test_a_ledger_that_is_gone_is_deleted_whatever_was_seen_of_it() -> None:
    """A deleted ledger is EXEMPT(deleted), without findings and reasons."""
    verdict = judge(record(None, OLD, RecordStatus.GONE), {}, {}, TERMS)
    assert Verdict(LEDGER, Standing.EXEMPT, Exempt.DELETED) == verdict


@pytest.mark.parametrize("status", [RecordStatus.UNREADABLE, RecordStatus.NOT_AUTHORISED])
def test_metadata_we_could_not_get_is_unknown(status: RecordStatus) -> None:
    """The ledger is INDETERMINATE(metadata_unreadable); a mark beyond grace is reported all the
    same.
    """
    verdict = judge(record(None, status=status), {}, {}, TERMS)
    assert (Standing.INDETERMINATE, (Unknown.METADATA_UNREADABLE,)) == (
        verdict.standing,
        verdict.unknowns,
    )
    marked = judge(record(None, OLD, status), {}, {}, TERMS)
    assert (Standing.VIOLATED, (Unknown.METADATA_UNREADABLE,)) == (marked.standing, marked.unknowns)


def test_metadata_that_cannot_be_decoded_is_the_clusters_fault_and_never_quoted() -> None:
    """METADATA_MALFORMED has length, hash and offset, and the verdict has no reason of ours."""
    bad = replace(
        record(None, status=RecordStatus.MALFORMED),
        malformed=Malformed("not UTF-8", 17, 99, "ab" * 32),
    )
    verdict = judge(bad, {}, {}, TERMS)
    assert ([Kind.METADATA_MALFORMED], ()) == (kinds(verdict), verdict.unknowns)
    assert UndecodableFacts("not UTF-8", 17, 99, "ab" * 32) == verdict.findings[0].facts


def test_what_the_tail_defect_hid_is_counted_and_the_ledger_is_sound() -> None:
    """One entry is not listed by three bookies, but read from each: SOUND, with three false
    negatives.
    """
    metadata = ledger("e3 w3 a2 0:[b1 b2 b3] closed 0")
    answers = {b: Answer(b, LEDGER, 0, 0, AnswerStatus.HELD) for b in ("b1", "b2", "b3")}
    reads = {(b, 0): EntryRead(b, LEDGER, 0, 0, 0, ReadStatus.PRESENT) for b in answers}
    verdict = judge(record(metadata), answers, reads, TERMS)
    assert (Standing.SOUND, 3) == (verdict.standing, verdict.listing_false_negatives)


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


def test_a_sound_ledger_has_nothing_but_its_standing() -> None:
    """The verdict has no finding and no reason; each of the 3 times 10 copies was listed."""
    assert Verdict(LEDGER, Standing.SOUND, copies=CopyCounts(30, 30, 0, 0)) == verdict_on(E3)


def test_a_healthy_ledger_whose_placement_is_unknown_or_fails_is_not_sound() -> None:
    """A ledger with every copy must also be placed well."""
    terms = replace(TERMS, placement=PlacementRule(Policy.RACK))
    unknown = verdict_on(E3, None, terms)
    assert (Standing.INDETERMINATE, (Unknown.TOPOLOGY_UNKNOWN,)) == (
        unknown.standing,
        unknown.unknowns,
    )
    verdict = verdict_on(
        E3,
        None,
        replace(terms, around=Surroundings(locations={"b1": "/r", "b2": "/r", "b3": "/r"})),
    )
    assert ([Kind.PLACEMENT_FAILED], ()) == (kinds(verdict), verdict.unknowns)
    assert LEDGER == verdict.findings[0].ledger_id


def test_a_copy_that_is_listed_and_corrupt_is_no_good_copy() -> None:
    """Every list is right, and one entry read on b1 does not match its digest."""
    answers = {
        b: Answer(b, LEDGER, 0, 0, AnswerStatus.HELD, groups(held))
        for b, held in expected_on(ledger(E3)).items()
    }
    reads = {("b1", 4): EntryRead("b1", LEDGER, 4, 0, 0, ReadStatus.CORRUPT)}
    assert [Kind.ENTRY_CORRUPT] == kinds(judge(record(ledger(E3)), answers, reads, TERMS))


def test_a_ledger_whose_bookies_were_not_asked_is_unknown() -> None:
    """Without answers the ledger is unknown, unless it is marked."""
    verdict = judge(record(ledger(E3)), {}, {}, TERMS)
    assert (Standing.INDETERMINATE, (Unknown.BOOKIE_SILENT,)) == (
        verdict.standing,
        verdict.unknowns,
    )


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


def test_beside_a_lost_entry_of_a_marked_ledger_only_its_metadata_is_reported() -> None:
    """A contradiction does not follow from the loss; duplicates, placement and the age of the mark
    are left out.
    """
    lost = {"b1": "7", "b3": "7"}
    assert [Kind.UNDERREPLICATED_UNRECOVERABLE, Kind.METADATA_MALFORMED] == kinds(
        verdict_on("e3 w3 a2 5:[b1 b1 b3] closed 9", OLD, **lost)
    )


def test_of_two_findings_on_one_ensemble_the_bookie_that_stands_twice_is_reported() -> None:
    """Each segment has one finding. The second segment is on one rack, and no bookie occurs twice
    in it.
    """
    around = Surroundings(locations={"b1": "/r1", "b3": "/r1"})
    terms = replace(TERMS, placement=PlacementRule(Policy.RACK), around=around)
    verdict = verdict_on("e2 w2 a1 0:[b1 b1] 5:[b1 b3] closed 9", None, terms)
    family = [
        (f.kind, f.segment.first_entry_id) for f in verdict.findings if f.segment and not f.entries
    ]
    assert [(Kind.ENSEMBLE_DUPLICATE_BOOKIE, 0), (Kind.PLACEMENT_FAILED, 5)] == family


def test_a_bookie_that_stands_twice_is_reported_with_its_positions() -> None:
    """The whole finding on a bookie with two positions, beside one on entries."""
    segment = FindingSegment(0, 9, ("b1", "b2", "b1"))
    expected = Finding(
        Kind.ENSEMBLE_DUPLICATE_BOOKIE, DuplicateFacts((("b1", (0, 2)),)), LEDGER, segment=segment
    )
    assert expected == verdict_on("e3 w3 a2 0:[b1 b2 b1] closed 9").findings[0]


def test_the_age_of_a_mark_is_reported_with_why_it_stands() -> None:
    """The whole finding. Nothing is missing, so the mark is stale."""
    age, why = GRACE_MS + 1, (WhyMarked.STALE,)
    facts = MarkFacts(
        age, GRACE_MS, OLD.created_ms, None, (), "", None, None, LedgerState.CLOSED, why
    )
    terms = replace(TERMS, around=Surroundings(auditor="b1"))
    assert (Finding(Kind.UNDERREPLICATED_BEYOND_GRACE, facts, LEDGER),) == verdict_on(
        E3, OLD, terms
    ).findings


@pytest.mark.parametrize(
    ("mark", "lost", "stale"),
    [(YOUNG, "", True), (OLD, "", True), (YOUNG, "4", False), (None, "", False)],
)
def test_a_mark_is_stale_at_any_age_when_every_copy_is_listed(
    mark: Mark | None, lost: str, stale: bool
) -> None:
    """A mark is stale at any age; a ledger without a mark never has a stale one."""
    assert stale is verdict_on(E3, mark, b1=lost).is_mark_stale
    assert not verdict_on(E3, mark, b1=AnswerStatus.UNREGISTERED).is_mark_stale


@pytest.mark.parametrize("state", ["open", "in_recovery"])
def test_a_marked_ledger_that_is_not_closed_is_never_called_empty(state: str) -> None:
    """BookKeeper writes lastEntryId -1 while a ledger is open, so only a closed one can be
    empty.
    """
    text = f"e3 w3 a2 0:[b1 b2 b3] {state}"
    metadata = replace(ledger(text), last_entry_id=-1)
    (finding,) = judge(record(metadata, OLD), {}, {}, TERMS).findings
    assert isinstance(finding.facts, MarkFacts)
    assert (metadata.state, False) == (
        finding.facts.state,
        WhyMarked.EMPTY_LEDGER in finding.facts.why,
    )
    (empty,) = verdict_on("e3 w3 a2 0:[b1 b2 b3] closed -1", OLD).findings
    assert isinstance(empty.facts, MarkFacts) and WhyMarked.EMPTY_LEDGER in empty.facts.why


def test_a_mark_on_a_ledger_with_one_copy_whose_bookie_is_down_says_why_it_stands() -> None:
    """W = 1: no bookie that answered has a copy to replicate from, and the one that may have it is
    not registered.
    """
    terms = replace(TERMS, around=Surroundings(writable=frozenset({"b9"}), auditor="b9"))
    (finding,) = verdict_on(
        "e1 w1 a1 0:[b1] closed 9", OLD, terms, b1=AnswerStatus.UNREGISTERED
    ).findings
    assert isinstance(finding.facts, MarkFacts)
    assert (WhyMarked.NO_COPY_IN_REACH,) == finding.facts.why


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


def test_a_violated_ledger_is_not_kept_from_being_judged() -> None:
    """A finding is final, whichever bookies of the ledger are in maintenance."""
    terms = replace(TERMS, around=Surroundings(maintenance=frozenset({"b2"})))
    assert [False, True] == [
        verdict_on(E3, None, terms, b1=lost, b2=SILENT).only_maintenance for lost in ("4", "")
    ]


def test_maintenance_is_every_way_of_being_away() -> None:
    """Three bookies are in maintenance and unavailable in three ways: maintenance is the only
    reason.
    """
    terms = replace(TERMS, around=Surroundings(maintenance=frozenset({"b1", "b2", "b3"})))
    away = {"b1": SILENT, "b2": AnswerStatus.TIMED_OUT, "b3": AnswerStatus.ADDRESS_UNKNOWN}
    verdict = verdict_on(E3, None, terms, **away)
    assert (AWAY, True) == (set(verdict.unknowns), verdict.only_maintenance)


def test_that_a_ledger_is_open_for_long_is_no_violation() -> None:
    """STUCK_OPEN is a remark: the standing is that of any open ledger."""
    terms, metadata = replace(TERMS, stuck_after_ms=60_000), ledger("e3 w3 a2 0:[b1 b2 b3] open")
    verdict = judge(replace(record(metadata), stamp=ZnodeStamp(1, 0, 1, 1)), {}, {}, terms)
    assert (Standing.EXEMPT, [Kind.LEDGER_STUCK]) == (verdict.standing, kinds(verdict))


def test_the_probes_of_a_ledger_are_its_own() -> None:
    """Only the probes that the terms plan for this ledger count: when all were answered, nothing is
    unknown.
    """
    terms = replace(TERMS, probe_entries=3, probe_seed=11)
    plan = plan_probes(ProbePlan(LEDGER, 3, 11), "b1", [EntrySet.span(0, 99)])
    reads = {("b1", e): EntryRead("b1", LEDGER, e, 0, 0, ReadStatus.PRESENT) for e in plan.all}
    answers = {"b1": Answer("b1", LEDGER, 0, 0, AnswerStatus.UNSUPPORTED)}
    verdict = judge(record(ledger("e1 w1 0:[b1] closed 99")), answers, reads, terms)
    assert (
        Verdict(LEDGER, Standing.SOUND, probes=Probes(5, 3), copies=CopyCounts(100, 0, 5, 95))
        == verdict
    )


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


def test_a_segment_that_names_a_gone_bookie_and_expects_no_entry_of_it_is_not_reported() -> None:
    """An empty last segment, or a stripe too short to reach the bookie."""
    gone = Answer("b9", LEDGER, 0, 0, AnswerStatus.UNREGISTERED, detail=NO_COOKIE)
    metadata = ledger("e3 w3 a2 0:[b1 b2 b3] 10:[b1 b2 b9] closed 9")
    answers = {
        b: Answer(b, LEDGER, 0, 0, AnswerStatus.HELD, groups(set(range(10))))
        for b in ("b1", "b2", "b3")
    }
    assert (Standing.SOUND, ()) == (
        (verdict := judge(record(metadata), {**answers, "b9": gone}, {}, TERMS)).standing,
        verdict.findings,
    )


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


def test_where_some_copy_is_unknown_it_is_not_only_the_end_that_is_missing() -> None:
    """b3 does not list entries 3 and 9. It has no entry 9, and the read of 3 timed out."""
    lists = {b: set(range(10)) - ({3, 9} if b == "b3" else set()) for b in ("b1", "b2", "b3")}
    answers = {
        b: Answer(b, LEDGER, 0, 0, AnswerStatus.HELD, groups(held)) for b, held in lists.items()
    }
    said = {3: ReadStatus.TIMED_OUT, 9: ReadStatus.NO_ENTRY}
    reads = {("b3", e): EntryRead("b3", LEDGER, e, 0, 0, status) for e, status in said.items()}
    (finding,) = judge(record(ledger(E3)), answers, reads, TERMS).findings
    assert (((9, 9),), False) == (finding.entries, finding.facts.at_tail)


def test_the_end_of_a_segment_before_the_last_is_no_tail() -> None:
    """Writers begin the next segment only when the ack quorum holds everything before. A copy lost
    at the end of an earlier segment is therefore a hole.
    """
    (finding,) = verdict_on("e3 w3 a2 0:[b1 b2 b3] 5:[b1 b2 b3] closed 9", b3="4").findings
    assert not finding.facts.at_tail


def test_entries_beyond_the_end_are_a_remark_where_no_header_proves_more() -> None:
    """b2 alone lists entries 10 and 11 of a ledger that ends at 9. No standing changes."""
    held = {"b1": 10, "b2": 12, "b3": 10}
    verdict = judge(record(ledger(E3)), lists_up_to(held), {}, TERMS)
    assert Standing.SOUND is verdict.standing
    facts = BeyondEndFacts(9, 2, (HeldBeyondEnd("b2", ((10, 11),), 2, True),))
    assert [
        Finding(Kind.ENTRIES_BEYOND_END, facts, LEDGER, entries=((10, 11),), entries_total=2)
    ] == list(verdict.findings)


def test_a_ledger_that_a_header_proves_to_be_cut_short_stands_beside_what_it_lacks() -> None:
    """b3 lacks entry 3, and the header of entry 11 names 10 as acknowledged. Both are found, and
    neither hides the other.
    """
    answers = lists_up_to({"b1": 10, "b2": 12})
    answers["b3"] = Answer("b3", LEDGER, 0, 0, AnswerStatus.HELD, groups(set(range(10)) - {3}))
    reads = {
        ("b3", 3): EntryRead("b3", LEDGER, 3, 0, 0, ReadStatus.NO_ENTRY),
        ("b2", 11): proven_read("b2", 11, last_confirmed=10),
    }
    verdict = judge(record(ledger(E3)), answers, reads, TERMS)
    assert [Kind.LEDGER_CLOSED_SHORT, Kind.ENTRY_BELOW_WRITE_QUORUM] == kinds(verdict)
    assert [((10, 10),), ((3, 3),)] == [one.entries for one in verdict.findings]


def test_a_length_without_an_entry_contradicts_the_end_and_names_what_lies_above() -> None:
    """A writer with DEFERRED_SYNC that closes without force() leaves this behind."""
    metadata = replace(ledger("e3 w3 a2 0:[b1 b2 b3] closed -1"), length=16)
    answers = lists_up_to({"b1": 2, "b2": 0, "b3": 0})
    reads = {("b1", 1): proven_read("b1", 1, last_confirmed=-1)}
    verdict = judge(record(metadata), answers, reads, TERMS)
    (finding,) = verdict.findings
    held = (HeldBeyondEnd("b1", ((0, 1),), 2, True),)
    facts = ContradictionFacts(
        (Contradiction(Contradicts.LENGTH_WITHOUT_ENTRY, (16,)),),
        1,
        BeyondEndFacts(-1, 2, held, EndHeader("b1", 1, -1, 16)),
    )
    assert (Kind.METADATA_MALFORMED, facts) == (finding.kind, finding.facts)
    assert (Standing.VIOLATED, None) == (verdict.standing, verdict.exempt)


@pytest.mark.parametrize(
    ("answers", "standing", "unknowns", "exempt"),
    [
        ({"b1": 0, "b2": 0, "b3": 0}, Standing.EXEMPT, (), Exempt.EMPTY),
        ({"b1": 0, "b2": 0}, Standing.EXEMPT, (), Exempt.EMPTY),
        ({"b1": 0}, Standing.INDETERMINATE, (Unknown.BOOKIE_SILENT,), None),
        ({"b1": 0, "b2": 0, "b3": 1}, Standing.SOUND, (), None),
    ],
)
def test_a_ledger_closed_without_entries_is_empty_only_where_bookies_show_it(
    answers: dict[str, int],
    standing: Standing,
    unknowns: tuple[Unknown, ...],
    exempt: Exempt | None,
) -> None:
    """An ack quorum of bookies that say nothing may hold an acknowledged entry. An entry above the
    end is remarked.
    """
    verdict = judge(
        record(ledger("e3 w3 a2 0:[b1 b2 b3] closed -1")), lists_up_to(answers), {}, TERMS
    )
    assert (standing, unknowns, exempt) == (verdict.standing, verdict.unknowns, verdict.exempt)
    is_remarked = 1 in answers.values()
    assert ([Kind.ENTRIES_BEYOND_END] if is_remarked else []) == kinds(verdict)


@pytest.mark.parametrize("state", ["open", "in_recovery"])
def test_an_open_ledger_is_never_called_empty(state: str) -> None:
    """BookKeeper writes lastEntryId -1 until the end is known."""
    verdict = judge(record(ledger(f"e3 w3 a2 0:[b1 b2 b3] {state}")), {}, {}, TERMS)
    assert (Standing.EXEMPT, state) == (verdict.standing, verdict.exempt)


def test_a_mark_on_an_empty_ledger_says_that_nothing_is_there_only_where_bookies_show_it() -> None:
    """The mark is beyond its grace."""
    marked = replace(
        record(ledger("e3 w3 a2 0:[b1 b2 b3] closed -1")), mark=Mark(NOW_MS - GRACE_MS - 1)
    )
    for held, is_said in (
        ({"b1": 0, "b2": 0}, True),
        ({"b1": 0}, False),
        ({"b1": 1, "b2": 0}, False),
    ):
        facts = judge(marked, lists_up_to(held), {}, TERMS).findings[0].facts
        assert isinstance(facts, MarkFacts)
        assert is_said is (WhyMarked.EMPTY_LEDGER in facts.why), held


def lists_up_to(ends: dict[str, int]) -> dict[str, Answer]:
    """Return the lists of bookies that hold every entry below a number."""
    return {
        b: Answer(b, LEDGER, 0, 0, AnswerStatus.HELD, groups(set(range(end))))
        for b, end in ends.items()
    }


def proven_read(bookie: str, entry: int, last_confirmed: int) -> EntryRead:
    """Return a read of an entry whose digest proves what its header says."""
    status, length = ReadStatus.PRESENT, 8 * (entry + 1)
    return EntryRead(
        bookie, LEDGER, entry, 0, 0, status, last_confirmed=last_confirmed, length_bytes=length
    )


def test_one_doubled_first_entry_id_costs_its_own_segments_only() -> None:
    """Segments at 0, 4, 4 and 7: it is unclear which bookies hold 4 to 6, but a copy lost elsewhere
    is found.
    """
    text = "e3 w3 a2 0:[b1 b2 b3] 4:[b1 b2 b3] 4:[b1 b2 b4] 7:[b1 b2 b3] closed 9"
    assert [Kind.METADATA_MALFORMED] == kinds(verdict_on(text))
    verdict = verdict_on(text, b3="2 8")
    assert [Kind.METADATA_MALFORMED, Kind.ENTRY_BELOW_WRITE_QUORUM] == kinds(verdict)
    assert ((2, 2), (8, 8)) == verdict.findings[1].entries


def test_a_copy_that_is_doubted_is_no_finding() -> None:
    """Of two corrupt copies one is in doubt: only the other is reported."""
    answers = {
        b: Answer(b, LEDGER, 0, 0, AnswerStatus.HELD, groups(held))
        for b, held in expected_on(ledger(E3)).items()
    }
    reads = {("b1", e): EntryRead("b1", LEDGER, e, 0, 0, ReadStatus.CORRUPT) for e in (4, 6)}
    (finding,) = judge(record(ledger(E3)), answers, reads, TERMS, doubted={("b1", 4)}).findings
    assert (Kind.ENTRY_CORRUPT, ((6, 6),)) == (finding.kind, finding.entries)


def test_a_lost_entry_without_a_spare_bookie_stands_for_both_reasons() -> None:
    """The mark stands because there is no copy to replicate, and because no bookie could take
    one.
    """
    terms = replace(
        TERMS, around=Surroundings(writable=frozenset({"b1", "b2", "b3"}), auditor="b1")
    )
    (finding,) = verdict_on(E3, YOUNG, terms, b1="4", b2="4", b3="4").findings
    assert isinstance(finding.facts, UnrecoverableFacts)
    assert (WhyMarked.NO_COPY, WhyMarked.NO_SPARE_BOOKIE) == finding.facts.mark.why


@pytest.mark.parametrize("mark", [None, YOUNG])
def test_what_each_bookie_lacks_is_reported_with_the_verdict(mark: Mark | None) -> None:
    """The missing entries are in the verdict also if an entry is lost and the ledger is marked."""
    verdict = verdict_on(E3, mark, b1="4 6", b2="4", b3="4")
    assert (
        BookieLack("b1", 10, 2),
        BookieLack("b2", 10, 1),
        BookieLack("b3", 10, 1),
    ) == verdict.lacks


@pytest.mark.parametrize(("said", "away"), [(SILENT, {"b2"}), (AnswerStatus.REFUSED, {"b1"})])
def test_maintenance_is_no_excuse_for_another_bookie_or_another_reason(
    said: AnswerStatus, away: set[str]
) -> None:
    """Maintenance does not excuse a silent bookie that is not in maintenance, or one in maintenance
    that is up and refuses.
    """
    terms = replace(TERMS, around=Surroundings(maintenance=frozenset(away)))
    verdict = verdict_on(E3, None, terms, b1=said)
    assert (Standing.INDETERMINATE, False) == (verdict.standing, verdict.only_maintenance)


@pytest.mark.parametrize(("entries_max", "searched"), [(0, None), (1, 1)])
def test_lost_entries_are_looked_for_elsewhere_if_one_may_be_read(
    entries_max: int, searched: int | None
) -> None:
    """The limit is a setting for each look. At 0 no bookie outside the ensemble is asked, and the
    finding has no search.
    """
    around = Surroundings(writable=frozenset({"b1", "b2", "b3", "b9"}))
    terms = replace(TERMS, around=around, stranded_entries_max=entries_max)
    (finding,) = verdict_on(E3, None, terms, b1="4", b2="4", b3="4").findings
    assert isinstance(finding.facts, EntryFacts)
    assert searched == (finding.facts.search and finding.facts.search.entries)

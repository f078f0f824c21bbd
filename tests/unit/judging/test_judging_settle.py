"""Judge evidence to a verdict or to a question: laws that hold whatever was seen."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.entry_by_entry import expected_on
from support.stories import GRACE_MS, LEDGER, NOW_MS, Bookie, State, Story, drive, stories

from auditor.first_checker import entry_set
from auditor.first_checker.beyond_end import END_READS_MAX
from auditor.first_checker.shares import FOREIGN_RUNS_MAX
from auditor.judging import settle as settle_module
from auditor.judging.settle import Todo, lists_demanded, reads_of_suspect, settle, settle_and_check
from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus, SequenceGroup
from auditor.model.cluster import Surroundings
from auditor.model.evidence import LedgerEvidence, Look, PlacementRule, Policy, Terms
from auditor.model.facts import EntryFacts, MarkFacts, Search, UnrecoverableFacts, WhyMarked
from auditor.model.finding import Finding, Kind
from auditor.model.identity import ENTRY_ID_MAX
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    Malformed,
    Mark,
    RecordStatus,
    Segment,
    ZnodeStamp,
)
from auditor.model.verdict import Exempt, Standing, Unknown
from auditor.sandbox.cluster import ledger
from auditor.second_checker.agreement import differences
from auditor.wire.entry_availability import canonical

TERMS = Terms(NOW_MS, GRACE_MS, 16, 5)
BOOKIES = ["b1", "b2", "b3", "b4", "b5"]
ALL = frozenset(range(20))
E3 = ledger("e3 w2 a2 0:[b1 b2 b3] closed 19")
HELD = {
    "b1": {e for e in ALL if (0 - e) % 3 < 2},
    "b2": {e for e in ALL if (1 - e) % 3 < 2},
    "b3": {e for e in ALL if (2 - e) % 3 < 2},
}


def story(name: str = "one story", metadata: LedgerMetadata = E3, **bookies: Bookie) -> Story:
    """Return a story in which bookies hold what they should, except those given."""
    sound = {name: Bookie(frozenset(held)) for name, held in HELD.items()}
    return Story(name, (State(metadata, {**sound, **bookies}),))


def test_a_sound_ledger_costs_one_list_a_bookie_and_no_second_look() -> None:
    """It is asked about once and judged."""
    driven = drive(story())
    assert [Todo.LISTS, Todo.NOTHING] == [step.todo for _, step in driven.steps]
    assert (Standing.SOUND, 1) == (driven.step.verdict.standing, len(driven.evidence.looks))


def test_a_header_that_proves_a_cut_counts_where_no_list_names_its_entry_by_now() -> None:
    """At the first look a bookie sends an entry above the end, and by the second it has lost it:
    both checkers say that the ledger was closed short.
    """
    before = {**story().states[0].bookies, "b1": Bookie(frozenset(HELD["b1"] | {25}))}
    one = Story("lost meanwhile", (State(E3, before), story().states[0]))
    driven = drive(one)
    assert [Kind.LEDGER_CLOSED_SHORT] == [one.kind for one in driven.step.verdict.findings]
    assert () == differences(driven.step.verdict, driven.evidence, one.terms)


def test_each_bookie_that_failed_to_list_is_read_whatever_another_answers() -> None:
    """Two of three stripes are on bookies that failed to list: one times out when it is read, the
    other fails, so that nobody can read its entries.
    """
    failed = AnswerStatus.FAILED
    driven = drive(
        story(
            metadata=ledger("e3 w1 a1 0:[b1 b2 b3] closed 9"),
            b1=Bookie(answer=failed, read=ReadStatus.TIMED_OUT),
            b2=Bookie(answer=failed, read=ReadStatus.FAILED),
            b3=Bookie(frozenset({2, 5, 8})),
        )
    )
    (found,) = driven.step.verdict.findings
    assert (Kind.ENTRY_UNAVAILABLE, ((1, 1), (7, 7))) == (found.kind, found.entries)
    assert () == differences(driven.step.verdict, driven.evidence, driven.story.terms)


def test_reads_are_not_looked_for_on_a_sound_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that is sound at the first look costs one judging and nothing else."""
    monkeypatch.setattr(settle_module, "wanted_reads", lambda *_: pytest.fail("nothing to read"))
    assert Standing.SOUND is drive(story()).step.verdict.standing


def test_whom_to_ask_is_known_without_judging() -> None:
    """`lists_demanded` does not judge. It returns the same questions as `settle` at the first look,
    and whenever a step demands lists.
    """
    for one in stories(300):
        for evidence, step in drive(one).steps:
            if len(evidence.looks) == 1 or step.todo is Todo.LISTS:
                assert step.questions == lists_demanded(evidence), (one.name, evidence)


def test_a_ledger_closed_without_entries_is_exempt_after_one_list_of_each_bookie() -> None:
    """The lists show that nothing lies above its end."""
    empty = {name: Bookie(frozenset()) for name in ("b1", "b2", "b3")}
    driven = drive(story(metadata=ledger("e3 w2 a2 0:[b1 b2 b3] closed -1"), **empty))
    assert [Todo.LISTS, Todo.NOTHING] == [step.todo for _, step in driven.steps]
    verdict = driven.step.verdict
    assert (Standing.EXEMPT, Exempt.EMPTY) == (verdict.standing, verdict.exempt)


@pytest.mark.parametrize("text", ["open"])
def test_ledgers_without_an_end_cost_no_question(text: str) -> None:
    """They are exempt after the first read of the metadata."""
    driven = drive(story(metadata=ledger(f"e3 w2 a2 0:[b1 b2 b3] {text}")))
    assert ([Todo.NOTHING], Standing.EXEMPT) == (
        [step.todo for _, step in driven.steps],
        driven.step.verdict.standing,
    )


@pytest.mark.parametrize(
    ("text", "away", "is_blocked"),
    [
        ("e2 w2 a1 0:[b1 b2] in_recovery", {"b2"}, True),
        ("e2 w2 a2 0:[b1 b2] in_recovery", {"b2"}, False),
        ("e2 w2 a2 0:[b1 b2] in_recovery", {"b1", "b2"}, True),
        ("e3 w2 a2 0:[b1 b2 b3] in_recovery", {"b2"}, False),
        ("e3 w2 a2 0:[b1 b2 b3] in_recovery", {"b1", "b3"}, True),
        ("e4 w2 a2 0:[b1 b2 b3 b4] in_recovery", {"b1", "b3"}, False),
        ("e1 w1 a1 0:[b2] 5:[b1] in_recovery", {"b2"}, False),
        ("e2 w2 a1 0:[b1 b2] open", {"b2"}, False),
    ],
)
@pytest.mark.parametrize("created_ms", [None, 0, NOW_MS])
def test_a_recovery_is_blocked_by_as_many_unknown_bookies_as_the_ack_quorum(
    text: str, away: set[str], is_blocked: bool, created_ms: int | None
) -> None:
    """In some write set of the last ensemble, whether the ledger is marked or not. Both checkers
    say so, after two looks.
    """
    bookies = {f"b{n}": Bookie(frozenset(range(9))) for n in range(1, 5)}
    bookies |= dict.fromkeys(away, AWAY)
    one = Story("recovery", (State(ledger(text), bookies),))
    driven = drive(one if created_ms is None else marked(one, created_ms))
    kinds = [one.kind for one in driven.step.verdict.findings]
    assert is_blocked is (Kind.RECOVERY_BLOCKED in kinds)
    assert () == differences(driven.step.verdict, driven.evidence, one.terms)
    if is_blocked:
        assert 2 == sum(bool(look.answers) for look in driven.evidence.looks)


@pytest.mark.parametrize(
    ("status", "others", "is_blocked"),
    [
        (AnswerStatus.FAILED, None, True),
        (AnswerStatus.SILENT, None, True),
        (AnswerStatus.SILENT, AnswerStatus.SILENT, False),
        (AnswerStatus.TIMED_OUT, None, False),
        (AnswerStatus.REFUSED, None, False),
        (AnswerStatus.UNSUPPORTED, None, False),
        (AnswerStatus.ADDRESS_UNKNOWN, None, False),
    ],
)
def test_only_a_bookie_that_fails_for_everybody_blocks_a_recovery(
    status: AnswerStatus, others: AnswerStatus | None, is_blocked: bool
) -> None:
    """Silence counts where another bookie of the ensemble shows that we reach the cluster."""
    bookies = {"b1": Bookie(answer=others), "b2": Bookie(answer=status)}
    one = Story("recovery", (State(ledger("e2 w2 a1 0:[b1 b2] in_recovery"), bookies),))
    driven = drive(one)
    assert is_blocked is bool(driven.step.verdict.findings)
    assert () == differences(driven.step.verdict, driven.evidence, one.terms)


def test_a_bookie_that_is_back_at_the_second_look_blocks_no_recovery() -> None:
    """It was restarting."""
    metadata = ledger("e2 w2 a1 0:[b1 b2] in_recovery")
    first = State(metadata, {"b1": Bookie(), "b2": AWAY})
    driven = drive(Story("back", (first, State(metadata, {"b1": Bookie(), "b2": Bookie()}))))
    assert (Standing.EXEMPT, ()) == (driven.step.verdict.standing, driven.step.verdict.findings)


def test_a_suspect_is_asked_read_and_read_again_before_it_is_reported() -> None:
    """Lists and reads at two looks, then the metadata once more, then the verdict."""
    driven = drive(story(b1=Bookie(frozenset(HELD["b1"] - {6}))))
    assert [Todo.LISTS, Todo.READS, Todo.LOOK, Todo.LISTS, Todo.READS, Todo.LOOK, Todo.NOTHING] == [
        s.todo for _, s in driven.steps
    ]


def test_what_only_maintenance_kept_from_being_judged_is_not_looked_at_again() -> None:
    """A bookie that is known to be down will be down at the next look too. Another silent bookie
    may answer then.
    """
    silent = Bookie(answer=AnswerStatus.SILENT)
    asked = next(
        evidence for evidence, _ in drive(story(b1=silent)).steps if evidence.looks[-1].answers
    )
    both = next(
        evidence
        for evidence, _ in drive(story(b1=silent, b2=silent)).steps
        if evidence.looks[-1].answers
    )
    away = replace(TERMS, around=Surroundings(maintenance=frozenset({"b1"})))
    steps = [
        settle(evidence, terms) for evidence, terms in ((asked, away), (asked, TERMS), (both, away))
    ]
    assert [Todo.NOTHING, Todo.LOOK, Todo.LOOK] == [step.todo for step in steps]
    assert [True, False, False] == [step.verdict.only_maintenance for step in steps]
    assert {(Standing.INDETERMINATE, (Unknown.BOOKIE_SILENT,))} == {
        (s.verdict.standing, s.verdict.unknowns) for s in steps
    }


def test_a_list_that_proves_wrong_costs_a_read_and_no_second_look() -> None:
    """No bookie lists the only entry, and each sends it: SOUND with three false negatives, after
    one look.
    """
    metadata = ledger("e3 w3 a2 0:[b1 b2 b3] closed 0")
    tail = Story(
        "tail", (State(metadata, {b: Bookie(frozenset({0}), frozenset({0})) for b in HELD}),)
    )
    driven = drive(tail)
    assert [Todo.LISTS, Todo.READS, Todo.NOTHING] == [step.todo for _, step in driven.steps]
    assert (Standing.SOUND, 3) == (
        driven.step.verdict.standing,
        driven.step.verdict.listing_false_negatives,
    )


def test_a_bookie_that_cannot_list_is_not_waited_for() -> None:
    """A second look cannot change `bookie_unsupported`. A silent bookie may answer at the second
    look.
    """
    old = Bookie(answer=AnswerStatus.UNSUPPORTED)
    assert 1 == len(drive(story(b1=old)).evidence.looks)
    assert 3 == len(drive(story(b1=old, b2=Bookie(answer=AnswerStatus.SILENT))).evidence.looks)


def marked(one: Story, created_ms: int = NOW_MS) -> Story:
    """Return the same story with the ledger marked at every look."""
    return replace(one, states=tuple(replace(state, mark=Mark(created_ms)) for state in one.states))


def test_a_marked_ledger_that_lost_nothing_is_asked_about_once() -> None:
    """Within grace it is exempt after one look. Lists are requested, because a mark may hide a
    loss.
    """
    driven = drive(marked(story(b1=Bookie(answer=AnswerStatus.UNREGISTERED))))
    assert [Todo.LISTS, Todo.NOTHING] == [step.todo for _, step in driven.steps]
    assert (Standing.EXEMPT, ()) == (driven.step.verdict.standing, driven.step.verdict.unknowns)


def test_a_mark_beyond_grace_costs_one_look_at_the_bookies() -> None:
    """The second look reads the mark again and asks no bookie."""
    driven = drive(marked(story(), created_ms=0))
    assert [Todo.LISTS, Todo.LOOK, Todo.NOTHING] == [step.todo for _, step in driven.steps]
    assert [Kind.UNDERREPLICATED_BEYOND_GRACE] == [
        finding.kind for finding in driven.step.verdict.findings
    ]


AWAY = Bookie(answer=AnswerStatus.UNREGISTERED)


@pytest.mark.parametrize(
    ("b1", "expected"),
    [
        (AWAY, True),
        (Bookie(answer=AnswerStatus.SILENT), True),
        (Bookie(frozenset(HELD["b1"] - {6})), True),
        (Bookie(frozenset(HELD["b1"]), frozenset(HELD["b1"])), False),
        (Bookie(frozenset(HELD["b1"]), corrupt=frozenset({6}), unlisted=frozenset({6})), False),
        (
            Bookie(
                frozenset(HELD["b1"]), answer=AnswerStatus.UNSUPPORTED, read=ReadStatus.TIMED_OUT
            ),
            False,
        ),
        (Bookie(answer=AnswerStatus.REFUSED), False),
    ],
)
def test_no_copy_is_in_reach_where_no_bookie_that_is_there_may_have_it(
    b1: Bookie, expected: bool
) -> None:
    """Entry 6 belongs on b1 and b2, and b2 is not registered. A copy is in reach if b1 answered and
    may have it.
    """
    marked_story = replace(
        marked(story(b1=b1, b2=AWAY), 0), reads_max=2, more_terms={"probe_entries": 1}
    )
    driven = drive(marked_story)
    why = [
        one.facts.why for one in driven.step.verdict.findings if isinstance(one.facts, MarkFacts)
    ]
    assert [expected] == [WhyMarked.NO_COPY_IN_REACH in one for one in why]
    assert () == differences(driven.step.verdict, driven.evidence, marked_story.terms)


def test_a_marked_ledger_with_a_lost_entry_is_unrecoverable_and_nothing_else() -> None:
    """Within grace or beyond, the loss is confirmed at two looks, and the facts have the mark's
    age.
    """
    lost = {b: Bookie(frozenset(HELD[b] - {6})) for b in ("b1", "b2")}
    for created_ms in (NOW_MS, 0):
        driven = drive(marked(story(**lost), created_ms))
        (finding,) = driven.step.verdict.findings
        assert (Kind.UNDERREPLICATED_UNRECOVERABLE, ((6, 6),)) == (finding.kind, finding.entries)
        assert NOW_MS - created_ms == mark_of(finding).age_ms
        assert 3 == len(driven.evidence.looks)


def test_what_a_gone_bookie_held_is_lost_whether_the_ledger_is_marked_or_not() -> None:
    """A bookie with neither registration nor cookie will not come back. The verdict has no reason
    to be unknown, and the loss is the only finding.
    """
    lost = {
        "b1": Bookie(frozenset(HELD["b1"] - {6})),
        "b2": Bookie(answer=AnswerStatus.UNREGISTERED, is_forgotten=True),
    }
    (finding,) = drive(marked(story(**lost))).step.verdict.findings
    assert (Kind.UNDERREPLICATED_UNRECOVERABLE, ((6, 6),)) == (finding.kind, finding.entries)
    driven = drive(story(**lost))
    verdict = driven.step.verdict
    kinds = {one.kind for one in verdict.findings}
    assert ({Kind.ENTRY_WITHOUT_REPLICA}, ()) == (kinds, verdict.unknowns)
    assert () == differences(verdict, driven.evidence, driven.story.terms)


def test_each_gone_bookie_that_should_hold_an_entry_is_reported() -> None:
    """Entry 6 has no copy on b1 and b2. b3 is gone and lacks other entries. b4 is gone too, but
    should hold no entry.
    """
    gone = Bookie(answer=AnswerStatus.UNREGISTERED, is_forgotten=True)
    lost = {bookie: Bookie(frozenset(HELD[bookie] - {6})) for bookie in ("b1", "b2")}
    metadata = ledger("e3 w2 a2 0:[b1 b2 b3] 20:[b1 b2 b4] closed 19")
    driven = drive(story(metadata=metadata, **lost, b3=gone, b4=gone))
    (finding,) = driven.step.verdict.findings
    assert (6, ("b1", "b2"), ("b3",)) == (
        finding.facts.worst_entry,
        finding.facts.write_set,
        finding.facts.gone,
    )
    assert () == differences(driven.step.verdict, driven.evidence, driven.story.terms)


@pytest.mark.parametrize(
    ("ack", "bookies", "expected"),
    [
        (2, {"b3": Bookie(frozenset(range(999)))}, True),
        (
            2,
            {"b3": Bookie(frozenset(range(1, 998, 2)) | {0}, answer=AnswerStatus.UNSUPPORTED)},
            False,
        ),
        (2, {"b3": Bookie(frozenset(range(999)), answer=AnswerStatus.UNSUPPORTED)}, False),
        (2, {"b2": Bookie(answer=AnswerStatus.SILENT), "b3": Bookie(frozenset(range(999)))}, False),
        (1, {"b2": Bookie(answer=AnswerStatus.SILENT), "b3": Bookie(frozenset(range(999)))}, True),
        (2, dict.fromkeys(("b1", "b2", "b3"), Bookie(frozenset(range(999)))), False),
        (2, dict.fromkeys(("b2", "b3"), Bookie(frozenset(range(999)))), False),
    ],
)
def test_only_the_end_is_missing_where_the_ack_quorum_has_it_and_nothing_is_assumed(
    ack: int, bookies: dict[str, Bookie], expected: bool
) -> None:
    """Entries 0-999 are on three bookies. A sample does not show the entries in between, and a copy
    that nobody saw acknowledges nothing.
    """
    metadata = ledger(f"e3 w3 a{ack} 0:[b1 b2 b3] closed 999")
    sound = dict.fromkeys(("b1", "b2", "b3"), Bookie(frozenset(range(1000))))
    tail = Story("tail", (State(metadata, {**sound, **bookies}),), more_terms={"probe_entries": 1})
    driven = drive(tail)
    (finding,) = driven.step.verdict.findings
    assert expected is finding.facts.at_tail
    assert () == differences(driven.step.verdict, driven.evidence, tail.terms)


def test_a_marked_ledger_whose_metadata_keeps_changing_is_still_marked_too_long() -> None:
    """Re-replication changes the metadata during the looks. The mark's age is reported, whatever
    else stays unknown.
    """
    lost = {b: Bookie(frozenset(HELD[b] - {6})) for b in ("b1", "b2")}
    state = replace(story(**lost).states[0], mark=Mark(0))
    driven = drive(Story("moving", tuple(replace(state, version=n) for n in range(20))))
    verdict = driven.step.verdict
    assert [Kind.UNDERREPLICATED_BEYOND_GRACE] == [finding.kind for finding in verdict.findings]
    assert (Standing.VIOLATED, (Unknown.UNSETTLED,)) == (verdict.standing, verdict.unknowns)


def test_a_marked_ledger_with_a_bookie_that_did_not_answer_is_asked_about_again() -> None:
    """Two bookies time out at the first look and lack the entry at the second: the mark no longer
    hides the loss.
    """
    short = {b: Bookie(frozenset(HELD[b] - {6})) for b in ("b1", "b2")}
    slow = {b: replace(bookie, answer=AnswerStatus.TIMED_OUT) for b, bookie in short.items()}
    for created_ms in (NOW_MS, 0):
        first, second = (
            marked(story(**bookies), created_ms).states[0] for bookies in (slow, short)
        )
        (finding,) = drive(Story("slow", (first, second, second, second))).step.verdict.findings
        assert (Kind.UNDERREPLICATED_UNRECOVERABLE, ((6, 6),)) == (finding.kind, finding.entries)


def test_a_marked_ledger_with_a_read_that_failed_is_asked_about_again() -> None:
    """Both bookies of the write set lack the entry, and one confirming read times out. The next
    look decides, or the reason `answer_timeout` remains.
    """
    short = {b: Bookie(frozenset(HELD[b] - {6})) for b in ("b1", "b2")}
    slow = {**short, "b2": replace(short["b2"], read=ReadStatus.TIMED_OUT)}
    first, second = (marked(story(**bookies)).states[0] for bookies in (slow, short))
    (finding,) = drive(Story("slow", (first, second, second))).step.verdict.findings
    assert (Kind.UNDERREPLICATED_UNRECOVERABLE, ((6, 6),)) == (finding.kind, finding.entries)
    driven = drive(Story("slow", (first,)))
    verdict = driven.step.verdict
    assert (Standing.INDETERMINATE, (Unknown.ANSWER_TIMEOUT,)) == (
        verdict.standing,
        verdict.unknowns,
    )
    assert () == differences(verdict, driven.evidence, driven.story.terms)


def test_a_marked_ledger_waits_for_no_bookie_that_is_gone_or_in_maintenance() -> None:
    """One look is enough: the mark exists for unregistered bookies."""
    gone = marked(story(b1=Bookie(answer=AnswerStatus.UNREGISTERED)))
    away = replace(
        marked(story(b1=Bookie(answer=AnswerStatus.SILENT))),
        more_terms={"around": Surroundings(maintenance=frozenset({"b1"}))},
    )
    assert [1, 1] == [len(drive(one).evidence.looks) for one in (gone, away)]


def test_a_bookie_in_maintenance_that_answers_wrongly_is_no_excuse() -> None:
    """Maintenance explains silence. It does not explain an invalid answer to a read."""
    around = Surroundings(maintenance=frozenset({"b1"}))
    bad = Bookie(frozenset(HELD["b1"] - {6}), read=ReadStatus.INVALID)
    in_maintenance = replace(story(b1=bad), more_terms={"around": around})
    quiet = replace(story(b1=Bookie(answer=AnswerStatus.SILENT)), more_terms={"around": around})
    assert [False, True] == [
        drive(one).step.verdict.only_maintenance for one in (in_maintenance, quiet)
    ]


# What only metadata says


def test_what_metadata_alone_says_is_read_twice_and_asked_about_once() -> None:
    """A bookie is named twice in the ensemble and every copy exists: two looks, and one list a
    bookie.
    """
    twice = ledger("e3 w2 a2 0:[b1 b2 b1] closed 1")
    held = {"b1": Bookie(frozenset({0, 1})), "b2": Bookie(frozenset({0, 1}))}
    driven = drive(Story("twice", (State(twice, held),)))
    assert [Todo.LISTS, Todo.LOOK, Todo.NOTHING] == [step.todo for _, step in driven.steps]
    assert [Kind.ENSEMBLE_DUPLICATE_BOOKIE] == [
        finding.kind for finding in driven.step.verdict.findings
    ]


def stuck(*states: State) -> Story:
    return replace(Story("stuck", states), more_terms={"stuck_after_ms": 1_000})


def test_a_ledger_open_for_long_is_exempt_and_remarked_on_at_a_second_look_without_waiting() -> (
    None
):
    """A finding of severity info never changes a standing and never makes a run wait."""
    driven = drive(stuck(State(ledger("e3 w2 a2 0:[b1 b2 b3] open"), ctime_ms=5)))
    assert [(Todo.LOOK, False), (Todo.NOTHING, False)] == [
        (step.todo, step.wait) for _, step in driven.steps
    ]
    assert [Kind.LEDGER_STUCK] == [finding.kind for finding in driven.step.verdict.findings]
    assert Standing.EXEMPT is driven.step.verdict.standing


def test_a_remark_that_no_longer_holds_at_the_second_look_is_dropped() -> None:
    """Something was written to the ledger between the looks: it is not stuck."""
    state = State(ledger("e3 w2 a2 0:[b1 b2 b3] open"), ctime_ms=5)
    driven = drive(stuck(state, replace(state, version=1)))
    assert (Standing.EXEMPT, ()) == (driven.step.verdict.standing, driven.step.verdict.findings)


@pytest.mark.parametrize(
    ("text", "ctime_ms", "mtime_ms", "found"),
    [
        ("open", NOW_MS - 1_001, NOW_MS, True),
        ("open", NOW_MS - 1_000, 1, False),
        ("in_recovery", 1, NOW_MS - 1_001, True),
        ("in_recovery", 1, NOW_MS - 1_000, False),
        ("closed 9", 1, 1, False),
    ],
)
def test_open_counts_from_creation_and_in_recovery_from_the_last_write(
    text: str, ctime_ms: int, mtime_ms: int, found: bool
) -> None:
    """The time must exceed the setting."""
    held = {
        b: Bookie(frozenset(e for e in range(10) if (k - e) % 3 < 2))
        for k, b in enumerate(("b1", "b2", "b3"))
    }
    state = State(
        ledger(f"e3 w2 a2 0:[b1 b2 b3] {text}"), held, ctime_ms=ctime_ms, mtime_ms=mtime_ms
    )
    kinds = [finding.kind for finding in drive(stuck(state)).step.verdict.findings]
    assert ([Kind.LEDGER_STUCK] if found else []) == kinds


RACK = {
    "placement": PlacementRule(Policy.RACK),
    "around": Surroundings(locations={"b1": "/r1", "b2": "/r1", "b3": "/r2"}),
}


def test_placement_is_judged_beside_coverage_and_costs_one_look_more() -> None:
    """b1 and b2 share a rack. This is found on a ledger with all its copies, at a second look that
    asks no bookie.
    """
    driven = drive(replace(story(), more_terms=RACK))
    assert [Todo.LISTS, Todo.LOOK, Todo.NOTHING] == [step.todo for _, step in driven.steps]
    assert [Kind.PLACEMENT_FAILED] == [finding.kind for finding in driven.step.verdict.findings]


def test_a_bookie_without_a_location_leaves_placement_unknown() -> None:
    """There is no guess and no second look: a run has one topology."""
    around = Surroundings(locations={"b2": "/r1", "b3": "/r2"})
    driven = drive(replace(story(), more_terms={**RACK, "around": around}))
    verdict = driven.step.verdict
    assert (Standing.INDETERMINATE, (Unknown.TOPOLOGY_UNKNOWN,)) == (
        verdict.standing,
        verdict.unknowns,
    )
    assert 1 == len(driven.evidence.looks)


def test_an_ensemble_with_too_many_write_sets_leaves_placement_unknown_and_entries_judged() -> None:
    """400 bookies and a write quorum of 251 are too many for both checkers. What one bookie lacks
    is still found.
    """
    names = [f"b{n}" for n in range(400)]
    wide = ledger(f"e400 w251 a2 0:[{' '.join(names)}] closed 1")
    held = {name: frozenset(entries) for name, entries in expected_on(wide).items()}
    around = Surroundings(locations={name: f"/r{n % 2}" for n, name in enumerate(names)})
    for lost, standing in (
        (frozenset[int](), Standing.INDETERMINATE),
        (frozenset({0}), Standing.VIOLATED),
    ):
        bookies = {
            name: Bookie(entries - lost if name == "b0" else entries)
            for name, entries in held.items()
        }
        driven = drive(
            Story("wide", (State(wide, bookies),), more_terms={**RACK, "around": around})
        )
        verdict = driven.step.verdict
        assert (standing, (Unknown.TOPOLOGY_UNKNOWN,)) == (verdict.standing, verdict.unknowns)
        assert () == differences(verdict, driven.evidence, driven.story.terms)


@pytest.mark.parametrize("text", ["open", "in_recovery", "closed -1"])
def test_placement_is_not_judged_where_nothing_is_closed_and_stored(text: str) -> None:
    """These are open, in recovery and empty ledgers, and those marked within grace, whose ensemble
    is being rebuilt.
    """
    bare = Story("bare", (State(ledger(f"e3 w2 a2 0:[b1 b2 b3] {text}")),), more_terms=RACK)
    assert () == drive(bare).step.verdict.findings
    assert () == drive(marked(replace(story(), more_terms=RACK))).step.verdict.findings


# Copies outside the ensembles


def search(finding: Finding) -> Search:
    """Return how far the finding's entries were searched for elsewhere."""
    facts = (
        finding.facts.entries if isinstance(finding.facts, UnrecoverableFacts) else finding.facts
    )
    assert isinstance(facts, EntryFacts) and facts.search is not None, finding
    return facts.search


def mark_of(finding: Finding) -> MarkFacts:
    """Return the mark of the finding's ledger."""
    assert isinstance(finding.facts, UnrecoverableFacts), finding
    return finding.facts.mark


def stranded(*holders: str, lost: tuple[int, ...] = (6,), limit: int = 16, **more: Bookie) -> Story:
    """Return a story with entries lost on their whole write set. x1 and x2 are registered, and the
    metadata does not name them. `holders` have the lost entries.
    """
    gone = {b: Bookie(frozenset(HELD[b] - set(lost))) for b in HELD}
    others = {
        b: Bookie(frozenset(lost)) if b in holders else Bookie(knows_ledger=False)
        for b in ("x1", "x2")
    }
    one = story(**{**gone, **others, **more})
    around = Surroundings(writable=frozenset({"b1", "b2", "b3", "x1"}), readonly=frozenset({"x2"}))
    return replace(one, more_terms={"around": around, "stranded_entries_max": limit})


def test_an_entry_alive_on_a_bookie_that_metadata_does_not_name_is_found_there() -> None:
    """It is read at both looks on every registered bookie that gave no list, writable or read-only.
    b3 gave a list without it.
    """
    driven = drive(stranded("x2"))
    (finding,) = driven.step.verdict.findings
    assert (Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE, ((6, 6),)) == (finding.kind, finding.entries)
    assert (("x2",), ("b3", "x1", "x2")) == (
        search(finding).found_unnamed,
        search(finding).searched,
    )
    assert [{"x1", "x2"}] * 2 == [
        {b for b, _ in look.reads if b[0] == "x"} for look in driven.evidence.looks if look.reads
    ]


def test_nobody_else_is_read_for_an_entry_that_has_a_copy() -> None:
    """Only entries without a copy are searched for."""
    one = stranded("x2", b1=Bookie(frozenset(HELD["b1"])))
    driven = drive(one)
    assert [Kind.ENTRY_BELOW_ACK_QUORUM] == [
        finding.kind for finding in driven.step.verdict.findings
    ]
    assert not [b for look in driven.evidence.looks for b, _ in look.reads if b[0] == "x"]


def test_a_bookie_that_does_not_know_the_ledger_is_read_once() -> None:
    """ENOLEDGER answers for all entries. A bookie that holds some is read for more of them, up to
    the limit.
    """
    driven = drive(stranded("x1", lost=(3, 6, 9, 12, 15), limit=3))
    first = driven.evidence.looks[0]
    assert (1, 3) == (
        sum(b == "x2" for b, _ in first.reads),
        sum(b == "x1" for b, _ in first.reads),
    )
    (finding,) = driven.step.verdict.findings
    assert (Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE, 5) == (finding.kind, finding.entries_total)
    assert (3, 3, 2) == (
        search(finding).entries,
        search(finding).entries_unnamed,
        search(finding).entries_left,
    )


def test_one_entry_alive_nowhere_makes_it_a_loss() -> None:
    """Entry 6 has no copy anywhere, and entry 3 has one on x1. The kind is that of a loss, and x1
    is named.
    """
    driven = drive(stranded(lost=(3, 6), x1=Bookie(frozenset({3}))))
    (finding,) = driven.step.verdict.findings
    found = search(finding)
    assert (Kind.ENTRY_WITHOUT_REPLICA, 2) == (finding.kind, finding.entries_total)
    assert (2, 1, ("x1",)) == (found.entries, found.entries_found, found.found_on)


@pytest.mark.parametrize(("holders", "known"), [("x2", "x2"), ("x1 x2", "x2"), ("x1", "")])
def test_a_copy_on_a_bookie_of_a_segment_without_entries_is_reported_and_no_stray(
    holders: str, known: str
) -> None:
    """x2 should hold no entry, but a segment names it. It is read, and its garbage collection keeps
    the ledger. No segment names x1, which may delete its copy.
    """
    one = stranded(*holders.split())
    state = replace(one.states[0], metadata=ledger("e3 w2 a2 0:[b1 b2 b3] 20:[b1 b2 x2] closed 19"))
    driven = drive(replace(one, states=(state,)))
    (finding,) = driven.step.verdict.findings
    kind = Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE if "x1" in holders else Kind.ENTRY_WITHOUT_REPLICA
    assert (kind, tuple(holders.split())) == (finding.kind, search(finding).found_on)
    assert set(known.split()) == set(search(finding).found_on) - set(search(finding).found_unnamed)
    assert () == differences(driven.step.verdict, driven.evidence, driven.story.terms)


def test_an_unrecoverable_ledger_names_who_still_holds_its_entries() -> None:
    """The kind does not change: auto-recovery asks only the ensemble."""
    (finding,) = drive(marked(stranded("x1"))).step.verdict.findings
    assert (Kind.UNDERREPLICATED_UNRECOVERABLE, ("x1",)) == (
        finding.kind,
        search(finding).found_unnamed,
    )


def test_a_copy_that_its_holder_forgot_between_the_looks_is_no_copy() -> None:
    """x1 has all lost entries at the first look and answers ENOLEDGER at the second: it is not
    named as a holder.
    """
    one = stranded("x1", lost=(3, 6, 9))
    first = one.states[0]
    second = replace(first, bookies={**first.bookies, "x1": Bookie(knows_ledger=False)})
    (finding,) = drive(replace(one, states=(first, second))).step.verdict.findings
    assert (Kind.ENTRY_WITHOUT_REPLICA, 0, ()) == (
        finding.kind,
        search(finding).entries_found,
        search(finding).found_on,
    )


def test_both_checkers_forget_a_copy_that_its_holder_forgot() -> None:
    """x1 has entries 6 and 9 at the first look and answers ENOLEDGER at the second. x2 has only the
    lowest lost entry.
    """
    one = stranded("x1", lost=(3, 6, 9), x2=Bookie(frozenset({3})))
    first = one.states[0]
    driven = drive(
        replace(
            one,
            states=(
                first,
                replace(first, bookies={**first.bookies, "x1": Bookie(knows_ledger=False)}),
            ),
        )
    )
    assert [Kind.ENTRY_WITHOUT_REPLICA] == [
        finding.kind for finding in driven.step.verdict.findings
    ]
    assert () == differences(driven.step.verdict, driven.evidence, driven.story.terms)


def test_a_silent_bookie_outside_the_ensemble_is_reported_and_accuses_nobody_less() -> None:
    """Every bookie of the write set answered: the loss is reported, and the finding names the
    bookie that could not be searched.
    """
    (finding,) = drive(stranded(x1=Bookie(read=ReadStatus.SILENT))).step.verdict.findings
    assert (Kind.ENTRY_WITHOUT_REPLICA, ("x1",), ("b3", "x2")) == (
        finding.kind,
        search(finding).unheard,
        search(finding).searched,
    )


def test_reads_go_only_to_bookies_that_answered_at_this_look() -> None:
    """b1 lacked an entry at the first look and is silent at the second: it is not read then, and
    the loss is still reported.
    """
    short = Bookie(frozenset(HELD["b1"] - {6}))
    first = story(b1=short).states[0]
    second = replace(
        first, bookies={**first.bookies, "b1": replace(short, answer=AnswerStatus.SILENT)}
    )
    driven = drive(Story("then silent", (first, second)))
    assert {0} == {look.record.look for look in driven.evidence.looks if look.reads}
    assert Standing.VIOLATED is driven.step.verdict.standing


# Whatever was seen


def numbers() -> st.SearchStrategy[int]:
    """Draw small and negative numbers, and the edges of 64 bits."""
    edges = [0, 1, 1023, 1024, 2**31 - 1, 2**31, 2**53, 2**62, ENTRY_ID_MAX]
    return st.one_of(st.integers(-3, 12), st.sampled_from([*edges, *(-e for e in edges), -(2**63)]))


SEGMENTS = st.lists(
    st.builds(Segment, numbers(), st.lists(st.sampled_from(BOOKIES), max_size=6).map(tuple)),
    max_size=5,
)
METADATA = st.builds(
    LedgerMetadata,
    st.just(3),
    st.sampled_from([*LedgerState, LedgerState.CLOSED, LedgerState.CLOSED]),
    st.integers(-2, 6),
    st.integers(-2, 6),
    st.integers(-2, 6),
    st.one_of(st.none(), numbers()),
    numbers(),
    SEGMENTS.map(tuple),
)


@st.composite
def plausible_metadata(draw: st.DrawFn) -> LedgerMetadata:
    """Draw metadata that is nearly right: closed, with sensible quorums and ascending segments, but
    of any length.
    """
    size = draw(st.integers(1, 5))
    write = draw(st.integers(1, size))
    firsts = sorted({0, *draw(st.lists(st.integers(0, 2**62), max_size=3))})
    ensemble = st.lists(st.sampled_from(BOOKIES), min_size=size, max_size=size).map(tuple)
    segments = tuple(Segment(first, draw(ensemble)) for first in firsts)
    last = draw(st.sampled_from([firsts[-1] - 1, firsts[-1], firsts[-1] + 9, 2**62, ENTRY_ID_MAX]))
    return LedgerMetadata(
        3, LedgerState.CLOSED, size, write, draw(st.integers(0, write + 1)), last, 0, segments
    )


@st.composite
def group(draw: st.DrawFn) -> SequenceGroup:
    """Draw one group that the encoding allows, near 0 or anywhere."""
    first = draw(st.one_of(st.integers(0, 40), st.integers(0, 2**62)))
    size = draw(st.one_of(st.integers(1, 5), st.sampled_from([1000, 2**31 - 1])))
    count = draw(st.one_of(st.integers(1, 4), st.sampled_from([1000, 2**29])))
    period = draw(st.integers(size, max(size, 12)))
    if count == 1 or first + period * (count - 1) + size > 2**63 - 1 or period > 2**31 - 1:
        return SequenceGroup(first, first, size, 0)
    return SequenceGroup(first, first + period * (count - 1), size, period)


@st.composite
def disjoint_groups(draw: st.DrawFn) -> bytes:
    """Draw a list in canonical form."""
    found: list[SequenceGroup] = []
    for one in sorted(draw(st.lists(group(), max_size=4))):
        if not found or one.first > found[-1].last + found[-1].size - 1:
            found.append(one)
    return canonical(found)


@st.composite
def evidence(draw: st.DrawFn) -> LedgerEvidence:
    """Draw looks with any answers and reads, fitting or not."""
    metadata = st.one_of(METADATA, plausible_metadata(), plausible_metadata())
    same = draw(metadata)
    found = []
    for number in range(draw(st.integers(1, 4))):
        status = draw(st.sampled_from([*RecordStatus, *[RecordStatus.FOUND] * 6]))
        record = LedgerRecord(
            LEDGER,
            number,
            NOW_MS,
            status,
            (
                ZnodeStamp(1, draw(st.integers(0, 1)), 0)
                if status in (RecordStatus.FOUND, RecordStatus.MALFORMED)
                else None
            ),
            draw(st.one_of(st.just(same), metadata)) if status is RecordStatus.FOUND else None,
            Malformed("x", 0, 1, "") if status is RecordStatus.MALFORMED else None,
            draw(
                st.one_of(
                    st.none(),
                    st.none(),
                    st.builds(Mark, numbers(), st.one_of(st.none(), numbers())),
                )
            ),
        )
        answers = {}
        for bookie in draw(st.lists(st.sampled_from([*BOOKIES, "other"]), unique=True)):
            said = draw(st.sampled_from([*AnswerStatus, *[AnswerStatus.HELD] * 6]))
            held = draw(disjoint_groups()) if said is AnswerStatus.HELD else b""
            answers[bookie] = Answer(bookie, LEDGER, number, 0, said, held)
        keys = draw(
            st.lists(st.tuples(st.sampled_from([*BOOKIES, "other"]), numbers()), max_size=6)
        )
        reads = {
            k: EntryRead(k[0], LEDGER, k[1], number, 0, draw(st.sampled_from(list(ReadStatus))))
            for k in keys
        }
        found.append(Look(record, answers, reads))
    return LedgerEvidence(LEDGER, tuple(found))


@given(evidence())
def test_settle_never_raises_and_always_knows_what_next(seen: LedgerEvidence) -> None:
    """For any metadata, answers and reads it returns a verdict. Only a step that demands lists has
    questions, and only one that demands reads has reads.
    """
    step = settle(seen, TERMS)
    assert bool(step.questions) == (step.todo is Todo.LISTS)
    assert bool(step.reads) == (step.todo is Todo.READS)
    early = reads_of_suspect(seen, TERMS)
    assert early is None or early == replace(step, verdict=early.verdict)
    if step.asks_next:
        record = seen.looks[-1].record
        again = Look(replace(record, look=record.look + 1))
        later = replace(seen, looks=(*seen.looks, again))
        assert settle(later, TERMS).todo is Todo.LISTS
    assert not step.wait or step.todo is Todo.LOOK
    assert len({q.bookie_id for q in step.questions}) == len(step.questions)
    for bookie, entry in step.reads:
        assert bookie in seen.looks[-1].answers
        assert entry >= 0
    for finding in step.verdict.findings:
        assert finding.entries_total >= len(finding.entries)
        assert all(first <= last for first, last in finding.entries)


@given(
    plausible_metadata(),
    st.lists(disjoint_groups(), min_size=5, max_size=5),
    st.sampled_from(list(ReadStatus)),
)
def test_a_ledger_of_any_size_comes_to_an_end(
    metadata: LedgerMetadata, lists: list[bytes], read: ReadStatus
) -> None:
    """Asking and reading end within the bounds on looks and reads, whatever the lists say."""
    looks = [
        Look(LedgerRecord(LEDGER, 0, NOW_MS, RecordStatus.FOUND, ZnodeStamp(1, 0, 0), metadata))
    ]
    said = dict(zip(BOOKIES, lists, strict=True))
    for _ in range(100):
        step = settle(LedgerEvidence(LEDGER, tuple(looks)), TERMS)
        newest = looks[-1]
        if step.todo is Todo.NOTHING:
            break
        if step.todo is Todo.LOOK:
            looks.append(Look(replace(newest.record, look=len(looks))))
        elif step.todo is Todo.LISTS:
            answers = {
                q.bookie_id: Answer(q.bookie_id, LEDGER, 0, 0, AnswerStatus.HELD, said[q.bookie_id])
                for q in step.questions
            }
            looks[-1] = replace(newest, answers=answers)
        else:
            reads = {key: EntryRead(key[0], LEDGER, key[1], 0, 0, read) for key in step.reads}
            assert not set(reads) & set(newest.reads)
            looks[-1] = replace(newest, reads={**newest.reads, **reads})
    assert step.todo is Todo.NOTHING
    assert len(looks) <= 2 * TERMS.looks_max + 1
    assert all(
        sum(b == one for b, _ in look.reads) <= TERMS.confirming_reads_max + END_READS_MAX
        for look in looks
        for one in BOOKIES
    )


def _steps_taken(lists: dict[str, bytes], last: int) -> int:
    """Return how often the arithmetic of pieces is called while one look at an E=5 W=3 ledger is
    judged.
    """
    metadata = ledger(f"e5 w3 a2 0:[b1 b2 b3 b4 b5] closed {last}")
    record = LedgerRecord(LEDGER, 0, NOW_MS, RecordStatus.FOUND, ZnodeStamp(1, 0, 0), metadata)
    answers = {b: Answer(b, LEDGER, 0, 0, AnswerStatus.HELD, groups) for b, groups in lists.items()}
    lines = 0

    def count(frame: object, event: str, _: object) -> None:
        nonlocal lines
        code = frame.f_code  # type: ignore[attr-defined]
        lines += event == "call" and code.co_filename == entry_set.__file__

    looks = [Look(record, answers)]
    for _ in range(2):
        sys.setprofile(count)
        try:
            step = settle(LedgerEvidence(LEDGER, tuple(looks)), TERMS)
        finally:
            sys.setprofile(None)
        looks = [
            Look(
                record,
                answers,
                {k: EntryRead(k[0], LEDGER, k[1], 0, 0, ReadStatus.NO_ENTRY) for k in step.reads},
            )
        ]
    return lines


FEW_GROUPS = {
    "nothing held": dict.fromkeys(BOOKIES, b""),
    "a few runs": {
        b: canonical([SequenceGroup(n, n, 5, 0), SequenceGroup(100, 100, 7, 0)])
        for n, b in enumerate(BOOKIES)
    },
    "half of each stripe": {b: canonical([SequenceGroup(0, 5 * 300, 2, 5)]) for b in BOOKIES},
    "every other stripe": {b: canonical([SequenceGroup(0, 10 * 100, 3, 10)]) for b in BOOKIES},
}


@pytest.mark.parametrize("name", FEW_GROUPS)
def test_the_cost_of_judging_does_not_depend_on_how_many_entries_the_metadata_claims(
    name: str,
) -> None:
    """Answers of a few groups cost nearly the same calls for 10^4 and for 2^62 entries."""
    small, large = _steps_taken(FEW_GROUPS[name], 10**4), _steps_taken(FEW_GROUPS[name], 2**62)
    assert 0 < large <= small + 2_000
    assert large < 20_000


def test_an_endless_list_costs_no_more_than_a_short_one() -> None:
    """A list of 24 bytes that claims 2^60 runs foreign to striping is invalid."""
    steps = dict(zip(BOOKIES, (7, 11, 13, 17, 19), strict=True))
    endless = {
        b: canonical([SequenceGroup(0, step * (2**62 // step), 3, step)])
        for b, step in steps.items()
    }
    assert _steps_taken(endless, 2**62) < 20_000
    metadata = ledger(f"e5 w3 a2 0:[b1 b2 b3 b4 b5] closed {2**62}")
    record = LedgerRecord(LEDGER, 0, NOW_MS, RecordStatus.FOUND, ZnodeStamp(1, 0, 0), metadata)
    answers = {
        b: Answer(b, LEDGER, 0, 0, AnswerStatus.HELD, groups) for b, groups in endless.items()
    }
    verdict = settle(LedgerEvidence(LEDGER, (Look(record, answers),)), TERMS).verdict
    assert (Standing.INDETERMINATE, (Unknown.ANSWER_INVALID,)) == (
        verdict.standing,
        verdict.unknowns,
    )
    assert FOREIGN_RUNS_MAX < 2**20


def test_a_deleted_ledger_leaves_nothing_behind() -> None:
    """Findings and reasons from earlier looks are dropped."""
    lost = story(b1=Bookie(), b2=Bookie(), b3=Bookie()).states[0]
    verdict = drive(
        Story("gone then", (lost, replace(lost, status=RecordStatus.GONE)))
    ).step.verdict
    assert (Exempt.DELETED, (), ()) == (verdict.exempt, verdict.findings, verdict.unknowns)


def test_what_the_checkers_differ_on_is_withheld(monkeypatch: pytest.MonkeyPatch) -> None:
    """The detail has the differences. Only a final verdict that is due is compared."""
    seen = drive(story(b1=Bookie())).evidence
    assert Standing.VIOLATED is settle_and_check(seen, TERMS)[0].verdict.standing
    monkeypatch.setattr(
        "auditor.judging.settle.differences",
        lambda verdict, evidence, terms: ("one says this, one that",),
    )
    step, why = settle_and_check(seen, TERMS)
    assert ((Unknown.CHECKERS_DISAGREE,), (), Todo.NOTHING) == (
        step.verdict.unknowns,
        step.verdict.findings,
        step.todo,
    )
    assert "one says this, one that" == why
    speculative, why = settle_and_check(replace(seen, looks=seen.looks[:1]), TERMS)
    assert (Todo.LOOK, "") == (speculative.todo, why)


@pytest.mark.parametrize("error", [ZeroDivisionError("nobody foresaw this"), AssertionError()])
def test_what_judging_raises_is_raised(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """The caller that judges many ledgers sets this one aside, in one place for all commands."""
    seen = drive(story(b1=Bookie())).evidence

    def judged(evidence: LedgerEvidence, terms: Terms) -> None:
        raise error

    monkeypatch.setattr("auditor.judging.settle.settle", judged)
    with pytest.raises(type(error)):
        settle_and_check(seen, TERMS)

"""What happens to a judged ledger: it is committed, withheld, set aside or looked at again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.stories import GRACE_MS, NOW_MS, Bookie, State, Story, drive

from auditor.first_checker.beyond_end import END_READS_MAX, ORDER_READS_MAX
from auditor.first_checker.probing import SEGMENT_ENDS_MAX
from auditor.first_checker.recheck import Suspicion
from auditor.judging import settle as judgement
from auditor.judging.newest_state import NewestState
from auditor.judging.settle import (
    Step,
    Todo,
    end_unjudged,
    lists_demanded,
    reading_rounds_max,
    settle,
    settle_and_check,
)
from auditor.model.availability import (
    NO_COOKIE,
    Answer,
    AnswerStatus,
    EntryRead,
    ReadStatus,
    SequenceGroup,
)
from auditor.model.cluster import Surroundings
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.facts import UndecodableFacts
from auditor.model.finding import CATALOGUE, Finding, Kind, Severity
from auditor.model.ledger import LedgerMetadata, LedgerRecord, Mark, RecordStatus, ZnodeStamp
from auditor.model.verdict import AWAY, Exempt, Standing, Unknown, Verdict
from auditor.sandbox.cluster import ledger
from auditor.second_checker.agreement import describe_differences
from auditor.wire.entry_availability import canonical

LEDGER = 7
TERMS = Terms(NOW_MS, GRACE_MS, 16, 5)
SOUND = Step(Verdict(LEDGER, Standing.SOUND), Todo.NOTHING)


def look(number: int, bookies: str, *answered: str) -> Look:
    """Return a look at a ledger with every entry on each of these bookies. The bookies in
    `answered` gave a list.
    """
    metadata = ledger(f"e2 w2 a2 0:[{bookies}] closed 9")
    record = LedgerRecord(
        LEDGER, number, NOW_MS, RecordStatus.FOUND, ZnodeStamp(1, number, 0), metadata
    )
    return Look(
        record, {one: Answer(one, LEDGER, number, NOW_MS, AnswerStatus.HELD) for one in answered}
    )


def test_an_unjudged_ledger_is_unknown_for_one_reason() -> None:
    """And nothing is left to do."""
    expected = Step(
        Verdict(LEDGER, Standing.INDETERMINATE, unknowns=(Unknown.POISON,)), Todo.NOTHING
    )
    assert expected == end_unjudged(LEDGER, Unknown.POISON)


def test_lists_are_demanded_of_the_bookies_that_the_newest_look_names() -> None:
    """No list is demanded once bookies answered at that look."""
    asked = LedgerEvidence(LEDGER, (look(1, "b1 b2", "b1", "b2"),))
    changed = LedgerEvidence(LEDGER, (*asked.looks, look(2, "b3 b4")))
    assert () == lists_demanded(asked)
    assert ["b3", "b4"] == sorted(question.bookie_id for question in lists_demanded(changed))


def returning(value: Any, *, given: list[Any] | None = None) -> Any:
    def answer(*these: Any) -> Any:
        if given is not None:
            given.append(these)
        if isinstance(value, BaseException):
            raise value
        return value

    return answer


@pytest.mark.parametrize(
    ("due", "differ", "expected"),
    [
        (
            True,
            ("entries",),
            (end_unjudged(LEDGER, Unknown.CHECKERS_DISAGREE), describe_differences(("entries",))),
        ),
        (True, (), (SOUND, "")),
        (False, ("entries",), (SOUND, "")),
    ],
)
def test_what_the_second_checker_says_is_asked_where_it_is_due(
    monkeypatch: pytest.MonkeyPatch, due: bool, differ: tuple[str, ...], expected: tuple[Step, str]
) -> None:
    """It gets the terms of the run and the verdict that would be given. Where it differs, the
    verdict is withheld.
    """
    asked: list[Any] = []
    monkeypatch.setattr(judgement, "settle", returning(SOUND))
    monkeypatch.setattr(judgement, "is_due", returning(due, given=asked))
    monkeypatch.setattr(judgement, "differences", returning(differ, given=asked))
    evidence = LedgerEvidence(LEDGER, (look(1, "b1 b2"),))
    assert expected == settle_and_check(evidence, TERMS)
    assert [(SOUND.verdict, TERMS), (SOUND.verdict, evidence, TERMS)][: 1 + due] == asked


def test_only_the_second_opinion_on_a_suspect_waits() -> None:
    """The closing look, which reads only metadata, comes at once."""
    lost = {"b1": Bookie(frozenset(range(9))), "b2": Bookie(frozenset(range(9)))}
    driven = drive(Story("lost", (State(ledger("e2 w2 a2 0:[b1 b2] closed 9"), lost),)))
    assert [True, False] == [step.wait for _, step in driven.steps if step.todo is Todo.LOOK]


def test_rounds_of_reading_are_bounded_by_what_may_be_read_of_each_bookie() -> None:
    """The bound covers confirming reads, ends of segments, probes, reads about the end, searches,
    and a final round without reads.
    """
    terms = Terms(
        0, 0, confirming_reads_max=3, looks_max=2, probe_entries=50, stranded_entries_max=700
    )
    assert 4 * (
        3 + SEGMENT_ENDS_MAX + 50 + END_READS_MAX + 1 + ORDER_READS_MAX + 700
    ) + 1 == reading_rounds_max(terms, 4)


YOUNG, OLD = Mark(NOW_MS - GRACE_MS // 2), Mark(NOW_MS - 2 * GRACE_MS)


def unsettled(
    *marks: Mark | None, text: str = "e2 w2 a2 0:[b1 b2] closed 9", **more: Any
) -> Verdict:
    """Return the verdict on a ledger whose metadata differed at each look, and that was asked about
    at each look but the last.
    """
    metadata = ledger(text)
    looks = []
    for number, mark in enumerate(marks, 1):
        stamp = ZnodeStamp(1, number, 0)
        record = LedgerRecord(
            LEDGER, number, NOW_MS, RecordStatus.FOUND, stamp, metadata, mark=mark
        )
        silent = {
            one: Answer(one, LEDGER, number, NOW_MS, AnswerStatus.SILENT) for one in ("b1", "b2")
        }
        looks.append(Look(record, silent if number < len(marks) else {}))
    step = settle(
        LedgerEvidence(LEDGER, tuple(looks)), Terms(NOW_MS, GRACE_MS, 16, len(marks) - 1, **more)
    )
    assert step.todo is Todo.NOTHING
    return step.verdict


@pytest.mark.parametrize(
    "marks",
    [
        (OLD,),
        (None, None, None),
        (OLD, OLD, None),
        (None, None, OLD),
        (OLD, None, OLD),
        (None, OLD, None),
        (None, None),
    ],
)
def test_a_ledger_that_keeps_changing_is_unknown(marks: tuple[Mark | None, ...]) -> None:
    """Even if it is marked, unless both of the newest looks saw the mark."""
    expected = Verdict(LEDGER, Standing.INDETERMINATE, unknowns=(Unknown.UNSETTLED,))
    assert expected == unsettled(*marks)


@pytest.mark.parametrize("marks", [(None, OLD, OLD), (OLD, OLD), (YOUNG, OLD, OLD)])
def test_a_mark_beyond_grace_stands_through_every_change(marks: tuple[Mark, ...]) -> None:
    """It is reported together with the reason `unsettled`, and nothing else is."""
    verdict = unsettled(*marks)
    assert (LEDGER, Standing.VIOLATED, Exempt.MARKED_UNDERREPLICATED, (Unknown.UNSETTLED,)) == (
        verdict.ledger_id,
        verdict.standing,
        verdict.exempt,
        verdict.unknowns,
    )
    assert [Kind.UNDERREPLICATED_BEYOND_GRACE] == [finding.kind for finding in verdict.findings]


# What a verdict is suspected of

UNSUPPORTED, TOPOLOGY, SILENT = (
    Unknown.BOOKIE_UNSUPPORTED,
    Unknown.TOPOLOGY_UNKNOWN,
    Unknown.BOOKIE_SILENT,
)
MALFORMED = Finding(
    Kind.METADATA_MALFORMED, UndecodableFacts("not UTF-8", 17, 99, "ab" * 32), LEDGER
)
REMARK = Finding(
    next(kind for kind in Kind if CATALOGUE[kind].severity is Severity.INFO),
    MALFORMED.facts,
    LEDGER,
)


@pytest.mark.parametrize(
    ("unknowns", "findings", "static", "unknown"),
    [
        ((), (MALFORMED,), Suspicion.STATIC, None),
        ((UNSUPPORTED, TOPOLOGY), (MALFORMED,), Suspicion.STATIC, Suspicion.INCURABLE),
        ((UNSUPPORTED,), (MALFORMED,), Suspicion.STATIC, Suspicion.INCURABLE),
        ((UNSUPPORTED, SILENT), (MALFORMED,), Suspicion.CURABLE, Suspicion.CURABLE),
    ],
)
def test_what_no_other_look_can_change_is_no_reason_for_one(
    unknowns: tuple[Unknown, ...],
    findings: tuple[Finding, ...],
    static: Suspicion,
    unknown: Suspicion | None,
) -> None:
    """A bookie that cannot list and an unknown topology do not change during a run."""
    assert static is judgement._suspicion(
        Verdict(LEDGER, Standing.VIOLATED, None, unknowns, findings)
    )
    if unknown is not None:
        assert unknown is judgement._suspicion(
            Verdict(LEDGER, Standing.INDETERMINATE, None, unknowns)
        )


def test_a_remark_on_a_ledger_that_is_unknown_for_good_is_read_twice() -> None:
    """A finding of severity info makes a second look due there, as on a sound ledger."""
    unknown = Verdict(LEDGER, Standing.INDETERMINATE, None, (UNSUPPORTED,), (REMARK,))
    assert Suspicion.REMARK is judgement._suspicion(unknown)
    assert Suspicion.REMARK is judgement._suspicion(
        Verdict(LEDGER, Standing.SOUND, findings=(REMARK,))
    )


@pytest.mark.parametrize(
    ("answered", "read", "maintenance", "hides"),
    [
        ({"b1": "silent", "b2": "held"}, {}, {"b1"}, False),
        ({"b1": "silent", "b2": "held"}, {}, {"b2"}, True),
        ({"b1": "silent"}, {"b2": "silent"}, {"b1", "b2"}, False),
        ({"b1": "silent"}, {"b2": "silent"}, {"b2"}, True),
        ({"b1": "silent"}, {"b2": "silent"}, {"b1"}, True),
        ({"b1": "silent"}, {"b3": "present"}, {"b1"}, False),
        ({"b1": "unregistered"}, {}, {"b1"}, True),
    ],
)
@pytest.mark.parametrize("unknowns", [(SILENT,), tuple(AWAY)])
def test_a_bookie_in_maintenance_is_not_waited_for(
    answered: dict[str, str],
    read: dict[str, str],
    maintenance: set[str],
    hides: bool,
    unknowns: tuple[Unknown, ...],
) -> None:
    """This holds for a marked ledger, whether the bookie gave no list or failed a read. Any other
    bookie that did not answer may hide a loss.
    """
    answers = {
        one: Answer(one, LEDGER, 1, NOW_MS, AnswerStatus(said)) for one, said in answered.items()
    }
    reads = {
        (one, 0): EntryRead(one, LEDGER, 0, 1, NOW_MS, ReadStatus(said))
        for one, said in read.items()
    }
    terms = replace(TERMS, around=Surroundings(maintenance=frozenset(maintenance)))
    verdict = Verdict(LEDGER, Standing.EXEMPT, Exempt.MARKED_UNDERREPLICATED, unknowns)
    marked = Look(replace(look(1, "b1 b2").record, mark=YOUNG), answers, reads)
    unmarked = replace(marked, record=look(1, "b1 b2").record)
    for seen, expected in ((marked, hides), (unmarked, False)):
        state = NewestState.of((seen,), terms)
        assert expected is judgement._may_hide_a_loss(state, verdict)


def test_a_remark_is_dropped_when_the_newest_looks_differ() -> None:
    """However many looks there were before."""
    text, terms = "e2 w2 a2 0:[b1 b2] open", replace(TERMS, stuck_after_ms=10_000)
    since = [ZnodeStamp(1, number, NOW_MS - 20_000, NOW_MS - 20_000) for number in (1, 2, 3)]
    records = [
        replace(look(1, "b1 b2").record, metadata=ledger(text), stamp=stamp) for stamp in since
    ]
    steps = [
        settle(LedgerEvidence(LEDGER, tuple(map(Look, chain))), terms)
        for chain in (records, [*records, records[2]])
    ]
    assert [(Todo.NOTHING, ()), (Todo.NOTHING, (Kind.LEDGER_STUCK,))] == [
        (step.todo, tuple(finding.kind for finding in step.verdict.findings)) for step in steps
    ]


def test_a_bookie_that_listed_is_believed_although_it_cannot_list_at_the_next_look() -> None:
    """Without probes, "cannot list" is not a conclusive answer."""
    healthy = expected_groups(look(1, "b1 b2").record.metadata)
    first = {
        one: Answer(one, LEDGER, 1, NOW_MS, AnswerStatus.HELD, healthy) for one in ("b1", "b2")
    }
    then = {**first, "b1": Answer("b1", LEDGER, 2, NOW_MS, AnswerStatus.UNSUPPORTED)}
    record = look(1, "b1 b2").record
    evidence = LedgerEvidence(LEDGER, (Look(record, first), Look(replace(record, look=2), then)))
    step = settle(evidence, replace(TERMS, probe_entries=0))
    assert (Standing.SOUND, ()) == (step.verdict.standing, step.verdict.unknowns)


def test_entries_that_a_gone_bookie_took_with_it_are_looked_for_elsewhere() -> None:
    """Its copies are lost. Entries that the other bookie lacks then have no copy, and reading them
    on a third bookie is a search.
    """
    around = Surroundings(writable=frozenset({"b2", "b3"}))
    gone = Answer("b1", LEDGER, 1, NOW_MS, AnswerStatus.UNREGISTERED, detail=NO_COOKIE)
    seen = Look(
        replace(look(1, "b1 b2").record, mark=YOUNG), {"b1": gone, **look(1, "b1 b2", "b2").answers}
    )
    asked: set[tuple[str, bool]] = set()
    for _ in range(reading_rounds_max(TERMS, 3)):
        step = settle(
            LedgerEvidence(LEDGER, (seen,)), replace(TERMS, around=around, stranded_entries_max=10)
        )
        asked |= {(bookie, step.are_searches) for bookie, _ in step.reads}
        read = {
            key: EntryRead(key[0], LEDGER, key[1], 1, NOW_MS, ReadStatus.NO_ENTRY)
            for key in step.reads
        }
        seen = replace(seen, reads={**seen.reads, **read})
    assert {("b2", False), ("b3", True)} == asked


def expected_groups(metadata: LedgerMetadata | None) -> bytes:
    """Return the list of each of two bookies that hold all ten entries."""
    assert metadata is not None and metadata.last_entry_id == 9
    return canonical([SequenceGroup(0, 0, 10, 0)])


def test_a_ledger_that_is_well_at_every_look_is_no_less_well_for_changing() -> None:
    """A sound ledger that keeps changing stays sound. It loses only a finding of severity info,
    which needs two equal looks.
    """
    beyond = canonical([SequenceGroup(0, 0, 12, 0)])
    answers = {
        one: Answer(one, LEDGER, 1, NOW_MS, AnswerStatus.HELD, beyond) for one in ("b1", "b2")
    }
    reads = {
        (one, 11): EntryRead(one, LEDGER, 11, 1, NOW_MS, ReadStatus.PRESENT) for one in answers
    }
    looks = tuple(
        replace(look(number, "b1 b2"), answers=answers, reads=reads) for number in (1, 2, 3, 4)
    )
    terms = Terms(NOW_MS, GRACE_MS, 16, looks_max=2)
    first, last = (settle(LedgerEvidence(LEDGER, seen), terms) for seen in (looks[:1], looks))
    assert (Todo.LOOK, [Kind.ENTRIES_BEYOND_END]) == (
        first.todo,
        [finding.kind for finding in first.verdict.findings],
    )
    assert Step(replace(first.verdict, findings=()), Todo.NOTHING) == last
    assert Standing.SOUND is last.verdict.standing

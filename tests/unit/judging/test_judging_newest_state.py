"""Which answer of a bookie counts if it gave several at looks that saw the same metadata."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.stories import GRACE_MS, LEDGER, NOW_MS, Bookie, State, Story, drive

from auditor.judging.settle import settle
from auditor.model.availability import AnswerStatus, EntryRead, ReadStatus
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.finding import Kind
from auditor.model.verdict import Standing, Unknown
from auditor.sandbox.cluster import ledger
from auditor.second_checker.agreement import differences
from auditor.second_checker.opinion import judge_entry_by_entry

TERMS = Terms(NOW_MS, GRACE_MS, 16, 5)
E3 = ledger("e3 w2 a2 0:[b1 b2 b3] closed 19")
HELD = {
    bookie: frozenset(entry for entry in range(20) if (at - entry) % 3 < 2)
    for at, bookie in enumerate(("b1", "b2", "b3"))
}


def story(**bookies: Bookie) -> Story:
    """Return a story in which bookies hold what they should, except those given."""
    sound = {name: Bookie(held) for name, held in HELD.items()}
    return Story("one story", (State(E3, {**sound, **bookies}),))


def test_what_a_bookie_listed_is_lost_when_it_is_gone_at_a_later_look() -> None:
    """b1 lacks entry 6. b2 lists all entries and is gone at the next look. No copy is left, and the
    entry is searched for.
    """
    lacking = Bookie(HELD["b1"] - {6})
    looks = (
        story(b1=lacking),
        story(b1=lacking, b2=Bookie(answer=AnswerStatus.UNREGISTERED, is_forgotten=True)),
    )
    driven = drive(Story("gone between looks", tuple(one.states[0] for one in looks)))
    (finding,) = driven.step.verdict.findings
    assert (Kind.ENTRY_WITHOUT_REPLICA, ((6, 6),), ("b2",)) == (
        finding.kind,
        finding.entries,
        finding.facts.gone,
    )
    assert (0, 0) == (finding.copies.confirmed, finding.copies.unknown)
    assert () == differences(driven.step.verdict, driven.evidence, driven.story.terms)


def test_a_bookie_that_was_gone_and_is_back_is_unknown_until_it_answers() -> None:
    """Its old list says nothing about what it holds now, and it is no longer gone."""
    gone, silent = (
        Bookie(answer=AnswerStatus.UNREGISTERED, is_forgotten=True),
        Bookie(answer=AnswerStatus.SILENT),
    )
    lacking = Bookie(HELD["b1"] - {6})
    bookies = (None, gone, silent)
    looks = [story(b1=lacking, **({} if one is None else {"b2": one})).states[0] for one in bookies]
    three = [drive(Story("one look", (one,))).evidence.looks[0] for one in looks]
    evidence = LedgerEvidence(
        LEDGER, tuple(replace(one, record=looks[0].record(at)) for at, one in enumerate(three))
    )
    step = settle(evidence, TERMS)
    (finding,) = step.verdict.findings
    assert (0, 1, ()) == (finding.copies.confirmed, finding.copies.unknown, finding.facts.gone)
    assert step.verdict.copies == judge_entry_by_entry(evidence, TERMS).copies


def test_a_wrong_digest_is_read_again_although_the_entry_is_listed_by_then() -> None:
    """The list lacks the entry at the first look and has it at the second. This does not make the
    copy good.
    """
    held = HELD["b1"]
    first = story(b1=Bookie(held, unlisted=frozenset({6}), corrupt=frozenset({6}))).states[0]
    listed = replace(first, bookies={**first.bookies, "b1": Bookie(held, corrupt=frozenset({6}))})
    mended = replace(first, bookies={**first.bookies, "b1": Bookie(held)})
    verdicts = [
        drive(Story("listed since", (first, second))).step.verdict for second in (listed, mended)
    ]
    assert [[Kind.ENTRY_CORRUPT], []] == [
        [finding.kind for finding in verdict.findings] for verdict in verdicts
    ]
    assert [Standing.VIOLATED, Standing.SOUND] == [verdict.standing for verdict in verdicts]


def test_a_wrong_digest_stays_a_doubt_until_the_copy_is_read_again() -> None:
    """The list has the entry at the second look, but its read fails: the copy does not count. Nor
    does a copy that was read well first and wrongly later.
    """
    held = HELD["b1"]
    wrong, right = (
        Bookie(held, unlisted=frozenset({6}), corrupt=frozenset({6})),
        Bookie(held, unlisted=frozenset({6})),
    )
    quiet = {
        "b2": Bookie(answer=AnswerStatus.SILENT)
    }  # makes a second look due, whatever the first one reads
    for first, second in (
        (wrong, replace(wrong, unlisted=frozenset(), read=ReadStatus.TIMED_OUT)),
        (wrong, replace(wrong, read=ReadStatus.SILENT)),
        (right, wrong),
    ):
        states = (story(b1=first, **quiet).states[0], story(b1=second).states[0])
        driven = drive(Story("doubt", states))
        verdict = driven.step.verdict
        assert (Standing.INDETERMINATE, (Unknown.ANSWER_INVALID,)) == (
            verdict.standing,
            verdict.unknowns,
        ), (first, second)
        assert () == differences(verdict, driven.evidence, driven.story.terms)


@pytest.mark.parametrize(
    ("read", "standing"),
    [
        ("corrupt timed_out corrupt", Standing.VIOLATED),
        ("corrupt corrupt timed_out", Standing.VIOLATED),
        ("corrupt present corrupt", Standing.INDETERMINATE),
        ("corrupt no_entry corrupt", Standing.INDETERMINATE),
        ("corrupt corrupt present", Standing.SOUND),
    ],
)
def test_a_wrong_digest_accuses_when_two_looks_read_it_and_none_read_it_otherwise_since(
    read: str, standing: Standing
) -> None:
    """Failed reads in between do not matter, nor do lists that name the entry."""
    sound = drive(story()).evidence.looks[0]
    reads_by_look = [
        {("b1", 6): EntryRead("b1", LEDGER, 6, n, 0, ReadStatus(word))}
        for n, word in enumerate(read.split())
    ]
    looks = (*(replace(sound, reads=reads) for reads in reads_by_look), replace(sound, answers={}))
    seen = LedgerEvidence(LEDGER, looks)
    verdict = settle(seen, TERMS).verdict
    assert (standing, ()) == (verdict.standing, differences(verdict, seen, TERMS))
    assert (standing is Standing.VIOLATED) == (
        Kind.ENTRY_CORRUPT in {finding.kind for finding in verdict.findings}
    )


@pytest.mark.parametrize(
    ("first", "second", "standing"),
    [
        ("b1", "", Standing.SOUND),
        ("b1", "b2", Standing.SOUND),
        ("b1 b2", "b1", Standing.INDETERMINATE),
        ("b1 b2", "b3", Standing.SOUND),
        ("b1 b2 b3", "b1 b2 b3", Standing.INDETERMINATE),
    ],
)
def test_the_newest_conclusive_word_of_each_bookie_counts(
    first: str, second: str, standing: Standing
) -> None:
    """A bookie that was silent at one look counts by its answer at the other. A copy on a bookie
    that was silent at both looks does not count.
    """
    sound = story().states[0]
    silences = [
        {b: Bookie(answer=AnswerStatus.SILENT) for b in names.split()} for names in (first, second)
    ]
    states = tuple(replace(sound, bookies={**sound.bookies, **mute}) for mute in silences)
    assert standing is drive(Story("words", states)).step.verdict.standing

"""More damage never gets a milder word: the verdicts on stories that are damaged further.

A verdict is as bad as its worst finding; without one above info, unknown is worse than sound. The
exception is what a finding rests on (docs/soundness.md): a bookie that stops answering takes with
it what was proven of its own copies, and the ledger keeps an unknown, unless it is marked. Of
entries above the end nothing is left when their bookie is gone: no metadata promises them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from support.model import actions
from support.model.history import draw_history
from support.model.rows import Row
from support.model.truth import Truth
from support.quick_forms import few_or_all
from support.stories import NOW_MS, Bookie, State, Story, drive, tell

from auditor.model.availability import AnswerStatus, ReadStatus
from auditor.model.facts import BeyondEndFacts, CorruptFacts
from auditor.model.finding import CATALOGUE, Kind, Severity
from auditor.model.ledger import Mark
from auditor.model.verdict import Standing, Verdict
from auditor.sandbox.cluster import ledger

STORIES_FEW, STORIES_ALL = 150, 500
STEPS = 4
"""Damages to one story, one after the other."""
HISTORIES = 150
Damage = Callable[[random.Random, Bookie], Bookie]


def lose_a_copy(draw: random.Random, bookie: Bookie) -> Bookie:
    if not bookie.holds:
        return bookie
    entry = {draw.choice(sorted(bookie.holds))}
    return replace(
        bookie,
        holds=bookie.holds - entry,
        unlisted=bookie.unlisted - entry,
        corrupt=bookie.corrupt - entry,
    )


def wipe(draw: random.Random, bookie: Bookie) -> Bookie:
    nothing = frozenset[int]()
    return replace(bookie, holds=nothing, unlisted=nothing, corrupt=nothing, knows_ledger=False)


def unregister(draw: random.Random, bookie: Bookie) -> Bookie:
    return replace(bookie, answer=AnswerStatus.UNREGISTERED)


def forget(draw: random.Random, bookie: Bookie) -> Bookie:
    return replace(bookie, answer=AnswerStatus.UNREGISTERED, is_forgotten=True)


def remove_logs(draw: random.Random, bookie: Bookie) -> Bookie:
    serves = bookie.answer in (None, AnswerStatus.UNSUPPORTED)
    return replace(bookie, read=ReadStatus.FAILED) if serves else bookie


def break_the_disk(draw: random.Random, bookie: Bookie) -> Bookie:
    serves = bookie.answer in (None, AnswerStatus.UNSUPPORTED)
    broken = replace(bookie, answer=AnswerStatus.FAILED, read=ReadStatus.FAILED)
    return broken if serves else bookie


DAMAGES: tuple[Damage, ...] = (
    lose_a_copy,
    wipe,
    unregister,
    forget,
    remove_logs,
    break_the_disk,
)


def badness(standing: str, kinds: list[Kind]) -> int:
    """Return 0 for exit code 0, 1 for unknown, then the severity of the worst finding."""
    worst = max((CATALOGUE[kind].severity for kind in kinds), default=Severity.INFO)
    if worst > Severity.INFO:
        return int(worst)
    return int(standing == Standing.INDETERMINATE.word)


def badness_of(verdict: Verdict) -> int:
    return badness(verdict.standing.word, [one.kind for one in verdict.findings])


def accused(verdict: Verdict) -> set[str]:
    """Return the bookies that the findings rest on: copies on them are proven missing or corrupt,
    or they hold what lies above the end.
    """
    found = {bookie for one in verdict.findings for bookie, _ in one.missing_on}
    for one in verdict.findings:
        if isinstance(one.facts, CorruptFacts):
            found |= {bookie for bookie, _ in one.facts.copies}
        if isinstance(one.facts, BeyondEndFacts):
            found |= {held.bookie_id for held in one.facts.held_on}
    return found


def is_above_end(verdict: Verdict) -> bool:
    """Return whether a finding rests on entries above the end, which no metadata promises."""
    return any(isinstance(one.facts, BeyondEndFacts) for one in verdict.findings)


def damaged_stories(seeds: range) -> list[str]:
    """Damage each story step by step; return what became milder."""
    wrong = []
    for seed in seeds:
        story = tell(seed)
        state = story.states[0]
        if len(story.states) > 1 or state.metadata is None or not state.bookies:
            continue
        draw, trail = random.Random(f"damage {seed}"), []
        before = drive(replace(story, states=(state,))).step.verdict
        for _ in range(STEPS):
            damage, name = draw.choice(DAMAGES), draw.choice(sorted(state.bookies))
            state = with_damage(state, name, damage(draw, state.bookies[name]))
            trail.append(f"{damage.__name__} {name}")
            after = drive(replace(story, states=(state,))).step.verdict
            floor = badness_of(before)
            if name in accused(before):
                is_open = state.mark is None and not is_above_end(before)
                floor = min(floor, 1) if is_open else 0
            if badness_of(after) < floor:
                wrong.append(f"seed {seed}, {', '.join(trail)}: {before} became {after}")
            before = after
    return wrong


def with_damage(state: State, name: str, bookie: Bookie) -> State:
    return replace(state, bookies={**state.bookies, name: bookie})


@pytest.mark.parametrize("stories", few_or_all(STORIES_FEW, STORIES_ALL))
def test_more_damage_never_gets_a_milder_word_in_any_story(stories: int) -> None:
    """Copies, logs, disks, registrations and cookies are removed in any order."""
    assert [] == damaged_stories(range(stories))


@pytest.mark.parametrize("marked", [False, True])
def test_a_ledger_that_nobody_can_read_is_critical_however_it_came(marked: bool) -> None:
    """Each bookie of a write set is gone, down, empty or broken, in every combination."""
    whole = frozenset(range(10))
    bad = (
        Bookie(knows_ledger=False),
        Bookie(whole, answer=AnswerStatus.UNREGISTERED),
        Bookie(whole, answer=AnswerStatus.UNREGISTERED, is_forgotten=True),
        Bookie(whole, answer=AnswerStatus.FAILED, read=ReadStatus.FAILED),
        Bookie(whole, answer=AnswerStatus.UNSUPPORTED, read=ReadStatus.FAILED),
    )
    metadata = ledger("e2 w2 a1 0:[b1 b2] closed 9")
    mark = Mark(NOW_MS) if marked else None
    for one in bad:
        for other in bad:
            state = State(metadata, {"b1": one, "b2": other}, mark=mark)
            made = Story("nobody", (state,), more_terms={"probe_entries": 2})
            verdict = drive(made).step.verdict
            assert badness_of(verdict) == Severity.CRITICAL, (one, other, verdict)


MORE_DAMAGE = ("lose", "wipe", "crash")


def test_more_damage_never_gets_a_milder_word_in_the_model() -> None:
    """What an audit owes a ledger, before and after each damage of a history."""
    wrong, tried = [], 0
    for seed in range(HISTORIES):
        truth = Truth.of()
        for line in draw_history(f"damage/{seed}", 14, truth):
            before = {number: truth.owed(number) for number in truth.listed()}
            assert actions.happen(truth, line)
            words = line.split()
            if words[0] not in MORE_DAMAGE:
                continue
            for number, row in before.items():
                if number not in truth.listed():
                    continue
                tried += 1
                after, floor = truth.owed(number), badness_of_row(row)
                if set(words[1:]) & bookies_of(row):
                    floor = 0 if truth.ledgers[number].marked_at is not None else min(floor, 1)
                if badness_of_row(after) < floor:
                    wrong.append(f"seed {seed}, {line}: {row} became {after}")
    assert [] == wrong
    assert tried > HISTORIES


def badness_of_row(row: Row) -> int:
    return badness(row.standing, [Kind(one.kind) for one in row.findings])


def bookies_of(row: Row) -> set[str]:
    """Return the bookies whose copies are proven missing or corrupt, or on which recovery waits."""
    text = str([(one.missing, one.facts) for one in row.findings])
    return {f"b{n}" for n in range(1, 10) if f"'b{n}'" in text}

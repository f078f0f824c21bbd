"""Two checkers on the same evidence, over seeded stories: they agree, and a bug in either of them
shows.

Every failure names its seed: `support.stories.tell(seed)` makes that story again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from random import Random
from typing import Any

import pytest
from support.entry_by_entry import expected_on
from support.falsehoods import (
    FALSEHOODS,
    FIRST,
    NOT_IN_THE_MODEL,
    NOT_IN_THE_STORIES,
    OF_SAMPLES,
    SECOND,
)
from support.quick_forms import few_or_all, one_in
from support.stories import (
    NOW_MS,
    Bookie,
    Story,
    drive,
    stories,
    tell,
    with_doubts,
    with_lying_lists,
)
from test_properties_coverage import PLANTED, Plant, _instead, _of_class
from test_properties_placement import Story as PlacementStory
from test_properties_placement import story as placement_story

from auditor.first_checker.placement import KEY as RECORDED_KEY
from auditor.first_checker.placement import Judged, adherence
from auditor.judging.settle import settle
from auditor.model.availability import AnswerStatus, ReadStatus
from auditor.model.evidence import Adherence, PlacementRule, Policy
from auditor.model.facts import WriteSetFacts
from auditor.model.ledger import LedgerMetadata, Mark
from auditor.sandbox.cluster import ledger
from auditor.second_checker.agreement import compare_facts, differences
from auditor.second_checker.placement import adherence as tried
from auditor.second_checker.placement import placement_facts

SWARM, FEW = 2_000, 600
PLANT_SWARM = 2_000
"""Stories in which a planted bug must show; the rarest one shows in the 1,770th."""
TELLING = (1_769, 873, 454, 362, 351, 169)
"""Seeds that show bugs which few others show. They come first, to save a minute, before all
others.
"""

STRANDED = 4
"""Entries without a copy that are looked for elsewhere."""


def disagreements(stories: Iterable[Story]) -> dict[str, tuple[str, ...]]:
    """Return the second checker's objections to the final verdicts, by story."""
    found = {}
    for story in stories:
        driven = drive(story)
        found[story.name] = differences(driven.step.verdict, driven.evidence, story.terms)
    return {name: said for name, said in found.items() if said}


def first_disagreement() -> tuple[str, ...]:
    """Return the first objection. Stories that a bug makes endless, or on which it raises, are
    skipped.
    """
    for story in chain(map(tell, TELLING), stories(PLANT_SWARM)):
        try:
            driven = drive(story)
        except Exception:
            continue
        if said := differences(driven.step.verdict, driven.evidence, story.terms):
            return said
    return ()


def with_placement(story: Story) -> Story:
    """Return the story with a location for some of its bookies, under a policy drawn with the
    story's own seed.
    """
    draw = Random(story.name)
    metadata_seen = [state.metadata for state in story.states if state.metadata]
    named = [
        {bookie for segment in metadata.segments for bookie in segment.ensemble}
        for metadata in metadata_seen
    ]
    names = sorted(set.intersection(*named))
    places = {
        Policy.RACK: ("/r1", "/r2", "/r3", "/default-rack"),
        Policy.ZONE: ("/z1/u1", "/z1/u2", "/z2/u1", "/z2/u2", "/z3/u1"),
        Policy.REGION: ("/a/r1", "/b/r1", "/b/r2", "/c/r1"),
    }
    around = placement_story(draw.randrange(10**6)).around
    policy = draw.choice(list(places))
    located = {name: draw.choice(places[policy]) for name in names if draw.random() < 0.8}
    writable = frozenset(name for name in (*names, "outside") if draw.random() < 0.7)
    around = replace(
        around, writable=writable, readonly=frozenset(names) - writable, locations=located
    )
    rule = replace(
        placement_story(draw.randrange(10**6)).rule,
        policy=policy,
        java_compatible=draw.random() < 0.3,
    )
    states = story.states
    if draw.random() < 0.5:  # some lost entries are readable on a bookie that should hold none
        held = frozenset(
            entry for state in states for bookie in state.bookies.values() for entry in bookie.holds
        )
        idle = [
            name
            for name in names
            if not any(expected_on(metadata, story.base).get(name) for metadata in metadata_seen)
        ]
        holders = [one for one in ("outside", *idle) if draw.random() < 0.7]
        corrupt = [name for name in holders if draw.random() < 0.3]
        found = {
            name: Bookie(held, corrupt=held if name in corrupt else frozenset()) for name in holders
        }
        states = tuple(replace(state, bookies={**state.bookies, **found}) for state in states)
    around = replace(around, replication_disabled=draw.random() < 0.3)
    if draw.random() < 0.5:
        states = tuple(
            replace(state, metadata=_with_recorded(state.metadata, draw)) for state in states
        )
    terms = {
        **story.more_terms,
        "around": around,
        "placement": rule,
        "stranded_entries_max": STRANDED,
    }
    return replace(story, states=states, reads_max=max(STRANDED, story.reads_max), more_terms=terms)


def _with_recorded(metadata: LedgerMetadata | None, draw: Random) -> LedgerMetadata | None:
    """Return the metadata with the placement policy that its writer recorded, in one of the usual
    forms.
    """
    groups = draw.choice(["", "eu, us", ["eu", "us"], 7, None])
    config = {"policyClass": draw.choice(["org.apache.Isolated", "", None, 3])}
    config |= {
        "properties": draw.choice(
            [{"isolationBookieGroups": groups, "secondaryIsolationBookieGroups": "x"}, None]
        )
    }
    value = draw.choice([json.dumps(config).encode(), b"{", b"[]", b"\xff", b'"' + b"x" * 20_000])
    return metadata and replace(
        metadata, custom_metadata=(*metadata.custom_metadata, (RECORDED_KEY, value))
    )


def left_open(story: Story) -> Story:
    """Return the story of a ledger that may be stuck, if it is not closed."""
    since = NOW_MS - Random(story.name).choice((5_000, 20_000))
    states = tuple(replace(state, ctime_ms=since, mtime_ms=since) for state in story.states)
    return replace(story, states=states, more_terms={**story.more_terms, "stuck_after_ms": 10_000})


@pytest.mark.parametrize("count", few_or_all(FEW, SWARM))
def test_both_checkers_agree_on_every_story(count: int) -> None:
    """There is no difference on the final verdict of any story, whatever its ledger and its
    bookies.
    """
    assert {} == disagreements(stories(count))


@pytest.mark.parametrize("count", few_or_all(FEW // 4, SWARM // 4))
def test_both_checkers_agree_on_copies_that_are_doubted(count: int) -> None:
    """Lists, digests and reads of a copy differ from look to look."""
    assert {} == disagreements(with_doubts(story) for story in stories(count))


@pytest.mark.parametrize("count", few_or_all(FEW // 4, SWARM // 4))
def test_they_agree_on_lists_that_reads_contradict(count: int) -> None:
    """Bookies list entries that they deny, or cannot send, when they are read."""
    assert {} == disagreements(with_lying_lists(story) for story in stories(count))


@pytest.mark.parametrize("count", few_or_all(FEW // 4, SWARM // 4))
def test_both_checkers_agree_on_placement_and_on_lost_entries_searched_elsewhere(
    count: int,
) -> None:
    """This holds under each policy, by assigned location and in Java mode, with bookies without a
    location.
    """
    assert {} == disagreements(with_placement(story) for story in stories(count))


@pytest.mark.parametrize("count", few_or_all(FEW // 4, SWARM // 4))
def test_both_checkers_agree_on_ledgers_left_open(count: int) -> None:
    """A ledger that is open or in recovery for too long is a remark to both."""
    assert {} == disagreements(map(left_open, stories(count)))


@pytest.mark.parametrize("count", few_or_all(FEW, SWARM))
def test_ensembles_are_placed_alike_by_both_checkers(count: int) -> None:
    """The second checker tries all places, and the first one has them in closed form."""
    wrong, judged = [], Counter[Adherence | None]()
    for seed in range(count):
        one = placement_story(seed)
        for rule in (one.rule, replace(one.rule, java_compatible=True)):
            judged.update(
                [second := tried(one.ensemble, one.write_quorum, one.ack_quorum, rule, one.around)]
            )
            if second is not None and second is not _first(one, rule).adherence:
                wrong.append((seed, rule.java_compatible, second))
            if second in (Adherence.FAIL, Adherence.SOFT):
                wrong += [(seed, rule.java_compatible, said) for said in _on_write_sets(one, rule)]
    assert [] == wrong
    assert all(judged[one] > count // 100 for one in Adherence), judged
    assert judged[None] < count // 2, judged


def _first(one: PlacementStory, rule: PlacementRule) -> Judged:
    return adherence(one.ensemble, one.write_quorum, one.ack_quorum, rule, one.around)


def _on_write_sets(one: PlacementStory, rule: PlacementRule) -> list[Any]:
    """Return the checkers' differences on the deciding write sets: how many, which, where their
    members are, and why.
    """
    plain = ledger("e1 w1 a1 0:[a] closed 9")
    metadata = replace(plain, write_quorum=one.write_quorum, ack_quorum=one.ack_quorum)
    terms = replace(tell(0).terms, placement=rule, around=one.around)
    facts, left_open = placement_facts(one.ensemble, metadata, terms)
    judged = _first(one, rule)
    windows = tuple(WriteSetFacts(w.index, w.members, w.locations, w.why) for w in judged.windows)
    first = replace(facts, deciding=judged.deciding, shown=windows)
    compared = compare_facts(first, facts, left_open=left_open)
    return [(what, ours, other) for what, ours, other in compared if ours != other]


# A bug in the first checker

ASKED_TOO_LITTLE = {
    "tails are not read first": "the verdict is right on what was read, and more might have been",
    "an entry that some lack is not looked for where it cannot be listed": "likewise",
}
"""Bugs in what is asked, not in what is concluded: on the same evidence both checkers say the same.
The entry-by-entry law of test_properties_coverage.py finds them, because it has the truth.
"""


@pytest.mark.parametrize("bug", one_in(5, sorted(PLANTED.keys() - ASKED_TOO_LITTLE.keys())))
def test_the_second_checker_differs_where_the_first_has_a_bug(
    bug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of one checker is not committed."""
    PLANTED[bug](monkeypatch)
    assert first_disagreement(), bug


# A false fact in either of them

SHOWN = {
    name: one
    for name, one in {**FALSEHOODS, **OF_SAMPLES, **NOT_IN_THE_MODEL}.items()
    if name not in NOT_IN_THE_STORIES
}
"""Falsehoods that some story shows."""

STATED = (
    134,
    2_411,
    247,
    634,
    1_564,
    0,
    1,
    10,
    11,
    15,
    18,
    26,
    51,
    57,
    72,
    75,
    136,
    149,
    260,
    327,
    469,
    583,
    722,
    1_159,
    2_837,
)
"""Seeds of stories, taken first, in which facts of each sort are stated. A search for one may take
half a minute.
"""


def first_contradiction() -> tuple[str, ...]:
    """Return the second checker's first objection to the facts of the first."""
    for plain in chain(map(tell, STATED), stories(PLANT_SWARM)):
        for story in (plain, with_placement(plain), left_open(plain)):
            driven = drive(story)
            if said := differences(driven.step.verdict, driven.evidence, story.terms):
                return said
    return ()


@pytest.mark.parametrize("checker", [FIRST, SECOND], ids=["first", "second"])
@pytest.mark.parametrize("name", one_in(5, sorted(SHOWN)))
def test_a_false_fact_of_one_checker_is_contradicted(
    name: str, checker: dict[type, tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each checker derives every fact that the other one states."""
    SHOWN[name].plant(monkeypatch, checker)
    assert first_contradiction(), name


# A bug in the second one

SCHEDULE, HOLDINGS = "auditor.second_checker.blocks", "auditor.second_checker.holdings"
WORDS, PROBES, METADATA = (
    "auditor.second_checker.looks",
    "auditor.second_checker.copies",
    "auditor.second_checker.looks",
)
STRETCH = f"{SCHEDULE}.Stretch"

IN_THE_SECOND: dict[str, Plant] = {
    "the write set begins one bookie later": _of_class(
        STRETCH, "bookies_of", lambda right: lambda self, entry: right(self, entry + 1)
    ),
    "entries are counted from the start of the segment": _of_class(
        STRETCH, "bookies_of", lambda right: lambda self, entry: right(self, entry - self.first)
    ),
    "one copy too few is expected": _of_class(
        STRETCH,
        "bookies_of",
        lambda right: lambda self, entry: right(self, entry)[: max(1, self.write_quorum - 1)],
    ),
    "the last stretch is left out": _instead(
        "auditor.second_checker.opinion.stretches",
        lambda right: lambda metadata: right(metadata)[:-1],
    ),
    "a refused read is absence": _instead(
        f"{HOLDINGS}.NOT_THERE",
        lambda right: (*right, ReadStatus.REFUSED, ReadStatus.SILENT, ReadStatus.TIMED_OUT),
    ),
    "the tail defect is not known": _instead(f"{HOLDINGS}.PAGE", lambda right: 2**70),
    "a silent bookie has spoken": _instead(
        f"{WORDS}._SPOKEN", lambda right: {*right, AnswerStatus.SILENT}
    ),
    "reads of any kind are conclusive": _instead(f"{WORDS}._READ", lambda right: set(ReadStatus)),
    "one look is enough for corruption": _instead(f"{WORDS}.LOOKS_OF_CORRUPTION", lambda right: 1),
    "only the newest look counts": _instead(
        f"{WORDS}.is_same_write", lambda right: lambda one, other: one is other
    ),
    "another sample is drawn": _instead(
        f"{PROBES}._draw", lambda right: lambda key, n, count: right(key + "!", n, count)
    ),
    "a mark at its grace is beyond it": _instead(
        "auditor.second_checker.findings.is_beyond_grace",
        lambda right: (
            lambda record, terms: right(record, replace(terms, judged_at_ms=terms.judged_at_ms + 1))
        ),
    ),
    "no metadata contradicts itself": _instead(
        "auditor.second_checker.findings.contradictions", lambda right: lambda *seen: []
    ),
    "absent is unknown": _instead(f"{HOLDINGS}.ABSENT", lambda right: 2),
}


@pytest.mark.parametrize("bug", one_in(5, IN_THE_SECOND))
def test_the_second_checker_differs_where_it_has_a_bug_itself(
    bug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither checker is believed alone."""
    IN_THE_SECOND[bug](monkeypatch)
    assert first_disagreement(), bug


def test_a_verdict_that_a_ledger_does_not_deserve_is_not_confirmed() -> None:
    """The verdict of another story, or of the same ledger under another mark, is rejected."""
    driven = drive(tell(10))
    evidence, terms = driven.evidence, driven.story.terms
    newest = evidence.looks[-1]
    unmarked = replace(newest, record=replace(newest.record, mark=None))
    marked = replace(newest, record=replace(newest.record, mark=Mark(NOW_MS)))
    verdicts = {
        settle(replace(evidence, looks=(*evidence.looks[:-1], look)), terms).verdict
        for look in (newest, unmarked, marked)
    }
    assert 3 == len(verdicts)
    assert [True, False, False] == sorted(
        (differences(one, evidence, terms) == () for one in verdicts), reverse=True
    )

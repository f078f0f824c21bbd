"""Java mode gives what BookKeeper's real policy classes give; the seed is in every failure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from random import Random

import pytest
from support.java_auditor import ADHERENCE_WORDS, PARAMETERS, POLICY_CLASSES, JavaAuditor

from auditor.first_checker.placement import judge
from auditor.model.cluster import Surroundings
from auditor.model.evidence import Adherence, PlacementRule, Policy

QUESTIONS = 1_500
ACK_QUORUM = 2
SAID = {word: adherence for adherence, word in ADHERENCE_WORDS.items()}
PLACES = {
    Policy.RACK: ["/r1", "/r2", "/r3", "/default-rack"],
    Policy.ZONE: ["/z1/u1", "/z1/u2", "/z2/u1", "/z2/u2", "/z3/u1", "/z3/u2"],
    Policy.REGION: ["/a/r1", "/a/r2", "/b/r1"],
    Policy.NONE: ["/r1", "/r2"],
}
ODD_ZONES = ["/z1", "/z1/u1/deep", "/default-zone/default-upgradedomain"]


@dataclass(frozen=True)
class Question:
    """One ensemble in one cluster."""

    seed: int
    ensemble: tuple[str, ...]
    write_quorum: int
    rule: PlacementRule
    around: Surroundings

    def javas(self, policies: JavaAuditor) -> Adherence:
        rule, around = self.rule, self.around
        (said,) = policies.adherence(
            POLICY_CLASSES[rule.policy],
            around.locations,
            [sorted(around.writable)],
            [(self.ensemble, self.write_quorum, ACK_QUORUM)],
            readonly=sorted(around.readonly),
            **{java: getattr(rule, ours) for ours, java in PARAMETERS.items()},
        )
        return SAID[said]

    def ours(self) -> Adherence:
        return judge(self.ensemble, self.write_quorum, ACK_QUORUM, self.rule, self.around).adherence


def question(seed: int) -> Question:
    """Return a question with few places, so that they collide; with bookies that are read-only,
    gone, or without location; and any write quorum.
    """
    rng = Random(seed)
    policy = rng.choices(list(POLICY_CLASSES), weights=(6, 6, 1, 1))[0]
    bookies = [f"b{k}" for k in range(9)]
    places = [*PLACES[policy], *(ODD_ZONES if policy is Policy.ZONE and rng.random() < 0.2 else ())]
    locations = {bookie: rng.choice(places) for bookie in bookies if rng.random() < 0.85}
    state = {
        bookie: rng.choices(("writable", "readonly", "gone"), weights=(8, 1, 1))[0]
        for bookie in bookies
    }
    size = rng.randint(1, 6) if rng.random() < 0.95 else 0
    ensemble = rng.choices(bookies, k=size) if rng.random() < 0.1 else rng.sample(bookies, size)
    write = rng.randint(0, size + 1) if rng.random() < 0.2 else max(1, size)
    least = rng.randint(1, 3)
    rule = PlacementRule(
        policy, True, rng.randint(1, 3), rng.random() < 0.3, least, rng.randint(max(2, least), 4)
    )
    writable, readonly = (
        {b for b in bookies if state[b] == word} for word in ("writable", "readonly")
    )
    return Question(
        seed,
        tuple(ensemble),
        write,
        rule,
        Surroundings(frozenset(writable), frozenset(readonly), locations),
    )


@pytest.fixture(scope="module")
def asked(policies: JavaAuditor) -> list[tuple[Question, Adherence]]:
    """Return every question with Java's answer, each from a policy of its own."""
    return [(one, one.javas(policies)) for one in map(question, range(QUESTIONS))]


pytestmark = pytest.mark.real


def test_java_mode_gives_what_the_java_classes_give(
    asked: list[tuple[Question, Adherence]],
) -> None:
    """They agree ensemble by ensemble, including defects."""
    wrong = [(one, right.name, one.ours().name) for one, right in asked if one.ours() is not right]
    assert not wrong, (
        f"{len(wrong)} of {len(asked)}, the first: seed {wrong[0][0].seed}, Java, ours: {wrong[0]}"
    )


def test_the_questions_are_about_everything(asked: list[tuple[Question, Adherence]]) -> None:
    """Every possible answer of a policy was given."""
    seen = Counter((one.rule.policy, right) for one, right in asked)
    for policy, words in {
        Policy.RACK: (Adherence.FAIL, Adherence.STRICT),
        Policy.ZONE: (Adherence.FAIL, Adherence.UNKNOWN, Adherence.SOFT, Adherence.STRICT),
        Policy.REGION: (Adherence.STRICT,),
        Policy.NONE: (Adherence.STRICT,),
    }.items():
        assert {word for of, word in seen if of is policy} == set(words)
        assert min(seen[policy, word] for word in words) >= 3, seen


def test_judging_by_assigned_location_is_noticed(asked: list[tuple[Question, Adherence]]) -> None:
    """The comparison can fail: our own mode disagrees with Java if bookies are not writable."""
    own = [
        (replace(one, rule=replace(one.rule, java_compatible=False)), right) for one, right in asked
    ]
    differing = [
        right
        for one, right in own
        if one.rule.policy in (Policy.RACK, Policy.ZONE) and one.ours() is not right
    ]
    assert len(differing) > 50

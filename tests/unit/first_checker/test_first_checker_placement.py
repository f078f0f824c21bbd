"""Which segments of a ledger are judged, and the facts of the findings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.first_checker import placement as module
from auditor.first_checker.placement import Judged, Placement, adherence, judge, placement
from auditor.model.cluster import Surroundings
from auditor.model.evidence import Adherence, PlacementRule, Policy, Terms
from auditor.model.facts import PlacementFacts, WriteSetFacts
from auditor.model.finding import FindingSegment, Kind
from auditor.sandbox.cluster import ledger

RACKS = {"a": "/r1", "b": "/r2", "c": "/r1", "d": "/r2"}
RACK, JAVA = PlacementRule(Policy.RACK), PlacementRule(Policy.RACK, java_compatible=True)
AROUND = Surroundings(writable=frozenset("abcd"), locations=RACKS)


def judged(text: str, rule: PlacementRule = RACK, around: Surroundings = AROUND) -> Placement:
    return placement(7, ledger(text), Terms(0, 0, 4, 3, placement=rule, around=around))


def failing(text: str, rule: PlacementRule = RACK) -> list[tuple[int, int]]:
    """Return the first and last entry of each failing segment."""
    found = judged(text, rule).findings
    assert all(finding.kind is Kind.PLACEMENT_FAILED for finding in found)
    segments = [finding.segment for finding in found]
    return [
        (segment.first_entry_id, segment.last_entry_id)
        for segment in segments
        if segment is not None
    ]


@pytest.mark.parametrize(
    ("text", "assigned", "java"),
    [
        ("e2 w2 a2 0:[a b] closed 9", [], []),
        ("e2 w2 a2 0:[a c] closed 9", [(0, 9)], [(0, 9)]),
        ("e2 w2 a2 0:[a b] 4:[a c] 7:[b d] closed 9", [(4, 6), (7, 9)], [(4, 6), (7, 9)]),
        (
            "e2 w2 a2 0:[a b] 10:[a c] closed 9",
            [],
            [(10, 9)],
        ),  # nothing was written to the last segment
        ("e2 w2 a2 0:[a c] closed -1", [], [(0, -1)]),  # an empty ledger
        ("e2 w2 a2 0:[a c] closed", [], [(0, -1)]),  # where it ends is not known
        ("e2 w2 a2 0:[a c] open", [], []),
        ("e2 w2 a2 0:[a c] in_recovery", [], []),
        (
            "e3 w2 a2 0:[a c] closed 9",
            [],
            [(0, 9)],
        ),  # contradicts itself; Java goes by the list's length
        ("e2 w2 a2 5:[a c] 5:[a b] closed 9", [], [(5, 4)]),
        ("e2 w2 a2 0:[a b] 20:[a c] closed 9", [], [(20, 19)]),  # begins behind the last entry
        ("e2 w2 a2 closed 9", [], []),
    ],
)
def test_segments_of_closed_ledgers_are_judged(
    text: str, assigned: list[object], java: list[object]
) -> None:
    """All segments with entries are judged, as Java does. Each failing segment has one finding."""
    assert (assigned, java) == (failing(text), failing(text, JAVA))


def test_a_bookie_that_only_ledgers_name_is_judged_by_the_address_in_its_id() -> None:
    """It is not registered and has no cookie, so no source of locations was asked for it."""
    around = replace(AROUND, areas=({"10.0.0.0/24": "/r1"},))
    one, other = ("10.0.0.9:3181", "a"), ("10.0.0.9:3181", "b")
    assert Adherence.FAIL is adherence(one, 2, 2, RACK, around).adherence
    assert Adherence.STRICT is adherence(other, 2, 2, RACK, around).adherence
    assert Adherence.UNKNOWN is adherence(one, 2, 2, RACK, AROUND).adherence


def test_a_soft_segment_is_a_finding_of_its_own_kind() -> None:
    """One segment fails, another adheres softly, a third is fine."""
    zones = {"a": "/z1/u1", "b": "/z2/u1", "c": "/z3/u1", "d": "/z1/u2", "e": "/z1/u1"}
    text = "e3 w3 a2 0:[a b c] 10:[a b d] 20:[a b e] closed 29"
    found = judged(text, PlacementRule(Policy.ZONE), Surroundings(locations=zones)).findings
    expected = [
        (Kind.PLACEMENT_SOFT, FindingSegment(10, 19, ("a", "b", "d"))),
        (Kind.PLACEMENT_FAILED, FindingSegment(20, 29, ("a", "b", "e"))),
    ]
    assert expected == [(finding.kind, finding.segment) for finding in found]


def test_what_is_not_known_is_unknown_beside_what_fails() -> None:
    """An unknown segment accuses nobody, and a failing one beside it is still reported."""
    assert Placement((), unknown=True) == judged("e2 w2 a2 0:[a x] closed 9")
    both = judged("e2 w2 a2 0:[a x] 5:[a c] closed 9")
    assert both.unknown and len(both.findings) == 1
    assert not judged("e2 w2 a2 0:[a b] 5:[a c] closed 9").unknown
    assert not judged("e2 w2 a2 0:[a x] closed 9", JAVA).unknown


def test_where_java_gives_no_answer_it_is_unknown() -> None:
    """A write quorum of 0 makes the zone-aware class divide by zero: the result is unknown."""
    assert Placement((), unknown=True) == judged(
        "e3 w0 a0 0:[a b c] closed 9", PlacementRule(Policy.ZONE, True)
    )


@pytest.mark.parametrize(
    "rule",
    [
        PlacementRule(),
        PlacementRule(Policy.NONE, java_compatible=True),
        PlacementRule(Policy.REGION, java_compatible=True),
        PlacementRule(Policy.REGION, repp_minimum_regions_for_durability=1),
    ],
)
def test_without_a_rule_nothing_is_found(rule: PlacementRule) -> None:
    """Without a policy, and with the region-aware one in Java's mode, every ensemble adheres,
    whatever is known.
    """
    assert Placement() == judged("e2 w2 a2 0:[a c] 5:[x y] closed 9", rule)


def test_a_finding_carries_what_is_needed_to_check_it() -> None:
    """It has policy, mode, parameters, the windows that decided, and the bookies without a
    location.
    """
    (finding,) = judged("e4 w2 a2 0:[a c x d] closed 9").findings
    expected = PlacementFacts(
        policy="rack",
        java_mode=False,
        parameters=(
            ("minNumRacksPerWriteQuorum", "2"),
            ("enforceMinNumRacksPerWriteQuorum", "false"),
        ),
        write_sets=4,
        deciding=1,
        shown=(WriteSetFacts(0, ("a", "c"), ("/r1", "/r1"), "has 1 rack (/r1) and needs 2"),),
        without_location=("x",),
        recorded_policy="",
    )
    assert expected == finding.facts


def test_an_ensemble_judged_before_is_judged_by_its_own_terms() -> None:
    """A result kept for one rule or one cluster is not used for another, whichever comes first."""
    ensemble = ("a", "c")
    moved = replace(AROUND, locations=RACKS | {"c": "/r3"})
    enough = replace(RACK, min_num_racks_per_write_quorum=1)
    for _ in range(2):
        assert Adherence.FAIL == adherence(ensemble, 2, 2, RACK, AROUND).adherence
        assert Adherence.STRICT == adherence(ensemble, 2, 2, RACK, moved).adherence
        assert Adherence.STRICT == adherence(ensemble, 2, 2, enough, AROUND).adherence
        assert Adherence.STRICT == adherence(ensemble, 1, 2, RACK, AROUND).adherence
        assert Adherence.STRICT == adherence(("a", "b"), 2, 2, RACK, AROUND).adherence


def test_the_ack_quorum_is_part_of_what_is_remembered() -> None:
    """The region rule depends on the ack quorum, so kept results are by ack quorum, too."""
    regions = PlacementRule(Policy.REGION)
    around = Surroundings(locations={"a": "/x", "b": "/x", "c": "/y", "d": "/y"})
    assert Adherence.STRICT == adherence(tuple("abcd"), 4, 3, regions, around).adherence
    assert Adherence.FAIL == adherence(tuple("abcd"), 4, 2, regions, around).adherence


def test_an_ensemble_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million ledgers of one ensemble cost one judgement."""
    ensembles: list[tuple[str, ...]] = []

    def counted(
        ensemble: tuple[str, ...], w: int, a: int, rule: PlacementRule, around: Surroundings
    ) -> Judged:
        ensembles.append(ensemble)
        return judge(ensemble, w, a, rule, around)

    monkeypatch.setattr(module, "judge", counted)
    around = replace(AROUND)
    for _ in range(5):
        assert Adherence.FAIL == adherence(("a", "c"), 2, 2, RACK, around).adherence
    assert [("a", "c")] == ensembles


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit all results are dropped and judged again, with the same outcome."""
    monkeypatch.setattr(module, "ENSEMBLES_REMEMBERED_MAX", 2)
    around = replace(AROUND)
    for _ in range(2):
        for members, expected in (
            ("ab", Adherence.STRICT),
            ("ac", Adherence.FAIL),
            ("ad", Adherence.STRICT),
        ):
            assert expected == adherence(tuple(members), 2, 2, RACK, around).adherence
            assert len(module._remembered.judged) <= 2


def facts_of(text: str, rule: PlacementRule, around: Surroundings = AROUND) -> PlacementFacts:
    """Return the facts of the first finding."""
    facts = judged(text, rule, around).findings[0].facts
    assert isinstance(facts, PlacementFacts)
    return facts


def test_a_finding_is_on_a_segment_of_the_ledger() -> None:
    """A finding is on a segment, not on the ledger as a whole."""
    found = judged("e2 w2 a2 0:[a c] closed 9")
    (finding,) = found.findings
    assert (7, FindingSegment(0, 9, ("a", "c"))) == (finding.ledger_id, finding.segment)
    assert Placement((finding,), unknown=False) == found


@pytest.mark.parametrize(
    ("policy", "parameters", "rule"),
    [
        (
            "rack",
            {"minNumRacksPerWriteQuorum": "3", "enforceMinNumRacksPerWriteQuorum": "true"},
            PlacementRule(Policy.RACK, False, 3, True),
        ),
        (
            "zone",
            {"minNumZonesPerWriteQuorum": "2", "desiredNumZonesPerWriteQuorum": "3"},
            PlacementRule(Policy.ZONE),
        ),
        ("region", {"reppMinimumRegionsForDurability": "2"}, PlacementRule(Policy.REGION)),
    ],
)
def test_the_settings_that_the_policy_looks_at_are_reported(
    policy: str, parameters: dict[str, str], rule: PlacementRule
) -> None:
    """Only these settings are facts, by BookKeeper's names."""
    facts = facts_of("e2 w2 a2 0:[a c] closed 9", rule)
    assert (policy, tuple(parameters.items())) == (facts.policy, facts.parameters)


@pytest.mark.parametrize(
    ("shown", "text", "rule"),
    [
        (
            WriteSetFacts(0, ("a", "x"), ("/r1", None), "has 1 rack (/r1) and needs 2"),
            "e2 w2 a2 0:[a x]",
            JAVA,
        ),
        (
            WriteSetFacts(
                None,
                ("a", "b"),
                ("/r1", "/r2"),
                "has a write quorum of 2, and it must be more than the 2 zones needed",
            ),
            "e2 w2 0:[a b]",
            PlacementRule(Policy.ZONE),
        ),
        (
            WriteSetFacts(None, (), (), "names no bookie"),
            "e2 w2 0:[]",
            replace(JAVA, policy=Policy.ZONE),
        ),
    ],
)
def test_a_write_set_that_decides_is_shown(
    shown: WriteSetFacts, text: str, rule: PlacementRule
) -> None:
    """The fact has where it begins, its members with their locations, and why it decides; None for
    the ensemble as a whole.
    """
    facts = facts_of(f"{text} closed 9", rule)
    assert (shown, rule.java_compatible) == (facts.shown[0], facts.java_mode)


def test_where_regions_of_an_ensemble_are_too_few_its_members_are_shown() -> None:
    """All members are shown, with their locations or without one."""
    rule = PlacementRule(Policy.REGION, repp_minimum_regions_for_durability=9)
    names = tuple(f"b{n}" for n in range(14))
    around = Surroundings(locations={name: "/a/r" for name in names if name != "b11"})
    whole, *_ = facts_of(f"e14 w1 a2 0:[{' '.join(names)}] closed 0", rule, around).shown
    assert (None, names) == (whole.position, whole.members)
    assert tuple(None if name == "b11" else "/a/r" for name in names) == whole.locations
    assert whole.why.startswith("spans 1 region (a)")


def test_where_it_is_not_known_where_a_ledger_ends_its_last_segment_ends_before_entry_0() -> None:
    """Java judges it so; also if the metadata lets the segment begin before that."""
    metadata = ledger("e2 w2 a2 0:[a c] closed")
    metadata = replace(metadata, segments=(replace(metadata.segments[0], first_entry_id=-5),))
    (finding,) = placement(7, metadata, Terms(0, 0, 4, 3, placement=JAVA, around=AROUND)).findings
    assert FindingSegment(-5, -1, ("a", "c")) == finding.segment

"""Whether one ensemble adheres to its policy, as the second checker finds out by trying; the
expected results are derived by hand.
"""

from __future__ import annotations

import pytest

from auditor.model.cluster import Surroundings
from auditor.model.evidence import Terms
from auditor.model.facts import PlacementFacts
from auditor.model.placement import Adherence, PlacementRule, Policy
from auditor.sandbox.notation import ledger
from auditor.second_checker.placement import TRIES_MAX, adherence, is_judged, placement_facts

STRICT, SOFT, FAIL, UNKNOWN = Adherence.STRICT, Adherence.SOFT, Adherence.FAIL, Adherence.UNKNOWN

RACKS = {"1": "/r1", "2": "/r2", "3": "/r1/", "4": "/r2"}
ZONES = {"1": "/z1/u1", "2": "/z2/u1", "3": "/z3/u1", "4": "/z1/u2", "5": "/z1/u1", "7": "/z1"}
REGIONS = {"1": "/a/r1", "2": "/b/r1", "3": "/c/r1", "4": "/a/r2"}


def adhering(
    rule: PlacementRule, located: dict[str, str], ensemble: str, write: int, ack: int = 2
) -> Adherence | None:
    """Judge an ensemble. Bookie 6 is up without location, bookie 9 is gone without location."""
    around = Surroundings(writable=frozenset({*located, "6"}), locations=located)
    return adherence(tuple(ensemble.split()), write, ack, rule, around)


def test_a_bookie_that_only_ledgers_name_is_judged_by_the_address_in_its_id() -> None:
    """It is not registered and has no cookie, so no source of locations was asked for it."""
    around = Surroundings(locations=RACKS, areas=({"10.0.0.0/24": "/r1"},))
    rule, gone = PlacementRule(Policy.RACK), "10.0.0.9:3181"
    assert FAIL is adherence((gone, "1"), 2, 2, rule, around)
    assert STRICT is adherence((gone, "2"), 2, 2, rule, around)
    assert UNKNOWN is adherence((gone, "1"), 2, 2, rule, Surroundings(locations=RACKS))


@pytest.mark.parametrize(
    ("ensemble", "write", "assigned", "java"),
    [
        ("1 2", 2, STRICT, STRICT),
        ("1 3", 2, FAIL, FAIL),
        (
            "1 2 3",
            2,
            FAIL,
            FAIL,
        ),  # the write set from the last position wraps round to the first
        ("1 2 3 4", 2, STRICT, STRICT),  # and includes the other rack there
        ("1 2 3", 3, STRICT, STRICT),
        (
            "1 6",
            2,
            UNKNOWN,
            STRICT,
        ),  # Java takes a writable bookie without location to be in the default rack
        ("1 9", 2, UNKNOWN, FAIL),  # and leaves one out that is not writable
        ("1 2 6", 3, STRICT, STRICT),
    ],
)
def test_a_write_set_needs_two_racks(
    ensemble: str, write: int, assigned: Adherence, java: Adherence
) -> None:
    """This holds for every write set; a trailing slash does not make another rack."""
    assert assigned is adhering(PlacementRule(Policy.RACK), RACKS, ensemble, write)
    assert java is adhering(
        PlacementRule(Policy.RACK, java_compatible=True), RACKS, ensemble, write
    )


@pytest.mark.parametrize(
    ("ensemble", "write", "expected"),
    [
        ("1 2 3", 3, STRICT),
        ("1 2 4", 3, SOFT),  # two zones of the three that are desired
        ("1 2 5", 3, FAIL),  # both copies of zone 1 in one upgrade domain
        ("1 2 7", 3, FAIL),  # no upgrade domain
        ("1 4 5", 3, FAIL),
        ("1 2", 2, FAIL),  # the write quorum must be larger than the zones it needs
        ("1 2 3 4", 3, FAIL),  # the ensemble must be a multiple of the write quorum
        ("1 2 6", 3, UNKNOWN),
    ],
)
def test_a_write_set_needs_zones_and_domains(
    ensemble: str, write: int, expected: Adherence
) -> None:
    """There must be two zones, better three, and in each more than one upgrade domain."""
    assert expected is adhering(PlacementRule(Policy.ZONE), ZONES, ensemble, write)


@pytest.mark.parametrize(
    ("ensemble", "ack", "expected"),
    [
        ("1 2 3", 2, STRICT),
        ("1 4 2", 2, FAIL),
        ("1 4 2", 3, STRICT),
        ("1 4", 2, FAIL),
        ("1 2 6", 2, UNKNOWN),
    ],
)
def test_no_single_region_may_acknowledge_alone(
    ensemble: str, ack: int, expected: Adherence
) -> None:
    """Two copies in region a suffice for an ack quorum of two, but not of three."""
    rule = PlacementRule(Policy.REGION)
    assert expected is adhering(rule, REGIONS, ensemble, len(ensemble.split()), ack)
    assert STRICT is adhering(
        PlacementRule(Policy.REGION, java_compatible=True), REGIONS, ensemble, 3, ack
    )


@pytest.mark.parametrize(
    ("size", "write", "expected"),
    [
        (400, 250, STRICT),
        (400, 251, UNKNOWN),
        (50_001, 50_001, STRICT),
        (100_001, 100_001, UNKNOWN),
    ],
)
def test_nobody_judges_too_many_write_sets(size: int, write: int, expected: Adherence) -> None:
    """The limit is 100,000 members in all write sets together. With a write quorum as large as the
    ensemble there is one set.
    """
    located = {str(n): f"/r{n % 2}" for n in range(size)}
    assert expected is adhering(PlacementRule(Policy.RACK), located, " ".join(located), write)


@pytest.mark.parametrize(
    ("size", "unplaced", "policy"),
    [(60, 2, Policy.RACK), (200, 2, Policy.ZONE), (20_000, 9_000, Policy.ZONE)],
)
def test_what_would_take_too_long_to_try_is_left_open(
    size: int, unplaced: int, policy: Policy
) -> None:
    """Every member is at a place of its own, and some have none: the tries grow with the square of
    the places, or faster.
    """
    located = {str(n): f"/z{n}/u" for n in range(unplaced, size)}
    ensemble = " ".join(str(n) for n in range(size))
    write = size if size > 400 else size // 2
    assert adhering(PlacementRule(policy), located, ensemble, write) is None


@pytest.mark.parametrize(
    ("rule", "state", "expected"),
    [
        (PlacementRule(), "closed 5", False),
        (PlacementRule(Policy.RACK), "closed 5", True),
        (PlacementRule(Policy.RACK), "open", False),
        (PlacementRule(Policy.ZONE, java_compatible=True), "closed 5", True),
        (PlacementRule(Policy.REGION), "closed 5", True),
        (PlacementRule(Policy.REGION, java_compatible=True), "closed 5", False),
        (PlacementRule(Policy.REGION, repp_minimum_regions_for_durability=1), "closed 5", False),
    ],
)
def test_a_closed_ledger_is_held_to_a_policy_that_asks_for_something(
    rule: PlacementRule, state: str, expected: bool
) -> None:
    """Java's region-aware policy demands nothing, and neither does one region: then every ensemble
    adheres.
    """
    assert expected is is_judged(rule, ledger(f"e2 w2 a1 0:[1 4] {state}"))
    if not expected and state != "open":
        assert STRICT is adhering(rule, REGIONS, "1 4", 2)


def test_slashes_alone_are_cut_off_the_end_of_a_location() -> None:
    """Rack r1X differs from r1."""
    assert STRICT is adhering(PlacementRule(Policy.RACK), {"1": "/r1X", "2": "/r1/"}, "1 2", 2)


DEFAULT_RACK, DEFAULT_ZONE, DEFAULT_REGION = (
    "/default-rack",
    "/default-zone/default-upgradedomain",
    "/default-region/default-rack",
)


@pytest.mark.parametrize(
    ("ensemble", "write", "least", "enforced", "expected"),
    [
        ("1 d", 2, 2, False, STRICT),
        ("1 d", 2, 2, True, FAIL),
        ("1 6", 2, 2, True, UNKNOWN),  # rack 1 and the default rack do not suffice, a new one does
        ("1 6", 2, 1, False, STRICT),
        ("1 6 8", 3, 3, True, UNKNOWN),  # two new ones
        ("1 3 6", 3, 3, False, FAIL),
        ("1 2 6 6", 4, 3, False, UNKNOWN),  # twice at the same place
        ("1 2 6 6", 4, 4, False, FAIL),
        ("1 2 6 8", 4, 2, False, STRICT),
        (
            "1 6 8 10",
            4,
            2,
            False,
            UNKNOWN,
        ),  # too many to be tried everywhere: only all in rack 1, or all in different ones
        ("1 6 8 10", 4, 3, False, UNKNOWN),
        ("1 6 8 10", 4, 5, False, UNKNOWN),  # there cannot be more racks than copies
        ("1 2 6 8 10", 5, 2, False, None),  # many of the tries hold, and that decides nothing
        ("1 2 6 8 10 1 3 1 3 1", 5, 2, False, FAIL),  # whatever else is not given
        ("1 2 6 8 10 1 2 1 2 1", 5, 2, False, None),
    ],
)
def test_a_member_without_location_may_be_in_any_rack(
    ensemble: str, write: int, least: int, enforced: bool, expected: Adherence | None
) -> None:
    """It may be in a rack of another member, in the default one, which does not count if a minimum
    is enforced, or in a new one.
    """
    rule = PlacementRule(
        Policy.RACK,
        min_num_racks_per_write_quorum=least,
        enforce_min_num_racks_per_write_quorum=enforced,
    )
    assert expected is adhering(rule, {**RACKS, "d": DEFAULT_RACK}, ensemble, write)


CROWDED = {
    "1": "/X1/u1",
    "2": "/X1/u1",
    "3": "/z2/u1",
    "4": "/z2/u1",
    "5": "/z3/u1",
    "d": DEFAULT_ZONE,
    "deep": "/z4/u1/r1",
}


@pytest.mark.parametrize(
    ("ensemble", "write", "expected"),
    [
        ("1 3 5", 3, STRICT),
        ("1 3 d", 3, FAIL),
        ("1 3 deep", 3, FAIL),
        ("1 2 3 5", 4, FAIL),
        (
            "1 2 3 6",
            4,
            UNKNOWN,
        ),  # another domain of the crowded zone holds, the default one does not
        ("1 2 3 4 6", 5, FAIL),  # one member cannot relieve two crowded zones
        ("1 2 3 4 6 8", 6, UNKNOWN),  # two members can, each in its own zone, and nowhere else
        ("1 3 6 6", 4, None),
        ("1 6 8 10", 4, UNKNOWN),  # each in a zone of its own
        ("1 2 3 6 8 10", 6, UNKNOWN),  # all in another domain of the crowded zone
        ("", 0, FAIL),
        ("1", 0, UNKNOWN),
        ("1", 1, FAIL),
    ],
)
def test_a_member_without_location_may_be_in_any_zone_and_domain(
    ensemble: str, write: int, expected: Adherence | None
) -> None:
    """It may be in a zone and domain of others, in new ones, or in the default one, in which no
    write set holds. Write sets are whole, with at least three copies.
    """
    assert expected is adhering(PlacementRule(Policy.ZONE), CROWDED, ensemble, write)


@pytest.mark.parametrize(
    ("ensemble", "expected"),
    [
        ("1 2 3", STRICT),
        ("1 2 ro", STRICT),  # registered, if not writable
        ("1 2 6", FAIL),  # in the default zone
        ("1 2 9", STRICT),  # not registered: in a zone of its own
        ("1 2 down", STRICT),  # whatever was assigned to it
        ("1 9 down", FAIL),  # and there in one domain with all unregistered ones
    ],
)
def test_java_takes_what_it_does_not_know_to_be_in_a_default_zone(
    ensemble: str, expected: Adherence
) -> None:
    """An unregistered bookie is in another default zone."""
    located = {**ZONES, "ro": "/z3/u1", "down": "/z3/u1"}
    around = Surroundings(frozenset({*ZONES, "6"}), frozenset({"ro"}), located)
    rule = PlacementRule(Policy.ZONE, java_compatible=True)
    assert expected is adherence(tuple(ensemble.split()), 3, 2, rule, around)


@pytest.mark.parametrize(
    ("ensemble", "write", "ack", "least", "expected"),
    [
        ("1 4", 2, 3, 2, FAIL),  # one region in all, if it cannot acknowledge alone
        ("1 2", 3, 2, 2, STRICT),  # a write quorum above the ensemble writes no bookie twice
        ("1 d", 2, 2, 2, STRICT),
        ("d 5", 2, 2, 2, STRICT),  # another rack of the default region is not where the unknown are
        ("d 7", 2, 2, 2, FAIL),
        ("1 2 3", 3, 3, 3, STRICT),
        ("1 2 3", 3, 2, 3, FAIL),  # two regions can acknowledge
        ("1 2 3 8", 4, 3, 3, FAIL),
        ("1 2 6", 3, 3, 3, UNKNOWN),
        ("1 4 6", 3, 3, 3, FAIL),
        ("1 4 6", 3, 3, 2, UNKNOWN),
        ("1 2 6", 3, 3, 2, STRICT),
        ("1 6 10 11", 4, 3, 2, UNKNOWN),
        ("1 2 6 10 11", 5, 5, 2, None),
    ],
)
def test_regions_are_counted_wherever_a_member_is(
    ensemble: str, write: int, ack: int, least: int, expected: Adherence | None
) -> None:
    """The ensemble needs as many as required, and each write set at least one more than could
    acknowledge alone.
    """
    located = {
        **REGIONS,
        "5": "/default-region/r2",
        "7": "/UnknownRegion/r1",
        "8": "/c/r2",
        "d": DEFAULT_REGION,
    }
    rule = PlacementRule(Policy.REGION, repp_minimum_regions_for_durability=least)
    assert expected is adhering(rule, located, ensemble, write, ack)


@pytest.mark.parametrize(
    ("racks", "unplaced", "expected"), [(997, 3, UNKNOWN), (998, 3, None), (1, 1_199, UNKNOWN)]
)
def test_of_many_members_without_location_a_few_places_are_tried(
    racks: int, unplaced: int, expected: Adherence | None
) -> None:
    """These are each existing rack, a new one, the default one, and all apart, as long as at most a
    million members are placed.
    """
    assert 1_000_000 == TRIES_MAX
    located = {str(n): f"/r{n}" for n in range(racks)}
    ensemble = " ".join(str(n) for n in range(racks + unplaced))
    rule = PlacementRule(Policy.RACK, min_num_racks_per_write_quorum=racks + unplaced)
    assert expected is adhering(rule, located, ensemble, racks + unplaced)


def facts_of(
    rule: PlacementRule, located: dict[str, str], ensemble: str, write: int
) -> tuple[PlacementFacts, frozenset[int | None]]:
    """Return the facts about an ensemble at fault, and where what was too open to try begins."""
    members = tuple(ensemble.split())
    metadata = ledger(f"e{len(members)} w{write} a2 0:[{ensemble}] closed 5")
    around = Surroundings(writable=frozenset(located), locations=located)
    return placement_facts(members, metadata, Terms(0, 0, 16, 5, placement=rule, around=around))


@pytest.mark.parametrize(
    ("policy", "ensemble", "write", "clause"),
    [
        (Policy.RACK, "", 2, "names no bookie"),
        (
            Policy.ZONE,
            "1 2 3 4",
            3,
            "has 4 bookies, which is not a multiple of the write quorum 3",
        ),
    ],
)
def test_an_ensemble_at_fault_as_a_whole_is_shown_as_a_whole(
    policy: Policy, ensemble: str, write: int, clause: str
) -> None:
    """It has no position where it begins, and all bookies are its members."""
    facts, left_open = facts_of(PlacementRule(policy), ZONES, ensemble, write)
    (shown,) = facts.shown
    assert (None, tuple(ensemble.split()), clause) == (shown.position, shown.members, shown.why)
    assert (1, frozenset()) == (facts.deciding, left_open)


@pytest.mark.parametrize(
    ("ensemble", "clause"),
    [
        ("1 2 4", "has 2 zones (z1, z2) where 3 are desired"),
        ("1 1 4", "has 1 zone (z1) and needs 2"),
    ],
)
def test_the_clause_is_that_of_how_the_write_set_adheres(ensemble: str, clause: str) -> None:
    """One that adheres softly lacks desired zones, one that fails lacks needed ones."""
    facts, _ = facts_of(PlacementRule(Policy.ZONE), ZONES, ensemble, 3)
    assert [(0, clause)] == [(one.position, one.why) for one in facts.shown]


def test_write_sets_too_open_to_try_are_named_beside_those_at_fault() -> None:
    """The write set at 0 is in one rack. Those at 4 and 5 have three members without location."""
    located = {"b2": "/r2", **dict.fromkeys(("b1", "b3", "b4", "b5", "b6"), "/r1")}
    facts, left_open = facts_of(
        PlacementRule(Policy.RACK), located, "b1 b3 b4 b5 b6 b2 n1 n2 n3", 5
    )
    assert ([0], {4, 5}) == ([one.position for one in facts.shown], left_open)

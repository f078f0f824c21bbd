"""Why a write set fails, in the second checker's clauses: derived by hand, and equal to the first
checker's."""

from __future__ import annotations

import pytest

from auditor.model.evidence import PlacementRule, Policy
from auditor.second_checker.placement import (
    DEFAULT_RACK,
    DEFAULT_REGION,
    DEFAULT_ZONE,
    WriteSet,
    fault_clause,
)

RACK, ZONE, REGION = (PlacementRule(policy) for policy in (Policy.RACK, Policy.ZONE, Policy.REGION))
RACKS_3, RACKS_4 = (
    PlacementRule(Policy.RACK, min_num_racks_per_write_quorum=least) for least in (3, 4)
)
ZONES_4 = PlacementRule(Policy.ZONE, min_num_zones_per_write_quorum=4)
ENFORCED = PlacementRule(Policy.RACK, enforce_min_num_racks_per_write_quorum=True)
PLACES: dict[str, str | None] = {
    "1": "/r1", "2": "/r2", "3": "/deep/r1", "d": DEFAULT_RACK, "x": None, "y": None,
    "a1": "/a/u1", "a2": "/a/u2", "a3": "/a/u1", "b1": "/b/u1", "c1": "/c/u1", "z": DEFAULT_ZONE,
    "r": DEFAULT_REGION,
}  # fmt: skip


def words(
    rule: PlacementRule,
    members: str,
    write: int = 3,
    ack: int = 2,
    *,
    whole: bool = False,
    soft: bool = False,
) -> str:
    return fault_clause(
        WriteSet(tuple(members.split()), PLACES, write, ack, rule, is_whole=whole), is_soft=soft
    )


@pytest.mark.parametrize(
    ("rule", "members", "expected"),
    [
        (RACK, "", "names no bookie"),
        (RACK, "1 1 1", "has 1 rack (/r1) and needs 2"),
        (RACK, "x y x", "has 0 racks, 2 members without location, and needs 2"),
        (RACKS_4, "1 x 2", "has 2 racks (/r1, /r2), 1 member without location, and needs 3"),
        (PlacementRule(Policy.RACK, java_compatible=True), "1 x 1", "has 1 rack (/r1) and needs 2"),
        (RACKS_3, "1 3 1", "has 2 racks (/deep/r1, /r1), at different depths, and needs 3"),
        (ENFORCED, "1 d 2",
        "has a member in /default-rack, which does not count as a rack where a minimum is "
        "enforced"),
        (RACKS_3, "1 d 1", "has 2 racks (/default-rack, /r1) and needs 3"),
        (ZONE, "x a1 a3", "has 1 zone (a), 1 member without location, and needs 2"),
        (REGION, "a1 b1 b1", "has 2 in b, and ack quorum 2 allows 1 in any region"),
        (REGION, "b1 a1", "has 1 in b, and ack quorum 2 allows 1 in any region"),
        (ZONE, "a1 1 b1", "has 1 at /r1, which is not /zone/upgradeDomain (another depth)"),
        (ZONE, "a1 z b1",
        f"has z at {DEFAULT_ZONE}, which is not /zone/upgradeDomain but the default location"),
        (ZONE, "a1 a3 b1", "has 2 members in zone a, all in upgrade domain u1"),
        (ZONE, "a1 a2 a1", "has 1 zone (a) and needs 2"),
        (ZONES_4, "a1 a3 x", "has 1 zone (a), 1 member without location, and needs 4"),
        (REGION, "a1 a2 a3", "has 3 in a, and ack quorum 2 allows 1 in any region"),
        (REGION, "r r a1", "has 2 in UnknownRegion, and ack quorum 2 allows 1 in any region"),
        (PlacementRule(Policy.REGION, repp_minimum_regions_for_durability=3), "b1 a1 a2 c1 x",
         "has 2 in a, 1 in b, 1 member without location, and ack quorum 2 allows 1 in any 2 "
         "regions together"),
        (REGION, "x y",
        "has none in a known region, 2 members without location, and ack quorum 2 allows 1 in any "
        "region"),
    ],
)  # fmt: skip
def test_the_clause_states_what_is_there_and_what_is_needed(
    rule: PlacementRule, members: str, expected: str
) -> None:
    """Names are in their order, and unknown members are mentioned."""
    assert expected == words(rule, members)


@pytest.mark.parametrize(
    ("rule", "members", "write", "expected"),
    [
        (ZONE, "a1 a2 b1 c1", 3, "has 4 bookies, which is not a multiple of the write quorum 3"),
        (ZONE, "a1 b1", 2, "has a write quorum of 2, and it must be more than the 2 zones needed"),
        (REGION, "a1 a2", 2, "spans 1 region (a) and needs 2"),
        (REGION, "x", 1, "spans 0 regions, 1 member without location, and needs 2"),
    ],
)
def test_an_ensemble_as_a_whole_has_its_own_clause(
    rule: PlacementRule, members: str, write: int, expected: str
) -> None:
    """The zone-aware policy has clauses on sizes, the region-aware one on spanned regions."""
    assert expected == words(rule, members, write, whole=True)

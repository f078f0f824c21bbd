"""The rules of the policies over known places, and the places worth trying."""

from __future__ import annotations

import pytest

from auditor.model.evidence import Adherence, PlacementRule, Policy
from auditor.second_checker.placement import (
    DEFAULT_PLACE,
    WRITE_SET_RULES,
    candidate_places,
    judge_region_span,
)

STRICT, SOFT, FAIL = Adherence.STRICT, Adherence.SOFT, Adherence.FAIL


@pytest.mark.parametrize(
    ("policy", "places", "expected"),
    [
        (Policy.RACK, ("/r1", "/r1"), FAIL),
        (Policy.RACK, ("/r1", "/r2"), STRICT),
        (Policy.RACK, ("/r1", None), FAIL),
        (Policy.ZONE, ("/z1/u1", "/z2/u1"), SOFT),
        (Policy.ZONE, ("/z1/u1", "/z1/u2"), FAIL),
        (Policy.ZONE, ("/z1", "/z2/u1"), FAIL),
        (Policy.ZONE, ("/z1/u1", "/z2/u1", "/z3/u1"), STRICT),
        (Policy.REGION, ("/a/r1", "/a/r2"), FAIL),
        (Policy.REGION, ("/a/r1", "/b/r1"), STRICT),
    ],
)
def test_a_write_set_is_judged_by_where_its_members_are(
    policy: Policy, places: tuple[str | None, ...], expected: Adherence
) -> None:
    """Two racks; three upgrade domains in two zones, better three; two regions. Write quorum 3, ack
    quorum 2.
    """
    there = {f"b{number}": place for number, place in enumerate(places)}
    rule, members = PlacementRule(policy), tuple(there)
    assert expected is WRITE_SET_RULES[policy](members, there, 3, 2, rule)


@pytest.mark.parametrize(("places", "expected"), [("/a/r1 /a/r2", FAIL), ("/a/r1 /b/r1", STRICT)])
def test_an_ensemble_spans_the_regions_it_needs(places: str, expected: Adherence) -> None:
    """The ensemble as a whole needs two regions, whatever its write sets are."""
    there = dict(zip(("b1", "b2"), places.split(), strict=True))
    assert expected is judge_region_span(("b1", "b2"), there, PlacementRule(Policy.REGION))


@pytest.mark.parametrize(
    ("policy", "known", "expected"),
    [
        (Policy.RACK, ["/r1"], {"/r1", "/new 0", "/new 1"}),
        (
            Policy.ZONE,
            ["/z1/u1"],
            {"/z1/u1", *(f"/{zone}/new {n}" for zone in ("z1", "new 0", "new 1") for n in (0, 1))},
        ),
        (Policy.REGION, ["/a/r1"], {"/a/u1", "/new 0/u1", "/new 1/u1"}),
    ],
)
def test_an_unplaced_member_may_be_where_it_makes_a_difference(
    policy: Policy, known: list[str], expected: set[str]
) -> None:
    """It may be where others are, in another upgrade domain of theirs, somewhere new, or at no
    known place.
    """
    there = {f"b{number}": place for number, place in enumerate(known)}
    found = candidate_places(2, there, PlacementRule(policy))
    assert expected | {DEFAULT_PLACE[policy]} == found

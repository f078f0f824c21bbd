"""How one ensemble adheres to its policy, as the second checker finds by trying: worked out by hand."""

from __future__ import annotations

import pytest

from auditor.confirm.enumerated_placement import adherence
from auditor.model.cluster import Surroundings
from auditor.model.placement import Adherence, PlacementRule, Policy

STRICT, SOFT, FAIL, UNKNOWN = Adherence.STRICT, Adherence.SOFT, Adherence.FAIL, Adherence.UNKNOWN

RACKS = {"1": "/r1", "2": "/r2", "3": "/r1/", "4": "/r2"}
ZONES = {"1": "/z1/u1", "2": "/z2/u1", "3": "/z3/u1", "4": "/z1/u2", "5": "/z1/u1", "7": "/z1"}
REGIONS = {"1": "/a/r1", "2": "/b/r1", "3": "/c/r1", "4": "/a/r2"}


def adhering(rule: PlacementRule, located: dict[str, str], ensemble: str, write: int, ack: int = 2) -> Adherence | None:
    """Bookie 6 is up and without location, bookie 9 is gone and without location."""
    around = Surroundings(writable=frozenset({*located, "6"}), locations=located)
    return adherence(tuple(ensemble.split()), write, ack, rule, around)


@pytest.mark.parametrize(
    ("ensemble", "write", "assigned", "java"),
    [
        ("1 2", 2, STRICT, STRICT),
        ("1 3", 2, FAIL, FAIL),
        ("1 2 3", 2, FAIL, FAIL),  # the write set from the last position on wraps round to the first
        ("1 2 3 4", 2, STRICT, STRICT),  # and finds the other rack there
        ("1 2 3", 3, STRICT, STRICT),
        ("1 6", 2, UNKNOWN, STRICT),  # Java takes a writable bookie without location to be in the default rack
        ("1 9", 2, UNKNOWN, FAIL),  # and leaves one out that is not writable
        ("1 2 6", 3, STRICT, STRICT),
    ],
)
def test_a_write_set_needs_two_racks(ensemble: str, write: int, assigned: Adherence, java: Adherence) -> None:
    """Every one of them; a slash at the end of a location is none."""
    assert assigned is adhering(PlacementRule(Policy.RACK), RACKS, ensemble, write)
    assert java is adhering(PlacementRule(Policy.RACK, java_compatible=True), RACKS, ensemble, write)


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
def test_a_write_set_needs_zones_and_domains(ensemble: str, write: int, expected: Adherence) -> None:
    """At least two zones, better three, and in each more than one upgrade domain."""
    assert expected is adhering(PlacementRule(Policy.ZONE), ZONES, ensemble, write)


@pytest.mark.parametrize(
    ("ensemble", "ack", "expected"),
    [("1 2 3", 2, STRICT), ("1 4 2", 2, FAIL), ("1 4 2", 3, STRICT), ("1 4", 2, FAIL), ("1 2 6", 2, UNKNOWN)],
)
def test_no_single_region_may_acknowledge_alone(ensemble: str, ack: int, expected: Adherence) -> None:
    """Two copies in region a are enough for an ack quorum of two, and not for one of three."""
    rule = PlacementRule(Policy.REGION)
    assert expected is adhering(rule, REGIONS, ensemble, len(ensemble.split()), ack)
    assert STRICT is adhering(PlacementRule(Policy.REGION, java_compatible=True), REGIONS, ensemble, 3, ack)


@pytest.mark.parametrize(
    ("size", "write", "expected"),
    [(400, 250, STRICT), (400, 251, UNKNOWN), (20_000, 20_000, STRICT), (100_001, 100_001, UNKNOWN)],
)
def test_nobody_judges_too_many_write_sets(size: int, write: int, expected: Adherence) -> None:
    """More than 100,000 members in all of them together; with a write quorum as large as the ensemble there is one set."""
    located = {str(n): f"/r{n % 2}" for n in range(size)}
    assert expected is adhering(PlacementRule(Policy.RACK), located, " ".join(located), write)


@pytest.mark.parametrize(
    ("size", "unplaced", "policy"), [(60, 2, Policy.RACK), (200, 2, Policy.ZONE), (20_000, 9_000, Policy.ZONE)]
)
def test_what_would_take_too_long_to_try_is_left_open(size: int, unplaced: int, policy: Policy) -> None:
    """Every member at a place of its own, and some without: the tries grow with the square of the places, or beyond."""
    located = {str(n): f"/z{n}/u" for n in range(unplaced, size)}
    ensemble = " ".join(str(n) for n in range(size))
    write = size if size > 400 else size // 2
    assert adhering(PlacementRule(policy), located, ensemble, write) is None

"""Whether one ensemble adheres to its policy, as the second checker finds out by trying; the
expected results are derived by hand.
"""

from __future__ import annotations

import pytest

from auditor.model.cluster import Surroundings
from auditor.model.evidence import Adherence, PlacementRule, Policy
from auditor.second_checker.placement import TRIES_MAX, adherence

STRICT, SOFT, FAIL, UNKNOWN = Adherence.STRICT, Adherence.SOFT, Adherence.FAIL, Adherence.UNKNOWN

RACKS = {"1": "/r1", "2": "/r2", "3": "/r1/", "4": "/r2"}
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

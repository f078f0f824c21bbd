"""Whether an ensemble adheres: the truth tables of the Java classes, and the right results by
assigned location.
"""

import pytest

from auditor.first_checker.placement import WINDOWS_SHOWN_MAX, Judged, Window, judge
from auditor.model.cluster import Surroundings
from auditor.model.evidence import Adherence, PlacementRule, Policy

WORDS = {"S": Adherence.STRICT, "s": Adherence.SOFT, "F": Adherence.FAIL, "U": Adherence.UNKNOWN}


def adhering(locations, rule, ensemble, write_quorum, ack_quorum=2, writable=None, readonly=""):
    """Judge the bookies of `ensemble`, given as words; all that have or could have a location are
    writable by default.
    """
    up = frozenset(locations) | {"6"} if writable is None else frozenset(writable.split())
    around = Surroundings(writable=up, readonly=frozenset(readonly.split()), locations=locations)
    return judge(tuple(ensemble.split()), write_quorum, ack_quorum, rule, around)


@pytest.mark.parametrize(
    ("size", "write_quorum", "expected"),
    [(400, 250, "S"), (400, 251, "U"), (401, 401, "S"), (100_001, 100_001, "U"), (100_001, 1, "U")],
)
def test_an_ensemble_with_too_many_write_sets_is_unknown(size, write_quorum, expected):
    """The limit is 100,000 members in all write sets together. With a write quorum as large as the
    ensemble there is one set.
    """
    names = tuple(str(n) for n in range(size))
    around = Surroundings(locations={name: f"/r{n % 2}" for n, name in enumerate(names)})
    rule = PlacementRule(Policy.RACK, min_num_racks_per_write_quorum=2 if write_quorum > 1 else 1)
    judged = judge(names, write_quorum, 2, rule, around)
    assert WORDS[expected] is judged.adherence
    assert (expected == "U") == bool(judged.windows)


def test_what_an_ensemble_lacks_as_a_whole_is_found_however_many_write_sets_it_has():
    """Regions spanned, and the sizes that the zone-aware policy requires, need no write sets."""
    names = " ".join(str(n) for n in range(1_000))
    one_region = {str(n): "/g/r" for n in range(1_000)}
    assert (
        Adherence.FAIL is adhering(one_region, PlacementRule(Policy.REGION), names, 500).adherence
    )
    assert Adherence.FAIL is adhering(one_region, PlacementRule(Policy.ZONE), names, 501).adherence


# Rack-aware. Rows: ensemble, W, then min=2 | min=2 enforce | min=3 | min=1 | min=1 enforce

RACKS = {"1": "/r1", "2": "/r2", "3": "/r1", "4": "/r2", "5": "/r3", "7": "/default-rack"}
RACK_COLUMNS = [(2, False), (2, True), (3, False), (1, False), (1, True)]

# what the Java class returns, what is right by assigned location: 6 is up without location, 99 is
# gone without location
RACK_TABLE = [
    ("1 2", 2, "SSSSS", "SSSSS"),
    ("1 3", 2, "FFFSS", "FFFSS"),
    ("1 2 3", 2, "FFFSS", "FFFSS"),
    ("1 2 3 4", 2, "SSSSS", "SSSSS"),
    ("1 2 3", 3, "SSFSS", "SSFSS"),
    ("1 2 5", 3, "SSSSS", "SSSSS"),
    ("1", 1, "SSSSS", "SSSSS"),
    (
        "1 6",
        2,
        "SFSSF",
        "UUUSU",
    ),  # 6 may be in /r1; one rack is certain wherever it is, unless it is the default one
    (
        "1 7",
        2,
        "SFSSF",
        "SFSSF",
    ),  # assigned to the default rack: an ordinary rack unless the minimum is enforced
    ("6 7", 2, "FFFSF", "UFUSF"),  # 6 may be elsewhere, 7 is certainly in the default rack
    ("1 99", 2, "FFFSS", "UUUSU"),
    (
        "1 2 99",
        3,
        "SSFSS",
        "SUUSU",
    ),  # two racks without 99, which may be in a third or in the default one
    ("99", 1, "FFFFF", "SUSSU"),  # wherever 6 is, that is one rack
    ("", 2, "FFFFF", "FFFFF"),
    ("1", 0, "SSSSS", "SSSSS"),
]


@pytest.mark.parametrize(("ensemble", "write_quorum", "java", "assigned"), RACK_TABLE)
@pytest.mark.parametrize("column", range(5))
def test_racks_are_counted_as_java_does_or_as_they_are_assigned(
    ensemble, write_quorum, java, assigned, column
):
    """Row for row of the truth table of RackawareEnsemblePlacementPolicy, and what is right."""
    least, enforce = RACK_COLUMNS[column]
    for as_java, expected in ((True, java), (False, assigned)):
        rule = PlacementRule(Policy.RACK, as_java, least, enforce)
        assert WORDS[expected[column]] == adhering(RACKS, rule, ensemble, write_quorum).adherence


@pytest.mark.parametrize("readonly", ["2", ""])
@pytest.mark.parametrize("column", range(5))
def test_a_bookie_that_is_read_only_or_gone_keeps_its_rack(readonly, column):
    """Java counts only writable bookies and calls a well placed ensemble a failure. By assigned
    location it is not one.
    """
    least, enforce = RACK_COLUMNS[column]
    for as_java, expected in ((True, "FFFSS"), (False, "SSSSS")):
        rule = PlacementRule(Policy.RACK, as_java, least, enforce)
        judged = adhering(RACKS, rule, "1 2", 2, writable="1 3 4 5 7", readonly=readonly)
        assert WORDS[expected[column]] == judged.adherence


def test_whole_locations_are_racks():
    """/region1/r1 and /region2/r1 differ; a trailing slash does not matter."""
    rule = PlacementRule(Policy.RACK)
    assert (
        Adherence.STRICT
        == adhering({"1": "/region1/r1", "2": "/region2/r1"}, rule, "1 2", 2).adherence
    )
    assert Adherence.FAIL == adhering({"1": "/r1", "2": "/r1/"}, rule, "1 2", 2).adherence
    assert Adherence.STRICT == adhering({"1": "/r", "2": "/rX"}, rule, "1 2", 2).adherence


def test_a_failing_window_is_shown_with_its_members_and_their_racks():
    """The write set from position 2 wraps round to position 0."""
    (window,) = adhering(RACKS, PlacementRule(Policy.RACK), "1 2 3", 2).windows
    assert (2, ("3", "1"), ("/r1", "/r1")) == (window.index, window.members, window.locations)
    assert "has 1 rack (/r1) and needs 2" == window.why


def test_only_the_windows_that_decided_are_shown():
    """If one window fails, the unknown ones are not shown; if none fails, they are."""
    judged = adhering(RACKS, PlacementRule(Policy.RACK), "1 3 99", 2)
    assert (Adherence.FAIL, [0]) == (judged.adherence, [window.index for window in judged.windows])
    judged = adhering(RACKS, PlacementRule(Policy.RACK), "1 2 99", 2)
    assert (Adherence.UNKNOWN, [1, 2]) == (
        judged.adherence,
        [window.index for window in judged.windows],
    )


def test_windows_beyond_the_limit_are_counted():
    """An ensemble on one rack fails in every window; a few are shown."""
    locations = {str(k): "/r1" for k in range(40)}
    judged = adhering(locations, PlacementRule(Policy.RACK), " ".join(locations), 2)
    assert (WINDOWS_SHOWN_MAX, 40) == (len(judged.windows), judged.deciding)


def test_different_depths_are_said():
    """Whole locations are compared. Different depths are rarely intended, so the clause mentions
    them.
    """
    (window,) = adhering(
        {"1": "/r1", "2": "/region/r1"}, PlacementRule(Policy.RACK, False, 3), "1 2 1", 3
    ).windows
    assert "at different depths" in window.why


# Zone-aware

ZONES = {
    "1": "/z1/ud1",
    "2": "/z2/ud1",
    "3": "/z3/ud1",
    "4": "/z1/ud2",
    "5": "/z1/ud1",
    "7": "/z2",
    "8": "/z2/ud2",
    "9": "/z3/ud2",
}

# 6 is up and without location; columns: ensemble, W, min, desired, Java, by assigned location
ZONE_TABLE = [
    ("1 2 3", 3, 2, 3, "S", "S"),
    ("1 2 4", 3, 2, 3, "s", "s"),
    ("1 2 5", 3, 2, 3, "F", "F"),
    ("1 2", 2, 2, 3, "F", "F"),
    ("1 2 3 4", 3, 2, 3, "F", "F"),
    ("1 2 3 4", 4, 2, 3, "S", "S"),
    ("1 2 3 4 8 9", 3, 2, 3, "S", "S"),
    ("1 4 5", 3, 2, 3, "F", "F"),
    ("1 2 6", 3, 2, 3, "F", "U"),  # a third zone, or one of the two
    ("1 2 7", 3, 2, 3, "F", "F"),  # a known location that is no zone
    ("", 3, 2, 3, "F", "F"),
    ("1 2 3", 0, 2, 3, "U", "U"),  # Java divides by zero and gives no answer
    ("", 0, 2, 3, "F", "F"),
    ("1 2", 2, 1, 2, "S", "S"),
    ("1 4", 2, 1, 2, "s", "s"),
    ("1 5", 2, 1, 2, "F", "F"),
    ("1 2 3", 3, 1, 2, "S", "S"),
    ("1", 1, 1, 2, "F", "F"),
    (
        "1 5 6",
        3,
        2,
        3,
        "F",
        "F",
    ),  # 6 may lend z1 a second upgrade domain or be a second zone, not both
    ("1 5 6", 3, 1, 2, "F", "U"),  # one zone is enough, so it may lend z1 an upgrade domain
    ("1 4 6", 3, 2, 3, "F", "U"),  # 6 may be in z2, or in z1
    ("6 6 6", 3, 2, 3, "F", "F"),  # one bookie is in one zone, wherever it is
    ("1 2 6", 2, 2, 3, "F", "F"),  # no multiple of W, wherever 6 is
    ("1 6", 2, 2, 3, "F", "F"),  # W must be more than the zones needed, wherever 6 is
]


@pytest.mark.parametrize(
    ("ensemble", "write_quorum", "least", "desired", "java", "assigned"), ZONE_TABLE
)
def test_zones_are_counted_as_java_does_or_as_they_are_assigned(
    ensemble, write_quorum, least, desired, java, assigned
):
    """Row for row of the truth table of ZoneawareEnsemblePlacementPolicy, and what is right."""
    for as_java, expected in ((True, java), (False, assigned)):
        rule = PlacementRule(
            Policy.ZONE,
            as_java,
            min_num_zones_per_write_quorum=least,
            desired_num_zones_per_write_quorum=desired,
        )
        assert WORDS[expected] == adhering(ZONES, rule, ensemble, write_quorum).adherence


@pytest.mark.parametrize(
    ("ensemble", "java", "assigned"),
    [
        ("1 2 5", "S", "F"),  # 5 is in z1/ud1 beside 1, and down
        ("1 4 5", "s", "F"),  # all in one zone
        ("1 2 99", "S", "U"),
        ("1 4 99", "s", "U"),
        (
            "1 5 99",
            "F",
            "F",
        ),  # 5 and 99 share Java's extra zone and its only upgrade domain; z1 is in truth too full
    ],
)
def test_to_java_an_offline_bookie_is_an_extra_zone(ensemble, java, assigned):
    """Java resolves an unregistered bookie to /default-region/default-rack; its assigned zone is
    the right one.
    """
    for as_java, expected in ((True, java), (False, assigned)):
        judged = adhering(
            ZONES,
            PlacementRule(Policy.ZONE, as_java),
            ensemble,
            3,
            writable="1 2 3 4",
            readonly="8",
        )
        assert WORDS[expected] == judged.adherence


def test_a_read_only_bookie_keeps_its_zone_in_java_too():
    """The zone-aware policy asks the resolver for any registered id."""
    for as_java in (True, False):
        judged = adhering(
            ZONES, PlacementRule(Policy.ZONE, as_java), "1 2 3", 3, writable="1 2", readonly="3"
        )
        assert Adherence.STRICT == judged.adherence


@pytest.mark.parametrize(
    ("ensemble", "write_quorum", "words"),
    [
        ("1 2 7", 3, "7 at /z2, which is not /zone/upgradeDomain"),
        ("1 2 5", 3, "2 members in zone z1, all in upgrade domain ud1"),
        ("1 4 1", 3, "1 zone (z1) and needs 2"),
        ("1 2 3 4", 3, "4 bookies, which is not a multiple of the write quorum 3"),
        ("1 2", 2, "a write quorum of 2, and it must be more than the 2 zones needed"),
        ("1 2 4", 3, "2 zones (z1, z2) where 3 are desired"),
        ("1 2 6", 3, "1 member without location"),
        ("1 2 3", 0, "a write quorum of 0"),
        ("", 3, "names no bookie"),
    ],
)
def test_why_zones_do_not_adhere_is_said(ensemble, write_quorum, words):
    """The clause has the numbers that do not fit."""
    assert (
        words in adhering(ZONES, PlacementRule(Policy.ZONE), ensemble, write_quorum).windows[0].why
    )


def test_the_default_zone_is_no_zone():
    """A bookie that BookKeeper could not resolve is in no zone, in both modes, also if a table
    names the default zone.
    """
    locations = ZONES | {"3": "/default-zone/default-upgradedomain"}
    for as_java in (True, False):
        judged = adhering(locations, PlacementRule(Policy.ZONE, as_java), "1 2 3", 3)
        assert Adherence.FAIL == judged.adherence
        assert "the default location" in judged.windows[0].why


# Region-aware: one letter a region, a digit to tell bookies apart; x has no location

REGIONS = {f"{region}{k}": f"/{region}/r{k}" for region in "abcd" for k in range(1, 6)}

REGION_TABLE = [
    ("a1 b1 c1", 3, 2, 2, "S"),  # W=3 A=2 m=2: at most one in each region
    ("a1 a2 b1", 3, 2, 2, "F"),
    ("a1 a2 b1 b2", 4, 3, 2, "S"),  # W=4 A=3 m=2: at most two
    ("a1 a2 a3 b1", 4, 3, 2, "F"),
    (
        "a1 b1 c1 d1 a2",
        5,
        3,
        3,
        "F",
    ),  # W=5 A=3 m=3: any two regions together at most two, and a and b have three
    ("a1 b1 c1 d1", 4, 3, 3, "S"),
    ("a1 b1 c1 a2 b2 c2", 3, 2, 2, "S"),  # E=6: each window of three spans three regions
    ("a1 b1 c1 c2 b2 a2", 3, 2, 2, "F"),  # the window c1 c2 does not
    ("a1 a2 a3", 3, 2, 1, "S"),  # m=1: no rule
    ("a1 a2 a3", 3, 2, 0, "S"),
    ("", 3, 2, 2, "F"),
    ("a1 b1", 2, 1, 2, "F"),  # with ack quorum 1 any region can acknowledge alone
    ("a1 b1 x1", 3, 2, 2, "U"),  # a region of its own would be right
    ("a1 a2 x1", 3, 2, 2, "F"),  # a has two, wherever x1 is
    ("a1 a2 b1 x1", 4, 3, 2, "U"),  # in a it would be the third
    ("a1 b1 c1 x1", 4, 3, 2, "S"),  # it would be the second at most
    (
        "a1 a1 x1 x1",
        4,
        3,
        2,
        "U",
    ),  # one bookie twice counts twice in its region; x1 in a region of its own would be right
    ("x1 x1 x1 a1", 4, 3, 2, "F"),  # x1 three times is three in one region
    ("x1 x2 x3", 3, 2, 2, "U"),
    ("a1 x1", 2, 3, 3, "F"),  # two bookies never span three regions
    (
        "a1 x1",
        2,
        3,
        2,
        "U",
    ),  # no region of two can acknowledge alone, and whether there are two is not known
]


@pytest.mark.parametrize(
    ("ensemble", "write_quorum", "ack_quorum", "least", "expected"), REGION_TABLE
)
def test_no_few_regions_may_acknowledge_alone(ensemble, write_quorum, ack_quorum, least, expected):
    """BookKeeper chooses bookies by this rule, but its auditor does not check it: there every
    ensemble is STRICT.
    """
    for as_java, word in ((True, "S"), (False, expected)):
        rule = PlacementRule(Policy.REGION, as_java, repp_minimum_regions_for_durability=least)
        assert WORDS[word] == adhering(REGIONS, rule, ensemble, write_quorum, ack_quorum).adherence


def test_a_region_is_the_first_part_of_the_path():
    """The rest of the path does not matter. The default location is BookKeeper's UnknownRegion."""
    locations = {"1": "/a", "2": "/a/r2", "3": "/a/r3/deeper", "4": "/default-region/default-rack"}
    judged = adhering(locations, PlacementRule(Policy.REGION), "1 2 3", 3)
    assert "spans 1 region (a) and needs 2" == judged.windows[0].why
    judged = adhering(locations, PlacementRule(Policy.REGION), "1 2 3 4 4", 5)
    assert "has 3 in a, and ack quorum 2 allows 1 in any region" == judged.windows[0].why
    assert Adherence.FAIL == adhering(locations, PlacementRule(Policy.REGION), "4 4", 2).adherence
    beside = locations | {"5": "/default-region/r5"}
    assert Adherence.STRICT == adhering(beside, PlacementRule(Policy.REGION), "4 5", 2).adherence


def test_without_a_policy_everything_adheres():
    """DefaultEnsemblePlacementPolicy accepts everything, also an empty list and the same bookie
    twice.
    """
    for as_java in (True, False):
        for ensemble in ("", "1 1", "99"):
            assert (
                Adherence.STRICT
                == adhering({}, PlacementRule(Policy.NONE, as_java), ensemble, 2).adherence
            )


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("as_java", [True, False])
@pytest.mark.parametrize("write_quorum", [-(2**31), -1, 0, 2**31 - 1])
def test_quorums_that_make_no_sense_are_judged_too(policy, as_java, write_quorum):
    """Metadata may claim anything. Such quorums are judged without an error."""
    judged = adhering(ZONES, PlacementRule(policy, as_java), "1 2 6", write_quorum, -1)
    assert judged.adherence in Adherence


# Whole results


def test_an_ensemble_of_nobody_is_reported_as_such():
    """There is one window, without a position and without members."""
    window = Window(None, (), (), Adherence.FAIL, "names no bookie")
    assert Judged(Adherence.FAIL, (window,), 1) == adhering({}, PlacementRule(Policy.RACK), "", 2)


def test_too_many_write_sets_are_reported_as_such():
    """The result shows no members: there would be too many."""
    names = tuple(str(n) for n in range(100_001))
    window = Window(
        None, (), (), Adherence.UNKNOWN, "has 100001 write sets of 3, too many to look at"
    )
    expected = Judged(Adherence.UNKNOWN, (window,), 1)
    assert expected == judge(names, 3, 2, PlacementRule(Policy.RACK), Surroundings())


def test_an_ensemble_that_fails_as_a_whole_is_reported_with_all_its_members():
    """The result has no position, because no write set is at fault, and no write sets."""
    why = "has 4 bookies, which is not a multiple of the write quorum 3"
    window = Window(
        None,
        ("1", "2", "3", "1"),
        ("/z1/ud1", "/z2/ud1", "/z3/ud1", "/z1/ud1"),
        Adherence.FAIL,
        why,
    )
    assert Judged(Adherence.FAIL, (window,), 1) == adhering(
        ZONES, PlacementRule(Policy.ZONE), "1 2 3 1", 3
    )


@pytest.mark.parametrize(
    ("why", "ensemble", "write_quorum", "least", "enforce"),
    [
        ("has 1 rack (/r1) and needs 2", "1 3", 2, 2, False),
        ("has 2 racks (/r1, /r2) and needs 3", "1 2 3", 3, 3, False),
        ("has 1 rack (/r1), 1 member without location, and needs 3", "1 3 6", 3, 3, False),
        ("has 0 racks, 2 members without location, and needs 2", "6 99", 2, 2, False),
        ("has 2 racks (/deep/r1, /r1), at different depths, and needs 3", "1 8 1", 3, 3, False),
        (
            (
                "has 2 racks (/r1, /r2), 1 member without location, and needs 2, none of them"
                " /default-rack"
            ),
            "1 2 6",
            3,
            2,
            True,
        ),
    ],
)
def test_why_racks_do_not_suffice_is_said_in_full(why, ensemble, write_quorum, least, enforce):
    """The clause has the number of racks, their names, who could be in another one, and the number
    required.
    """
    rule = PlacementRule(Policy.RACK, False, least, enforce)
    assert why == adhering({**RACKS, "8": "/deep/r1"}, rule, ensemble, write_quorum).windows[0].why


@pytest.mark.parametrize(
    ("why", "ensemble", "least"),
    [
        ("has 7 at /z2, which is not /zone/upgradeDomain (another depth)", "1 2 7", 2),
        (
            (
                "has d at /default-zone/default-upgradedomain, which is not /zone/upgradeDomain but"
                " the default location"
            ),
            "1 2 d",
            2,
        ),
        ("has 2 members in zone z1, all in upgrade domain ud1", "1 2 5", 2),
        ("has 2 zones (z1, z2), 1 member without location, and needs 2", "1 2 6", 2),
        ("has 1 zone (z1) and needs 2", "1 4 1", 2),
        ("has 1 zone (z1) where 3 are desired", "1 4 1", 1),
    ],
)
def test_why_zones_do_not_suffice_is_said_in_full(why, ensemble, least):
    """The clause has the first member without a zone, the first zone that is too full, or the
    existing zones.
    """
    rule = PlacementRule(Policy.ZONE, min_num_zones_per_write_quorum=least)
    locations = {**ZONES, "d": "/default-zone/default-upgradedomain"}
    assert why == adhering(locations, rule, ensemble, 3).windows[0].why


@pytest.mark.parametrize(
    ("whys", "ensemble", "ack_quorum", "least"),
    [
        (
            [
                "spans 1 region (a) and needs 2",
                "has 3 in a, and ack quorum 2 allows 1 in any region",
            ],
            "a1 a2 a3",
            2,
            2,
        ),
        (["has 2 in a, and ack quorum 2 allows 1 in any region"], "a1 a2 b1", 2, 2),
        (["has 1 in a, and ack quorum 0 allows 0 in any region"], "a1 b1 c1", 0, 2),
        (
            ["has 2 in a, 1 in b, and ack quorum 3 allows 2 in any 2 regions together"],
            "a1 a2 b1 c1",
            3,
            3,
        ),
        (
            [
                "spans 0 regions, 3 members without location, and needs 2",
                (
                    "has none in a known region, 3 members without location, and ack quorum 2"
                    " allows 1 in any region"
                ),
            ],
            "x1 x2 x3",
            2,
            2,
        ),
    ],
)
def test_why_regions_do_not_suffice_is_said_in_full(whys, ensemble, ack_quorum, least):
    """There is a clause for the ensemble as a whole, and one for each write set: here there is one
    set.
    """
    rule = PlacementRule(Policy.REGION, repp_minimum_regions_for_durability=least)
    size = len(ensemble.split())
    assert whys == [
        window.why for window in adhering(REGIONS, rule, ensemble, size, ack_quorum).windows
    ]


@pytest.mark.parametrize(("expected", "ensemble"), [("U", "6 99"), ("S", "6 1 2")])
def test_members_without_location_are_one_rack_at_least_and_no_more(expected, ensemble):
    """Two of them may share a rack. Beside two racks it does not matter where they are."""
    assert WORDS[expected] == adhering(RACKS, PlacementRule(Policy.RACK), ensemble, 3).adherence

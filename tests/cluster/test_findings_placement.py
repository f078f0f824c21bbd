"""Ensembles that do not follow their policy: by table, by Pulsar's rack map, policy
by policy.

One cluster: b1 to b3 run, b4 is read-only, b5 is down and has its cookie.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from support.audits import Outcome, audit_ledgers
from support.either_cluster import EITHER, Cluster, cluster_of

from auditor.first_checker.placement import KEY
from auditor.model.finding import Kind

READ_ONLY, DOWN = "b4", "b5"
RACKS = {"b1": "/r1", "b2": "/r2", READ_ONLY: "/r1", DOWN: "/r1"}
"""b3 has no location."""
ZONES = {"b1": "/z1/d1", "b2": "/z2/d1", "b3": "/z3/d1", READ_ONLY: "/z1/d2", DOWN: "/z2/d1"}
REGIONS = {"b1": "/a/r1", "b2": "/a/r2", "b3": "/b/r1", READ_ONLY: "/c/r1", DOWN: "/c/r2"}

RACK_LEDGERS = {
    10: "e2 w2 a2 0:[b1 b4] closed 9",
    11: "e2 w2 a2 0:[b2 b4] closed 9",
    20: "e2 w2 a2 0:[b1 b5] closed 9",
    21: "e2 w2 a2 0:[b2 b5] closed 9",
    30: "e2 w2 a2 0:[b1 b3] closed 9",
    31: "e3 w3 a2 0:[b1 b2 b3] closed 9",
    40: "e2 w2 a2 0:[b1 b4] 5:[b1 b2] 8:[b4 b1] closed 9",
    41: "e2 w2 a2 0:[b1 b2] 5:[b1 b2] 8:[b4 b2] closed 9",
    50: "e2 w2 a2 0:[b1 b4] open",
    51: "e2 w2 a2 0:[b1 b4] closed 9",
    52: "e2 w2 a2 0:[b1 b4] closed -1",
}
"""Ledgers under the rack policy, by their difference from a sound one. 51 is marked."""
MARKED = 51
ZONE_LEDGERS = {
    60: "e3 w3 a2 0:[b1 b2 b4] closed 9",
    61: "e3 w3 a2 0:[b1 b2 b3] closed 9",
    62: "e3 w3 a2 0:[b1 b2 b5] closed 9",
}
REGION_LEDGERS = {
    70: "e3 w3 a2 0:[b1 b2 b3] closed 9",
    71: "e3 w3 a3 0:[b1 b2 b3] closed 9",
    72: "e3 w3 a2 0:[b1 b3 b4] closed 9",
    73: "e2 w2 a2 0:[b1 b2] closed 9",
}
ISOLATED = 80
ISOLATION = {
    "policyClass": "org.apache.pulsar.zookeeper.ZkIsolatedBookieEnsemblePlacementPolicy",
    "properties": {
        "isolationBookieGroups": "gold,silver",
        "secondaryIsolationBookieGroups": "bronze",
    },
}


@pytest.fixture(scope="module", params=EITHER)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Yield a cluster in which every entry is where the metadata says: only ensembles are wrong."""
    with cluster_of(request.param, tmp_path_factory.mktemp("placement"), 5) as cluster:
        for ledger_id, text in {**RACK_LEDGERS, **ZONE_LEDGERS, **REGION_LEDGERS}.items():
            cluster.place(ledger_id, cluster.ledger(text))
        cluster.mark(MARKED, ["b4"])
        recorded = ((KEY, json.dumps(ISOLATION).encode()),)
        cluster.place(
            ISOLATED,
            replace(cluster.ledger("e2 w2 a2 0:[b1 b4] closed 9"), custom_metadata=recorded),
        )
        cluster.readonly(READ_ONLY)
        cluster.lose_bookie(DOWN, cookie=True)
        yield cluster


def table(directory: Path, places: Mapping[str, str]) -> str:
    """Return a table file of these locations."""
    path = directory / "places.txt"
    path.write_text("".join(f"{bookie} {place}\n" for bookie, place in places.items()))
    return str(path)


@pytest.fixture(scope="module")
def racks(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Return the audit under the rack policy, by the table."""
    where = table(tmp_path_factory.mktemp("racks"), RACKS)
    return audit_ledgers(
        cluster, [*RACK_LEDGERS, ISOLATED], placement_policy="rack", topology=where
    )


def test_a_read_only_bookie_stands_where_it_is_assigned(racks: Outcome) -> None:
    """Two copies are in one rack: found, with both locations. The twin's bookies are in different
    racks, and it is sound, read-only or not.
    """
    found = racks.one(10)
    assert (Kind.PLACEMENT_FAILED.value, "warning", "placement") == (
        found["kind"],
        found["severity"],
        found["family"],
    )
    assert {"first_entry_id": 0, "last_entry_id": 9, "ensemble": ["b1", "b4"]} == found["segment"]
    for words in (
        "Segment 0-9 of ledger 10 does not adhere to",
        "the rack-aware policy (minNumRacksPerWriteQuorum=2",
        "by the locations assigned to the bookies",
        "The write set from position 0 (b1 at /r1, b4 at /r1) has 1 rack (/r1) and needs 2",
    ):
        assert words in found["witness"]
    assert ["violated", "sound"] == racks.standings(10, 11)
    assert [] == racks.of(11)


def test_a_bookie_that_is_down_stands_where_it_is_assigned(racks: Outcome) -> None:
    """Its copies are unknown, its location is not."""
    assert Kind.PLACEMENT_FAILED.value == racks.one(20)["kind"]
    assert "b5 at /r1" in racks.one(20)["witness"]
    assert ["violated: bookie_silent", "indeterminate: bookie_silent"] == racks.standings(20, 21)
    assert [] == racks.of(21)


def test_a_member_without_location_is_unknown_where_it_decides(racks: Outcome) -> None:
    """It may be in b1's rack or not: INDETERMINATE(topology_unknown). If two others span two racks
    it does not matter.
    """
    assert ["indeterminate: topology_unknown", "sound"] == racks.standings(30, 31)
    assert [] == racks.of(30) + racks.of(31)


def test_one_finding_a_segment(racks: Outcome) -> None:
    """Both failing segments have one, and the one between them has none."""
    assert [(0, 4), (8, 9)] == [
        (f["segment"]["first_entry_id"], f["segment"]["last_entry_id"]) for f in racks.of(40)
    ]
    assert {Kind.PLACEMENT_FAILED.value} == {found["kind"] for found in racks.of(40)}
    assert ["violated", "sound"] == racks.standings(40, 41)


def test_what_is_open_marked_or_empty_is_not_judged(racks: Outcome) -> None:
    """They have the ensemble of the first story, but their placement is not judged."""
    assert ["exempt: open", "exempt: marked_underreplicated", "exempt: empty"] == racks.standings(
        50, MARKED, 52
    )
    assert [] == racks.of(50) + racks.of(MARKED) + racks.of(52)


def test_metadata_alone_is_not_asked_about_twice(racks: Outcome) -> None:
    """Bookies cannot contribute: they are asked at one look, and the metadata is read at two."""
    assert [2, 0] == [len(look["answers"]) for look in racks.one(10)["looks"]]


def test_what_the_writer_recorded_is_shown(racks: Outcome) -> None:
    """It has Pulsar's isolation groups of the ledger, in words, beside what is judged."""
    recorded = (
        "ZkIsolatedBookieEnsemblePlacementPolicy with isolation groups gold, silver; secondary"
        " bronze"
    )
    assert f"Its writer recorded {recorded}: shown, not judged." in racks.one(ISOLATED)["witness"]
    assert "recorded" not in racks.one(10)["witness"]


def test_without_a_policy_nothing_is_found(cluster: Cluster) -> None:
    """The default is no policy: which policy a cluster writes by cannot be guessed."""
    outcome = audit_ledgers(cluster, [10, 30, 40])
    assert ["sound"] * 3 == outcome.standings(10, 30, 40)
    assert [] == outcome.findings


def test_java_mode_judges_as_java_does(cluster: Cluster, racks: Outcome, tmp_path: Path) -> None:
    """It gives a read-only bookie no rack: the sound twin fails there, and the finding names the
    mode.
    """
    where = table(tmp_path, RACKS)
    outcome = audit_ledgers(
        cluster, [10, 11], placement_policy="rack", placement_compat="java", topology=where
    )
    assert [Kind.PLACEMENT_FAILED] * 2 == outcome.kinds
    assert "as the Java auditor judges" in outcome.one(11)["witness"]
    assert "b4 not writable" in outcome.one(11)["witness"]
    assert ["sound"] == racks.standings(11)


@pytest.fixture
def rack_map(cluster: Cluster) -> Iterator[str]:
    """Write the same racks as Pulsar does, in two groups, without the slash; return the znode's
    path.
    """
    groups = {
        "default": {bookie: {"rack": RACKS[bookie].removeprefix("/")} for bookie in ("b1", "b2")},
        "other": {
            bookie: {"rack": RACKS[bookie], "hostname": f"{bookie}.example.com"}
            for bookie in (READ_ONLY, DOWN)
        },
    }
    cluster.set_raw("/bookies", json.dumps(groups).encode())
    yield "/bookies"
    cluster.delete_raw("/bookies")


def test_pulsars_rack_map_is_a_source(cluster: Cluster, racks: Outcome, rack_map: str) -> None:
    """It is beside the cluster's root, and gives the same verdicts and witnesses as the table."""
    outcome = audit_ledgers(cluster, [*RACK_LEDGERS], placement_policy="rack", topology="zookeeper")
    assert racks.standings(*RACK_LEDGERS) == outcome.standings(*RACK_LEDGERS)

    def witnesses(what: Outcome) -> list[list[str]]:
        return [
            [found["witness"].split(" Bookies were asked")[0] for found in what.of(one)]
            for one in RACK_LEDGERS
        ]

    assert witnesses(racks) == witnesses(outcome)


def test_the_first_source_that_knows_a_bookie_wins(
    cluster: Cluster, rack_map: str, tmp_path: Path
) -> None:
    """A table moves the read-only bookie and places the one without a rack; all others are where
    the rack map says.
    """
    where = table(tmp_path, {READ_ONLY: "/r9", "b3": "/r1"})
    outcome = audit_ledgers(
        cluster, [10, 20, 30], placement_policy="rack", topology=f"{where},zookeeper"
    )
    assert ["sound", "violated: bookie_silent", "violated"] == outcome.standings(10, 20, 30)


def test_zones_softly(cluster: Cluster, tmp_path: Path) -> None:
    """Two zones where three are desired give an info finding, and the ledger stays sound. Three are
    strict; two bookies in one upgrade domain fail, although one of them is down.
    """
    where = table(tmp_path, ZONES)
    soft = audit_ledgers(cluster, [60, 61], placement_policy="zone", topology=where)
    assert (Kind.PLACEMENT_SOFT.value, "info") == (soft.one(60)["kind"], soft.one(60)["severity"])
    assert "has 2 zones (z1, z2) where 3 are desired." in soft.one(60)["witness"]
    assert ["sound", "sound"] == soft.standings(60, 61)
    assert [] == soft.of(61)
    assert (0, "SOUND") == (soft.exit_code, soft.summary["outcome"])

    hard = audit_ledgers(cluster, [60, 62], placement_policy="zone", topology=where)
    assert Kind.PLACEMENT_FAILED.value == hard.one(62)["kind"]
    assert "has 2 members in zone z2, all in upgrade domain d1" in hard.one(62)["witness"]
    assert ["sound", "violated: bookie_silent"] == hard.standings(60, 62)


def test_no_region_may_acknowledge_alone(cluster: Cluster, tmp_path: Path) -> None:
    """Two of three copies in one region with ack quorum 2 could acknowledge an entry that no other
    region has. With ack quorum 3, or a copy in each region, they could not. An ensemble within one
    region never adheres.
    """
    where = table(tmp_path, REGIONS)
    outcome = audit_ledgers(
        cluster, list(REGION_LEDGERS), placement_policy="region", topology=where
    )
    assert ["violated", "sound", "sound", "violated"] == outcome.standings(*REGION_LEDGERS)
    assert {Kind.PLACEMENT_FAILED} == set(outcome.kinds)
    assert "has 2 in a, and ack quorum 2 allows 1 in any region" in outcome.one(70)["witness"]
    assert "spans 1 region (a) and needs 2" in outcome.one(73)["witness"]


def test_one_region_is_enough_where_one_is_wanted(cluster: Cluster, tmp_path: Path) -> None:
    """With BookKeeper's own reppMinimumRegionsForDurability of 1 there is no rule."""
    settings = {
        "placement_policy": "region",
        "topology": table(tmp_path, REGIONS),
        "repp_minimum_regions_for_durability": 1,
    }
    outcome = audit_ledgers(cluster, list(REGION_LEDGERS), **settings)
    assert ["sound"] * len(REGION_LEDGERS) == outcome.standings(*REGION_LEDGERS)

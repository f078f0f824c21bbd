"""Placement described for a person to check: which write sets, where their members are, what the
policy requires.
"""

import json
from dataclasses import replace

import pytest

from auditor.first_checker.placement import placement
from auditor.model.cluster import ClusterFacts, Surroundings
from auditor.model.evidence import Look, PlacementRule, Policy, Terms
from auditor.model.ledger import LedgerRecord, RecordStatus, ZnodeStamp
from auditor.sandbox.cluster import ledger
from auditor.witness.finding_lines import ledger_testimony

FACTS = ClusterFacts("zk://h/ledgers", ("h:2181",), "/ledgers", "hierarchical", "id", False, None)
ZONES = {"b1": "/z1/ud1", "b2": "/z2/ud1", "b3": "/z1/ud2", "b4": "/z3/ud1"}
RACKS = {"b1": "/r1", "b2": "/r2", "b3": "/r1"}


def witness_of(text, rule, locations, **custom):
    """Return the witness of the one placement finding on this ledger."""
    metadata = replace(ledger(text), custom_metadata=tuple(custom.items()))
    around = Surroundings(writable=frozenset(locations), locations=locations)
    (finding,) = placement(7, metadata, Terms(0, 0, 4, 3, placement=rule, around=around)).findings
    look = Look(
        LedgerRecord(7, 0, 0, RecordStatus.FOUND, stamp=ZnodeStamp(1, 3, 0), metadata=metadata)
    )
    return ledger_testimony(finding, [look], FACTS).witness


@pytest.mark.parametrize(
    ("expected", "text", "rule", "locations"),
    [
        (
            (
                "Segment 0-99 of ledger 7 does not adhere to the rack-aware policy"
                " (minNumRacksPerWriteQuorum=2, enforceMinNumRacksPerWriteQuorum=false; by the"
                " locations assigned to the bookies). The write set from position 2 (b3 at /r1, b1"
                " at /r1) has 1 rack (/r1) and needs 2."
            ),
            "e3 w2 a2 0:[b1 b2 b3] closed 99",
            PlacementRule(Policy.RACK),
            RACKS,
        ),
        (
            (
                "Segment 0-99 of ledger 7 adheres only softly to the zone-aware policy"
                " (minNumZonesPerWriteQuorum=2, desiredNumZonesPerWriteQuorum=3; by the locations"
                " assigned to the bookies). The write set from position 0 (b1 at /z1/ud1, b2 at"
                " /z2/ud1, b3 at /z1/ud2) has 2 zones (z1, z2) where 3 are desired."
            ),
            "e3 w3 a2 0:[b1 b2 b3] closed 99",
            PlacementRule(Policy.ZONE),
            ZONES,
        ),
        (
            (
                "Segment 0-99 of ledger 7 does not adhere to the region-aware policy"
                " (reppMinimumRegionsForDurability=2; by the locations assigned to the bookies)."
                " The write set from position 0 (b1 at /z1/ud1, b2 at /z2/ud1, b3 at /z1/ud2) has 2"
                " in z1, and ack quorum 2 allows 1 in any region."
            ),
            "e3 w3 a2 0:[b1 b2 b3] closed 99",
            PlacementRule(Policy.REGION),
            ZONES,
        ),
        (
            (
                "The empty segment at entry 0 of ledger 7 does not adhere to the rack-aware policy"
                " (minNumRacksPerWriteQuorum=2, enforceMinNumRacksPerWriteQuorum=false; as the Java"
                " auditor judges). The write set from position 0 (b1 at /r1, b9 not writable) has 1"
                " rack (/r1) and needs 2. No location is assigned to b9."
            ),
            "e2 w2 a2 0:[b1 b9] closed -1",
            PlacementRule(Policy.RACK, java_compatible=True),
            RACKS,
        ),
    ],
)
def test_a_segment_is_reported_from_its_policy_to_what_fails(expected, text, rule, locations):
    """The policy comes first, then the members with their locations, what they have and what is
    needed.
    """
    assert expected == witness_of(text, rule, locations)


def test_two_write_sets_are_reported_and_the_rest_is_counted():
    """A witness has two or three lines, however large the ensemble is."""
    members = " ".join(f"b{k}" for k in range(30))
    witness = witness_of(
        f"e30 w2 a2 0:[{members}] closed 99",
        PlacementRule(Policy.RACK),
        {f"b{k}": "/r1" for k in range(30)},
    )
    assert 2 == witness.count("The write set from position")
    assert ". 28 more of its 30 write sets do not adhere either." in witness
    assert len(witness) < 500
    three = witness_of(
        "e3 w2 a2 0:[b1 b2 b3] closed 99",
        PlacementRule(Policy.RACK),
        dict.fromkeys(("b1", "b2", "b3"), "/r1"),
    )
    assert three.endswith(" 1 more of its 3 write sets does not adhere either.")


def test_many_members_are_counted():
    """A write set of a hundred does not fill the screen."""
    members = " ".join(f"b{k}" for k in range(100))
    witness = witness_of(
        f"e100 w100 a2 0:[{members}] closed 99",
        PlacementRule(Policy.RACK),
        {f"b{k}": "/r1" for k in range(100)},
    )
    assert "b7 at /r1 and 92 more) has 1 rack" in witness


def test_what_the_writer_recorded_is_shown():
    """Pulsar's isolation groups are shown, and the witness says that they are not judged."""
    config = {
        "policyClass": (
            "org.apache.pulsar.bookie.rackawareness.IsolatedBookieEnsemblePlacementPolicy"
        ),
        "properties": {"isolationBookieGroups": "gold", "secondaryIsolationBookieGroups": "silver"},
    }
    witness = witness_of(
        "e3 w2 a2 0:[b1 b2 b3] closed 99",
        PlacementRule(Policy.RACK),
        RACKS,
        EnsemblePlacementPolicyConfig=json.dumps(config).encode(),
    )
    assert witness.endswith(
        " Its writer recorded IsolatedBookieEnsemblePlacementPolicy with isolation groups gold;"
        " secondary silver: shown, not judged."
    )


def test_an_ensemble_without_members_is_reported_too():
    """Java calls it a failure; there is no write set to show."""
    witness = witness_of(
        "e0 w2 a2 0:[] closed -1", PlacementRule(Policy.RACK, java_compatible=True), RACKS
    )
    assert witness.endswith(" judges). The ensemble names no bookie.")

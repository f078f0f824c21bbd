"""Which bookies --maintenance means, and the seed of a run."""

from auditor.context import probe_seed
from auditor.model.cluster import BookieRecord, Registration
from auditor.run.surroundings import in_maintenance
from auditor.topology.locating import Topology

LOCATIONS = {"b1": "/east/r1", "b2": "/east/r2", "b3": "/eastern/r1", "gone": "/east/r1"}
BOOKIES = [
    BookieRecord(bookie_id, 0, 0, Registration.NONE) for bookie_id in ("b1", "b2", "b3", "b4")
]


def meant(*names: str) -> tuple[set[str], tuple[str, ...]]:
    found, problems = in_maintenance(names, BOOKIES, Topology(locations=LOCATIONS))
    return set(found), problems


def test_maintenance_of_a_location_is_that_of_every_bookie_in_it():
    """A location stands for bookies there and below it, including those that only the topology
    names. It does not stand for a location whose text merely begins alike.
    """
    assert ({"b1", "b2", "gone"}, ()) == meant("/east")
    assert ({"b1", "b2", "gone"}, ()) == meant("/east/")
    assert ({"b1", "gone"}, ()) == meant("/east/r1")
    assert ({"b3", "b4"}, ()) == meant("/eastern/r1", "b4")


def test_a_name_that_no_bookie_has_is_reported():
    """An unknown id still counts, because ledgers may name a bookie that nothing else knows. A
    location without bookies means no bookie.
    """
    found, (of_id, of_place) = meant("b9", "/west", "b1")
    assert {"b9", "b1"} == found
    assert "maintenance names b9, which the metadata service does not know" in of_id
    assert "maintenance names /west, and no bookie is there" in of_place
    assert (set(), ()) == meant()


def test_the_seed_of_a_run_is_its_own_and_stays():
    """It is the first 48 bits of the SHA-256 of its id, and depends on nothing else."""
    assert 0x514F016E9BC3 == probe_seed("20260101T000000Z-abcdef")
    assert probe_seed("20260101T000000Z-abcdef") != probe_seed("20260101T000000Z-abcdee")

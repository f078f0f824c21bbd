"""run.json: the terms of a run are read as they were written, and an incomplete file is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.errors import OutputError
from auditor.first_checker.circle import WHOLE, Arc
from auditor.model.cluster import ClusterFacts, Surroundings
from auditor.model.evidence import LastPopulation, PlacementRule, Policy, Sweep, Terms
from auditor.summary.about import About, RunBase
from auditor.summary.reading_plan import BookieReads, ReadArc, ReadingPlan, UnansweredPlace

FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", None, False, None)
COUNT = st.integers(0, 2**53)
BOOKIE = st.sampled_from(["b1", "bookie-2.example:3181", "a;b", "10.0.0.7:3181"])
BOOKIES = st.frozensets(BOOKIE)
RULE = st.builds(
    PlacementRule, st.sampled_from(Policy), st.booleans(), COUNT, st.booleans(), COUNT, COUNT, COUNT
)
LOCATIONS = st.dictionaries(BOOKIE, st.text(max_size=5))
AROUND = st.builds(
    Surroundings,
    BOOKIES,
    BOOKIES,
    LOCATIONS,
    st.none() | BOOKIE,
    st.booleans(),
    BOOKIES,
    st.lists(LOCATIONS, max_size=2).map(tuple),
)
SWEEP = st.builds(Sweep, COUNT, COUNT, COUNT, COUNT, st.floats(0, 2**53))
TERMS = st.builds(
    Terms,
    COUNT,
    COUNT,
    COUNT,
    COUNT,
    COUNT,
    COUNT,
    COUNT,
    COUNT,
    RULE,
    AROUND,
    st.floats(0, 1),
    SWEEP,
)


SERIES = BookieReads(5, (ReadArc(Arc(64, 64), 7), ReadArc(WHOLE, 9)), (UnansweredPlace(70, 9, 7),))


def about(terms: Terms) -> About:
    return About(
        "20260101T030000Z-000001",
        "2026-01-01T03:00:00Z",
        FACTS,
        terms,
        "warning",
        allow_empty=False,
    )


@given(TERMS)
def test_what_was_written_is_read_as_it_was(terms: Terms) -> None:
    """The terms and their types are the same after JSON."""
    again = About.from_json(json.loads(json.dumps(about(terms).as_json())))
    assert about(terms) == again
    assert isinstance(again.terms.placement.policy, Policy)
    assert isinstance(again.terms.around.writable, frozenset)


def test_what_a_run_went_through_is_read_as_it_was() -> None:
    """It is a partial run of another version, compared with an earlier run, with waits, and resumed
    twice.
    """
    written = replace(
        about(Terms(1, 2, 3, 4)),
        partial=True,
        previous_population=LastPopulation(
            "20251231T030000Z-000001", "2025-12-31T03:10:00Z", 200, 50, (90, 80), 2
        ),
        unregistered_since_ms={"b1": 7},
        auditor_version="0.0.9",
        waits_ms=(5, 6),
        resumed_at=("2026-01-01T04:00:00Z", "2026-01-01T05:00:00Z"),
        reading=ReadingPlan(
            *(7, 9, 30, 131_072, 2000.0, {"b1": SERIES, "b2": BookieReads(6)}),
            *({"b1": 77}, {"b1": Arc(128, 64)}),
            way=2,
        ),
        within_ms=7,
        base=RunBase("20251231T030000Z-000001", 8),
        cookie_czxids={"b1": 9, "b2": 8},
        cookie_directories={"b1": ("/data/1", "/data/2"), "b2": None},
    )
    assert written == About.from_json(json.loads(json.dumps(written.as_json())))


def test_the_file_does_not_depend_on_the_order_of_a_set() -> None:
    """Lists and keys are sorted: two runs that saw the same write the same."""
    names = [f"b{number}" for number in range(50)]
    around = Surroundings(
        writable=frozenset(names), locations=dict.fromkeys(reversed(names), "/r1")
    )
    as_json = about(Terms(1, 2, 3, 4, around=around)).as_json()["terms"]["around"]
    assert sorted(names) == as_json["writable"] == list(as_json["locations"])


@pytest.mark.parametrize("name", [*about(Terms(1, 2, 3, 4)).as_json()])
def test_a_file_that_lacks_something_is_refused(name: str) -> None:
    """Each field is needed, because no released version wrote fewer."""
    as_json = about(Terms(1, 2, 3, 4)).as_json()
    del as_json[name]
    with pytest.raises(OutputError, match="was not written by this version"):
        About.from_json(as_json)


@pytest.mark.parametrize(
    "damage",
    [
        {"placement": {"policy": "gravity"}},
        {"placement": {"policy": "rack", "racks": 2}},
        {"placement": 7},
        {"around": {"writable": 7}},
        {"around": []},
        {"patience": 1},
    ],
)
def test_terms_that_no_version_wrote_are_refused(damage: dict[str, Any]) -> None:
    """Other terms give other verdicts. The error is an OutputError, which is written for people."""
    as_json = about(Terms(1, 2, 3, 4)).as_json()
    as_json["terms"] = {**as_json["terms"], **damage}
    with pytest.raises(OutputError, match="was not written by this version"):
        About.from_json(as_json)

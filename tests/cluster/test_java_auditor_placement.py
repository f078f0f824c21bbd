"""The placement policies of BookKeeper 4.17.2, as the Java classes and as our Java mode: row for
row.

The rows and their expected results are here, for both. Ensembles, locations and parameters from a
seed follow, where only the two are compared. It needs BookKeeper's jars and one JVM, but no
cluster.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from support.java_auditor import (
    ADHERENCE_WORDS,
    FAIL,
    PARAMETERS,
    POLICY_CLASSES,
    RAISES,
    SOFT,
    STRICT,
    JavaAuditor,
)

from auditor.first_checker.placement import adherence
from auditor.model.cluster import Surroundings
from auditor.model.evidence import PlacementRule, Policy

pytestmark = pytest.mark.real

SEEDS = 60
ROWS_A_SEED = 40

Ensemble = tuple[str, ...]


class Rows(NamedTuple):
    """One policy with its parameters in one cluster; each row is an ensemble, a write quorum, and
    the result.
    """

    name: str
    policy: Policy
    parameters: Mapping[str, Any]
    locations: Mapping[str, str]
    writable: Ensemble
    rows: Sequence[tuple[str, int, str]]


RACK_LOCATIONS = {"1": "/r1", "2": "/r2", "3": "/r1", "4": "/r2", "5": "/r3", "7": "/default-rack"}
RACK_WRITABLE = ("1", "2", "3", "4", "5", "6", "7")
"""6 has no location, 99 is not a bookie."""
RACK_COLUMNS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("min 2", {}),
    ("min 2 enforced", {"enforce_min_num_racks_per_write_quorum": True}),
    ("min 3", {"min_num_racks_per_write_quorum": 3}),
    ("min 1", {"min_num_racks_per_write_quorum": 1}),
    (
        "min 1 enforced",
        {"min_num_racks_per_write_quorum": 1, "enforce_min_num_racks_per_write_quorum": True},
    ),
)
RACK_ROWS = (
    ("1 2", 2, "S S S S S"),
    ("1 3", 2, "F F F S S"),
    ("1 2 3", 2, "F F F S S"),
    ("1 2 3 4", 2, "S S S S S"),
    ("1 2 3", 3, "S S F S S"),
    ("1 2 5", 3, "S S S S S"),
    ("1", 1, "S S S S S"),
    ("1 6", 2, "S F S S F"),
    ("1 7", 2, "S F S S F"),
    ("6 7", 2, "F F F S F"),
    ("1 99", 2, "F F F S S"),
    ("1 2 99", 3, "S S F S S"),
    ("99", 1, "F F F F F"),
    ("", 2, "F F F F F"),
    ("1", 0, "S S S S S"),
)
LETTERS = {"S": STRICT, "F": FAIL}
ZONE_LOCATIONS = {
    "1": "/z1/ud1",
    "2": "/z2/ud1",
    "3": "/z3/ud1",
    "4": "/z1/ud2",
    "5": "/z1/ud1",
    "7": "/z2",
    "8": "/z2/ud2",
}
ZONE_LOCATIONS |= {"9": "/z3/ud2"}
ZONE_WRITABLE = ("1", "2", "3", "4", "5", "6", "7", "8", "9")

TABLES = [
    *(
        Rows(
            f"rack, {name}",
            Policy.RACK,
            parameters,
            RACK_LOCATIONS,
            RACK_WRITABLE,
            [
                (ensemble, quorum, LETTERS[said.split()[column]])
                for ensemble, quorum, said in RACK_ROWS
            ],
        )
        for column, (name, parameters) in enumerate(RACK_COLUMNS)
    ),
    *(
        Rows(
            f"rack, 2 is gone, {name}",
            Policy.RACK,
            parameters,
            RACK_LOCATIONS,
            tuple(bookie for bookie in RACK_WRITABLE if bookie != "2"),
            [("1 2", 2, LETTERS["FFFSS"[column]])],
        )
        for column, (name, parameters) in enumerate(RACK_COLUMNS)
    ),
    Rows(
        "rack, no racks at all",
        Policy.RACK,
        {},
        {},
        ("1", "2", "3"),
        [("1 2", 2, FAIL), ("1 2 3", 3, FAIL), ("1", 1, STRICT)],
    ),
    Rows(
        "zone, min 2 desired 3",
        Policy.ZONE,
        {},
        ZONE_LOCATIONS,
        ZONE_WRITABLE,
        [
            ("1 2 3", 3, STRICT),
            ("1 2 4", 3, SOFT),
            ("1 2 5", 3, FAIL),
            ("1 2", 2, FAIL),
            ("1 2 3 4", 3, FAIL),
            ("1 2 3 4", 4, STRICT),
            ("1 2 3 4 8 9", 3, STRICT),
            ("1 4 5", 3, FAIL),
            ("1 2 6", 3, FAIL),
            ("1 2 7", 3, FAIL),
            ("", 3, FAIL),
            ("1 2 3", 0, RAISES),
        ],
    ),
    Rows(
        "zone, min 1 desired 2",
        Policy.ZONE,
        {"min_num_zones_per_write_quorum": 1, "desired_num_zones_per_write_quorum": 2},
        ZONE_LOCATIONS,
        ZONE_WRITABLE,
        [
            ("1 2", 2, STRICT),
            ("1 4", 2, SOFT),
            ("1 5", 2, FAIL),
            ("1 2 3", 3, STRICT),
            ("1", 1, FAIL),
        ],
    ),
    Rows(
        "zone, an unknown bookie is a zone of its own",
        Policy.ZONE,
        {},
        {"1": "/z1/ud1", "2": "/z2/ud1", "4": "/z1/ud2"},
        ("1", "2", "4"),
        [("1 2 99", 3, STRICT), ("1 4 99", 3, SOFT)],
    ),
    Rows(
        "region is not implemented",
        Policy.REGION,
        {},
        {"1": "/east/r1", "2": "/east/r2", "3": "/east/r3"},
        ("1", "2", "3"),
        [("1 2 3", 3, STRICT), ("1 1 1", 3, STRICT), ("99", 1, STRICT), ("", 3, STRICT)],
    ),
    Rows(
        "no policy",
        Policy.NONE,
        {},
        {},
        ("1",),
        [("1 2 3", 3, STRICT), ("1 1", 2, STRICT), ("", 2, STRICT)],
    ),
]
each = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)


def javas(policies: JavaAuditor, table: Rows) -> list[str]:
    """Return the Java class's result for each row."""
    parameters = {PARAMETERS[name]: value for name, value in table.parameters.items()}
    rows = [(ensemble.split(), quorum, quorum) for ensemble, quorum, _ in table.rows]
    return policies.adherence(
        POLICY_CLASSES[table.policy], table.locations, [table.writable], rows, **parameters
    )


def ours(table: Rows) -> list[str]:
    """Return our result for each row in the Java mode."""
    rule = PlacementRule(table.policy, java_compatible=True, **table.parameters)
    around = Surroundings(writable=frozenset(table.writable), locations=dict(table.locations))
    judged = [
        adherence(tuple(ensemble.split()), quorum, quorum, rule, around)
        for ensemble, quorum, _ in table.rows
    ]
    return [ADHERENCE_WORDS[one.adherence] for one in judged]


@each
def test_java_gives_the_table(policies: JavaAuditor, table: Rows) -> None:
    """The real classes give the result in the row."""
    assert [said for _, _, said in table.rows] == javas(policies, table)


@each
def test_the_java_mode_gives_the_table(table: Rows) -> None:
    """Ours gives the same result."""
    assert [said for _, _, said in table.rows] == ours(table)


def test_every_row_is_asked() -> None:
    """The tables are not empty, and no row occurs twice."""
    rows = [
        (table.name, ensemble, quorum) for table in TABLES for ensemble, quorum, _ in table.rows
    ]
    assert len(rows) > 100
    assert len(rows) == len(set(rows))


@pytest.mark.parametrize("policy", [Policy.RACK, Policy.ZONE, Policy.REGION, Policy.NONE])
def test_java_and_the_java_mode_agree_on_anything(policies: JavaAuditor, policy: Policy) -> None:
    """Random clusters, parameters and ensembles, with doubled and unknown bookies, give the same
    word each time.
    """
    seen = set()
    for seed in range(SEEDS):
        table = drawn(policy, random.Random(seed))
        said = javas(policies, table)
        differ = [
            (row[:2], one, other)
            for row, one, other in zip(table.rows, said, ours(table), strict=True)
            if one != other
        ]
        assert [] == differ, f"seed {seed}: {table}"
        seen |= set(said)
    assert seen == {Policy.RACK: {STRICT, FAIL}, Policy.ZONE: {STRICT, SOFT, FAIL, RAISES}}.get(
        policy, {STRICT}
    )


def drawn(policy: Policy, draw: random.Random) -> Rows:
    """Return a cluster of one depth, with some bookies not writable and some without location, and
    ensembles on it.
    """
    bookies = [str(number) for number in range(1, draw.randint(4, 12))]
    depth = {Policy.RACK: draw.choice((1, 2))}.get(policy, 2)
    names = [
        [f"p{level}{number}" for number in range(draw.randint(1, 4))] for level in range(depth)
    ]
    whole = (
        policy is Policy.RACK and depth == 2
    )  # a bookie without location would have another depth
    placed = bookies if whole else draw.sample(bookies, draw.randint(1, len(bookies)))
    locations = {bookie: "/" + "/".join(draw.choice(level) for level in names) for bookie in placed}
    minimum = draw.randint(1, 3)
    parameters: dict[str, Any] = {}
    if policy is Policy.RACK:
        parameters = {
            "min_num_racks_per_write_quorum": minimum,
            "enforce_min_num_racks_per_write_quorum": draw.random() < 0.3,
        }
    elif policy is Policy.ZONE:
        parameters = {
            "min_num_zones_per_write_quorum": minimum,
            "desired_num_zones_per_write_quorum": minimum + draw.randint(0, 2),
        }
    writable = tuple(draw.sample(bookies, draw.randint(1, len(bookies))))
    rows = []
    for _ in range(ROWS_A_SEED):
        size = draw.randint(1, 6)
        quorum = draw.choice((size, draw.randint(0, size)))
        ensemble = (
            draw.choices([*bookies, "99"], k=size)
            if draw.random() < 0.5
            else draw.sample(bookies, min(size, len(bookies)))
        )
        rows.append((" ".join(ensemble), quorum, ""))
    return Rows("drawn", policy, parameters, locations, writable, rows)

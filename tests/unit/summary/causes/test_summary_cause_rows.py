"""A cause as it is written: counts that add up, a sentence for a person, a stable id."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support.cause_worlds import (
    BELOW,
    FAILED,
    MALFORMED,
    MARKED,
    World,
    both,
    ids,
    lacking,
    scattered,
    spread,
)

from auditor.model.availability import NOT_DIALLED, Greeting
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.finding import Kind
from auditor.summary.causes.candidates import CauseKind
from auditor.summary.causes.cause_rows import Backdrop, Causes, cause_id, causes_json, percent
from auditor.summary.causes.choosing import CAUSES_MAX
from auditor.summary.causes.hits import Hits, Via

FACTS = ClusterFacts("zk://h/ledgers", ("h",), "/ledgers", "hierarchical", "inst", False, None)
RACKS = {f"b{n}": f"/r{(n + 1) // 2}" for n in range(1, 7)}
SIX = spread(6, 300, seed=1).in_racks(RACKS)
APART = World({n: [f"b{n % 20:02}"] for n in range(1_000)})
"""Twenty bookies with fifty ledgers each; no ledger names two of them."""
WITHOUT, CORRUPT = Kind.ENTRY_WITHOUT_REPLICA.value, Kind.ENTRY_CORRUPT.value


def causes_of(
    hits: Hits,
    world: World = SIX,
    *,
    greeting: Greeting | None = Greeting.ANSWERED,
    greeting_detail: str = "",
    registration: Registration = Registration.WRITABLE,
    away: bool = False,
    disabled: bool = False,
    renamed: dict[str, str] | None = None,
) -> Causes:
    """Return the causes as they are written, where each bookie was last seen in this state."""
    chosen = world.causes(hits, disabled=disabled)
    greeted = {"greeting": greeting, "greeting_detail": greeting_detail}
    bookies = {b: BookieRecord(b, 2, 0, registration, "h", 1, **greeted) for b in RACKS}
    return causes_json(
        chosen, hits, Backdrop(FACTS, bookies, frozenset({"b1"} if away else ()), renamed or {})
    )


def sentences_of(hits: Hits, world: World = SIX, **more: Any) -> list[str]:
    return [row["says"] for row in causes_of(hits, world, **more).rows]


def test_every_affected_ledger_is_counted_once():
    """Each is of a listed cause, of a cause beyond CAUSES_MAX, or without a cause."""
    hits = lacking(
        **{f"b{n:02}": APART.naming(f"b{n:02}")[::2] for n in range(CAUSES_MAX + 2)}, b15=[15]
    )
    causes = causes_of(hits, APART)
    assert (CAUSES_MAX, {"causes": 2, "ledgers": 50}, 1, 0) == (
        len(causes.rows), causes.rest, causes.unexplained, causes.unexplained_unjudged,
    )  # fmt: skip
    assert [25] * CAUSES_MAX == [row["ledgers"] for row in causes.rows]
    assert [row["ledgers"] for row in causes.rows] == [
        len(causes.files[row["file"]]) for row in causes.rows
    ]


def test_a_ledger_of_two_families_is_counted_once_without_cause():
    """A ledger with a cause in one family is not unexplained in another. Of the three ledgers
    without a cause, two have no finding and are unjudged.
    """
    mine = SIX.naming("b1")
    others = [ledger for ledger in SIX.ensembles if ledger not in set(mine)]
    unjudged = Hits({"bookie_silent": ids(others[:2])}, {Via.UNHEARD: {}})
    causes = causes_of(
        both(both(lacking(b1=mine), Hits({MARKED: ids([mine[0], others[9]])}, {})), unjudged)
    )
    assert (1, 3, 2) == (len(causes.rows), causes.unexplained, causes.unexplained_unjudged)


def test_kinds_are_those_of_its_family_and_its_own_ledgers():
    """Findings of one cause share a family; ledgers that a stronger cause explains are not counted
    twice.
    """
    first_half, second = SIX.naming("b1"), SIX.naming("b4")
    hits = both(lacking(b1=first_half, b4=second), Hits({MARKED: ids(first_half[:2])}, {}))
    strong, weak = causes_of(hits).rows
    shared = len(set(first_half) & set(second))
    every = len(set(first_half) | set(second))
    assert ({BELOW: strong["ledgers"]}, "entry") == (strong["kinds"], strong["family"])
    assert every == strong["ledgers"] + weak["ledgers"]
    assert float(f"{weak['ledgers'] / every:.4g}") == weak["share"]
    assert weak["says"].endswith(f"({shared} of them belong to a stronger cause)")


def test_a_row_has_the_numbers_of_its_contrast():
    """They show a person why it is a cause."""
    mine = SIX.naming("b1")
    (row,) = causes_of(both(lacking(b1=mine), lacking(b2=SIX.naming("b2")[:1]))).rows
    pairs = sum(map(len, SIX.ensembles.values())) - len(mine)
    names = ("touched", "touched_hit", "share_touched", "others", "others_hit", "share_others")
    assert [len(mine), len(mine), 1.0, pairs, 1, float(f"{1 / pairs:.4g}")] == [
        row[name] for name in names
    ]
    assert 0 <= row["p_value"] < 1e-9


def test_a_file_holds_its_ledgers_ascending():
    """Its name has the rank, the kind and the subject of the cause."""
    causes = causes_of(lacking(b01=[61, 1, 21, 41, 81]), APART)
    assert {"causes/01-bookie-b01.txt": [1, 21, 41, 61, 81]} == {
        name: one.tolist() for name, one in causes.files.items()
    }


SHARES = "(100 % of its {} ledgers, 0 % on the rest)"


@pytest.mark.parametrize(
    ("state", "more"),
    [
        ("bookie b1 answers and", {}),
        ("bookie b1 is registered and silent and", {"greeting": Greeting.SILENT}),
        (
            "bookie b1 is registered and was not dialled and",
            {"greeting": Greeting.SILENT, "greeting_detail": f"{NOT_DIALLED}no KDC"},
        ),
        ("bookie b1 is not registered and", {"registration": Registration.NONE}),
        ("bookie b1, in planned maintenance, answers and", {"away": True}),
        ("bookie b1", {"greeting": None}),
        ("bookie b1 (probably renamed to b9) answers and", {"renamed": {"b1": "b9"}}),
    ],
)
def test_a_bookie_is_reported_as_it_was_last_seen(state: str, more: dict[str, Any]):
    """Whether it answers decides what a person does next."""
    mine = SIX.naming("b1")
    assert [
        f"{state} lacks entries of {len(mine)} ledgers {SHARES.format(len(mine))}"
    ] == sentences_of(lacking(b1=mine), **more)


def test_a_share_below_one_per_cent_is_printed():
    """Of the ledgers of b1 0.3 % are hit, and of the rest below 0.01 %: b1 is a cause."""
    world = World({n: [f"b{n % 2}"] for n in range(40_000)})
    expected = (
        "bookie b1 answers and lacks entries of 60 ledgers (0.3 % of its 20,000 ledgers, below 0.01"
        " % on the rest)"
    )
    assert [expected] == sentences_of(lacking(b1=world.naming("b1")[::334], b0=[0]), world)


def test_a_percentage_is_rounded_down():
    """Only the whole is 100 %, and only nothing is 0 %."""
    shares = [0, 1e-6, 0.0001, 0.0099999, 0.01, 0.29, 0.999999, 1]
    assert ["0 %", "below 0.01 %", "0.01 %", "0.99 %", "1 %", "29 %", "99 %", "100 %"] == [
        percent(share) for share in shares
    ]


def test_a_bookie_is_described_by_what_it_does_to_the_family():
    """The ledgers that it leaves unjudged are one cause, the ledgers whose marks name it
    another.
    """
    mine = SIX.naming("b1")
    via = {Via.UNHEARD: {"b1": ids(mine[:60])}, Via.MARKED: {"b1": ids(mine[60:])}}
    hits = Hits({"bookie_silent": ids(mine[:60]), MARKED: ids(mine[60:])}, via)
    first, second = sorted(sentences_of(hits, registration=Registration.NONE))
    assert first.startswith("bookie b1 is not registered and is named missing by the marks of ")
    assert second.startswith(
        "bookie b1 is not registered and leaves copies of 60 ledgers unknown ("
    )


def test_a_rack_is_reported_with_its_bookies():
    """The sentence names its bookies and counts the ledgers that lack entries on any of them."""
    number = len(SIX.naming("b1", "b2"))
    expected = (
        f"rack /r1: its bookies b1, b2 lack entries of {number} ledgers {SHARES.format(number)}"
    )
    assert [expected] == sentences_of(lacking(b1=SIX.naming("b1"), b2=SIX.naming("b2")))


def test_failing_placement_is_reported_by_rack_and_by_bookie():
    """The rack has two bookies or more in each failing segment; the bookie is in each of them."""
    crowd = [n for n, ensemble in SIX.ensembles.items() if {"b1", "b2"} <= set(ensemble)]
    first, *_ = sentences_of(Hits({FAILED: ids(crowd)}, {}, crowds={"/r1": ids(crowd)}))
    assert first.startswith(
        f"rack /r1 has two bookies or more in segments of {len(crowd)} ledgers that fail"
        " placement ("
    )
    mine = SIX.naming("b1")
    (said,) = sentences_of(Hits({FAILED: ids(mine)}, {Via.MISPLACED: {"b1": ids(mine)}}))
    expected = (
        f"bookie b1 answers and is in segments of {len(mine)} ledgers that fail placement (100 % of"
        f" its {len(mine)} ledgers"
    )
    assert f"{expected}, 0 % of the ledgers without it)" == said


def test_a_period_is_reported_with_what_is_outside():
    """The sentence counts the hit ledgers created in it and at other times, and says when ledgers
    with another cause are left out.
    """
    expected = (
        "ledgers created from 1970-01-01T00:01:40.000Z to 1970-01-01T00:01:59.000Z: 20 of 20 are"
        " hit (100 %), and 1 of the 280 created at other times (0.35 %)"
    )
    assert [expected] == sentences_of(scattered(SIX, [*range(100, 120), 250], random.Random(2)))
    beside = [n for n in range(100, 160) if n not in set(SIX.naming("b1"))]
    _, said = sentences_of(
        both(lacking(b1=SIX.naming("b1")), scattered(SIX, beside, random.Random(2)))
    )
    assert said.endswith("created at other times (0 %), ledgers with another cause not counted")


def test_marks_that_wait_are_reported_with_what_they_wait_for():
    """They wait for auto-recovery, which is disabled, or for a worker that holds their locks."""
    old = range(0, 300, 60)
    hits = Hits({MARKED: ids(old)}, {}, locked={"w1": ids(old)}, marked=50)
    assert [
        "auto-recovery is disabled: the marks of 5 ledgers wait for it (10 % of 50 marked ledgers)"
    ] == sentences_of(hits, disabled=True)
    expected = (
        "replication worker w1 holds the locks of 5 ledgers whose marks are too old (100 % of the 5"
        " ledgers that it locks)"
    )
    assert [expected] == sentences_of(hits)


def test_an_id_is_that_of_the_cluster_and_the_cause():
    """It does not change with the number of ledgers. Another bookie, kind of cause or family has
    another id.
    """
    first, later = (causes_of(lacking(b1=SIX.naming("b1")[:n])).rows[0]["id"] for n in (50, 100))
    assert first == later == cause_id(CauseKind.BOOKIE, "b1", "entry", FACTS)
    others = [
        (CauseKind.BOOKIE, "b2", "entry"),
        (CauseKind.RACK, "b1", "entry"),
        (CauseKind.BOOKIE, "b1", "mark"),
    ]
    assert 4 == len({first, *(cause_id(*one, FACTS) for one in others)})


def test_an_id_is_the_same_in_each_version():
    """A cluster without an instance id is known by its root and its hosts, in any order."""
    assert "03686ae7d6d62e95" == cause_id(CauseKind.BOOKIE, "b1", "entry", FACTS)
    one, other = (
        ClusterFacts("zk", hosts, "/l", "flat", None, False, None)
        for hosts in (("h1", "h2"), ("h2", "h1"))
    )
    assert (
        "3e77bc6d8b53363f"
        == cause_id(CauseKind.BOOKIE, "b1", "entry", one)
        == cause_id(CauseKind.BOOKIE, "b1", "entry", other)
    )


def test_the_fields_of_the_summary_have_their_names():
    """They are the names in docs/names.md."""
    causes = causes_of(lacking(b01=[61, 1, 21, 41, 81], b02=[2]), APART)
    assert {
        "causes": causes.rows,
        "causes_rest": {"causes": 0, "ledgers": 0},
        "ledgers_without_cause": 1,
        "unjudged_without_cause": 0,
    } == causes.as_json()
    (row,) = causes.rows
    assert ("bookie", "b01", "entry") == (row["cause"], row["subject"], row["family"])


def test_kinds_come_with_the_most_frequent_first():
    """Kinds with equal counts are sorted by name. A kind without a ledger is left out."""
    mine = APART.naming("b01")
    for below, expected in ((5, [WITHOUT, BELOW]), (50, [BELOW, WITHOUT])):
        kinds = {WITHOUT: ids(mine), BELOW: ids(mine[:below]), CORRUPT: ids(())}
        (row,) = causes_of(Hits(kinds, {Via.LACKING: {"b01": ids(mine)}}), APART).rows
        assert [(one, {WITHOUT: 50, BELOW: below}[one]) for one in expected] == list(
            row["kinds"].items()
        )


@pytest.mark.parametrize(
    ("subject", "slug"),
    [
        ("10.0.0.7:3181", "10.0.0.7-3181"),
        ("../../etc/X", "etc-X"),
        ("/X room 1/", "X-room-1"),
        ("///", "unnamed"),
        ("b" * 99, "b" * 60),
    ],
)
def test_whatever_a_subject_is_named_its_file_is_harmless(subject: str, slug: str):
    """The file stays in its directory, is not hidden and has a short name."""
    world = World({n: [subject if n % 20 == 1 else f"b{n % 20:02}"] for n in range(1_000)})
    causes = causes_of(lacking(**{subject: world.naming(subject)}), world)
    assert [f"causes/01-bookie-{slug}.txt"] == list(causes.files)


@pytest.mark.parametrize(
    ("size", "named"), [(5, "b01, b02, b03, b04, b05"), (6, "b01, b02, b03, b04, b05 and 1 more")]
)
def test_a_large_rack_names_few_of_its_bookies(size: int, named: str):
    """The first five are named, the others counted."""
    members = [f"b{n:02}" for n in range(1, size + 1)]
    world = APART.in_racks(
        {f"b{n:02}": "/r1" if f"b{n:02}" in members else "/r2" for n in range(20)}
    )
    (said,) = sentences_of(lacking(**{b: world.naming(b) for b in members}), world)
    assert said.startswith(f"rack /r1: its bookies {named} lack entries of {50 * size} ledgers (")


def test_a_ledger_is_described_by_the_first_way_that_fits():
    """A ledger whose mark names b01 counts under marks, and not once more under lacking entries."""
    mine = APART.naming("b01")
    via = {Via.MARKED: {"b01": ids(mine[:30])}, Via.LACKING: {"b01": ids(mine[20:])}}
    (said,) = sentences_of(Hits({MARKED: ids(mine)}, via), APART)
    expected = (
        "bookie b01 is not registered and is named missing by the marks of 30 ledgers and lacks"
        " entries of 20 ledgers ("
    )
    assert said.startswith(expected)
    (said,) = sentences_of(
        Hits(
            {MARKED: ids(mine)}, {Via.MARKED: {"b01": ids(mine)}, Via.LACKING: {"b01": ids(mine)}}
        ),
        APART,
    )
    assert "lacks" not in said


def test_a_fact_without_others_has_no_share_of_theirs():
    """Disabled auto-recovery is reported even if every ledger is marked. The share of the others is
    null then, not zero.
    """
    (row,) = causes_of(
        Hits({MARKED: ids(APART.ensembles)}, {}, marked=1_000), APART, disabled=True
    ).rows
    assert (0, 0, None, None) == tuple(
        row[name] for name in ("others", "others_hit", "share_others", "p_value")
    )


def test_without_a_cause_the_files_and_counts_are_whole_numbers():
    """A hit ledger with an id above 2^53 and no cause is counted, and has no row and no file."""
    causes = causes_of(Hits({MALFORMED: ids([2**60 + 1])}, {}))
    assert ([], {}, 1) == (causes.rows, causes.files, causes.unexplained)
    assert int is type(causes.unexplained)

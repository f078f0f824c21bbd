"""Which causes explain the ledgers that are hit. Most have a twin: hits like theirs without a
cause.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import comb

import numpy as np
import pytest
from support.quick_forms import few_or_all

from auditor.after.causes import (
    CAUSES_MAX,
    UNJUDGED,
    Background,
    Cause,
    CauseKind,
    Causes,
    Hits,
    Share,
    Touched,
    cause_id,
    chance_of,
    choose,
    rows_and_files,
)
from auditor.evidence.ids import Ids
from auditor.model.cluster import ClusterFacts
from auditor.model.finding import CAUSE_LEDGERS_MIN, Family, Kind
from auditor.witness.phrases import percent

BELOW, MARKED = Kind.ENTRY_BELOW_WRITE_QUORUM.value, Kind.UNDERREPLICATED_BEYOND_GRACE.value
FAILED, MALFORMED = Kind.PLACEMENT_FAILED.value, Kind.METADATA_MALFORMED.value
FACTS = ClusterFacts("zk://h/ledgers", ("h",), "/ledgers", "hierarchical", "inst", False, None)
SPREADS_FEW, SPREADS = 100, 300
"""Random clusters without a cause. CHANCE_MAX allows one false cause in a thousand runs."""


def ids(ledgers: Iterable[int]) -> Ids:
    return np.unique(np.fromiter(ledgers, np.int64))


@dataclass(frozen=True)
class World:
    """All ledgers of a cluster: the bookies each names, and when it was created (ms; by default its
    id).
    """

    ensembles: Mapping[int, Sequence[str]]
    racks: Mapping[str, str] = field(default_factory=dict)
    times: Mapping[int, int] = field(default_factory=dict)

    def naming(self, *bookies: str) -> list[int]:
        return [ledger for ledger, named in self.ensembles.items() if set(named) & set(bookies)]

    def in_racks(self, racks: Mapping[str, str]) -> World:
        return replace(self, racks=racks)

    def causes(
        self, hits: Hits, *, known: Iterable[str] = (), is_recovery_disabled: bool = False
    ) -> list[Cause]:
        """Return the causes of these hits; `known` bookies are not registered."""
        bookies = sorted({bookie for named in self.ensembles.values() for bookie in named})
        affected = set(hits.affected().tolist())
        touched = Touched(
            len(self.ensembles),
            {bookie: len(self.naming(bookie)) for bookie in bookies},
            {
                rack: len(self.naming(*(b for b in bookies if self.racks.get(b) == rack)))
                for rack in sorted(set(self.racks.values()))
            },
            {bookie: ids(affected.intersection(self.naming(bookie))) for bookie in bookies},
        )
        times = {ledger: self.times.get(ledger, ledger) for ledger in self.ensembles}
        every = np.sort(np.fromiter(times.values(), np.int64))
        born = sorted(affected & times.keys())

        def count_created(edges: Ids) -> Ids:
            return np.diff(np.searchsorted(every, edges), prepend=0, append=len(every))

        around = Background(
            touched,
            self.racks,
            dict.fromkeys(known, " is not registered"),
            frozenset(known),
            frozenset(known),
            ids(born),
            np.array([times[ledger] for ledger in born], np.int64),
            count_created,
            is_recovery_disabled,
        )
        return choose(hits, around)


def spread(bookies: int, ledgers: int, seed: int, ensemble: int = 3) -> World:
    """Return a world of bookies b1, b2, …, with ensembles drawn at random and ledger ids from 0,
    created one a second.
    """
    draw = random.Random(seed)
    names = [f"b{n}" for n in range(1, bookies + 1)]
    ensembles = {ledger: draw.sample(names, min(ensemble, bookies)) for ledger in range(ledgers)}
    return World(ensembles, times={ledger: 1_000 * ledger for ledger in range(ledgers)})


def separate_bookies(**ledgers: int) -> World:
    """Return a world in which each bookie has this many ledgers of its own, all created at once."""
    named = [bookie for bookie, count in ledgers.items() for _ in range(count)]
    return World(
        {n: [bookie] for n, bookie in enumerate(named)}, times=dict.fromkeys(range(len(named)), 0)
    )


RACKS = {f"b{n}": f"/r{(n + 1) // 2}" for n in range(1, 7)}
"""b1 and b2 are in /r1, b3 and b4 in /r2, b5 and b6 in /r3."""
SIX = spread(6, 300, seed=1).in_racks(RACKS)


def hit_on(kind: str, family: str, by_bookie: Mapping[str, Iterable[int]]) -> Hits:
    """Return findings of a kind on these ledgers of these bookies."""
    found = {bookie: ids(ledgers) for bookie, ledgers in by_bookie.items()}
    return Hits({kind: ids(one for some in found.values() for one in some)}, {family: found})


def lacking(**by_bookie: Iterable[int]) -> Hits:
    """Return findings: these bookies lack entries of these ledgers."""
    return hit_on(BELOW, Family.ENTRY.value, by_bookie)


def scattered(world: World, ledgers: Iterable[int], draw: random.Random) -> Hits:
    """Return findings: each of these ledgers lacks an entry on one random bookie of its
    ensemble.
    """
    hit: dict[str, list[int]] = {}
    for ledger in ledgers:
        hit.setdefault(draw.choice(list(world.ensembles[ledger])), []).append(ledger)
    return lacking(**hit)


def both(one: Hits, other: Hits) -> Hits:
    """Return the findings of two misfortunes on different bookies or in different families."""
    by_bookie = {
        family: {**one.by_bookie.get(family, {}), **other.by_bookie.get(family, {})}
        for family in {*one.by_bookie, *other.by_bookie}
    }
    kinds = {*one.by_kind, *other.by_kind}
    none = ids(())
    by_kind = {k: np.union1d(one.by_kind.get(k, none), other.by_kind.get(k, none)) for k in kinds}
    return Hits(by_kind, by_bookie)


def said(causes: Iterable[Cause]) -> list[tuple[str, str, int]]:
    return [(one.kind.value, one.subject, len(one.own)) for one in causes]


def causes_of(hits: Hits, world: World = SIX) -> Causes:
    return rows_and_files(world.causes(hits), hits, FACTS)


# What has no cause


@pytest.mark.parametrize("spreads", few_or_all(SPREADS_FEW, SPREADS))
@pytest.mark.parametrize("bookies", [3, 5, 10, 50])
def test_evenly_spread_loss_has_no_cause(bookies: int, spreads: int):
    """Where entries are lost at random, no bookie, rack or period is a cause, in small and large
    clusters. Seeds from 0 on.
    """
    false = []
    for seed in range(spreads):
        draw = random.Random(seed)
        world = spread(bookies, draw.choice([30, 100, 200]), seed).in_racks(
            {f"b{n}": f"/r{n % 3}" for n in range(1, bookies + 1)}
        )
        share = draw.choice([0.02, 0.1, 0.3, 1.0])
        hit = [ledger for ledger in world.ensembles if draw.random() < share]
        false += [(seed, one) for one in said(world.causes(scattered(world, hit, draw)))]
    assert [] == false


def test_fewer_than_three_ledgers_make_no_cause():
    """A cause explains at least CAUSE_LEDGERS_MIN ledgers, also on a bookie in a known state."""
    world = spread(50, 10_000, seed=2)
    hits = lacking(b1=world.naming("b1")[: CAUSE_LEDGERS_MIN - 1], b2=world.naming("b2")[-1:])
    assert [] == world.causes(hits) == world.causes(hits, known=["b1"])
    assert [("bookie", "b1", 3)] == said(
        separate_bookies(b1=3, b2=997).causes(lacking(b1=range(3)))
    )


def test_three_ledgers_of_a_large_bookie_are_chance():
    """b1 has hundreds of ledgers and lost entries of three. Three random losses may fall there."""
    world = spread(5, 1_000, seed=3)
    assert [] == world.causes(lacking(b1=world.naming("b1")[10:600:200][:3]))


def test_a_period_needs_other_times_to_stand_out_from():
    """If all ledgers were created in the period, there are no others to compare them with."""
    world = spread(6, 40, seed=16)
    assert [] == said(world.causes(scattered(world, range(40), random.Random(16))))


# Bookies


@pytest.mark.parametrize(
    ("bookies", "ledgers"), [(3, 10), (3, 200), (5, 20), (5, 200), (50, 100), (50, 2_000)]
)
def test_a_wiped_bookie_is_a_cause(bookies: int, ledgers: int):
    """Its copies are compared with the copies on other bookies. It may therefore be a cause even if
    every ledger names it.
    """
    world = spread(bookies, ledgers, seed=4)
    mine = world.naming("b1")
    (found,) = world.causes(lacking(b1=mine))
    copies = sum(map(len, world.ensembles.values()))
    assert ("bookie", "b1", len(mine)) == said([found])[0]
    assert (Share(len(mine), len(mine)), Share(0, copies - len(mine))) == (
        found.touched,
        found.others,
    )


def test_a_bookie_that_is_gone_is_the_cause_of_every_ledger_it_leaves_without_a_copy():
    """It needs no comparison: every ledger of the cluster may name it, and all may have been
    written within two seconds.
    """
    world = replace(spread(3, 30, seed=5), times=dict.fromkeys(range(30), 7))
    hits = lacking(b3=range(30))
    assert [("bookie", "b3", 30)] == said(world.causes(hits, known=["b3"]))
    young = World({n: ["b2", "b3", "b1" if n >= 200 else "b4"] for n in range(230)})
    assert [("bookie", "b1", 30)] == said(young.causes(lacking(b1=range(200, 230)), known=["b1"]))


def test_one_bookie_alone_is_a_cause_only_by_its_state():
    """It has no other bookie to stand out from."""
    world = spread(1, 50, seed=5)
    hits = lacking(b1=range(0, 50, 2))
    assert [] == world.causes(hits)
    (found,) = world.causes(hits, known=["b1"])
    says = "bookie b1 is not registered and should hold copies of 25 ledgers"
    assert f"{says} (50 % of its 50 ledgers)" == found.says


@pytest.mark.parametrize("bookies", [4, 6, 10])
def test_a_wiped_bookie_is_seen_beside_scattered_loss(bookies: int):
    """The cause has the ledgers of the wiped bookie; the scattered losses have no cause."""
    world = spread(bookies, 400, seed=6)
    others = [ledger for ledger in world.ensembles if ledger not in set(world.naming("b1"))]
    hits = both(scattered(world, others[::10], random.Random(6)), lacking(b1=world.naming("b1")))
    assert [("bookie", "b1", len(world.naming("b1")))] == said(world.causes(hits))


def test_two_wiped_bookies_do_not_hide_each_other():
    """Two of four bookies are wiped, and each is compared with the two sound ones."""
    world = spread(4, 300, seed=7)
    causes = world.causes(lacking(b1=world.naming("b1"), b2=world.naming("b2")))
    assert {"b1", "b2"} == {one.subject for one in causes}
    assert len(world.naming("b1", "b2")) == sum(len(one.own) for one in causes)
    assert [0, 0] == [one.others.hit for one in causes]


def test_what_one_bookie_does_to_two_families_is_two_causes():
    """It lacks entries of some ledgers and is named by the marks of others."""
    world = spread(6, 300, seed=10)
    mine = world.naming("b1")
    first, second = mine[: len(mine) // 2], mine[len(mine) // 2 :]
    marks = hit_on(MARKED, Family.MARK.value, {"b1": second})
    causes = world.causes(both(lacking(b1=first), marks))
    assert {("entry", "b1", len(first)), ("mark", "b1", len(second))} == {
        (one.family, one.subject, len(one.own)) for one in causes
    }


def test_a_silent_bookie_explains_what_it_leaves_unjudged():
    """These ledgers have a reason and no finding, and no creation period explains them."""
    world = spread(5, 60, seed=9)
    mine = world.naming("b4")
    (found,) = world.causes(hit_on("bookie_silent", UNJUDGED, {"b4": mine}), known=["b4"])
    assert (UNJUDGED, len(mine)) == (found.family, len(found.own))
    assert [] == SIX.causes(Hits({"bookie_silent": ids(range(100, 140))}))


def greedy(lost: dict[str, set[int]]) -> dict[str, set[int]]:
    """Choose the bookie that explains most of the ledgers left, until none explains enough. Among
    equals the first by name comes first.
    """
    left, chosen = set().union(*lost.values()), {}
    while lost:
        name = min(lost, key=lambda one: (-len(lost[one] & left), one))
        own = lost.pop(name) & left
        if len(own) < CAUSE_LEDGERS_MIN:
            break
        left -= own
        chosen[name] = own
    return chosen


def test_each_ledger_belongs_to_the_strongest_cause_of_what_is_left():
    """Several bookies lack entries of the same ledger. A ledger of a stronger cause no longer
    counts for the others. The seed is in the message.
    """
    for seed in range(100):
        draw = random.Random(seed)
        lost = {
            f"b{n}": set(draw.sample(range(40), draw.randint(3, 14)))
            for n in range(draw.randint(3, 9))
        }
        ensembles = {n: [b for b in lost if n in lost[b]] or ["idle"] for n in range(40)}
        world = World(ensembles, times=dict.fromkeys(range(40), 0))
        causes = world.causes(lacking(**lost), known=lost)
        assert greedy(dict(lost)) == {c.subject: set(c.own.tolist()) for c in causes}, seed


# Racks


def test_a_wiped_rack_is_one_cause():
    """The cause names both bookies of the rack. The twin, in two racks, is two bookies."""
    mine = SIX.naming("b1", "b2")
    (found,) = SIX.causes(lacking(b1=SIX.naming("b1"), b2=SIX.naming("b2")))
    assert ("rack", "/r1", len(mine)) == said([found])[0]
    assert f"rack /r1: its bookies b1, b2 lack entries of {len(mine)} ledgers (100 % of its" in (
        found.says
    )
    causes = SIX.causes(lacking(b1=SIX.naming("b1"), b3=SIX.naming("b3")))
    assert {("bookie", "b1"), ("bookie", "b3")} == {(kind, name) for kind, name, _ in said(causes)}


@pytest.mark.parametrize(("members", "wiped"), [(1, 1), (4, 2), (5, 2)])
def test_a_lost_rack_has_two_bookies_or_more_and_lost_most_of_them(members: int, wiped: int):
    """A rack of one bookie is named by that bookie. Two wiped bookies of four are not most."""
    rack = {f"b{n}": 20 for n in range(members)}
    world = separate_bookies(**rack, ok=2_000).in_racks(dict.fromkeys(rack, "/r1") | {"ok": "/r2"})
    hits = lacking(**{f"b{n}": world.naming(f"b{n}") for n in range(wiped)})
    assert [("bookie", f"b{n}", 20) for n in range(wiped)] == said(world.causes(hits))


def test_where_all_bookies_are_in_one_rack_none_is_named():
    """/default-rack is not a cause: there is no other rack to compare with."""
    hits = lacking(b1=SIX.naming("b1"), b2=SIX.naming("b2"))
    for racks in (dict.fromkeys(RACKS, "/default-rack"), {}):
        assert {"bookie"} == {kind for kind, _, _ in said(SIX.in_racks(racks).causes(hits))}


def test_the_rack_that_crowds_ensembles_is_the_cause():
    """Only ledgers with both bookies of /r1 fail placement. The twin, in which ledgers with both
    bookies of any rack fail, has no cause.
    """
    crowds = {
        rack: ids(
            n for n, e in SIX.ensembles.items() if {b for b in RACKS if RACKS[b] == rack} <= set(e)
        )
        for rack in RACKS.values()
    }
    one = crowds["/r1"]
    assert [("rack", "/r1", len(one))] == said(SIX.causes(Hits({FAILED: one}, crowds={"/r1": one})))
    every = ids(ledger for some in crowds.values() for ledger in some)
    assert [] == said(SIX.causes(Hits({FAILED: every}, crowds=crowds)))


# Periods and recovery


def test_a_period_in_which_a_bug_lost_entries_is_a_cause():
    """Forty ledgers in a row, on bookies in turn; before and after them nothing is hit."""
    (found,) = SIX.causes(scattered(SIX, range(100, 140), random.Random(13)))
    assert ("period", 40) == (found.kind.value, len(found.own))
    assert (Share(40, 40), Share(0, 260)) == (found.touched, found.others)
    assert (
        "40 ledgers created from 1970-01-01T00:01:40.000Z to 1970-01-01T00:02:19.000Z are hit (100"
        " % of the 40 ledgers created then, 0 % of the rest)" == found.says
    )


def test_a_period_may_have_sound_ledgers_and_other_times_may_have_hits():
    """Four of five ledgers of the period are hit, and a few at other times. The twin, in which half
    of the period is hit, has no cause.
    """
    world = spread(6, 3_000, seed=14)
    rest = [*range(0, 1_000, 100), *range(1_300, 3_000, 100)]
    hit = [*(n for n in range(1_000, 1_300) if n % 5), *rest]
    assert [] == world.causes(scattered(world, [*range(1_000, 1_300, 2), *rest], random.Random(14)))
    (found,) = world.causes(scattered(world, hit, random.Random(14)))
    assert CauseKind.PERIOD is found.kind
    assert set(hit[:240]) - set(found.own.tolist()) == set()
    assert len(found.own) <= 260


def test_a_period_is_seen_beside_a_wiped_bookie():
    """The period is searched without the ledgers that the bookie explains: they count neither as
    hit nor as sound.
    """
    world = spread(10, 600, seed=17)
    mine = world.naming("b1")
    hit = [ledger for ledger in range(300, 350) if ledger not in set(mine)]
    causes = world.causes(both(scattered(world, hit, random.Random(17)), lacking(b1=mine)))
    assert [("bookie", len(mine)), ("period", len(hit))] == [(k, n) for k, _, n in said(causes)]
    assert (Share(len(hit), len(hit)), Share(0, 600 - len(mine) - len(hit))) == (
        causes[1].touched,
        causes[1].others,
    )


def test_a_period_is_found_among_more_ledgers_than_edges():
    """The search tries only some of their times, and the period still has all of them."""
    times = {n: 10**9 + 7 * n for n in range(5_000)} | {n: 10 * n for n in range(5_000, 20_000)}
    world = World({n: ["b1"] for n in range(20_000)}, times=times)
    (found,) = world.causes(Hits({BELOW: ids(range(5_000))}))
    assert (CauseKind.PERIOD, 5_000) == (found.kind, len(found.own))


def test_unrelated_kinds_are_not_lumped_into_a_period():
    """In one period two ledgers each lack an entry, fail placement, have old marks or are
    malformed: these have nothing in common. Eight malformed ledgers have.
    """
    pairs = enumerate((BELOW, FAILED, MARKED, MALFORMED))
    assert [] == SIX.causes(Hits({kind: ids([100 + 2 * n, 101 + 2 * n]) for n, kind in pairs}))
    (found,) = SIX.causes(Hits({MALFORMED: ids(range(100, 108))}))
    assert (CauseKind.PERIOD, 8) == (found.kind, len(found.own))


def test_ledgers_whose_creation_nobody_knows_have_no_period():
    """A ledger that could not be read at the first look has no time of creation."""
    assert [] == SIX.causes(Hits({MALFORMED: ids(range(1_000, 1_010))}))


@pytest.mark.parametrize("are_all_marked", [False, True])
def test_disabled_auto_recovery_is_why_marks_stand(are_all_marked: bool):
    """It is a fact, and a cause even if every ledger is marked. It explains marks alone."""
    world = spread(5, 4 if are_all_marked else 100, seed=18)
    hits = Hits({MARKED: ids(range(4))}, marked=4)
    (found,) = world.causes(hits, is_recovery_disabled=True)
    assert ("autorecovery", "disabled", 4) == said([found])[0]
    assert (
        "auto-recovery is disabled: the marks of 4 ledgers wait for it (100 % of 4 marked ledgers)"
        == found.says
    )
    assert "autorecovery" not in {kind for kind, _, _ in said(world.causes(hits))}
    lost = scattered(SIX, range(0, 300, 7), random.Random(19))
    assert [] == SIX.causes(lost, is_recovery_disabled=True)


def test_the_bookie_of_marks_that_wait_is_named_beside_disabled_auto_recovery():
    """The bookie is why they are marked, and auto-recovery why they stay so."""
    mine = SIX.naming("b1")
    hits = replace(hit_on(MARKED, Family.MARK.value, {"b1": mine}), marked=len(mine))
    causes = SIX.causes(hits, known=["b1"], is_recovery_disabled=True)
    assert [("bookie", "b1", len(mine)), ("autorecovery", "disabled", len(mine))] == said(causes)


# Rows and files


def test_every_ledger_that_is_hit_is_counted_once():
    """Each is of a listed cause, of a cause beyond CAUSES_MAX, or without a cause."""
    apart = World({n: [f"b{n % 20:02}"] for n in range(1_000)})
    lost = {f"b{n:02}": apart.naming(f"b{n:02}")[: 10 + n] for n in range(CAUSES_MAX + 3)}
    made = causes_of(lacking(**lost), apart)
    assert CAUSES_MAX == len(made.rows) == len(made.files)
    listed = sum(row.ledgers for row in made.rows)
    assert sum(map(len, lost.values())) == listed + made.rest.ledgers + made.unexplained
    assert 3 == made.rest.causes and sorted((row.ledgers for row in made.rows), reverse=True) == [
        row.ledgers for row in made.rows
    ]


def test_a_row_has_its_shares_its_kinds_and_its_file():
    """Kinds are those of its own ledgers, the most frequent first."""
    mine = SIX.naming("b1")
    hits = lacking(b1=mine)
    hits = replace(hits, by_kind={**hits.by_kind, Kind.ENTRY_CORRUPT.value: ids(mine[:2])})
    made = causes_of(hits)
    (row,) = made.rows
    assert {BELOW: len(mine), Kind.ENTRY_CORRUPT.value: 2} == row.kinds
    assert [BELOW, Kind.ENTRY_CORRUPT.value] == list(row.kinds)
    assert (len(mine), len(mine), 1.0, 900 - len(mine), 0, 0.0) == tuple(
        getattr(row, name)
        for name in (
            "touched",
            "touched_hit",
            "share_touched",
            "others",
            "others_hit",
            "share_others",
        )
    )
    assert "causes/01-bookie-b1.txt" == row.file and mine == made.files[row.file].tolist()


@pytest.mark.parametrize(
    ("subject", "slug"),
    [
        ("../../etc/passwd", "etc-passwd"),
        ("b1:3181", "b1-3181"),
        ("…", "unnamed"),
        (".hidden", "hidden"),
        ("x" * 300, "x" * 60),
    ],
)
def test_whatever_a_subject_is_named_its_file_is_harmless(subject: str, slug: str):
    """The file stays in its directory, is not hidden and has a short name."""
    world = World({n: [subject if n < 10 else "ok"] for n in range(100)})
    (row,) = causes_of(lacking(**{subject: range(10)}), world).rows
    assert f"causes/01-bookie-{slug}.txt" == row.file


def test_an_id_is_that_of_the_cluster_the_cause_and_the_family():
    """It does not change with the number of ledgers, nor with the version. A cluster without an
    instance id is known by its root and its hosts, in any order.
    """
    one = cause_id(CauseKind.BOOKIE, "b1", "entry", FACTS)
    assert one == causes_of(lacking(b1=SIX.naming("b1"))).rows[0].id == "03686ae7d6d62e95"
    others = [
        cause_id(CauseKind.RACK, "b1", "entry", FACTS),
        cause_id(CauseKind.BOOKIE, "b2", "entry", FACTS),
        cause_id(CauseKind.BOOKIE, "b1", "mark", FACTS),
        cause_id(CauseKind.BOOKIE, "b1", "entry", replace(FACTS, instance_id="other")),
    ]
    assert 5 == len({one, *others})
    named = [replace(FACTS, instance_id=None, hosts=hosts) for hosts in (("x", "y"), ("y", "x"))]
    assert 1 == len({cause_id(CauseKind.BOOKIE, "b1", "entry", facts) for facts in named})


def test_a_large_rack_names_few_of_its_bookies():
    """The first five are named, the others counted."""
    rack = {f"b{n}": 20 for n in range(7)}
    world = separate_bookies(**rack, ok=2_000).in_racks(dict.fromkeys(rack, "/r1") | {"ok": "/r2"})
    (found,) = world.causes(lacking(**{b: world.naming(b) for b in rack}))
    assert found.says.startswith("rack /r1: its bookies b0, b1, b2, b3, b4 and 2 more lack entries")


def test_a_percentage_is_rounded_down():
    """Only the whole is 100 %, and only nothing is 0 %."""
    shares = {0: "0 %", 1e-9: "below 0.01 %", 0.0031: "0.31 %", 0.97: "97 %", 1: "100 %"}
    assert [*shares.values(), "99 %"] == [percent(share) for share in [*shares, 0.9999999]]


# Chance


def test_chance_is_that_of_drawing_without_replacement():
    """It is compared with the sum of all terms, for every small share."""
    for size in range(1, 9):
        for all_hit in range(12):
            for hit in range(max(0, all_hit - (12 - size)), min(size, all_hit) + 1):
                share, rest = Share(hit, size), Share(all_hit - hit, 12 - size)
                expected = sum(
                    comb(all_hit, x) * comb(12 - all_hit, size - x) / comb(12, size)
                    for x in range(hit, min(size, all_hit) + 1)
                )
                is_above = hit * 12 > size * all_hit
                assert chance_of(share, rest) == pytest.approx(expected if is_above else 1.0)


def test_chance_of_millions_is_a_number():
    """Where the probability is too small for a double it is 0."""
    assert 0.0 == chance_of(Share(10**6, 10**6), Share(0, 9 * 10**6))
    assert 0 < chance_of(Share(40, 10**6), Share(100, 9 * 10**6)) < 1

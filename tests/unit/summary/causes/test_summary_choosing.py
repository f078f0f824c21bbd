"""Which causes explain the hit ledgers. Most kinds of cause have a twin: hits like theirs that are
not a cause.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

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
    said,
    scattered,
    spread,
)
from support.quick_forms import few_or_all

from auditor.summary.causes.candidates import CauseKind
from auditor.summary.causes.contrast import CAUSE_LEDGERS_MIN
from auditor.summary.causes.exact_test import upper_tail
from auditor.summary.causes.hits import UNJUDGED, Hits, Via

RACKS = {f"b{n}": f"/r{(n + 1) // 2}" for n in range(1, 7)}
"""b1 and b2 are in /r1, b3 and b4 in /r2, b5 and b6 in /r3."""
SIX = spread(6, 300, seed=1).in_racks(RACKS)
SPREADS_FEW, SPREADS = 100, 300
"""Random clusters without a cause. SIGNIFICANCE allows one false cause in a thousand runs."""


def marks_naming(by_bookie: dict[str, Iterable[int]], **more: object) -> Hits:
    via = {bookie: ids(ledgers) for bookie, ledgers in by_bookie.items()}
    return Hits(
        {MARKED: ids(ledger for one in via.values() for ledger in one)}, {Via.MARKED: via}, **more
    )  # type: ignore[arg-type]


def test_nothing_hit_has_no_cause():
    """A run that found nothing has no cause."""
    assert [] == SIX.causes(Hits({}, {}))


# Evenly spread


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


def test_two_ledgers_make_no_cause():
    """A cause explains at least CAUSE_LEDGERS_MIN ledgers, however unlikely fewer hits are."""
    world = spread(50, 10_000, seed=2)
    mine = world.naming("b1")
    assert [] == world.causes(lacking(b1=mine[:2]))
    assert [] == world.causes(lacking(b1=mine[: CAUSE_LEDGERS_MIN - 1], b2=world.naming("b2")[-1:]))


def test_three_ledgers_of_a_large_bookie_are_chance():
    """b1 has hundreds of ledgers and lost entries of three of them. Three random losses may fall
    there.
    """
    world = spread(5, 1_000, seed=3)
    mine = [ledger for ledger in world.naming("b1") if ledger % 97 == 1][:3]
    assert 3 == len(mine)
    assert [] == world.causes(lacking(b1=mine))


def separate_bookies(**ledgers: int) -> World:
    """Return a world in which each bookie has this many ledgers of its own, all created at once."""
    named = [bookie for bookie, count in ledgers.items() for _ in range(count)]
    return World(
        {n: [bookie] for n, bookie in enumerate(named)}, times=dict.fromkeys(range(len(named)), 0)
    )


def test_three_ledgers_are_enough():
    """They are all the ledgers of a bookie, or all that were created in a period."""
    world = separate_bookies(b1=3, b2=997)
    assert [("bookie", "b1", 3)] == said(world.causes(lacking(b1=range(3))))
    assert [3] == [n for _, _, n in said(SIX.causes(Hits({MALFORMED: ids([100, 101, 102])}, {})))]


@pytest.mark.parametrize("family", ["entry", "metadata", "mark", "unjudged"])
@pytest.mark.parametrize("more", [False, True])
def test_the_probability_counts_every_candidate_there_is(family: str, more: bool):
    """There are six bookies, three racks and two searches for a period as candidates; for marks
    also two workers. Malformed metadata has only periods, unjudged ledgers have none. The
    candidates of another family that is hit count as well.
    """
    period, mine = ids(range(100, 110)), ids(SIX.naming("b1"))
    kinds = {"entry": BELOW, "metadata": MALFORMED, "mark": MARKED, "unjudged": "bookie_silent"}
    via = {"entry": Via.LACKING, "mark": Via.MARKED, "unjudged": Via.UNHEARD}
    hits = {name: Hits({kinds[name]: mine}, {one: {"b1": mine}}) for name, one in via.items()}
    hits["metadata"] = Hits({MALFORMED: period}, {})
    both_hits = both(hits[family], hits["metadata"]) if more else hits[family]
    seen = Hits(both_hits.by_kind, both_hits.via, locked={"w1": ids([7]), "w2": ids([8])})
    (found,) = (one.candidate for one in SIX.causes(seen) if one.candidate.family == family)
    candidates = {"entry": 11, "metadata": 2, "mark": 13, "unjudged": 9}[family] + (
        2 if more and family != "metadata" else 0
    )
    periods = 55 if family == "metadata" else 1
    one = found.contrast
    chance = upper_tail(
        one.touched_hit, one.touched, one.touched_hit + one.others_hit, one.touched + one.others
    )
    assert chance * candidates * periods == pytest.approx(one.p_value, rel=1e-9, abs=0)


def greedy(lost: dict[str, set[int]]) -> list[tuple[str, set[int]]]:
    """Choose the bookie that explains most of the ledgers left, until none explains enough. Among
    equals the first by name comes first.
    """
    left, chosen = set().union(*lost.values()), []
    while lost:
        name = min(lost, key=lambda one: (-len(lost[one] & left), one))
        own = lost.pop(name) & left
        if len(own) < CAUSE_LEDGERS_MIN:
            break
        left -= own
        chosen.append((name, own))
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
        ensembles = {n: [b for b in lost if n in lost[b]] or ["idle"] for n in range(40)} | {
            n: ["ok"] for n in range(40, 900)
        }
        world = World(ensembles, times=dict.fromkeys(range(900), 0))
        found = {
            one.candidate.subject: set(one.own.tolist()) for one in world.causes(lacking(**lost))
        }
        assert dict(greedy(dict(lost))) == found, seed


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
    assert ("bookie", "b1", len(mine)) == said([found])[0]
    one = found.candidate.contrast
    assert (len(mine), len(mine), 0) == (one.touched, one.touched_hit, one.others_hit)
    assert sum(map(len, world.ensembles.values())) - len(mine) == one.others, (
        "a ledger counts once for each other bookie"
    )


def test_one_bookie_alone_has_nothing_to_stand_out_from():
    """A cluster of one wiped bookie has no cause. The finding on the bookie reports the loss."""
    world = spread(1, 50, seed=5)
    assert [] == world.causes(lacking(b1=world.naming("b1")))


@pytest.mark.parametrize("bookies", [4, 6, 10])
def test_a_wiped_bookie_is_seen_beside_scattered_loss(bookies: int):
    """The cause has the ledgers of the wiped bookie; the scattered losses have no cause."""
    world = spread(bookies, 400, seed=6)
    others = [ledger for ledger in world.ensembles if ledger not in set(world.naming("b1"))]
    hits = both(lacking(b1=world.naming("b1")), scattered(world, others[::10], random.Random(6)))
    assert [("bookie", "b1", len(world.naming("b1")))] == said(world.causes(hits))


def test_two_wiped_bookies_do_not_hide_each_other():
    """Two of four bookies are wiped, and each is compared with the two sound ones. A ledger of both
    belongs to one of the causes.
    """
    world = spread(4, 300, seed=7)
    causes = world.causes(lacking(b1=world.naming("b1"), b2=world.naming("b2")))
    assert {"b1", "b2"} == {one.candidate.subject for one in causes}
    assert len(world.naming("b1", "b2")) == sum(len(one.own) for one in causes)
    assert [0, 0] == [one.candidate.contrast.others_hit for one in causes]


def test_a_bookie_without_ledgers_left_to_explain_is_not_a_cause():
    """Two of three bookies are wiped and every ledger names both. The first explains all of
    them.
    """
    world = spread(3, 50, seed=8)
    assert [("bookie", "b1", 50)] == said(world.causes(lacking(b1=range(50), b2=range(50))))


def test_a_bookie_that_leaves_ledgers_unjudged_is_a_cause():
    """b4 is not registered: every ledger on it has a reason and no finding."""
    world = spread(5, 60, seed=9)
    mine = world.naming("b4")
    (found,) = world.causes(Hits({"bookie_silent": ids(mine)}, {Via.UNHEARD: {"b4": ids(mine)}}))
    assert (UNJUDGED, len(mine)) == (found.candidate.family, len(found.own))


def test_what_one_bookie_does_to_two_families_is_two_causes():
    """It lacks entries of some ledgers and is named by the marks of others: findings of one cause
    share a family.
    """
    world = spread(6, 300, seed=10)
    mine = world.naming("b1")
    first, second = mine[: len(mine) // 2], mine[len(mine) // 2 :]
    causes = world.causes(both(lacking(b1=first), marks_naming({"b1": second})))
    assert {("entry", "b1", len(first)), ("mark", "b1", len(second))} == {
        (one.candidate.family, one.candidate.subject, len(one.own)) for one in causes
    }


def test_a_ledger_hit_in_two_families_belongs_to_a_cause_of_each():
    """Each ledger of the wiped bookie lacks entries on it, and has a mark that names it."""
    world = spread(5, 100, seed=11)
    mine = world.naming("b1")
    causes = world.causes(both(lacking(b1=mine), marks_naming({"b1": mine})))
    assert [("bookie", "b1", len(mine))] * 2 == said(causes)
    assert {"entry", "mark"} == {one.candidate.family for one in causes}


# Racks


def test_a_wiped_rack_is_one_cause():
    """The cause names both bookies of the rack and no other."""
    mine = SIX.naming("b1", "b2")
    (found,) = SIX.causes(lacking(b1=SIX.naming("b1"), b2=SIX.naming("b2")))
    assert ("rack", "/r1", len(mine)) == said([found])[0]
    one = found.candidate.contrast
    assert ((("b1", "b2"), len(mine), len(mine)), 0) == (
        (found.candidate.members, one.touched, one.touched_hit),
        one.others_hit,
    )


def test_bookies_of_different_racks_are_two_causes():
    """The twin of a wiped rack: no rack is a cause."""
    causes = SIX.causes(lacking(b1=SIX.naming("b1"), b3=SIX.naming("b3")))
    assert {("bookie", "b1"), ("bookie", "b3")} == {
        (kind, subject) for kind, subject, _ in said(causes)
    }


def test_a_neighbour_that_lost_little_makes_no_lost_rack():
    """b1 is wiped and b2 lost entries of three ledgers: the cause is b1, not their rack."""
    causes = SIX.causes(lacking(b1=SIX.naming("b1"), b2=SIX.naming("b2")[:3]))
    assert ("bookie", "b1", len(SIX.naming("b1"))) == said(causes)[0]
    assert CauseKind.RACK not in {one.candidate.kind for one in causes}


def test_two_wiped_bookies_make_no_lost_rack_of_five():
    """A rack is a cause where more than half of its bookies are."""
    racks = {f"b{n}": "/r1" if n <= 5 else "/r2" for n in range(1, 11)}
    world = spread(10, 400, seed=12).in_racks(racks)
    causes = world.causes(lacking(b1=world.naming("b1"), b2=world.naming("b2")))
    assert {("bookie", "b1"), ("bookie", "b2")} == {
        (kind, subject) for kind, subject, _ in said(causes)
    }


def test_where_all_bookies_are_in_one_rack_none_is_named():
    """/default-rack is not a cause: there is no other rack to compare with."""
    hits = lacking(b1=SIX.naming("b1"), b2=SIX.naming("b2"))
    for racks in (dict.fromkeys(RACKS, "/default-rack"), {}):
        assert {"bookie"} == {kind for kind, _, _ in said(SIX.in_racks(racks).causes(hits))}


@pytest.mark.parametrize(
    ("expected", "lost"),
    [
        ("rack", {"b1": 200, "b2": 50}),
        ("bookie", {"b1": 200, "b2": 49}),
        ("rack", {"b1": 100, "b2": 25}),
        ("bookie", {"b1": 100, "b2": 24}),
        ("rack", {"b1": 60, "b3": 10}),
    ],
)
def test_a_member_of_a_lost_rack_lost_a_quarter_of_the_worst_share(
    expected: str, lost: dict[str, int]
):
    """A bookie is a member if its share of hit ledgers is at least a quarter of the highest share
    in the rack. b3 has only ten ledgers, and all are hit.
    """
    rack = {"b1": 200, "b2" if "b2" in lost else "b3": 200 if "b2" in lost else 10}
    world = separate_bookies(**rack, ok=9_000).in_racks(dict.fromkeys(rack, "/r1") | {"ok": "/r2"})
    hits = lacking(**{bookie: world.naming(bookie)[:count] for bookie, count in lost.items()})
    assert expected == said(world.causes(hits))[0][0]


@pytest.mark.parametrize(("members", "wiped"), [(1, 1), (4, 2)])
def test_a_lost_rack_has_two_bookies_or_more_and_lost_most_of_them(members: int, wiped: int):
    """A rack of one bookie is reported as that bookie. Two wiped bookies of four are not most."""
    rack = {f"b{n}": 20 for n in range(members)}
    world = separate_bookies(**rack, ok=2_000).in_racks(dict.fromkeys(rack, "/r1") | {"ok": "/r2"})
    hits = lacking(**{f"b{n}": world.naming(f"b{n}") for n in range(wiped)})
    assert [("bookie", f"b{n}", 20) for n in range(wiped)] == said(world.causes(hits))


# Periods


def test_a_period_in_which_a_bug_lost_entries_is_a_cause():
    """Forty ledgers in a row, on bookies in turn; before and after them nothing is hit."""
    (found,) = SIX.causes(scattered(SIX, range(100, 140), random.Random(13)))
    when, one = found.candidate.period, found.candidate.contrast
    assert when is not None
    assert ("period", 40) == (found.candidate.kind.value, len(found.own))
    assert (100_000, 139_000) == (when.first_ms, when.last_ms)
    assert (40, 40, 260, 0) == (one.touched, one.touched_hit, one.others, one.others_hit)


def test_a_period_may_have_sound_ledgers_and_other_times_may_have_hits():
    """Four of five ledgers of the period are hit, and a few at other times. The twin, in which half
    of the period is hit, has no cause.
    """
    world = spread(6, 3_000, seed=14)
    rest = [*range(0, 1_000, 100), *range(1_300, 3_000, 100)]
    hit = [*(n for n in range(1_000, 1_300) if n % 5), *rest]
    assert [] == world.causes(scattered(world, [*range(1_000, 1_300, 2), *rest], random.Random(14)))
    (found,) = world.causes(scattered(world, hit, random.Random(14)))
    when = found.candidate.period
    assert when is not None
    assert 990_000 <= when.first_ms <= 1_010_000 and 1_290_000 <= when.last_ms <= 1_310_000


def test_ledgers_hit_at_all_times_have_no_period():
    """The twin: as many hit ledgers, each between sound ones."""
    assert [] == said(SIX.causes(scattered(SIX, range(0, 300, 7), random.Random(15))))


def test_a_period_needs_other_times_to_stand_out_from():
    """If all ledgers were created in the period, there are no others to compare them with."""
    world = spread(6, 40, seed=16)
    assert [] == said(world.causes(scattered(world, range(40), random.Random(16))))


def test_unrelated_kinds_are_not_lumped_into_a_period():
    """In one period two ledgers lack an entry, two fail placement, two have old marks and two are
    malformed: these have no cause in common. Eight malformed ledgers have one.
    """
    kinds = {
        BELOW: ids([100, 101]),
        FAILED: ids([102, 103]),
        MARKED: ids([104, 105]),
        MALFORMED: ids([106, 107]),
    }
    assert [] == SIX.causes(Hits(kinds, {}))
    assert [("period", 8)] == [
        (kind, n) for kind, _, n in said(SIX.causes(Hits({MALFORMED: ids(range(100, 108))}, {})))
    ]


def test_two_families_of_one_period_are_two_causes():
    """Each has the ledgers of its own family."""
    causes = SIX.causes(Hits({BELOW: ids(range(100, 110)), MALFORMED: ids(range(105, 120))}, {}))
    assert [("metadata", 15), ("entry", 10)] == [
        (one.candidate.family, len(one.own)) for one in causes
    ]


def test_a_bookie_is_preferred_to_a_period():
    """The ledgers of a wiped bookie were all created in one period: the cause is the bookie."""
    world = World({n: ["b2", "b3", "b1" if n >= 200 else "b4"] for n in range(230)})
    assert [("bookie", "b1", 30)] == said(world.causes(lacking(b1=range(200, 230))))


def test_a_period_is_seen_beside_a_wiped_bookie():
    """The period is searched without the ledgers that the bookie explains: they count neither as
    hit nor as sound.
    """
    world = spread(10, 600, seed=17)
    mine = world.naming("b1")
    hit = [ledger for ledger in range(300, 350) if ledger not in set(mine)]
    causes = world.causes(both(lacking(b1=mine), scattered(world, hit, random.Random(17))))
    assert [("bookie", len(mine)), ("period", len(hit))] == [
        (kind, n) for kind, _, n in said(causes)
    ]
    one = causes[1].candidate.contrast
    assert (len(hit), len(hit), 600 - len(mine) - len(hit), 0) == (
        one.touched,
        one.touched_hit,
        one.others,
        one.others_hit,
    )


def test_a_period_is_found_among_more_ledgers_than_edges():
    """More than PERIOD_EDGES_MAX ledgers are hit. The search tries only some of their times, and
    the period still has all of them.
    """
    times = {n: 10**9 + 7 * n for n in range(5_000)} | {n: 10 * n for n in range(5_000, 20_000)}
    world = World({n: ["b1"] for n in range(20_000)}, times=times)
    (found,) = world.causes(Hits({BELOW: ids(range(5_000))}, {}))
    assert (CauseKind.PERIOD, 5_000) == (found.candidate.kind, len(found.own))


def test_ledgers_left_unjudged_have_no_period():
    """They are unjudged because a bookie is silent now, not because of when they were created."""
    assert [] == SIX.causes(Hits({"bookie_silent": ids(range(100, 140))}, {}))


def test_ledgers_whose_birth_nobody_knows_have_no_period():
    """A ledger that could not be read at the first look has no time of creation."""
    assert [] == SIX.causes(Hits({MALFORMED: ids(range(1_000, 1_010))}, {}))


def test_a_bookie_with_half_of_a_period_is_preferred_to_it():
    """With exactly half of the hit ledgers b1 is a cause, and the others are a period of their
    own.
    """
    world = World({n: ["b1" if n in range(400, 410) else f"b{2 + n % 5}"] for n in range(900)})
    hit = {f"b{n}": [one for one in range(410, 420) if one % 5 + 2 == n] for n in range(2, 7)}
    causes = world.causes(lacking(b1=range(400, 410), **hit))
    assert [("bookie", 10), ("period", 10)] == [(kind, n) for kind, _, n in said(causes)]


def test_a_period_may_explain_more_than_a_small_bookie_of_it():
    """b1 was wiped and its ledgers are set apart. b2 has less than half of the rest, which are a
    period.
    """
    young = range(400, 430)
    ensembles = {
        n: ["b1" if n % 9 == 0 else "b2" if n in young else f"b{3 + n % 7}"] for n in range(1_200)
    }
    world = World(ensembles)
    hit = {
        f"b{n}": [one for one in range(400, 480) if ensembles[one] == [f"b{n}"]]
        for n in range(2, 10)
    }
    causes = world.causes(lacking(b1=world.naming("b1"), **hit))
    assert [("bookie", len(world.naming("b1"))), ("period", sum(map(len, hit.values())))] == [
        (kind, n) for kind, _, n in said(causes)
    ]


# Recovery


@pytest.mark.parametrize("all_marked", [False, True])
def test_disabled_auto_recovery_is_why_marks_stand(all_marked: bool):
    """It needs no contrast: it is a cause even if every ledger is marked. Enabled auto-recovery
    explains nothing.
    """
    world = spread(5, 4 if all_marked else 100, seed=18)
    hits = Hits({MARKED: ids(range(4))}, {}, marked=4)
    (found,) = world.causes(hits, disabled=True)
    assert ("autorecovery", "disabled", 4) == said([found])[0]
    assert (4, 4, None) == (
        found.candidate.contrast.touched,
        found.candidate.contrast.touched_hit,
        found.candidate.contrast.p_value,
    )
    assert (0, 0 if all_marked else 96) == (
        found.candidate.contrast.others_hit,
        found.candidate.contrast.others,
    )
    assert "autorecovery" not in {kind for kind, _, _ in said(world.causes(hits))}


def test_disabled_auto_recovery_explains_marks_alone():
    """It does not explain lost entries."""
    assert [] == SIX.causes(scattered(SIX, range(0, 300, 7), random.Random(19)), disabled=True)


def test_a_worker_that_keeps_its_locks_is_why_marks_stand():
    """w1 locks only ledgers with old marks. w2 locks one of them and 28 others, and is not a
    cause.
    """
    hit = range(0, 300, 30)
    hits = Hits(
        {MARKED: ids(hit)}, {}, locked={"w1": ids(hit), "w2": ids([30, *range(1, 29)])}, marked=38
    )
    assert [("worker", "w1", 10)] == said(SIX.causes(hits))


def test_each_worker_needs_a_contrast_of_its_own():
    """w1 locks only ledgers with old marks. w2 locks four of them and twenty with newer marks, and
    is not a cause.
    """
    one, other = range(0, 300, 30), [5, 15, 25, 35]
    locked = {"w1": ids(one), "w2": ids([*other, *range(100, 120)])}
    hits = Hits({MARKED: ids([*one, *other])}, {}, locked=locked, marked=40)
    assert [("worker", "w1", 10)] == said(SIX.causes(hits))


# Placement


def placement_hits(
    ledgers: Iterable[int], by_bookie: dict[str, Iterable[int]], crowds: dict[str, Iterable[int]]
) -> Hits:
    return Hits(
        {FAILED: ids(ledgers)},
        {Via.MISPLACED: {bookie: ids(one) for bookie, one in by_bookie.items()}},
        crowds={rack: ids(one) for rack, one in crowds.items()},
    )


def test_the_rack_that_fails_placement_is_the_cause():
    """Only ledgers with both bookies of /r1 fail. The twin, in which ledgers with both bookies of
    any rack fail, has no cause.
    """
    crowd = {
        rack: [
            n for n, e in SIX.ensembles.items() if {b for b in RACKS if RACKS[b] == rack} <= set(e)
        ]
        for rack in RACKS.values()
    }
    one = crowd["/r1"]
    hits = placement_hits(one, {b: set(one) & set(SIX.naming(b)) for b in RACKS}, {"/r1": one})
    assert ("rack", "/r1", len(one)) == said(SIX.causes(hits))[0]
    every = [ledger for some in crowd.values() for ledger in some]
    assert [] == said(
        SIX.causes(
            placement_hits(every, {b: set(every) & set(SIX.naming(b)) for b in RACKS}, crowd)
        )
    )


def test_the_bookie_that_every_failing_ledger_names_is_the_cause():
    """Its rack is configured wrongly. It is the only cause, though in a small cluster each other
    bookie is in many failing ledgers too.
    """
    mine = SIX.naming("b2")
    hits = placement_hits(mine, {b: set(mine) & set(SIX.naming(b)) for b in RACKS}, {})
    assert [("bookie", "b2", len(mine))] == said(SIX.causes(hits))


def test_causes_and_their_ledgers_are_the_same_whatever_the_order():
    """Causes with equal counts are sorted: two runs over the same evidence agree."""
    world = World({n: [f"b{n % 9}"] for n in range(900)})
    lost = {f"b{n}": world.naming(f"b{n}")[::2] for n in (5, 1, 3)}
    one, other = (
        world.causes(lacking(**dict(items)))
        for items in (list(lost.items()), list(lost.items())[::-1])
    )
    assert said(one) == said(other) == [("bookie", b, 50) for b in ("b1", "b3", "b5")]


def test_what_fails_placement_is_compared_with_all_that_it_touches():
    """The contrast of a bookie counts all its ledgers, failing or not; that of a rack all ledgers
    of its bookies.
    """
    mine = SIX.naming("b2")
    hit = [ledger for ledger in mine if ledger % 10]
    (found,) = SIX.causes(placement_hits(hit, {"b2": hit}, {}))
    one = found.candidate.contrast
    assert (len(hit), len(mine), 0, 300 - len(mine)) == (
        one.touched_hit,
        one.touched,
        one.others_hit,
        one.others,
    )
    rack = SIX.naming("b1", "b2")
    (found,) = SIX.causes(placement_hits(rack[:90], {}, {"/r1": rack[:90]}))
    one = found.candidate.contrast
    others = sum(len(SIX.naming(*two)) for two in (("b3", "b4"), ("b5", "b6")))
    assert (90, len(rack), 0, others) == (one.touched_hit, one.touched, one.others_hit, one.others)

"""What explains most of the ledgers that are hit: each kind of cause alone, and beside the twin that is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from auditor.accounting.causes import CauseKind, Chosen, Hits, Via, choose
from auditor.accounting.last_words import Ids
from auditor.accounting.periods import PERIOD_LEDGERS_MIN, Births
from auditor.model.finding import Kind

BELOW, MARKED = Kind.ENTRY_BELOW_WRITE_QUORUM.value, Kind.UNDERREPLICATED_BEYOND_GRACE.value
RACKS = {"b1": "/r1", "b2": "/r1", "b3": "/r2", "b4": "/r2", "b5": "/r3", "b6": "/r3"}
HOUR_MS = 3_600_000
OLD = range(1_000, 2_000)
"""Ledgers that nothing hits."""


def ids(ledgers: Iterable[int]) -> Ids:
    return np.unique(np.fromiter(ledgers, np.int64))


def lacking(**ledgers: Iterable[int]) -> Hits:
    """Bookies that lack entries of these ledgers, each a finding."""
    via = {bookie: ids(one) for bookie, one in ledgers.items()}
    return Hits({BELOW: ids(ledger for one in via.values() for ledger in one)}, {Via.LACKING: via})


def chosen(
    hits: Hits, born_at_ms: Mapping[int, int] | None = None, locations: Mapping[str, str] | None = None, disabled: bool = False
) -> list[Chosen]:
    """What is chosen where `born_at_ms` are the creation times of all ledgers there are; by default none is known."""
    times = born_at_ms or {}
    every = np.sort(np.fromiter(times.values(), np.int64))
    affected = [ledger for ledger in hits.affected().tolist() if ledger in times]
    births = Births(np.array(affected, np.int64), np.array([times[ledger] for ledger in affected], np.int64))

    def all_in(edges: Ids) -> Ids:
        return np.diff(np.searchsorted(every, edges, side="left"), prepend=0, append=len(every))

    return choose(hits, RACKS if locations is None else locations, births, all_in, replication_disabled=disabled)


def said(causes: list[Chosen]) -> list[tuple[CauseKind, str, int]]:
    return [(one.candidate.kind, one.candidate.subject, len(one.own)) for one in causes]


def scattered(ledgers: Iterable[int], bookies: str = "b1 b3 b5") -> Hits:
    """Each ledger lacks an entry on another bookie, in turn: no bookie explains half of them."""
    names = bookies.split()
    hit: dict[str, list[int]] = {name: [] for name in names}
    for place, ledger in enumerate(ledgers):
        hit[names[place % len(names)]].append(ledger)
    return lacking(**hit)


def test_nothing_hit_has_no_cause():
    """A sound run."""
    assert [] == chosen(Hits({}, {}))


def test_one_bookie_behind_many_ledgers_is_one_cause():
    """However many they are; the ledger that another bookie lost an entry of is none of its own, nor a cause by itself."""
    hits = lacking(b1=range(40), b3=[100])
    assert [(CauseKind.BOOKIE, "b1", 40)] == said(chosen(hits))


def test_two_ledgers_make_a_cause_and_one_does_not():
    """What explains one ledger is that ledger's finding."""
    assert [(CauseKind.BOOKIE, "b1", 2)] == said(chosen(lacking(b1=[1, 2], b3=[7])))


def test_a_ledger_belongs_to_the_cause_that_explains_most():
    """A ledger that two bookies hit is counted once, and the weaker cause knows how many it would explain."""
    first, second = chosen(lacking(b1=range(10), b3=range(8, 14)))
    assert [(CauseKind.BOOKIE, "b1", 10), (CauseKind.BOOKIE, "b3", 4)] == said([first, second])
    assert 6 == len(second.candidate.ledgers)
    assert [10, 11, 12, 13] == second.own.tolist()


def test_a_cause_whose_ledgers_are_all_explained_is_none():
    """It would say nothing that was not said."""
    assert [(CauseKind.BOOKIE, "b1", 10)] == said(chosen(lacking(b1=range(10), b3=range(5))))


def test_a_bookie_is_a_cause_by_silence_and_by_marks():
    """Ledgers that it leaves unjudged, ledgers whose mark names it, ledgers it lacks entries of: one bookie, one cause."""
    via: dict[Via, Any] = {Via.LACKING: {"b1": ids([1])}, Via.UNHEARD: {"b1": ids([2, 3])}, Via.MARKED: {"b1": ids([4])}}
    hits = Hits({BELOW: ids([1]), "bookie_silent": ids([2, 3]), MARKED: ids([4])}, via)
    assert [(CauseKind.BOOKIE, "b1", 4)] == said(chosen(hits))


def test_a_rack_whose_bookies_are_causes_is_one_cause():
    """Both bookies of /r1, and nobody else."""
    (found,) = chosen(lacking(b1=range(20), b2=range(15, 30)))
    assert (CauseKind.RACK, "/r1", ("b1", "b2"), 30) == (
        found.candidate.kind, found.candidate.subject, found.candidate.members, len(found.own),
    )  # fmt: skip


def test_bookies_of_different_racks_are_two_causes():
    """The twin of a lost rack."""
    causes = said(chosen(lacking(b1=range(20), b3=range(20, 35))))
    assert [(CauseKind.BOOKIE, "b1", 20), (CauseKind.BOOKIE, "b3", 15)] == causes


def test_a_neighbour_that_lost_little_makes_no_lost_rack():
    """A wiped bookie stays a wiped bookie."""
    causes = said(chosen(lacking(b1=range(20), b2=range(20, 23))))
    assert [(CauseKind.BOOKIE, "b1", 20), (CauseKind.BOOKIE, "b2", 3)] == causes


def test_loss_in_all_racks_alike_is_no_racks_fault():
    """Entries lost at random hit each bookie: no rack stands out."""
    hits = lacking(**{bookie: range(10 * n, 10 * n + 10) for n, bookie in enumerate(RACKS)})
    assert {CauseKind.BOOKIE} == {kind for kind, _, _ in said(chosen(hits))}


def test_where_all_bookies_are_in_one_rack_none_is_told():
    """/default-rack says nothing: there is no other to compare with."""
    hits = lacking(b1=range(20), b2=range(20, 40))
    one_rack = dict.fromkeys(RACKS, "/default-rack")
    assert {CauseKind.BOOKIE} == {kind for kind, _, _ in said(chosen(hits, locations=one_rack))}
    assert {CauseKind.BOOKIE} == {kind for kind, _, _ in said(chosen(hits, locations={}))}


def test_a_creation_period_in_which_most_are_hit_is_a_cause():
    """Twelve ledgers of two hours, on bookies in turn; before and after them nothing is hit."""
    hits = scattered(range(12))
    times = {ledger: 10_000 * HOUR_MS + ledger * 600_000 for ledger in range(12)} | {n: n * HOUR_MS for n in OLD}
    (found,) = chosen(hits, times)
    assert (CauseKind.PERIOD, 12) == (found.candidate.kind, len(found.own))
    when = found.candidate.period
    assert when is not None
    expected = (10_000 * HOUR_MS, 10_000 * HOUR_MS + 11 * 600_000, 12, 12, 1_000, 0)
    assert expected == (when.first_ms, when.last_ms, when.created, when.hit, when.others, when.others_hit)


def test_ledgers_hit_at_all_times_have_no_period():
    """The twin: as many ledgers, each between others that are sound."""
    hits = scattered(range(12))
    times = {ledger: 83 * ledger * HOUR_MS + 1 for ledger in range(12)} | {n: (n - 1_000) * HOUR_MS for n in OLD}
    assert {CauseKind.BOOKIE} == {kind for kind, _, _ in said(chosen(hits, times))}


def test_a_period_in_which_most_are_sound_is_none():
    """Close together, but three in four of that time are well."""
    hits = scattered(range(12))
    times = {ledger: ledger for ledger in range(12)} | {n: (n - 1_000) % 12 for n in range(1_000, 1_036)}
    times |= {n: n * HOUR_MS for n in range(2_000, 3_000)}
    assert {CauseKind.BOOKIE} == {kind for kind, _, _ in said(chosen(hits, times))}


def test_a_period_needs_other_times_to_stand_out_from():
    """All ledgers there are were created in it: that says nothing."""
    assert {CauseKind.BOOKIE} == {kind for kind, _, _ in said(chosen(scattered(range(12)), {n: n for n in range(12)}))}


def test_a_few_neighbours_are_chance():
    """One ledger fewer than it takes."""
    few = range(PERIOD_LEDGERS_MIN - 1)
    times = {ledger: ledger for ledger in few} | {n: n * HOUR_MS for n in OLD}
    assert CauseKind.PERIOD not in {kind for kind, _, _ in said(chosen(scattered(few), times))}


def test_a_bookie_is_a_plainer_reason_than_a_period():
    """A bookie that was wiped when it was young has ledgers of one period: it is the bookie."""
    times = {ledger: ledger for ledger in range(13)} | {n: n * HOUR_MS for n in OLD}
    assert [(CauseKind.BOOKIE, "b1", 12)] == said(chosen(lacking(b1=range(12), b3=[12]), times))


def test_a_period_is_seen_beside_a_wiped_bookie():
    """What the bookie does not explain is looked at by itself."""
    hits = lacking(b1=range(100, 140), **{b: range(n, 12, 3) for n, b in enumerate(("b3", "b5", "b6"))})
    times = {ledger: 10_000 * HOUR_MS + ledger for ledger in range(12)} | {n: n * HOUR_MS for n in (*OLD, *range(100, 140))}
    assert [(CauseKind.BOOKIE, 40), (CauseKind.PERIOD, 12)] == [(kind, count) for kind, _, count in said(chosen(hits, times))]


def test_a_period_is_found_among_more_ledgers_than_edges():
    """Many thousand ledgers of one night, thinned out for the search, and none is left behind."""
    hits = scattered(range(5_000), "b1 b3 b5")
    times = {ledger: 10**9 + ledger * 7 for ledger in range(5_000)} | {n: n * 10 for n in range(5_000, 20_000)}
    (found,) = chosen(hits, times)
    assert (CauseKind.PERIOD, 5_000) == (found.candidate.kind, len(found.own))


def test_disabled_auto_recovery_is_why_marks_stand():
    """Marks that no bookie explains; enabled, it explains nothing."""
    hits = Hits({MARKED: ids(range(4))}, {})
    assert [(CauseKind.AUTORECOVERY, "disabled", 4)] == said(chosen(hits, disabled=True))
    assert [] == said(chosen(hits))


def test_a_worker_that_sits_on_its_locks_is_why_marks_stand():
    """By the holder of the lock; a bookie that the marks name goes first."""
    hits = Hits({MARKED: ids(range(6))}, {Via.MARKED: {"b1": ids([0, 1])}}, locked={"w1": ids(range(5)), "w2": ids([5])})
    assert [(CauseKind.WORKER, "w1", 3), (CauseKind.BOOKIE, "b1", 2)] == said(chosen(hits))


def test_the_rack_that_fails_placement_is_the_cause():
    """The rack that every failing segment crowds; as a bookie, where it is one bookie that all have in common."""
    failing = ids(range(10))
    by_kind = {Kind.PLACEMENT_FAILED.value: failing}
    assert [(CauseKind.RACK, "/r1", 10)] == said(chosen(Hits(by_kind, {}, crowded=("/r1", failing))))
    assert [(CauseKind.BOOKIE, "b2", 10)] == said(chosen(Hits(by_kind, {Via.MISPLACED: {"b2": failing}})))


def test_causes_and_their_ledgers_are_the_same_whatever_the_order():
    """Equal counts are told in one order, so that two runs over the same evidence agree."""
    one = lacking(b5=[5, 6], b1=[1, 2], b3=[3, 4])
    other = lacking(b3=[3, 4], b5=[5, 6], b1=[1, 2])
    assert said(chosen(one)) == said(chosen(other)) == [(CauseKind.BOOKIE, b, 2) for b in ("b1", "b3", "b5")]

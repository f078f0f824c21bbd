"""A cause in its outside form: numbers that add up, a sentence for a person, an id that stays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from auditor.accounting.cause_rows import Backdrop, Causes, cause_id, told
from auditor.accounting.causes import CAUSES_MAX, AllIn, CauseKind, Hits, Via, choose
from auditor.accounting.last_words import Ids
from auditor.accounting.periods import Births
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.finding import Kind

FACTS = ClusterFacts("zk://h/ledgers", ("h",), "/ledgers", "hierarchical", "inst", False, None)
BELOW, MARKED = Kind.ENTRY_BELOW_WRITE_QUORUM.value, Kind.UNDERREPLICATED_BEYOND_GRACE.value
RACKS = {"b1": "/r1", "b2": "/r1", "b3": "/r2", "b4": "/r2"}


def ids(ledgers: Iterable[int]) -> Ids:
    return np.unique(np.fromiter(ledgers, np.int64))


def uncounted(edges: Ids) -> Ids:
    return np.zeros(len(edges) + 1, np.int64)


def outside(
    hits: Hits,
    *,
    greeting: Greeting | None = Greeting.ANSWERED,
    registration: Registration = Registration.WRITABLE,
    asked: int = 0,
    away: bool = False,
    born: dict[int, int] | None = None,
    all_in: AllIn = uncounted,
    disabled: bool = False,
) -> Causes:
    """What is told of b1 and its like."""
    times = born or {}
    births = Births(ids(times), np.array([times[i] for i in sorted(times)], np.int64))
    chosen = choose(hits, RACKS, births, all_in, replication_disabled=disabled)
    bookies = {b: BookieRecord(b, 2, 0, registration, "h", 1, greeting=greeting) for b in RACKS}
    return told(chosen, hits, Backdrop(FACTS, bookies, {"b1": asked}, frozenset({"b1"} if away else ())))


def says(hits: Hits, **more: Any) -> list[str]:
    return [row["says"] for row in outside(hits, **more).rows]


def lacking(**ledgers: Iterable[int]) -> Hits:
    via = {bookie: ids(one) for bookie, one in ledgers.items()}
    return Hits({BELOW: ids(ledger for one in via.values() for ledger in one)}, {Via.LACKING: via})


def test_every_affected_ledger_is_counted_once():
    """Those of the causes, those of the causes beyond, and those without a cause are all there are."""
    hits = lacking(**{f"b{n:02}": range(10 * n, 10 * n + 3) for n in range(CAUSES_MAX + 2)}, alone=[999])
    causes = outside(hits)
    assert (CAUSES_MAX, {"causes": 2, "ledgers": 6}, 1) == (len(causes.rows), causes.rest, causes.unexplained)
    assert 3 * CAUSES_MAX == sum(row["ledgers"] for row in causes.rows)
    assert [row["ledgers"] for row in causes.rows] == [len(causes.files[row["file"]]) for row in causes.rows]


def test_kinds_and_share_are_those_of_its_own_ledgers():
    """Ledgers that a stronger cause explains are not told twice."""
    hits = Hits({BELOW: ids(range(6)), MARKED: ids(range(4, 8))}, {Via.LACKING: {"b1": ids(range(6)), "b3": ids(range(5, 8))}})
    first, second = outside(hits).rows
    assert ({BELOW: 6, MARKED: 2}, 0.75) == (first["kinds"], first["share"])
    assert ({MARKED: 2}, 0.25) == (second["kinds"], second["share"])
    assert second["says"].endswith("lacks entries of 3 ledgers (1 of them belongs to a stronger cause)")


def test_a_file_holds_its_ledgers_ascending():
    """Named by place, sort and subject; the subject harmless."""
    causes = outside(lacking(b1=[9, 3, 7]))
    assert {"causes/01-bookie-b1.txt": [3, 7, 9]} == {name: one.tolist() for name, one in causes.files.items()}


@pytest.mark.parametrize(
    ("expected", "more"),
    [
        ("bookie b1 answers and lacks entries of 98 ledgers (98 % of its ledgers)", {"asked": 100}),
        ("bookie b1 answers and lacks entries of 98 ledgers (98 % of its ledgers)", {"asked": 99}),
        ("bookie b1 answers and lacks entries of 98 ledgers", {"asked": 10_000}),
        ("bookie b1 is registered and silent and lacks entries of 98 ledgers", {"greeting": Greeting.SILENT}),
        ("bookie b1 is not registered and lacks entries of 98 ledgers", {"registration": Registration.NONE}),
        ("bookie b1, in planned maintenance, answers and lacks entries of 98 ledgers", {"away": True}),
        ("bookie b1 lacks entries of 98 ledgers", {"greeting": None}),
    ],
)
def test_a_bookie_is_told_as_it_was_last_seen(expected: str, more: dict[str, Any]):
    """Whether it answers decides what a person does next."""
    assert [expected] == says(lacking(b1=range(98)), **more)


def test_a_bookie_is_told_by_all_it_does():
    """What it lacks, what it leaves unjudged, whose marks name it."""
    via = {Via.UNHEARD: {"b1": ids([2, 3])}, Via.MARKED: {"b1": ids([4])}}
    hits = Hits({"bookie_silent": ids([2, 3]), MARKED: ids([4])}, via)
    expected = "bookie b1 is not registered and leaves 2 ledgers unjudged and is named missing by the marks of 1 ledger"
    assert [expected] == says(hits, registration=Registration.NONE)


def test_a_rack_is_told_with_its_bookies():
    """Which of them, and what they lack together."""
    assert ["rack /r1: its bookies b1, b2 lack entries of 8 ledgers"] == says(lacking(b1=range(5), b2=range(3, 8)))


def test_a_period_is_told_with_what_is_outside():
    """How many were created then, and how few are hit of all others."""
    via = {Via.LACKING: {"b1": ids([0, 3]), "b3": ids([1, 4]), "b9": ids([2, 5])}}
    hits = Hits({BELOW: ids(range(6))}, via)
    expected = (
        "ledgers created from 1970-01-01T00:00:00.000Z to 1970-01-01T00:00:05.000Z: 6 of 6 are hit, and 0 of the 90 created "
        "at other times"
    )

    def all_in(edges: Ids) -> Ids:
        return np.diff(np.searchsorted(np.arange(96) * 1_000, edges), prepend=0, append=96)

    assert [expected] == says(hits, born={n: n * 1_000 for n in range(6)}, all_in=all_in)


def test_marks_that_wait_are_told_with_what_they_wait_for():
    """Auto-recovery, or a worker that holds their locks."""
    hits = Hits({MARKED: ids([1, 2])}, {}, locked={"w1": ids([1, 2])})
    assert ["auto-recovery is disabled: the marks of 2 ledgers wait for it"] == says(hits, disabled=True)
    assert ["replication worker w1 holds the locks of 2 ledgers whose marks are too old"] == says(hits)


def test_an_id_is_that_of_the_cluster_and_the_cause():
    """The same over runs, whatever the numbers; another cluster or bookie has another."""
    first, again = (outside(lacking(b1=range(n))).rows[0]["id"] for n in (5, 50))
    assert first == again == cause_id(CauseKind.BOOKIE, "b1", FACTS)
    assert first != cause_id(CauseKind.BOOKIE, "b2", FACTS) != cause_id(CauseKind.RACK, "b2", FACTS)

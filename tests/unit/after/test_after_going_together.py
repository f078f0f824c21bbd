"""Which bookies can go together: what is proposed can go, and is always the same."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from auditor.after import going_together
from auditor.after.going_together import propose

BOOKIES = [f"b{number}" for number in range(1, 8)]
RACKS = {bookie: f"/r{number % 3}" for number, bookie in enumerate(BOOKIES)}


def test_the_bookies_of_one_rack_go_together():
    """Only they share no ledger. The first location is not the right one."""
    wanted = frozenset(bookie for bookie in BOOKIES if RACKS[bookie] == "/r2")
    assert ("b3", "b6") == propose(BOOKIES, RACKS, 5, lambda chosen: chosen <= wanted)
    assert ("b3",) == propose(BOOKIES, RACKS, 1, lambda chosen: chosen <= wanted)


def test_without_locations_the_ids_decide():
    """The first bookie is b1, and b2 conflicts with it."""
    bad = frozenset({"b1", "b2"})
    assert ("b1", "b3") == propose(BOOKIES[:3], {}, 3, lambda chosen: not bad <= chosen)


@pytest.mark.parametrize("seed", range(20))
def test_every_proposed_set_can_go_and_none_can_be_added(seed: int):
    """Pairs conflict at random. The set is no larger than the largest, and one bookie is found
    whenever one can go.
    """
    print("seed", seed)
    draw = random.Random(seed)
    pairs = [frozenset(pair) for pair in combinations(BOOKIES, 2) if draw.random() < 0.5]
    alone = {bookie for bookie in BOOKIES if draw.random() < 0.8}

    def can_go(chosen: frozenset[str]) -> bool:
        return chosen <= alone and not any(pair <= chosen for pair in pairs)

    found = propose(BOOKIES, RACKS, 4, can_go)
    assert can_go(frozenset(found)) and len(found) <= 4
    assert bool(found) == bool(alone)
    assert found == propose(list(reversed(BOOKIES)), RACKS, 4, can_go)
    if len(found) < 4:
        more = (frozenset({*found, bookie}) for bookie in BOOKIES if bookie not in found)
        assert not any(can_go(larger) for larger in more)


def test_the_effort_is_bounded(monkeypatch: pytest.MonkeyPatch):
    """After TRIALS_MAX sets the best one so far is proposed. Each bookie is tried once in any
    case: that none can go is never said of bookies that were not tried.
    """
    monkeypatch.setattr(going_together, "TRIALS_MAX", 3)
    tried: list[frozenset[str]] = []

    def can_go(chosen: frozenset[str]) -> bool:
        tried.append(chosen)
        return chosen == {"b7"}

    assert ("b7",) == propose(BOOKIES, {}, 2, can_go)
    assert [frozenset({bookie}) for bookie in BOOKIES] == tried

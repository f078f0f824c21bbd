"""The worst entry in closed form, against a count of each entry."""

import random

from auditor.first_checker.coverage import Worst, levels, worst_entry
from auditor.first_checker.entry_set import EMPTY, EntrySet


def some(draw: random.Random) -> tuple[EntrySet, set[int]]:
    """Return a few of forty entries, as both kinds of set."""
    plain = {e for e in range(40) if draw.random() < draw.choice((0.05, 0.3, 0.8))}
    return EntrySet.of_entries(plain), plain


def test_levels_count_in_how_many_sets_an_entry_lies() -> None:
    """levels(sets)[n-1] holds exactly the entries that are in at least n sets; the last level is
    not empty.
    """
    for seed in range(100):
        draw = random.Random(seed)
        pairs = [some(draw) for _ in range(draw.randint(0, 6))]
        found = levels(made for made, _ in pairs)
        depth = [sum(e in plain for _, plain in pairs) for e in range(40)]
        assert max(depth) == len(found), f"seed {seed}"
        for n, level in enumerate(found, 1):
            assert {e for e in range(40) if depth[e] >= n} == {
                e for e in range(40) if e in level
            }, f"seed {seed}"


def test_the_worst_entry_is_the_one_counting_finds() -> None:
    """The worst entry lost a copy, and has the fewest possible copies, then the fewest confirmed
    ones, then the lowest id.
    """
    for seed in range(200):
        draw = random.Random(seed)
        write = draw.randint(1, 5)
        bookies = [(some(draw), some(draw)) for _ in range(write)]
        lost = [absent for (absent, _), _ in bookies]
        unknown = [maybe - absent for (absent, _), (maybe, _) in bookies]
        order = []
        for e in range(40):
            gone = sum(e in plain for (_, plain), _ in bookies)
            maybe = sum(e in both and e not in plain for (_, plain), (_, both) in bookies)
            if gone:
                order.append(Worst(write - gone, write - gone - maybe, e))
        assert min(order, default=None) == worst_entry(levels(lost), unknown, write), f"seed {seed}"


def test_where_nothing_is_lost_nothing_is_worst() -> None:
    """Unknown copies alone give no worst entry."""
    assert worst_entry(levels([EMPTY, EMPTY]), [EntrySet.span(0, 9)], 3) is None

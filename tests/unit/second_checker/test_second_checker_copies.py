"""The second checker's counts: copies of each entry, what each bookie lacks, and the worst
entry.
"""

from __future__ import annotations

from random import Random

import pytest
from support.entry_words import numbers_of

from auditor.model.finding import RANGES_MAX
from auditor.sandbox.cluster import ledger
from auditor.second_checker.blocks import Block, stretches
from auditor.second_checker.copies import Entries, Worst, tally
from auditor.second_checker.holdings import ABSENT, HELD, UNKNOWN
from auditor.second_checker.holdings import Testimony as Said

FIRST, SECOND = stretches(ledger("e3 w2 a2 0:[b1 b2 b3] 40:[b4 b2 b3] closed 79"))
(PAIR,) = stretches(ledger("e2 w2 a2 0:[b1 b2] closed 9999"))


def runs(entries: list[int]) -> tuple[tuple[int, int], ...]:
    """Return the maximal runs of some entries: for each entry, check whether its neighbours are in
    the set.
    """
    firsts = [entry for entry in entries if entry - 1 not in entries]
    return tuple(zip(firsts, [entry for entry in entries if entry + 1 not in entries], strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_copies_are_counted_entry_by_entry(seed: int) -> None:
    """Any words of any bookies, in blocks of one entry and of many, agree with a count of each
    entry alone.
    """
    draw = Random(seed)
    words = {
        b: {entry: draw.choice((HELD, ABSENT, UNKNOWN)) for entry in range(80)}
        for b in ("b1", "b2", "b3", "b4")
    }
    low = draw.randint(0, 37)
    chosen = [
        Block(FIRST, low, low + 1),
        Block(FIRST, 39, 39),
        Block(SECOND, 40, draw.randint(40, 50)),
        Block(SECOND, 60, 79),
    ]
    found = tally(
        chosen,
        {b: Said(UNKNOWN, by_entry=said) for b, said in words.items()},
        is_whole=bool(seed % 2),
    )
    looked = {
        e: block.stretch.bookies_of(e) for block in chosen for e in range(block.low, block.high + 1)
    }
    possible = {e: sum(words[b][e] != ABSENT for b in bookies) for e, bookies in looked.items()}
    confirmed = {e: sum(words[b][e] == HELD for b in bookies) for e, bookies in looked.items()}
    blocks = {e: block for e in range(82) if (block := found.block_of(e)) is not None}
    assert possible == {e: block.possible.at(e - block.block.low) for e, block in blocks.items()}
    assert list(confirmed.values()) == [
        number for one in found.block_counts for number in numbers_of(one.confirmed)
    ]
    worst = min(looked, key=lambda e: (possible[e], confirmed[e], e))
    assert (
        Worst(possible[worst], confirmed[worst], worst, FIRST if worst < 40 else SECOND)
        == found.worst()
    )
    for copies in range(3):
        few = [e for e in looked if possible[e] <= copies]
        assert Entries(runs(few), len(few)) == found.with_at_most(copies)
    mine = {b: [e for e in looked if b in looked[e]] for b in words}
    assert {b: len(its_own) for b, its_own in mine.items() if its_own} == {
        b: n for b, n in found.expected.items() if n
    }
    assert found.held == {b: sum(words[b][e] == HELD for e in mine[b]) for b in found.expected}
    lacks = {b: [e for e in its_own if words[b][e] == ABSENT] for b, its_own in mine.items()}
    assert {
        b: Entries(runs(its_own), len(its_own)) for b, its_own in lacks.items() if its_own
    } == found.absent
    assert {
        b for b, its_own in mine.items() if UNKNOWN in (words[b][e] for e in its_own)
    } == found.unknown_on


def test_of_entries_with_few_copies_the_first_ranges_are_kept() -> None:
    """Two bookies lack them in turn, so no single bookie lacks all of them."""
    said = {
        b: Said(HELD, by_entry=dict.fromkeys(range(first, 2000, 4), ABSENT))
        for b, first in (("b1", 1), ("b2", 3))
    }
    found = tally([Block(PAIR, 0, 9999)], said, is_whole=True).with_at_most(1)
    kept = tuple((entry, entry) for entry in range(1, 2 * RANGES_MAX + 3, 2))
    assert Entries(kept, 1000) == found

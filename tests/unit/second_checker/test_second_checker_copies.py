"""The second checker's counts: copies of each entry, what each bookie lacks, and the worst
entry.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from support.entry_words import bits_of, numbers_of

from auditor.model.finding import RANGES_MAX
from auditor.sandbox.notation import ledger
from auditor.second_checker.blocks import BitCounts, Block, all_bits
from auditor.second_checker.copies import BlockCount, Entries, Tally, Worst, tally, written_to
from auditor.second_checker.holdings import ABSENT, HELD, UNKNOWN
from auditor.second_checker.holdings import Testimony as Said
from auditor.second_checker.schedule import stretches

FIRST, SECOND = stretches(ledger("e3 w2 a2 0:[b1 b2 b3] 40:[b4 b2 b3] closed 79"))
(PAIR,) = stretches(ledger("e2 w2 a2 0:[b1 b2] closed 9999"))


def runs(entries: list[int]) -> tuple[tuple[int, int], ...]:
    """Return the maximal runs of some entries: for each entry, check whether its neighbours are in
    the set.
    """
    firsts = [entry for entry in entries if entry - 1 not in entries]
    return tuple(zip(firsts, [entry for entry in entries if entry + 1 not in entries], strict=True))


def lacking(block: Block, *entries: int) -> Tally:
    """Return the tally of one block of PAIR in which b1 lacks these entries."""
    said = {"b1": Said(HELD, by_entry=dict.fromkeys(entries, ABSENT)), "b2": Said(HELD)}
    return tally([block], said, is_whole=True)


def counts_of(numbers: list[int]) -> BitCounts:
    """Return these numbers, one for each entry of a block."""
    sets = (
        bits_of([at for at, number in enumerate(numbers) if number > copies])
        for copies in range(max(numbers))
    )
    return BitCounts.of(all_bits(len(numbers)), sets)


@pytest.mark.parametrize("block", [Block(FIRST, 5, 5), Block(FIRST, 7, 8), Block(SECOND, 41, 79)])
def test_every_entry_of_a_block_was_written_to_its_write_set(block: Block) -> None:
    """This holds for a block of one entry, of two, and of many rounds; a bookie may have no entry
    in it.
    """
    looked = range(block.low, block.high + 1)
    assert {
        bookie: (bits_of(mine), len(mine))
        for bookie in block.stretch.ensemble
        for mine in [[e - block.low for e in looked if bookie in block.stretch.bookies_of(e)]]
    } == written_to(block)


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


def test_possible_copies_on_bookies_that_are_there_are_in_reach() -> None:
    """The copies of each entry are counted: two, one on a bookie that is away, and one on a bookie
    that is gone.
    """
    said = {
        "b1": Said(HELD, by_entry={1: ABSENT}),
        "b2": Said(HELD, by_entry={1: ABSENT, 2: ABSENT}),
    }
    all_there = tally([Block(PAIR, 0, 2)], said, is_whole=True).block_counts[0]
    one_away = tally(
        [Block(PAIR, 0, 2)], {**said, "b2": replace(said["b2"], is_away=True)}, is_whole=True
    ).block_counts[0]
    assert ([2, 0, 1], [1, 0, 1]) == (
        numbers_of(all_there.in_reach),
        numbers_of(one_away.in_reach),
    )


def test_of_what_a_bookie_lacks_the_first_ranges_are_kept_and_all_is_counted() -> None:
    """In a ledger that was looked at whole, at least as many ranges are kept as a finding shows; by
    far not all.
    """
    entries = list(range(1, 2 * 1000, 2))
    found = lacking(Block(PAIR, 0, 9999), *entries).absent["b1"]
    assert (1000, tuple((entry, entry) for entry in entries[:RANGES_MAX])) == (
        found.total,
        found.ranges[:RANGES_MAX],
    )
    assert len(found.ranges) <= 2 * RANGES_MAX


def test_a_bookie_that_holds_all_holds_as_much_as_was_written_to_it() -> None:
    """There are two blocks, one of which is only on another bookie."""
    said = {b: Said(HELD) for b in ("b1", "b2", "b3", "b4")}
    found = tally([Block(FIRST, 0, 8), Block(SECOND, 40, 41)], said, is_whole=True)
    assert {"b1": 6, "b2": 7, "b3": 8, "b4": 1} == found.held == found.expected


def test_entries_with_few_copies_need_not_be_those_that_one_bookie_lacks() -> None:
    """b1 and b4 each lack entries of one block, but no entry is missing on both."""
    said = {b: Said(HELD) for b in ("b1", "b2", "b3", "b4")}
    said["b1"] = Said(HELD, by_entry={5: ABSENT})
    said["b4"] = Said(HELD, by_entry={41: ABSENT})
    blocks = [Block(FIRST, 0, 39), Block(SECOND, 41, 79)]
    found = tally(blocks, said, is_whole=True)
    assert Entries(((5, 5), (41, 41)), 2) == found.with_at_most(1)
    assert Entries() == found.with_at_most(0)
    assert Entries(((5, 5),), 1) == tally(blocks[:1], said, is_whole=True).with_at_most(1)


def test_of_entries_with_few_copies_the_first_ranges_are_kept() -> None:
    """Two bookies lack them in turn, so no single bookie lacks all of them."""
    said = {
        b: Said(HELD, by_entry=dict.fromkeys(range(first, 2000, 4), ABSENT))
        for b, first in (("b1", 1), ("b2", 3))
    }
    found = tally([Block(PAIR, 0, 9999)], said, is_whole=True).with_at_most(1)
    kept = tuple((entry, entry) for entry in range(1, 2 * RANGES_MAX + 3, 2))
    assert Entries(kept, 1000) == found


def test_of_a_ledger_looked_at_in_part_all_ranges_are_kept() -> None:
    """Both checkers' ranges are compared where both looked, which need not begin at the lowest
    entry.
    """
    entries = list(range(1, 2 * 1000, 2))
    said = {"b1": Said(HELD, by_entry=dict.fromkeys(entries, ABSENT)), "b2": Said(HELD)}
    assert (
        tuple((e, e) for e in entries)
        == tally([Block(PAIR, 0, 9999)], said, is_whole=False).absent["b1"].ranges
    )


def test_what_a_bookie_lacks_is_one_range_across_blocks() -> None:
    """The last range that a finding shows continues in the next block, which is therefore counted,
    too.
    """
    entries = [*range(1, 2 * RANGES_MAX, 2), 2 * RANGES_MAX]
    said = {"b1": Said(HELD, by_entry=dict.fromkeys(entries, ABSENT)), "b2": Said(HELD)}
    chosen = [Block(PAIR, 0, 2 * RANGES_MAX - 1), Block(PAIR, 2 * RANGES_MAX, 9999)]
    last = (2 * RANGES_MAX - 1, 2 * RANGES_MAX)
    assert (RANGES_MAX, last) == (
        len(found := tally(chosen, said, is_whole=True).absent["b1"].ranges),
        found[-1],
    )


def test_ranges_that_touch_across_blocks_count_once_towards_those_that_are_kept() -> None:
    """Every block begins and ends with an entry that b1 lacks: two runs for each block, one range
    for each border.
    """
    blocks = [Block(PAIR, low, low + 3) for low in range(0, 4000, 4)]
    entries = [entry for entry in range(4000) if entry % 4 in (0, 3)]
    said = {"b1": Said(HELD, by_entry=dict.fromkeys(entries, ABSENT)), "b2": Said(HELD)}
    found = tally(blocks, said, is_whole=True)
    for kept in (found.absent["b1"], found.with_at_most(1)):
        assert (2000, runs(entries)[:RANGES_MAX]) == (kept.total, kept.ranges[:RANGES_MAX])
        assert RANGES_MAX + 1 == len(kept.ranges)


def test_behind_the_blocks_that_bring_enough_ranges_entries_are_only_counted() -> None:
    """There is one range for each block: no block is split if it cannot change the ranges that are
    compared.
    """
    blocks = [Block(PAIR, low, low + 1) for low in range(0, 200, 2)]
    said = {"b1": Said(HELD, by_entry=dict.fromkeys(range(0, 200, 2), ABSENT)), "b2": Said(HELD)}
    found = tally(blocks, said, is_whole=True).absent["b1"]
    assert (RANGES_MAX + 1, 100) == (len(found.ranges), found.total)


def test_some_entries_are_given_as_their_runs() -> None:
    """Entries may be given in any order, with repetitions."""
    assert Entries(((1, 3), (5, 5), (8, 9)), 6) == Entries.of([9, 5, 1, 3, 2, 8, 8])


def test_of_equals_the_lowest_entry_is_the_worst_in_whatever_order_blocks_are_counted() -> None:
    """The worst entry has the fewest possible copies, then the fewest confirmed ones, then the
    lowest id.
    """

    def counted(low: int, confirmed: list[int], possible: list[int]) -> BlockCount:
        sure, counts = counts_of(confirmed), counts_of(possible)
        return BlockCount(Block(PAIR, low, low + 1), sure, counts, counts, counts, {}, {})

    blocks = [counted(40, [1, 0], [2, 1]), counted(20, [2, 0], [2, 1]), counted(0, [0, 1], [2, 1])]
    assert Worst(1, 0, 21, PAIR) == Tally(blocks).worst()

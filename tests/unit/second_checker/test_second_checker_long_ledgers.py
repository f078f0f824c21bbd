"""Ledgers too long to be looked at whole, with more list edges than are looked at: both checkers
agree.
"""

from __future__ import annotations

from random import Random
from typing import Any

from support.stories import Bookie, State, drive
from support.vast_stories import VastStory, scattered, with_holes

from auditor.judging.settle import settle_and_check
from auditor.model.cluster import Surroundings
from auditor.model.finding import Kind
from auditor.model.identity import EntryId
from auditor.model.ledger import LedgerMetadata
from auditor.model.verdict import Verdict
from auditor.sandbox.cluster import ledger
from auditor.second_checker.agreement import _clip_to_blocks
from auditor.second_checker.blocks import POINTS_MAX, Block, stretches

LAST = 5_000_000
MANY = sorted(scattered(Random(1), LAST, 3 * POINTS_MAX))
"""Holes of one list. Each has two edges, and every sixth edge is looked at."""


def committed(metadata: LedgerMetadata, bookies: dict[str, Bookie], **more: object) -> Verdict:
    """Return the verdict that both checkers support."""
    story = VastStory("long", (State(metadata, bookies),), more_terms=more)
    step, why = settle_and_check(drive(story).evidence, story.terms)
    assert "" == why
    return step.verdict


def test_entries_looked_for_elsewhere_are_looked_at_whatever_the_lists_say() -> None:
    """One of the entries without a copy is on no other bookie. It lies within a range, so nothing
    else names it.
    """
    metadata = ledger(f"e2 w2 a1 0:[b1 b2] closed {LAST}")
    lost = range(1_000_000, 1_000_100)
    bookies = with_holes(metadata, {"b1": lost, "b2": {*lost, *MANY}})
    around = Surroundings(writable=frozenset({"b1", "b2", "b3"}))
    for missing in (1_000_025, 1_000_050):  # two of the four searched entries
        there = {**bookies, "b3": Bookie(frozenset(lost) - {missing})}
        verdict = committed(metadata, there, around=around, stranded_entries_max=4)
        assert [Kind.ENTRY_WITHOUT_REPLICA] == [one.kind for one in verdict.findings]


class Passed(tuple[tuple[EntryId, EntryId], ...]):
    """Ranges that count how often one of them is looked at."""

    times = 0

    def __getitem__(self, at: Any) -> Any:
        Passed.times += 1
        return super().__getitem__(at)

    def __iter__(self) -> Any:
        for one in super().__iter__():
            Passed.times += 1
            yield one


def test_comparing_ranges_costs_blocks_and_ranges_not_their_product() -> None:
    """A list of half a million holes and hundreds of blocks once took half a minute."""
    (part,) = stretches(ledger(f"e1 w1 a1 0:[b1] closed {LAST}"))
    blocks = [Block(part, low, low + 9) for low in range(0, 20_000, 20)]
    ranges = Passed((entry, entry + 2) for entry in range(0, 20_000, 4))
    Passed.times = 0
    found = _clip_to_blocks(ranges, blocks, None)
    assert Passed.times <= 4 * (len(blocks) + len(ranges))
    expected = [
        (max(first, block.low), min(last, block.high))
        for block in blocks[:20]
        for first, last in tuple(ranges)
        if first <= block.high and last >= block.low
    ]
    assert expected == found[: len(expected)]

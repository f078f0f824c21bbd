"""Which entries of a long ledger the second checker looks at one by one."""

from __future__ import annotations

import pytest
from support.stories import GRACE_MS, LEDGER, NOW_MS

from auditor.model.evidence import Terms
from auditor.sandbox.notation import ledger
from auditor.second_checker.blocks import (
    DRAWN_POINTS,
    ENUMERATED_ENTRIES_MAX,
    POINTS_MAX,
    Block,
    blocks,
)
from auditor.second_checker.schedule import stretches

LAST = 10**9
TERMS = Terms(NOW_MS, GRACE_MS, 16, 5)
PARTS = stretches(ledger(f"e3 w2 a2 0:[b1 b2 b3] closed {LAST}"))


def looked_at(
    seed: int = 1, edges: tuple[int, ...] = (), claimed: tuple[int, ...] = ()
) -> tuple[Block, ...]:
    return blocks(
        LEDGER, PARTS, {"b1": edges}, claimed, Terms(NOW_MS, GRACE_MS, 16, 5, probe_seed=seed)
    )[0]


def test_of_many_edges_each_bookie_has_its_part() -> None:
    """All edges of one list are kept beside thousands of another, and none of a bookie that is not
    in the ensemble.
    """
    few, many = range(10_000_000, 10_010_000, 100), range(1_000, 9_000_000, 100)
    edges = {"b1": many, "b2": few, "b4": range(20_000_000, 21_000_000, 100)}
    chosen, _ = blocks(LEDGER, PARTS, edges, (), Terms(NOW_MS, GRACE_MS, 16, 5))
    looked = {block.low + 3 for block in chosen}
    assert set(few) <= looked
    assert POINTS_MAX // 3 == len(looked & set(many))
    assert not looked & set(edges["b4"])


def test_what_was_read_or_claimed_is_looked_at_however_much_it_is() -> None:
    """They are not limited, unlike edges, of which POINTS_MAX are enough."""
    read = range(0, 100 * 3 * POINTS_MAX, 100)
    chosen = looked_at(claimed=tuple(read))
    assert all(any(block.low <= entry <= block.high for block in chosen) for entry in read[::50])
    assert len(chosen) >= len(read)


def test_a_whole_round_of_the_ensemble_is_looked_at_to_both_sides_of_a_point() -> None:
    """Each bookie has a turn beside each edge. Rounds that touch are one block."""
    at = {(one.low, one.high) for one in looked_at(edges=(1000,), claimed=(2000, 2007))}
    assert {(997, 1003), (1997, 2010), (0, 3), (LAST - 3, LAST)} <= at


def test_points_farther_apart_are_two_blocks() -> None:
    """An entry between two rounds is not looked at."""
    assert {(1997, 2003), (2005, 2011)} <= {
        (one.low, one.high) for one in looked_at(claimed=(2000, 2008))
    }


def test_another_run_looks_at_other_entries() -> None:
    """Nearly all drawn entries differ between runs; a replay draws the same ones."""
    one, other = ({block.low for block in looked_at(seed)} for seed in (1, 2))
    assert one == {block.low for block in looked_at(1)}
    assert len(one & other) <= 2 + DRAWN_POINTS // 10


def test_points_are_drawn_of_the_ledger_not_of_each_segment() -> None:
    """Beside the two ends of each long segment there are DRAWN_POINTS in all, or one for each
    segment if that is more.
    """
    for segments in (1, 4, 300):
        text = " ".join(f"{n * 10**7}:[b{n % 2} b2 b3]" for n in range(segments))
        chosen, _ = blocks(
            LEDGER, stretches(ledger(f"e3 w2 a2 {text} closed {segments * 10**7}")), {}, (), TERMS
        )
        assert 2 * segments + max(segments, DRAWN_POINTS) == len(chosen)


def test_segments_that_are_looked_at_whole_draw_no_points() -> None:
    """The one long segment after three short ones has DRAWN_POINTS to itself."""
    text = "e3 w2 a2 0:[b1 b2 b3] 1000:[b4 b2 b3] 2000:[b1 b2 b3] 3000:[b4 b2 b3]"
    chosen, _ = blocks(LEDGER, stretches(ledger(f"{text} closed {LAST}")), {}, (), TERMS)
    assert 3 + 2 + DRAWN_POINTS == len(chosen)


def test_of_another_ledger_other_entries_are_looked_at() -> None:
    """One run looks at different places in different ledgers."""
    terms = Terms(NOW_MS, GRACE_MS, 16, 5)
    one, other = (
        {block.low for block in blocks(ledger_id, PARTS, {}, (), terms)[0]}
        for ledger_id in (LEDGER, LEDGER + 1)
    )
    assert len(one & other) <= 2 + DRAWN_POINTS // 10


@pytest.mark.parametrize(("too_many", "is_whole"), [(0, True), (1, False)])
def test_a_ledger_is_looked_at_whole_up_to_a_number_of_entries(
    too_many: int, is_whole: bool
) -> None:
    """The limit is exactly ENUMERATED_ENTRIES_MAX."""
    parts = stretches(
        ledger(f"e3 w2 a2 0:[b1 b2 b3] closed {ENUMERATED_ENTRIES_MAX - 1 + too_many}")
    )
    assert is_whole is blocks(LEDGER, parts, {}, (), Terms(NOW_MS, GRACE_MS, 16, 5))[1]


@pytest.mark.parametrize(("too_many", "is_whole"), [(0, True), (1, False)])
def test_the_segments_of_a_long_ledger_are_looked_at_whole_while_there_is_room(
    too_many: int, is_whole: bool
) -> None:
    """The second segment gets what the first leaves of ENUMERATED_ENTRIES_MAX. Then none is left
    for the third.
    """
    third = ENUMERATED_ENTRIES_MAX + too_many
    text = f"e3 w2 a2 0:[b1 b2 b3] 600000:[b4 b2 b3] {third}:[b1 b2 b4] closed {LAST}"
    parts = stretches(ledger(text))
    chosen, _ = blocks(LEDGER, parts, {}, (), Terms(NOW_MS, GRACE_MS, 16, 5))
    wholes = [
        block.low
        for block in chosen
        if block == (block.stretch, block.stretch.first, block.stretch.last)
    ]
    assert ([0, 600_000] if is_whole else [0]) == wholes

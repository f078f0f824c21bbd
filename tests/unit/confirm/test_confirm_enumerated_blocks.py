"""Which entries of a long ledger the second checker looks at one by one."""

from __future__ import annotations

from support.stories import GRACE_MS, LEDGER, NOW_MS

from auditor.confirm.enumerated_blocks import DRAWN_POINTS, Block, blocks
from auditor.confirm.enumerated_schedule import stretches
from auditor.model.evidence import Terms
from auditor.sandbox.notation import ledger

LAST = 10**9
PARTS = stretches(ledger(f"e3 w2 a2 0:[b1 b2 b3] closed {LAST}"))


def looked_at(seed: int = 1, edges: tuple[int, ...] = (), claimed: tuple[int, ...] = ()) -> tuple[Block, ...]:
    return blocks(LEDGER, PARTS, edges, claimed, Terms(NOW_MS, GRACE_MS, 16, 5, probe_seed=seed))[0]


def test_a_whole_round_of_the_ensemble_is_looked_at_to_both_sides_of_a_point() -> None:
    """Every bookie has its turn beside each edge, and what touches is one block."""
    at = {(one.low, one.high) for one in looked_at(edges=(1000,), claimed=(2000, 2007))}
    assert {(997, 1003), (1997, 2010), (0, 3), (LAST - 3, LAST)} <= at


def test_another_run_looks_at_other_entries() -> None:
    """Of the entries drawn nearly all differ; a replay draws the same."""
    one, other = ({block.low for block in looked_at(seed)} for seed in (1, 2))
    assert one == {block.low for block in looked_at(1)}
    assert len(one & other) <= 2 + DRAWN_POINTS // 10

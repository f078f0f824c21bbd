"""Which entries of a long ledger the second checker looks at one by one."""

from __future__ import annotations

from support.stories import GRACE_MS, LEDGER, NOW_MS

from auditor.model.evidence import Terms
from auditor.sandbox.cluster import ledger
from auditor.second_checker.blocks import (
    Block,
    blocks,
    stretches,
)

LAST = 10**9
PARTS = stretches(ledger(f"e3 w2 a2 0:[b1 b2 b3] closed {LAST}"))


def looked_at(
    seed: int = 1, edges: tuple[int, ...] = (), claimed: tuple[int, ...] = ()
) -> tuple[Block, ...]:
    return blocks(
        LEDGER, PARTS, {"b1": edges}, claimed, Terms(NOW_MS, GRACE_MS, 16, 5, probe_seed=seed)
    )[0]


def test_a_whole_round_of_the_ensemble_is_looked_at_to_both_sides_of_a_point() -> None:
    """Each bookie has a turn beside each edge. Rounds that touch are one block."""
    at = {(one.low, one.high) for one in looked_at(edges=(1000,), claimed=(2000, 2007))}
    assert {(997, 1003), (1997, 2010), (0, 3), (LAST - 3, LAST)} <= at

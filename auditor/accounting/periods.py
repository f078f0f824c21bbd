"""The creation period in which most ledgers are hit, while outside it few are: a bad deployment, a misconfigured client.

Pure. Exact up to PERIOD_EDGES_MAX hit ledgers; beyond, the ends of the period are among so many of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from auditor.accounting.last_words import Ids
from auditor.confirm.words import moment

PERIOD_LEDGERS_MIN = 5
"""Ledgers hit in a period, at least: two neighbours are chance."""
PERIOD_OUTSIDE_SHARE_MAX = 0.05
"""Share of the ledgers created at other times that may be hit too: "few"."""
PERIOD_EDGES_MAX = 1_024
"""Creation times of hit ledgers at which a period may begin or end: bounds the counting, 8 bytes each."""


@dataclass(frozen=True, slots=True)
class Period:
    """From `first_ms` to `last_ms`, both inclusive: of `created` ledgers then, `hit` are hit; of all others, `others_hit` of
    `others`."""

    first_ms: int
    last_ms: int
    created: int
    hit: int
    others: int
    others_hit: int

    def name(self) -> str:
        return f"{moment(self.first_ms)}/{moment(self.last_ms)}"


@dataclass(frozen=True, slots=True)
class Births:
    """When ledgers were created, in ms, by their znodes; of a ledger that is not in `ledger_ids` it is not known."""

    ledger_ids: Ids
    at_ms: Ids

    def times_of(self, ids: Ids) -> Ids:
        """Creation times, ascending, of those of `ids` that have one."""
        return np.sort(self.at_ms[np.isin(self.ledger_ids, ids)])

    def within(self, ids: Ids, when: Period) -> Ids:
        """Those of `ids` created in the period."""
        inside = (self.at_ms >= when.first_ms) & (self.at_ms <= when.last_ms)
        return np.intersect1d(ids, self.ledger_ids[inside], assume_unique=True)


def period(hit_ms: Ids, all_in: Callable[[Ids], Ids]) -> Period | None:
    """The period with the largest surplus of hit ledgers over others, if it stands out; None if none does.

    `hit_ms`: creation times of the ledgers hit, ascending; `all_in` counts all ledgers between edges (`causes.AllIn`).
    """
    if len(hit_ms) < PERIOD_LEDGERS_MIN:
        return None
    picked = hit_ms[np.unique(np.linspace(0, len(hit_ms) - 1, PERIOD_EDGES_MAX).astype(np.int64))]
    edges = np.unique(np.concatenate([picked, picked + 1]))
    counts = all_in(edges)
    assert len(counts) == len(edges) + 1, (len(counts), len(edges))
    total, between = int(counts.sum()), counts[1:-1]
    hit = np.histogram(hit_ms, edges)[0]  # the last edge is one beyond the last time, so no bin is closed at its end
    first, last = _largest_surplus(2 * hit - between)
    created, mine = int(between[first : last + 1].sum()), int(hit[first : last + 1].sum())
    found = Period(int(edges[first]), int(edges[last + 1]) - 1, created, mine, total - created, len(hit_ms) - mine)
    return found if _stands_out(found) else None


def _stands_out(one: Period) -> bool:
    """Most are hit in it, few outside, and there is an outside to compare with."""
    few = one.others_hit <= PERIOD_OUTSIDE_SHARE_MAX * one.others
    return one.hit >= PERIOD_LEDGERS_MIN and 2 * one.hit > one.created and one.others >= one.created and few


def _largest_surplus(gains: Ids) -> tuple[int, int]:
    """The first and last index of the stretch with the largest sum, the earliest of equals (Kadane). Costs one pass."""
    best, at, running, start = int(gains[0]), (0, 0), 0, 0
    for index, gain in enumerate(gains.tolist()):
        if running <= 0:
            running, start = 0, index
        running += gain
        if running > best:
            best, at = running, (start, index)
    return at

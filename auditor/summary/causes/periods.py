"""Finds the creation period in which ledgers are hit more often than at other times.

Such a period points to a bad deployment or a misconfigured client. Pure. Exact up to
PERIOD_EDGES_MAX hit ledgers. With more, periods begin and end only at that many of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb

import numpy as np
import numpy.typing as npt

from auditor.evidence.ids import Ids
from auditor.summary.causes.contrast import CONTRAST_MIN, Contrast, compare
from auditor.witness.phrases import moment

PERIOD_SHARE_MIN = 0.75
"""Minimum share of a period's ledgers that are hit. If more are sound, the time explains little:
neighbours in time often belong to one client or topic, and are hit for another reason."""
PERIOD_EDGES_MAX = 1_024
"""Maximum number of creation times at which a period may begin or end. This bounds the search to
half a million periods."""

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Period:
    """The time from `first_ms` to `last_ms`, both inclusive, and its contrast with all other times.

    `explained` counts hit ledgers that are left out of both, because something else explains them.
    """

    first_ms: int
    last_ms: int
    contrast: Contrast
    explained: int = 0

    def name(self) -> str:
        """Return both ends as one word: an ISO 8601 interval."""
        return f"{moment(self.first_ms)}/{moment(self.last_ms)}"


@dataclass(frozen=True, slots=True)
class Births:
    """When ledgers were created, by their znodes: `at_ms` runs parallel to `ledger_ids`.

    The creation time of any other ledger is unknown.
    """

    ledger_ids: Ids
    at_ms: Ids

    def times_of(self, ids: Ids) -> Ids:
        """Return the known creation times of `ids`, ascending."""
        return np.sort(self.at_ms[np.isin(self.ledger_ids, ids)])

    def within(self, ids: Ids, when: Period) -> Ids:
        """Return those of `ids` that were created in the period."""
        inside = (self.at_ms >= when.first_ms) & (self.at_ms <= when.last_ms)
        return np.intersect1d(ids, self.ledger_ids[inside])


def find_period(
    hit_ms: Ids, all_in: Callable[[Ids], Ids], candidates: int, explained: int
) -> Period | None:
    """Return the period that is least likely by chance, if it stands out.

    It has the largest likelihood ratio, as in Kulldorff's scan. `hit_ms`: creation times of the
    ledgers hit, ascending. `all_in` counts all ledgers between edges (`causes.AllIn`). Every period
    that begins and ends at a hit ledger is searched, so each multiplies `candidates`. `explained`:
    hit ledgers that are in neither of the two.
    """
    if len(hit_ms) == 0:
        return None
    picked = hit_ms[np.unique(np.linspace(0, len(hit_ms) - 1, PERIOD_EDGES_MAX).astype(np.int64))]
    starts = np.unique(picked)
    edges = np.unique(np.concatenate([starts, starts + 1]))
    counts = all_in(edges)
    assert len(counts) == len(edges) + 1, (len(counts), len(edges))
    # A period begins at the edge of its first ledger and ends at the edge after its last.
    before, behind = np.searchsorted(edges, starts), np.searchsorted(edges, starts + 1)
    created = np.cumsum(counts)  # ledgers created before each edge
    hit = np.searchsorted(hit_ms, edges)
    all_created = int(counts.sum())
    found = _most_unlikely(
        hit[before], hit[behind], created[before], created[behind], len(hit_ms), all_created
    )
    if found is None:
        return None
    first, last = found
    mine = int(hit[behind[last]] - hit[before[first]])
    there = int(created[behind[last]] - created[before[first]])
    tried = candidates * comb(len(starts) + 1, 2)
    contrast = compare(mine, there, len(hit_ms) - mine, all_created - there, tried)
    if not contrast.stands_out():
        return None
    return Period(int(starts[first]), int(starts[last]), contrast, explained)


def _most_unlikely(
    hit_before: Ids,
    hit_behind: Ids,
    created_before: Ids,
    created_behind: Ids,
    hit: int,
    created: int,
) -> tuple[int, int] | None:
    """Return the indices of the first and last start of the most unlikely period, or None.

    This is the period with the largest likelihood ratio among those with enough contrast, the
    earliest of equals. Costs a pass over all later ends for each start.
    """
    best, at = 0.0, None
    for first in range(len(hit_before)):
        mine = (hit_behind[first:] - hit_before[first]).astype(np.float64)
        there = (created_behind[first:] - created_before[first]).astype(np.float64)
        others_hit, others = hit - mine, created - there
        ratio = _likelihood(mine, there) + _likelihood(others_hit, others)
        is_candidate = (mine * others >= CONTRAST_MIN * others_hit * there) & (
            mine >= PERIOD_SHARE_MIN * there
        )
        ratio[~is_candidate] = -np.inf
        ratio -= float(_likelihood(np.array([hit], np.float64), np.array([created], np.float64))[0])
        last = int(np.argmax(ratio))
        if ratio[last] > best:
            best, at = float(ratio[last]), (first, first + last)
    return at


def _likelihood(hit: _Floats, of: _Floats) -> _Floats:
    """Return the log-likelihood of `hit` hits among `of` with the probability hit / of."""
    return _times_log(hit, of) + _times_log(of - hit, of)


def _times_log(part: _Floats, whole: _Floats) -> _Floats:
    """Return part * log(part / whole), or 0 for a part of 0. No part exceeds its whole."""
    share = np.divide(part, whole, out=np.ones_like(part), where=part > 0)
    result: _Floats = part * np.log(share)
    return result

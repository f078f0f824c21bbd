"""Contrast: whether a candidate is hit clearly more often than what it is compared with. Pure.

A candidate without contrast explains nothing, however many ledgers it touches (decision 0021).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from auditor.summary.exact_test import upper_tail

CONTRAST_MIN = 3
"""Share of hits among what a candidate touches, at least this many times their share among all others."""
CAUSE_LEDGERS_MIN = 3
"""Ledgers a cause explains, at least: fewer are told one by one."""
SIGNIFICANCE = 0.001
"""Probability of one false cause in a whole run, at most."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """Of `touched` things `touched_hit` are hit, and of `others` things `others_hit`.

    `p_value` is the probability of so many hits by chance, multiplied by the number of candidates (Bonferroni), at most 1. None
    where the relation is a fact and not a correlation, so that there is nothing to test.
    """

    touched_hit: int
    touched: int
    others_hit: int
    others: int
    p_value: float | None = None

    @property
    def share_touched(self) -> float:
        """The share of hits among what the candidate touches."""
        return self.touched_hit / self.touched if self.touched else 0.0

    @property
    def share_others(self) -> float | None:
        """The share of hits among all others; None where there are no others."""
        return self.others_hit / self.others if self.others else None

    def stands_out(self) -> bool:
        """Return whether the candidate may be a cause. Without others there is nothing to stand out from."""
        is_larger = self.touched_hit * self.others >= CONTRAST_MIN * self.others_hit * self.touched
        return self.others > 0 and is_larger and (self.p_value is None or self.p_value <= SIGNIFICANCE)


def compare(touched_hit: int, touched: int, others_hit: int, others: int, candidates: int) -> Contrast:
    """Test one of so many candidates against all others."""
    p = upper_tail(touched_hit, touched, touched_hit + others_hit, touched + others)
    return Contrast(touched_hit, touched, others_hit, others, min(1.0, p * candidates))


@dataclass(frozen=True, slots=True)
class Group:
    """Of the ledgers that name one bookie (or rack): how many there are, and how many are hit on that bookie."""

    hit: int
    touched: int


def outliers(groups: Mapping[str, Group], candidates: int) -> dict[str, Contrast]:
    """Return the groups that stand out from the rest, each with its contrast.

    The rest are the groups that do not stand out themselves: else two wiped bookies of three would hide each other. Groups are
    taken away in order of their shares, and the last step that finds contrast counts (generalized ESD, Rosner 1983). A step
    further needs as many outliers at once, so the steps need no correction of their own. Those taken away that do not stand
    out go back to the rest, and the others are tested against it, until all that are left do. Costs two tests a group, and one
    for each that is left whenever some went back.
    """
    order = sorted((name for name in groups if groups[name].touched), key=lambda name: (-_share(groups[name]), name))
    rests = [Group(0, 0)]
    for name in reversed(order):
        rests.append(Group(rests[-1].hit + groups[name].hit, rests[-1].touched + groups[name].touched))
    rests.reverse()  # rests[k]: all but the first k
    last = 0
    for number, name in enumerate(order, start=1):
        if _against(groups[name], rests[number], candidates).stands_out():
            last = number
    left, rest = order[:last], rests[last]
    while True:  # ends: each round but the last takes a group off
        found = {name: _against(groups[name], rest, candidates) for name in left}
        back = [groups[name] for name in left if not found[name].stands_out()]
        if not back:
            return found
        left = [name for name in left if found[name].stands_out()]
        rest = Group(rest.hit + sum(one.hit for one in back), rest.touched + sum(one.touched for one in back))


def _share(group: Group) -> float:
    return group.hit / group.touched


def _against(group: Group, rest: Group, candidates: int) -> Contrast:
    return compare(group.hit, group.touched, rest.hit, rest.touched, candidates)


def percent(share: float) -> str:
    """Return a share in per cent, rounded down: "100 %" is all, and what is more than none is never "0 %"."""
    hundredths = int(share * 10_000 + 1e-6)
    if share == 0 or hundredths >= 100:
        return f"{hundredths // 100} %"
    return f"{hundredths / 100:g} %" if hundredths else "below 0.01 %"

"""Tests whether a candidate is hit clearly more often than the others (contrast). Pure.

A candidate without contrast explains nothing, however many ledgers it touches (decision 0021).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from auditor.summary.causes.exact_test import upper_tail

CONTRAST_MIN = 3
"""Minimum ratio of the share of hits among what a candidate touches to that among the others."""
CAUSE_LEDGERS_MIN = 3
"""Minimum number of ledgers that a cause explains. Fewer are listed one by one."""
SIGNIFICANCE = 0.001
"""Maximum probability of one false cause in a whole run."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """`touched_hit` of `touched` things are hit, and `others_hit` of `others` things.

    `p_value` is the probability of at least so many hits by chance, times the number of candidates
    (Bonferroni), at most 1. None where the relation is a fact that needs no test.
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
        """Return whether the candidate may be a cause. It cannot stand out if there are no
        others.
        """
        is_larger = self.touched_hit * self.others >= CONTRAST_MIN * self.others_hit * self.touched
        return (
            self.others > 0 and is_larger and (self.p_value is None or self.p_value <= SIGNIFICANCE)
        )


def compare(
    touched_hit: int, touched: int, others_hit: int, others: int, candidates: int
) -> Contrast:
    """Return the contrast of one of `candidates` candidates with all others."""
    p = upper_tail(touched_hit, touched, touched_hit + others_hit, touched + others)
    return Contrast(touched_hit, touched, others_hit, others, min(1.0, p * candidates))


@dataclass(frozen=True, slots=True)
class Group:
    """Counts of ledgers that name one bookie (or rack): all, and those hit on that bookie."""

    hit: int
    touched: int


def outliers(groups: Mapping[str, Group], candidates: int) -> dict[str, Contrast]:
    """Return the groups that stand out from the rest, each with its contrast.

    The rest are the groups that do not stand out themselves. Otherwise two wiped bookies of three
    would hide each other. Groups are removed in order of their shares, largest first, and the last
    step that finds contrast counts (generalized ESD, Rosner 1983). A later step needs as many
    outliers at once, so the steps need no correction of their own. Removed groups that do not stand
    out go back to the rest. The others are tested against the new rest, until all of them stand
    out. Costs two tests a group, plus one for each remaining group whenever some went back.
    """
    order = sorted(
        (name for name in groups if groups[name].touched),
        key=lambda name: (-_share(groups[name]), name),
    )
    rests = [Group(0, 0)]
    for name in reversed(order):
        rests.append(
            Group(rests[-1].hit + groups[name].hit, rests[-1].touched + groups[name].touched)
        )
    rests.reverse()  # rests[k]: all but the first k
    last = 0
    for number, name in enumerate(order, start=1):
        if _against(groups[name], rests[number], candidates).stands_out():
            last = number
    left, rest = order[:last], rests[last]
    while True:  # Terminates: each iteration but the last removes a group.
        found = {name: _against(groups[name], rest, candidates) for name in left}
        back = [groups[name] for name in left if not found[name].stands_out()]
        if not back:
            return found
        left = [name for name in left if found[name].stands_out()]
        rest = Group(
            rest.hit + sum(one.hit for one in back), rest.touched + sum(one.touched for one in back)
        )


def _share(group: Group) -> float:
    return group.hit / group.touched


def _against(group: Group, rest: Group, candidates: int) -> Contrast:
    return compare(group.hit, group.touched, rest.hit, rest.touched, candidates)


def percent(share: float) -> str:
    """Return a share in per cent, rounded down.

    Only a whole is "100 %", and only nothing is "0 %": a tiny share is "below 0.01 %".
    """
    hundredths = int(share * 10_000 + 1e-6)
    if share == 0 or hundredths >= 100:
        return f"{hundredths // 100} %"
    return f"{hundredths / 100:g} %" if hundredths else "below 0.01 %"

"""Finds causes: groups affected ledgers by what explains most of them.

A candidate is a bookie, a rack, a creation period, disabled auto-recovery, or a worker that holds
locks. It is a cause if it has contrast (`contrast`) and explains at least CAUSE_LEDGERS_MIN
ledgers. Findings of one cause share a family. Ledgers that a bookie's silence left unjudged are a
family of their own. Decision 0021 says why. Pure. Holds ids in arrays: 8 bytes a ledger and bookie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from auditor.evidence.ids import Ids
from auditor.model.finding import Family
from auditor.model.identity import BookieId
from auditor.summary.causes.candidates import Candidate, CauseKind, Chosen, Unexplained
from auditor.summary.causes.contrast import CAUSE_LEDGERS_MIN, Contrast, Group, compare, outliers
from auditor.summary.causes.hits import UNJUDGED, VIAS, Hits, union
from auditor.summary.causes.periods import Births, Period, find_period
from auditor.summary.causes.touches import Touches

CAUSES_MAX = 10
"""Maximum number of causes that are shown and get a file. Nobody reads more than a screenful, so
the rest is only counted."""
RACK_MEMBER_SHARE_MIN = 0.25
"""A bookie is a member of a rack's cause if its share of hits is at least this part of the worst
bookie's. Otherwise a wiped bookie and a neighbour with few lost entries would look like a rack."""
PERIOD_BOOKIE_SHARE_MAX = 0.5
"""A period is not a cause if one bookie or rack explains this share of its ledgers: the bookie or
rack is the plainer reason."""
AllIn = Callable[[Ids], Ids]
"""Takes ascending edges in ms. Returns how many of all ledgers were created before the first edge,
from each edge to the next, and after the last."""


@dataclass(frozen=True, slots=True)
class Backgrounds:
    """What hits are compared with: all ledgers by bookie, by rack and by creation time.

    `births`: when the affected ledgers were created.
    """

    touches: Touches
    locations: Mapping[BookieId, str]
    births: Births
    all_in: AllIn
    replication_disabled: bool = False


def choose(hits: Hits, around: Backgrounds) -> list[Chosen]:
    """Return the causes, the one with most ledgers first.

    Costs a sort of the affected ledgers for each bookie and family, and at most two calls of
    `all_in` a family.
    """
    families = [
        family for family in hits.families() if len(hits.of_family(family)) >= CAUSE_LEDGERS_MIN
    ]
    number = sum(_count_candidates(hits, around, family) for family in families)
    chosen = [one for family in families for one in _Family(hits, around, family, number).causes()]
    order = list(CauseKind)
    return sorted(
        chosen,
        key=lambda one: (-len(one.own), order.index(one.candidate.kind), one.candidate.subject),
    )


def _count_candidates(hits: Hits, around: Backgrounds, family: str) -> int:
    """Return how many candidates are tested: bookies, racks, workers and two searches for periods.

    Candidates without a hit count too, because they are tested as well.
    """
    touches = around.touches
    bookies = len(touches.by_bookie) + len(touches.by_rack) if family in VIAS else 0
    periods = 0 if family == UNJUDGED else 2
    workers = len(hits.locked) if family == Family.MARK else 0
    return bookies + periods + workers


class _Family:
    """The search for the causes of one family."""

    def __init__(self, hits: Hits, around: Backgrounds, family: str, candidates: int) -> None:
        self._hits, self._around, self._family, self._number = hits, around, family, candidates
        self._ids = hits.of_family(family)

    def causes(self) -> list[Chosen]:
        """Return the causes of this family.

        For marks, reasons why auto-recovery does not repair them go before creation periods.
        """
        left = Unexplained(self._ids)
        plain = self._bookies_and_racks()
        if self._family == Family.MARK:
            chosen = left.explain(plain) + left.explain(self._recovery())
        else:
            chosen = left.explain([*plain, *self._periods(self._ids, plain)])
        return chosen + left.explain(self._periods(left.ledgers(), plain))

    def _bookies_and_racks(self) -> list[Candidate]:
        by_bookie = self._hits.by_bookie(self._family)
        if self._family == Family.PLACEMENT:
            return [*self._placement_candidates(by_bookie), *self._period_candidates()]
        touches = self._around.touches
        groups = {bookie: Group(0, number) for bookie, number in touches.by_bookie.items()}
        groups |= {
            bookie: Group(len(ids), touches.of_bookie(bookie, ids))
            for bookie, ids in by_bookie.items()
        }
        found = outliers(groups, self._number)
        bookies = [
            self._candidate(CauseKind.BOOKIE, bookie, by_bookie[bookie], one)
            for bookie, one in found.items()
        ]
        return bookies + list(self._racks(by_bookie, groups))

    def _racks(
        self, by_bookie: Mapping[BookieId, Ids], groups: Mapping[BookieId, Group]
    ) -> Iterator[Candidate]:
        """Yield the racks that stand out and have at least two members of the cause.

        More than half of the rack's bookies must be members.
        """
        bookies_of: dict[str, list[BookieId]] = {}
        for bookie in sorted(groups):
            if bookie in self._around.locations:
                bookies_of.setdefault(self._around.locations[bookie], []).append(bookie)
        hit = {
            rack: union(by_bookie[b] for b in here if b in by_bookie)
            for rack, here in bookies_of.items()
        }
        found = self._outlying_racks(hit, bookies_of)
        for rack, contrast in found.items():
            shares = {
                b: groups[b].hit / groups[b].touched for b in bookies_of[rack] if groups[b].touched
            }
            members = tuple(
                b
                for b, share in shares.items()
                if share >= RACK_MEMBER_SHARE_MIN * max(shares.values())
            )
            if len(members) > 1 and 2 * len(members) > len(shares):
                yield self._candidate(CauseKind.RACK, rack, hit[rack], contrast, members)

    def _outlying_racks(
        self, hit: Mapping[str, Ids], bookies_of: Mapping[str, list[BookieId]]
    ) -> dict[str, Contrast]:
        touches = self._around.touches
        racks = {
            rack: Group(len(ids), touches.of_rack(rack, bookies_of[rack], ids))
            for rack, ids in hit.items()
        }
        rest = {
            rack: Group(0, number) for rack, number in touches.by_rack.items() if rack not in racks
        }
        return outliers(racks | rest, self._number)

    def _placement_candidates(self, by_bookie: Mapping[BookieId, Ids]) -> Iterator[Candidate]:
        """Yield the bookies that stand out in failing segments.

        An ensemble fails as a whole. Ledgers that name the bookie are therefore compared with those
        that do not, instead of bookies with each other.
        """
        touches = self._around.touches
        for bookie, mine in by_bookie.items():
            touched = touches.of_bookie(bookie, mine)
            failing = len(
                np.union1d(mine, np.intersect1d(self._ids, touches.affected_naming([bookie])))
            )
            one = self._against_all(failing, touched)
            if one.stands_out():
                yield self._candidate(CauseKind.BOOKIE, bookie, mine, one)

    def _period_candidates(self) -> Iterator[Candidate]:
        bookies_of: dict[str, list[BookieId]] = {}
        for bookie, rack in self._around.locations.items():
            bookies_of.setdefault(rack, []).append(bookie)
        for rack, one in self._outlying_racks(self._hits.crowds, bookies_of).items():
            yield self._candidate(CauseKind.RACK, rack, self._hits.crowds[rack], one)

    def _periods(self, ids: Ids, plain: Sequence[Candidate]) -> Iterator[Candidate]:
        """Yield the creation period that stands out, if no bookie or rack is the plainer reason."""
        while (
            reason := _plainer_reason(ids, plain)
        ) is not None:  # Terminates: each pass removes half of the rest.
            ids = np.setdiff1d(ids, reason)
        if self._family == UNJUDGED or len(ids) < CAUSE_LEDGERS_MIN:
            return
        births = self._around.births
        # Ledgers with a plainer reason prove nothing about a period: they count neither as hit nor
        # as created.
        explained = births.times_of(np.setdiff1d(self._ids, ids))

        def all_others_in(edges: Ids) -> Ids:
            return self._around.all_in(edges) - np.diff(
                np.searchsorted(explained, edges), prepend=0, append=len(explained)
            )

        found = find_period(births.times_of(ids), all_others_in, self._number, len(explained))
        if found is not None:
            within = births.within(ids, found)
            if _plainer_reason(within, plain) is None:
                yield self._candidate(
                    CauseKind.PERIOD, found.name(), within, found.contrast, period=found
                )

    def _recovery(self) -> Iterator[Candidate]:
        """Yield why marked ledgers are not repaired: disabled auto-recovery, or workers with locks.

        Disabled auto-recovery is a fact and not a correlation. It is not tested, and needs no
        unmarked ledgers for comparison.
        """
        if self._around.replication_disabled:
            marked = max(self._hits.marked, len(self._ids))
            fact = Contrast(
                len(self._ids), marked, 0, max(0, self._around.touches.ledgers - marked)
            )
            yield self._candidate(CauseKind.AUTORECOVERY, "disabled", self._ids, fact)
            return
        for holder, locked in sorted(self._hits.locked.items()):
            mine = np.intersect1d(locked, self._ids)
            one = self._against_all(len(mine), len(locked))
            if one.stands_out():
                yield self._candidate(CauseKind.WORKER, holder, mine, one)

    def _against_all(self, hit: int, touched: int) -> Contrast:
        """Return how ledgers that a candidate touches compare with all other ledgers."""
        others_hit = len(self._ids) - hit
        return compare(
            hit,
            touched,
            others_hit,
            max(others_hit, self._around.touches.ledgers - touched),
            self._number,
        )

    def _candidate(
        self,
        kind: CauseKind,
        subject: str,
        ledgers: Ids,
        contrast: Contrast,
        members: tuple[BookieId, ...] = (),
        *,
        period: Period | None = None,
    ) -> Candidate:
        return Candidate(kind, subject, self._family, ledgers, contrast, members, period)


def _plainer_reason(ids: Ids, plain: Sequence[Candidate]) -> Ids | None:
    """Return the ledgers of the first bookie or rack that explains half of `ids`, or None."""
    enough = PERIOD_BOOKIE_SHARE_MAX * len(ids)
    large = (one.ledgers for one in plain if len(ids) and len(one.ledgers) >= enough)
    return next((mine for mine in large if np.isin(ids, mine).sum() >= enough), None)

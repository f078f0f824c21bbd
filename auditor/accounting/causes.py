"""Why so many: affected ledgers grouped by what explains most of them, so that a person reads causes and not ledgers.

One bookie, one rack, one creation period; for marks that nobody's absence explains, what keeps them from being worked off. Each
ledger belongs to one cause, the one that explained most when it was chosen. Pure; ids in arrays, 8 bytes a ledger and bookie.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from auditor.accounting.last_words import Ids
from auditor.accounting.periods import PERIOD_LEDGERS_MIN, Births, Period, period
from auditor.model.finding import CATALOGUE, Family
from auditor.model.identity import BookieId

CAUSE_LEDGERS_MIN = 2
"""Ledgers a cause explains, at least: what explains one ledger is that ledger's finding."""
CAUSES_MAX = 10
"""Causes told and given a file; beyond a screenful nobody reads on, so the rest is counted."""
RACK_MEMBER_SHARE_MIN = 0.25
"""A rack is a cause where two of its bookies are, each with at least this share of the ledgers of its worst: a neighbour that
lost a few entries does not make a wiped bookie a lost rack."""
RACK_CONTRAST_MIN = 2.0
"""Ledgers hit for each bookie of the rack against those for each bookie elsewhere: random loss hits all racks alike."""
PERIOD_BOOKIE_SHARE_MAX = 0.5
"""A period is no cause where one bookie or rack explains this share of its ledgers: that is the plainer reason."""

_KINDS = {family: {kind.value for kind, facts in CATALOGUE.items() if facts.family is family} for family in Family}

AllIn = Callable[[Ids], Ids]
"""Ascending edges in ms -> of all ledgers, how many were created before the first edge, from each to the next, and after."""


class Via(StrEnum):
    """How a bookie has to do with a ledger that is hit."""

    LACKING = "lacking"
    UNHEARD = "unheard"
    MARKED = "marked"
    MISPLACED = "misplaced"


class CauseKind(StrEnum):
    """What a cause is, the one preferred first where two explain equally many."""

    RACK = "rack"
    BOOKIE = "bookie"
    PERIOD = "period"
    AUTORECOVERY = "autorecovery"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Hits:
    """What hit which ledgers, and who may be behind it.

    `by_kind`: by the kind of a finding, or the reason a ledger could not be judged. `via`: by bookie. `crowded`: the rack of
    which every segment that fails placement has two bookies or more, and these ledgers. `locked`: marked ledgers by the worker
    that holds their lock.
    """

    by_kind: Mapping[str, Ids]
    via: Mapping[Via, Mapping[BookieId, Ids]]
    crowded: tuple[str, Ids] | None = None
    locked: Mapping[str, Ids] = field(default_factory=dict)

    def affected(self) -> Ids:
        """Every ledger hit by anything."""
        return _union(self.by_kind.values())

    def of_bookie(self, bookie: BookieId) -> Ids:
        """Every ledger that the bookie may have to do with."""
        return _union(ids[bookie] for ids in self.via.values() if bookie in ids)

    def bookies(self) -> list[BookieId]:
        """Every bookie that may have to do with any."""
        return sorted(set().union(*self.via.values()))

    def of_family(self, family: Family) -> Ids:
        """The ledgers with a finding of that family."""
        return _union(ids for kind, ids in self.by_kind.items() if kind in _KINDS[family])


@dataclass(frozen=True, slots=True)
class Candidate:
    """What would explain these ledgers. `members`: of a rack, its bookies that are hit."""

    kind: CauseKind
    subject: str
    ledgers: Ids
    members: tuple[BookieId, ...] = ()
    period: Period | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """A candidate, and the ledgers that belong to it because nothing stronger explained them."""

    candidate: Candidate
    own: Ids


def choose(
    hits: Hits, locations: Mapping[BookieId, str], births: Births, all_in: AllIn, *, replication_disabled: bool
) -> list[Chosen]:
    """The causes, the one with most ledgers first. `births`: when the affected ledgers were created.

    Costs a sort of the affected ledgers for each bookie, and at most two calls of `all_in` a family of findings.
    """
    left = _Left(hits.affected())
    bookies = {bookie: hits.of_bookie(bookie) for bookie in hits.bookies()}
    plain = [Candidate(CauseKind.BOOKIE, bookie, ids) for bookie, ids in bookies.items()]
    plain += _racks(bookies, locations)
    if hits.crowded is not None:
        plain.append(Candidate(CauseKind.RACK, *hits.crowded))
    chosen = left.explain([*plain, *_periods(hits, births, all_in, plain, None)])
    chosen += left.explain(_stuck_marks(hits, replication_disabled))
    chosen += left.explain(_periods(hits, births, all_in, plain, left.ledgers()))
    return sorted(chosen, key=lambda one: -len(one.own))


class _Left:
    """The affected ledgers that no cause explains yet."""

    def __init__(self, affected: Ids) -> None:
        self._affected = affected
        self._open: npt.NDArray[np.bool_] = np.ones(len(affected), bool)

    def ledgers(self) -> Ids:
        return self._affected[self._open]

    def explain(self, candidates: Iterable[Candidate]) -> list[Chosen]:
        """Take what explains most of what is left, again and again. A gain only falls, so it is counted anew when its turn
        comes; ends because each candidate leaves the heap or is chosen."""
        order = list(CauseKind)
        waiting: list[tuple[int, int, str, int, Candidate]] = [
            (-len(one.ledgers), order.index(one.kind), one.subject, number, one) for number, one in enumerate(candidates)
        ]
        heapq.heapify(waiting)
        chosen = []
        while waiting:
            believed, place, subject, number, one = heapq.heappop(waiting)
            at = np.searchsorted(self._affected, one.ledgers)
            at = at[self._open[at]]
            if len(at) < CAUSE_LEDGERS_MIN:
                continue
            if len(at) < -believed:
                heapq.heappush(waiting, (-len(at), place, subject, number, one))
                continue
            self._open[at] = False
            chosen.append(Chosen(one, self._affected[at]))
        return chosen


def _racks(bookies: Mapping[BookieId, Ids], locations: Mapping[BookieId, str]) -> Iterator[Candidate]:
    """Racks of which two bookies are causes, where the other racks are hit less."""
    counts = {bookie: len(bookies.get(bookie, ())) for bookie in locations}
    for rack in sorted(set(locations.values())):
        here = {bookie: n for bookie, n in counts.items() if locations[bookie] == rack}
        elsewhere = [n for bookie, n in counts.items() if bookie not in here]
        enough = max(CAUSE_LEDGERS_MIN, RACK_MEMBER_SHARE_MIN * max(here.values()))
        members = tuple(sorted(bookie for bookie, n in here.items() if n >= enough))
        if len(members) > 1 and elsewhere and _mean(here.values()) >= RACK_CONTRAST_MIN * _mean(elsewhere):
            yield Candidate(CauseKind.RACK, rack, _union(bookies[bookie] for bookie in members), members)


def _periods(hits: Hits, births: Births, all_in: AllIn, plain: Sequence[Candidate], only: Ids | None) -> Iterator[Candidate]:
    """For each family of findings the creation period in which most ledgers are hit; `only`: of these ledgers."""
    for family in (Family.ENTRY, Family.PLACEMENT, Family.MARK, Family.METADATA):
        ids = hits.of_family(family)
        ids = ids if only is None else np.intersect1d(ids, only, assume_unique=True)
        while (reason := _plainer_reason(ids, plain)) is not None:  # ends: each reason takes half of the ledgers away
            ids = np.setdiff1d(ids, reason, assume_unique=True)
        found = period(births.times_of(ids), all_in) if len(ids) >= PERIOD_LEDGERS_MIN else None
        if found is not None:
            within = births.within(ids, found)
            if _plainer_reason(within, plain) is None:
                yield Candidate(CauseKind.PERIOD, found.name(), within, period=found)


def _plainer_reason(ids: Ids, plain: Sequence[Candidate]) -> Ids | None:
    """The ledgers of a bookie or rack that explains half of these, if one does."""
    enough = PERIOD_BOOKIE_SHARE_MAX * len(ids)
    large = (one.ledgers for one in plain if len(ids) and len(one.ledgers) >= enough)
    return next((mine for mine in large if np.isin(ids, mine, assume_unique=True).sum() >= enough), None)


def _stuck_marks(hits: Hits, replication_disabled: bool) -> Iterator[Candidate]:
    marked = hits.of_family(Family.MARK)
    if replication_disabled and len(marked):
        yield Candidate(CauseKind.AUTORECOVERY, "disabled", marked)
        return
    for holder, ids in sorted(hits.locked.items()):
        yield Candidate(CauseKind.WORKER, holder, np.intersect1d(ids, marked, assume_unique=True))


def _mean(counts: Collection[int]) -> float:
    return sum(counts) / len(counts)


def _union(parts: Iterable[Ids]) -> Ids:
    kept = list(parts)
    return np.unique(np.concatenate(kept)) if kept else np.empty(0, np.int64)

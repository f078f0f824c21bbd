"""Judge placement: try every place where a bookie without location could stand.

Each rule (`second_checker.placement_rules`) is over places that are all known. A write set fails if
it fails wherever its unplaced members are, holds if it holds wherever they are, and is unknown
otherwise. Three cases are not judged (None): more than UNPLACED_MAX unplaced members, unless the
few places tried differ in outcome; more than TRIES_MAX tries; and, under the zone-aware policy, an
unplaced bookie that stands twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, product
from typing import TypeAlias

from auditor.model.cluster import Surroundings
from auditor.model.evidence import Terms
from auditor.model.facts import PlacementFacts, WriteSetFacts
from auditor.model.identity import BookieId
from auditor.model.ledger import LedgerMetadata, LedgerState
from auditor.model.placement import Adherence, PlacementRule, Policy
from auditor.second_checker.placement_rules import (
    DEFAULT_PLACE,
    WRITE_SET_RULES,
    Places,
    candidate_places,
    span_regions,
)
from auditor.second_checker.reasons import WriteSet, reason
from auditor.second_checker.recorded import read_recorded

UNPLACED_MAX = 2
"""Members without location whose places are tried in all combinations; for more, a few are."""
TRIES_MAX = 1_000_000
"""Members placed, over all combinations, while one ensemble is tried: a second or two.

An ensemble of some tens comes near it if two members of a write set are unplaced.
"""
SETS_MEMBERS_MAX = 100_000
"""Members of all write sets together above which neither checker judges."""
ENSEMBLES_KEPT_MAX = 4_096
"""Ensembles whose trial is cached: some MB."""


def judges(rule: PlacementRule, metadata: LedgerMetadata) -> bool:
    """Return whether the policy demands anything of this ledger; only closed ledgers are judged."""
    return metadata.state is LedgerState.CLOSED and _asks_for_something(rule)


def _asks_for_something(rule: PlacementRule) -> bool:
    """Return whether an ensemble can fail the policy.

    Java's region-aware policy never fails. Durability in one region demands nothing.
    """
    if rule.policy is Policy.REGION:
        return not rule.java_compatible and rule.repp_minimum_regions_for_durability > 1
    return rule.policy is not Policy.NONE


def adherence(
    ensemble: tuple[BookieId, ...],
    write_quorum: int,
    ack_quorum: int,
    rule: PlacementRule,
    around: Surroundings,
) -> Adherence | None:
    """Return how one ensemble adheres; None if that is not judged."""
    if not _asks_for_something(rule):
        return Adherence.STRICT
    return trial(ensemble, write_quorum, ack_quorum, rule, around).adherence


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of trying an ensemble.

    `deciding`: where the write sets begin that are as bad as the whole, ascending (None: the
    ensemble as a whole). `left_open`: where those begin that are too open to try. Both describe an
    ensemble at fault; with another adherence nobody reads them, and they may be empty.
    """

    adherence: Adherence | None
    deciding: tuple[int | None, ...] = ()
    left_open: frozenset[int | None] = frozenset()


def trial(
    ensemble: tuple[BookieId, ...],
    write_quorum: int,
    ack_quorum: int,
    rule: PlacementRule,
    around: Surroundings,
) -> Trial:
    """Return what comes of trying an ensemble under a policy that it can fail."""
    places = tuple((bookie, *_place(bookie, rule, around)) for bookie in dict.fromkeys(ensemble))
    return _trial(ensemble, write_quorum, ack_quorum, rule, places)


def _place(bookie: BookieId, rule: PlacementRule, around: Surroundings) -> tuple[bool, str | None]:
    """Return (whether the bookie's place is known, the place where it counts)."""
    assigned = (around.location_of(bookie) or "").rstrip("/")
    if not rule.java_compatible:
        return bool(assigned), assigned or None
    if rule.policy is Policy.RACK:
        return True, (assigned or DEFAULT_PLACE[Policy.RACK]) if bookie in around.writable else None
    if bookie in around.writable | around.readonly:
        return True, assigned or DEFAULT_PLACE[Policy.ZONE]
    return True, DEFAULT_PLACE[
        Policy.REGION
    ]  # Java's base class resolves unregistered bookies to this


WRITE_SETS_SHOWN_MAX = 5
"""Write sets at fault that a finding shows; the rest is counted."""


def placement_facts(
    ensemble: tuple[BookieId, ...], metadata: LedgerMetadata, terms: Terms
) -> tuple[PlacementFacts, frozenset[int | None]]:
    """Return the facts about an ensemble at fault, and where write sets too open to try begin.

    `shown` has the first deciding write sets that could be tried.
    """
    rule, around, size = terms.placement, terms.around, len(ensemble)
    tried = trial(ensemble, metadata.write_quorum, metadata.ack_quorum, rule, around)
    is_soft, shown = tried.adherence is Adherence.SOFT, tried.deciding[:WRITE_SETS_SHOWN_MAX]
    facts = PlacementFacts(
        rule.policy.value,
        rule.java_compatible,
        tuple(
            (java_name, str(value).lower()) for java_name, value in _PARAMETERS[rule.policy](rule)
        ),
        size if metadata.write_quorum < size else 1,
        len(tried.deciding),
        tuple(_write_set(at, ensemble, metadata, terms, is_soft=is_soft) for at in shown),
        tuple(bookie for bookie in dict.fromkeys(ensemble) if not around.location_of(bookie)),
        read_recorded(metadata),
    )
    return facts, tried.left_open


def _write_set(
    at: int | None,
    ensemble: tuple[BookieId, ...],
    metadata: LedgerMetadata,
    terms: Terms,
    *,
    is_soft: bool,
) -> WriteSetFacts:
    """Return the facts about one write set: its members, their places, and why it is at fault."""
    size, rule = len(ensemble), terms.placement
    length = size if at is None else min(metadata.write_quorum, size)
    members = tuple(ensemble[((at or 0) + step) % size] for step in range(length))
    places = {member: _place(member, rule, terms.around)[1] for member in members}
    one = WriteSet(
        members, places, metadata.write_quorum, metadata.ack_quorum, rule, is_whole=at is None
    )
    return WriteSetFacts(
        at, members, tuple(places[member] for member in members), reason(one, is_soft=is_soft)
    )


_PARAMETERS: dict[Policy, Callable[[PlacementRule], list[tuple[str, int | bool]]]] = {
    Policy.RACK: lambda rule: [
        ("minNumRacksPerWriteQuorum", rule.min_num_racks_per_write_quorum),
        ("enforceMinNumRacksPerWriteQuorum", rule.enforce_min_num_racks_per_write_quorum),
    ],
    Policy.ZONE: lambda rule: [
        ("minNumZonesPerWriteQuorum", rule.min_num_zones_per_write_quorum),
        ("desiredNumZonesPerWriteQuorum", rule.desired_num_zones_per_write_quorum),
    ],
    Policy.REGION: lambda rule: [
        ("reppMinimumRegionsForDurability", rule.repp_minimum_regions_for_durability)
    ],
}


@lru_cache(ENSEMBLES_KEPT_MAX)
def _trial(
    ensemble: tuple[BookieId, ...],
    write_quorum: int,
    ack_quorum: int,
    rule: PlacementRule,
    places: tuple[tuple[BookieId, bool, str | None], ...],
) -> Trial:
    if not ensemble:
        return Trial(Adherence.FAIL, (None,))
    if rule.policy is Policy.ZONE:
        if write_quorum == 0:
            return Trial(Adherence.UNKNOWN)  # Java divides by it
        if len(ensemble) % write_quorum or write_quorum <= rule.min_num_zones_per_write_quorum:
            return Trial(Adherence.FAIL, (None,))
    known = {bookie: place for bookie, is_known, place in places if is_known}
    size = len(ensemble)
    outcomes: dict[int | None, Adherence | None] = {}
    if rule.policy is Policy.REGION:
        outcomes[None] = _try_everywhere(
            ensemble,
            known,
            rule,
            lambda members, there: span_regions(members, there, rule),
            TRIES_MAX,
        )
    begins, length = (range(size), write_quorum) if write_quorum < size else (range(1), size)
    if len(begins) * length > SETS_MEMBERS_MAX:
        return _outcome({**outcomes, -1: Adherence.UNKNOWN})
    sets = {at: tuple(ensemble[(at + step) % size] for step in range(length)) for at in begins}
    different, window = set(sets.values()), WRITE_SET_RULES[rule.policy]

    def adherence_of(members: tuple[BookieId, ...], there: Places) -> Adherence:
        return window(members, there, write_quorum, ack_quorum, rule)

    found = {
        members: _try_everywhere(members, known, rule, adherence_of, TRIES_MAX // len(different))
        for members in different
    }
    return _outcome({**outcomes, **{at: found[members] for at, members in sets.items()}})


def _outcome(outcomes: Mapping[int | None, Adherence | None]) -> Trial:
    """Return the worst of the write sets' outcomes, which are keyed by where the sets begin."""
    left_open = frozenset(at for at, one in outcomes.items() if one is None)
    worst = min(one for one in (*outcomes.values(), Adherence.STRICT) if one is not None)
    if left_open and worst is not Adherence.FAIL:
        return Trial(None)
    return Trial(worst, tuple(at for at, one in outcomes.items() if one is worst), left_open)


_Concrete: TypeAlias = Callable[[tuple[BookieId, ...], Places], Adherence]


def _try_everywhere(
    members: tuple[BookieId, ...],
    everywhere: Places,
    rule: PlacementRule,
    concrete: _Concrete,
    tries_max: int,
) -> Adherence | None:
    """Return the worst outcome over all places of the unplaced members.

    It is UNKNOWN if some fail and others do not, None if that is too open or exceeds `tries_max`.
    """
    known = {member: everywhere[member] for member in members if member in everywhere}
    times = Counter(members)
    open_ones = sorted(times.keys() - known.keys())
    if rule.policy is Policy.ZONE and any(times[member] > 1 for member in open_ones):
        return None
    few = len(open_ones) <= UNPLACED_MAX
    candidates = (
        sorted(candidate_places(len(open_ones) if few else 1, known, rule)) if open_ones else []
    )
    if (len(candidates) ** len(open_ones) if few else len(candidates) + 1) * len(
        members
    ) > tries_max:
        return None
    outcomes = {
        concrete(members, {**known, **there}) for there in _everywhere(open_ones, candidates)
    }
    if Adherence.FAIL in outcomes and len(outcomes) > 1:
        return Adherence.UNKNOWN
    if len(open_ones) > UNPLACED_MAX:
        return None
    return min(outcomes)


def _everywhere(open_ones: list[BookieId], candidates: list[str]) -> Iterator[Places]:
    """Yield all combinations of places for a few members.

    Many members are placed all at the same place, for each place, or each at a new one.
    """
    if len(open_ones) <= UNPLACED_MAX:
        combined: Iterable[tuple[str, ...]] = product(candidates, repeat=len(open_ones))
    else:
        new = tuple(f"/new {number}/u1" for number in range(len(open_ones)))
        combined = chain(((place,) * len(open_ones) for place in candidates), [new])
    for chosen in combined:
        yield dict(zip(open_ones, chosen, strict=True))

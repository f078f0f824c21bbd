"""Placement as the second checker sees it: every place where a member without location could stand is tried.

Each rule is the loop of the reference (placement-policies.md sections 4 to 6) over places that are all known. A write set fails
if it fails wherever its unplaced members are, holds if it holds wherever they are, and is unknown otherwise. Not judged (None):
ensembles with more than UNPLACED_MAX unplaced members for which the places tried leave it open, or where trying takes too long,
and under the zone-aware policy those in which an unplaced bookie stands twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, combinations, product
from typing import TypeAlias

from auditor.model.cluster import Surroundings
from auditor.model.evidence import Terms
from auditor.model.facts import PlacementFacts, WriteSetFacts
from auditor.model.identity import BookieId
from auditor.model.ledger import LedgerMetadata, LedgerState
from auditor.model.placement import Adherence, PlacementRule, Policy
from auditor.second_checker.reasons import DEFAULT_RACK, DEFAULT_REGION, DEFAULT_ZONE, WriteSet, reason
from auditor.second_checker.recorded import recorded

UNPLACED_MAX = 2
"""Members of one write set (or ensemble) without location whose places are tried in all combinations; of more, a few tell."""
TRIES_MAX = 1_000_000
"""Members placed while one ensemble is tried, all its write sets and combinations together: a second or two. Ensembles of some
tens, of which two members of a write set are unplaced, come near it."""
SETS_MEMBERS_MAX = 100_000
"""Members of all write sets together above which neither checker judges."""
ENSEMBLES_KEPT_MAX = 4_096
"""Ensembles remembered with what was found of them: some MB."""

Places: TypeAlias = Mapping[BookieId, str | None]
"""Where each member is; None: it counts for nothing (Java's rack-aware policy on a bookie that is not writable)."""

_DEFAULT = {Policy.RACK: DEFAULT_RACK, Policy.ZONE: DEFAULT_ZONE, Policy.REGION: DEFAULT_REGION}


def judges(rule: PlacementRule, metadata: LedgerMetadata) -> bool:
    """Whether there is anything to hold a ledger to."""
    return metadata.state is LedgerState.CLOSED and _asks_for_something(rule)


def _asks_for_something(rule: PlacementRule) -> bool:
    """Java's region-aware policy never fails; durability in one region is no demand."""
    if rule.policy is Policy.REGION:
        return not rule.java_compatible and rule.repp_minimum_regions_for_durability > 1
    return rule.policy is not Policy.NONE


def adherence(
    ensemble: tuple[BookieId, ...], write_quorum: int, ack_quorum: int, rule: PlacementRule, around: Surroundings
) -> Adherence | None:
    """How one ensemble adheres; None where that is not judged."""
    if not _asks_for_something(rule):
        return Adherence.STRICT
    return trial(ensemble, write_quorum, ack_quorum, rule, around).adherence


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of trying an ensemble. `deciding`: where the write sets begin that are as bad as the whole (None: the ensemble
    as a whole), ascending; `left_open`: where those begin that are too open to be tried."""

    adherence: Adherence | None
    deciding: tuple[int | None, ...] = ()
    left_open: frozenset[int | None] = frozenset()


def trial(
    ensemble: tuple[BookieId, ...], write_quorum: int, ack_quorum: int, rule: PlacementRule, around: Surroundings
) -> Trial:
    """Try an ensemble under a policy that asks for something."""
    places = tuple((bookie, *_place(bookie, rule, around)) for bookie in dict.fromkeys(ensemble))
    return _trial(ensemble, write_quorum, ack_quorum, rule, places)


def _place(bookie: BookieId, rule: PlacementRule, around: Surroundings) -> tuple[bool, str | None]:
    """(whether it is known where the bookie counts as being, where)."""
    assigned = (around.location_of(bookie) or "").rstrip("/")
    if not rule.java_compatible:
        return bool(assigned), assigned or None
    if rule.policy is Policy.RACK:
        return True, (assigned or _DEFAULT[Policy.RACK]) if bookie in around.writable else None
    if bookie in around.writable | around.readonly:
        return True, assigned or _DEFAULT[Policy.ZONE]
    return True, _DEFAULT[Policy.REGION]  # Java's base class resolves what is not registered to this


WRITE_SETS_SHOWN_MAX = 5
"""Write sets at fault that a finding shows; the rest is counted."""


def placement_facts(
    ensemble: tuple[BookieId, ...], metadata: LedgerMetadata, terms: Terms
) -> tuple[PlacementFacts, frozenset[int | None]]:
    """Return what is known of one ensemble at fault, with the write sets that were too open to be tried: where they begin.

    `shown` has the first write sets that decide, as far as they were tried.
    """
    rule, around, size = terms.placement, terms.around, len(ensemble)
    tried = trial(ensemble, metadata.write_quorum, metadata.ack_quorum, rule, around)
    is_soft, shown = tried.adherence is Adherence.SOFT, tried.deciding[:WRITE_SETS_SHOWN_MAX]
    facts = PlacementFacts(
        rule.policy.value,
        rule.java_compatible,
        tuple((java_name, str(value).lower()) for java_name, value in _PARAMETERS[rule.policy](rule)),
        size if metadata.write_quorum < size else 1,
        len(tried.deciding),
        tuple(_write_set(at, ensemble, metadata, terms, is_soft=is_soft) for at in shown),
        tuple(bookie for bookie in dict.fromkeys(ensemble) if not around.location_of(bookie)),
        recorded(metadata),
    )
    return facts, tried.left_open


def _write_set(
    at: int | None, ensemble: tuple[BookieId, ...], metadata: LedgerMetadata, terms: Terms, *, is_soft: bool
) -> WriteSetFacts:
    """Return one write set with the places of its members and why it is at fault."""
    size, rule = len(ensemble), terms.placement
    length = size if at is None else min(metadata.write_quorum, size)
    members = tuple(ensemble[((at or 0) + step) % size] for step in range(length))
    places = {member: _place(member, rule, terms.around)[1] for member in members}
    one = WriteSet(members, places, metadata.write_quorum, metadata.ack_quorum, rule, is_whole=at is None)
    return WriteSetFacts(at, members, tuple(places[member] for member in members), reason(one, is_soft=is_soft))


_PARAMETERS: dict[Policy, Callable[[PlacementRule], list[tuple[str, int | bool]]]] = {
    Policy.RACK: lambda rule: [
        ("minNumRacksPerWriteQuorum", rule.min_num_racks_per_write_quorum),
        ("enforceMinNumRacksPerWriteQuorum", rule.enforce_min_num_racks_per_write_quorum),
    ],
    Policy.ZONE: lambda rule: [
        ("minNumZonesPerWriteQuorum", rule.min_num_zones_per_write_quorum),
        ("desiredNumZonesPerWriteQuorum", rule.desired_num_zones_per_write_quorum),
    ],
    Policy.REGION: lambda rule: [("reppMinimumRegionsForDurability", rule.repp_minimum_regions_for_durability)],
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
            return Trial(Adherence.UNKNOWN, (None,))  # Java divides by it
        if len(ensemble) % write_quorum or write_quorum <= rule.min_num_zones_per_write_quorum:
            return Trial(Adherence.FAIL, (None,))
    known = {bookie: place for bookie, is_known, place in places if is_known}
    size = len(ensemble)
    outcomes: dict[int | None, Adherence | None] = {}
    if rule.policy is Policy.REGION:
        outcomes[None] = _tried(ensemble, known, rule, lambda members, there: _spans(members, there, rule), TRIES_MAX)
    begins, length = (range(size), write_quorum) if write_quorum < size else (range(1), size)
    if len(begins) * length > SETS_MEMBERS_MAX:
        return _outcome({**outcomes, -1: Adherence.UNKNOWN})
    sets = {at: tuple(ensemble[(at + step) % size] for step in range(length)) for at in begins}
    different, window = set(sets.values()), _WINDOW[rule.policy]

    def judged(members: tuple[BookieId, ...], there: Places) -> Adherence:
        return window(members, there, write_quorum, ack_quorum, rule)

    found = {members: _tried(members, known, rule, judged, TRIES_MAX // len(different)) for members in different}
    return _outcome({**outcomes, **{at: found[members] for at, members in sets.items()}})


def _outcome(outcomes: Mapping[int | None, Adherence | None]) -> Trial:
    """Return the worst of what came of each write set, by where it begins."""
    left_open = frozenset(at for at, one in outcomes.items() if one is None)
    worst = min(one for one in (*outcomes.values(), Adherence.STRICT) if one is not None)
    if left_open and worst is not Adherence.FAIL:
        return Trial(None, (), left_open)
    return Trial(worst, tuple(at for at, one in outcomes.items() if one is worst), left_open)


_Concrete: TypeAlias = Callable[[tuple[BookieId, ...], Places], Adherence]


def _tried(
    members: tuple[BookieId, ...], everywhere: Places, rule: PlacementRule, concrete: _Concrete, tries_max: int
) -> Adherence | None:
    """The rule with the unplaced members everywhere they could be. None also where that takes more than `tries_max` members."""
    known = {member: everywhere[member] for member in members if member in everywhere}
    times = Counter(members)
    open_ones = sorted(times.keys() - known.keys())
    if rule.policy is Policy.ZONE and any(times[member] > 1 for member in open_ones):
        return None
    few = len(open_ones) <= UNPLACED_MAX
    candidates = sorted(_candidates(len(open_ones) if few else 1, known, rule)) if open_ones else []
    if (len(candidates) ** len(open_ones) if few else len(candidates) + 1) * len(members) > tries_max:
        return None
    outcomes = {concrete(members, {**known, **there}) for there in _everywhere(open_ones, candidates)}
    if Adherence.FAIL in outcomes and len(outcomes) > 1:
        return Adherence.UNKNOWN
    if len(open_ones) > UNPLACED_MAX:
        return None
    return min(outcomes)


def _everywhere(open_ones: list[BookieId], candidates: list[str]) -> Iterator[Places]:
    """All combinations of few; of many, all at one place, or each at a new one."""
    if len(open_ones) <= UNPLACED_MAX:
        combined: Iterable[tuple[str, ...]] = product(candidates, repeat=len(open_ones))
    else:
        new = tuple(f"/new {number}/u1" for number in range(len(open_ones)))
        combined = chain(((place,) * len(open_ones) for place in candidates), [new])
    for chosen in combined:
        yield dict(zip(open_ones, chosen, strict=True))


def _candidates(count: int, known: Places, rule: PlacementRule) -> set[str]:
    """Every place that makes a difference: where others are, in another domain of theirs, somewhere new, the default."""
    there = {place for place in known.values() if place is not None}
    new = {f"/new {number}" for number in range(count)}
    if rule.policy is Policy.RACK:
        return there | new | {_DEFAULT[Policy.RACK]}
    firsts = {place.strip("/").split("/")[0] for place in there}
    tops = {f"/{first}" for first in firsts} | new
    if rule.policy is Policy.REGION:
        return {f"{top}/u1" for top in tops} | {_DEFAULT[Policy.REGION]}
    return there | {f"{top}/new {number}" for top in tops for number in range(count)} | {_DEFAULT[Policy.ZONE]}


def _rack(members: tuple[BookieId, ...], there: Places, write: int, ack: int, rule: PlacementRule) -> Adherence:
    racks = {there[member] for member in members} - {None}
    if rule.enforce_min_num_racks_per_write_quorum and _DEFAULT[Policy.RACK] in racks:
        return Adherence.FAIL
    return Adherence.FAIL if len(racks) < min(write, rule.min_num_racks_per_write_quorum) else Adherence.STRICT


def _zone(members: tuple[BookieId, ...], there: Places, write: int, ack: int, rule: PlacementRule) -> Adherence:
    domains: dict[str, list[str]] = {}
    for member in members:
        place = there[member] or ""
        parts = [part for part in place.split("/") if part]
        if len(parts) != 2 or place == _DEFAULT[Policy.ZONE]:
            return Adherence.FAIL
        domains.setdefault(parts[0], []).append(parts[1])
    crowded = any(len(of_zone) > 1 and len(set(of_zone)) == 1 for of_zone in domains.values())
    if crowded or len(domains) < rule.min_num_zones_per_write_quorum:
        return Adherence.FAIL
    return Adherence.SOFT if len(domains) < min(write, rule.desired_num_zones_per_write_quorum) else Adherence.STRICT


def _region(members: tuple[BookieId, ...], there: Places, write: int, ack: int, rule: PlacementRule) -> Adherence:
    """No m - 1 regions may acknowledge an entry alone: every choice of them is counted."""
    regions = [_region_of(there[member]) for member in members]
    few = min(rule.repp_minimum_regions_for_durability - 1, len(set(regions)))
    alone = any(sum(region in chosen for region in regions) >= ack for chosen in combinations(sorted(set(regions)), few))
    return Adherence.FAIL if alone else Adherence.STRICT


def _spans(members: tuple[BookieId, ...], there: Places, rule: PlacementRule) -> Adherence:
    regions = {_region_of(there[member]) for member in members}
    return Adherence.FAIL if len(regions) < rule.repp_minimum_regions_for_durability else Adherence.STRICT


def _region_of(place: str | None) -> str:
    if place is None or place == _DEFAULT[Policy.REGION]:
        return "UnknownRegion"
    return next(part for part in place.split("/") if part)


_WINDOW = {Policy.RACK: _rack, Policy.ZONE: _zone, Policy.REGION: _region}

"""Placement as the second checker sees it: every place where a member without location could stand is tried.

Each rule is the loop of the reference (placement-policies.md sections 4 to 6) over places that are all known. A write set fails
if it fails wherever its unplaced members are, holds if it holds wherever they are, and is unknown otherwise. Not judged (None):
ensembles with more than UNPLACED_MAX unplaced members for which the places tried leave it open, or where trying takes too long,
and under the zone-aware policy those in which an unplaced bookie stands twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, combinations, product
from typing import TypeAlias

from auditor.model.cluster import Surroundings
from auditor.model.evidence import Terms
from auditor.model.facts import PlacementFacts, WriteSetFacts
from auditor.model.identity import BookieId
from auditor.model.ledger import LedgerMetadata, LedgerState
from auditor.model.placement import Adherence, PlacementRule, Policy

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

_DEFAULT = {
    Policy.RACK: "/default-rack",
    Policy.ZONE: "/default-zone/default-upgradedomain",
    Policy.REGION: "/default-region/default-rack",
}


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
    places = tuple((bookie, *_place(bookie, rule, around)) for bookie in dict.fromkeys(ensemble))
    return _adherence(ensemble, write_quorum, ack_quorum, rule, places)


def _place(bookie: BookieId, rule: PlacementRule, around: Surroundings) -> tuple[bool, str | None]:
    """(whether it is known where the bookie counts as being, where)."""
    assigned = around.locations.get(bookie, "").rstrip("/")
    if not rule.java_compatible:
        return bool(assigned), assigned or None
    if rule.policy is Policy.RACK:
        return True, (assigned or _DEFAULT[Policy.RACK]) if bookie in around.writable else None
    if bookie in around.writable | around.readonly:
        return True, assigned or _DEFAULT[Policy.ZONE]
    return True, _DEFAULT[Policy.REGION]  # Java's base class resolves what is not registered to this


WRITE_SETS_TOLD_MAX = 64
"""Write sets of one ensemble that are laid out for a finding on it; of a larger ensemble none is."""


def placement_facts(ensemble: tuple[BookieId, ...], metadata: LedgerMetadata, terms: Terms) -> PlacementFacts:
    """Return what is known of one ensemble under the policy: each write set with its members and their places."""
    rule, around, size = terms.placement, terms.around, len(ensemble)
    begins, length = (size, metadata.write_quorum) if metadata.write_quorum < size else (1, size)
    place_of = {bookie: _place(bookie, rule, around)[1] for bookie in ensemble}
    members = [
        tuple(ensemble[(at + step) % size] for step in range(length))
        for at in range(begins if begins <= WRITE_SETS_TOLD_MAX else 0)
    ]
    return PlacementFacts(
        rule.policy.value,
        rule.java_compatible,
        tuple((java_name, str(value).lower()) for java_name, value in _PARAMETERS[rule.policy](rule)),
        begins,
        0,
        tuple(WriteSetFacts(at, one, tuple(place_of[b] for b in one), "") for at, one in enumerate(members)),
        tuple(bookie for bookie in dict.fromkeys(ensemble) if not around.locations.get(bookie)),
        "",
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
    Policy.REGION: lambda rule: [("reppMinimumRegionsForDurability", rule.repp_minimum_regions_for_durability)],
}


@lru_cache(ENSEMBLES_KEPT_MAX)
def _adherence(
    ensemble: tuple[BookieId, ...],
    write_quorum: int,
    ack_quorum: int,
    rule: PlacementRule,
    places: tuple[tuple[BookieId, bool, str | None], ...],
) -> Adherence | None:
    if not ensemble:
        return Adherence.FAIL
    if rule.policy is Policy.ZONE:
        if write_quorum == 0:
            return Adherence.UNKNOWN  # Java divides by it
        if len(ensemble) % write_quorum or write_quorum <= rule.min_num_zones_per_write_quorum:
            return Adherence.FAIL
    known = {bookie: place for bookie, is_known, place in places if is_known}
    size = len(ensemble)
    outcomes: list[Adherence | None] = []
    if rule.policy is Policy.REGION:
        outcomes.append(_tried(ensemble, known, rule, lambda members, there: _spans(members, there, rule), TRIES_MAX))
    begins, length = (range(size), write_quorum) if write_quorum < size else (range(1), size)
    sets = set[tuple[BookieId, ...]]()
    if len(begins) * length > SETS_MEMBERS_MAX:
        outcomes.append(Adherence.UNKNOWN)
    else:
        sets = {tuple(ensemble[(at + step) % size] for step in range(length)) for at in begins}
    window = _WINDOW[rule.policy]

    def judged(members: tuple[BookieId, ...], there: Places) -> Adherence:
        return window(members, there, write_quorum, ack_quorum, rule)

    outcomes += [_tried(members, known, rule, judged, TRIES_MAX // len(sets)) for members in sets]
    if Adherence.FAIL in outcomes:
        return Adherence.FAIL
    return None if None in outcomes else min(one for one in outcomes if one is not None)


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

"""The rule of each placement policy, as loops over places that are all known.

These are the loops of the reference (placement-policies.md sections 4 to 6).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import TypeAlias

from auditor.model.identity import BookieId
from auditor.model.placement import Adherence, PlacementRule, Policy
from auditor.second_checker.reasons import DEFAULT_RACK, DEFAULT_REGION, DEFAULT_ZONE

Places: TypeAlias = Mapping[BookieId, str | None]
"""Where each member is; None: it counts for nothing (not writable, in Java's rack-aware policy)."""

DEFAULT_PLACE = {
    Policy.RACK: DEFAULT_RACK,
    Policy.ZONE: DEFAULT_ZONE,
    Policy.REGION: DEFAULT_REGION,
}
"""Where each policy puts a bookie that no source locates."""


def candidate_places(count: int, known: Places, rule: PlacementRule) -> set[str]:
    """Return every place that makes a difference.

    These are the places of other members, another domain in their zones, a new place, and the
    default one.
    """
    there = {place for place in known.values() if place is not None}
    new = {f"/new {number}" for number in range(count)}
    if rule.policy is Policy.RACK:
        return there | new | {DEFAULT_PLACE[Policy.RACK]}
    firsts = {place.strip("/").split("/")[0] for place in there}
    tops = {f"/{first}" for first in firsts} | new
    if rule.policy is Policy.REGION:
        return {f"{top}/u1" for top in tops} | {DEFAULT_PLACE[Policy.REGION]}
    return (
        there
        | {f"{top}/new {number}" for top in tops for number in range(count)}
        | {DEFAULT_PLACE[Policy.ZONE]}
    )


def _rack(
    members: tuple[BookieId, ...], there: Places, write: int, ack: int, rule: PlacementRule
) -> Adherence:
    racks = {there[member] for member in members} - {None}
    if rule.enforce_min_num_racks_per_write_quorum and DEFAULT_PLACE[Policy.RACK] in racks:
        return Adherence.FAIL
    return (
        Adherence.FAIL
        if len(racks) < min(write, rule.min_num_racks_per_write_quorum)
        else Adherence.STRICT
    )


def _zone(
    members: tuple[BookieId, ...], there: Places, write: int, ack: int, rule: PlacementRule
) -> Adherence:
    domains: dict[str, list[str]] = {}
    for member in members:
        place = there[member] or ""
        parts = [part for part in place.split("/") if part]
        if len(parts) != 2 or place == DEFAULT_PLACE[Policy.ZONE]:
            return Adherence.FAIL
        domains.setdefault(parts[0], []).append(parts[1])
    crowded = any(len(of_zone) > 1 and len(set(of_zone)) == 1 for of_zone in domains.values())
    if crowded or len(domains) < rule.min_num_zones_per_write_quorum:
        return Adherence.FAIL
    return (
        Adherence.SOFT
        if len(domains) < min(write, rule.desired_num_zones_per_write_quorum)
        else Adherence.STRICT
    )


def _region(
    members: tuple[BookieId, ...], there: Places, write: int, ack: int, rule: PlacementRule
) -> Adherence:
    """Fail if any m - 1 regions can acknowledge an entry alone; every choice of them is counted."""
    regions = [_region_of(there[member]) for member in members]
    few = min(rule.repp_minimum_regions_for_durability - 1, len(set(regions)))
    alone = any(
        sum(region in chosen for region in regions) >= ack
        for chosen in combinations(sorted(set(regions)), few)
    )
    return Adherence.FAIL if alone else Adherence.STRICT


def span_regions(members: tuple[BookieId, ...], there: Places, rule: PlacementRule) -> Adherence:
    """Fail if the whole ensemble is in too few regions."""
    regions = {_region_of(there[member]) for member in members}
    return (
        Adherence.FAIL
        if len(regions) < rule.repp_minimum_regions_for_durability
        else Adherence.STRICT
    )


def _region_of(place: str | None) -> str:
    if place is None or place == DEFAULT_PLACE[Policy.REGION]:
        return "UnknownRegion"
    return next(part for part in place.split("/") if part)


WriteSetRule: TypeAlias = Callable[
    [tuple[BookieId, ...], Places, int, int, PlacementRule], Adherence
]
"""Judges one write set; the numbers are the write quorum and the ack quorum."""

WRITE_SET_RULES: Mapping[Policy, WriteSetRule] = {
    Policy.RACK: _rack,
    Policy.ZONE: _zone,
    Policy.REGION: _region,
}

"""Word why a write set is at fault, in the second checker's own derivation.

A clause states quantities: the places of a write set, how many there are, how many it needs. They
are counted here again, and only for write sets that were found at fault by trying.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auditor.model.identity import BookieId
from auditor.model.placement import PlacementRule, Policy

DEFAULT_RACK = "/default-rack"
DEFAULT_ZONE = "/default-zone/default-upgradedomain"
DEFAULT_REGION = "/default-region/default-rack"


@dataclass(frozen=True, slots=True)
class WriteSet:
    """A write set at fault, with the places of its members. `is_whole`: it is the ensemble."""

    members: tuple[BookieId, ...]
    places: Mapping[BookieId, str | None]
    write_quorum: int
    ack_quorum: int
    rule: PlacementRule
    is_whole: bool = False

    @property
    def known(self) -> list[str]:
        """The places of members that have one, by position."""
        return [place for member in self.members if (place := self.places[member]) is not None]

    @property
    def unplaced(self) -> int:
        """How many of its bookies have no place; always 0 for the Java classes, which skip them."""
        return (
            0
            if self.rule.java_compatible
            else sum(self.places[member] is None for member in set(self.members))
        )


def reason(one: WriteSet, *, is_soft: bool) -> str:
    """Return the clause. `is_soft`: the write set adheres softly; otherwise it fails."""
    if not one.members:
        return "names no bookie"
    if one.rule.policy is Policy.RACK:
        return _rack(one)
    if one.rule.policy is Policy.ZONE:
        return _sizes(one) if one.is_whole else _zone(one, is_soft=is_soft)
    return _span(one) if one.is_whole else _region(one)


def _rack(one: WriteSet) -> str:
    racks = sorted(set(one.known))
    if one.rule.enforce_min_num_racks_per_write_quorum and DEFAULT_RACK in racks:
        return (
            f"has a member in {DEFAULT_RACK}, which does not count as a rack where a minimum is"
            " enforced"
        )
    levels = {len(list(filter(None, rack.split("/")))) for rack in racks}
    mixed = ", at different depths," if len(levels) > 1 else ""
    least = min(one.rule.min_num_racks_per_write_quorum, one.write_quorum)
    return f"has {_count('rack', racks)}{_more(one)}{mixed} and needs {least}"


def _sizes(one: WriteSet) -> str:
    size, least = len(one.members), one.rule.min_num_zones_per_write_quorum
    if size % one.write_quorum:
        return f"has {size} bookies, which is not a multiple of the write quorum {one.write_quorum}"
    return (
        f"has a write quorum of {one.write_quorum}, and it must be more than the {least} zones"
        " needed"
    )


def _zone(one: WriteSet, *, is_soft: bool) -> str:
    domains: dict[str, list[str]] = {}
    for member in one.members:
        place = one.places[member]
        if place is None:
            continue
        parts = list(filter(None, place.split("/")))
        if place == DEFAULT_ZONE or len(parts) != 2:
            other = "but the default location" if place == DEFAULT_ZONE else "(another depth)"
            return f"has {member} at {place}, which is not /zone/upgradeDomain {other}"
        domains.setdefault(parts[0], []).append(parts[1])
    zones = f"has {_count('zone', sorted(domains))}{_more(one)}"
    if is_soft:
        return (
            f"{zones} where {min(one.rule.desired_num_zones_per_write_quorum, one.write_quorum)}"
            " are desired"
        )
    crowded = [
        zone for zone, of_zone in domains.items() if len(of_zone) >= 2 and len(set(of_zone)) == 1
    ]
    if len(crowded) > one.unplaced:  # too few unplaced bookies to relieve every crowded zone
        zone = crowded[0]
        return (
            f"has {len(domains[zone])} members in zone {zone}, all in upgrade domain"
            f" {domains[zone][0]}"
        )
    return f"{zones} and needs {one.rule.min_num_zones_per_write_quorum}"


def _span(one: WriteSet) -> str:
    regions = sorted({_region_of(place) for place in one.known})
    return (
        f"spans {_count('region', regions)}{_more(one)} and needs"
        f" {one.rule.repp_minimum_regions_for_durability}"
    )


def _region(one: WriteSet) -> str:
    copies = Counter(_region_of(place) for place in one.known)
    few = one.rule.repp_minimum_regions_for_durability - 1
    fullest = sorted(copies, key=lambda region: -copies[region])[:few]  # ties keep member order
    held = (
        ", ".join(f"{copies[region]} in {region}" for region in fullest) or "none in a known region"
    )
    where = "any region" if few == 1 else f"any {few} regions together"
    return (
        f"has {held}{_more(one) or ','} and ack quorum {one.ack_quorum} allows"
        f" {max(one.ack_quorum, 1) - 1} in {where}"
    )


def _region_of(place: str) -> str:
    return "UnknownRegion" if place == DEFAULT_REGION else next(filter(None, place.split("/")))


def _count(noun: str, names: Sequence[str]) -> str:
    """Return a number with its names, such as: 2 racks (/r1, /r2)."""
    counted = f"{len(names)} {noun}{'' if len(names) == 1 else 's'}"
    return f"{counted} ({', '.join(names)})" if names else counted


def _more(one: WriteSet) -> str:
    missing = one.unplaced
    return f", {missing} member{'s' if missing > 1 else ''} without location," if missing else ""

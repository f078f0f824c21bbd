"""The requirements of each policy on the members of one write set: racks, zones, or regions.

`auditor.first_checker.placement_rules` judges all write sets of an ensemble by these. Each rule
returns how a window adheres, and a clause that says why it does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from auditor.model.identity import BookieId
from auditor.model.placement import Adherence, PlacementRule, Policy

DEFAULT_RACK = "/default-rack"
DEFAULT_ZONE = "/default-zone/default-upgradedomain"
DEFAULT_REGION = "/default-region/default-rack"
UNKNOWN_REGION = "UnknownRegion"
"""BookKeeper's names: the default locations of its policies, and the region of the last of
these."""

Locations = tuple[str | None, ...]
"""One location per member; None: without location or, in Java's rack policy, not writable."""


@dataclass(frozen=True, slots=True)
class WindowView:
    """What a window is judged by."""

    members: tuple[BookieId, ...]
    locations: Locations
    write_quorum: int
    ack_quorum: int
    rule: PlacementRule

    def known_locations(self) -> list[str]:
        """Return the locations that are known, by position."""
        return [place for place in self.locations if place is not None]

    def unplaced_counts(self) -> dict[BookieId, int]:
        """Return how often each member without location occurs. Empty in Java mode."""
        if self.rule.java_compatible:
            return {}
        return Counter(
            b for b, place in zip(self.members, self.locations, strict=True) if place is None
        )


def _rack(view: WindowView) -> tuple[Adherence, str]:
    """Require min(W, minNumRacksPerWriteQuorum) racks; if enforced, not the default rack."""
    racks, unplaced = set(view.known_locations()), len(view.unplaced_counts())
    need = min(view.write_quorum, view.rule.min_num_racks_per_write_quorum)
    enforce = view.rule.enforce_min_num_racks_per_write_quorum
    if enforce and DEFAULT_RACK in racks:
        why = (
            f"has a member in {DEFAULT_RACK},"
            " which does not count as a rack where a minimum is enforced"
        )
        return Adherence.FAIL, why
    has = f"has {_name_some('rack', racks)}{_without(unplaced)}{_depths(racks)} and needs {need}"
    if len(racks) + unplaced < need:
        return Adherence.FAIL, has
    if max(len(racks), min(1, unplaced)) < need:
        return Adherence.UNKNOWN, has
    if enforce and unplaced:
        return Adherence.UNKNOWN, f"{has}, none of them {DEFAULT_RACK}"
    return Adherence.STRICT, ""


def judge_zone_sizes(
    size: int, write_quorum: int, rule: PlacementRule
) -> tuple[Adherence, str] | None:
    """Return what the zone-aware policy requires of the sizes and does not get, or None."""
    if write_quorum == 0:
        why = (
            "has a write quorum of 0, by which the Java class would divide:"
            " it raises and gives no answer"
        )
        return Adherence.UNKNOWN, why
    if size % write_quorum:
        why = f"has {size} bookies, which is not a multiple of the write quorum {write_quorum}"
        return Adherence.FAIL, why
    if write_quorum <= rule.min_num_zones_per_write_quorum:
        least = rule.min_num_zones_per_write_quorum
        more = f"more than the {least} zones needed"
        return Adherence.FAIL, f"has a write quorum of {write_quorum}, and it must be {more}"
    return None


def _zone(view: WindowView) -> tuple[Adherence, str]:
    """Require enough zones, and two upgrade domains in each zone with two members or more.

    A member without location could be a crowded zone's second upgrade domain, or in a zone of its
    own. In the default zone its window would fail. A window with such a member is never STRICT.
    """
    for member, place in zip(view.members, view.locations, strict=True):
        if place is not None and (place == DEFAULT_ZONE or len(_parts(place)) != 2):
            shape = f"not /zone/upgradeDomain{_or_default(place)}"
            return Adherence.FAIL, f"has {member} at {place}, which is {shape}"
    domains: dict[str, list[str]] = {}
    for place in view.known_locations():
        zone, domain = _parts(place)
        domains.setdefault(zone, []).append(domain)
    unplaced = len(view.unplaced_counts())
    crowded = [zone for zone, some in domains.items() if len(some) > 1 and len(set(some)) < 2]
    least = view.rule.min_num_zones_per_write_quorum
    named = f"has {_name_some('zone', set(domains))}{_without(unplaced)}"
    if len(crowded) > unplaced:
        members, domain = f"{len(domains[crowded[0]])} members", domains[crowded[0]][0]
        why = f"has {members} in zone {crowded[0]}, all in upgrade domain {domain}"
        return Adherence.FAIL, why
    if len(domains) + unplaced - len(crowded) < least:
        return Adherence.FAIL, f"{named} and needs {least}"
    want = min(view.write_quorum, view.rule.desired_num_zones_per_write_quorum)
    if unplaced:
        return Adherence.UNKNOWN, f"{named} and needs {least}"
    if len(domains) < want:
        return Adherence.SOFT, f"{named} where {want} are desired"
    return Adherence.STRICT, ""


def judge_span(view: WindowView) -> tuple[Adherence, str] | None:
    """Return how the ensemble may miss reppMinimumRegionsForDurability regions, or None."""
    regions = {_region(place) for place in view.known_locations()}
    unplaced = len(view.unplaced_counts())
    need = view.rule.repp_minimum_regions_for_durability
    if max(len(regions), min(1, unplaced)) >= need:
        return None
    adherence = Adherence.FAIL if len(regions) + unplaced < need else Adherence.UNKNOWN
    return adherence, f"spans {_name_some('region', regions)}{_without(unplaced)} and needs {need}"


def _region_durability(view: WindowView) -> tuple[Adherence, str]:
    """Require that no m - 1 regions hold ackQuorum members: they could acknowledge an entry alone.

    m is reppMinimumRegionsForDurability. At best, members without location stand in regions of
    their own. At worst, all stand in the fullest region.
    """
    counts = Counter(_region(place) for place in view.known_locations())
    unplaced = view.unplaced_counts()
    few = view.rule.repp_minimum_regions_for_durability - 1
    allowed = view.ack_quorum - 1
    fullest = counts.most_common(few)
    at_best = sum(sorted([*counts.values(), *unplaced.values()], reverse=True)[:few])
    at_worst = sum(count for _, count in fullest) + sum(unplaced.values())
    if at_worst <= allowed:
        return Adherence.STRICT, ""
    found = ", ".join(f"{count} in {region}" for region, count in fullest)
    held = f"{found or 'none in a known region'}{_without(len(unplaced)) or ','}"
    some = "any region" if few == 1 else f"any {few} regions together"
    why = f"has {held} and ack quorum {view.ack_quorum} allows {max(0, allowed)} in {some}"
    return (Adherence.FAIL if at_best > allowed else Adherence.UNKNOWN), why


def _region(place: str) -> str:
    """Return the first part of the path, or BookKeeper's UnknownRegion for its default location."""
    return UNKNOWN_REGION if place == DEFAULT_REGION else _parts(place)[0]


def _parts(place: str) -> list[str]:
    """Return the parts of the path. Never empty: a path of slashes counts as None before."""
    return [part for part in place.split("/") if part]


def _name_some(noun: str, names: set[str]) -> str:
    plural = "" if len(names) == 1 else "s"
    return f"{len(names)} {noun}{plural}" + (f" ({', '.join(sorted(names))})" if names else "")


def _without(unplaced: int) -> str:
    plural = "" if unplaced == 1 else "s"
    return f", {unplaced} member{plural} without location," if unplaced else ""


def _depths(places: set[str]) -> str:
    """Return a clause if depths differ. /r1 and /region/r1 are two racks, which is rarely
    intended.
    """
    return ", at different depths," if len({len(_parts(place)) for place in places}) > 1 else ""


def _or_default(place: str) -> str:
    return " but the default location" if place == DEFAULT_ZONE else " (another depth)"


JUDGE_WINDOW: dict[Policy, Callable[[WindowView], tuple[Adherence, str]]] = {
    Policy.RACK: _rack,
    Policy.ZONE: _zone,
    Policy.REGION: _region_durability,
}
assert {*JUDGE_WINDOW, Policy.NONE} == set(Policy), "each policy has its rule"

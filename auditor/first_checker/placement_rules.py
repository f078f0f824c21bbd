"""Judge whether one ensemble adheres to a placement policy (placement-policies.md sections 2 to 6).

Verified: racks per write set; zones and upgrade domains per write set; regions that could
acknowledge an entry alone. Not verified: Pulsar's isolation groups (no Java class verifies them);
weights; what was true when the ensemble was chosen.

Entry e stands on the positions (e + j) mod E, j < W. There are E write sets: window i begins at
position i. Where W >= E there is only one. A window whose members all have a location is judged
outright. If some have none, the window fails only if it fails wherever these are. It holds only if
it holds wherever they are, including the default location, where BookKeeper puts what it cannot
resolve. All else is UNKNOWN, and so are the windows of an ensemble that has too many. Each window
is judged by itself: two that could each hold may not hold together. That stays UNKNOWN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from auditor.model.cluster import Surroundings
from auditor.model.identity import BookieId
from auditor.model.placement import Adherence, PlacementRule, Policy

WINDOWS_SHOWN_MAX = 5
"""Maximum number of windows kept of one ensemble, enough to see the pattern; the others are
counted."""
WINDOW_MEMBERS_MAX = 100_000
"""Maximum number of members in all windows of one ensemble: some 300 ms. Real ensembles come to
some tens. A znode has room for an ensemble of thousands, which could keep a judge busy for
hours."""
DEFAULT_RACK = "/default-rack"
DEFAULT_ZONE = "/default-zone/default-upgradedomain"
DEFAULT_REGION = "/default-region/default-rack"
UNKNOWN_REGION = "UnknownRegion"
"""BookKeeper's names: the default locations of its policies, and the region of the last of
these."""

Locations = tuple[str | None, ...]
"""One location per member; None: without location or, in Java's rack policy, not writable."""


@dataclass(frozen=True, slots=True)
class Window:
    """A write set that decided the result. `why` is a clause.

    `index` is the position it begins at, None for the whole ensemble.
    """

    index: int | None
    members: tuple[BookieId, ...]
    locations: Locations
    adherence: Adherence
    why: str


@dataclass(frozen=True, slots=True)
class Judged:
    """How one ensemble adheres: as badly as its worst windows.

    `windows` are the first of these, `deciding` counts them all. A STRICT ensemble has none.
    """

    adherence: Adherence
    windows: tuple[Window, ...] = ()
    deciding: int = 0


STRICT = Judged(Adherence.STRICT)


def judge(
    ensemble: tuple[BookieId, ...],
    write_quorum: int,
    ack_quorum: int,
    rule: PlacementRule,
    around: Surroundings,
) -> Judged:
    """Return what BookKeeper's isEnsembleAdheringToPlacementPolicy says, or what it should say.

    It is the former if `rule.java_compatible`. Never raises: any ensemble and any quorums will do,
    also an empty list and quorums below one. Costs the windows times their members, up to
    WINDOW_MEMBERS_MAX: some 10 µs for the usual ensembles, some 100 µs where reasons are given.
    """
    if has_no_rule(rule):
        return STRICT
    if not ensemble:
        return Judged(Adherence.FAIL, (Window(None, (), (), Adherence.FAIL, "names no bookie"),), 1)
    locations = tuple(location(bookie, rule, around) for bookie in ensemble)
    judged = list(_whole(ensemble, locations, write_quorum, rule))
    if not judged or rule.policy is Policy.REGION:
        judged += _windows(ensemble, locations, write_quorum, ack_quorum, rule)
    worst = min((window.adherence for window in judged), default=Adherence.STRICT)
    if worst is Adherence.STRICT:
        return STRICT
    deciding = [window for window in judged if window.adherence is worst]
    return Judged(worst, tuple(deciding[:WINDOWS_SHOWN_MAX]), len(deciding))


def has_no_rule(rule: PlacementRule) -> bool:
    """Return whether every ensemble adheres.

    True without a policy, for Java's region-aware policy (issue #1898), and if one region is
    enough.
    """
    if rule.policy is Policy.REGION:
        return rule.java_compatible or rule.repp_minimum_regions_for_durability <= 1
    return rule.policy is Policy.NONE


def location(bookie: BookieId, rule: PlacementRule, around: Surroundings) -> str | None:
    """Return the location that counts for the bookie: its assigned one, also while it is down.

    None if it has none. Java mode differs. Rack-aware: None unless the bookie is writable now,
    `/default-rack` if it is writable and nothing is assigned. Zone-aware: the default zone if it is
    registered and nothing is assigned. If it is not registered, `/default-region/default-rack`
    counts as a zone of its own (the base class's default for an address that cannot be resolved).
    What Java does with mixed depths depends on which bookie joined first, and cannot be known.
    """
    assigned = (around.location_of(bookie) or "").rstrip("/") or None
    if not rule.java_compatible:
        return assigned
    if rule.policy is Policy.RACK:
        return (assigned or DEFAULT_RACK) if bookie in around.writable else None
    if bookie in around.writable or bookie in around.readonly:
        return assigned or DEFAULT_ZONE
    return DEFAULT_REGION


def windows_count(ensemble_size: int, write_quorum: int) -> int:
    """Return how many write sets differ."""
    return ensemble_size if write_quorum < ensemble_size else 1


def _windows(
    ensemble: Sequence[BookieId],
    locations: Locations,
    write_quorum: int,
    ack_quorum: int,
    rule: PlacementRule,
) -> Iterator[Window]:
    """Yield the windows that are not STRICT."""
    size, judge_one = len(ensemble), _JUDGE_WINDOW[rule.policy]
    count = windows_count(size, write_quorum)
    if count * min(write_quorum, size) > WINDOW_MEMBERS_MAX:
        yield Window(
            None,
            (),
            (),
            Adherence.UNKNOWN,
            f"has {count} write sets of {write_quorum}, too many to look at",
        )
        return
    for index in range(count):
        at = [(index + step) % size for step in range(min(write_quorum, size))]
        view = _View(
            tuple(ensemble[k] for k in at),
            tuple(locations[k] for k in at),
            write_quorum,
            ack_quorum,
            rule,
        )
        adherence, why = judge_one(view)
        if adherence is not Adherence.STRICT:
            yield Window(index, view.members, view.locations, adherence, why)


@dataclass(frozen=True, slots=True)
class _View:
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
        """Return how often each member without location stands here. Empty in Java mode."""
        if self.rule.java_compatible:
            return {}
        return Counter(
            b for b, place in zip(self.members, self.locations, strict=True) if place is None
        )


def _whole(
    ensemble: tuple[BookieId, ...], locations: Locations, write_quorum: int, rule: PlacementRule
) -> Iterator[Window]:
    """Yield the whole ensemble as a window, if its size or the regions it spans already decide."""
    said: tuple[Adherence, str] | None = None
    if rule.policy is Policy.ZONE:
        said = _zone_sizes(len(ensemble), write_quorum, rule)
    elif rule.policy is Policy.REGION:
        said = _span(_View(ensemble, locations, write_quorum, 0, rule))
    if said is not None:
        yield Window(None, ensemble, locations, *said)


def _rack(view: _View) -> tuple[Adherence, str]:
    """Require min(W, minNumRacksPerWriteQuorum) racks; if enforced, not the default rack."""
    racks, unplaced = set(view.known_locations()), len(view.unplaced_counts())
    need = min(view.write_quorum, view.rule.min_num_racks_per_write_quorum)
    enforce = view.rule.enforce_min_num_racks_per_write_quorum
    if enforce and DEFAULT_RACK in racks:
        return (
            Adherence.FAIL,
            (
                f"has a member in {DEFAULT_RACK}, which does not count as a rack where a minimum is"
                " enforced"
            ),
        )
    has = f"has {_name_some('rack', racks)}{_without(unplaced)}{_depths(racks)} and needs {need}"
    if len(racks) + unplaced < need:
        return Adherence.FAIL, has
    if max(len(racks), min(1, unplaced)) < need:
        return Adherence.UNKNOWN, has
    if enforce and unplaced:
        return Adherence.UNKNOWN, f"{has}, none of them {DEFAULT_RACK}"
    return Adherence.STRICT, ""


def _zone_sizes(size: int, write_quorum: int, rule: PlacementRule) -> tuple[Adherence, str] | None:
    """Return what the zone-aware policy demands of sizes and does not get, or None."""
    if write_quorum == 0:
        return (
            Adherence.UNKNOWN,
            (
                "has a write quorum of 0, by which the Java class would divide: it raises and gives"
                " no answer"
            ),
        )
    if size % write_quorum:
        return (
            Adherence.FAIL,
            f"has {size} bookies, which is no multiple of the write quorum {write_quorum}",
        )
    if write_quorum <= rule.min_num_zones_per_write_quorum:
        least = rule.min_num_zones_per_write_quorum
        return (
            Adherence.FAIL,
            (
                f"has a write quorum of {write_quorum}, and it must be more than the {least} zones"
                " needed"
            ),
        )
    return None


def _zone(view: _View) -> tuple[Adherence, str]:
    """Require enough zones, and two upgrade domains in each zone with two members or more.

    A member without location could be a crowded zone's second upgrade domain, or in its own zone.
    In the default zone its window would fail. A window with such a member is never STRICT.
    """
    for member, place in zip(view.members, view.locations, strict=True):
        if place is not None and (place == DEFAULT_ZONE or len(_parts(place)) != 2):
            return (
                Adherence.FAIL,
                f"has {member} at {place}, which is not /zone/upgradeDomain{_or_default(place)}",
            )
    domains: dict[str, list[str]] = {}
    for place in view.known_locations():
        zone, domain = _parts(place)
        domains.setdefault(zone, []).append(domain)
    unplaced = len(view.unplaced_counts())
    crowded = [
        zone for zone, of_zone in domains.items() if len(of_zone) > 1 and len(set(of_zone)) < 2
    ]
    least, named = (
        view.rule.min_num_zones_per_write_quorum,
        f"has {_name_some('zone', set(domains))}{_without(unplaced)}",
    )
    if len(crowded) > unplaced:
        zone = crowded[0]
        return (
            Adherence.FAIL,
            (
                f"has {len(domains[zone])} members in zone {zone}, all in upgrade domain"
                f" {domains[zone][0]}"
            ),
        )
    if len(domains) + unplaced - len(crowded) < least:
        return Adherence.FAIL, f"{named} and needs {least}"
    want = min(view.write_quorum, view.rule.desired_num_zones_per_write_quorum)
    if unplaced:
        return Adherence.UNKNOWN, f"{named} and needs {least}"
    return (
        (Adherence.STRICT, "")
        if len(domains) >= want
        else (Adherence.SOFT, f"{named} where {want} are desired")
    )


def _span(view: _View) -> tuple[Adherence, str] | None:
    """Return how the ensemble may miss reppMinimumRegionsForDurability regions, else None."""
    regions, unplaced = (
        {_region(place) for place in view.known_locations()},
        len(view.unplaced_counts()),
    )
    need = view.rule.repp_minimum_regions_for_durability
    if max(len(regions), min(1, unplaced)) >= need:
        return None
    adherence = Adherence.FAIL if len(regions) + unplaced < need else Adherence.UNKNOWN
    return adherence, f"spans {_name_some('region', regions)}{_without(unplaced)} and needs {need}"


def _region_durability(view: _View) -> tuple[Adherence, str]:
    """Require that no m - 1 regions hold ackQuorum members: they could acknowledge an entry alone.

    m is reppMinimumRegionsForDurability. At best, members without location stand in regions of
    their own. At worst, all stand in the fullest region.
    """
    counts, unplaced = (
        Counter(_region(place) for place in view.known_locations()),
        view.unplaced_counts(),
    )
    few = view.rule.repp_minimum_regions_for_durability - 1
    allowed = view.ack_quorum - 1
    fullest = counts.most_common(few)
    at_best = sum(sorted([*counts.values(), *unplaced.values()], reverse=True)[:few])
    at_worst = sum(count for _, count in fullest) + sum(unplaced.values())
    if at_worst <= allowed:
        return Adherence.STRICT, ""
    held = (
        ", ".join(f"{count} in {region}" for region, count in fullest) or "none in a known region"
    )
    some = "any region" if few == 1 else f"any {few} regions together"
    why = (
        f"has {held}{_without(len(unplaced)) or ','} and ack quorum {view.ack_quorum} allows"
        f" {max(0, allowed)} in {some}"
    )
    return (Adherence.FAIL if at_best > allowed else Adherence.UNKNOWN), why


def _region(place: str) -> str:
    """Return the first part of the path, or BookKeeper's UnknownRegion for its default location."""
    return UNKNOWN_REGION if place == DEFAULT_REGION else _parts(place)[0]


def _parts(place: str) -> list[str]:
    """Return the parts of the path. Never empty: for `location`, a path of slashes is None."""
    return [part for part in place.split("/") if part]


def _name_some(noun: str, names: set[str]) -> str:
    plural = "" if len(names) == 1 else "s"
    return f"{len(names)} {noun}{plural}" + (f" ({', '.join(sorted(names))})" if names else "")


def _without(unplaced: int) -> str:
    return (
        f", {unplaced} member{'' if unplaced == 1 else 's'} without location," if unplaced else ""
    )


def _depths(places: set[str]) -> str:
    """Return a clause if depths differ. /r1 and /region/r1 are two racks, which is seldom meant."""
    return ", at different depths," if len({len(_parts(place)) for place in places}) > 1 else ""


def _or_default(place: str) -> str:
    return " but the default location" if place == DEFAULT_ZONE else " (another depth)"


_JUDGE_WINDOW: dict[Policy, Callable[[_View], tuple[Adherence, str]]] = {
    Policy.RACK: _rack,
    Policy.ZONE: _zone,
    Policy.REGION: _region_durability,
}
assert {*_JUDGE_WINDOW, Policy.NONE} == set(Policy), "each policy has its rule"

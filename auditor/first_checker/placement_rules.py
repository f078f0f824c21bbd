"""Whether one ensemble adheres to a placement policy, write set by write set (placement-policies.md sections 2 to 6).

Verified: racks a write set; zones and upgrade domains a write set; regions that could acknowledge an entry alone.
Not verified: Pulsar's isolation groups (no Java class verifies them); weights; what was true when the ensemble was chosen.

Entry e stands on the positions (e + j) mod E, j < W: there are E write sets, window i beginning at position i, and only one
where W >= E. A window whose members all have a location is judged outright. Where some have none, the window fails only if it
fails wherever these are, and holds only if it holds wherever they are: also in the default location, where BookKeeper puts
what it cannot resolve. Everything else is UNKNOWN, and so are the windows of an ensemble that has too many to look at. Said of
each window by itself: two windows that each could hold may not be able to hold together, and that stays UNKNOWN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from auditor.model.cluster import Surroundings
from auditor.model.identity import BookieId
from auditor.model.placement import Adherence, PlacementRule, Policy

WINDOWS_SHOWN_MAX = 5
"""Windows kept of one ensemble, at most: enough to see the pattern; the others are counted."""
WINDOW_MEMBERS_MAX = 100_000
"""Members of all windows of one ensemble together, at most, that are looked at: some 300 ms. Real ensembles have a few bookies
and come to some tens; a znode has room for an ensemble of thousands, which could keep a judge busy for hours."""
DEFAULT_RACK = "/default-rack"
DEFAULT_ZONE = "/default-zone/default-upgradedomain"
DEFAULT_REGION = "/default-region/default-rack"
UNKNOWN_REGION = "UnknownRegion"
"""BookKeeper's names: the default locations of its policies, and the region of what is at the default one."""

Locations = tuple[str | None, ...]
"""A location a member: None where it has none (or, as the Java rack policy sees it, where its bookie is not writable)."""


@dataclass(frozen=True, slots=True)
class Window:
    """A write set that decided. `index`: the position it begins at; None: the ensemble as a whole. `why`: a clause."""

    index: int | None
    members: tuple[BookieId, ...]
    locations: Locations
    adherence: Adherence
    why: str


@dataclass(frozen=True, slots=True)
class Judged:
    """How one ensemble adheres: the worst of its windows. `windows`: the first of those that are so bad, `deciding` counts
    them all; both empty where it is STRICT."""

    adherence: Adherence
    windows: tuple[Window, ...] = ()
    deciding: int = 0


STRICT = Judged(Adherence.STRICT)


def judge(
    ensemble: tuple[BookieId, ...], write_quorum: int, ack_quorum: int, rule: PlacementRule, around: Surroundings
) -> Judged:
    """BookKeeper's isEnsembleAdheringToPlacementPolicy, or what it should be (`rule.java_compatible`). Never raises.

    Any ensemble and any quorums will do, also an empty list and quorums below one. Costs the windows times their members, up
    to WINDOW_MEMBERS_MAX: some 10 µs for the usual ensembles, some 100 µs where the reasons have to be told.
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
    """Whether every ensemble adheres: no policy, the region-aware one of Java (issue #1898), or a single region wanted."""
    if rule.policy is Policy.REGION:
        return rule.java_compatible or rule.repp_minimum_regions_for_durability <= 1
    return rule.policy is Policy.NONE


def location(bookie: BookieId, rule: PlacementRule, around: Surroundings) -> str | None:
    """Where the bookie counts as being. Its assigned location, also while it is down; as Java sees it, this:

    rack-aware: None unless it is writable now, `/default-rack` if it is and nothing is assigned. Zone-aware: the default zone
    if it is registered and nothing is assigned; `/default-region/default-rack` if it is not registered, which counts as a
    zone of its own (the base class's default where an address cannot be resolved). What Java does where depths are mixed
    depends on who joined first and cannot be told.
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
    """How many write sets differ."""
    return ensemble_size if write_quorum < ensemble_size else 1


def _windows(
    ensemble: Sequence[BookieId], locations: Locations, write_quorum: int, ack_quorum: int, rule: PlacementRule
) -> Iterator[Window]:
    """The windows that are not STRICT."""
    size, judge_one = len(ensemble), _JUDGE_WINDOW[rule.policy]
    count = windows_count(size, write_quorum)
    if count * min(write_quorum, size) > WINDOW_MEMBERS_MAX:
        yield Window(None, (), (), Adherence.UNKNOWN, f"has {count} write sets of {write_quorum}, too many to look at")
        return
    for index in range(count):
        at = [(index + step) % size for step in range(min(write_quorum, size))]
        view = _View(tuple(ensemble[k] for k in at), tuple(locations[k] for k in at), write_quorum, ack_quorum, rule)
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

    def known(self) -> list[str]:
        """The locations there are, by position."""
        return [place for place in self.locations if place is not None]

    def unplaced(self) -> dict[BookieId, int]:
        """How often each member without location stands here. Where Java judges there is none: it leaves them out."""
        if self.rule.java_compatible:
            return {}
        return Counter(b for b, place in zip(self.members, self.locations, strict=True) if place is None)


def _whole(ensemble: tuple[BookieId, ...], locations: Locations, write_quorum: int, rule: PlacementRule) -> Iterator[Window]:
    """What is to be said of the ensemble before any window is looked at."""
    said: tuple[Adherence, str] | None = None
    if rule.policy is Policy.ZONE:
        said = _zone_sizes(len(ensemble), write_quorum, rule)
    elif rule.policy is Policy.REGION:
        said = _span(_View(ensemble, locations, write_quorum, 0, rule))
    if said is not None:
        yield Window(None, ensemble, locations, *said)


def _rack(view: _View) -> tuple[Adherence, str]:
    """|racks| >= min(W, minNumRacksPerWriteQuorum); none of them the default one, if that is enforced."""
    racks, unplaced = set(view.known()), len(view.unplaced())
    need = min(view.write_quorum, view.rule.min_num_racks_per_write_quorum)
    enforce = view.rule.enforce_min_num_racks_per_write_quorum
    if enforce and DEFAULT_RACK in racks:
        return Adherence.FAIL, f"has a member in {DEFAULT_RACK}, which does not count as a rack where a minimum is enforced"
    has = f"has {_named('rack', racks)}{_without(unplaced)}{_depths(racks)} and needs {need}"
    if len(racks) + unplaced < need:
        return Adherence.FAIL, has
    if max(len(racks), min(1, unplaced)) < need:
        return Adherence.UNKNOWN, has
    if enforce and unplaced:
        return Adherence.UNKNOWN, f"{has}, none of them {DEFAULT_RACK}"
    return Adherence.STRICT, ""


def _zone_sizes(size: int, write_quorum: int, rule: PlacementRule) -> tuple[Adherence, str] | None:
    """The zone-aware policy's demands on sizes alone."""
    if write_quorum == 0:
        return Adherence.UNKNOWN, "has a write quorum of 0, by which the Java class would divide: it raises and gives no answer"
    if size % write_quorum:
        return Adherence.FAIL, f"has {size} bookies, which is no multiple of the write quorum {write_quorum}"
    if write_quorum <= rule.min_num_zones_per_write_quorum:
        least = rule.min_num_zones_per_write_quorum
        return Adherence.FAIL, f"has a write quorum of {write_quorum}, and it must be more than the {least} zones needed"
    return None


def _zone(view: _View) -> tuple[Adherence, str]:
    """Enough zones, and two upgrade domains in each zone with two members or more.

    A member without location could lend a crowded zone its second upgrade domain, or stand in a zone of its own, or be in the
    default one, where every window fails: so such a window never holds for sure.
    """
    for member, place in zip(view.members, view.locations, strict=True):
        if place is not None and (place == DEFAULT_ZONE or len(_parts(place)) != 2):
            return Adherence.FAIL, f"has {member} at {place}, which is not /zone/upgradeDomain{_or_default(place)}"
    domains: dict[str, list[str]] = {}
    for place in view.known():
        zone, domain = _parts(place)
        domains.setdefault(zone, []).append(domain)
    unplaced = len(view.unplaced())
    crowded = [zone for zone, of_zone in domains.items() if len(of_zone) > 1 and len(set(of_zone)) < 2]
    least, named = view.rule.min_num_zones_per_write_quorum, f"has {_named('zone', set(domains))}{_without(unplaced)}"
    if len(crowded) > unplaced:
        zone = crowded[0]
        return Adherence.FAIL, f"has {len(domains[zone])} members in zone {zone}, all in upgrade domain {domains[zone][0]}"
    if len(domains) + unplaced - len(crowded) < least:
        return Adherence.FAIL, f"{named} and needs {least}"
    want = min(view.write_quorum, view.rule.desired_num_zones_per_write_quorum)
    if unplaced:
        return Adherence.UNKNOWN, f"{named} and needs {least}"
    return (Adherence.STRICT, "") if len(domains) >= want else (Adherence.SOFT, f"{named} where {want} are desired")


def _span(view: _View) -> tuple[Adherence, str] | None:
    """The ensemble must span reppMinimumRegionsForDurability regions. None where it surely does."""
    regions, unplaced = {_region(place) for place in view.known()}, len(view.unplaced())
    need = view.rule.repp_minimum_regions_for_durability
    if max(len(regions), min(1, unplaced)) >= need:
        return None
    adherence = Adherence.FAIL if len(regions) + unplaced < need else Adherence.UNKNOWN
    return adherence, f"spans {_named('region', regions)}{_without(unplaced)} and needs {need}"


def _region_durability(view: _View) -> tuple[Adherence, str]:
    """No choice of m - 1 regions holds ackQuorum members: they could acknowledge an entry alone.

    The best that members without location can do is to stand in regions of their own; the worst, all in the fullest one.
    """
    counts, unplaced = Counter(_region(place) for place in view.known()), view.unplaced()
    few = view.rule.repp_minimum_regions_for_durability - 1
    allowed = view.ack_quorum - 1
    fullest = counts.most_common(few)
    at_best = sum(sorted([*counts.values(), *unplaced.values()], reverse=True)[:few])
    at_worst = sum(count for _, count in fullest) + sum(unplaced.values())
    if at_worst <= allowed:
        return Adherence.STRICT, ""
    held = ", ".join(f"{count} in {region}" for region, count in fullest) or "none in a known region"
    some = "any region" if few == 1 else f"any {few} regions together"
    why = f"has {held}{_without(len(unplaced)) or ','} and ack quorum {view.ack_quorum} allows {max(0, allowed)} in {some}"
    return (Adherence.FAIL if at_best > allowed else Adherence.UNKNOWN), why


def _region(place: str) -> str:
    """The first part of the path; BookKeeper's UnknownRegion for what is in its default location."""
    return UNKNOWN_REGION if place == DEFAULT_REGION else _parts(place)[0]


def _parts(place: str) -> list[str]:
    """Never empty: a location of nothing but slashes is none (`location`)."""
    return [part for part in place.split("/") if part]


def _named(noun: str, names: set[str]) -> str:
    plural = "" if len(names) == 1 else "s"
    return f"{len(names)} {noun}{plural}" + (f" ({', '.join(sorted(names))})" if names else "")


def _without(unplaced: int) -> str:
    return f", {unplaced} member{'' if unplaced == 1 else 's'} without location," if unplaced else ""


def _depths(places: set[str]) -> str:
    """Whole locations are compared, so /r1 and /region/r1 are two racks; worth saying, since it is seldom meant so."""
    return ", at different depths," if len({len(_parts(place)) for place in places}) > 1 else ""


def _or_default(place: str) -> str:
    return " but the default location" if place == DEFAULT_ZONE else " (another depth)"


_JUDGE_WINDOW: dict[Policy, Callable[[_View], tuple[Adherence, str]]] = {
    Policy.RACK: _rack,
    Policy.ZONE: _zone,
    Policy.REGION: _region_durability,
}
assert {*_JUDGE_WINDOW, Policy.NONE} == set(Policy), "each policy has its rule"

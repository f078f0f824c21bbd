"""Judge placement by trying every place where a bookie without a known location could stand.

If all places are known, each policy's rule is one loop over them. A write set fails if it fails
wherever its bookies without location are, holds if it holds wherever they are, and is unknown
otherwise. Three cases are not judged (None):

- more than UNPLACED_MAX such bookies, unless the few places tried differ in outcome;
- more than TRIES_MAX tries;
- under the zone-aware policy, such a bookie that the write set names twice.

The clause that says why a write set is at fault counts its racks, zones or regions again. It is
written only for write sets found at fault by trying.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, combinations, product
from typing import TypeAlias

from auditor.model.cluster import Surroundings
from auditor.model.evidence import Adherence, PlacementRule, Policy, Terms
from auditor.model.facts import PlacementFacts, WriteSetFacts
from auditor.model.identity import BookieId
from auditor.model.ledger import LedgerMetadata, LedgerState

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
        """The known places, in the order of the members."""
        return [place for member in self.members if (place := self.places[member]) is not None]

    @property
    def unplaced(self) -> int:
        """How many bookies have no known place; 0 for the Java policies, which skip them."""
        return (
            0
            if self.rule.java_compatible
            else sum(self.places[member] is None for member in set(self.members))
        )


def fault_clause(write_set: WriteSet, *, is_soft: bool) -> str:
    """Return the clause that says why a write set fails or, if `is_soft`, adheres only softly."""
    if not write_set.members:
        return "names no bookie"
    if write_set.rule.policy is Policy.RACK:
        return _rack_clause(write_set)
    if write_set.rule.policy is Policy.ZONE:
        return (
            _size_clause(write_set)
            if write_set.is_whole
            else _zone_clause(write_set, is_soft=is_soft)
        )
    return _span_clause(write_set) if write_set.is_whole else _region_clause(write_set)


def _rack_clause(write_set: WriteSet) -> str:
    racks = sorted(set(write_set.known))
    if write_set.rule.enforce_min_num_racks_per_write_quorum and DEFAULT_RACK in racks:
        return (
            f"has a member in {DEFAULT_RACK}, which does not count as a rack where a minimum is"
            " enforced"
        )
    levels = {len(list(filter(None, rack.split("/")))) for rack in racks}
    mixed = ", at different depths," if len(levels) > 1 else ""
    least = min(write_set.rule.min_num_racks_per_write_quorum, write_set.write_quorum)
    return (
        f"has {_count_names('rack', racks)}{_unplaced_clause(write_set)}{mixed} and needs {least}"
    )


def _size_clause(write_set: WriteSet) -> str:
    size, write = len(write_set.members), write_set.write_quorum
    if size % write:
        return f"has {size} bookies, which is not a multiple of the write quorum {write}"
    least = write_set.rule.min_num_zones_per_write_quorum
    return f"has a write quorum of {write}, and it must be more than the {least} zones needed"


def _zone_clause(write_set: WriteSet, *, is_soft: bool) -> str:
    domains: dict[str, list[str]] = {}
    for member in write_set.members:
        place = write_set.places[member]
        if place is None:
            continue
        parts = list(filter(None, place.split("/")))
        if place == DEFAULT_ZONE or len(parts) != 2:
            other = "but the default location" if place == DEFAULT_ZONE else "(another depth)"
            return f"has {member} at {place}, which is not /zone/upgradeDomain {other}"
        domains.setdefault(parts[0], []).append(parts[1])
    zones = f"has {_count_names('zone', sorted(domains))}{_unplaced_clause(write_set)}"
    if is_soft:
        desired = min(write_set.rule.desired_num_zones_per_write_quorum, write_set.write_quorum)
        return f"{zones} where {desired} are desired"
    crowded = [
        zone for zone, of_zone in domains.items() if len(of_zone) >= 2 and len(set(of_zone)) == 1
    ]
    if len(crowded) > write_set.unplaced:  # too few unplaced bookies to relieve every crowded zone
        zone = crowded[0]
        return (
            f"has {len(domains[zone])} members in zone {zone}, all in upgrade domain"
            f" {domains[zone][0]}"
        )
    return f"{zones} and needs {write_set.rule.min_num_zones_per_write_quorum}"


def _span_clause(write_set: WriteSet) -> str:
    regions = sorted({_region_of(place) for place in write_set.known})
    return (
        f"spans {_count_names('region', regions)}{_unplaced_clause(write_set)} and needs"
        f" {write_set.rule.repp_minimum_regions_for_durability}"
    )


def _region_clause(write_set: WriteSet) -> str:
    copies = Counter(_region_of(place) for place in write_set.known)
    few = write_set.rule.repp_minimum_regions_for_durability - 1
    fullest = sorted(copies, key=lambda region: -copies[region])[:few]  # ties keep member order
    held = (
        ", ".join(f"{copies[region]} in {region}" for region in fullest) or "none in a known region"
    )
    where = "any region" if few == 1 else f"any {few} regions together"
    return (
        f"has {held}{_unplaced_clause(write_set) or ','} and ack quorum"
        f" {write_set.ack_quorum} allows {max(write_set.ack_quorum, 1) - 1} in {where}"
    )


def _count_names(noun: str, names: Sequence[str]) -> str:
    """Return a number with its names, such as: 2 racks (/r1, /r2)."""
    counted = f"{len(names)} {noun}{'' if len(names) == 1 else 's'}"
    return f"{counted} ({', '.join(names)})" if names else counted


def _unplaced_clause(write_set: WriteSet) -> str:
    missing = write_set.unplaced
    return f", {missing} member{'s' if missing > 1 else ''} without location," if missing else ""


Places: TypeAlias = Mapping[BookieId, str | None]
"""The place of each member. None if it does not count: Java's rack-aware policy skips bookies that
are not writable."""

DEFAULT_PLACE = {
    Policy.RACK: DEFAULT_RACK,
    Policy.ZONE: DEFAULT_ZONE,
    Policy.REGION: DEFAULT_REGION,
}
"""Where each policy puts a bookie that no source locates."""


def candidate_places(count: int, known: Places, rule: PlacementRule) -> set[str]:
    """Return places for bookies without location, enough to cover every possible outcome.

    These are the places of other members, another domain in their zones, new places, and the
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


def _judge_racks(
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


def _judge_zones(
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


def _judge_regions(
    members: tuple[BookieId, ...], there: Places, write: int, ack: int, rule: PlacementRule
) -> Adherence:
    """Fail if any m - 1 regions can acknowledge an entry without the others. Tries all choices."""
    regions = [_region_of(there[member]) for member in members]
    few = min(rule.repp_minimum_regions_for_durability - 1, len(set(regions)))
    alone = any(
        sum(region in chosen for region in regions) >= ack
        for chosen in combinations(sorted(set(regions)), few)
    )
    return Adherence.FAIL if alone else Adherence.STRICT


def judge_region_span(
    members: tuple[BookieId, ...], there: Places, rule: PlacementRule
) -> Adherence:
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
"""Judges one write set. The numbers are the write quorum and the ack quorum."""

WRITE_SET_RULES: Mapping[Policy, WriteSetRule] = {
    Policy.RACK: _judge_racks,
    Policy.ZONE: _judge_zones,
    Policy.REGION: _judge_regions,
}


BYTES_MAX = 16_384
"""A longer record is not parsed."""
CHARS_MAX = 200
"""At most this many characters of the policy are shown."""


def read_recorded(metadata: LedgerMetadata) -> str:
    """Return the recorded policy class with its isolation groups, or what is wrong with the record.

    Return "" if nothing is recorded.
    """
    values = [
        value for key, value in metadata.custom_metadata if key == "EnsemblePlacementPolicyConfig"
    ]
    if not values:
        return ""
    if len(values[0]) > BYTES_MAX:
        return f"a policy of {len(values[0])} bytes, too long to be read"
    try:
        config = json.loads(str(values[0], "utf-8"))
    except (ValueError, RecursionError):
        return "a policy that cannot be read: not JSON"
    if not isinstance(config, Mapping):
        return "a policy that cannot be read: not a JSON object"
    text = (
        str(config["policyClass"]).split(".")[-1]
        if config.get("policyClass")
        else "a policy without a class"
    )
    properties = config.get("properties")
    if isinstance(properties, Mapping):
        primary, secondary = (
            _groups(properties.get(f"{name}ookieGroups"))
            for name in ("isolationB", "secondaryIsolationB")
        )
        said = [f"isolation groups {primary}"] * bool(primary) + [f"secondary {secondary}"] * bool(
            secondary
        )
        text = " with ".join([text, *(["; ".join(said)] if said else [])])
    shown = "".join(character if character.isprintable() else "?" for character in text[:CHARS_MAX])
    return shown if len(text) <= CHARS_MAX else f"{shown}…"


def _groups(value: object) -> str:
    """Return the groups, separated by commas; "" if none is named."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list):
        return ""
    return ", ".join(filter(None, (str(part).strip() for part in parts)))


UNPLACED_MAX = 2
"""Up to this many members without location, all combinations of places are tried; above, a few."""
TRIES_MAX = 1_000_000
"""At most this many members are placed while one ensemble is tried: a second or two.

An ensemble of some tens comes near it if a write set has two members without location."""
SETS_MEMBERS_MAX = 100_000
"""If all write sets together have more members, neither checker judges."""
ENSEMBLES_KEPT_MAX = 4_096
"""Ensembles whose outcome is cached: some MB."""


def is_judged(rule: PlacementRule, metadata: LedgerMetadata) -> bool:
    """Return whether placement is judged: the ledger is closed, and the policy can fail it."""
    return metadata.state is LedgerState.CLOSED and _can_fail(rule)


def _can_fail(rule: PlacementRule) -> bool:
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
    """Return how one ensemble adheres to the policy; None if that is not judged."""
    if not _can_fail(rule):
        return Adherence.STRICT
    return try_ensemble(ensemble, write_quorum, ack_quorum, rule, around).adherence


@dataclass(frozen=True, slots=True)
class Trial:
    """The outcome of trying an ensemble.

    `deciding`: where the write sets begin that are as bad as the whole, ascending (None stands for
    the ensemble as a whole). `left_open`: where the write sets begin that could not be judged. Both
    describe an ensemble at fault. For other outcomes they are not used and may be empty.
    """

    adherence: Adherence | None
    deciding: tuple[int | None, ...] = ()
    left_open: frozenset[int | None] = frozenset()


def try_ensemble(
    ensemble: tuple[BookieId, ...],
    write_quorum: int,
    ack_quorum: int,
    rule: PlacementRule,
    around: Surroundings,
) -> Trial:
    """Try an ensemble under a policy that it can fail."""
    places = tuple((bookie, *_place(bookie, rule, around)) for bookie in dict.fromkeys(ensemble))
    return _try_ensemble(ensemble, write_quorum, ack_quorum, rule, places)


def _place(bookie: BookieId, rule: PlacementRule, around: Surroundings) -> tuple[bool, str | None]:
    """Return (whether the bookie's place is known, the place that counts for the policy)."""
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
"""At most this many write sets at fault are shown in a finding. The others are counted."""


def placement_facts(
    ensemble: tuple[BookieId, ...], metadata: LedgerMetadata, terms: Terms
) -> tuple[PlacementFacts, frozenset[int | None]]:
    """Return the facts about an ensemble at fault, and where the write sets begin that are open.

    `shown` has the first deciding write sets that could be judged.
    """
    rule, around, size = terms.placement, terms.around, len(ensemble)
    tried = try_ensemble(ensemble, metadata.write_quorum, metadata.ack_quorum, rule, around)
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
    write_set = WriteSet(
        members, places, metadata.write_quorum, metadata.ack_quorum, rule, is_whole=at is None
    )
    return WriteSetFacts(
        at,
        members,
        tuple(places[member] for member in members),
        fault_clause(write_set, is_soft=is_soft),
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
def _try_ensemble(
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
            lambda members, there: judge_region_span(members, there, rule),
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
    """Return the worst of the write sets' outcomes. The keys say where the write sets begin."""
    left_open = frozenset(at for at, outcome in outcomes.items() if outcome is None)
    worst = min(
        outcome for outcome in (*outcomes.values(), Adherence.STRICT) if outcome is not None
    )
    if left_open and worst is not Adherence.FAIL:
        return Trial(None)
    return Trial(
        worst, tuple(at for at, outcome in outcomes.items() if outcome is worst), left_open
    )


_Concrete: TypeAlias = Callable[[tuple[BookieId, ...], Places], Adherence]


def _try_everywhere(
    members: tuple[BookieId, ...],
    everywhere: Places,
    rule: PlacementRule,
    concrete: _Concrete,
    tries_max: int,
) -> Adherence | None:
    """Return the worst outcome over all places that members without location may have.

    It is UNKNOWN if some places fail and others do not, and None if that cannot be told or takes
    more than `tries_max` tries.
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
    """Yield combinations of places for the members without location.

    All combinations for a few members. Many are placed together at each place in turn, then each at
    a new place.
    """
    if len(open_ones) <= UNPLACED_MAX:
        combined: Iterable[tuple[str, ...]] = product(candidates, repeat=len(open_ones))
    else:
        new = tuple(f"/new {number}/u1" for number in range(len(open_ones)))
        combined = chain(((place,) * len(open_ones) for place in candidates), [new])
    for chosen in combined:
        yield dict(zip(open_ones, chosen, strict=True))

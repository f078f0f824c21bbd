"""Find the segments of a closed ledger that do not adhere to the placement policy.

Ensembles are judged like BookKeeper's policy classes judge them. Verified: racks per write set;
zones and upgrade domains per write set; regions that could acknowledge an entry alone. Not
verified: Pulsar's isolation groups (no Java class verifies them); weights; what was true when the
ensemble was chosen.

Entry e has the positions (e + j) mod E, j < W. There are E write sets: window i begins at position
i. If W >= E there is only one. A window whose members all have a location is judged directly. If
some have none, the window fails only if it fails wherever they are, and holds only if it holds
wherever they are, including the default location, where BookKeeper puts what it cannot resolve. All
other windows are UNKNOWN, and so are the windows of an ensemble that has too many. Each window is
judged by itself: two that could each hold may not hold together. That stays UNKNOWN.

A ledger's own writer may have recorded a policy, which is shown beside a finding, never judged.
Pulsar writes it as custom metadata, JSON `{"policyClass": NAME, "properties": {...}}`. It has the
isolation groups of a namespace (EnsemblePlacementPolicyConfig,
IsolatedBookieEnsemblePlacementPolicy). The Java auditor does not look at it either.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from auditor.first_checker.schedule import Extent, extents
from auditor.model.cluster import Surroundings
from auditor.model.evidence import Adherence, PlacementRule, Policy, Terms
from auditor.model.facts import Parameters, PlacementFacts, WriteSetFacts
from auditor.model.finding import Finding, FindingSegment, Kind
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerMetadata, LedgerState, Segment

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


def _judge_zone_sizes(
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


WINDOWS_SHOWN_MAX = 5
"""At most this many windows of one ensemble are kept, enough to see the pattern. The others are
counted."""
WINDOW_MEMBERS_MAX = 100_000
"""An ensemble whose windows have more members in all is not judged: this many take some 300 ms.
Real ensembles have some tens. A znode has room for an ensemble of thousands, which would take
hours."""


@dataclass(frozen=True, slots=True)
class Window:
    """A write set that decides the result. `why` is a clause.

    `index` is the position at which it begins, None for the whole ensemble.
    """

    index: int | None
    members: tuple[BookieId, ...]
    locations: Locations
    adherence: Adherence
    why: str


@dataclass(frozen=True, slots=True)
class Judged:
    """How one ensemble adheres: as badly as its worst windows.

    `windows` has the first of these, `deciding` counts all of them. A STRICT ensemble has none.
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

    It is the former if `rule.java_compatible`. Never raises: any ensemble and any quorums are
    accepted, even an empty list and quorums below one. Costs the windows times their members, up to
    WINDOW_MEMBERS_MAX: some 10 µs for usual ensembles, some 100 µs if reasons are given.
    """
    if has_no_rule(rule):
        return STRICT
    if not ensemble:
        return Judged(Adherence.FAIL, (Window(None, (), (), Adherence.FAIL, "names no bookie"),), 1)
    locations = tuple(location(bookie, rule, around) for bookie in ensemble)
    judged = list(_whole_windows(ensemble, locations, write_quorum, rule))
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


def _windows_count(ensemble_size: int, write_quorum: int) -> int:
    """Return how many different write sets there are."""
    return ensemble_size if write_quorum < ensemble_size else 1


def _windows(
    ensemble: Sequence[BookieId],
    locations: Locations,
    write_quorum: int,
    ack_quorum: int,
    rule: PlacementRule,
) -> Iterator[Window]:
    """Yield the windows that are not STRICT."""
    size, judge_window = len(ensemble), JUDGE_WINDOW[rule.policy]
    count = _windows_count(size, write_quorum)
    if count * min(write_quorum, size) > WINDOW_MEMBERS_MAX:
        too_many = f"has {count} write sets of {write_quorum}, too many to look at"
        yield Window(None, (), (), Adherence.UNKNOWN, too_many)
        return
    for index in range(count):
        at = [(index + step) % size for step in range(min(write_quorum, size))]
        members, places = tuple(ensemble[k] for k in at), tuple(locations[k] for k in at)
        view = WindowView(members, places, write_quorum, ack_quorum, rule)
        adherence, why = judge_window(view)
        if adherence is not Adherence.STRICT:
            yield Window(index, view.members, view.locations, adherence, why)


def _whole_windows(
    ensemble: tuple[BookieId, ...], locations: Locations, write_quorum: int, rule: PlacementRule
) -> Iterator[Window]:
    """Yield the whole ensemble as a window if its size or its regions decide already."""
    said: tuple[Adherence, str] | None = None
    if rule.policy is Policy.ZONE:
        said = _judge_zone_sizes(len(ensemble), write_quorum, rule)
    elif rule.policy is Policy.REGION:
        said = judge_span(WindowView(ensemble, locations, write_quorum, 0, rule))
    if said is not None:
        yield Window(None, ensemble, locations, *said)


KEY = "EnsemblePlacementPolicyConfig"
RECORDED_BYTES_MAX = 16_384
"""A longer recorded policy is not read, in bytes. Pulsar writes a few hundred; anybody may write
anything there."""
RECORDED_CHARS_MAX = 200
"""At most this many of its characters are shown."""

_GROUPS = (
    ("isolationBookieGroups", "isolation groups"),
    ("secondaryIsolationBookieGroups", "secondary"),
)


def recorded_policy(metadata: LedgerMetadata) -> str:
    """Return the policy's class and isolation groups as text.

    "" if the ledger records none; what is wrong if the policy cannot be read. Printable, at most
    RECORDED_CHARS_MAX characters and an ellipsis. Costs one pass over the custom metadata.
    """
    written = next((value for key, value in metadata.custom_metadata if key == KEY), None)
    if written is None:
        return ""
    if len(written) > RECORDED_BYTES_MAX:
        return f"a policy of {len(written)} bytes, too long to be read"
    try:
        config = json.loads(written.decode("utf-8"))
    except (ValueError, RecursionError):
        return "a policy that cannot be read: not JSON"
    if not isinstance(config, dict):
        return "a policy that cannot be read: not a JSON object"
    name, properties = config.get("policyClass"), config.get("properties")
    said = [str(name).rpartition(".")[2] if name else "a policy without a class"]
    for key, words in _GROUPS:
        groups = _groups(properties.get(key)) if isinstance(properties, dict) else []
        if groups:
            said.append(f"{words} {', '.join(groups)}")
    return _printable(said[0] + (f" with {'; '.join(said[1:])}" if said[1:] else ""))


def _groups(value: object) -> list[str]:
    """Return the groups. Pulsar writes them as one text with commas, or as a list."""
    named: list[object] = []
    if isinstance(value, str):
        named = [*value.split(",")]
    elif isinstance(value, list):
        named = value
    return [group for name in named if (group := str(name).strip())]


def _printable(text: str) -> str:
    shown = "".join(char if char.isprintable() else "?" for char in text[:RECORDED_CHARS_MAX])
    return shown + ("…" if len(text) > RECORDED_CHARS_MAX else "")


ENSEMBLES_REMEMBERED_MAX = 20_000
"""The judgements of at most this many ensembles are cached: some 10 MB. Ledgers of one period share
their ensembles. A full cache is emptied, and each ensemble is judged once more."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The findings on one ledger, at most one per segment, and whether any segment is unknown."""

    findings: tuple[Finding, ...] = ()
    unknown: bool = False


NOTHING = Placement()


def adherence(
    ensemble: tuple[BookieId, ...],
    write_quorum: int,
    ack_quorum: int,
    rule: PlacementRule,
    around: Surroundings,
) -> Judged:
    """Return how one ensemble adheres under `rule`, and the windows that decide it.

    Never raises. Made for millions of calls: an ensemble that was judged before under the same rule
    and surroundings costs one dictionary lookup; any other costs `judge`. Pass the same two objects
    for all ledgers of a run: they are compared by identity.
    """
    global _remembered
    if has_no_rule(rule):
        return STRICT
    memory = _remembered
    if memory.around is not around or memory.rule is not rule:
        memory = _remembered = _Memory(rule, around)
    key = (ensemble, write_quorum, ack_quorum)
    known = memory.judged.get(key)
    if known is None:
        if len(memory.judged) >= ENSEMBLES_REMEMBERED_MAX:
            memory.judged.clear()
        known = memory.judged[key] = judge(ensemble, write_quorum, ack_quorum, rule, around)
    return known


@dataclass(frozen=True, slots=True)
class _Memory:
    """The judgements under one rule in one set of surroundings.

    It keeps both objects alive: no other object can take their identity.
    """

    rule: PlacementRule
    around: Surroundings
    judged: dict[tuple[tuple[BookieId, ...], int, int], Judged] = field(default_factory=dict)


_remembered = _Memory(PlacementRule(), Surroundings())


def placement(ledger_id: LedgerId, metadata: LedgerMetadata, terms: Terms) -> Placement:
    """Return PLACEMENT_FAILED and PLACEMENT_SOFT, one for each segment at fault.

    A ledger that is not closed has none. By assigned location, segments with entries are judged. In
    Java mode all segments are, including empty ones and those of empty ledgers. `unknown` means
    that too little is known about the locations of some segment's members. The caller decides
    whether a mark excuses a finding.
    """
    rule = terms.placement
    if has_no_rule(rule) or metadata.state is not LedgerState.CLOSED:
        return NOTHING
    findings: list[Finding] = []
    unknown = False
    for segment, last in _every_segment(metadata) if rule.java_compatible else extents(metadata):
        judged = adherence(
            segment.ensemble, metadata.write_quorum, metadata.ack_quorum, rule, terms.around
        )
        if judged.adherence is Adherence.UNKNOWN:
            unknown = True
        elif judged.adherence is not Adherence.STRICT:
            kind = (
                Kind.PLACEMENT_FAILED if judged.adherence is Adherence.FAIL else Kind.PLACEMENT_SOFT
            )
            facts = _facts(segment, judged, metadata, terms)
            findings.append(
                Finding(kind, facts, ledger_id, segment=FindingSegment.of(segment, last))
            )
    return Placement(tuple(findings), unknown) if findings or unknown else NOTHING


def _every_segment(metadata: LedgerMetadata) -> Iterator[Extent]:
    """Yield each segment as the metadata has it. An empty segment ends before it begins."""
    ends = [after.first_entry_id - 1 for _, after in pairwise(metadata.segments)]
    ends.append(-1 if metadata.last_entry_id is None else metadata.last_entry_id)
    for segment, end in zip(metadata.segments, ends, strict=False):
        yield Extent(segment, max(segment.first_entry_id - 1, end))


def _facts(
    segment: Segment, judged: Judged, metadata: LedgerMetadata, terms: Terms
) -> PlacementFacts:
    rule, ensemble = terms.placement, segment.ensemble
    around = terms.around
    return PlacementFacts(
        policy=rule.policy.value,
        java_mode=rule.java_compatible,
        parameters=_parameters(rule),
        write_sets=_windows_count(len(ensemble), metadata.write_quorum),
        deciding=judged.deciding,
        shown=tuple(
            WriteSetFacts(window.index, window.members, window.locations, window.why)
            for window in judged.windows
        ),
        without_location=tuple(
            bookie for bookie in dict.fromkeys(ensemble) if not around.location_of(bookie)
        ),
        recorded_policy=recorded_policy(metadata),
    )


def _parameters(rule: PlacementRule) -> Parameters:
    """Return the settings that the policy uses, by BookKeeper's names."""
    if rule.policy is Policy.RACK:
        enforce = str(rule.enforce_min_num_racks_per_write_quorum).lower()
        return (
            ("minNumRacksPerWriteQuorum", str(rule.min_num_racks_per_write_quorum)),
            ("enforceMinNumRacksPerWriteQuorum", enforce),
        )
    if rule.policy is Policy.ZONE:
        return (
            ("minNumZonesPerWriteQuorum", str(rule.min_num_zones_per_write_quorum)),
            ("desiredNumZonesPerWriteQuorum", str(rule.desired_num_zones_per_write_quorum)),
        )
    return (("reppMinimumRegionsForDurability", str(rule.repp_minimum_regions_for_durability)),)

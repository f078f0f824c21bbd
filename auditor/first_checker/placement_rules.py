"""Judge whether one ensemble adheres to a placement policy, like BookKeeper's policy classes.

Verified: racks per write set; zones and upgrade domains per write set; regions that could
acknowledge an entry alone. Not verified: Pulsar's isolation groups (no Java class verifies them);
weights; what was true when the ensemble was chosen.

Entry e has the positions (e + j) mod E, j < W. There are E write sets: window i begins at position
i. If W >= E there is only one. A window whose members all have a location is judged directly. If
some have none, the window fails only if it fails wherever they are, and holds only if it holds
wherever they are, including the default location, where BookKeeper puts what it cannot resolve. All
other windows are UNKNOWN, and so are the windows of an ensemble that has too many. Each window is
judged by itself: two that could each hold may not hold together. That stays UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from auditor.first_checker.window_rules import (
    DEFAULT_RACK,
    DEFAULT_REGION,
    DEFAULT_ZONE,
    JUDGE_WINDOW,
    Locations,
    WindowView,
    judge_span,
    judge_zone_sizes,
)
from auditor.model.cluster import Surroundings
from auditor.model.identity import BookieId
from auditor.model.placement import Adherence, PlacementRule, Policy

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


def windows_count(ensemble_size: int, write_quorum: int) -> int:
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
    count = windows_count(size, write_quorum)
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
        said = judge_zone_sizes(len(ensemble), write_quorum, rule)
    elif rule.policy is Policy.REGION:
        said = judge_span(WindowView(ensemble, locations, write_quorum, 0, rule))
    if said is not None:
        yield Window(None, ensemble, locations, *said)

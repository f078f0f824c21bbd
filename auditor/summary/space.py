"""How full the disks of the bookies are, by bookie and location, and how much that grew.

Only what bookies say in GET_BOOKIE_INFO counts. A bookie without both figures is unknown. Bookies
on one host may share disks, and the sums then count these disks more than once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from auditor.model.cluster import BookieRecord, Surroundings
from auditor.model.identity import BookieId
from auditor.model.summary import (
    BookieGrowth,
    BookieSpace,
    OrphanGrowth,
    RackSpace,
    References,
    RunName,
    Space,
    SpaceGrowth,
    Summary,
)

BOOKIES_IN_SUMMARY_MAX = 500
"""At most this many bookies are in the summary and the metrics, the fullest first. Larger clusters
have all of them in evidence/bookies."""
RACKS_IN_SUMMARY_MAX = 100
"""At most this many locations are in the summary and the metrics, the fullest first."""
GROWTH_NAMED_MAX = 10
"""At most this many bookies are named of those that grew most."""


def newest_figures(records: Iterable[BookieRecord]) -> dict[BookieId, BookieRecord]:
    """Return the newest record of each registered bookie, with the newest figures of its disks.

    A bookie that was silent at the last look keeps the figures of an earlier look of the run.
    """
    found: dict[BookieId, BookieRecord] = {}
    for record in sorted(records, key=lambda record: (record.look, record.read_at_ms)):
        earlier = found.get(record.bookie_id)
        if record.total_bytes is None and record.free_bytes is None and earlier is not None:
            record = replace(record, total_bytes=earlier.total_bytes, free_bytes=earlier.free_bytes)
        found[record.bookie_id] = record
    return {bookie: found[bookie] for bookie in sorted(found) if found[bookie].is_registered}


@dataclass(frozen=True, slots=True)
class EarlierBytes:
    """What an earlier run recorded of the disks, and of ledgers that nothing references."""

    run: RunName
    space: Space | None = None
    references: References | None = None


def earlier_bytes(summary: Summary) -> EarlierBytes | None:
    """Return what a run recorded of the disks and of orphans; None if it recorded neither."""
    space, references = summary.space, summary.references
    if (space is None and references is None) or summary.started_at is None:
        return None
    return EarlierBytes(RunName(summary.run_id, summary.started_at), space, references)


def with_orphan_growth(
    references: References | None, earlier: EarlierBytes | None
) -> References | None:
    """Return what was found of references, with how many more orphans there are than before."""
    before = None if earlier is None else earlier.references
    if references is None or references.orphaned_bytes is None:
        return references
    if earlier is None or before is None or before.orphaned_bytes is None:
        return references
    growth = OrphanGrowth(
        earlier.run,
        references.orphaned - before.orphaned,
        references.orphaned_bytes - before.orphaned_bytes,
    )
    return replace(references, orphaned_growth=growth)


def space_of(
    records: Iterable[BookieRecord], around: Surroundings, earlier: EarlierBytes | None = None
) -> Space:
    """Return how full the disks of registered bookies are, and how that grew since `earlier`."""
    newest = newest_figures(records)
    known = sorted(
        (
            BookieSpace(bookie, around.location_of(bookie), record.total_bytes, record.free_bytes)
            for bookie, record in newest.items()
            if record.total_bytes is not None and record.free_bytes is not None
        ),
        key=lambda space: (space.free_bytes / space.total_bytes, space.bookie_id),
    )
    names = {space.bookie_id for space in known}
    hosts = Counter(newest[bookie].host for bookie in names)
    return Space(
        bookies=len(known),
        unknown=len(newest) - len(known),
        sharing_hosts=sum(number for number in hosts.values() if number > 1),
        total_bytes=sum(space.total_bytes for space in known),
        free_bytes=sum(space.free_bytes for space in known),
        fullest=tuple(known[:BOOKIES_IN_SUMMARY_MAX]),
        racks=_by_rack(known),
        growth=disk_growth(known, earlier),
    )


def _by_rack(known: Iterable[BookieSpace]) -> tuple[RackSpace, ...]:
    racks: dict[str | None, list[BookieSpace]] = {}
    for space in known:
        racks.setdefault(space.location, []).append(space)
    sums = (
        RackSpace(
            location,
            len(spaces),
            sum(space.total_bytes for space in spaces),
            sum(space.free_bytes for space in spaces),
        )
        for location, spaces in racks.items()
    )
    fullest = sorted(
        sums, key=lambda rack: (rack.free_bytes / rack.total_bytes, rack.location or "")
    )
    return tuple(fullest[:RACKS_IN_SUMMARY_MAX])


def disk_growth(known: Iterable[BookieSpace], earlier: EarlierBytes | None) -> SpaceGrowth | None:
    """Return how much more is used than at the earlier run, on the bookies of which both runs know
    it; None without such a bookie.
    """
    if earlier is None or earlier.space is None:
        return None
    before = {space.bookie_id: space.used_bytes for space in earlier.space.fullest}
    grown = [
        BookieGrowth(space.bookie_id, space.used_bytes - before[space.bookie_id])
        for space in known
        if space.bookie_id in before
    ]
    if not grown:
        return None
    most = sorted(grown, key=lambda growth: (-growth.used_bytes, growth.bookie_id))
    return SpaceGrowth(
        earlier.run,
        len(grown),
        sum(growth.used_bytes for growth in grown),
        tuple(most[:GROWTH_NAMED_MAX]),
    )

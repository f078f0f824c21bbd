"""Bookies whose disks shrank since an earlier run.

Verified: at each look of the run at which the bookie said it, its ledger directories have a smaller
total size than an earlier run saw, by more than a tolerance; or its cookie names fewer ledger
directories. Not verified: why, and what was on the disk that is missing. Only registered bookies
are judged: BookKeeper itself accepts no cookie with fewer directories, and somebody wrote it.

A run keeps what earlier runs saw (`evidence/earlier_bookies`), and replay judges by it. It passes
the larger size on for a week. Until then each run reports the bookie. Then the new size counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from auditor.evidence.rows import bookie_records, bookie_row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import BOOKIES
from auditor.model.cluster import BookieLook, BookieRecord
from auditor.model.facts import DirectoriesLost, ShrunkFacts, SizeLost
from auditor.model.finding import Finding, Kind
from auditor.model.identity import BookieId

EARLIER_BOOKIES = "evidence/earlier_bookies"
SHRINK_SHARE_MAX = 0.02
"""A total size may be this much smaller than before. A file system made anew, with other reserved
blocks or another version, has a slightly different size; 1 of 24 equal disks is 4 %."""
SHRINK_REMEMBERED_MS = 7 * 24 * 3_600_000
"""How long a larger size is passed on from run to run: a week, in which somebody reads a report."""
DIRECTORIES_NAMED_MAX = 10
"""At most this many directories are named that left a cookie."""


def keep_earlier_bookies(run: Place, earlier: Place, now_ms: int) -> None:
    """Write what an earlier run knew of the bookies into the directory of a run that begins.

    For each bookie that is the record with the largest disks: the newest of the earlier run, or one
    that the earlier run itself kept, if that is not too old. Raises OutputError.
    """
    records = bookie_records(earlier.read_table("evidence/bookies", BOOKIES))
    kept: list[BookieRecord] = []
    if earlier.has_table(EARLIER_BOOKIES):
        kept = [
            record
            for record in bookie_records(earlier.read_table(EARLIER_BOOKIES, BOOKIES))
            if now_ms - record.read_at_ms < SHRINK_REMEMBERED_MS
        ]
    rows = [bookie_row(record) for record in largest(records, kept)]
    run.write_table(EARLIER_BOOKIES, table(BOOKIES, rows), "all")


def read_earlier_bookies(run: Place) -> list[BookieRecord]:
    """Return what the run kept of earlier runs; nothing if it began without one."""
    if not run.has_table(EARLIER_BOOKIES):
        return []
    return bookie_records(run.read_table(EARLIER_BOOKIES, BOOKIES))


def largest(
    records: Iterable[BookieRecord], kept: Iterable[BookieRecord] = ()
) -> list[BookieRecord]:
    """Return, by bookie, the newest of `records` or that of `kept`, whichever has larger disks.

    Of two equal ones the newer. A bookie of which nothing is known has no record.
    """
    best: dict[BookieId, BookieRecord] = {}
    for record in sorted(records, key=_age):
        if _extent(record) != _NOTHING:
            best[record.bookie_id] = record
    for record in sorted(kept, key=_age):
        mine = best.get(record.bookie_id)
        if mine is None or _extent(record) > _extent(mine):
            best[record.bookie_id] = record
    return [best[bookie] for bookie in sorted(best)]


_NOTHING = (0, 0)


def _extent(record: BookieRecord) -> tuple[int, int]:
    return record.total_bytes or 0, len(record.cookie_directories or ())


def _age(record: BookieRecord) -> tuple[int, int]:
    return record.read_at_ms, record.look


def judge_disks(
    looks: Sequence[BookieLook],
    earlier: Iterable[BookieRecord],
    away: Collection[BookieId] = (),
) -> list[Finding]:
    """Return the findings on bookies whose disks shrank, in order of bookie id.

    `earlier` has at most one record a bookie. `away` are bookies in planned maintenance, which get
    none.
    """
    before: Mapping[BookieId, BookieRecord] = {record.bookie_id: record for record in earlier}
    found = []
    for bookie in sorted(before.keys() - set(away)):
        records = [look[bookie] for look in looks if bookie in look]
        if records and records[-1].is_registered:
            size = _lost_size(records, before[bookie])
            directories = _lost_directories(records[-1], before[bookie])
            if size is not None or directories is not None:
                facts = ShrunkFacts(
                    registration=records[-1].registration.value,
                    address=f"{records[-1].host}:{records[-1].port}",
                    size=size,
                    directories=directories,
                    missing_percent=0 if size is None else _missing_percent(size),
                    missing_directories=0
                    if directories is None
                    else directories.earlier_directories - directories.directories,
                    apart_ms=max(0, records[-1].read_at_ms - before[bookie].read_at_ms),
                )
                found.append(Finding(Kind.BOOKIE_DISK_SHRANK, facts, bookie_id=bookie))
    return found


def _lost_size(records: Sequence[BookieRecord], before: BookieRecord) -> SizeLost | None:
    """Return the sizes if the largest of this run is too small; None if that is not known."""
    sizes = [record.total_bytes for record in records if record.total_bytes is not None]
    if not sizes or before.total_bytes is None:
        return None
    if max(sizes) >= before.total_bytes * (1 - SHRINK_SHARE_MAX):
        return None
    return SizeLost(max(sizes), before.total_bytes)


def _missing_percent(size: SizeLost) -> int:
    """Return how much of the earlier size is missing, in whole per cent."""
    return 100 * (size.earlier_total_bytes - size.total_bytes) // size.earlier_total_bytes


def _lost_directories(last: BookieRecord, before: BookieRecord) -> DirectoriesLost | None:
    """Return the numbers if the cookie names fewer directories; None if that is not known.

    As many directories under other names are no loss: a disk may be mounted elsewhere.
    """
    now, then = last.cookie_directories, before.cookie_directories
    if now is None or then is None or len(now) >= len(then):
        return None
    gone = tuple(name for name in then if name not in now)
    return DirectoriesLost(len(now), len(then), gone[:DIRECTORIES_NAMED_MAX])

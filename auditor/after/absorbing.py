"""Whether the bookies that stay have room for the copies of those that leave."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from auditor.after.stored_copies import StoredCopies, bytes_on
from auditor.model.cluster import BookieRecord
from auditor.model.identity import BookieId

DISK_USAGE_LIMIT = 0.95
"""The share of a disk up to which a bookie writes: BookKeeper's default of diskUsageThreshold."""


@dataclass(frozen=True, slots=True)
class Absorption:
    """The bytes that leave, and the room for them.

    bytes_to_move: of closed ledgers, as metadata has them, without what a disk needs beside the
    entries. room_bytes: of the `known` bookies that stay, as if those on one host shared disks of
    one size. room_near_bytes: of those of them that are at a location of bookies that leave, None
    if no location of these is known. unknown: how many that stay did not say how full their disks
    are. room_unshared_bytes: of the `known` ones if they share no disk.
    """

    bytes_to_move: int
    room_bytes: int
    room_near_bytes: int | None
    known: int
    unknown: int
    room_unshared_bytes: int

    @property
    def is_too_much(self) -> bool:
        """Whether the room is known, and is too small."""
        return self.bytes_to_move > self.room_unshared_bytes and not self.unknown

    @property
    def is_open(self) -> bool:
        """Whether the known room is too small, and more may be there."""
        return self.bytes_to_move > self.room_bytes and not self.is_too_much


def absorption_of(
    copies: StoredCopies,
    disks: Mapping[BookieId, BookieRecord],
    leaving: Collection[BookieId],
    staying: Collection[BookieId],
    locations: Mapping[BookieId, str],
) -> Absorption:
    """Return whether `staying` bookies have room for what is promised on `leaving`.

    `disks` has what the run recorded. Two bookies of one host whose disks have the same size may
    share them, or have one each.
    """
    known = [bookie for bookie in staying if _says_its_space(disks.get(bookie))]
    places = {locations[bookie] for bookie in leaving if bookie in locations}
    near = [bookie for bookie in known if locations.get(bookie) in places]
    return Absorption(
        bytes_on(copies, leaving),
        _room(disks, known),
        _room(disks, near) if places else None,
        len(known),
        len(staying) - len(known),
        sum(_room(disks, [bookie]) for bookie in known),
    )


def _says_its_space(record: BookieRecord | None) -> bool:
    return record is not None and None not in (record.total_bytes, record.free_bytes)


def _room(disks: Mapping[BookieId, BookieRecord], bookies: Iterable[BookieId]) -> int:
    rooms: dict[tuple[str | None, int], int] = {}
    for bookie in bookies:
        record = disks[bookie]
        assert record.total_bytes is not None and record.free_bytes is not None, record
        kept_free = round(record.total_bytes * (1 - DISK_USAGE_LIMIT))
        disk = record.host if record.host is not None else bookie, record.total_bytes
        room = max(0, record.free_bytes - kept_free)
        rooms[disk] = min(rooms.get(disk, room), room)
    return sum(rooms.values())

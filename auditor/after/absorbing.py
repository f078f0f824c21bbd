"""Whether the bookies that stay have room for the copies of those that leave."""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
    entries. room_bytes: of the `known` bookies that stay. unknown: how many that stay did not say
    how full their disks are.
    """

    bytes_to_move: int
    room_bytes: int
    known: int
    unknown: int

    @property
    def is_too_much(self) -> bool:
        """Whether the room is known, and is too small."""
        return self.bytes_to_move > self.room_bytes and not self.unknown

    @property
    def is_open(self) -> bool:
        """Whether the known room is too small, and more may be there."""
        return self.bytes_to_move > self.room_bytes and self.unknown > 0


def absorption_of(
    copies: StoredCopies,
    disks: Mapping[BookieId, BookieRecord],
    leaving: Collection[BookieId],
    staying: Collection[BookieId],
) -> Absorption:
    """Return whether `staying` bookies have room for what is promised on `leaving`.

    `disks` has what the run recorded. Two bookies of one host whose disks have the same size count
    as sharing them.
    """
    rooms: dict[tuple[str | None, int], int] = {}
    unknown = 0
    for bookie in staying:
        record = disks.get(bookie)
        if record is None or record.total_bytes is None or record.free_bytes is None:
            unknown += 1
            continue
        kept_free = round(record.total_bytes * (1 - DISK_USAGE_LIMIT))
        disk = record.host if record.host is not None else bookie, record.total_bytes
        room = max(0, record.free_bytes - kept_free)
        rooms[disk] = min(rooms.get(disk, room), room)
    known = len(staying) - unknown
    return Absorption(bytes_on(copies, leaving), sum(rooms.values()), known, unknown)

"""Where a bookie's index says that some entries are, for a scrub to compare with the entry logs.

From each ledger the first and the last indexed entry are taken. They tell a log that was swapped,
cut or lost: a log itself does not say which log it is.

DbLedgerStorage has a RocksDB index in each of its directories, and numbers the logs of each
directory on their own. The other storages number the logs of a bookie, and have one `.idx` file a
ledger: 1,024 bytes of header, which has the ledger's master key and is never read, then 8 bytes an
entry. What their index has in memory is not in the file yet: a place in the file is only a reason
to ask.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from auditor.lister.index_file_names import index_files
from auditor.lister.index_view import IndexInDoubt, IndexView, Location

PLACES_PER_LOG_MAX = 64
"""Most places that are remembered of one log."""
INDEX_HEADER_BYTES = 1_024
"""Where the places begin in an index file. The header before it has the ledger's master key."""
PLACE_COST_BYTES = 4_096
"""What a place counts in the limit on bytes: a block of a table, or a page of a file."""
PAGE_BYTES = 8_192
"""How much of the end of an index file is read for its last entry: one page of the bookie's."""

_PLACE = struct.Struct(">II")


class Index(Protocol):
    """What a scrub asks an index."""

    def ends(self) -> Iterator[Location]:
        """Yield places of some entries. Raises IndexInDoubt."""

    def locate(self, ledger_id: int, entry_id: int) -> Location | None:
        """Return where an entry is by now, None if it is not indexed. Raises IndexInDoubt."""

    def refresh(self) -> None:
        """Catch up with the bookie. Raises IndexInDoubt."""

    def close(self) -> None:
        """Let go of every file."""


@dataclass(frozen=True, slots=True)
class IndexFiles:
    """The `.idx` files of InterleavedLedgerStorage and SortedLedgerStorage."""

    directories: Sequence[Path]

    def refresh(self) -> None:
        """Do nothing: each file is opened when it is read."""

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def ends(self) -> Iterator[Location]:
        """Yield the first and the last place in each file, ledger by ledger in no order.

        A file that is gone or cannot be read is left out. Raises IndexInDoubt if a directory cannot
        be listed. Costs two reads a ledger.
        """
        for directory in self.directories:
            try:
                for ledger_id, path in index_files(directory):
                    yield from _ends_of(path, ledger_id)
            except OSError as error:
                raise IndexInDoubt(f"the index files cannot be listed: {error}") from None

    def locate(self, ledger_id: int, entry_id: int) -> Location | None:
        for directory in self.directories:
            path = directory / _name_of(ledger_id)
            try:
                with path.open("rb", buffering=0) as file:
                    at = INDEX_HEADER_BYTES + entry_id * _PLACE.size
                    found = os.pread(file.fileno(), _PLACE.size, at)
            except OSError:
                continue
            if len(found) == _PLACE.size and any(found):
                return Location(ledger_id, entry_id, *_PLACE.unpack(found))
        return None


def _ends_of(path: Path, ledger_id: int) -> Iterator[Location]:
    try:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            entries = max(0, size - INDEX_HEADER_BYTES) // _PLACE.size
            shown = min(entries, PAGE_BYTES // _PLACE.size)
            first = os.pread(file.fileno(), shown * _PLACE.size, INDEX_HEADER_BYTES)
            behind = INDEX_HEADER_BYTES + (entries - shown) * _PLACE.size
            last = os.pread(file.fileno(), shown * _PLACE.size, behind)
    except OSError:
        return
    low = [Location(ledger_id, i, *place) for i, place in enumerate(_PLACE.iter_unpack(first))]
    high = [
        Location(ledger_id, entries - shown + i, *place)
        for i, place in enumerate(_PLACE.iter_unpack(last))
    ]
    used = [place for place in low if place.position][:1]
    used += [place for place in high if place.position][-1:]
    yield from dict.fromkeys(used)


def _name_of(ledger_id: int) -> str:
    return f"{ledger_id >> 8 & 0xFF:x}/{ledger_id & 0xFF:x}/{ledger_id:x}.idx"


@dataclass(slots=True)
class LogGroup:
    """Entry logs that are counted together, and the index that names them; None without one."""

    logs: Sequence[Path]
    index: Index | None

    def paths(self) -> dict[int, Path]:
        """Return the logs on disk by their number, ascending. Raises OSError."""
        found = {}
        for directory in self.logs:
            for path in directory.iterdir():
                if path.suffix == ".log":
                    with suppress(ValueError):
                        found[int(path.stem, 16)] = path
        return dict(sorted(found.items()))

    def places(self, pay: Callable[[int], None]) -> dict[int, dict[int, Location]]:
        """Return places by log and position, at most PLACES_PER_LOG_MAX of each log.

        `pay` is called with the bytes that a place costs to read. Raises IndexInDoubt.
        """
        found: dict[int, dict[int, Location]] = {}
        if self.index is None:
            return found
        self.index.refresh()
        try:
            for place in self.index.ends():
                pay(PLACE_COST_BYTES)
                of_log = found.setdefault(place.log, {})
                if len(of_log) < PLACES_PER_LOG_MAX:
                    of_log[place.position] = place
        finally:
            self.index.close()
        return found

    def still_there(self, places: Sequence[Location]) -> list[Location]:
        """Return those of the places that the index names by now. None if it is in doubt."""
        if self.index is None or not places:
            return []
        try:
            self.index.refresh()
            return [
                place
                for place in places
                if self.index.locate(place.ledger_id, place.entry_id) == place
            ]
        except IndexInDoubt:
            return []
        finally:
            self.index.close()


def groups_of(
    index_directories: Sequence[Path],
    ledger_directories: Sequence[Path],
    links: Path,
    *,
    is_db: bool,
) -> list[LogGroup]:
    """Return the groups of logs of a bookie. `links` is a directory of our own."""
    if not is_db:
        files = IndexFiles([directory / "current" for directory in index_directories])
        return [LogGroup([directory / "current" for directory in ledger_directories], files)]
    groups = []
    pairs = zip(index_directories, ledger_directories, strict=True)
    for number, (index, ledgers) in enumerate(pairs):
        own = links / f"links-{number}"
        own.mkdir(parents=True, exist_ok=True)
        view = IndexView(index / "current" / "locations", own)
        groups.append(LogGroup([ledgers / "current"], view))
    return groups

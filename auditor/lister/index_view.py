"""A read-only view of one `locations` index (RocksDB) of a running bookie: a ledger's entries.

The index is opened in the only way that was found to be safe: as a secondary instance, through a
directory of symbolic links of our own, with all files kept open. Nothing is written below the
bookie's directories, and no lock is taken. A view counts only if the stamp (CURRENT, the size of
the MANIFEST it names, the names of the write-ahead logs) is the same before and after the view
caught up. Otherwise the manifest may have been read before a flush and the log after it, and a
whole memtable would be missing without any error. Iteration uses `iter()` and `status()`, without
bounds.

A key is ledger id and entry id, a value is entry log id and offset, all big-endian. rocksdict's
`items` hides an error of the iteration: it just ends. The keys of a ledger are therefore complete
only if the iteration reached a key of a later ledger. If it did not, `_check_end` tells an error
from the end of the index.
"""

from __future__ import annotations

import itertools
import re
import struct
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from operator import sub
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from auditor.errors import AuditorError
from auditor.model.identity import ENTRY_ID_MAX, LEDGER_ID_MAX

PART_KEYS = 512
"""At most this many keys are read between two checks of the rate. What fits the processor's cache
is fastest."""
CHUNK_KEYS = 4 * PART_KEYS
"""At most this many keys are handled together: numpy's cost of a call is shared by more ledgers."""
CHUNK_KEYS_MIN = 64
"""Keys read at once if the keys behind the requested ledgers are not needed."""
KEY_BYTES, VALUE_BYTES = 16, 8
KEYS_A_SEEK = 32
"""A seek costs about as much as reading this many keys."""

_KEY = struct.Struct(">qq")
_PLACE = struct.Struct(">II")


class IndexInDoubt(AuditorError):
    """The index could not be read in a way that proves what it holds: no list is made from it."""


class Run(NamedTuple):
    """Entries that follow each other and lie in one entry log."""

    first: int
    entries: int
    log: int


class Location(NamedTuple):
    """Where an index says that an entry is. `position` is that of its body in the log."""

    ledger_id: int
    entry_id: int
    log: int
    position: int

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Location:
        """Return the location in a key and its value. Raises IndexInDoubt."""
        if len(key) != KEY_BYTES or len(value) != VALUE_BYTES:
            raise IndexInDoubt("a key or its value is not a location")
        return cls(*_KEY.unpack(key), *_PLACE.unpack(value))


class RunReader:
    """Reads the runs of ledgers from an index that does not change meanwhile. For one thread.

    Keys are read many at a time, and those behind the ledger's are kept: requests for ascending
    ledgers cost one iteration in all. No Python code runs for a single key.
    """

    def __init__(self, db: Any) -> None:
        self._db = db
        self._items: Iterator[tuple[bytes, bytes]] = iter(())
        self._next = b""
        """The lowest key that was not read yet."""
        self._low, self._high = 0, -1
        """The ledgers whose keys are kept: all of `_low` and above, but of `_high` only some."""
        self._ledgers: list[int] = []
        self._runs: list[Run] = []
        self._only: dict[int, Run] = {}
        """The run of each kept ledger that has a single one, without `_high`."""
        self._last = _NO_KEYS
        """The kept keys of `_high`."""
        self._chunk_keys = CHUNK_KEYS_MIN // 2
        self._kept = self._used = 0

    def only_run_of(self, ledger_id: int, on_keys: Callable[[int], None]) -> Run | None:
        """Return the single run of a ledger that is kept, or has its first keys kept.

        None says nothing about the ledger: ask `runs_of`. `on_keys` and errors as there.
        """
        if ledger_id == self._high >= self._low and len(self._last) <= PART_KEYS:
            self._read_on(on_keys)
        run = self._only.get(ledger_id)
        if run is not None:
            self._used += run.entries
        return run

    def runs_of(self, ledger_id: int, on_keys: Callable[[int], None]) -> Iterator[Run]:
        """Yield the runs of a ledger, ascending. `on_keys` is called with the number of keys read.

        Raises IndexInDoubt for a key or a value of another size and for an iteration that ended too
        early, and whatever rocksdict raises.
        """
        if not self._low <= ledger_id <= self._high:
            self._seek(ledger_id)
        held: Run | None = None
        for runs in self._portions(ledger_id, on_keys):
            for run in runs:
                if held is None:
                    held = run
                elif run.first == held.first + held.entries and run.log == held.log:
                    held = Run(held.first, held.entries + run.entries, held.log)
                else:
                    yield held
                    held = run
        if held is not None:
            yield held

    def _portions(self, ledger_id: int, on_keys: Callable[[int], None]) -> Iterator[Iterable[Run]]:
        """Yield the runs that are kept, then those of each chunk that has more of the ledger."""
        end = (ledger_id + 1).to_bytes(KEY_BYTES // 2)
        while True:
            if self._high >= ledger_id:
                yield self._kept_of(ledger_id)
            if self._high > ledger_id:
                return
            try:
                chunk = self._read_chunk(on_keys)
            except _NotLocations:
                yield from self._read_exactly(ledger_id, end, on_keys)
                return
            if not len(chunk):
                _check_end(self._db, self._next, end)
                return
            if self._high >= 0:  # part of the ledger may be in the chunk before, which is not kept
                self._low = ledger_id + 1
            self._keep(chunk)

    def _read_on(self, on_keys: Callable[[int], None]) -> None:
        """Keep the next chunk, and the keys of the last ledger before it.

        If the next keys are not locations, nothing is kept. At the end of the index all is.
        """
        try:
            chunk = self._read_chunk(on_keys)
        except _NotLocations:
            self._forget()
            return
        if len(chunk):
            self._low = self._high
            self._keep(_Keys.joined([self._last, chunk]))

    def _read_chunk(self, on_keys: Callable[[int], None]) -> _Keys:
        """Return the next keys, none at the end. Raises _NotLocations."""
        parts: list[_Keys] = []
        left = self._keys_to_read()
        while left > 0 and (part := list(itertools.islice(self._items, min(left, PART_KEYS)))):
            on_keys(len(part))
            parts.append(_Keys.of(part))
            left -= PART_KEYS
        chunk = _Keys.joined(parts)
        self._kept, self._used = len(chunk), 0
        return chunk

    def _keys_to_read(self) -> int:
        """Return the size of the next chunk: smaller if most keys of the last one were not used."""
        if 2 * self._used >= self._kept:
            self._chunk_keys = min(CHUNK_KEYS, 2 * self._chunk_keys)
        else:
            self._chunk_keys = max(CHUNK_KEYS_MIN, self._chunk_keys // 2)
        return self._chunk_keys

    def _seek(self, ledger_id: int) -> None:
        """Begin a new iteration at a ledger."""
        self._forget()
        self._low = ledger_id
        self._next = _KEY.pack(ledger_id, 0)
        self._items = iter(self._db.items(from_key=self._next))

    def _forget(self) -> None:
        """Keep no keys."""
        self._high, self._only, self._last = -1, {}, _NO_KEYS

    def _keep(self, chunk: _Keys) -> None:
        """Keep the runs of a chunk instead of those before it."""
        first, last = chunk.ledger_at(0), chunk.ledger_at(-1)
        if first == last:
            self._runs = list(chunk.runs())
            self._ledgers = [first] * len(self._runs)
            self._only, self._last = {}, chunk
        else:
            self._ledgers, self._runs, self._only = chunk.runs_by_ledger()
            if first < self._low:
                self._only.pop(first, None)
            self._last = chunk.from_ledger(last)
        self._high, self._next = last, chunk.last_key() + b"\0"

    def _kept_of(self, ledger_id: int) -> list[Run]:
        start = bisect_left(self._ledgers, ledger_id)
        runs = self._runs[start : bisect_right(self._ledgers, ledger_id)]
        self._used += sum(run.entries for run in runs)
        return runs

    def _read_exactly(
        self, ledger_id: int, end: bytes, on_keys: Callable[[int], None]
    ) -> Iterator[Iterable[Run]]:
        """Yield the runs from `_next` on, key by key up to the end of the ledger.

        A key or value of another size behind the ledger says nothing about it.
        """
        start = self._next
        self._forget()  # no keys are kept from here on
        items = self._db.items(from_key=start)
        mine = itertools.takewhile((end,).__gt__, items)
        while part := list(itertools.islice(mine, PART_KEYS)):
            on_keys(len(part))
            try:
                keys = _Keys.of(part)
            except _NotLocations:
                raise IndexInDoubt(
                    f"a key of ledger {ledger_id} or its value is not a location"
                ) from None
            start = keys.last_key() + b"\0"
            yield keys.runs()
        if next(items, None) is None:
            _check_end(self._db, start, end)


class _NotLocations(ValueError):
    """A key or a value has another size than a location has."""


@dataclass(frozen=True, slots=True)
class _Keys:
    """Keys of an index and their values, one behind the other."""

    keys: bytes
    values: bytes

    @classmethod
    def of(cls, items: list[tuple[bytes, bytes]]) -> _Keys:
        """Return these items. Raises _NotLocations."""
        keys, values = zip(*items, strict=True)
        if {*map(len, keys)} != {KEY_BYTES} or {*map(len, values)} != {VALUE_BYTES}:
            raise _NotLocations
        return cls(b"".join(keys), b"".join(values))

    @classmethod
    def joined(cls, parts: list[_Keys]) -> _Keys:
        """Return the keys of all parts."""
        return cls(b"".join(part.keys for part in parts), b"".join(part.values for part in parts))

    def __len__(self) -> int:
        return len(self.keys) // KEY_BYTES

    def ledger_at(self, index: int) -> int:
        """Return the ledger of the first key (0) or the last one (-1)."""
        at = index % len(self) * KEY_BYTES
        return _ledger_of(self.keys[at : at + KEY_BYTES])

    def last_key(self) -> bytes:
        return self.keys[-KEY_BYTES:]

    def from_ledger(self, ledger_id: int) -> _Keys:
        """Return the keys of a ledger and of all behind it."""
        ledgers = np.frombuffer(self.keys, ">u8")[::2]
        start = int(ledgers.searchsorted(ledger_id))
        return _Keys(self.keys[start * KEY_BYTES :], self.values[start * VALUE_BYTES :])

    def runs(self) -> Iterable[Run]:
        """Return the runs of keys of one ledger."""
        count = len(self)
        first, last = _entry_of(self.keys[:KEY_BYTES]), _entry_of(self.last_key())
        logs = np.frombuffer(self.values, ">u4")[::2]
        if last == first + count - 1 and (logs == logs[0]).all():
            return [Run(first, count, int(logs[0]))]
        entries = np.frombuffer(self.keys, ">u8")[1::2]
        starts = np.flatnonzero((np.diff(entries) != 1) | (np.diff(logs) != 0)) + 1
        starts = np.concatenate(([0], starts))
        sizes = np.diff(starts, append=count)
        return map(Run, entries[starts].tolist(), sizes.tolist(), logs[starts].tolist())

    def runs_by_ledger(self) -> tuple[list[int], list[Run], dict[int, Run]]:
        """Return the runs of keys of several ledgers, the ledger of each, and the only runs.

        Those are the runs of ledgers with a single one, without the last ledger.
        """
        ids = np.frombuffer(self.keys, ">u8")
        ledgers, entries = ids[::2], ids[1::2].astype("u8")
        logs = np.frombuffer(self.values, ">u4")[::2]
        is_new = entries[1:] - entries[:-1] != 1
        for equal in (np.frombuffer(self.keys, "u8")[::2], np.frombuffer(self.values, "u4")[::2]):
            is_new |= equal[1:] != equal[:-1]  # in the machine's own byte order, which is faster
        starts = [0, *(is_new.nonzero()[0] + 1).tolist()]
        sizes = map(sub, [*starts[1:], len(self)], starts)
        runs = list(map(Run, entries[starts].tolist(), sizes, logs[starts].tolist()))
        of_runs = ledgers[starts].tolist()
        only = dict(zip(of_runs, runs, strict=True))
        if len(only) < len(runs):
            several = [one for one, behind in pairwise(of_runs) if one == behind]
            for ledger_id in several:
                only.pop(ledger_id, None)
        only.pop(of_runs[-1], None)
        return of_runs, runs, only


_NO_KEYS = _Keys(b"", b"")


def _ledger_of(key: bytes) -> int:
    return int.from_bytes(key[: KEY_BYTES // 2])


def _entry_of(key: bytes) -> int:
    return int.from_bytes(key[KEY_BYTES // 2 :])


def _check_end(db: Any, start: bytes, end: bytes) -> None:
    """Raise IndexInDoubt if the index has keys of the ledger from `start` on that were not read."""
    it = db.iter()
    it.seek(start)
    it.status()
    if it.valid() and it.key() < end:
        raise IndexInDoubt("the iteration ended before the last key of the ledger")


STAMP_TRIES_MAX = 20
"""If the view cannot catch up in this many tries, the index is in doubt. Under a storm of flushes
some 8 % of the tries fail."""
STAMP_WAIT_S = 0.02
"""Pause between two tries."""
TABLE_AGE_S = 600.0
"""Table files of this age must be part of the view. Younger ones may still be written."""
TABLE_CHECK_S = 60.0
"""How often the table files are compared while the index does not change."""
DB_PATH_BYTES = 2**50
"""Target size of the only data path: larger than any disk, to keep RocksDB from looking
elsewhere."""

_MANIFEST = re.compile(r"MANIFEST-[0-9]+")
_WAL_DIRECTORY = re.compile(r"^\s*wal_dir=(.*)$", re.MULTILINE)


class NoWholeView(IndexInDoubt):
    """The index as a whole is in doubt: nothing can be said about any ledger."""


class Stamp(NamedTuple):
    """What changes when the bookie flushes, rolls its manifest or restarts.

    `file` is the device and inode of the manifest: an index made anew may give it the same name.
    """

    manifest: str
    file: tuple[int, int]
    manifest_bytes: int
    logs: frozenset[str]


def stamp_of(locations: Path) -> Stamp:
    """Return the stamp of an index. Raises IndexInDoubt if it has no readable CURRENT."""
    try:
        manifest = (locations / "CURRENT").read_text().strip()
        if _MANIFEST.fullmatch(manifest) is None:
            raise IndexInDoubt(f"CURRENT of {locations} names no manifest")
        found = (locations / manifest).stat()
        logs = frozenset(path.name for path in locations.iterdir() if path.name.endswith(".log"))
    except (OSError, UnicodeDecodeError) as error:
        raise IndexInDoubt(f"the index {locations} cannot be read: {error}") from None
    return Stamp(manifest, (found.st_dev, found.st_ino), found.st_size, logs)


def check_wal_directory(locations: Path) -> None:
    """Raise IndexInDoubt if the index keeps its write-ahead log elsewhere.

    Its keys would be missed. A bookie with relative directories names the log below the directory
    in which it was started.
    """
    try:
        options = sorted(locations.glob("OPTIONS-[0-9]*"))
        text = options[-1].read_text(errors="replace") if options else ""
    except OSError as error:
        raise IndexInDoubt(f"the options of {locations} cannot be read: {error}") from None
    match = _WAL_DIRECTORY.search(text)
    log_directory = match[1].strip() if match else ""
    if log_directory and not _is_at(locations, Path(log_directory)):
        raise IndexInDoubt(
            f"the index {locations} has its write-ahead log in {log_directory}: not supported"
        )


def _is_at(locations: Path, named: Path) -> bool:
    if not named.is_absolute():
        return locations.parts[-len(named.parts) :] == named.parts
    return named == locations or named.resolve() == locations.resolve()


class IndexView:
    """One index, seen at the time of the last `refresh`. For one thread.

    `links` is an empty directory of our own, for links and RocksDB's own log.
    """

    def __init__(
        self, locations: Path, links: Path, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._locations = locations
        self._links = links
        self._monotonic = monotonic
        self._db: Any = None
        self._runs: RunReader | None = None
        """Reads the current view; None before its first read."""
        self._manifest: tuple[str, tuple[int, int]] | None = None
        self._checked: tuple[Stamp, float] | None = None
        self.seen_at: float | None = None
        """When the view last began to catch up, on the monotonic clock; None without a view."""

    def refresh(self) -> None:
        """Catch up with the bookie. Raises NoWholeView if the stamp changes during every try.

        Costs 1-2 ms when the bookie is idle. The first call takes as long as the write-ahead log
        needs.
        """
        why = "it was flushed each time it was read"
        for _ in range(STAMP_TRIES_MAX):
            try:
                seen_at, self._runs = self._monotonic(), None
                before = stamp_of(self._locations)
                self._catch_up(before)
                if before == stamp_of(self._locations):
                    self._check_tables(before)
                    self.seen_at = seen_at
                    return
            except IndexInDoubt as error:
                why = str(error)
            time.sleep(STAMP_WAIT_S)
        self.close()
        raise NoWholeView(f"no whole view of {self._locations} in {STAMP_TRIES_MAX} tries: {why}")

    def _catch_up(self, stamp: Stamp) -> None:
        """Let the open view catch up, or open one. An error closes it: the next try opens a new
        one.

        A new manifest closes it too: the bookie restarted, or this is another index. The old view
        would keep what it read there, and would go on reading the old manifest.
        """
        try:
            if (stamp.manifest, stamp.file) != self._manifest:
                self.close()
                self._link(stamp)
            if self._db is None:
                self._db = self._open()
            else:
                self._db.try_catch_up_with_primary()
        except Exception as error:  # rocksdict raises Exception itself
            self.close()
            raise IndexInDoubt(
                f"the index {self._locations} could not be opened: {error}"
            ) from None

    def _check_tables(self, stamp: Stamp) -> None:
        """Raise IndexInDoubt if the view lacks an old table file that is on disk.

        A secondary that cannot read a table silently falls back to the newest version without
        unreadable tables. All later tables would then be missing, too.
        """
        now = self._monotonic()
        if self._checked is not None:
            checked, at = self._checked
            if stamp == checked and now - at < TABLE_CHECK_S:
                return
        live = {str(table["name"]).lstrip("/") for table in self._db.live_files()}
        try:
            old = time.time() - TABLE_AGE_S
            missed = [
                path.name
                for path in self._locations.iterdir()
                if path.name.endswith(".sst")
                and path.name not in live
                and path.stat().st_mtime <= old
            ]
        except OSError as error:
            raise IndexInDoubt(
                f"the tables of {self._locations} cannot be listed: {error}"
            ) from None
        if missed:
            self.close()
            raise IndexInDoubt(
                f"the view lacks {len(missed)} tables that are on disk, {min(missed)} first"
            )
        self._checked = stamp, now

    def _link(self, stamp: Stamp) -> None:
        for name in ("CURRENT", stamp.manifest):
            (self._links / name).symlink_to(self._locations / name)
        self._manifest = stamp.manifest, stamp.file

    def _open(self) -> Any:
        from rocksdict import AccessType, DBPath, Options, Rdict

        check_wal_directory(self._locations)
        options = Options(raw_mode=True)
        options.create_if_missing(False)
        options.set_max_open_files(-1)
        options.set_db_paths([DBPath(str(self._locations), DB_PATH_BYTES)])
        options.set_wal_dir(str(self._locations))
        secondary = self._links / "secondary"
        secondary.mkdir(exist_ok=True)
        for log in secondary.glob("LOG.old.*"):
            log.unlink()  # logs of 20 KB for each opening; a secondary itself removes none of them
        return Rdict(str(self._links), options, access_type=AccessType.secondary(str(secondary)))

    def only_run_of(self, ledger_id: int, on_keys: Callable[[int], None]) -> Run | None:
        """Return the single run of a ledger whose keys were read with those of earlier ledgers.

        None says nothing about the ledger. Otherwise as `runs_of`.
        """
        if self._runs is None:
            return None
        try:
            return self._runs.only_run_of(ledger_id, on_keys)
        except Exception as error:  # rocksdict raises Exception itself
            raise self._failed(error) from None

    def runs_of(self, ledger_id: int, on_keys: Callable[[int], None]) -> Iterator[Run]:
        """Yield the runs of a ledger's indexed entries, ascending.

        `on_keys` is called with the number of keys read, every PART_KEYS and at the end. Raises
        IndexInDoubt for an error of the iteration, and for a key or value of another size. Call
        `refresh` first. Costs a third of a microsecond an entry.
        """
        assert self._db is not None, "refresh the view first"
        try:
            if self._runs is None:
                self._runs = RunReader(self._db)
            yield from self._runs.runs_of(ledger_id, on_keys)
        except IndexInDoubt:
            self._runs = None  # an iteration that failed would fail again
            raise
        except Exception as error:  # rocksdict raises Exception itself
            raise self._failed(error) from None

    def ends(self) -> Iterator[Location]:
        """Yield where the first and the last indexed entry of each ledger are, ascending.

        Raises IndexInDoubt. Call `refresh` first. Costs two seeks a ledger.
        """
        it = self._iterator()
        try:
            it.seek(_KEY.pack(0, 0))
            while it.valid():
                first = Location.decode(it.key(), it.value())
                yield first
                it.seek_for_prev(_KEY.pack(first.ledger_id, ENTRY_ID_MAX))
                last = Location.decode(it.key(), it.value())
                if last != first:
                    yield last
                it.seek(_KEY.pack(first.ledger_id + 1, 0))
            it.status()
        except IndexInDoubt:
            raise
        except Exception as error:  # rocksdict raises Exception itself
            raise self._failed(error) from None

    def locate(self, ledger_id: int, entry_id: int) -> Location | None:
        """Return where an entry is, None if it is not indexed. As `ends`."""
        it = self._iterator()
        try:
            key = _KEY.pack(ledger_id, entry_id)
            it.seek(key)
            it.status()
            if not it.valid() or it.key() != key:
                return None
            return Location.decode(key, it.value())
        except IndexInDoubt:
            raise
        except Exception as error:  # rocksdict raises Exception itself
            raise self._failed(error) from None

    def _iterator(self) -> Any:
        assert self._db is not None, "refresh the view first"
        return self._db.iter()

    def _failed(self, error: Exception) -> IndexInDoubt:
        """Close the view, and return that it failed."""
        self.close()
        return IndexInDoubt(f"the index {self._locations} failed while it was read: {error}")

    def ledgers_from(
        self, first: int, ledgers_max: int, on_keys: Callable[[int], None]
    ) -> tuple[list[int], int | None]:
        """Return at most `ledgers_max` indexed ledgers from `first` on, and the one behind them.

        None if there is no other. `on_keys` is called with a number of keys that cost as much as
        each seek. Raises IndexInDoubt. Call `refresh` first. Costs a seek a ledger.
        """
        found: list[int] = []
        it = self._iterator()
        try:
            it.seek(_KEY.pack(first, 0))
            while it.valid():
                key = it.key()
                if len(key) != KEY_BYTES:
                    raise IndexInDoubt("a key of the index is not that of an entry")
                ledger_id = _ledger_of(key)
                if len(found) == ledgers_max:
                    return found, ledger_id
                found.append(ledger_id)
                on_keys(KEYS_A_SEEK)
                if ledger_id >= LEDGER_ID_MAX:
                    break
                it.seek(_KEY.pack(ledger_id + 1, 0))
            it.status()
        except IndexInDoubt:
            raise
        except Exception as error:  # rocksdict raises Exception itself
            raise self._failed(error) from None
        return found, None

    def close(self) -> None:
        """Close the view and remove its links. May be called again; `refresh` opens a new one."""
        db, self._db, self._runs = self._db, None, None
        self._manifest, self.seen_at, self._checked = None, None, None
        if db is not None:
            db.close()
        for link in self._links.iterdir():
            if link.is_symlink():
                link.unlink()

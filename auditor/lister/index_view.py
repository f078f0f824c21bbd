"""A read-only view of one `locations` index (RocksDB) of a running bookie.

The index is opened in the one way that was seen to be safe: as a secondary instance, through a
directory of symbolic links of our own, with all files kept open. Nothing is written below the
bookie's directories and no lock is taken. A view counts only if the stamp (CURRENT, the size of the
MANIFEST it names, the names of the write-ahead logs) is the same before and after it was caught up:
otherwise the manifest may have been read before a flush and the log after it, and a whole memtable
would be missing without any error. Iteration uses `iter()` and `status()`, without bounds.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from auditor.lister.location_runs import IndexInDoubt, Run, RunReader

STAMP_TRIES_MAX = 20
"""Times a view is caught up before the index counts as in doubt. Under a storm of flushes some 8 %
of the tries fail."""
STAMP_WAIT_S = 0.02
"""Pause between two tries."""
TABLE_AGE_S = 600.0
"""Age from which a table file on disk must be part of the view: younger ones may still be
written.
"""
TABLE_CHECK_S = 60.0
"""How often the table files are compared while the index does not change."""
DB_PATH_BYTES = 2**50
"""Target size of the only data path: larger than any disk, so that RocksDB looks nowhere else."""

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
    """Raise IndexInDoubt if the index keeps its write-ahead log elsewhere: its keys would be
    missed.

    A bookie with relative directories names it below the directory in which it was started.
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
        """Reads the view as it was caught up last; None before it is read."""
        self._manifest: tuple[str, tuple[int, int]] | None = None
        self._checked: tuple[Stamp, float] | None = None
        self.seen_at: float | None = None
        """When the last catching up began, on the monotonic clock; None without a view."""

    def refresh(self) -> None:
        """Catch up with the bookie. Raises NoWholeView if no try has an unchanged stamp.

        Costs 1-2 ms when the bookie is idle; the first time as long as the write-ahead log takes.
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
        """Catch up the open view, or open one. Any error closes it: the next try opens anew.

        A new manifest closes it too: the bookie restarted, or this is another index. A view of the
        old one would keep what it read there, and would read on in the old manifest.
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
            log.unlink()  # 20 KB at each opening; a secondary itself removes none of them
        return Rdict(str(self._links), options, access_type=AccessType.secondary(str(secondary)))

    def runs_of(self, ledger_id: int, on_keys: Callable[[int], None]) -> Iterator[Run]:
        """Yield the runs of what is indexed, ascending. `on_keys` is called with the number of
        keys read, each CHUNK_KEYS and at the end.

        Raises IndexInDoubt for an error of the iteration, and for a key or value of another size.
        Call `refresh` first. Costs a third of a microsecond an entry.
        """
        assert self._db is not None, "refresh the view first"
        try:
            if self._runs is None:
                self._runs = RunReader(self._db)
            yield from self._runs.runs_of(ledger_id, on_keys)
        except IndexInDoubt:
            self._runs = None  # its iteration ended: it would fail again
            raise
        except Exception as error:  # rocksdict raises Exception itself
            self.close()
            raise IndexInDoubt(
                f"the index {self._locations} failed while it was read: {error}"
            ) from None

    def close(self) -> None:
        """Close the view and remove its links. May be called again; `refresh` opens a new one."""
        db, self._db, self._runs = self._db, None, None
        self._manifest, self.seen_at, self._checked = None, None, None
        if db is not None:
            db.close()
        for link in self._links.iterdir():
            if link.is_symlink():
                link.unlink()

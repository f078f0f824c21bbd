"""A `locations` index as DbLedgerStorage keeps it, written with rocksdict in the same way as by a
bookie.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from rocksdict import Options, Rdict, WriteBatch

COOKIE = (
    '5\nbookieHost: "{bookie}"\njournalDir: "/journal"\nledgerDirs: "{dirs}"\ninstanceId:'
    ' "{instance}"\nindexDirs: "{dirs}"\n'
)
WRITE_BUFFER_BYTES = 64 * 2**10
"""Smallest write buffer of RocksDB: it is flushed after some 2,000 keys."""


class LocationIndex:
    """The index and the entry logs of one ledger directory. It closes itself as a context
    manager.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.locations = directory / "current" / "locations"
        self.logs = directory / "current"
        self.logs.mkdir(parents=True, exist_ok=True)
        self._db: Rdict | None = None
        self.start()

    def start(self, *, compacts: bool = True) -> None:
        """Open the index as a bookie does: for writing, with a new manifest."""
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(WRITE_BUFFER_BYTES)
        options.set_disable_auto_compactions(not compacts)
        self._db = Rdict(str(self.locations), options)

    def put(self, ledger_id: int, entries: Iterable[int], log: int = 0) -> None:
        """Index these entries as lying in one entry log, and create the log."""
        assert self._db is not None, "the index is closed"
        (self.logs / f"{log:x}.log").touch()
        for entry in entries:
            self._db[struct.pack(">qq", ledger_id, entry)] = struct.pack(">ii", log, 1028)

    def remove(self, ledger_id: int, entries: Iterable[int]) -> None:
        """Lose these entries from the index."""
        assert self._db is not None, "the index is closed"
        for entry in entries:
            del self._db[struct.pack(">qq", ledger_id, entry)]

    def put_raw(self, key: bytes, value: bytes) -> None:
        """Write any key and value."""
        assert self._db is not None, "the index is closed"
        self._db[key] = value

    def write(self, batch: WriteBatch) -> None:
        """Write a batch, as a bookie does at a flush."""
        assert self._db is not None, "the index is closed"
        self._db.write(batch)

    def delete_and_compact(self, first: bytes, behind: bytes) -> None:
        """Delete the keys from `first` up to, but without, `behind`, and compact all tables."""
        assert self._db is not None, "the index is closed"
        self._db.delete_range(first, behind)
        self._db.compact_range(None, None)

    def flush(self) -> None:
        """Write the memtable to a file and start a new log."""
        assert self._db is not None, "the index is closed"
        self._db.flush()

    def close(self) -> None:
        """Close the index. A second call does nothing."""
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def __enter__(self) -> LocationIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def write_cookie(
    directory: Path, bookie: str, directories: Iterable[Path] = (), instance: str = "the-instance"
) -> None:
    """Write the cookie of a bookie with these directories (default: this one alone)."""
    named = [str(one) for one in directories] or [str(directory)]
    dirs = "\\t".join([str(len(named)), *named])
    (directory / "current").mkdir(parents=True, exist_ok=True)
    (directory / "current" / "VERSION").write_text(
        COOKIE.format(bookie=bookie, dirs=dirs, instance=instance)
    )

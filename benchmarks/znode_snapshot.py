"""Write the data of a ZooKeeper server without a server: a snapshot of as many znodes as wanted.

Ten million znodes take half a minute of one processor; through a session they take ten minutes. The
form is that of ZooKeeper's FileSnap and DataTree (3.9): a header, no sessions, one access list, the
znodes with each parent before its children, and a checksum. The server checks it when it starts.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

from auditor.clock import now_ms

FOLDER, TRANSACTION = "version-2", 1
"""Where a server looks for snapshots, and the transaction that created all znodes."""
PORTION = 20_000
"""Znodes that are encoded at a time."""
SYSTEM_ZNODES = (("/zookeeper/config", b""), ("/zookeeper/quota", b""))
_INT, _LONG = struct.Struct(">i"), struct.Struct(">q")
_STAT = struct.Struct(">4q3i2q")
"""czxid, mzxid, ctime, mtime, version, cversion, aversion, ephemeralOwner, pzxid."""
_ALL_RIGHTS, _OPEN_TO_ALL = 31, 1
_ADLER_OF_NOTHING = 1


def write_snapshot(directory: Path, znodes: Iterable[tuple[str, bytes]]) -> None:
    """Write the znodes, and those above them, to the data directory of a server that never ran.

    All are open to everybody, and are created now. No path may come twice. A path that has others
    below it comes right before these.
    """
    folder = directory / FOLDER
    folder.mkdir(parents=True)
    unfinished = folder / "unfinished"
    checksum = _ADLER_OF_NOTHING
    with unfinished.open("wb") as file:
        for part in _parts(znodes):
            checksum = zlib.adler32(part, checksum)
            file.write(part)
        file.write(_LONG.pack(checksum) + _string("/"))
    unfinished.rename(folder / f"snapshot.{TRANSACTION:x}")


def _parts(znodes: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    world = _INT.pack(_ALL_RIGHTS) + _string("world") + _string("anyone")
    yield b"ZKSN" + _INT.pack(2) + _LONG.pack(-1)
    yield _INT.pack(0)  # sessions
    yield _INT.pack(1) + _LONG.pack(_OPEN_TO_ALL) + _INT.pack(1) + world
    created = now_ms()
    stat = _STAT.pack(TRANSACTION, TRANSACTION, created, created, 0, 0, 0, 0, TRANSACTION)
    end = _LONG.pack(_OPEN_TO_ALL) + stat
    records = _records(chain(SYSTEM_ZNODES, znodes), end)
    while portion := list(islice(records, PORTION)):
        yield b"".join(portion)
    yield _string("/")


def _records(znodes: Iterable[tuple[str, bytes]], end: bytes) -> Iterator[bytes]:
    """Yield each znode after those above it. `end` is what follows the data of each."""
    empty = _INT.pack(0) + end
    yield _string("") + empty  # the root
    above, last = {""}, ""
    for path, data in znodes:
        parent = path.rpartition("/")[0]
        if parent == last:
            above.add(parent)
        elif parent not in above:
            names = parent.split("/")
            for depth in range(2, len(names) + 1):
                if (upper := "/".join(names[:depth])) not in above:
                    above.add(upper)
                    yield _string(upper) + empty
        last = path
        yield b"%b%b%b%b" % (_string(path), _INT.pack(len(data)), data, end)


def _string(text: str) -> bytes:
    data = text.encode()
    return _INT.pack(len(data)) + data

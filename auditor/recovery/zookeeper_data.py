"""Serve a copy of a ZooKeeper's data directory from an embedded server.

A data directory has snapshots (`snapshot.<zxid>`) and transaction logs (`log.<zxid of the first
transaction>`), usually in `version-2`. ZooKeeper loads the newest snapshot that it can read, and
applies the transactions behind it. It writes to its directory when it starts, so that it gets a
copy: nothing of the original is opened for writing.

The server ignores ACLs: who may copy the files may read them.
"""

from __future__ import annotations

import re
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from auditor.errors import ConfigError, StoreUnavailable
from auditor.model.cluster import BookieRecord
from auditor.model.identity import BookieId, split_host_port
from auditor.report.layout import size
from auditor.sandbox.seeder import Seeder
from auditor.sandbox.zookeeper_server import HEAP_MB, EmbeddedZooKeeper
from auditor.wire import bookie_registration
from auditor.wire.znode_paths import LedgerLayout

SNAPSHOTS_COPIED_MAX = 3
"""The newest snapshots are copied, as many as ZooKeeper itself keeps when it purges. If the newest
cannot be read, ZooKeeper takes the one before it."""
HEAP_PER_SNAPSHOT_BYTE = 4
"""Java heap for each byte of the newest snapshot: znodes take more room in memory."""
HEAP_PER_PACKED_BYTE = 20
"""The same for a snapshot that is compressed."""
START_TIMEOUT_S = 900.0
"""How long the server may take to load the copy. Ten million znodes take some minutes."""
ZNODE_BYTES_MAX = 64 * 2**20
"""Largest znode that is loaded: the original may run with a raised jute.maxbuffer."""
DAMAGED_ADVICE = (
    "Copy the files again while that server is stopped, leave out what is damaged, or start a"
    " ZooKeeper of the release that wrote them on a copy and give --restored-uri"
)
FREE_RATIO = 1.5
"""Free space that the copy needs, in proportion to its files: ZooKeeper writes a new snapshot."""

_FILE = re.compile(r"(snapshot|log)\.([0-9a-f]{1,16})(\.gz|\.snappy)?")
_MAGIC = {"snapshot": b"ZKSN", "log": b"ZKLG"}
_VERSION = 2
_HEADER = struct.Struct(">4si")
_TAKE = "take snapshot.* and log.* from version-2 of its dataDir and of its dataLogDir"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A snapshot or a transaction log. `zxid` is the one in its name."""

    path: Path
    kind: str
    zxid: int
    size_bytes: int
    is_packed: bool


def find_files(places: Sequence[Path]) -> list[DataFile]:
    """Return the snapshots and logs that ZooKeeper needs to load the newest state, by zxid.

    A place is a data directory, its `version-2`, or one file. Raises ConfigError with what to do if
    there is no usable snapshot, and if a place cannot be read.
    """
    found = [file for place in places for file in _files_in(place)]
    snapshots = sorted((f for f in found if f.kind == "snapshot"), key=lambda f: f.zxid)
    logs = sorted((f for f in found if f.kind == "log"), key=lambda f: f.zxid)
    where = ", ".join(map(str, places))
    if not snapshots:
        lacks = f"logs ({len(logs)}) and no snapshot" if logs else "neither a snapshot nor a log"
        raise ConfigError(f"{where} has {lacks} of ZooKeeper: {_TAKE}")
    usable = [f for f in snapshots if not _problem(f)]
    if not usable:
        why = _problem(snapshots[-1])
        raise ConfigError(f"{where} has no usable snapshot: {snapshots[-1].path.name} {why}")
    kept = usable[-SNAPSHOTS_COPIED_MAX:]
    oldest = kept[0].zxid
    _refuse_gap(kept[-1], logs)
    behind = [f for f in logs if f.zxid > oldest + 1]
    before = [f for f in logs if f.zxid <= oldest + 1][-1:]
    for log in (*before, *behind):
        if log.size_bytes and (why := _problem(log)):
            raise ConfigError(f"{log.path} {why}: copy it again, or rehearse without it")
    return sorted((*kept, *before, *behind), key=lambda f: (f.zxid, f.kind))


def _refuse_gap(snapshot: DataFile, logs: Sequence[DataFile]) -> None:
    """Raise ConfigError if the log with the transactions right behind the snapshot is missing.

    ZooKeeper would apply the later ones without a word. Within an epoch, the upper half of a zxid,
    it numbers transactions without a gap. `logs` are by zxid.
    """
    if not logs or logs[0].zxid <= snapshot.zxid + 1:
        return
    first = logs[0]
    if first.zxid >> 32 == snapshot.zxid >> 32:
        raise ConfigError(
            f"{snapshot.path.name} ends before {first.path.name} begins: the log with the"
            f" transactions 0x{snapshot.zxid + 1:x} to 0x{first.zxid - 1:x} is missing. Copy it"
            " too, or rehearse without the logs"
        )


def _files_in(place: Path) -> list[DataFile]:
    try:
        if place.is_file():
            file = _data_file(place)
            if file is None or file.kind != "snapshot":
                raise ConfigError(
                    f"{place} is not named snapshot.<zxid in hex>: keep the name that ZooKeeper"
                    " gave it, or name the directory"
                )
            return [file]
        if not place.is_dir():
            raise ConfigError(f"there is no {place}: name a copy of a ZooKeeper's dataDir")
        inner = place / "version-2"
        named = (_data_file(path) for path in (inner if inner.is_dir() else place).iterdir())
        return [file for file in named if file is not None]
    except OSError as error:
        raise ConfigError(f"{place} cannot be read: {error.strerror}") from None


def _data_file(path: Path) -> DataFile | None:
    match = _FILE.fullmatch(path.name)
    if match is None or not path.is_file():
        return None
    is_packed = match[3] is not None
    return DataFile(path, match[1], int(match[2], 16), path.stat().st_size, is_packed)


def _problem(file: DataFile) -> str:
    """Return what is wrong with the beginning of a file, or ""."""
    if file.is_packed:
        return ""
    try:
        with file.path.open("rb") as stream:
            head = stream.read(_HEADER.size)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if not head:
        return "is empty"
    if len(head) < _HEADER.size or head[:4] != _MAGIC[file.kind]:
        return f"is not a {file.kind} of ZooKeeper"
    version = _HEADER.unpack(head)[1]
    if version != _VERSION:
        return (
            f"has format version {version}, and this auditor's ZooKeeper reads {_VERSION}: start a"
            " ZooKeeper of that release on a copy, and give --restored-uri"
        )
    return ""


@dataclass(frozen=True, slots=True)
class ServedCopy:
    """A running server. `notes` are sentences on how much of the original it shows."""

    connect_string: str
    notes: tuple[str, ...]


@contextmanager
def serve_copy(
    places: Sequence[Path], scratch: Path, on_wait: Callable[[], None] = lambda: None
) -> Iterator[ServedCopy]:
    """Copy a ZooKeeper's data below `scratch`, and serve the copy while the context is open.

    `on_wait` is called between files and while the server loads, and may raise. Raises ConfigError
    if the data cannot be used or there is no room for the copy, StoreUnavailable if no server
    starts.
    """
    files = find_files(places)
    needed = sum(file.size_bytes for file in files)
    free = shutil.disk_usage(scratch).free
    if free < needed * FREE_RATIO:
        raise ConfigError(
            f"the copy needs {size(round(needed * FREE_RATIO))}, and {scratch} has {size(free)}"
            " free: set TMPDIR to a larger disk"
        )
    data = scratch / "data" / "version-2"
    data.mkdir(parents=True)
    for file in files:
        on_wait()
        shutil.copyfile(file.path, data / file.path.name)
    newest = [file for file in files if file.kind == "snapshot"][-1]
    factor = HEAP_PER_PACKED_BYTE if newest.is_packed else HEAP_PER_SNAPSHOT_BYTE
    server = EmbeddedZooKeeper(
        scratch,
        heap_mb=HEAP_MB + factor * newest.size_bytes // 2**20,
        start_timeout_s=START_TIMEOUT_S,
        properties=("zookeeper.skipACL=yes", f"jute.maxbuffer={ZNODE_BYTES_MAX}"),
        on_wait=on_wait,
    )
    try:
        try:
            server.start()
        except StoreUnavailable as error:
            raise ConfigError(_refusal(str(error), newest)) from None
        last_zxid = server.last_zxid()
        snapshots = [file for file in files if file.kind == "snapshot"]
        if last_zxid is not None and last_zxid < snapshots[0].zxid:
            raise ConfigError(_refusal("", newest))
        yield ServedCopy(server.connect_string, tuple(_notes(files, last_zxid)))
    finally:
        server.stop()


def _refusal(said: str, newest: DataFile) -> str:
    """Return why ZooKeeper does not serve the copy, with what to do.

    Without a snapshot that is whole it serves an empty tree, and does not say so.
    """
    lines = [line for line in said.splitlines() if "Exception" in line]
    why = f" ({lines[-1].strip()})" if lines else ""
    return f"ZooKeeper cannot load {newest.path.name} and the logs behind it{why}. {DAMAGED_ADVICE}"


def _notes(files: Sequence[DataFile], last_zxid: int | None) -> Iterator[str]:
    newest = [file for file in files if file.kind == "snapshot"][-1]
    if last_zxid is not None:
        yield f"The copy shows the state up to transaction 0x{last_zxid:x}."
        if last_zxid < newest.zxid:
            yield (
                f"ZooKeeper could not load {newest.path.name}, and took an older snapshot."
                " What it shows is older than that file."
            )
    if not any(file.kind == "log" for file in files):
        yield (
            f"No log is beside {newest.path.name}. ZooKeeper writes a snapshot while znodes"
            " change: without its log it can mix states of some seconds."
        )


@contextmanager
def registered_bookies(
    copy: ServedCopy, root: str, layout: LedgerLayout, bookies: Sequence[BookieRecord]
) -> Iterator[list[BookieId]]:
    """Register bookies in the served copy, at their addresses; yield those without an address.

    The address is the one of a registration that the copy still shows, else the bookie id itself.
    The registrations of a snapshot belong to sessions that ended: ZooKeeper removes them. Raises
    StoreUnavailable.
    """
    seeder = Seeder(copy.connect_string, root, layout)
    seeder.connect()
    try:
        without = []
        for bookie in bookies:
            host, port = bookie.host, bookie.port
            if host is None or port is None:
                host, port = split_host_port(bookie.bookie_id) or (None, None)
            if host is None or port is None:
                without.append(bookie.bookie_id)
            else:
                seeder.register(bookie.bookie_id, bookie_registration.encode(host, port))
        yield without
    finally:
        seeder.stop()

"""An embedded cluster on loopback: a real ZooKeeper, and bookies that speak the real protocol.

    with SandboxCluster(workdir, bookies=5) as cluster:
        cluster.place(7, cluster.ledger("e3 w2 a2  0:[b1 b2 b3]  closed 99"), lose={"b2": "10-12"})
        ... cluster.metadata_service_uri ...

Every method takes a bookie by its name in stories, `b1` to `bN`, or by its id. ZooKeeper is a child
process, and the bookies run in a thread of this one. On Linux neither outlives this process.
Nothing listens beyond 127.0.0.1.

Ledgers and entries have a notation:

    ledger("e5 w3 a2  0:[b1 b2 b3 b4 b5] 1200:[b1 b2 b3 b6 b5]  closed 1999")
    holds("1200-1202 1205-1999")

The striping here is independent of the checkers and goes window by window: the code under test must
not decide what the sandbox puts on its bookies.
"""

from __future__ import annotations

import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from auditor.java import JavaHome
from auditor.model.availability import SequenceGroup
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import DigestType, LedgerMetadata, LedgerState, Segment
from auditor.sandbox.bookie import (
    PAYLOAD_BYTES,
    Behaviour,
    Bookie,
    LedgerFault,
    ListForm,
    Run,
    Storage,
    merge_runs,
)
from auditor.sandbox.listener import HOST, Listener, LoopThread
from auditor.sandbox.seeder import RecoveryZnodes, Seeder
from auditor.sandbox.zookeeper_server import EmbeddedZooKeeper
from auditor.wire import bookie_registration, ledger_metadata
from auditor.wire.znode_paths import LedgerLayout

WINDOWS_MAX = 2_000_000
"""At most this many runs are made by `placement` for one ledger. Larger ledgers need sequence
groups."""

_TOKEN = re.compile(
    r"(?P<quorum>[ewa])(?P<count>\d+)"
    r"|(?P<first>-?\d+):\[(?P<members>[^\]]*)\]"
    r"|(?P<state>open|in_recovery|closed)(?:\s+(?P<last>-?\d+))?"
    r"|v(?P<version>[123])"
    r"|(?P<digest>crc32c|crc32|hmac|dummy)"
)
_STATES = {
    "open": LedgerState.OPEN,
    "in_recovery": LedgerState.IN_RECOVERY,
    "closed": LedgerState.CLOSED,
}
_RUN = re.compile(r"(\d+)(?:-(\d+))?")


def ledger(text: str, ids: Mapping[str, BookieId] | None = None) -> LedgerMetadata:
    """Return the metadata that `text` describes. `ids` maps the names of bookies to their ids.

    A name that `ids` lacks is itself an id. The quorums are `eE wW aA` (default ack quorum: the
    write quorum), and a segment is `first:[bookies by position]`. The state is `open`,
    `in_recovery`, `closed N` (N is the last entry, -1 for none) or `closed` without a last entry.
    `v1` to `v3` is the format version (default 3), and `crc32`, `crc32c` (default), `hmac` or
    `dummy` the digest type. Metadata may contradict itself: only the notation is checked. Raises
    ValueError for any other word, or if E or W is missing.
    """
    quorums: dict[str, int] = {}
    segments: list[Segment] = []
    state, last, version, digest = LedgerState.OPEN, None, 3, DigestType.CRC32C
    for token in _tokens(text):
        if token["quorum"]:
            quorums[token["quorum"]] = int(token["count"])
        elif token["first"]:
            ensemble = tuple((ids or {}).get(name, name) for name in token["members"].split())
            segments.append(Segment(int(token["first"]), ensemble))
        elif token["state"]:
            state, last = _STATES[token["state"]], int(token["last"]) if token["last"] else None
        elif token["version"]:
            version = int(token["version"])
        else:
            digest = DigestType[token["digest"].upper()]
    if missing := {"e", "w"} - quorums.keys():
        raise ValueError(f"a ledger needs {' and '.join(sorted(missing))} and a number: {text!r}")
    if state is not LedgerState.CLOSED:
        last = -1  # BookKeeper writes -1 while the last entry is not known.
    return LedgerMetadata(
        format_version=version,
        state=state,
        ensemble_size=quorums["e"],
        write_quorum=quorums["w"],
        ack_quorum=quorums.get("a", quorums["w"]),
        last_entry_id=last,
        length=0 if last is None else PAYLOAD_BYTES * (last + 1),
        segments=tuple(segments),
        digest_type=None if version == 1 else digest,
    )


def holds(text: str) -> tuple[Run, ...]:
    """Return a text such as `1200-1202 1205` as inclusive runs. Raises ValueError."""
    runs: list[Run] = []
    for word in text.split():
        match = _RUN.fullmatch(word)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(f"{word!r} is not a run of entries; write 7 or 3-9: {text!r}")
        runs.append((int(match[1]), int(match[2] or match[1])))
    return tuple(runs)


def placement(
    metadata: LedgerMetadata, written: EntryId | None = None
) -> dict[BookieId, list[Run]]:
    """Return the runs of entries that striping puts on each bookie of the ensembles.

    Entry e is at the positions e, e+1, ... e+W-1, modulo E, of its segment. `written` is the last
    entry that exists. Without it, that is the last entry of the metadata; while the ledger has no
    end, its last segment is empty. Raises ValueError for more than WINDOWS_MAX runs.
    """
    e, w = metadata.ensemble_size, metadata.write_quorum
    last = written if written is not None else _last_written(metadata)
    held: dict[BookieId, list[Run]] = {}
    windows = 0
    for segment, ends in zip(metadata.segments, _segment_ends(metadata, last), strict=True):
        windows += max(0, ends - segment.first_entry_id + 1) * len(segment.ensemble) // e
        if w < e and windows > WINDOWS_MAX:
            raise ValueError(
                f"more than {WINDOWS_MAX} runs: hold sequence groups on the bookies instead"
            )
        for position, bookie_id in enumerate(segment.ensemble):
            held.setdefault(bookie_id, []).extend(
                _windows(segment.first_entry_id, ends, position, e, w)
            )
    return {bookie_id: merge_runs(runs) for bookie_id, runs in held.items()}


def without(runs: Iterable[Run], lost: Iterable[Run]) -> list[Run]:
    """Return the entries of `runs` that are not in `lost`."""
    out: list[Run] = []
    gone = merge_runs(lost)
    for first, last in merge_runs(runs):
        at = first
        for lost_first, lost_last in gone:
            if lost_last < at or lost_first > last:
                continue
            if lost_first > at:
                out.append((at, lost_first - 1))
            at = lost_last + 1
        if at <= last:
            out.append((at, last))
    return out


def _tokens(text: str) -> Iterable[dict[str, str]]:
    at = 0
    for match in re.finditer(r"\s*(?:" + _TOKEN.pattern + r")(?=\s|$)", text):
        if text[at : match.start()].strip():
            break
        at = match.end()
        yield match.groupdict(default="")
    if text[at:].strip():
        raise ValueError(f"{text[at:].split()[0]!r} is not a part of a ledger: {text!r}")


def _last_written(metadata: LedgerMetadata) -> EntryId:
    if metadata.state is LedgerState.CLOSED and metadata.last_entry_id is not None:
        return metadata.last_entry_id
    return max((segment.first_entry_id for segment in metadata.segments), default=0) - 1


def _segment_ends(metadata: LedgerMetadata, last: EntryId) -> list[EntryId]:
    """Return the last entry of each segment."""
    return [*(after.first_entry_id - 1 for after in metadata.segments[1:]), last][
        : len(metadata.segments)
    ]


def _windows(first: EntryId, last: EntryId, position: int, e: int, w: int) -> list[Run]:
    """Return which of the entries `first` to `last` the bookie at `position` gets.

    They are w entries of every e, cut at both ends.
    """
    if w >= e:
        return [(first, last)] if first <= last else []
    # The window's last entry is the one whose write set begins at `position`.
    begin = first - (first - (position - w + 1)) % e
    cut = ((max(start, first), min(start + w - 1, last)) for start in range(begin, last + 1, e))
    return [(start, end) for start, end in cut if start <= end]


Pieces = str | Iterable[Run | SequenceGroup]
"""Entries in the notation ("0-4 9"), or as inclusive runs and sequence groups."""


class StoredLedgers(ABC):
    """The methods of `SandboxCluster` that change what ZooKeeper and the bookies store."""

    _seeder: Seeder
    _listeners: dict[BookieId, Listener]
    _ledgers: dict[LedgerId, tuple[DigestType, bytes]]
    """Digest type and password of each ledger, to compute the digests of its entries."""

    @abstractmethod
    def id_of(self, bookie: str) -> BookieId:
        """Return the id of a bookie `b1` to `bN`."""

    @abstractmethod
    def bookie(self, bookie: str) -> Bookie:
        """Return the bookie itself."""

    def add_ledger(
        self,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        format_version: int = 3,
        password: bytes = b"",
    ) -> None:
        """Create or replace the ledger's znode. Nothing is put on a bookie."""
        self._remember(ledger_id, metadata, password)
        data = ledger_metadata.encode(metadata, password=password, version=format_version)
        self._seeder.write(self._seeder.ledger_path(ledger_id), data)

    def add_ledgers(self, ledgers: Mapping[LedgerId, LedgerMetadata]) -> None:
        """Create the znodes of many ledgers fast. Raises KazooException if one exists already."""
        for ledger_id, metadata in ledgers.items():
            self._remember(ledger_id, metadata, b"")
        self._seeder.create_ledgers(
            {ledger_id: ledger_metadata.encode(metadata) for ledger_id, metadata in ledgers.items()}
        )

    def delete_ledger(self, ledger_id: LedgerId) -> None:
        """Delete the ledger's znode. Bookies keep its entries until `Bookie.forget`."""
        self._seeder.delete_with_empty_parents(self._seeder.ledger_path(ledger_id))

    def hold(self, bookie: str, ledger_id: LedgerId, runs: Pieces) -> None:
        """Make the bookie hold exactly these entries, with digests as the metadata says."""
        pieces = holds(runs) if isinstance(runs, str) else tuple(runs)
        digest, password = self._ledgers.get(ledger_id, (DigestType.CRC32C, b""))
        self.bookie(bookie).hold(ledger_id, pieces, digest, password)

    def corrupt(self, bookie: str, ledger_id: LedgerId, entry_id: EntryId) -> None:
        """Make the bookie hold a copy of the entry with a wrong digest (DUMMY has no digest)."""
        digest, password = self._ledgers.get(ledger_id, (DigestType.CRC32C, b""))
        self.bookie(bookie).corrupt(ledger_id, entry_id, digest, password)

    def spread(
        self,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        lose: Mapping[str, str | Iterable[Run]] | None = None,
        written: EntryId | None = None,
    ) -> None:
        """Put each entry on the bookies of its write set, except what `lose` takes from a bookie.

        Bookies that this cluster does not run are skipped. `written` is the last entry that exists,
        as in `notation.placement`.
        """
        lost = {
            self.id_of(name): holds(runs) if isinstance(runs, str) else runs
            for name, runs in (lose or {}).items()
        }
        for bookie_id, runs in placement(metadata, written).items():
            if bookie_id in self._listeners:
                self.hold(bookie_id, ledger_id, without(runs, lost.get(bookie_id, ())))

    def place(
        self,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        lose: Mapping[str, str | Iterable[Run]] | None = None,
        *,
        written: EntryId | None = None,
        format_version: int = 3,
        password: bytes = b"",
    ) -> None:
        """Write the ledger's znode and put its entries on bookies: `add_ledger`, then `spread`."""
        self.add_ledger(ledger_id, metadata, format_version, password)
        self.spread(ledger_id, metadata, lose, written)

    def fault(self, bookie: str, ledger_id: LedgerId, fault: LedgerFault | None) -> None:
        """Set what is wrong with this ledger on this bookie; None heals it."""
        faults = self.bookie(bookie).faults
        if fault is None:
            faults.pop(ledger_id, None)
        else:
            faults[ledger_id] = fault

    def set_raw(self, where: str | LedgerId, data: bytes) -> None:
        """Write any bytes to an absolute ZooKeeper path, or as the metadata of a ledger."""
        self._seeder.write(
            self._seeder.ledger_path(where) if isinstance(where, int) else where, data
        )

    def delete_raw(self, path: str) -> None:
        """Delete the znode at an absolute ZooKeeper path, if it exists."""
        self._seeder.delete(path)

    def _remember(self, ledger_id: LedgerId, metadata: LedgerMetadata, password: bytes) -> None:
        self._ledgers[ledger_id] = (metadata.digest_type or DigestType.CRC32C, password)


class SandboxCluster(StoredLedgers, RecoveryZnodes):
    """A cluster that runs inside `with`.

    Bookie ids are `127.0.0.1:<port>`. With `named` they are `b1` to `bN`, and only the registration
    has the address. `storage` is one storage for all bookies, or a sequence with one per bookie.
    """

    def __init__(
        self,
        workdir: Path,
        bookies: int = 5,
        *,
        named: bool = False,
        storage: str | Sequence[str] = Storage.SORTED,
        list_form: ListForm = ListForm.RUNS,
        root: str = "/ledgers",
        layout: LedgerLayout = LedgerLayout.HIERARCHICAL,
        java: JavaHome | None = None,
    ) -> None:
        storages = [storage] * bookies if isinstance(storage, str) else list(storage)
        assert len(storages) == bookies, f"{bookies} bookies and {len(storages)} storages"
        self.root = root
        self.layout = layout
        self.instance_id = str(uuid.uuid4())
        self._named = named
        self._zookeeper = EmbeddedZooKeeper(workdir / "zookeeper", java)
        behaviours = [
            Behaviour(storage=Storage(storage), list_form=list_form) for storage in storages
        ]
        self._fresh = [Listener(Bookie(behaviour)) for behaviour in behaviours]
        self._listeners: dict[BookieId, Listener] = {}
        self._ids: dict[str, BookieId] = {}
        self._ledgers: dict[LedgerId, tuple[DigestType, bytes]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start ZooKeeper and the bookies, initialise the cluster, and register. Takes about 1.5 s.

        Raises StoreUnavailable if ZooKeeper does not start, SparkUnavailable if there is no Java.
        """
        with ExitStack() as stack:
            stack.enter_context(self._zookeeper)
            self._loop = LoopThread("sandbox-bookies")
            stack.callback(self._loop.stop)
            for number, listener in enumerate(self._fresh, start=1):
                self._loop.call(listener.start())
                stack.callback(self._stop_listening, listener)
                bookie_id = f"b{number}" if self._named else f"{HOST}:{listener.port}"
                self._ids[f"b{number}"] = bookie_id
                self._listeners[bookie_id] = listener
            self._seeder = Seeder(self._zookeeper.connect_string, self.root, self.layout)
            stack.callback(self._seeder.stop)
            self._seeder.start(self.instance_id)
            for bookie_id in self._listeners:
                self._seeder.add_cookie(bookie_id, self.instance_id)
                self.register(bookie_id)
            self._stack = stack.pop_all()

    def stop(self) -> None:
        """Stop everything. May be called again."""
        self._stack.close()

    # What the cluster is

    @property
    def metadata_service_uri(self) -> str:
        # BookKeeper's URI has no scheme for the legacy layout: "null" means the one in LAYOUT.
        hint = "null" if self.layout is LedgerLayout.LEGACY_HIERARCHICAL else self.layout.value
        return f"zk+{hint}://{self.zookeeper_hosts}{self.root}"

    @property
    def zookeeper_hosts(self) -> str:
        return self._zookeeper.connect_string

    @property
    def bookie_ids(self) -> tuple[BookieId, ...]:
        """The ids of b1 to bN, in that order."""
        return tuple(self._listeners)

    def id_of(self, bookie: str) -> BookieId:
        """Return the id of a bookie `b1` to `bN`. Any other name is an id and is returned."""
        return self._ids.get(bookie, bookie)

    def bookie(self, bookie: str) -> Bookie:
        """Return the bookie itself, whose behaviour may be changed while it runs."""
        return self.listener(bookie).bookie

    def listener(self, bookie: str) -> Listener:
        """Return the listener, which has the bookie's port and connections."""
        return self._listeners[self.id_of(bookie)]

    def storage(self, bookie: str) -> str:
        """Return the short name of the bookie's ledgerStorageClass."""
        return self.bookie(bookie).behaviour.storage.value

    def address(self, bookie: str) -> tuple[str, int]:
        """Return the host and port where the bookie listens, or would listen if it is stopped."""
        return HOST, self.listener(bookie).port

    def ledger(self, text: str) -> LedgerMetadata:
        """Return the metadata that `text` describes, with our bookies' ids (`notation.ledger`)."""
        return ledger(text, self._ids)

    # What happens to bookies

    def register(self, bookie: str, data: bytes | None = None) -> None:
        """Register the bookie as writable. `data` replaces the znode's bytes (b"": before 4.12)."""
        listener = self.listener(bookie)
        listener.bookie.behaviour.read_only = False
        self._seeder.register(
            self.id_of(bookie), self._registration(listener) if data is None else data
        )

    def readonly(self, bookie: str) -> None:
        """Register the bookie as read-only. It refuses new entries from then on."""
        listener = self.listener(bookie)
        listener.bookie.behaviour.read_only = True
        self._seeder.register(self.id_of(bookie), self._registration(listener), read_only=True)

    def unregister(self, bookie: str) -> None:
        """Remove the registration. The bookie itself keeps running."""
        self._seeder.unregister(self.id_of(bookie))

    def stop_bookie(self, bookie: str) -> None:
        """Stop listening on the bookie's port. The bookie stays registered, but is silent."""
        self._loop.call(self.listener(bookie).stop(keeps_port=True))

    def start_bookie(self, bookie: str) -> None:
        """Listen again on the same port, with everything the bookie held, and register."""
        self._loop.call(self.listener(bookie).start())
        self.register(bookie)

    def lose_bookie(self, bookie: str, *, cookie: bool = False) -> None:
        """Stop the bookie, and delete its registration and, unless `cookie`, its cookie."""
        self.stop_bookie(bookie)
        self.unregister(bookie)
        if not cookie:
            self._seeder.delete_cookie(self.id_of(bookie))

    def reset_connections(self, bookie: str) -> None:
        """Reset every connection to the bookie. New connections are accepted."""

        async def reset() -> None:
            self.listener(bookie).reset_connections()

        self._loop.call(reset())

    def cookie(
        self,
        bookie: str,
        instance_id: str | None = None,
        directories: Sequence[str] = ("/data/ledgers",),
    ) -> None:
        """Write a cookie, by default one of this cluster. The bookie need not run here."""
        self._seeder.add_cookie(self.id_of(bookie), instance_id or self.instance_id, directories)

    def resize_disk(self, bookie: str, total_bytes: int, free_bytes: int) -> None:
        """Change what the bookie says of its disks."""
        self.bookie(bookie).disk = total_bytes, free_bytes

    def delete_cookie(self, bookie: str) -> None:
        """Delete the bookie's cookie, as decommissioning does."""
        self._seeder.delete_cookie(self.id_of(bookie))

    def _stop_listening(self, listener: Listener) -> None:
        self._loop.call(listener.stop())

    def _registration(self, listener: Listener) -> bytes:
        return bookie_registration.encode(HOST, listener.port)

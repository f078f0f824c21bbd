"""An embedded cluster on loopback: a real ZooKeeper, and bookies that speak the real protocol.

    with SandboxCluster(workdir, bookies=5) as cluster:
        cluster.place(7, cluster.ledger("e3 w2 a2  0:[b1 b2 b3]  closed 99"), lose={"b2": "10-12"})
        ... cluster.metadata_service_uri ...

Every method takes a bookie by its name in stories, `b1` to `bN`, or by its id. ZooKeeper is a child
process, and the bookies run in a thread of this one. On Linux neither outlives this process.
Nothing listens beyond 127.0.0.1.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from auditor.java import JavaHome
from auditor.model.availability import SequenceGroup
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import DigestType, LedgerMetadata
from auditor.sandbox import notation
from auditor.sandbox.bookie import Behaviour, Bookie, LedgerFault, ListForm, Run, Storage
from auditor.sandbox.listener import HOST, Listener, LoopThread
from auditor.sandbox.seeder import RecoveryZnodes, Seeder
from auditor.sandbox.zookeeper_server import EmbeddedZooKeeper
from auditor.wire import bookie_registration, ledger_metadata
from auditor.wire.znode_paths import LedgerLayout

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
        pieces = notation.holds(runs) if isinstance(runs, str) else tuple(runs)
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
            self.id_of(name): notation.holds(runs) if isinstance(runs, str) else runs
            for name, runs in (lose or {}).items()
        }
        for bookie_id, runs in notation.placement(metadata, written).items():
            if bookie_id in self._listeners:
                self.hold(bookie_id, ledger_id, notation.without(runs, lost.get(bookie_id, ())))

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
        return notation.ledger(text, self._ids)

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

    def cookie(self, bookie: str) -> None:
        """Write a cookie. The bookie need not run here."""
        self._seeder.add_cookie(self.id_of(bookie), self.instance_id)

    def delete_cookie(self, bookie: str) -> None:
        """Delete the bookie's cookie, as decommissioning does."""
        self._seeder.delete_cookie(self.id_of(bookie))

    def _stop_listening(self, listener: Listener) -> None:
        self._loop.call(listener.stop())

    def _registration(self, listener: Listener) -> bytes:
        return bookie_registration.encode(HOST, listener.port)

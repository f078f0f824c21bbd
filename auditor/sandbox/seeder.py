"""Write a cluster into ZooKeeper: layout, bookies, ledgers, marks, and what auto-recovery leaves.

Except for `auditor.zookeeper`, this is the only module that imports kazoo: the auditor's own access
to ZooKeeper must never be able to write. Znodes are laid out as by BookKeeper. Auto-recovery itself
does not run in the sandbox; its marks, locks, votes and settings are written here.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError, NotEmptyError
from kazoo.handlers.threading import KazooTimeoutError

from auditor.errors import StoreUnavailable
from auditor.model.identity import BookieId, LedgerId
from auditor.wire import underreplication_mark, znode_paths
from auditor.wire.znode_paths import LedgerLayout

SESSION_TIMEOUT_S = 60.0
"""Timeout of the session that owns the registrations: long enough to survive a short suspend."""
CONNECT_TIMEOUT_S = 30.0
"""How long the first connection may take."""
TRANSACTION_CREATES_MAX = 200
"""Znodes created in one transaction: well under ZooKeeper's limit of about 1 MB a request."""
COOKIE_LAYOUT_VERSION = 5


class Seeder:
    """A ZooKeeper session that owns the registrations of all bookies.

    `root` is the path of the ledgers, such as `/ledgers`.
    """

    def __init__(self, connect_string: str, root: str, layout: LedgerLayout) -> None:
        self._client = KazooClient(connect_string, timeout=SESSION_TIMEOUT_S)
        self._root = root
        self._layout = layout
        self._parents: set[str] = set()

    def connect(self) -> None:
        """Connect to an initialised cluster. Raises StoreUnavailable."""
        try:
            self._client.start(CONNECT_TIMEOUT_S)
        except (KazooTimeoutError, KazooException) as error:
            raise StoreUnavailable(f"the embedded ZooKeeper accepts no session: {error}") from error

    def start(self, instance_id: str) -> None:
        """Connect, and initialise the cluster like `initnewcluster`. Raises StoreUnavailable."""
        self.connect()
        self.write(self._root + znode_paths.LAYOUT, znode_paths.encode_layout(self._layout))
        self.write(self._root + znode_paths.INSTANCE_ID, instance_id.encode())
        for path in (znode_paths.READONLY, znode_paths.COOKIES):
            self._ensure(self._root + path)

    def stop(self) -> None:
        """End the session, which removes the registrations. May be called again."""
        self._client.stop()
        self._client.close()

    def register(self, bookie_id: BookieId, data: bytes, *, read_only: bool = False) -> None:
        """Register the bookie as writable or read-only, in place of any earlier registration."""
        self.unregister(bookie_id)
        place = znode_paths.READONLY if read_only else znode_paths.AVAILABLE
        self._client.create(f"{self._root}{place}/{bookie_id}", data, ephemeral=True)

    def unregister(self, bookie_id: BookieId) -> None:
        """Remove the bookie's registration, writable or read-only."""
        for place in (znode_paths.AVAILABLE, znode_paths.READONLY):
            self.delete(f"{self._root}{place}/{bookie_id}")

    def add_cookie(
        self,
        bookie_id: BookieId,
        instance_id: str,
        directories: Sequence[str] = ("/data/ledgers",),
    ) -> None:
        """Write a cookie, as a bookie does when it first starts."""
        listed = "\\t".join((str(len(directories)), *directories))
        text = (
            f'{COOKIE_LAYOUT_VERSION}\nbookieHost: "{bookie_id}"\njournalDir: "/data/journal"\n'
            f'ledgerDirs: "{listed}"\ninstanceId: "{instance_id}"\n'
        )
        self.write(f"{self._root}{znode_paths.COOKIES}/{bookie_id}", text.encode())

    def delete_cookie(self, bookie_id: BookieId) -> None:
        """Delete the bookie's cookie, as decommissioning does."""
        self.delete(f"{self._root}{znode_paths.COOKIES}/{bookie_id}")

    def ledger_path(self, ledger_id: LedgerId) -> str:
        """Return the absolute path of a ledger's znode."""
        return self._root + znode_paths.ledger_path(self._layout, ledger_id)

    def mark_path(self, ledger_id: LedgerId) -> str:
        """Return the absolute path of a ledger's mark."""
        return self._root + znode_paths.mark_path(ledger_id)

    def mark(self, ledger_id: LedgerId, missing: Iterable[BookieId], ctime_ms: int | None) -> None:
        """Mark the ledger. `ctime_ms` is the mark's own field; with None it is left out.

        ZooKeeper sets the creation time of the znode itself.
        """
        self.write(self.mark_path(ledger_id), underreplication_mark.encode(missing, ctime_ms))

    def lock(self, ledger_id: LedgerId, holder: str | None) -> None:
        """Lock a marked ledger as a replication worker on the host `holder` does; None unlocks it.

        ZooKeeper sets the creation time of the lock.
        """
        path = self._root + znode_paths.lock_path(ledger_id)
        self.delete(path)
        if holder is not None:
            self._client.create(
                path, underreplication_mark.encode_name(holder), ephemeral=True, makepath=True
            )

    def elect(self, bookie_id: BookieId | None) -> None:
        """Make this bookie's vote the only vote in the election of BookKeeper's auditor.

        None leaves no vote.
        """
        election = self._root + znode_paths.ELECTION
        self._ensure(election)
        for name in self._client.get_children(election):
            self.delete(f"{election}/{name}")
        if bookie_id is not None:
            self._client.create(
                f"{election}/V_",
                underreplication_mark.encode_name(bookie_id),
                ephemeral=True,
                sequence=True,
            )

    def create_ledgers(self, ledgers: Mapping[LedgerId, bytes]) -> None:
        """Create the znodes of many ledgers, some 20,000 a second.

        Raises KazooException if one exists already.
        """
        paths = ((self.ledger_path(ledger_id), data) for ledger_id, data in ledgers.items())
        for batch in _batches(paths, TRANSACTION_CREATES_MAX):
            transaction = self._client.transaction()
            for path, data in batch:
                self._ensure(path.rpartition("/")[0])
                transaction.create(path, data)
            for result in transaction.commit():
                if isinstance(result, Exception):
                    raise result

    def write(self, path: str, data: bytes) -> None:
        """Create the znode and its parents, or replace its bytes."""
        if self._client.exists(path) is None:
            self._client.create(path, data, makepath=True)
        else:
            self._client.set(path, data)

    def delete(self, path: str) -> None:
        """Delete the znode if it exists."""
        with suppress(NoNodeError):
            self._client.delete(path)

    def delete_with_empty_parents(self, path: str) -> None:
        """Delete the znode and the parents that it leaves empty, as hierarchical layouts do.

        The root and `underreplication` always stay.
        """
        self.delete(path)
        parent = path.rpartition("/")[0]
        while parent not in (self._root, self._root + znode_paths.UNDERREPLICATION, ""):
            try:
                self.delete(parent)
            except NotEmptyError:
                return
            self._parents.discard(parent)
            parent = parent.rpartition("/")[0]

    def _ensure(self, path: str) -> None:
        if path not in self._parents:
            self._client.ensure_path(path)
            self._parents.add(path)


def _batches(items: Iterable[tuple[str, bytes]], size: int) -> Iterator[list[tuple[str, bytes]]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


class RecoveryZnodes(ABC):
    """The methods of `SandboxCluster` that change the znodes below `underreplication`."""

    root: str
    _seeder: Seeder

    @abstractmethod
    def id_of(self, bookie: str) -> BookieId:
        """Return the id of a bookie `b1` to `bN`."""

    def mark(
        self, ledger_id: LedgerId, replicas: Iterable[str] = (), ctime_ms: int | None = None
    ) -> None:
        """Mark the ledger under-replicated. `ctime_ms` is the mark's own field (default: now).

        ZooKeeper sets the creation time of the znode to now, whatever `ctime_ms` is.
        """
        now_ms = int(time.time() * 1000)
        self._seeder.mark(
            ledger_id, map(self.id_of, replicas), now_ms if ctime_ms is None else ctime_ms
        )

    def unmark(self, ledger_id: LedgerId) -> None:
        """Remove the mark."""
        self._seeder.delete_with_empty_parents(self._seeder.mark_path(ledger_id))

    def lock(self, ledger_id: LedgerId, holder: str | None) -> None:
        """Lock the ledger as a replication worker on host `holder` does; None removes the lock."""
        self._seeder.lock(ledger_id, holder)

    def disable_replication(self) -> None:
        """Disable auto-recovery: create the znode that BookKeeper's shell creates."""
        self._seeder.write(self.root + znode_paths.REPLICATION_DISABLED, b"")

    def enable_replication(self) -> None:
        """Enable auto-recovery: delete the znode that disables it."""
        self._seeder.delete(self.root + znode_paths.REPLICATION_DISABLED)

    def elect_auditor(self, bookie: str | None) -> None:
        """Make the bookie BookKeeper's elected auditor; None removes the vote. No auditor runs."""
        self._seeder.elect(None if bookie is None else self.id_of(bookie))

    def set_lost_bookie_recovery_delay(self, seconds: int | None) -> None:
        """Set how long BookKeeper's auditor waits until a bookie counts as lost; None: the default.

        The default has no znode.
        """
        path = self.root + znode_paths.LOST_BOOKIE_RECOVERY_DELAY
        if seconds is None:
            self._seeder.delete(path)
        else:
            self._seeder.write(path, str(seconds).encode())

"""Everything a test writes into a real cluster: ledgers' znodes, entries on chosen bookies,
marks.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError
from support.raw_bookie import RawBookie, Runs, add_request, entry_body, master_key, status_name

from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import DigestType, LedgerMetadata
from auditor.sandbox import cluster
from auditor.sandbox.bookie import with_wrong_digest
from auditor.wire import ledger_metadata, underreplication_mark, znode_paths
from auditor.wire.znode_paths import LedgerLayout

HOST = "127.0.0.1"


class RealLedgers:
    """Writes with kazoo (`zk`) and over the wire. `ports` has the bookies of this cluster; other
    bookies exist only in a story.
    """

    root = "/ledgers"
    layout = LedgerLayout.HIERARCHICAL
    """The znodes that initnewcluster creates."""

    def __init__(self, zk: KazooClient, ports: Mapping[BookieId, int]) -> None:
        self.zk = zk
        self._ports = ports
        self._written: dict[LedgerId, tuple[DigestType, bytes]] = {}

    @property
    def bookie_ids(self) -> tuple[BookieId, ...]:
        """`b1` ... `bN`."""
        return tuple(self._ports)

    def id_of(self, bookie: str) -> BookieId:
        """Return the bookie's id: here it is its name in a story."""
        return bookie

    def ledger(self, text: str) -> LedgerMetadata:
        """Return `notation.ledger`; here names are ids."""
        return cluster.ledger(text)

    def address(self, bookie_id: BookieId) -> tuple[str, int]:
        """Return where the bookie listens, or would listen."""
        return HOST, self._ports[bookie_id]

    def connect(self, bookie_id: BookieId) -> RawBookie:
        """Return a raw connection to one bookie."""
        return RawBookie(*self.address(bookie_id))

    def ledger_path(self, ledger_id: LedgerId) -> str:
        """Return the absolute path of a ledger's znode."""
        return self.root + znode_paths.ledger_path(self.layout, ledger_id)

    def add_ledger(
        self,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        format_version: int = 3,
        password: bytes = b"",
    ) -> None:
        """Write the ledger's znode, or replace it. No entry is stored."""
        self._written[ledger_id] = (metadata.digest_type or DigestType.CRC32C, password)
        self.set_raw(
            ledger_id, ledger_metadata.encode(metadata, password=password, version=format_version)
        )

    def delete_ledger(self, ledger_id: LedgerId) -> None:
        """Delete the znode; bookies keep what they hold until they collect it."""
        self.delete_raw(self.ledger_path(ledger_id))

    def hold(self, bookie_id: BookieId, ledger_id: LedgerId, runs: str | Runs) -> None:
        """Store exactly these entries on one bookie, beside what it holds, with digests of the
        metadata's type.
        """
        digest, password = self._written.get(ledger_id, (DigestType.CRC32C, b""))
        with self.connect(bookie_id) as connection:
            connection.add(
                ledger_id,
                cluster.holds(runs) if isinstance(runs, str) else runs,
                digest=digest,
                password=password,
            )

    def corrupt(self, bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId) -> None:
        """Store a copy of the entry that does not match its digest; bookies do not check it.

        The bookie must not hold the entry (`lose` it when placing): which of two copies a bookie
        returns depends on its storage.
        """
        digest, password = self._written.get(ledger_id, (DigestType.CRC32C, b""))
        body = with_wrong_digest(entry_body(ledger_id, entry_id, digest, password))
        with self.connect(bookie_id) as connection:
            answer = connection.ask(
                add_request(
                    ledger_id, entry_id, body, master_key(password), connection.next_txn_id()
                )
            )
        assert status_name(answer.status) == "EOK", (
            f"ADD_ENTRY to ledger {ledger_id}: {status_name(answer.status)}"
        )

    def spread(
        self,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        lose: Mapping[str, str | Iterable[tuple[int, int]]] | None = None,
        written: EntryId | None = None,
    ) -> None:
        """Put every entry on its write set, except what `lose` takes from a bookie. Bookies that do
        not run here are skipped.

        `written` is the last entry that exists, if the metadata does not say.
        """
        lost = {
            name: cluster.holds(runs) if isinstance(runs, str) else runs
            for name, runs in (lose or {}).items()
        }
        for bookie_id, runs in cluster.placement(metadata, written).items():
            kept = cluster.without(runs, lost.get(bookie_id, ()))
            if kept and bookie_id in self._ports:
                self.hold(bookie_id, ledger_id, kept)

    def place(
        self,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        lose: Mapping[str, str | Iterable[tuple[int, int]]] | None = None,
        *,
        written: EntryId | None = None,
        format_version: int = 3,
        password: bytes = b"",
    ) -> None:
        """Write the ledger's znode and its entries: `add_ledger`, then `spread`."""
        self.add_ledger(ledger_id, metadata, format_version, password)
        self.spread(ledger_id, metadata, lose, written)

    def mark(
        self, ledger_id: LedgerId, replicas: Iterable[BookieId] = (), ctime_ms: int | None = None
    ) -> None:
        """Mark the ledger under-replicated. The znode's own creation time is now; the mark says
        `ctime_ms` (default: now).
        """
        now_ms = int(time.time() * 1000)
        data = underreplication_mark.encode(replicas, now_ms if ctime_ms is None else ctime_ms)
        self.set_raw(self.root + znode_paths.mark_path(ledger_id), data)

    def unmark(self, ledger_id: LedgerId) -> None:
        """Remove the mark. The znodes above it stay: a listing must accept them."""
        self.delete_raw(self.root + znode_paths.mark_path(ledger_id))

    def lock(self, ledger_id: LedgerId, holder: str | None) -> None:
        """Lock the ledger as a replication worker on the host `holder`; None: no worker holds the
        lock.
        """
        path = self.root + znode_paths.lock_path(ledger_id)
        self.delete_raw(path)
        if holder is not None:
            self.zk.create(
                path, underreplication_mark.encode_name(holder), ephemeral=True, makepath=True
            )

    def set_raw(self, where: str | LedgerId, data: bytes) -> None:
        """Write any bytes, at an absolute ZooKeeper path or as the metadata of a ledger."""
        path = self.ledger_path(where) if isinstance(where, int) else where
        try:
            self.zk.create(path, data, makepath=True)
        except NodeExistsError:
            self.zk.set(path, data)

    def delete_raw(self, path: str) -> None:
        """Delete the znode at an absolute ZooKeeper path if it is there."""
        with suppress(NoNodeError):
            self.zk.delete(path)

    def disable_replication(self) -> None:
        """Switch auto-recovery off, with the marker that BookKeeper's shell sets."""
        self.set_raw(self.root + znode_paths.REPLICATION_DISABLED, b"")

    def enable_replication(self) -> None:
        """Switch auto-recovery on again."""
        self.delete_raw(self.root + znode_paths.REPLICATION_DISABLED)

    def elect_auditor(self, bookie_id: BookieId | None) -> None:
        """Name the bookie that runs BookKeeper's elected auditor, with its vote; None: no bookie
        runs it. No auditor is started.
        """
        election = self.root + znode_paths.ELECTION
        self.zk.ensure_path(election)
        for name in self.zk.get_children(election):
            self.delete_raw(f"{election}/{name}")
        if bookie_id is not None:
            self.zk.create(
                f"{election}/V_",
                underreplication_mark.encode_name(bookie_id),
                ephemeral=True,
                sequence=True,
            )

    def set_lost_bookie_recovery_delay(self, seconds: int) -> None:
        """Set how long BookKeeper's auditor waits before it takes a bookie for lost."""
        self.set_raw(self.root + znode_paths.LOST_BOOKIE_RECOVERY_DELAY, str(seconds).encode())

"""Writes ledgers: metadata to ZooKeeper, and entries to bookies, whole or with losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from auditor.model.availability import SequenceGroup
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import DigestType, LedgerMetadata
from auditor.sandbox import notation
from auditor.sandbox.bookie import Bookie, LedgerFault
from auditor.sandbox.holding import Run
from auditor.sandbox.listener import Listener
from auditor.sandbox.seeder import Seeder
from auditor.wire import ledger_metadata

Pieces = str | Iterable[Run | SequenceGroup]
"""Entries: in the notation ("0-4 9"), or as inclusive runs and sequence groups."""


class StoredLedgers(ABC):
    """The methods of `SandboxCluster` for what ZooKeeper and the bookies store."""

    _seeder: Seeder
    _listeners: dict[BookieId, Listener]
    _ledgers: dict[LedgerId, tuple[DigestType, bytes]]
    """Digest type and password of each ledger, for the digests of its entries."""

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

"""What a cluster's auto-recovery would have left in ZooKeeper: marks, locks, a vote, its switches. None of it runs here."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable

from auditor.model.identity import BookieId, LedgerId
from auditor.sandbox.seeder import Seeder
from auditor.wire import znode_paths


class RecoveryZnodes(ABC):
    """The part of a SandboxCluster that is below `underreplication`."""

    root: str
    _seeder: Seeder

    @abstractmethod
    def id_of(self, bookie: str) -> BookieId:
        """The id of a bookie of a story."""

    def mark(self, ledger_id: LedgerId, replicas: Iterable[str] = (), ctime_ms: int | None = None) -> None:
        """Mark the ledger under-replicated. The znode's creation time is now, whatever `ctime_ms` (default: now) says."""
        now_ms = int(time.time() * 1000)
        self._seeder.mark(ledger_id, map(self.id_of, replicas), now_ms if ctime_ms is None else ctime_ms)

    def unmark(self, ledger_id: LedgerId) -> None:
        """Remove the mark."""
        self._seeder.delete_with_empty_parents(self._seeder.mark_path(ledger_id))

    def lock(self, ledger_id: LedgerId, holder: str | None) -> None:
        """A replication worker on the host `holder` holds the ledger's lock from now on; None: nobody does."""
        self._seeder.lock(ledger_id, holder)

    def disable_replication(self) -> None:
        """Auto-recovery is off: the marker that BookKeeper's shell sets."""
        self._seeder.write(self.root + znode_paths.REPLICATION_DISABLED, b"")

    def enable_replication(self) -> None:
        """Auto-recovery is on again."""
        self._seeder.delete(self.root + znode_paths.REPLICATION_DISABLED)

    def elect_auditor(self, bookie: str | None) -> None:
        """The bookie is BookKeeper's elected auditor from now on; None: nobody is. Only the vote is here, no auditor."""
        self._seeder.elect(None if bookie is None else self.id_of(bookie))

    def lost_bookie_recovery_delay(self, seconds: int | None) -> None:
        """Set how long BookKeeper's auditor waits before it takes a bookie for lost; None: as by default, no znode."""
        path = self.root + znode_paths.LOST_BOOKIE_RECOVERY_DELAY
        if seconds is None:
            self._seeder.delete(path)
        else:
            self._seeder.write(path, str(seconds).encode())

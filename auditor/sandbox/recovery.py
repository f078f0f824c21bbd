"""Writes what auto-recovery leaves in ZooKeeper: marks, locks, a vote and settings.

Auto-recovery itself does not run in the sandbox.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable

from auditor.model.identity import BookieId, LedgerId
from auditor.sandbox.seeder import Seeder
from auditor.wire import znode_paths


class RecoveryZnodes(ABC):
    """The methods of `SandboxCluster` for the znodes below `underreplication`."""

    root: str
    _seeder: Seeder

    @abstractmethod
    def id_of(self, bookie: str) -> BookieId:
        """Return the id of a bookie `b1` to `bN`."""

    def mark(
        self, ledger_id: LedgerId, replicas: Iterable[str] = (), ctime_ms: int | None = None
    ) -> None:
        """Mark the ledger under-replicated. `ctime_ms` (default: now) is the field in the mark.

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

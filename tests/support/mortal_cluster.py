"""A real cluster whose ZooKeeper can also be killed and started, and which can be repaired after a
test.

    with MortalCluster(tmp_path, bookies=4) as cluster:
        cluster.kill_zookeeper()
        cluster.start_zookeeper()          # with all it knew
        cluster.revive()                   # every process runs again, none is stopped

Sessions last SESSION_MS: a bookie that is resumed after it lost its session ends itself.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError
from support import real_bookkeeper
from support.real_bookkeeper import start_zookeeper
from support.real_cluster import POLL_S, START_TIMEOUT_S, RealCluster

from auditor.model.identity import BookieId

SESSION_MS = 20_000
"""The longest session that this ZooKeeper allows, in ms."""


class MortalCluster(RealCluster):
    """The cluster of the module's description. Start processes only from the main thread; all else
    works from any thread.
    """

    def __init__(self, workdir: Path, bookies: int) -> None:
        self._home = workdir
        self._patched = pytest.MonkeyPatch()
        self._patched.setattr(real_bookkeeper, "ZOOKEEPER_SESSION_MS", SESSION_MS)
        super().__init__(workdir, bookies)

    def stop(self) -> None:
        """End every process, and wait until all have ended."""
        self._patched.undo()
        super().stop()

    def kill_zookeeper(self) -> None:
        """Send SIGKILL."""
        self._zookeeper.kill()

    def pause_zookeeper(self) -> None:
        """Send SIGSTOP."""
        self._zookeeper.pause()

    def resume_zookeeper(self) -> None:
        """Send SIGCONT."""
        self._zookeeper.resume()

    def start_zookeeper(self) -> None:
        """Start a killed ZooKeeper on its data, and wait until it serves. 1-3 s."""
        port = int(self.zookeeper_hosts.rpartition(":")[2])
        self._zookeeper = start_zookeeper(self._jars, self._home / "zookeeper", port)
        self._await_served()

    def revive(self) -> None:
        """Resume what is stopped and start what is dead; do nothing if everything runs."""
        if self._zookeeper.is_running:
            self._zookeeper.resume()
            self._await_served()
        else:
            self.start_zookeeper()
        for bookie_id, bookie in self._bookies.items():
            if bookie.is_running:
                self.resume(bookie_id)
            else:
                self.start_bookie(bookie_id)

    def start_bookie(self, bookie_id: BookieId, *, read_only: bool = False) -> None:
        """Start a dead bookie with what it stored, and wait until it is registered. 1-4 s."""
        self._bookies[bookie_id].kill()
        super().start_bookie(bookie_id, read_only=read_only)

    def _await_served(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                self.zk.get_children(self.root)
                return
            except (KazooException, KazooTimeoutError):
                assert time.monotonic() < deadline, (
                    f"ZooKeeper did not serve within {START_TIMEOUT_S:g} s"
                )
                time.sleep(POLL_S)

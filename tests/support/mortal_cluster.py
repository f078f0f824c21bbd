"""A real cluster whose ZooKeeper can die and come back too, and which can be put right after
whatever was done to it.

    with MortalCluster(tmp_path, bookies=4) as cluster:
        cluster.kill_zookeeper()
        cluster.start_zookeeper()          # with all it knew
        cluster.revive()                   # every process runs again, none is stopped

Sessions last SESSION_MS: a bookie that is woken to a lost session ends itself.
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
"""The longest that this ZooKeeper allows, in ms."""


class MortalCluster(RealCluster):
    """See the module. To be used from the main thread where a process is started; all else from
    any.
    """

    def __init__(self, workdir: Path, bookies: int) -> None:
        self._home = workdir
        self._patched = pytest.MonkeyPatch()
        self._patched.setattr(real_bookkeeper, "ZOOKEEPER_SESSION_MS", SESSION_MS)
        super().__init__(workdir, bookies)

    def stop(self) -> None:
        """End every process and see that it is gone."""
        self._patched.undo()
        super().stop()

    def kill_zookeeper(self) -> None:
        """SIGKILL."""
        self._zookeeper.kill()

    def pause_zookeeper(self) -> None:
        """SIGSTOP."""
        self._zookeeper.pause()

    def resume_zookeeper(self) -> None:
        """SIGCONT."""
        self._zookeeper.resume()

    def start_zookeeper(self) -> None:
        """Start a killed ZooKeeper on its data, and wait until it serves. 1-3 s."""
        port = int(self.zookeeper_hosts.rpartition(":")[2])
        self._zookeeper = start_zookeeper(self._jars, self._home / "zookeeper", port)
        self._await_served()

    def revive(self) -> None:
        """Wake what is stopped and start what is dead; nothing to do where all is well."""
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

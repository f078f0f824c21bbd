"""One ZooKeeper serves many sandbox clusters of a process of tests, one after another: starting a
JVM for each costs more than most audits.

A cluster gets a server that an earlier one left, empty. What a test did to the server itself
(stopped or killed it) ends it; what it wrote is deleted when its cluster ends.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from types import TracebackType

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from auditor.java import JavaHome
from auditor.sandbox import cluster
from auditor.sandbox.zookeeper_server import EmbeddedZooKeeper

OWN = "zookeeper"
"""The znode below the root that belongs to the server."""
DELETED_MAX = 500
"""Znodes that are deleted for the next cluster. A server with more is ended: a new one is up
sooner.
"""
EMPTYING_S = 10.0

_spare: list[EmbeddedZooKeeper] = []
_home: Path | None = None


class SpareZooKeeper(EmbeddedZooKeeper):
    """A server that is handed on, if it still runs and can be emptied."""

    def __init__(self, workdir: Path, java: JavaHome | None = None) -> None:
        super().__init__(workdir, java)
        self._is_kept = java is None

    def start(self) -> None:
        if self._is_kept and _spare:
            server = _spare.pop()
            self._workdir = server._workdir
            self._process, self._port = server._process, server._port
            return
        if self._is_kept:
            self._workdir = Path(tempfile.mkdtemp(prefix="server-", dir=_home))
        super().start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_kept and _is_running(self) and _is_emptied(self.connect_string):
            server = EmbeddedZooKeeper(self._workdir)
            server._process, server._port = self._process, self._port
            self._process = None
            _spare.append(server)
        else:
            self.stop()


def keep_spares() -> None:
    """Let the clusters of this process hand their servers on, until `end_spares`."""
    global _home
    if _home is None:
        _home = Path(tempfile.mkdtemp(prefix="auditor-zookeepers-"))
        cluster.EmbeddedZooKeeper = SpareZooKeeper  # type: ignore[misc]


def end_spares() -> None:
    """End the servers that nobody uses, and remove their files."""
    global _home
    if _home is not None:
        cluster.EmbeddedZooKeeper = EmbeddedZooKeeper  # type: ignore[misc]
        while _spare:
            _spare.pop().stop()
        shutil.rmtree(_home, ignore_errors=True)
        _home = None


def _is_running(server: EmbeddedZooKeeper) -> bool:
    return server._process is not None and server._process.poll() is None


def _is_emptied(hosts: str) -> bool:
    """Delete what clusters wrote. Return whether nothing is left."""
    client = KazooClient(hosts, timeout=EMPTYING_S)
    try:
        client.start(EMPTYING_S)
        paths = ["/"]
        for path in paths:
            names = set(client.get_children(path)) - ({OWN} if path == "/" else set())
            paths += [f"{path.rstrip('/')}/{name}" for name in sorted(names)]
            if len(paths) > DELETED_MAX:
                return False
        for path in reversed(paths[1:]):
            client.delete(path)
        return {OWN} == set(client.get_children("/"))
    except (KazooException, KazooTimeoutError):
        return False
    finally:
        client.stop()
        client.close()

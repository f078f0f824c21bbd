"""A ZooKeeper in memory, and a client that a session uses in place of kazoo's: reads without Java
and without waits.

It passes the tests of `tests/adapters/` with the marker `also_in_memory`, like a real server.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss, KazooException, NoAuthError, NoNodeError
from kazoo.protocol.serialization import GetChildren, GetData, Sync
from kazoo.protocol.states import KazooState, KeeperState, ZnodeStat
from support.zookeeper_znodes import Znodes

from auditor.zookeeper import session
from auditor.zookeeper.multi_read import GET_DATA, MultiRead

REQUEST_BYTES_MAX = 2**20
"""jute.maxbuffer: a server drops the connection on a longer request."""
END = struct.pack("!iBi", -1, 1, -1)
EPOCH_MS = 1_600_000_000_000


class Silence(Exception):
    """Raised by `before_answer`: the request is never answered."""


@dataclass
class _Znode:
    data: bytes
    is_shut: bool
    stat: ZnodeStat


class MemoryZooKeeper(Znodes):
    """One server and its znodes. Each write is a millisecond after the one before.

    `before_answer` is called with each request. It may raise the error to answer with, or change
    the server. `before_wait` is called when a client waits for its connection.
    """

    def __init__(self) -> None:
        self.hosts = "memory.invalid:2181"
        self.is_up = True
        self.before_answer: Callable[[Any], None] = lambda request: None
        self.before_wait: Callable[[], None] = lambda: None
        self.sent: list[Any] = []
        self.waits_s: list[float] = []
        self.clients: list[MemoryClient] = []
        self._znodes: dict[str, _Znode] = {}
        self._names: dict[str, set[str]] = {}
        self._zxid = 0
        self.put("/")

    # Writes

    def close(self) -> None:
        """Do nothing: a server in memory has no connection to close."""

    def put(self, path: str, data: bytes = b"", *, shut: bool = False) -> None:
        self._zxid += 1
        zxid, now_ms = self._zxid, EPOCH_MS + self._zxid
        if path in self._znodes:
            old = self._znodes[path].stat
            stat = old._replace(mzxid=zxid, mtime=now_ms, version=old.version + 1)
        else:
            parent = path.rsplit("/", 1)[0] or "/"
            if parent not in self._znodes and path != "/":
                self.put(parent)
            self._names[path] = set()
            self._names[parent].update({path.rsplit("/", 1)[1]} - {""})
            stat = ZnodeStat(zxid, zxid, now_ms, now_ms, 0, 0, 0, 0, 0, 0, 0)
        self._znodes[path] = _Znode(data, shut, stat)

    def put_all(self, znodes: Iterable[tuple[str, bytes]]) -> None:
        for path, data in znodes:
            self.put(path, data)

    def delete(self, path: str) -> None:
        for name in list(self._names[path]):
            self.delete(f"{path}/{name}")
        del self._znodes[path], self._names[path]
        self._names[path.rsplit("/", 1)[0] or "/"].remove(path.rsplit("/", 1)[1])

    def stat(self, path: str) -> ZnodeStat:
        return self._znodes[path].stat

    def ctime_ms(self, path: str) -> int:
        return int(self._znodes[path].stat.ctime)

    def mtime_ms(self, path: str) -> int:
        return int(self._znodes[path].stat.mtime)

    # Reads

    def answer(self, request: Any) -> Any:
        """Return what kazoo would return. Raises what it would raise, or Silence."""
        self.sent.append(request)
        if len(request.serialize()) > REQUEST_BYTES_MAX:
            self.drop()
            raise ConnectionLoss
        self.before_answer(request)
        if isinstance(request, MultiRead):
            return request.deserialize(b"head" + self._multi(request) + END, 4)
        if isinstance(request, GetData):
            znode = self._readable(request.path)
            return znode.data, znode.stat
        if isinstance(request, GetChildren):
            self._readable(request.path)
            return sorted(self._names[request.path], reverse=True)
        assert isinstance(request, Sync), request
        return request.path

    def _readable(self, path: str) -> _Znode:
        if path not in self._znodes:
            raise NoNodeError
        if self._znodes[path].is_shut:
            raise NoAuthError
        return self._znodes[path]

    def _multi(self, request: MultiRead) -> bytes:
        return b"".join(self._item(request.operation, path) for path in request.paths)

    def _item(self, operation: int, path: str) -> bytes:
        try:
            znode = self._readable(path)
        except KazooException as error:
            return struct.pack("!iBii", -1, 0, error.code, error.code)
        if operation == GET_DATA:
            head = struct.pack("!iBii", operation, 0, 0, len(znode.data))
            return head + znode.data + struct.pack("!qqqqiiiqiiq", *znode.stat)
        names = [name.encode() for name in self._names[path]]
        head = struct.pack("!iBii", operation, 0, 0, len(names))
        return head + b"".join(struct.pack("!i", len(name)) + name for name in names)

    # Connections

    def stop(self) -> None:
        """Drop all connections and accept none until `start`."""
        self.is_up = False
        self.drop()

    def start(self) -> None:
        """Accept connections again, including those that clients wait for."""
        self.is_up = True
        for client in self.clients:
            client.reconnect()

    def drop(self) -> None:
        """Drop all connections; the clients reconnect once they wait for it."""
        for client in self.clients:
            client.disconnect()


class MemoryClient:
    """The part of KazooClient that a session uses. It is its own event of being connected."""

    def __init__(self, server: MemoryZooKeeper, options: dict[str, Any]) -> None:
        self.server, self.options = server, options
        self.handler = options["handler"]
        self.client_state = KeeperState.CLOSED
        self.listeners: list[Callable[[str], None]] = []
        self.ended: list[str] = []

    @property
    def hosts(self) -> list[tuple[str, int]]:
        pairs = (one.rpartition(":") for one in self.options["hosts"].split(","))
        return [(host, int(port)) for host, _, port in pairs]

    @property
    def connected(self) -> bool:
        return bool(self.client_state == KeeperState.CONNECTED)

    def add_listener(self, listener: Callable[[str], None]) -> None:
        self.listeners.append(listener)

    def start_async(self) -> MemoryClient:
        self.server.clients.append(self)
        self.client_state = KeeperState.CONNECTING
        self.reconnect()
        return self

    def wait(self, timeout: float) -> bool:
        self.server.waits_s.append(timeout)
        self.server.before_wait()
        self.reconnect()
        return self.connected

    def reconnect(self) -> None:
        is_named = self.server.hosts in self.options["hosts"].split(",")
        if self.client_state == KeeperState.CONNECTING and self.server.is_up and is_named:
            self._change(KeeperState.CONNECTED, KazooState.CONNECTED)

    def disconnect(self) -> None:
        if self.connected:
            self._change(KeeperState.CONNECTING, KazooState.SUSPENDED)

    def stop(self) -> None:
        self.ended.append("stop")
        self._change(KeeperState.CLOSED, KazooState.LOST)

    def close(self) -> None:
        self.ended.append("close")

    def _change(self, state: str, connection_state: str) -> None:
        self.client_state = state
        for listener in self.listeners:
            listener(connection_state)

    def _call(self, request: Any, result: Any) -> None:
        try:
            result.set(self.server.answer(request))
        except Silence:
            pass
        except Exception as error:
            result.set_exception(error)


@contextmanager
def zookeeper_in_memory() -> Iterator[MemoryZooKeeper]:
    """Yield a server in memory to which every session of this process talks in the block."""
    server = MemoryZooKeeper()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "KazooClient", lambda **options: MemoryClient(server, options))
        yield server

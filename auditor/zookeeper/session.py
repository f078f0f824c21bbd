"""One read-only conversation with a ZooKeeper ensemble: nothing here can create, change or delete a znode."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    ThrottledOpError,
)
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.serialization import GetChildren, GetData, Sync
from kazoo.protocol.states import KazooState, KeeperState

from auditor.config import ZooKeeperLimits
from auditor.errors import StoreUnavailable
from auditor.pace import Pace
from auditor.wire.service_uri import ServiceUri
from auditor.zookeeper.multi_read import MultiRead

LOSSES: Final = (
    ConnectionLoss,
    ConnectionClosedError,
    KazooTimeoutError,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    ThrottledOpError,
)
"""The read was not answered, and asking again may help."""

REPLY_TIMEOUT_SESSIONS: Final = 2
"""How long one request may stay unanswered while the connection stands, in session time-outs: kazoo's own ping ends a dead
connection within one."""
RECONNECT_WAIT_MAX_S: Final = 1.0
"""Longest pause between two connection attempts, in seconds."""
BURST_S: Final = 0.1
"""How much of a second's allowance of reads may be spent at once after a pause, in seconds."""
PROBLEM_CHARS_MAX: Final = 300
"""Characters of what kazoo stumbled over that are told in a line of the log."""

_LOG = logging.getLogger("auditor.zookeeper")


class Request(Protocol):
    """What kazoo sends: an opcode, the bytes behind it, and what becomes of the reply."""

    type: int

    def serialize(self) -> bytes | bytearray: ...

    def deserialize(self, buffer: bytes, offset: int) -> Any: ...


@dataclass(slots=True)
class ReadCounts:
    """What this session has asked for. A missing znode is an answer, so it counts as ok; bytes are znode data received.

    `reads` counts each znode each time it is asked for: its data or its children, also where the connection was lost.
    """

    reads: int = 0
    reads_ok: int = 0
    repeats: int = 0
    received_bytes: int = 0

    @property
    def reads_failed(self) -> int:
        """Reads that brought neither data nor the word that there is no such znode."""
        return self.reads - self.reads_ok

    def add(self, other: ReadCounts) -> None:
        """Count what another session has asked for as well."""
        self.reads += other.reads
        self.reads_ok += other.reads_ok
        self.repeats += other.repeats
        self.received_bytes += other.received_bytes


@dataclass(slots=True)
class Repeats:
    """How often one read was asked again after its connection was lost."""

    used: int = 0


class _KazooLog(logging.Logger):
    """kazoo's log, kept apart from ours: it would print each answer at DEBUG, and ledger passwords with it.

    Only the last warning is kept, to be told when a connection can't be had.
    """

    last_problem = ""

    def __init__(self) -> None:
        super().__init__("auditor.zookeeper.kazoo", logging.WARNING)

    def handle(self, record: logging.LogRecord) -> None:
        self.last_problem = record.getMessage()


class _Threads(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads. One that ends on an exception, as on replies out of order, says so in a line of our log; Python would
    print a traceback. The connection it kept is lost, which those who wait for it find out by themselves."""

    def spawn(self, func: Callable[..., object], *args: Any, **kwargs: Any) -> threading.Thread:
        def told() -> None:
            try:
                func(*args, **kwargs)
            except Exception as error:  # whatever a server that makes no sense leads kazoo into
                what = " ".join(f"{type(error).__name__}: {error}".split())[:PROBLEM_CHARS_MAX]
                _LOG.warning("the connection to ZooKeeper broke down (%s)", what)

        return super().spawn(told)  # type: ignore[no-any-return]


class Session:
    """A connected session, to be closed (it is its own context manager). Not for use by several threads at once.

    A lost connection or session is taken up again by kazoo in the background; reads are repeated by those who asked.
    `given_up` is set once a read was not answered at any of its repeats: from then on nothing waits for a connection.
    """

    def __init__(self, hosts: Sequence[str], limits: ZooKeeperLimits) -> None:
        assert hosts, "a session needs at least one host"
        self.hosts = tuple(hosts)
        self.limits = limits
        self.counts = ReadCounts()
        self.pace = Pace(limits.reads_per_second, BURST_S)
        self.given_up = False
        self.multi_read: bool | None = None
        self._log = _KazooLog()
        self._moved = threading.Event()
        self._client = self._new_client()
        self._live: threading.Event | None = None
        self._synced_path: str | None = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def connected(self) -> bool:
        return bool(self._client.connected)

    @property
    def reply_timeout_s(self) -> float:
        return REPLY_TIMEOUT_SESSIONS * self.limits.session_timeout_ms / 1_000

    def open(self) -> None:
        """Connect. Raises StoreUnavailable after `connect_timeout_ms`, plus at most one session time-out to let go of a
        connection attempt that hangs."""
        self._live = self._client.start_async()
        if not self._live.wait(self.limits.connect_timeout_ms / 1_000):
            error = self.unavailable("did not let us connect", self.limits.connect_timeout_ms)
            self.close()
            raise error

    def close(self) -> None:
        """End the session. Never raises; waits at most about one session time-out for a connection attempt under way."""
        self._live = None
        self._end_client()

    def submit(self, request: Request) -> Any:
        """Send `request`; returns kazoo's AsyncResult. While not connected it fails at once instead of waiting in a queue."""
        result = self._client.handler.async_result()
        self.counts.reads += _znodes_read(request)
        if self.connected:
            if self._moved.is_set() and self._synced_path is not None:
                # A new session may have landed on a server that is behind the one we had synced with.
                self._moved.clear()
                self._client._call(Sync(self._synced_path), self._client.handler.async_result())
            self._client._call(request, result)
        else:
            result.set_exception(ConnectionLoss())
        return result

    def answer(self, result: Any) -> Any:
        """Wait for what `submit` returned, at most `reply_timeout_s`. Raises one of LOSSES, or the KazooException by which the
        server refused."""
        try:
            return result.get(timeout=self.reply_timeout_s)
        except (KazooException, KazooTimeoutError):
            raise
        except Exception as error:  # replies out of order or cut short: kazoo hands on whatever it stumbled over
            raise ConnectionLoss from error

    def may_repeat(self, repeats: Repeats) -> bool:
        """Wait until a lost read may be asked again. False when its `retries_max` repeats are used up: the session is given up.

        Waits `retry_wait_ms` and at most a session time-out for the connection, for each repeat; not at all once given up.
        """
        while repeats.used < self.limits.retries_max and (self.connected or not self.given_up):
            repeats.used += 1
            self.counts.repeats += 1
            time.sleep(self.limits.retry_wait_ms / 1_000)
            if self.await_connected():
                return True
        self.given_up = True
        return False

    def await_connected(self) -> bool:
        """Wait for the connection, at most one session time-out."""
        assert self._live is not None, "the session is not open"
        if self._client.client_state == KeeperState.CLOSED:  # kazoo's loop ends on an error code it does not know
            self._end_client()
            self._client = self._new_client()
            self._live = self._client.start_async()
        return bool(self._live.wait(self.limits.session_timeout_ms / 1_000))

    def ask(self, request: Request) -> Any:
        """One request, repeated at most `retries_max` times after a lost connection. Raises StoreUnavailable, or the
        KazooException by which the server refused."""
        repeats = Repeats()
        while True:
            try:
                return self.answer(self.submit(request))
            except LOSSES:
                if not self.may_repeat(repeats):
                    raise self.unavailable("did not answer", self.limits.session_timeout_ms) from None

    def sync(self, path: str) -> None:
        """Let the server we talk to catch up with the leader: what this session reads from now on is at least as new as this
        call, also after the connection was lost and had again. Raises StoreUnavailable."""
        self._synced_path = None
        self._moved.clear()
        self.ask(Sync(path))
        self._synced_path = path

    def unavailable(self, did: str, within_ms: int) -> StoreUnavailable:
        """The error that says who did not answer, what was seen last, and what to do."""
        seen = f" (last seen: {self._log.last_problem})" if self._log.last_problem else ""
        return StoreUnavailable(
            f"ZooKeeper at {', '.join(self.hosts)} {did} within {within_ms} ms{seen}: check the hosts in the metadata "
            "service URI, that a quorum of servers is up, and that this host may reach them"
        )

    def _new_client(self) -> KazooClient:
        client = KazooClient(
            hosts=",".join(self.hosts),
            timeout=self.limits.session_timeout_ms / 1_000,
            read_only=False,  # a server cut off from its quorum may be arbitrarily stale
            connection_retry={"max_tries": -1, "delay": 0.1, "max_delay": RECONNECT_WAIT_MAX_S},
            handler=_Threads(),
            logger=self._log,
        )
        client.add_listener(self._on_state)
        return client

    def _on_state(self, state: str) -> None:
        # At the loss: kazoo says that it is connected again only after the first read may have been sent.
        if state != KazooState.CONNECTED:
            self._moved.set()

    def _end_client(self) -> None:
        for step in (self._client.stop, self._client.close):
            try:
                step()
            except Exception as error:  # kazoo raises bare Exception here; there is nothing left to save
                self._log.last_problem = str(error)


def _znodes_read(request: Request) -> int:
    """How many znodes a request reads."""
    if isinstance(request, MultiRead):
        return len(request.paths)
    return int(isinstance(request, GetData | GetChildren))


def connect(uri: ServiceUri, limits: ZooKeeperLimits) -> Session:
    """A connected session with the hosts of `uri`. Raises StoreUnavailable, see `Session.open`."""
    session = Session(uri.hosts, limits)
    session.open()
    return session

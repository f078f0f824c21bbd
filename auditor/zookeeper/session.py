"""A read-only ZooKeeper session: nothing here can create, change or delete a znode.

kazoo's threads and sockets use our TLS, and its exceptions become one line in our log.
"""

from __future__ import annotations

import logging
import math
import select
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, KazooException
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.serialization import Sync
from kazoo.protocol.states import KazooState, KeeperState

from auditor.config import ZooKeeperLimits
from auditor.errors import AuditorError, LocalFault, StoreUnavailable
from auditor.local_faults import exhaustion
from auditor.pace import Pace
from auditor.wire.service_uri import ServiceUri
from auditor.zookeeper.multi_read import LOSSES, Repeats, Request, count_znodes
from auditor.zookeeper.secured_connection import (
    Credentials,
    Refusals,
    await_unless_refused,
    is_refusal,
)

PROBLEM_CHARS_MAX: Final = 300
"""Maximum length of kazoo's error text in a line of the log, in characters."""

_LOG = logging.getLogger("auditor.zookeeper")


class KazooLog(logging.Logger):
    """kazoo's log, kept apart from ours: at DEBUG it prints each reply, with ledger passwords.

    Only the last warning is kept, for the error that says that no connection could be made.
    """

    last_problem = ""

    def __init__(self) -> None:
        super().__init__("auditor.zookeeper.kazoo", logging.WARNING)

    def handle(self, record: logging.LogRecord) -> None:
        self.last_problem = record.getMessage()


class KazooThreads(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads. A thread that ends on an exception writes one line to our log.

    Python would print a traceback, for example for replies out of order. The thread's connection is
    lost, and those who wait for it notice by themselves. With `context`, connections have TLS:
    kazoo's own TLS would trust the system's CAs too, and takes key passwords only as options.

    kazoo treats a lack of file descriptors like a server that does not answer, and retries for
    ever. `local_fault` is the fault of this host that ended the last connection attempt, or None.
    """

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self._context = context
        self.local_fault: LocalFault | None = None

    def spawn(self, func: Callable[..., object], *args: Any, **kwargs: Any) -> threading.Thread:
        def log_failure() -> None:
            try:
                func(*args, **kwargs)
            except Exception as error:  # kazoo raises anything when a server breaks the protocol.
                self.local_fault = exhaustion(error) or self.local_fault
                what = " ".join(f"{type(error).__name__}: {error}".split())[:PROBLEM_CHARS_MAX]
                _LOG.warning("the connection to ZooKeeper broke down (%s)", what)

        return super().spawn(log_failure)  # type: ignore[no-any-return]

    def create_connection(self, *args: Any, **options: Any) -> Any:
        """Return a connected socket, with TLS if there is a context. Raises OSError."""
        try:
            plain = super().create_connection(*args, **options)
        except Exception as error:  # kazoo raises anything
            self.local_fault = exhaustion(error)
            raise
        self.local_fault = None
        if self._context is None:
            return plain
        plain.settimeout(options.get("timeout"))
        try:
            return self._context.wrap_socket(plain, server_hostname=options.get("hostname"))
        except BaseException:
            plain.close()
            raise

    def select(
        self,
        reading: Sequence[Any],
        writing: Sequence[Any],
        _: object,
        timeout: float | None = None,
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Wait for sockets, but not if TLS has decrypted bytes that were not read yet.

        A server may put several replies into one TLS record. kazoo reads the first and would wait
        for the network although the others are here. kazoo's own `select` makes and closes an
        epoll descriptor at each call, which takes as long as all else that it does. Raises
        ValueError for a socket that is closed.
        """
        waiting = [one for one in reading if isinstance(one, ssl.SSLSocket) and one.pending() > 0]
        if waiting:
            return waiting, [], []
        poll, masks = select.poll(), dict.fromkeys(map(_descriptor, reading), select.POLLIN)
        for number in map(_descriptor, writing):
            masks[number] = masks.get(number, 0) | select.POLLOUT
        for number, mask in masks.items():
            poll.register(number, mask)
        ready = dict(poll.poll(None if timeout is None else math.ceil(1_000 * timeout)))
        readable, writable = (
            [one for one in some if ready.get(_descriptor(one), 0) & ~other]
            for some, other in ((reading, select.POLLOUT), (writing, select.POLLIN))
        )
        return readable, writable, []


def _descriptor(one: Any) -> int:
    number = one if isinstance(one, int) else int(one.fileno())
    if number < 0:
        raise ValueError("a socket is closed")
    return number


REPLY_TIMEOUT_SESSIONS: Final = 2
"""A request may stay unanswered for this many session time-outs while the connection stands.
kazoo's own ping ends a dead connection within one."""
RECONNECT_WAIT_MAX_S: Final = 1.0
"""Longest pause between two connection attempts, in seconds."""
BURST_S: Final = 0.1
"""After a pause, reads of at most this many seconds of the rate may be sent at once."""


@dataclass(slots=True)
class ReadCounts:
    """What this session has read. A missing znode is a valid reply, so it counts as ok.

    `reads` counts each request for data or children, lost ones included. `received_bytes` counts
    znode data and the characters of children's names."""

    reads: int = 0
    reads_ok: int = 0
    repeats: int = 0
    received_bytes: int = 0

    @property
    def reads_failed(self) -> int:
        """The number of reads that returned neither data nor "no such znode"."""
        return self.reads - self.reads_ok

    def add(self, other: ReadCounts) -> None:
        """Add the counts of another session."""
        self.reads += other.reads
        self.reads_ok += other.reads_ok
        self.repeats += other.repeats
        self.received_bytes += other.received_bytes


class Session:
    """A ZooKeeper session, and a context manager that closes it. Not thread-safe.

    kazoo restores a lost connection or session in the background; callers repeat their reads.
    `given_up` is set once all repeats of a read failed: then nothing waits for a connection any
    more. `refusals` has the servers' reasons for refusing us.
    """

    def __init__(self, hosts: Sequence[str], limits: ZooKeeperLimits) -> None:
        assert hosts, "a session needs at least one host"
        self.hosts = tuple(hosts)
        self.limits = limits
        self.counts = ReadCounts()
        self.pace = Pace(limits.zookeeper_reads_per_second, BURST_S)
        self.given_up = False
        self.multi_read: bool | None = None
        self._log = KazooLog()
        self._moved = threading.Event()
        self.refusals = Refusals()
        self._credentials = Credentials(limits.access) if limits.access.is_secured else None
        self._client = self._new_client()
        self._live: threading.Event | None = None
        self._synced_path: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_connected(self) -> bool:
        return bool(self._client.connected)

    @property
    def reply_timeout_s(self) -> float:
        return REPLY_TIMEOUT_SESSIONS * self.limits.zookeeper_session_timeout_ms / 1_000

    def open(self) -> None:
        """Connect to one of the hosts.

        Raises StoreUnavailable after `zookeeper_connect_timeout_ms`, or at once if all servers
        refuse us. Raises LocalFault if this host allows no connection. Ending a connection attempt
        that hangs takes up to one session time-out more.
        """
        self._live = self._client.start_async()
        if not self._await_first(self._live, self.limits.zookeeper_connect_timeout_ms / 1_000):
            error = self.unavailable(
                "did not let us connect", self.limits.zookeeper_connect_timeout_ms
            )
            self.close()
            raise error
        if self._credentials is not None:
            self._await_login()

    def _await_first(self, live: Any, timeout_s: float) -> bool:
        """Wait for the first connection, but not after every server has refused us for good."""
        if self._credentials is None:
            return bool(live.wait(timeout_s))
        return await_unless_refused(live, self.refusals, self._client.hosts, timeout_s)

    def _await_login(self) -> None:
        """Wait until the login is over. kazoo reports a connection before that.

        Raises StoreUnavailable.
        """
        try:
            self.ask(Sync("/"))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the session. Never raises.

        Waits at most about one session time-out for a connection attempt under way."""
        self._live = None
        self._end_client()

    def submit(self, request: Request) -> Any:
        """Send `request` and return kazoo's AsyncResult. It fails at once while not connected."""
        result = self._client.handler.async_result()
        self.counts.reads += count_znodes(request)
        if self.is_connected:
            if self._moved.is_set() and self._synced_path is not None:
                # The new connection may be to a server that is behind the one we synced with.
                self._moved.clear()
                self._client._call(Sync(self._synced_path), self._client.handler.async_result())
            self._client._call(request, result)
        else:
            result.set_exception(ConnectionLoss())
        return result

    def answer(self, result: Any) -> Any:
        """Wait at most `reply_timeout_s` for the result of `submit`, and return it.

        Raises one of LOSSES, or the KazooException by which the server refused."""
        try:
            return result.get(timeout=self.reply_timeout_s)
        except (KazooException, KazooTimeoutError) as error:
            self.refusals.note_error(error)
            raise
        except Exception as error:  # Replies out of order or cut short make kazoo raise anything.
            if (fault := exhaustion(error)) is not None:
                raise fault from error
            raise ConnectionLoss from error

    def may_repeat(self, repeats: Repeats) -> bool:
        """Wait until a lost read may be repeated, and return whether it may.

        Returns False and gives the session up when `zookeeper_retries` repeats are used up. Each
        repeat waits `zookeeper_retry_wait_ms`, then at most one session time-out for the
        connection. Raises LocalFault if connections fail because this host has run out of a
        resource.
        """
        if self._credentials is not None and self.refusals.has_all(self._client.hosts):
            self.given_up = True
        while repeats.used < self.limits.zookeeper_retries and (
            self.is_connected or not self.given_up
        ):
            repeats.used += 1
            self.counts.repeats += 1
            time.sleep(self.limits.zookeeper_retry_wait_ms / 1_000)
            if self.await_connected():
                return True
        self.given_up = True
        if (fault := self._client.handler.local_fault) is not None:
            raise LocalFault(f"no connection to ZooKeeper can be made: {fault}")
        return False

    def await_connected(self) -> bool:
        """Wait at most one session time-out for the connection; return whether it stands."""
        assert self._live is not None, "the session is not open"
        if self._client.client_state == KeeperState.CLOSED:  # Unknown error codes end kazoo's loop.
            self._end_client()
            self._client = self._new_client()
            self._live = self._client.start_async()
        return bool(self._live.wait(self.limits.zookeeper_session_timeout_ms / 1_000))

    def ask(self, request: Request) -> Any:
        """Send one request and return its reply. A lost one is repeated at most `zookeeper_retries`
        times.

        Raises StoreUnavailable, or the KazooException by which the server refused."""
        repeats = Repeats()
        while True:
            try:
                return self.answer(self.submit(request))
            except LOSSES:
                if not self.may_repeat(repeats):
                    raise self.unavailable(
                        "did not answer", self.limits.zookeeper_session_timeout_ms
                    ) from None
            except KazooException as error:
                if not is_refusal(error):
                    raise
                raise self._refusal_error(self.refusals.last) from None

    def sync(self, path: str) -> None:
        """Let our server catch up with the leader. Raises StoreUnavailable.

        From then on this session reads nothing older than this call, also over a new connection."""
        self._synced_path = None
        self._moved.clear()
        self.ask(Sync(path))
        self._synced_path = path

    def unavailable(self, did: str, within_ms: int) -> AuditorError:
        """Return the error that says which servers did not answer, what was seen last, and what to
        do.
        """
        if (fault := self._client.handler.local_fault) is not None:
            return LocalFault(f"no connection to ZooKeeper can be made: {fault}")
        if self.refusals.last:
            return self._refusal_error(self.refusals.last)
        seen = f" (last seen: {self._log.last_problem})" if self._log.last_problem else ""
        return StoreUnavailable(
            f"ZooKeeper at {', '.join(self.hosts)} {did} within {within_ms} ms{seen}: check the"
            " hosts in the metadata service URI, that a quorum of servers is up, and that this"
            " host may reach them"
        )

    def _refusal_error(self, why: str) -> StoreUnavailable:
        hosts = ", ".join(self.hosts)
        if self.refusals.needs_kdc:
            return StoreUnavailable(f"no login to ZooKeeper at {hosts}: {why}")
        return StoreUnavailable(f"ZooKeeper at {hosts} did not let us in: {why}")

    def _new_client(self) -> KazooClient:
        credentials = self._credentials
        client = KazooClient(
            hosts=",".join(self.hosts),
            timeout=self.limits.zookeeper_session_timeout_ms / 1_000,
            read_only=False,  # A server without its quorum may be arbitrarily stale.
            connection_retry={"max_tries": -1, "delay": 0.1, "max_delay": RECONNECT_WAIT_MAX_S},
            handler=KazooThreads(None if credentials is None else credentials.context),
            logger=self._log,
            auth_data=None if credentials is None else credentials.auth_data,
        )
        if credentials is not None:
            credentials.apply(client, self.refusals)
        client.add_listener(self._on_state)
        return client

    def _on_state(self, state: str) -> None:
        # React to the loss: kazoo reports CONNECTED only after the first read may have been sent.
        if state != KazooState.CONNECTED:
            self._moved.set()

    def _end_client(self) -> None:
        for step in (self._client.stop, self._client.close):
            try:
                step()
            except Exception as error:  # kazoo raises bare Exception here; nothing is left to save.
                self._log.last_problem = str(error)


class SessionOwner:
    """Reads over one session, and is a context manager that closes it."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the session. Never raises."""
        self._session.close()

    @property
    def counts(self) -> ReadCounts:
        """What was read over the session so far. Callers may add what other sessions read."""
        return self._session.counts


def connect(uri: ServiceUri, limits: ZooKeeperLimits) -> Session:
    """Return a connected session with the hosts of `uri`. Raises StoreUnavailable."""
    session = Session(uri.hosts, limits)
    session.open()
    return session

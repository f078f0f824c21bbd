"""Serve lists in the bookie protocol: GET_LIST_OF_ENTRIES_OF_LEDGER and GET_BOOKIE_INFO.

Any doubt is answered with EIO. A lister never answers ENOLEDGER: it does not open the bookie's
index of ledgers, which holds its master keys, and cannot know. A ledger without an indexed entry
has an empty list; the audit reads each absent entry on the bookie itself.

A client's requests are read while lists are made, and each list is sent at once. A client that
waits for long lists gets the short ones first, and GET_BOOKIE_INFO is answered at any time. A
lister with TLS refuses everything that is asked before START_TLS (EUA).
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeGuard

from structlog.stdlib import BoundLogger

from auditor.credentials.tls import RenewedContext
from auditor.errors import ConfigError, LocalFault, PeerProtocolError
from auditor.lister.bookie_configuration import BookieConfiguration
from auditor.lister.directory_reader import DirectoryReader, Report
from auditor.lister.index_file_names import page_of_files
from auditor.lister.ledger_lists import LedgerList
from auditor.lister.scrub import Scrub
from auditor.lister.serving import ServingCheck, call_in_thread
from auditor.local_faults import local_fault
from auditor.telemetry.lister_metrics import IN_DOUBT, LISTED, NOT_SERVING, ListerMetrics
from auditor.wire import bookie_server as wire
from auditor.wire.bookie_server import encode_consent
from auditor.wire.cookie import Cookie
from auditor.wire.frames import Status
from auditor.wire.ledger_pages import decode_page_request, merge_pages, with_page
from auditor.wire.lister_fields import ListerIdentity, with_identity, with_missing_logs

READ_BYTES = 64 * 2**10
"""Bytes read from a connection at a time: some thousand requests."""
REQUEST_BYTES_MAX = 64 * 2**10
"""Longest request accepted. Those a lister answers have a few dozen bytes."""
SEND_TIMEOUT_S = 60.0
"""How long a client may take to accept its answers. Then the connection is closed."""
CLIENT_IDLE_S = 600.0
"""How long a client may ask nothing while no answer is due. Then the connection is closed. An audit
connects again when it needs to."""
HALVES_FROM = 16
"""From this many lists in work on, they are handed over in two halves: one is sent while the other
is made. With fewer, a second hand-over costs more than it saves."""
LISTS_AT_ONCE_MAX = 1_000
"""At most this many lists are handed over together. The ids of two such requests (42 KB) fit in the
pipe to a reader process: the sender never waits for a process that does not read."""
CLIENT_REPLIES_MAX = 6
"""At most this many replies are held for one client until it has taken them, if the bookie has so
many directories. It is two fewer than for all clients together (`REPLIES_HELD_MAX`): a client that
stalls does not stop the others."""
HANDSHAKE_TIMEOUT_S = 10.0
"""How long a TLS handshake may take. It has three messages and needs some milliseconds of
computing."""


class Desk(Protocol):
    """Makes the answers for connections."""

    @property
    def speaks_tls(self) -> bool:
        """Whether clients must ask for TLS first."""

    async def tls_context(self) -> ssl.SSLContext:
        """Return the context of a TLS handshake. Raises OSError if it cannot be had now."""

    @property
    def directories(self) -> int:
        """The number of index directories. A ledger lives in directory `id mod n`."""

    async def answer(self, request: wire.Request | wire.WrongVersion) -> bytes:
        """Return the response to a request that is not for a list."""

    async def send_first_lists(
        self, directory: int, requests: Sequence[wire.ListEntries], client: Connection
    ) -> int:
        """Answer the first of these requests, at least one, and return how many."""


class Connection:
    """The conversation with one client. At most `in_work_max` of its lists are in work at once.

    Further requests wait unread. Only the ids of a request are kept.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        desk: Desk,
        in_work_max: int,
    ) -> None:
        self._reader, self._writer = reader, writer
        self._desk = desk
        self._in_work_max = in_work_max
        self._in_work = 0
        self._has_room = asyncio.Event()
        self._turn = asyncio.Lock()
        self._replies = asyncio.Semaphore(min(max(2, desk.directories), CLIENT_REPLIES_MAX))
        """Held while the desk is asked. A client that does not read must not block the desk for
        others."""
        self._waiting = [deque[wire.ListEntries]() for _ in range(desk.directories)]
        self._has_requests = [asyncio.Event() for _ in range(desk.directories)]
        self._workers = 2 if in_work_max >= HALVES_FROM else 1
        self._is_in_tls = False

    async def converse(self) -> None:
        """Answer requests until the client closes, breaks the protocol, or is idle for too long.

        Raises an ExceptionGroup of PeerProtocolError and OSError.
        """
        async with asyncio.TaskGroup() as group:
            workers = [
                group.create_task(self._work(number))
                for number in range(len(self._waiting))
                for _ in range(self._workers)
            ]
            await self._read_requests()
            await self._wait_for_room(0)
            for worker in workers:
                worker.cancel()

    async def send(self, frames: Sequence[bytes]) -> None:
        """Send frames, and wait until the client has taken nearly all of them.

        Raises OSError, including TimeoutError.
        """
        async with self._turn:
            self._writer.writelines(frames)
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await self._writer.drain()

    async def _read_requests(self) -> None:
        buffer = wire.RequestBuffer(REQUEST_BYTES_MAX)
        while data := await self._read_some():
            bodies = buffer.feed(data)
            for number, body in enumerate(bodies, start=1):
                request = wire.decode_request(body)
                if self._desk.speaks_tls and _is_start_tls(request):
                    if number < len(bodies) or buffer.has_unfinished or self._is_in_tls:
                        raise PeerProtocolError("START_TLS inside TLS, or more behind it in clear")
                    await self._start_tls(request)
                elif self._desk.speaks_tls and not self._is_in_tls:
                    await self.send([_refuse_in_clear(request)])
                elif isinstance(request, wire.ListEntries) and self._waiting:
                    self._in_work += 1
                    directory = request.ledger_id % len(self._waiting)
                    self._waiting[directory].append(request)
                    self._has_requests[directory].set()
                else:
                    await self.send([await self._desk.answer(request)])
            await self._wait_for_room(self._in_work_max)

    async def _wait_for_room(self, in_work_max: int) -> None:
        while self._in_work > in_work_max:
            self._has_room.clear()
            await self._has_room.wait()

    async def _start_tls(self, request: wire.OtherRequest) -> None:
        """Agree to TLS and do the handshake. Raises OSError, and PeerProtocolError.

        Nothing is read in between: what follows our consent must be read as TLS.
        """
        context = await self._desk.tls_context()
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]
        if await self._has_unread():
            raise PeerProtocolError("more in clear behind START_TLS")
        await self.send([encode_consent(request)])
        async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
            await self._writer.start_tls(context)
        self._is_in_tls = True

    async def _has_unread(self) -> bool:
        """Return whether bytes, or the end of the connection, were received and not read yet."""
        try:
            async with asyncio.timeout(0):
                await self._reader.read(1)
        except TimeoutError:
            return False
        return True

    async def _read_some(self) -> bytes:
        """Return the next bytes; none if the client closed, or was idle for too long."""
        while True:
            try:
                async with asyncio.timeout(CLIENT_IDLE_S):
                    return await self._reader.read(READ_BYTES)
            except TimeoutError:
                if not self._in_work:
                    return b""

    async def _work(self, directory: int) -> None:
        """Answer the waiting requests for lists of one directory, in their order."""
        waiting, has_requests = self._waiting[directory], self._has_requests[directory]
        at_once = min(LISTS_AT_ONCE_MAX, -(-self._in_work_max // self._workers))
        while True:
            while not waiting:
                has_requests.clear()
                await has_requests.wait()
            requests = [waiting.popleft() for _ in range(min(at_once, len(waiting)))]
            while requests:
                async with self._replies:
                    done = await self._desk.send_first_lists(directory, requests, self)
                del requests[:done]
                self._in_work -= done
                self._has_room.set()


def _is_start_tls(request: wire.Request | wire.WrongVersion) -> TypeGuard[wire.OtherRequest]:
    return isinstance(request, wire.OtherRequest) and request.operation is wire.Operation.START_TLS


def _refuse_in_clear(request: wire.Request | wire.WrongVersion) -> bytes:
    """Return the refusal of a bookie that wants a login: a response without a sub-message."""
    if isinstance(request, wire.WrongVersion):
        return wire.encode_wrong_version(request)
    return wire.encode_status(request, Status.EUA)


REPLIES_HELD_MAX = 8
"""At most this many replies of reader processes are held at once, over all connections, until their
clients have taken them.

Each has at most REPLY_BYTES_MAX (1 MiB) and one list (--lister-answer-bytes-max, 64 MiB): 520 MiB
in all, whatever clients do, and some copies of the lists being sent. One client holds a reply for
each directory, at least two and at most CLIENT_REPLIES_MAX: others are served while it stalls."""
REASONS_LOGGED_MAX = 5
"""Ledgers named in the log for one request to a reader process."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """`connections_max` clients at once; `ledgers_in_work_max` lists in work for each of them."""

    connections_max: int
    ledgers_in_work_max: int


class ListerServer:
    """Answers for one bookie, from the reader of each of its directories.

    Without a reader it lists nothing, and only says what its scrub found.
    """

    def __init__(
        self,
        configured: BookieConfiguration,
        cookie: Cookie,
        readers: Sequence[DirectoryReader],
        serving: ServingCheck,
        limits: ServerLimits,
        logger: BoundLogger,
        metrics: ListerMetrics,
        tls: RenewedContext | None = None,
        scrub: Scrub | None = None,
    ) -> None:
        self._tls = tls
        self._scrub = scrub
        self._configured, self._cookie = configured, cookie
        self._readers, self._serving = readers, serving
        self._limits, self._logger, self._metrics = limits, logger, metrics
        self._connections: set[asyncio.Task[None]] = set()
        self._held = asyncio.Semaphore(REPLIES_HELD_MAX)
        self._server: asyncio.Server | None = None
        metrics.follow_view_age(self._oldest_view_ms)

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port. Raises OSError if that fails."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=READ_BYTES)
        if self._scrub is not None:
            self._scrub.start()
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening and end every connection and reader process."""
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        for reader in self._readers:
            reader.close()
        if self._scrub is not None:
            await asyncio.to_thread(self._scrub.stop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if len(self._connections) > self._limits.connections_max:
                self._logger.warning(
                    "lister_connection_refused", connections_max=self._limits.connections_max
                )
                self._metrics.count_refused_connection()
                return
            self._metrics.set_connections(len(self._connections))
            _keep_alive(writer)
            await self._converse(Connection(reader, writer, self, self._limits.ledgers_in_work_max))
        except asyncio.CancelledError:
            pass  # the lister ends; asyncio would report a cancelled handler as an unexpected error
        finally:
            self._connections.discard(task)
            self._metrics.set_connections(len(self._connections))
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    async def _converse(self, connection: Connection) -> None:
        try:
            await connection.converse()
        except* (PeerProtocolError, OSError) as errors:
            self._logger.info(
                "lister_connection_lost", reason="; ".join(map(str, errors.exceptions))
            )
        except* Exception as errors:
            fault = local_fault(errors)
            if fault is None:
                raise
            self._logger.error("lister_host_limited", reason=str(fault))

    # The methods of `Desk`, for connections

    @property
    def directories(self) -> int:
        return len(self._readers)

    @property
    def speaks_tls(self) -> bool:
        return self._tls is not None

    async def tls_context(self) -> ssl.SSLContext:
        assert self._tls is not None, "only a lister with TLS is asked for it"
        try:
            return await call_in_thread(self._tls.current)
        except (ConfigError, TimeoutError, LocalFault) as error:
            self._logger.warning("lister_tls_unusable", reason=str(error))
            raise ConnectionAbortedError(f"no TLS with this client: {error}") from None

    async def send_first_lists(
        self, directory: int, requests: Sequence[wire.ListEntries], client: Connection
    ) -> int:
        async with self._held:
            frames = await self._first_lists(directory, requests)
            await client.send(frames)
        return len(frames)

    async def _first_lists(
        self, directory: int, requests: Sequence[wire.ListEntries]
    ) -> list[bytes]:
        """Return the responses to the first of these requests, at least one."""
        if await self._problem():
            return self._refuse(requests)
        lists = await self._readers[directory].first_lists(
            [request.ledger_id for request in requests]
        )
        asked = requests[: len(lists)]
        if await self._problem():  # it may have ended while they were made
            return self._refuse(asked)
        listed = sum(ledger_list is not None for ledger_list in lists)
        self._metrics.count_lists(LISTED, listed)
        self._metrics.count_lists(IN_DOUBT, len(lists) - listed)
        return [
            _list_frame(request, ledger_list)
            for request, ledger_list in zip(asked, lists, strict=True)
        ]

    def _refuse(self, requests: Sequence[wire.ListEntries]) -> list[bytes]:
        self._metrics.count_lists(NOT_SERVING, len(requests))
        return [wire.encode_list(request, Status.EIO) for request in requests]

    async def _problem(self) -> str:
        """Return why nothing may be said now, or ""; it is logged."""
        problem = await self._serving.problem()
        self._metrics.set_serving(is_serving=not problem)
        if problem:
            self._logger.warning("lister_bookie_not_serving", reason=problem)
        return problem

    async def answer(self, request: wire.Request | wire.WrongVersion) -> bytes:
        match request:
            case wire.WrongVersion():
                return wire.encode_wrong_version(request)
            case wire.BookieInfo():
                return await self._info(request)
            case wire.Authenticate():
                return wire.encode_auth(request, Status.EOK)
            case wire.ReadEntry():
                return wire.encode_read(request, Status.EBADREQ)
            case wire.AddEntry():
                return wire.encode_add(request, Status.EBADREQ)
            case wire.ListEntries() | wire.OtherRequest():
                return wire.encode_status(request, Status.EBADREQ)

    async def _info(self, request: wire.BookieInfo) -> bytes:
        """Return the response that says whose lists these are and how full the disks are.

        It is EIO if the bookie does not serve.
        """
        if await self._problem():
            return wire.encode_info(request, Status.EIO)
        scrubbed = None
        first = decode_page_request(request.lister_field)
        if first is not None:
            return await self._page(request, first)
        try:
            total, free = await call_in_thread(_disk_usage, self._configured.ledger_directories)
            if self._scrub is not None:
                scrubbed = await call_in_thread(self._scrub.report)
        except (OSError, LocalFault) as error:
            self._logger.warning("lister_disk_unknown", reason=str(error))
            return wire.encode_info(request, Status.EIO)
        frame = wire.encode_info(request, Status.EOK, total, free)
        identity = ListerIdentity(
            self._cookie.bookie_id,
            self._cookie.instance_id,
            self._oldest_view_ms(),
            scrubbed,
            lists=bool(self._readers),
        )
        return with_identity(frame, identity)

    async def _page(self, request: wire.BookieInfo, first: int) -> bytes:
        """Return the response with the ledgers from `first` on; EIO if a directory is in doubt."""
        if self._readers:
            found = await asyncio.gather(*(one.ledgers_from(first) for one in self._readers))
            pages = [page for page in found if page is not None]
            if len(pages) < len(found):
                return wire.encode_info(request, Status.EIO)
        else:
            current = [directory / "current" for directory in self._configured.index_directories]
            try:
                pages = [await asyncio.to_thread(page_of_files, current, first)]
            except OSError as error:
                self._logger.warning("lister_in_doubt", reason=f"index files: {error}")
                return wire.encode_info(request, Status.EIO)
        identity = ListerIdentity(
            self._cookie.bookie_id, self._cookie.instance_id, self._oldest_view_ms()
        )
        return with_page(wire.encode_info(request, Status.EOK), identity, merge_pages(pages))

    def _oldest_view_ms(self) -> int | None:
        ages = [age for reader in self._readers if (age := reader.view_age_ms) is not None]
        return max(ages, default=None)


def _list_frame(request: wire.ListEntries, found: LedgerList | None) -> bytes:
    if found is None:
        return wire.encode_list(request, Status.EIO)
    frame = wire.encode_list(request, Status.EOK, found.payload)
    return with_missing_logs(frame, found.missing_logs) if found.missing_logs else frame


def _disk_usage(directories: Sequence[Path]) -> tuple[int, int]:
    """Return the total and the free bytes of these directories. Raises OSError."""
    usages = [shutil.disk_usage(path) for path in directories]
    return sum(usage.total for usage in usages), sum(usage.free for usage in usages)


def report_to(
    logger: BoundLogger, metrics: ListerMetrics, directory: str
) -> Callable[[Report], None]:
    """Return a function that logs and counts the reports of one directory's reader."""

    def on_report(report: Report) -> None:
        for reason in report.reasons[:REASONS_LOGGED_MAX]:
            logger.warning("lister_in_doubt", directory=directory, reason=reason)
        if report.missing_logs:
            logger.error(
                "lister_entry_log_missing",
                directory=directory,
                entries_by_log=dict(report.missing_logs),
            )
        left_out = sum(report.missing_logs.values())
        metrics.count_reading(report.keys, left_out, was_lost=report.was_lost)

    return on_report


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    """Enable TCP keep-alive: otherwise connections of clients whose machine is gone would stay
    open.
    """
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

"""Serve lists in the bookie protocol: GET_LIST_OF_ENTRIES_OF_LEDGER and GET_BOOKIE_INFO.

Any doubt is EIO. No ledger is ever answered with ENOLEDGER: a lister never opens the bookie's index
of ledgers, which holds its master keys, and cannot know. A ledger without an indexed entry has an
empty list; the audit reads each absent entry on the bookie itself.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from structlog.stdlib import BoundLogger

from auditor.credentials.served_tls import RenewedContext
from auditor.errors import ConfigError, PeerProtocolError
from auditor.lister.bookie_configuration import BookieConfiguration
from auditor.lister.connection import READ_BYTES, Connection
from auditor.lister.cookie import Cookie
from auditor.lister.directory_reader import DirectoryReader, Report
from auditor.lister.ledger_lists import LedgerList
from auditor.lister.serving import ServingCheck, off_the_loop
from auditor.telemetry.lister_metrics import IN_DOUBT, LISTED, NOT_SERVING, ListerMetrics
from auditor.wire import bookie_server as wire
from auditor.wire.frames import Status
from auditor.wire.lister_fields import ListerIdentity, with_identity, with_missing_logs

REPLIES_HELD_MAX = 8
"""Replies of reader processes that are held at once, over all connections, until their clients have
taken them. Each has at most REPLY_BYTES_MAX (1 MiB) and one list (--lister-answer-bytes-max, 64
MiB): 520 MiB in all, whatever clients do, and some copies of the lists being sent. One client holds
one for each directory, at least two and at most CLIENT_REPLIES_MAX, so that others are served while
it stalls.
"""
REASONS_LOGGED_MAX = 5
"""Ledgers named in the log for one request to a reader process."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """`connections_max` clients at once; `ledgers_in_work_max` lists in work for each of them."""

    connections_max: int
    ledgers_in_work_max: int


class ListerServer:
    """Answers for one bookie, from the reader of each of its directories."""

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
    ) -> None:
        self._tls = tls
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
            pass  # the lister ends; asyncio would report a cancelled handler as unforeseen
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

    # What connections ask for (`connection.Desk`)

    @property
    def directories(self) -> int:
        return len(self._readers)

    @property
    def speaks_tls(self) -> bool:
        return self._tls is not None

    async def tls_context(self) -> ssl.SSLContext:
        assert self._tls is not None, "only a lister with TLS is asked for it"
        try:
            return await off_the_loop(self._tls.current)
        except (ConfigError, TimeoutError) as error:
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
        lists = await self._readers[directory].first_lists([one.ledger_id for one in requests])
        asked = requests[: len(lists)]
        if await self._problem():  # it may have ended while they were made
            return self._refuse(asked)
        listed = sum(one is not None for one in lists)
        self._metrics.count_lists(LISTED, listed)
        self._metrics.count_lists(IN_DOUBT, len(lists) - listed)
        return [_list_frame(request, found) for request, found in zip(asked, lists, strict=True)]

    def _refuse(self, requests: Sequence[wire.ListEntries]) -> list[bytes]:
        self._metrics.count_lists(NOT_SERVING, len(requests))
        return [wire.encode_list(one, Status.EIO) for one in requests]

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
        """Return the response that says whose lists these are and how full the disks are. EIO if
        the bookie does not serve.
        """
        if await self._problem():
            return wire.encode_info(request, Status.EIO)
        try:
            total, free = await off_the_loop(_disk_usage, self._configured.ledger_directories)
        except OSError as error:
            self._logger.warning("lister_disk_unknown", reason=str(error))
            return wire.encode_info(request, Status.EIO)
        frame = wire.encode_info(request, Status.EOK, total, free)
        identity = ListerIdentity(
            self._cookie.bookie_id, self._cookie.instance_id, self._oldest_view_ms()
        )
        return with_identity(frame, identity)

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
    return sum(one.total for one in usages), sum(one.free for one in usages)


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
    """Notice clients whose machine is gone: otherwise their connections would stay open."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

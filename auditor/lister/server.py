"""Serves lists in the bookie protocol: GET_LIST_OF_ENTRIES_OF_LEDGER and GET_BOOKIE_INFO.

Any doubt is EIO. No ledger is ever answered with ENOLEDGER: without the bookie's index of ledgers,
which holds its master keys and is never opened, a lister cannot know. A ledger without an indexed
entry has an empty list; the audit reads each absent entry on the bookie itself.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from structlog.stdlib import BoundLogger

from auditor.errors import PeerProtocolError
from auditor.lister.bookie_configuration import BookieConfiguration
from auditor.lister.cookie import Cookie
from auditor.lister.directory_reader import DirectoryReader
from auditor.lister.serving import ServingCheck
from auditor.wire import bookie_server as wire
from auditor.wire.frames import Status
from auditor.wire.lister_identity import ListerIdentity, with_identity

READ_BYTES = 64 * 2**10
"""Bytes read from a connection at a time: some thousand requests."""
REQUEST_BYTES_MAX = 64 * 2**10
"""Longest request accepted. Those a lister answers have a few dozen bytes."""
SEND_TIMEOUT_S = 60.0
"""How long a client may take to accept what it asked for. Then the connection is closed."""
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
    ) -> None:
        self._configured, self._cookie = configured, cookie
        self._readers, self._serving = readers, serving
        self._limits, self._logger = limits, logger
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

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
                self._logger.warning("lister_connection_refused", connections_max=self._limits.connections_max)
                return
            _keep_alive(writer)
            await self._converse(reader, writer)
        except asyncio.CancelledError:
            pass  # the lister ends; asyncio would report a cancelled handler as unforeseen
        except (PeerProtocolError, OSError) as error:
            self._logger.info("lister_connection_lost", reason=str(error))
        finally:
            self._connections.discard(task)
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer what one client asks. While it does not read, nothing more of it is read."""
        buffer = wire.RequestBuffer(REQUEST_BYTES_MAX)
        most = self._limits.ledgers_in_work_max
        while data := await reader.read(READ_BYTES):
            requests = [wire.decode_request(body) for body in buffer.feed(data)]
            for start in range(0, len(requests), most):
                for frame in await self._answers(requests[start : start + most]):
                    writer.write(frame)
                async with asyncio.timeout(SEND_TIMEOUT_S):
                    await writer.drain()

    async def _answers(self, requests: Sequence[wire.Request | wire.WrongVersion]) -> list[bytes]:
        """Return the response to each request, in their order."""
        problem = await self._serving.problem()
        if problem:
            self._logger.warning("lister_bookie_not_serving", reason=problem)
        ledgers = [] if problem else [one.ledger_id for one in requests if isinstance(one, wire.ListEntries)]
        lists = await self._lists(ledgers)
        if ledgers and (problem := await self._serving.problem()):  # it may have ended while they were made
            lists = {}
        return [self._answer(request, lists, problem) for request in requests]

    async def _lists(self, ledgers: Sequence[int]) -> dict[int, bytes | None]:
        """Return what each directory's reader says. A ledger lives in directory `id mod n`."""
        count = len(self._readers)
        shares: dict[int, list[int]] = {}
        for ledger_id in dict.fromkeys(ledgers):
            shares.setdefault(ledger_id % count, []).append(ledger_id)
        payloads_by_share = await asyncio.gather(*(self._readers[number].lists(share) for number, share in shares.items()))
        return {
            ledger_id: payload
            for share, payloads in zip(shares.values(), payloads_by_share, strict=True)
            for ledger_id, payload in zip(share, payloads, strict=True)
        }

    def _answer(self, request: wire.Request | wire.WrongVersion, lists: Mapping[int, bytes | None], problem: str) -> bytes:
        match request:
            case wire.WrongVersion():
                return wire.encode_wrong_version(request)
            case wire.ListEntries():
                payload = lists.get(request.ledger_id)
                return wire.encode_list(request, Status.EIO if payload is None else Status.EOK, payload)
            case wire.BookieInfo():
                return self._info(request, problem)
            case wire.Authenticate():
                return wire.encode_auth(request, Status.EOK)
            case wire.ReadEntry():
                return wire.encode_read(request, Status.EBADREQ)
            case wire.AddEntry():
                return wire.encode_add(request, Status.EBADREQ)
            case wire.OtherRequest():
                return wire.encode_status(request, Status.EBADREQ)

    def _info(self, request: wire.BookieInfo, problem: str) -> bytes:
        """Say whose lists these are, and how full the disks are. EIO where the bookie does not serve."""
        if problem:
            return wire.encode_info(request, Status.EIO)
        try:
            usages = [shutil.disk_usage(path) for path in self._configured.ledger_directories]
        except OSError:
            return wire.encode_info(request, Status.EIO)
        frame = wire.encode_info(request, Status.EOK, sum(u.total for u in usages), sum(u.free for u in usages))
        ages = [age for reader in self._readers if (age := reader.view_age_ms) is not None]
        return with_identity(frame, ListerIdentity(self._cookie.bookie_id, self._cookie.instance_id, max(ages, default=None)))


def report_to(logger: BoundLogger, directory: str) -> Any:
    """Return what logs the reports of one directory's reader."""

    def on_report(report: Mapping[str, Any]) -> None:
        for reason in report["reasons"][:REASONS_LOGGED_MAX]:
            logger.warning("lister_in_doubt", directory=directory, reason=reason)
        if report["missing_logs"]:
            logger.error("lister_entry_log_missing", directory=directory, entries_by_log=report["missing_logs"])
        logger.debug("lister_lists", directory=directory, view_age_ms=report["view_age_ms"])

    return on_report


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    """Notice clients whose machine is gone: their connection would stay open."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

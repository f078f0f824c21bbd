"""The answers of a lister's server, with readers and a bookie whose answers a test sets."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import CapturingLogger

from auditor.errors import ConfigError
from auditor.lister import server as server_module
from auditor.lister.bookie_configuration import BookieConfiguration
from auditor.lister.directory_reader import DirectoryReader, Lists, Report
from auditor.lister.ledger_lists import LedgerList
from auditor.lister.server import (
    READ_BYTES,
    REASONS_LOGGED_MAX,
    REPLIES_HELD_MAX,
    Connection,
    ListerServer,
    ServerLimits,
    report_to,
)
from auditor.lister.serving import ServingCheck
from auditor.model.availability import MissingLog
from auditor.sandbox.listener import HOST
from auditor.telemetry.lister_metrics import IN_DOUBT, LISTED, NOT_SERVING, ListerMetrics
from auditor.wire import bookie_server as wire
from auditor.wire.bookie_connection import BookieConnection
from auditor.wire.cookie import Cookie
from auditor.wire.frames import Status
from auditor.wire.lister_fields import ListerIdentity, with_identity, with_missing_logs

LEDGERS = (Path("/l1"), Path("/l2"))
SIZES = {LEDGERS[0]: (100, 60, 40), LEDGERS[1]: (7, 4, 3)}
INFO = wire.BookieInfo(1, True, True)
LOST = (MissingLog("/l1/5.log", 2, ((3, 4),)),)


class Noted:
    """Stands for metrics: notes each call with what it was given."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given, **named: self.calls.append((name, *given, *named.values()))

    def of(self, name: str) -> list[Any]:
        """What calls of this name were given."""
        found = [call[1:] for call in self.calls if call[0] == name]
        return [given[0] if len(given) == 1 else given for given in found]


class Reader:
    """Makes the lists that a test sets."""

    def __init__(self, *makes: LedgerList | None, view_age_ms: int | None = None) -> None:
        self.makes, self.view_age_ms = list(makes), view_age_ms
        self.asked: list[list[int]] = []
        self.bug: Exception | None = None
        self.closed = 0

    async def first_lists(self, ledgers: Sequence[int]) -> Lists:
        self.asked.append(list(ledgers))
        if self.bug is not None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                raise self.bug from None
        return self.makes

    def close(self) -> None:
        self.closed += 1


class Scene:
    """A server, what it stands on, and what it noted. `problems` are those of the next checks of
    the bookie; then there is none.
    """

    def __init__(self, *readers: Reader, connections_max: int = 2, tls: Any = None) -> None:
        self.readers = readers
        self.logger, self.metrics = CapturingLogger(), Noted()
        self.problems: deque[str] = deque()
        self.server = ListerServer(
            BookieConfiguration(LEDGERS, LEDGERS),
            Cookie("b1", "i", (), None),
            cast(Sequence[DirectoryReader], readers),
            cast(ServingCheck, self),
            ServerLimits(connections_max, 4),
            cast(Any, self.logger),
            cast(ListerMetrics, self.metrics),
            tls,
        )

    async def problem(self) -> str:
        return self.problems.popleft() if self.problems else ""

    @property
    def logged(self) -> list[tuple[str, str, dict[str, Any]]]:
        return [(call.method_name, *call.args, call.kwargs) for call in self.logger.calls]

    def answer(self, request: wire.Request | wire.WrongVersion) -> bytes:
        return asyncio.run(self.server.answer(request))

    def lists(self, directory: int, *ledgers: int) -> tuple[int, list[bytes]]:
        """How many requests were answered, and what the client got."""
        client = Client()
        done = asyncio.run(
            self.server.send_first_lists(directory, requests(*ledgers), cast(Connection, client))
        )
        return done, client.got


class Client:
    """Takes what it is sent."""

    def __init__(self) -> None:
        self.got: list[bytes] = []

    async def send(self, frames: Sequence[bytes]) -> None:
        self.got += frames


def requests(*ledgers: int) -> list[wire.ListEntries]:
    return [wire.ListEntries(100 + ledger, ledger) for ledger in ledgers]


@pytest.fixture(autouse=True)
def disks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The sizes of the bookie's disks."""
    monkeypatch.setattr(
        server_module.shutil,
        "disk_usage",
        lambda path: SimpleNamespace(
            **dict(zip(("total", "used", "free"), SIZES[path], strict=True))
        ),
    )
    yield


ADD, READ = wire.AddEntry(3, 7, 1, b"", b""), wire.ReadEntry(3, 7, 1)
LIST, OTHER = wire.ListEntries(3, 7), wire.OtherRequest(3, wire.Operation.START_TLS)
AUTH = wire.Authenticate(3, "p", b"x")


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (ADD, wire.encode_add(ADD, Status.EBADREQ)),
        (READ, wire.encode_read(READ, Status.EBADREQ)),
        (OTHER, wire.encode_status(OTHER, Status.EBADREQ)),
        (LIST, wire.encode_status(LIST, Status.EBADREQ)),
        (AUTH, wire.encode_auth(AUTH, Status.EOK)),
        (wire.WrongVersion(LIST), wire.encode_wrong_version(wire.WrongVersion(LIST))),
    ],
)
def test_what_a_lister_does_not_do_is_a_bad_request(
    request_: wire.Request | wire.WrongVersion, expected: bytes
) -> None:
    """It neither reads nor adds entries; it accepts every login."""
    assert expected == Scene(Reader()).answer(request_)


@pytest.mark.parametrize(
    ("ages", "oldest"), [((None, None), None), ((5, None), 5), ((5, 9), 9), ((9, 5), 9)]
)
def test_it_says_who_it_is_and_how_old_its_oldest_view_is(
    ages: tuple[int | None, ...], oldest: int | None
) -> None:
    """It says so to every client, and to its metrics; the disks are those of all ledger
    directories.
    """
    scene = Scene(*(Reader(view_age_ms=age) for age in ages))
    said = wire.encode_info(INFO, Status.EOK, 107, 43)
    assert with_identity(said, ListerIdentity("b1", "i", oldest)) == scene.answer(INFO)
    (follow,) = scene.metrics.of("follow_view_age")
    assert oldest == follow()
    assert ([True], []) == (scene.metrics.of("set_serving"), scene.logged)
    assert len(ages) == scene.server.directories


def test_while_its_bookie_does_not_serve_it_does_not_say_who_it_is() -> None:
    """With the reason in its log."""
    scene = Scene(Reader())
    scene.problems.append("down")
    assert wire.encode_info(INFO, Status.EIO) == scene.answer(INFO)
    assert [("warning", "lister_bookie_not_serving", {"reason": "down"})] == scene.logged
    assert [False] == scene.metrics.of("set_serving")


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't start new thread")])
def test_what_the_host_lacks_ends_a_connection_with_a_line_in_the_log(error: Exception) -> None:
    """The client asks again. The line says what the host lacks, not that the client was lost."""

    async def converse() -> None:
        raise ExceptionGroup("unhandled errors in a TaskGroup", [error])

    scene = Scene(Reader())
    connection = cast(Connection, SimpleNamespace(converse=converse))
    asyncio.run(scene.server._converse(connection))
    ((level, event, facts),) = scene.logged
    assert ("error", "lister_host_limited") == (level, event)
    assert facts["reason"].startswith("this host")


def test_any_other_error_of_a_connection_is_not_hidden() -> None:
    """It is ours."""

    async def converse() -> None:
        raise ExceptionGroup("unhandled errors in a TaskGroup", [KeyError("x")])

    scene = Scene(Reader())
    with pytest.raises(ExceptionGroup):
        asyncio.run(scene.server._converse(cast(Connection, SimpleNamespace(converse=converse))))
    assert [] == scene.logged


def test_a_disk_that_cannot_be_asked_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reason in its log."""

    def disk_usage(_: Path) -> None:
        raise OSError("gone")

    monkeypatch.setattr(server_module.shutil, "disk_usage", disk_usage)
    scene = Scene(Reader())
    assert wire.encode_info(INFO, Status.EIO) == scene.answer(INFO)
    assert [("warning", "lister_disk_unknown", {"reason": "gone"})] == scene.logged


def test_each_list_is_the_answer_to_its_own_request() -> None:
    """From the reader of the directory, for as many as were made; a doubt is EIO, and an entry log
    that is not found is named.
    """
    readers = (Reader(), Reader(LedgerList(b"a" * 64), None, LedgerList(b"b" * 64, LOST)))
    scene = Scene(*readers)
    asked = requests(1, 3, 5)
    expected = [
        wire.encode_list(asked[0], Status.EOK, b"a" * 64),
        wire.encode_list(asked[1], Status.EIO),
        with_missing_logs(wire.encode_list(asked[2], Status.EOK, b"b" * 64), LOST),
    ]
    assert (3, expected) == scene.lists(1, 1, 3, 5, 7, 9)
    assert ([], [[1, 3, 5, 7, 9]]) == (readers[0].asked, readers[1].asked)
    assert [(LISTED, 2), (IN_DOUBT, 1)] == scene.metrics.of("count_lists")
    assert [True, True] == scene.metrics.of("set_serving")


def test_no_list_is_made_while_the_bookie_does_not_serve() -> None:
    """Every request is refused."""
    reader = Reader(LedgerList(b""))
    scene = Scene(reader)
    scene.problems.append("down")
    expected = [wire.encode_list(one, Status.EIO) for one in requests(1, 2)]
    assert ((2, expected), []) == (scene.lists(0, 1, 2), reader.asked)
    assert [(NOT_SERVING, 2)] == scene.metrics.of("count_lists")


def test_lists_that_were_made_while_the_bookie_ended_are_refused() -> None:
    """Those that were not made are asked for again."""
    scene = Scene(Reader(LedgerList(b""), LedgerList(b"")))
    scene.problems += ["", "down"]
    expected = [wire.encode_list(one, Status.EIO) for one in requests(1, 2)]
    assert (2, expected) == scene.lists(0, 1, 2, 3)
    assert [(NOT_SERVING, 2)] == scene.metrics.of("count_lists")


def test_few_replies_are_held_at_once() -> None:
    """Until the client has taken them, however many wait."""
    reader = Reader(LedgerList(b""))
    scene = Scene(reader)
    slow = SimpleNamespace(send=lambda _: gate.wait())

    async def ask() -> tuple[int, list[int]]:
        calls = [
            asyncio.ensure_future(
                scene.server.send_first_lists(0, requests(1), cast(Connection, slow))
            )
            for _ in range(REPLIES_HELD_MAX + 3)
        ]
        for _ in range(20):
            await asyncio.sleep(0)
        held = len(reader.asked)
        gate.set()
        return held, await asyncio.gather(*calls)

    gate = asyncio.Event()
    assert (REPLIES_HELD_MAX, [1] * (REPLIES_HELD_MAX + 3)) == asyncio.run(ask())


def test_what_a_reader_reports_is_logged_and_counted() -> None:
    """Some of its doubts, each log that it does not find, and what it read."""
    logger, metrics = CapturingLogger(), Noted()
    report = report_to(cast(Any, logger), cast(ListerMetrics, metrics), "/l1")
    reasons = tuple(f"doubt {n}" for n in range(REASONS_LOGGED_MAX + 1))
    report(Report(3, 40, reasons, {"/l1/5.log": 2, "/l1/6.log": 3}, was_lost=True))
    report(Report(1, 2))
    doubts = [
        ("warning", "lister_in_doubt", {"directory": "/l1", "reason": reason})
        for reason in reasons[:REASONS_LOGGED_MAX]
    ]
    by_log = {"/l1/5.log": 2, "/l1/6.log": 3}
    missing = ("error", "lister_entry_log_missing", {"directory": "/l1", "entries_by_log": by_log})
    logged = [(call.method_name, *call.args, call.kwargs) for call in logger.calls]
    assert [*doubts, missing] == logged
    assert [(40, 5, True), (2, 0, False)] == metrics.of("count_reading")


Talk = Callable[[int], Any]


def serve(scene: Scene, talk: Talk) -> Any:
    """Run a server on a port of its own while `talk(port)` runs."""

    async def run() -> Any:
        port = await scene.server.start(HOST, 0)
        try:
            return await asyncio.wait_for(talk(port), 60)
        finally:
            await scene.server.stop()

    return asyncio.run(run())


def test_clients_are_served_side_by_side_and_those_that_are_too_many_are_closed() -> None:
    """One that went away makes room."""
    scene = Scene(Reader(LedgerList(b"a" * 64)))
    asks = BookieConnection(2**20)
    info, lists = asks.ask_info()[1], asks.ask_list(7)[1]

    async def talk(port: int) -> list[bool]:
        clients = [await asyncio.open_connection(HOST, port) for _ in range(2)]
        for (reader, writer), request in zip(clients, (info, lists), strict=True):
            writer.write(request)
            assert await reader.read(1)
        reader, writer = await asyncio.open_connection(HOST, port)
        refused = not await reader.read()
        writer.close()
        clients[0][1].close()
        while scene.metrics.of("set_connections")[-1] != 1:  # noqa: ASYNC110 - the server's own event
            await asyncio.sleep(0.001)
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(info)
        served = bool(await reader.read(1))
        for _, mine in (*clients[1:], (reader, writer)):
            mine.close()
        return [refused, served]

    assert [True, True] == serve(scene, talk)
    assert [()] == scene.metrics.of("count_refused_connection")
    assert ("warning", "lister_connection_refused", {"connections_max": 2}) in scene.logged
    assert [1, 2, 2, 1, 2] == scene.metrics.of("set_connections")[:5]


def test_its_end_closes_connections_and_readers() -> None:
    """Nobody is listening any more, and a client that waits is hung up on."""
    scene = Scene(Reader(), Reader())
    ports: list[int] = []

    async def talk(port: int) -> bytes:
        ports.append(port)
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(BookieConnection(2**20).ask_info()[1])
        assert await reader.read(1)
        await scene.server.stop()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(HOST, port)
        rest = b""
        while more := await reader.read():
            rest += more
        writer.close()
        return rest

    serve(scene, talk)
    assert [2, 2] == [reader.closed for reader in scene.readers]
    assert 0 == scene.metrics.of("set_connections")[-1]
    assert [] == scene.logged


def test_its_readers_are_closed_when_nobody_uses_them_any_more() -> None:
    """And whatever is raised where a conversation is cut off."""
    scene = Scene(Reader())
    (reader,) = scene.readers
    reader.bug = RuntimeError("a bug")
    connected: list[int] = []
    reader.close = lambda: connected.append(scene.metrics.of("set_connections")[-1])  # type: ignore[method-assign]

    async def talk(port: int) -> None:
        _, writer = await asyncio.open_connection(HOST, port)
        writer.write(BookieConnection(2**20).ask_list(7)[1])
        while not reader.asked:  # noqa: ASYNC110 - the server's own event
            await asyncio.sleep(0.001)
        await scene.server.stop()
        writer.close()

    serve(scene, talk)
    assert [0, 0] == connected


def test_it_listens_at_the_given_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its streams hold no more than is read at a time."""
    addresses: list[tuple[Any, ...]] = []

    async def start_server(serve: Any, *where: Any, **more: Any) -> Any:
        addresses.append((*where, more))
        end = SimpleNamespace(getsockname=lambda: ("", 77))
        return SimpleNamespace(sockets=[end], close=lambda: None)

    monkeypatch.setattr(asyncio, "start_server", start_server)
    assert 77 == asyncio.run(Scene(Reader()).server.start("h", 3182))
    assert [("h", 3182, {"limit": READ_BYTES})] == addresses


def test_a_server_that_never_started_can_be_stopped() -> None:
    """Its readers are closed."""
    scene = Scene(Reader())
    asyncio.run(scene.server.stop())
    assert [1] == [reader.closed for reader in scene.readers]


class Writer:
    """A client's end of which `unsent` bytes are still to be taken."""

    def __init__(self, unsent: int = 0) -> None:
        self.unsent, self.ended = unsent, ""
        self.socket = socket.socket()
        self.transport = self

    def get_extra_info(self, name: str) -> socket.socket | None:
        return self.socket if name == "socket" else None

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def abort(self) -> None:
        self.ended += "aborted"

    def close(self) -> None:
        self.ended += "closed"


@pytest.mark.parametrize(("unsent", "ended"), [(0, "closed"), (1, "aborted")])
def test_a_connection_that_breaks_the_protocol_is_logged_and_ended(unsent: int, ended: str) -> None:
    """At once where the client has not taken what it was sent: closing would wait for it."""
    scene, writer = Scene(Reader()), Writer(unsent)

    async def serve_one() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(b"\0\0\0\0")
        await scene.server._serve(reader, cast(asyncio.StreamWriter, writer))

    with writer.socket:
        asyncio.run(serve_one())
        assert 0 != writer.socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    ((level, event, fields),) = scene.logged
    assert ("info", "lister_connection_lost", ["reason"]) == (level, event, [*fields])
    assert "request" in fields["reason"]
    assert (ended, [1, 0]) == (writer.ended, scene.metrics.of("set_connections"))


def test_the_certificate_for_a_client_is_the_current_one_or_the_client_is_refused() -> None:
    """A key that cannot be used is logged with its reason. Other clients are not affected."""
    context = object()
    served = Scene(tls=SimpleNamespace(current=lambda: context))
    assert context is asyncio.run(served.server.tls_context())

    def unusable() -> object:
        raise ConfigError("the key is not that of the certificate")

    refused = Scene(tls=SimpleNamespace(current=unusable))
    with pytest.raises(ConnectionAbortedError, match="no TLS with this client: the key is not"):
        asyncio.run(refused.server.tls_context())
    (call,) = refused.logger.calls
    assert ("warning", ("lister_tls_unusable",)) == (call.method_name, call.args)
    assert {"reason": "the key is not that of the certificate"} == call.kwargs

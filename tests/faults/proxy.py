"""A loopback proxy in front of a bookie or a ZooKeeper that does to frames what networks do.

    log = Log()
    with Proxies() as proxies:
        proxy = proxies.before_bookie("b2", port, log, seed=7)
        proxy.faults = [Fault(Harm.RESET, operation="list", frame=3)]   # resets at the fourth list
        cluster.register("b2", proxy.registration)
        ...
        proxy.heal()

A fault applies to whole frames, one or several. Random choices (where a frame is cut, which byte
changes) are drawn from the seed. The log has every frame, both ways, in the order in which the
proxy saw them, of all proxies that share it.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self

from faults.frames import BookieFrames, Dialect, Said, ZooKeeperFrames
from faults.harm import SWALLOWED, Fault, Harm, Log, Passed

from auditor.sandbox.listener import LoopThread
from auditor.wire import bookie_registration

HOST = "127.0.0.1"
FRAME_BYTES_MAX = 64 * 2**20
"""Largest frame passed on, in bytes."""
CONNECT_TIMEOUT_S = 10.0
"""How long the server behind it may take to accept, in seconds."""
REORDER_WAIT_S = 0.2
"""How long a frame is held for another to overtake it, in seconds; after that it is not
reordered.
"""


class Proxy:
    """A proxy in front of one server. `faults` may change while it runs; frames are counted from
    then on. Random choices are drawn from `random`.
    """

    def __init__(
        self,
        name: str,
        server: tuple[str, int],
        dialect: Callable[[], Dialect],
        log: Log,
        seed: int,
    ) -> None:
        self.name, self.server, self.log = name, server, log
        self._dialect = dialect
        self.random = random.Random(f"{seed} {name}")
        self._faults: list[Fault] = []
        self._fitted: list[int] = []
        self._connections: list[Connection] = []
        self.made = 0

    @property
    def faults(self) -> list[Fault]:
        return self._faults

    @faults.setter
    def faults(self, faults: list[Fault]) -> None:
        self._fitted = [0] * len(faults)
        self._faults = faults

    async def start(self) -> None:
        self._listener = await asyncio.start_server(self._accepted, HOST, 0)
        self.port: int = self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening: new connections are refused, as if no server ran."""
        self._listener.close()
        for connection in self._connections:
            connection.end()

    async def start_again(self) -> None:
        """Listen again on the same port."""
        self._listener = await asyncio.start_server(self._accepted, HOST, self.port)

    def heal(self) -> None:
        """Do no more harm. A half-open connection stays so."""
        self.faults = []

    @property
    def registration(self) -> bytes:
        """The registration of a bookie with this address."""
        return bookie_registration.encode(HOST, self.port)

    @property
    def hosts(self) -> str:
        return f"{HOST}:{self.port}"

    def harm(self, said: Said, *, reply: bool, connection: int) -> Fault | None:
        """Return what to do to this frame: the first fault whose turn it is."""
        chosen = None
        for at, fault in enumerate(self._faults):
            if fault.fits(said, reply=reply, connection=connection):
                turn = self._fitted[at] - fault.frame
                self._fitted[at] += 1
                if chosen is None and turn >= 0 and (fault.count is None or turn < fault.count):
                    chosen = fault
        return chosen

    def harmless(self, fault: Fault) -> None:
        """Record that the last frame was not harmed: the next one has its turn."""
        self._fitted = [
            n - (one is fault) for n, one in zip(self._fitted, self._faults, strict=True)
        ]

    def cut(self, framed: bytes) -> bytes:
        """Return a beginning of it: at least a byte, not all."""
        return framed[: self.random.randrange(1, len(framed))]

    def changed(self, framed: bytes, part: str) -> bytes:
        """Return it with one byte changed."""
        first, end = {
            "length": (0, 4),
            "head": (4, min(12, len(framed))),
            "rest": (min(12, len(framed) - 1), len(framed)),
        }[part]
        at = self.random.randrange(first, end)
        other = framed[at] ^ self.random.randrange(1, 256)
        return framed[:at] + bytes((other,)) + framed[at + 1 :]

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                server = await asyncio.open_connection(*self.server)
        except OSError:
            _reset(writer)
            return
        connection = Connection(self, self.made, self._dialect(), (reader, writer), server)
        self.made += 1
        self._connections.append(connection)
        await connection.run()
        self._connections.remove(connection)


class Held(NamedTuple):
    """A frame that waits for the next one to overtake it."""

    framed: bytes
    fault: Fault
    logged: Passed


class Connection:
    """A client's connection, and the one to the server made for it."""

    def __init__(
        self,
        proxy: Proxy,
        number: int,
        dialect: Dialect,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._proxy, self.number, self._dialect = proxy, number, dialect
        self._client, self._server = client, server
        self._swallows = False
        self.client_port: int = client[1].get_extra_info("peername")[1]

    async def run(self) -> None:
        """Forward frames until either side ends."""
        ways = [
            asyncio.create_task(self._pump(self._client[0], self._server[1], reply=False)),
            asyncio.create_task(self._pump(self._server[0], self._client[1], reply=True)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        if self._swallows:
            await ways[0]  # the server's side may end without the client's
        self.end()
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)

    def end(self) -> None:
        for _, writer in (self._client, self._server):
            with suppress(OSError, RuntimeError):
                writer.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, reply: bool
    ) -> None:
        held: list[Held] = []
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                framed = await self._next(reader, writer, held)
                body = framed[4:]
                said = self._dialect.reply(body) if reply else self._dialect.request(body)
                spared = self._swallows or bool(
                    held
                )  # the frame that overtakes takes no harm itself
                fault = (
                    None if spared else self._proxy.harm(said, reply=reply, connection=self.number)
                )
                fate = (
                    Harm.HALF_OPEN if self._swallows else "passed" if fault is None else fault.harm
                )
                sent = None if fate in SWALLOWED else said
                if fault is not None and fault.harm is Harm.CORRUPT:
                    framed = self._proxy.changed(framed, fault.part)
                    sent = (
                        self._dialect.reply(framed[4:])
                        if reply and fault.part != "length"
                        else None
                    )
                logged = self._proxy.log.add(
                    self._proxy.name, self.number, said, sent, fate, reply=reply
                )
                if fault is not None and fault.harm is Harm.REORDER:
                    held.append(Held(framed, fault, logged))
                elif not await self._pass(framed, fault, writer, held):
                    return

    async def _next(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, held: list[Held]
    ) -> bytes:
        """Return the next frame with its length. If nothing overtakes a held frame meanwhile,
        forward that.
        """
        coming = asyncio.ensure_future(reader.readexactly(4))
        if held:
            await asyncio.wait([coming], timeout=REORDER_WAIT_S)
            if not coming.done() or coming.exception() is not None:
                for one in held:
                    self._proxy.log.unharmed(one.logged)
                    self._proxy.harmless(one.fault)
                await _send(writer, *(one.framed for one in held))
                held.clear()
        head = await coming
        (length,) = struct.unpack("!i", head)
        assert 0 <= length <= FRAME_BYTES_MAX, length
        return head + await reader.readexactly(length)

    async def _pass(
        self, framed: bytes, fault: Fault | None, writer: asyncio.StreamWriter, held: list[Held]
    ) -> bool:
        """Forward or harm the frame; return False if it was the connection's last."""
        if self._swallows:
            return True
        match fault.harm if fault else None:
            case Harm.DROP:
                return True
            case Harm.RESET:
                _reset(self._client[1])
                _reset(self._server[1])
                return False
            case Harm.TRUNCATE:
                await _send(writer, self._proxy.cut(framed))
                return False
            case Harm.HALF_OPEN:
                self._swallows = True
                return True
        frames = await self._frames(framed, fault)
        await _send(writer, *frames, *(one.framed for one in held))
        held.clear()
        return True

    async def _frames(self, framed: bytes, fault: Fault | None) -> list[bytes]:
        if fault is None:
            return [framed]
        match fault.harm:
            case Harm.DELAY:
                await asyncio.sleep(fault.delay_s)
            case Harm.DUPLICATE:
                return [framed, framed]
            case Harm.CALL:
                assert fault.call is not None, "a call to make"
                try:
                    await asyncio.to_thread(fault.call, self)
                except Exception as error:
                    self._proxy.log.errors.append(error)
        return [framed]


async def _send(writer: asyncio.StreamWriter, *frames: bytes) -> None:
    writer.write(b"".join(frames))
    await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Proxies:
    """Proxies in a thread of their own, which ends with the block."""

    def __enter__(self) -> Self:
        self._loop = LoopThread("fault-proxies")
        self._proxies: list[Proxy] = []
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for proxy in self._proxies:
            self._loop.call(proxy.stop())
        self._loop.stop()

    def before_bookie(self, name: str, address: tuple[str, int], log: Log, seed: int) -> Proxy:
        """Return a proxy for the bookie that listens at `address`."""
        return self._started(Proxy(name, address, BookieFrames, log, seed))

    def before_zookeeper(self, hosts: str, log: Log, seed: int) -> Proxy:
        """Return a proxy for the one server that `hosts` names, `host:port`."""
        host, _, port = hosts.partition(":")
        return self._started(Proxy("zookeeper", (host, int(port)), ZooKeeperFrames, log, seed))

    def heal(self) -> None:
        """Stop the harm of every proxy."""
        for proxy in self._proxies:
            proxy.heal()

    def lose(self, proxy: Proxy) -> None:
        """Cut off the server behind it: every connection ends, and no new one is accepted."""
        self._loop.call(proxy.stop())

    def find(self, proxy: Proxy) -> None:
        """Make the server reachable again."""
        self._loop.call(proxy.start_again())

    def _started(self, proxy: Proxy) -> Proxy:
        self._loop.call(proxy.start())
        self._proxies.append(proxy)
        return proxy

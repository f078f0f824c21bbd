"""A loopback proxy in front of a real ZooKeeper that refuses some requests, like servers that do
not know them.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

FRAME_BYTES_MAX = 4 * 2**20
ACCEPT_POLL_S = 0.1
EXISTS, GET_DATA, GET_CHILDREN, MULTI_READ = 3, 4, 8, 22


class DroppingProxy:
    """Forwards frames both ways, and closes the connection instead of forwarding a request with one
    of `opcodes`.

    With `error`, such a request is answered with that error code, in its turn, and then the
    connection is closed. With `renumbered`, the first one is answered under the number of another
    request, and all others as they should be.
    """

    def __init__(
        self,
        server_port: int,
        opcodes: frozenset[int],
        error: int | None = None,
        *,
        renumbered: bool = False,
    ) -> None:
        self.opcodes = opcodes
        self.error = error
        self.renumbered = renumbered
        self.refused = 0
        self.reads: list[int] = []
        """The number of znodes that each reading request asks for."""
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(ACCEPT_POLL_S)
        self._open = True
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def hosts(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._open = False
        for thread in self._threads:
            thread.join(timeout=5)
        self._listener.close()

    def _accept(self) -> None:
        while self._open:
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            server = socket.create_connection(("127.0.0.1", self._server_port), timeout=5)
            server.settimeout(None)
            client.settimeout(None)
            to_fail: set[int] = set()
            for pump in (self._requests, self._replies):
                threading.Thread(target=pump, args=(client, server, to_fail), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, to_fail: set[int]) -> None:
        for position, frame in enumerate(_frames(client)):
            xid, opcode = (
                struct.unpack_from("!ii", frame) if position > 0 else (0, 0)
            )  # the first frame has no header
            self.reads.extend([count] if (count := znodes_read(opcode, frame)) else [])
            if opcode in self.opcodes:
                self.refused += 1
                if self.renumbered:
                    to_fail.update([xid] if self.refused == 1 else [])
                    _send(server, frame)
                    continue
                if self.error is None:
                    break
                to_fail.add(xid)
                frame = (
                    struct.pack("!iii", xid, EXISTS, 1) + b"/\0"
                )  # keeps its place in the order of replies
            _send(server, frame)
        _close_link(client, server)

    def _replies(self, client: socket.socket, server: socket.socket, to_fail: set[int]) -> None:
        for position, frame in enumerate(_frames(server)):
            xid, zxid = struct.unpack_from("!iq", frame) if position > 0 else (0, 0)
            if xid in to_fail and self.error is not None:
                _send(client, struct.pack("!iqi", xid, zxid, self.error))
                break
            shifted = struct.pack("!i", xid + 1) + frame[4:]
            _send(client, shifted if xid in to_fail and self.renumbered else frame)
        _close_link(client, server)


def znodes_read(opcode: int, frame: bytes) -> int:
    """Return how many znodes a request frame asks for. A multiRead has a header before each
    operation and a final one.
    """
    if opcode in (GET_DATA, GET_CHILDREN):
        return 1
    if opcode != MULTI_READ:
        return 0
    count, offset = 0, 8
    while True:
        _, done, _ = struct.unpack_from("!iBi", frame, offset)
        if done:
            return count
        (length,) = struct.unpack_from("!i", frame, offset + 9)
        count, offset = count + 1, offset + 9 + 4 + length + 1


def _send(sock: socket.socket, frame: bytes) -> None:
    with suppress(OSError):  # the other side has closed; this side closes too
        sock.sendall(struct.pack("!i", len(frame)) + frame)


def _frames(sock: socket.socket) -> Iterator[bytes]:
    try:
        with sock.makefile("rb") as stream:
            while len(head := stream.read(4)) == 4:
                (length,) = struct.unpack("!i", head)
                assert 0 <= length <= FRAME_BYTES_MAX, length
                yield stream.read(length)
    except OSError:
        return


def _close_link(*socks: socket.socket) -> None:
    for sock in socks:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


@contextmanager
def refusing(
    server_port: int, *opcodes: int, error: int | None = None, renumbered: bool = False
) -> Iterator[DroppingProxy]:
    proxy = DroppingProxy(server_port, frozenset(opcodes), error, renumbered=renumbered)
    try:
        yield proxy
    finally:
        proxy.close()

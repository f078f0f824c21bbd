"""The proxy does the harm that it logs, and logs no harm that it did not do."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from faults.harm import Fault, Harm, Log
from faults.proxy import Proxies, Proxy

from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

WAITED_S = 30.0


class Heard:
    """A silent server, and the transactions that reached it, in order."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self.listener.getsockname()
        self.transactions: list[int] = []
        self._more = threading.Condition()

    def serve(self) -> None:
        """Serve one connection, to its end."""
        connection, _ = self.listener.accept()
        with connection, connection.makefile("rb") as stream:
            while head := stream.read(4):
                body = stream.read(struct.unpack("!i", head)[0])
                with self._more:
                    self.transactions.append(pb.Request.FromString(body).header.txnId)
                    self._more.notify()

    def until(self, count: int) -> list[int]:
        """Return the transactions, once there are so many."""
        with self._more:
            assert self._more.wait_for(lambda: len(self.transactions) >= count, WAITED_S), (
                self.transactions
            )
            return list(self.transactions)


def asking(txn_id: int) -> bytes:
    """Return the frame of a request for a list."""
    request = pb.Request()
    request.header.version, request.header.operation, request.header.txnId = (
        pb.VERSION_THREE,
        11,
        txn_id,
    )
    request.getListOfEntriesOfLedgerRequest.ledgerId = txn_id
    body = request.SerializeToString()
    return struct.pack("!i", len(body)) + body


@contextmanager
def reordering(log: Log, count: int | None) -> Iterator[tuple[Proxy, Heard, socket.socket]]:
    """Yield a connection through a proxy that is to reorder so many requests."""
    server = Heard()
    serving = threading.Thread(target=server.serve, daemon=True)
    serving.start()
    with Proxies() as proxies, server.listener:
        proxy = proxies.before_bookie("b1", server.address, log, seed=1)
        proxy.faults = [Fault(Harm.REORDER, reply=False, operation="list", count=count)]
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            yield proxy, server, client
    serving.join(WAITED_S)
    assert not serving.is_alive()


def harmed(log: Log) -> list[int]:
    return [one.said.txn_id for one in log.harmed()]


def test_a_frame_that_nothing_overtakes_took_no_harm():
    """It is forwarded alone and logged so. The next frame that is overtaken is then the reordered
    one.
    """
    log = Log()
    with reordering(log, 1) as (_, server, client):
        client.sendall(asking(1))
        assert [1] == server.until(1)
        assert [] == harmed(log)
        client.sendall(asking(2) + asking(3) + asking(4))
        assert [1, 3, 2, 4] == server.until(4)
    assert [2] == harmed(log)


@pytest.mark.parametrize("count", [2, None])
def test_where_several_frames_are_reordered_each_is_overtaken_by_the_next(count: int | None):
    """Frames are reordered in pairs: the one that overtakes is not held itself."""
    log = Log()
    with reordering(log, count) as (_, server, client):
        client.sendall(b"".join(asking(txn_id) for txn_id in (1, 2, 3, 4)))
        assert [2, 1, 4, 3] == server.until(4)
    assert [1, 3] == harmed(log)

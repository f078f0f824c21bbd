"""Thousands of znodes to read in groups, and the laws of such reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from support.zookeeper_znodes import QUICK, Znodes, uri

from auditor.config import ZooKeeperLimits
from auditor.zookeeper.multi_read import NO_AUTH, NO_NODE, OK
from auditor.zookeeper.reading import children_of_many, read_many
from auditor.zookeeper.session import Session, connect

COUNT = 4_000
PATHS = [f"/data/n{number:05}" for number in range(COUNT)]


class Server(Protocol):
    """The part of a server that a session uses."""

    @property
    def hosts(self) -> str: ...


def seed(client: Znodes) -> None:
    client.put_all((path, path.encode()) for path in PATHS)
    client.put("/odd/empty")
    client.put("/odd/large", bytes(500_000))
    client.put("/odd/ünïcode", "ü".encode())
    client.put("/odd/shut", b"hidden", shut=True)


def session(server: Server, limits: ZooKeeperLimits = QUICK) -> Session:
    return connect(uri(server.hosts, "/data"), limits)


def assert_all_read(session: Session) -> None:
    assert [(path, OK, path.encode()) for path in PATHS] == [
        item[:3] for item in read_many(session, PATHS)
    ]


def assert_same_both_ways(session: Session) -> None:
    """Assert that multiRead and single reads give the same items, stats and codes, in the same
    order.
    """
    odd = [f"/odd/{name}" for name in ("empty", "large", "ünïcode", "shut", "nope")]
    paths = [*PATHS[:500], *odd, "/", *PATHS[500:700], *odd]
    parents = ["/data", *odd, "/", "/odd"]
    as_one, children_as_one = (
        list(read_many(session, paths)),
        list(children_of_many(session, parents)),
    )
    session.multi_read = False
    assert list(read_many(session, paths)) == as_one
    singly = list(children_of_many(session, parents))
    assert [(c.path, c.error, sorted(c.names)) for c in singly] == [
        (c.path, c.error, sorted(c.names)) for c in children_as_one
    ]
    assert paths == [item.path for item in as_one]
    assert [item.error for item in as_one[-5:]] == [OK, OK, OK, NO_AUTH, NO_NODE]
    assert [item.error for item in children_as_one[1:6]] == [OK, OK, OK, NO_AUTH, NO_NODE]
    assert {"empty", "large", "ünïcode", "shut"} == set(children_as_one[-1].names)


def record_sent(reader: Session) -> list[int]:
    """Record the opcodes of all requests from now on, in the order in which kazoo gets them."""
    sent: list[int] = []
    call: Callable[..., object] = reader._client._call

    def recording(request: object, result: object) -> object:
        sent.append(request.type)  # type: ignore[attr-defined]
        return call(request, result)

    reader._client._call = recording
    return sent

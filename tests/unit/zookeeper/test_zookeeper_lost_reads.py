"""Reading many znodes over connections that are lost, and from servers that do not know multiRead
or refuse it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from kazoo.exceptions import (
    ConnectionLoss,
    KazooException,
    MarshallingError,
    NoAuthError,
    RolledBackError,
    UnimplementedError,
)
from kazoo.protocol.serialization import GetChildren, GetData
from support.zookeeper_in_memory import MemoryZooKeeper
from support.zookeeper_znodes import QUICK, uri

from auditor.zookeeper import reading
from auditor.zookeeper.multi_read import (
    CONNECTION_LOSS,
    GET_DATA,
    MARSHALLING,
    NO_AUTH,
    NO_NODE,
    OK,
    Children,
    GarbledReply,
    MultiRead,
    Znode,
)
from auditor.zookeeper.reading import children_of_many, read_many, supports_multi_read
from auditor.zookeeper.session import ReadCounts, Session, connect

PATHS = [f"/data/n{number}" for number in range(10)]


@pytest.fixture(autouse=True)
def _seed(server: MemoryZooKeeper) -> None:
    server.put_all((path, path.encode()) for path in PATHS)


def connected(server: MemoryZooKeeper, **limits: Any) -> Session:
    return connect(uri(server.hosts, "/data"), replace(QUICK, **limits))


def known(server: MemoryZooKeeper, **limits: Any) -> Session:
    """A session that knows that its server takes multiRead."""
    session = connected(server, **limits)
    session.multi_read = True
    return session


def sent(server: MemoryZooKeeper) -> list[list[str]]:
    """The paths of each request sent."""
    return [list(one.paths) if isinstance(one, MultiRead) else [one.path] for one in server.sent]


def kinds(server: MemoryZooKeeper) -> list[type]:
    return [type(request) for request in server.sent]


def refuse_multi_read(server: MemoryZooKeeper, error: Exception) -> None:
    """Answer each multiRead with `error` and close the connection, as a server does that does not
    know it.
    """

    def before_answer(request: Any) -> None:
        if isinstance(request, MultiRead):
            server.drop()
            raise error

    server.before_answer = before_answer


def lose(server: MemoryZooKeeper, *numbers: int) -> None:
    """Lose the requests with these numbers, counted from 0 from now on; the connection stands."""
    start = len(server.sent)

    def before_answer(request: Any) -> None:
        if len(server.sent) - 1 - start in numbers:
            raise ConnectionLoss

    server.before_answer = before_answer


# Whether multiRead is known


def test_a_server_that_takes_multi_read_is_asked_once(server: MemoryZooKeeper) -> None:
    """One read of the root shows it; it is counted and remembered."""
    with connected(server) as session:
        session.counts.add(ReadCounts(7, 7))
        assert supports_multi_read(session)
        assert supports_multi_read(session)
        assert ([["/"]], True) == (sent(server), session.multi_read)
        assert (8, 8) == (session.counts.reads, session.counts.reads_ok)


@pytest.mark.parametrize("error", [UnimplementedError(), MarshallingError()])
def test_a_server_that_refuses_multi_read_is_read_one_by_one(
    server: MemoryZooKeeper, error: Exception
) -> None:
    """It closes the connection: the next one is waited for, and no repeat is spent on it."""
    refuse_multi_read(server, error)
    with connected(server) as session:
        waits = len(server.waits_s)
        assert PATHS == [
            item.path for item in read_many(session, PATHS) if item.data == item.path.encode()
        ]
        assert (False, 0, waits + 1) == (
            session.multi_read,
            session.counts.repeats,
            len(server.waits_s),
        )
        assert [MultiRead, *[GetData] * len(PATHS)] == kinds(server)
        assert (12, 10) == (
            session.counts.reads,
            session.counts.reads_ok,
        ), "two reads found that out, in vain"


def test_a_refusal_that_leaves_the_connection_costs_one_read(server: MemoryZooKeeper) -> None:
    """The answer to it shows that the connection is still there, and it is counted."""

    def before_answer(request: Any) -> None:
        if isinstance(request, MultiRead):
            raise UnimplementedError

    server.before_answer = before_answer
    with connected(server) as session:
        session.counts.add(ReadCounts(7, 7))
        assert not supports_multi_read(session)
        assert ([MultiRead, GetData], [["/"], ["/"]]) == (kinds(server), sent(server))
        assert (9, 8) == (session.counts.reads, session.counts.reads_ok)


@pytest.mark.parametrize("is_shut", [False, True])
def test_a_server_that_drops_multi_read_twice_but_answers_a_read_does_not_know_it(
    server: MemoryZooKeeper, is_shut: bool
) -> None:
    """Once may be chance. A single read that is refused is answered too, but it is no read that
    went well.
    """
    server.put("/", shut=is_shut)
    refuse_multi_read(server, ConnectionLoss())
    with connected(server) as session:
        assert not supports_multi_read(session)
        assert ([MultiRead, MultiRead, GetData], 2) == (kinds(server), session.counts.repeats)
        assert (3, int(not is_shut)) == (session.counts.reads, session.counts.reads_ok)


def test_a_multi_read_that_is_lost_once_is_tried_again(server: MemoryZooKeeper) -> None:
    """A connection may be lost at any request."""
    lose(server, 0)
    with connected(server) as session:
        assert supports_multi_read(session)
        assert ([MultiRead, MultiRead], True) == (kinds(server), session.multi_read)


def test_a_server_that_drops_all_reads_says_nothing_of_multi_read(server: MemoryZooKeeper) -> None:
    """It is asked again next time, and taken to know it meanwhile."""
    lose(server, *range(100))
    with connected(server, zookeeper_retries=3) as session:
        assert supports_multi_read(session)
        assert session.multi_read is None
        assert [MultiRead, MultiRead, GetData, MultiRead, GetData, MultiRead] == kinds(server)
        server.before_answer = lambda request: None
        assert supports_multi_read(session)
        assert session.multi_read is True


def test_a_session_moved_to_an_older_server_reads_on_one_by_one(server: MemoryZooKeeper) -> None:
    """Each item comes once and in order, children as well as data; what is left is not asked by
    multiRead again.
    """
    with known(server, zookeeper_batch_paths=3, zookeeper_inflight=1) as session:
        items = read_many(session, PATHS)
        first = next(items)
        refuse_multi_read(server, UnimplementedError())
        assert PATHS == [item.path for item in (first, *items) if item.error == OK]
        assert (False, 0) == (session.multi_read, session.counts.repeats)
        assert 2 == kinds(server).count(MultiRead), "the first batch, and the one that was refused"
        server.sent.clear()
        (children,) = children_of_many(session, ["/data"])
        assert (sorted(path.rsplit("/", 1)[1] for path in PATHS), OK) == (
            sorted(children.names),
            children.error,
        )
        assert [GetChildren] == kinds(server)


# Batches and windows


@pytest.mark.parametrize("as_one", [True, False])
def test_batches_hold_so_many_paths_and_the_window_so_many_batches(
    server: MemoryZooKeeper, as_one: bool
) -> None:
    """Before the first item all batches of the window are asked, and no more; then one for each
    that is handed out.
    """
    with connected(server, zookeeper_batch_paths=3, zookeeper_inflight=2) as session:
        session.multi_read = as_one
        items = read_many(session, PATHS)
        for taken, asked in ((1, 6), (3, 9), (3, 10)):
            for _ in range(taken):
                next(items)
            assert PATHS[:asked] == [path for paths in sent(server) for path in paths]
        assert not as_one or [3, 3, 3, 1] == [len(paths) for paths in sent(server)]
        assert 3 == len(list(items))


def test_a_request_is_as_large_as_it_may_be_and_no_larger(
    server: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths count as if each character took four bytes, with 14 around each; one that is too large
    goes alone.
    """
    monkeypatch.setattr(reading, "REQUEST_BYTES_MAX", 3 * (4 * 8 + 14))
    with known(server) as session:
        paths = ["/data/n1"] * 7 + ["/" + "x" * 100] + ["/data/n2"] * 2
        assert paths == [item.path for item in read_many(session, paths)]
    assert [3, 3, 1, 1, 2] == [len(one) for one in sent(server)]


def test_nothing_asked_is_nothing_sent(server: MemoryZooKeeper) -> None:
    """Not even whether multiRead is known."""
    with connected(server) as session:
        assert [] == list(read_many(session, []))
        assert [] == server.sent


def test_every_znode_takes_a_permit_also_when_it_is_repeated(
    server: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that comes back is not flooded."""
    taken: list[int] = []
    with known(server, zookeeper_batch_paths=4) as session:
        monkeypatch.setattr(session.pace, "take", taken.append)
        lose(server, 1)
        list(read_many(session, PATHS))
    assert [4, 4, 2, 4] == taken


# Losses


@pytest.mark.parametrize("lost", [(0,), (0, 2), (0, 1, 2, 3), (1,), (3,)])
def test_what_is_lost_is_asked_again_and_nothing_else(
    server: MemoryZooKeeper, lost: tuple[int, ...]
) -> None:
    """All requests of the same loss are repeated with the first one, after one wait; answered ones
    are not repeated.
    """
    batches = [PATHS[start : start + 3] for start in range(0, 10, 3)]
    with known(server, zookeeper_batch_paths=3) as session:
        lose(server, *lost)
        assert PATHS == [item.path for item in read_many(session, PATHS) if item.error == OK]
        assert [*batches, *(batches[number] for number in lost)] == sent(server)
        assert (1, False) == (session.counts.repeats, session.given_up)


def test_single_reads_of_a_batch_are_lost_together(server: MemoryZooKeeper) -> None:
    """One of them lost is the batch lost; another batch that was answered is not asked again."""
    with connected(server, zookeeper_batch_paths=4) as session:
        session.multi_read = False
        lose(server, 1, 8)
        assert PATHS == [item.path for item in read_many(session, PATHS) if item.error == OK]
        assert [*PATHS, *PATHS[:4], *PATHS[8:]] == [
            path for paths in sent(server) for path in paths
        ]


@pytest.mark.parametrize(
    ("read", "kind"),
    [(read_many, Znode), (children_of_many, Children)],
)
@pytest.mark.parametrize("as_one", [True, False])
def test_what_is_lost_for_good_says_so(
    server: MemoryZooKeeper, read: Callable[..., Iterator[Any]], kind: type, as_one: bool
) -> None:
    """One item a path, of the kind asked for, after all repeats; once the server answers, the
    session is not given up.
    """
    with connected(server, zookeeper_batch_paths=5, zookeeper_retries=2) as session:
        session.multi_read = as_one
        server.stop()
        assert [kind(path, CONNECTION_LOSS) for path in PATHS] == list(read(session, PATHS))
        assert (2, True, 0) == (session.counts.repeats, session.given_up, session.counts.reads_ok)
        server.start()
        assert [OK] * 10 == [item.error for item in read(session, PATHS)]
        assert not session.given_up


def test_each_batch_has_its_own_repeats(server: MemoryZooKeeper) -> None:
    """The repeats of one batch do not reduce those of the next."""
    with known(
        server, zookeeper_batch_paths=5, zookeeper_inflight=1, zookeeper_retries=1
    ) as session:
        lose(server, 0, 2)
        assert PATHS == [item.path for item in read_many(session, PATHS) if item.error == OK]
        assert 2 == session.counts.repeats


# Refusals and counts


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NoAuthError(), NO_AUTH),
        (MarshallingError(), MARSHALLING),
        (GarbledReply("junk"), MARSHALLING),
        (RolledBackError(), MARSHALLING),  # its code is that of OK
        (KazooException(), MARSHALLING),
    ],
)
@pytest.mark.parametrize("as_one", [True, False])
def test_a_request_that_is_refused_fails_with_the_code_of_it(
    server: MemoryZooKeeper, error: Exception, code: int, as_one: bool
) -> None:
    """Each of its paths, data or children, and never with OK."""

    def before_answer(request: Any) -> None:
        raise error

    with connected(server) as session:
        session.multi_read = as_one
        server.before_answer = before_answer
        paths = PATHS[:2]
        assert [Znode(path, code) for path in paths] == list(read_many(session, paths))
        assert [Children(path, code) for path in paths] == list(children_of_many(session, paths))
        assert (4, 0, 0) == (session.counts.reads, session.counts.reads_ok, session.counts.repeats)


def test_a_multi_read_answered_with_something_else_is_refused(
    server: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes that are no reply to what was asked."""
    with known(server) as session:
        monkeypatch.setattr(server, "answer", lambda request: (b"junk", 0))
        assert [MARSHALLING] == [item.error for item in read_many(session, PATHS[:1])]


@pytest.mark.parametrize("as_one", [True, False])
def test_bytes_are_data_and_names(server: MemoryZooKeeper, as_one: bool) -> None:
    """Missing znodes are answers; shut ones are not."""
    server.put("/shut", b"hidden", shut=True)
    with connected(server) as session:
        session.multi_read = as_one
        errors = [item.error for item in read_many(session, [*PATHS[:2], "/nope", "/shut"])]
        assert ([OK, OK, NO_NODE, NO_AUTH], 3, 16) == (
            errors,
            session.counts.reads_ok,
            session.counts.received_bytes,
        )
        list(children_of_many(session, ["/data", "/nope"]))
        assert (5, 16 + 20) == (session.counts.reads_ok, session.counts.received_bytes)


@pytest.mark.parametrize("as_one", [True, False])
def test_each_item_has_its_own_stat(server: MemoryZooKeeper, as_one: bool) -> None:
    """Data, czxid, mzxid, ctime, mtime and version, each from its place; no data at all is empty
    data.
    """
    path = PATHS[0]
    server.put(path, b"again")
    stat = server.stat(path)
    with connected(server) as session:
        session.multi_read = as_one
        (item,) = read_many(session, [path])
        assert Znode(path, OK, b"again", stat.czxid, stat.mzxid, stat.ctime, stat.mtime, 1) == item
        assert 5 == len({stat.czxid, stat.mzxid, stat.ctime, stat.mtime, 1})


def test_a_znode_without_data_is_empty_read_singly(server: MemoryZooKeeper) -> None:
    """kazoo hands on None where a znode has a null buffer."""
    stat = server.stat("/data")
    with connected(server) as session:
        session.multi_read = False
        server.answer = lambda request: (None, stat)  # type: ignore[method-assign]
        (item,) = read_many(session, ["/data"])
        assert (OK, b"") == item[1:3]


def test_children_are_asked_with_the_operation_for_children(server: MemoryZooKeeper) -> None:
    """Both in one session do not get into each other's way."""
    with known(server) as session:
        data, children = read_many(session, ["/data"]), children_of_many(session, ["/data"])
        assert (Znode, Children) == (type(next(data)), type(next(children)))
        assert [True, False] == [request.operation == GET_DATA for request in server.sent]

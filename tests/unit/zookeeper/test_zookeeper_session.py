"""What a session asks of kazoo, how it repeats, and what it says when it gives up."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.serialization import GetChildren, GetData, Sync
from kazoo.protocol.states import KazooState, KeeperState
from support.zookeeper_in_memory import MemoryZooKeeper, Silence
from support.zookeeper_znodes import QUICK, uri

from auditor.errors import LocalFault, StoreUnavailable
from auditor.zookeeper.multi_read import GET_DATA, MultiRead, Repeats
from auditor.zookeeper.session import (
    PROBLEM_CHARS_MAX,
    RECONNECT_WAIT_MAX_S,
    KazooThreads,
    ReadCounts,
    Session,
    connect,
)

ROOT = GetData("/", None)


def connected(server: MemoryZooKeeper, **limits: Any) -> Session:
    return connect(uri(server.hosts, "/ledgers"), replace(QUICK, **limits))


def losing(server: MemoryZooKeeper, times: int) -> Callable[[Any], None]:
    """Lose the connection at the next `times` requests."""
    left = [times]

    def before_answer(request: Any) -> None:
        if left[0] > 0:
            left[0] -= 1
            server.drop()
            raise ConnectionLoss

    return before_answer


def test_kazoo_gets_the_hosts_and_never_stops_trying() -> None:
    """Every host, the time-out in ms, no server without a quorum, and attempts for ever at most a
    second apart.
    """
    session = Session(["h1:1", "h2:2"], replace(QUICK, zookeeper_session_timeout_ms=1_234))
    client: Any = session._client
    assert isinstance(client, KazooClient)
    assert {("h1", 1), ("h2", 2)} == set(client.hosts)
    retry = client._conn_retry
    assert (1_234, False, -1) == (client._session_timeout, client.read_only, retry.max_tries)
    assert (0.1, RECONNECT_WAIT_MAX_S) == (retry.delay, retry.max_delay)
    assert isinstance(client.handler, KazooThreads)
    assert (session._log, {session._on_state}) == (client.logger, client.state_listeners)


def test_a_connection_is_waited_for_as_long_as_the_limit_says(server: MemoryZooKeeper) -> None:
    """One host of several that answers is enough, and the session is connected."""
    hosts = f"elsewhere.invalid:2181,{server.hosts}"
    with connect(
        uri(hosts, "/ledgers"), replace(QUICK, zookeeper_connect_timeout_ms=4_321)
    ) as session:
        assert session.is_connected
        assert (tuple(hosts.split(",")), [4.321]) == (session.hosts, server.waits_s)
    assert not session.is_connected
    assert ["stop", "close"] == server.clients[0].ended


def test_what_cannot_be_connected_is_ended_and_says_what_was_seen_last(
    server: MemoryZooKeeper,
) -> None:
    """Who did not answer, for how long, the last warning of kazoo, and nothing runs on."""
    server.stop()
    session = Session([server.hosts, "h2:2"], replace(QUICK, zookeeper_connect_timeout_ms=400))
    log = session._client.options["logger"]
    server.before_wait = lambda: log.warning("refused by %s", "h2")
    with pytest.raises(StoreUnavailable) as raised:
        session.open()
    text = str(raised.value)
    assert text.startswith(
        f"ZooKeeper at {server.hosts}, h2:2 did not let us connect within 400 ms (last seen:"
        " refused by h2): check the hosts"
    )
    assert ["stop", "close"] == server.clients[0].ended
    with pytest.raises(AssertionError, match="not open"):
        session.await_connected()


def test_nothing_seen_is_not_mentioned(server: MemoryZooKeeper) -> None:
    """kazoo's chatter below a warning is not kept either."""
    with connected(server) as session:
        log = session._client.options["logger"]
        log.info("no problem")
        assert "within 7 ms: check the hosts" in str(session.unavailable("did not answer", 7))


def test_kazoos_log_is_not_ours(server: MemoryZooKeeper, caplog: pytest.LogCaptureFixture) -> None:
    """It has a name of its own, and nothing of it reaches a handler."""
    with connected(server) as session:
        session._log.error("secret")
        assert ("auditor.zookeeper.kazoo", []) == (session._log.name, caplog.records)


def test_a_thread_that_ends_on_an_exception_is_one_short_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its kind and its words, on one line, cut to what is bearable; what was to run did so with its
    arguments.
    """
    ran: list[Any] = []

    def work(*args: Any, **kwargs: Any) -> None:
        ran.append((args, kwargs))
        raise ValueError("two\nlines " + "x" * 1_000)

    thread = KazooThreads().spawn(work, 1, b=2)
    thread.join()
    assert isinstance(thread, threading.Thread)
    assert [((1,), {"b": 2})] == ran
    (said,) = caplog.records
    line = f"ValueError: two lines {'x' * 1_000}"[:PROBLEM_CHARS_MAX]
    assert ("auditor.zookeeper", logging.WARNING) == (said.name, said.levelno)
    assert f"the connection to ZooKeeper broke down ({line})" == said.getMessage()


def test_counts_are_added_field_by_field() -> None:
    """What two sessions have asked for is the sum of both; what failed is the rest of what was
    asked.
    """
    counts = ReadCounts(10, 7, 3, 100)
    counts.add(ReadCounts(1, 2, 4, 8))
    assert ReadCounts(11, 9, 7, 108) == counts
    assert 2 == counts.reads_failed


def test_each_znode_asked_for_is_counted(server: MemoryZooKeeper) -> None:
    """Also where there is no connection; a sync reads none."""
    with connected(server) as session:
        requests = (MultiRead(GET_DATA, ["/", "/", "/"]), ROOT, GetChildren("/", None), Sync("/"))
        for request, reads in zip(requests, (3, 4, 5, 5), strict=True):
            session.submit(request)
            assert reads == session.counts.reads
        server.drop()
        session.submit(ROOT)
        assert 6 == session.counts.reads


def test_without_a_connection_a_read_fails_at_once(server: MemoryZooKeeper) -> None:
    """It does not wait in kazoo's queue to be sent later."""
    with connected(server) as session:
        server.drop()
        result = session.submit(ROOT)
        assert isinstance(result.exception, ConnectionLoss)
        assert [] == server.sent


def test_a_reply_is_waited_for_two_session_time_outs(server: MemoryZooKeeper) -> None:
    """Not for ever; what does not come is a loss."""

    def silent(request: Any) -> None:
        raise Silence

    assert 3.0 == connected(server, zookeeper_session_timeout_ms=1_500).reply_timeout_s
    with connected(server, zookeeper_session_timeout_ms=1) as session:
        server.before_answer = silent
        with pytest.raises(KazooTimeoutError):
            session.answer(session.submit(ROOT))


@pytest.mark.parametrize(
    ("error", "error_type"), [(NoNodeError(), NoNodeError), (ValueError(), ConnectionLoss)]
)
def test_what_kazoo_stumbles_over_is_a_loss(
    server: MemoryZooKeeper, error: Exception, error_type: type[Exception]
) -> None:
    """The server's refusal is passed on unchanged."""

    def failing(request: Any) -> None:
        raise error

    with connected(server) as session:
        server.before_answer = failing
        with pytest.raises(error_type) as raised:
            session.answer(session.submit(ROOT))
        assert error in (raised.value, raised.value.__cause__)


@pytest.mark.parametrize("retries_max", [0, 1, 3])
def test_a_lost_read_is_repeated_so_many_times(
    server: MemoryZooKeeper, slept_s: list[float], retries_max: int
) -> None:
    """One answered at its last repeat is answered; one more loss, and the session is given up with
    the reason.
    """
    with connected(server, zookeeper_retries=retries_max, zookeeper_retry_wait_ms=70) as session:
        server.before_answer = losing(server, retries_max)
        data, _ = session.ask(ROOT)
        assert (b"", retries_max, False) == (data, session.counts.repeats, session.given_up)
        server.before_answer = losing(server, retries_max + 1)
        with pytest.raises(StoreUnavailable, match="did not answer within 1500 ms") as raised:
            session.ask(ROOT)
        assert (2 * retries_max, True) == (session.counts.repeats, session.given_up)
        assert raised.value.__suppress_context__
    assert [0.07] * (2 * retries_max) == slept_s


def test_a_repeat_waits_for_the_connection_and_a_session_given_up_does_not(
    server: MemoryZooKeeper, slept_s: list[float]
) -> None:
    """Each repeat waits a session time-out for it; once given up, nothing waits until there is
    one.
    """
    with connected(server) as session:
        server.stop()
        server.waits_s.clear()
        repeats = Repeats()
        assert not session.may_repeat(repeats)
        assert (3, 3, [1.5] * 3, True) == (
            repeats.used,
            session.counts.repeats,
            server.waits_s,
            session.given_up,
        )
        assert not session.may_repeat(Repeats())
        assert (3, 3) == (len(server.waits_s), len(slept_s))
        server.start()
        repeats = Repeats()
        assert session.may_repeat(repeats)
        assert 1 == repeats.used


def test_a_connection_that_comes_back_late_is_worth_the_repeats_it_took(
    server: MemoryZooKeeper,
) -> None:
    """The first wait is in vain, the second is not: the read may be asked, and two repeats are
    used.
    """
    with connected(server) as session:
        server.stop()
        server.waits_s.clear()
        server.before_wait = lambda: server.start() if len(server.waits_s) == 2 else None
        repeats = Repeats()
        assert session.may_repeat(repeats)
        assert (2, False) == (repeats.used, session.given_up)


def test_a_refused_read_is_not_repeated(server: MemoryZooKeeper) -> None:
    """`ask` raises what the server said."""
    with connected(server) as session:
        with pytest.raises(NoNodeError):
            session.ask(GetData("/nope", None))
        assert 0 == session.counts.repeats


def test_a_client_that_has_ended_is_replaced(server: MemoryZooKeeper) -> None:
    """kazoo's loop ends on an error code that it does not know: the old client is ended, and a new
    one connects.
    """
    with connected(server) as session:
        old = session._client
        old.client_state = KeeperState.CLOSED
        assert session.await_connected()
        assert (["stop", "close"], True, old) == (
            old.ended,
            session.is_connected,
            server.clients[0],
        )
        assert session._client is server.clients[1]
        assert b"" == session.ask(ROOT)[0]


def test_a_client_that_is_not_connected_yet_is_not_replaced(server: MemoryZooKeeper) -> None:
    """kazoo connects again by itself."""
    with connected(server) as session:
        server.drop()
        assert session.await_connected()
        assert [session._client] == server.clients


def test_a_session_that_is_not_open_is_not_waited_for(server: MemoryZooKeeper) -> None:
    """It would be opened behind the back of who closed it, or did not open it yet."""
    with pytest.raises(AssertionError, match="not open"):
        Session([server.hosts], QUICK).await_connected()
    session = connected(server)
    session.close()
    with pytest.raises(AssertionError, match="not open"):
        session.await_connected()


def test_a_client_that_cannot_be_ended_is_no_trouble(
    server: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing never raises, takes both steps, and keeps what was said."""

    def failing() -> None:
        raise Exception("stuck")

    session = connected(server)
    client = session._client
    monkeypatch.setattr(client, "stop", failing)
    session.close()
    assert (["close"], "stuck") == (client.ended, session._log.last_problem)


def opcodes(server: MemoryZooKeeper) -> list[str]:
    return [f"{type(request).__name__} {request.path}" for request in server.sent]


def test_after_a_sync_the_first_read_of_each_new_connection_is_synced(
    server: MemoryZooKeeper,
) -> None:
    """The server that we come to may be behind; one that we stay with is not. What was synced is
    synced again.
    """
    server.put("/a")
    with connected(server) as session:
        session.ask(ROOT)
        server.drop()
        session.ask(ROOT)
        assert ["GetData /"] * 2 == opcodes(server), "nothing was synced yet"
        session.sync("/a")
        session.ask(ROOT)
        server.sent.clear()
        server.drop()
        session.ask(ROOT)
        session.ask(ROOT)
        assert ["Sync /a", "GetData /", "GetData /"] == opcodes(server)


def test_a_read_sent_before_kazoo_tells_of_the_connection_is_synced(
    server: MemoryZooKeeper,
) -> None:
    """kazoo is connected first and tells its listeners after: a read in between must not be older
    than the sync.
    """
    with connected(server) as session:
        session.sync("/")
        server.sent.clear()
        events: list[str] = []

        def reading(state: str) -> None:
            events.append(state)
            if state == KazooState.CONNECTED:
                session.submit(ROOT)

        session._client.listeners.insert(0, reading)
        server.drop()
        assert session.await_connected()
        assert [KazooState.SUSPENDED, KazooState.CONNECTED] == events
        assert ["Sync /", "GetData /"] == opcodes(server)
        session.ask(ROOT)
        assert ["Sync /", "GetData /", "GetData /"] == opcodes(server), "once is enough"


def test_a_sync_that_failed_promises_nothing(server: MemoryZooKeeper) -> None:
    """The sync before it is no longer what reads are held to, so none is sent for it."""
    with connected(server) as session:
        session.sync("/")
        server.before_answer = losing(server, 100)
        with pytest.raises(StoreUnavailable, match="did not answer"):
            session.sync("/")
        server.before_answer = lambda request: None
        server.sent.clear()
        assert session.await_connected()
        session.ask(ROOT)
        assert ["GetData /"] == opcodes(server)


def test_a_sync_repeated_over_a_new_connection_is_one_request(server: MemoryZooKeeper) -> None:
    """It needs no other sync before it."""
    with connected(server) as session:
        session.sync("/")
        server.sent.clear()
        server.before_answer = losing(server, 1)
        session.sync("/")
        assert ["Sync /", "Sync /"] == opcodes(server)


def test_a_lack_of_descriptors_is_not_an_absent_zookeeper(server: MemoryZooKeeper) -> None:
    """Whoever cannot connect for a fault of this host hears of the fault, and no ledger is said to
    be unreadable.
    """
    server.stop()
    session = Session([server.hosts], replace(QUICK, zookeeper_connect_timeout_ms=200))
    session._client.handler.local_fault = LocalFault("no descriptor")
    with pytest.raises(LocalFault, match="no connection to ZooKeeper can be made: no descriptor"):
        session.open()
    session._client.handler.local_fault = LocalFault("no descriptor")
    session._live = threading.Event()
    with pytest.raises(LocalFault, match="no descriptor"):
        session.may_repeat(Repeats(QUICK.zookeeper_retries))

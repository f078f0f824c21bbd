"""kazoo's threads, sockets and log, with our TLS and one line for each failure."""

from __future__ import annotations

import errno
import logging
import select
import selectors
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
from kazoo.handlers.threading import SequentialThreadingHandler
from support.pki import Pki

from auditor.config.access import TlsFiles
from auditor.credentials.tls import client_context
from auditor.zookeeper.session import PROBLEM_CHARS_MAX, KazooLog, KazooThreads

WAIT_S = 10.0


def test_the_last_warning_of_kazoo_is_kept_and_none_is_printed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """At DEBUG it prints each reply, with ledger passwords: such records are not even made."""
    log = KazooLog()
    assert "" == log.last_problem
    assert ("auditor.zookeeper.kazoo", logging.WARNING) == (log.name, log.level)
    log.warning("first")
    log.warning("no route to %s", "h1")
    log.info("password")
    assert "no route to h1" == log.last_problem
    assert [] == caplog.records


def log_of_thread(
    caplog: pytest.LogCaptureFixture, error: BaseException | None
) -> list[tuple[str, str]]:
    """Return what is logged when a thread of kazoo ends in this way, by level. Assert that it got
    its arguments.
    """
    seen: list[Any] = []

    def work(*given: Any, **named: Any) -> None:
        seen.append((given, named))
        if error is not None:
            raise error

    KazooThreads().spawn(work, 1, two=2).join(WAIT_S)
    assert [((1,), {"two": 2})] == seen
    return [
        (record.levelname, record.getMessage())
        for record in caplog.records
        if record.name == "auditor.zookeeper"
    ]


def test_a_thread_that_ends_well_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """It does its work with what it was given."""
    assert [] == log_of_thread(caplog, None)


def test_a_thread_that_ends_on_an_exception_says_one_short_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A server decides what is in the text of the exception: line ends and any length."""
    head = "RuntimeError: out of order "
    [(level, line)] = log_of_thread(caplog, RuntimeError("out of\n order  " + "x" * 500))
    assert (
        "WARNING",
        f"the connection to ZooKeeper broke down ({head}{'x' * (PROBLEM_CHARS_MAX - len(head))})",
    ) == (
        level,
        line,
    )


class Context:
    """Wraps sockets, or fails to."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error, self.asked = error, []

    def wrap_socket(self, plain: Any, server_hostname: str | None) -> str:
        self.asked.append((plain, server_hostname))
        if self.error is not None:
            raise self.error
        return "secured"


class Plain:
    """A connected socket."""

    def __init__(self) -> None:
        self.timeouts: list[float | None] = []
        self.is_closed = False

    def settimeout(self, timeout: float | None) -> None:
        self.timeouts.append(timeout)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What kazoo is asked to connect, and the socket that it connects, in the end."""
    found: list[Any] = []

    def create_connection(self: Any, *given: Any, **named: Any) -> Plain:
        found.extend([given, named, Plain()])
        return found[-1]  # type: ignore[no-any-return]

    monkeypatch.setattr(SequentialThreadingHandler, "create_connection", create_connection)
    return found


OPTIONS = {"address": ("10.0.0.1", 2281), "timeout": 4.0, "hostname": "h1"}


def test_without_tls_the_socket_is_kazoos(dialled: list[Any]) -> None:
    """Nothing about it is changed."""
    found = KazooThreads().create_connection(1, **OPTIONS)
    given, named, plain = dialled
    assert ((1,), OPTIONS, []) == (given, named, plain.timeouts)
    assert found is plain


def test_with_tls_the_handshake_is_bounded_and_names_the_server(dialled: list[Any]) -> None:
    """By kazoo's time for connecting, and by the name that was configured, not the address it
    has.
    """
    context = Context()
    assert "secured" == KazooThreads(context).create_connection(1, **OPTIONS)  # type: ignore[arg-type]
    given, named, plain = dialled
    assert ((1,), OPTIONS) == (given, named)
    assert ([(plain, "h1")], [4.0], False) == (context.asked, plain.timeouts, plain.is_closed)


@pytest.mark.parametrize("error", [ssl.SSLError("no"), KeyboardInterrupt()])
def test_a_socket_whose_handshake_failed_is_closed(
    dialled: list[Any], error: BaseException
) -> None:
    """Attempts go on for as long as the run does: each would leave a descriptor."""
    with pytest.raises(type(error)):
        KazooThreads(Context(error)).create_connection(**OPTIONS)  # type: ignore[arg-type]
    assert dialled[-1].is_closed


def test_sockets_without_tls_are_waited_for() -> None:
    """In both directions."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"x")
        assert ([ours], [theirs], []) == KazooThreads().select([ours], [theirs], [], 0.0)
        ours.recv(1)
        assert ([], [], []) == KazooThreads().select([ours], [], [], timeout=0.0)


def test_a_socket_that_its_peer_has_closed_may_be_read_and_a_closed_one_is_an_error():
    """kazoo reads the end of the connection from the first. It handles ValueError."""
    ours, theirs = socket.socketpair()
    with ours:
        theirs.close()
        assert ([ours], [], []) == KazooThreads().select([ours], [], [], 0.0)
    with pytest.raises(ValueError, match="closed"):
        KazooThreads().select([ours], [], [], 0.0)


def test_waiting_for_sockets_opens_no_descriptor(monkeypatch: pytest.MonkeyPatch):
    """kazoo's own way makes and closes one at each of two calls for each request."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        monkeypatch.setattr(select, "epoll", None)
        monkeypatch.setattr(selectors, "DefaultSelector", None)
        theirs.send(b"1")
        handler = KazooThreads()
        assert ([ours], [], []) == handler.select([ours], [], [], 1.0)
        assert ([ours], [ours], []) == handler.select([ours], [ours], [])


def test_bytes_that_tls_has_decrypted_are_not_waited_for(tmp_path: Path) -> None:
    """A server may put several replies into one record: the second is here, and nothing more comes
    from the network.
    """
    pki = Pki(tmp_path / "pki")
    issued = pki.issue("server")
    ours, theirs = socket.socketpair()
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(issued.certificate, issued.key)

    def serve() -> None:
        with serving.wrap_socket(theirs, server_side=True) as server:
            server.sendall(b"firstsecond")
            over.wait(WAIT_S)

    over = threading.Event()
    thread = threading.Thread(target=serve)
    thread.start()
    context = client_context(TlsFiles("zookeeper", ca=str(pki.ca()), is_hostname_verified=False))
    handler = KazooThreads(context)
    with context.wrap_socket(ours) as client:
        assert client.recv(5) == b"first"
        assert handler.select([client], [], [], 0.0) == ([client], [], [])
        assert client.recv(5) == b"secon"
        assert handler.select([client], [], [], 0.0) == ([client], [], [])
        assert client.recv(1) == b"d"
        assert handler.select([client], [], [], 0.0) == ([], [], [])
        over.set()
    thread.join()


def test_the_fault_of_this_host_by_which_a_connection_failed_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """kazoo takes it for a server that is away. It is forgotten once a connection stands."""
    threads = KazooThreads()
    faults = [OSError(errno.EMFILE, "Too many open files"), ConnectionRefusedError(), None]

    def connect(*_: Any, **__: Any) -> str:
        fault = faults.pop(0)
        if fault is not None:
            raise fault
        return "a socket"

    monkeypatch.setattr(SequentialThreadingHandler, "create_connection", connect)
    with pytest.raises(OSError, match="Too many"):
        threads.create_connection(("h", 1))
    assert "no file descriptor left" in str(threads.local_fault)
    with pytest.raises(ConnectionRefusedError):
        threads.create_connection(("h", 1))
    assert threads.local_fault is None
    assert "a socket" == threads.create_connection(("h", 1))

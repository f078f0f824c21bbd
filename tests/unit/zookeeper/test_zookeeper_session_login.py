"""A session that logs in: what its clients get, and what it says when it is refused."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import AuthFailedError, SessionClosedRequireSaslError
from kazoo.protocol.serialization import GetData
from support.pki import Pki
from support.zookeeper_in_memory import MemoryZooKeeper
from support.zookeeper_znodes import QUICK, uri

from auditor.config import ZooKeeperLimits
from auditor.config.access import SecretSource, TlsFiles, ZooKeeperAccess
from auditor.errors import StoreUnavailable
from auditor.zookeeper.secured_connection import WANTS_SASL, Credentials
from auditor.zookeeper.session import Repeats, Session, connect

ROOT = GetData("/", None)
HERE = ("memory.invalid", 2181)


@pytest.fixture
def secured(tmp_path: Path) -> ZooKeeperLimits:
    """Limits with a digest login."""
    (tmp_path / "digest").write_text("super:secret")
    digest = SecretSource("the digest", "AUDITOR_X", file=str(tmp_path / "digest"))
    return replace(QUICK, access=ZooKeeperAccess(digest=digest))


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Any, Any]]]:
    """The clients that credentials were applied to, with the refusals that each notes."""
    found: list[tuple[Any, Any]] = []

    def apply(_: Credentials, client: Any, refusals: Any) -> None:
        found.append((client, refusals))

    monkeypatch.setattr(Credentials, "apply", apply)
    yield found


def test_each_client_logs_in_and_notes_refusals_for_its_session(tmp_path: Path) -> None:
    """With the certificate, the digest, and a connection that writes down why it is refused."""
    (tmp_path / "digest").write_text("super:secret")
    access = ZooKeeperAccess(
        tls=TlsFiles("zookeeper", ca=str(Pki(tmp_path / "pki").ca())),
        digest=SecretSource("the digest", "AUDITOR_X", file=str(tmp_path / "digest")),
    )
    session = Session(["h1:1"], replace(QUICK, access=access))
    client: Any = session._client
    assert {("digest", "super:secret")} == set(client.auth_data)
    assert isinstance(client.handler._context, ssl.SSLContext)
    assert client._connection.refusals is session.refusals
    assert client._connection.credentials.auth_data == [("digest", "super:secret")]


def test_a_session_without_a_login_has_no_credentials() -> None:
    """No identity is sent, and the connection is kazoo's own."""
    client: Any = Session(["h1:1"], QUICK)._client
    assert set() == set(client.auth_data)
    assert client.handler._context is None
    assert not hasattr(client._connection, "refusals")


def test_a_client_that_is_replaced_logs_in_again(
    server: MemoryZooKeeper, secured: ZooKeeperLimits, applied: list[tuple[Any, Any]]
) -> None:
    """With the same credentials, and refusals noted for the same session."""
    with connect(uri(server.hosts, "/ledgers"), secured) as session:
        session._client.client_state = "CLOSED"
        assert session.await_connected()
        assert server.clients == [client for client, _ in applied]
        assert all(refusals is session.refusals for _, refusals in applied)
        assert 2 == len(applied)


def test_a_session_with_a_login_is_open_once_the_login_is_over(
    server: MemoryZooKeeper, secured: ZooKeeperLimits, applied: list[tuple[Any, Any]]
) -> None:
    """kazoo is connected before: one request that reads nothing waits for it."""
    with connect(uri(server.hosts, "/ledgers"), secured) as session:
        assert [("Sync", "/")] == [(type(one).__name__, one.path) for one in server.sent]
        assert 0 == session.counts.reads
    with connect(uri(server.hosts, "/ledgers"), QUICK):
        assert 1 == len(server.sent), "without a login there is nothing to wait for"


def test_a_login_that_is_refused_is_an_error_with_its_reason(
    server: MemoryZooKeeper, secured: ZooKeeperLimits, applied: list[tuple[Any, Any]]
) -> None:
    """The client is ended: nothing goes on trying."""

    def refuse(request: Any) -> None:
        raise SessionClosedRequireSaslError

    server.before_answer = refuse
    with pytest.raises(StoreUnavailable) as raised:
        connect(uri(server.hosts, "/ledgers"), secured)
    assert f"ZooKeeper at {server.hosts} did not let us in: {WANTS_SASL}" == str(raised.value)
    assert ["stop", "close"] == server.clients[0].ended


def test_an_answer_that_refuses_the_session_is_noted(server: MemoryZooKeeper) -> None:
    """What is said later of lost reads has the reason."""

    def refuse(request: Any) -> None:
        raise AuthFailedError

    with connect(uri(server.hosts, "/ledgers"), QUICK) as session:
        session.refusals.suspect("it does not know us")
        server.before_answer = refuse
        with pytest.raises(AuthFailedError):
            session.answer(session.submit(ROOT))
        assert f"ZooKeeper at {server.hosts} did not let us in: it does not know us" == str(
            session.unavailable("did not answer", 7)
        )
        with pytest.raises(StoreUnavailable, match="did not let us in: it does not know us"):
            session.ask(ROOT)


def test_a_connection_is_not_waited_for_once_every_server_refused_us(
    server: MemoryZooKeeper, secured: ZooKeeperLimits, applied: list[tuple[Any, Any]]
) -> None:
    """The limit may be hours: the answer stays the same."""
    server.stop()
    session = Session([server.hosts], replace(secured, zookeeper_connect_timeout_ms=100_000_000))
    server.before_wait = lambda: session.refusals.note(HERE, "wrong password")
    with pytest.raises(StoreUnavailable, match="did not let us in: wrong password"):
        session.open()
    assert 1 == len(server.waits_s)


def test_a_session_that_no_kdc_gave_a_ticket_is_not_said_to_be_refused(
    server: MemoryZooKeeper, secured: ZooKeeperLimits, applied: list[tuple[Any, Any]]
) -> None:
    """It is waited for as long as the limit says: the KDC may be back."""
    server.stop()
    why = "no KDC answered: start it"
    session = Session([server.hosts], replace(secured, zookeeper_connect_timeout_ms=300))
    server.before_wait = lambda: session.refusals.await_kdc(why)
    with pytest.raises(StoreUnavailable) as raised:
        session.open()
    assert (
        str(raised.value) == f"no login to ZooKeeper at {server.hosts}: no KDC answered: start it"
    )
    assert len(server.waits_s) > 1


def test_a_connection_with_a_login_is_waited_for_as_long_as_the_limit_says(
    server: MemoryZooKeeper, secured: ZooKeeperLimits, applied: list[tuple[Any, Any]]
) -> None:
    """While no server refused us; one that comes late is connected."""
    server.stop()
    with pytest.raises(StoreUnavailable, match="did not let us connect within 20 ms"):
        connect(uri(server.hosts, "/ledgers"), replace(secured, zookeeper_connect_timeout_ms=20))
    waited = len(server.waits_s)
    server.before_wait = lambda: server.start() if len(server.waits_s) == waited + 3 else None
    with connect(
        uri(server.hosts, "/ledgers"), replace(secured, zookeeper_connect_timeout_ms=100_000_000)
    ) as session:
        assert session.is_connected


def test_a_lost_read_is_not_repeated_once_every_server_refused_us(
    server: MemoryZooKeeper, secured: ZooKeeperLimits, applied: list[tuple[Any, Any]]
) -> None:
    """The session is given up without a pause; a refusal by some other server is none of ours."""
    with connect(uri(server.hosts, "/ledgers"), secured) as session:
        server.stop()
        session.refusals.note(("other.invalid", 2181), "wrong password")
        repeats = Repeats()
        assert not session.may_repeat(repeats)
        assert 3 == repeats.used
        session.given_up = False
        session.refusals.note(HERE, "wrong password")
        repeats = Repeats()
        assert not session.may_repeat(repeats)
        assert (0, True) == (repeats.used, session.given_up)

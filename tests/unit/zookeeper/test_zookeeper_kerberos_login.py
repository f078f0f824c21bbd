"""How a session logs in to ZooKeeper with a ticket, and what is kept of each refusal.

The exchange itself is held against a real KDC in tests/unit/credentials, and all of it against a
real ZooKeeper in tests/cluster/test_kerberos_clusters.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import SASL, ReplyHeader, write_buffer

from auditor.config.access import KerberosLogin, ZooKeeperAccess
from auditor.credentials.kerberos import KerberosFailed
from auditor.errors import ConfigError, KdcUnreachable
from auditor.zookeeper import secured_connection
from auditor.zookeeper.secured_connection import (
    NO_KERBEROS,
    NOT_ACCEPTED,
    ROUNDS_MAX,
    Credentials,
    Refusals,
)

LOGIN = KerberosLogin("zookeeper", "zookeeper")
SERVERS = ("h1", 2281), ("h2", 2281)
TIMEOUT_S = 1.5
"""What kazoo gives each message of a login."""


class Exchange:
    """Answers tokens as `KerberosExchange` does: the second with our last message."""

    failure: Exception | None = None
    rounds = 2

    def __init__(self, login: KerberosLogin, host: str) -> None:
        self.is_complete = False
        self._heard = 0
        self.asked_for = login, host
        self.server = f"{login.service}/{host}"

    def start(self) -> bytes:
        if self.failure is not None:
            raise self.failure
        return b"token of " + self.asked_for[1].encode()

    def respond(self, token: bytes) -> bytes:
        self._heard += 1
        self.is_complete = self._heard == self.rounds
        return b"to " + token


class Session:
    """A client of two servers. Each server answers every message with `reply`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refusals = Refusals()
        client = KazooClient(hosts="h1:2281,h2:2281")
        Credentials(ZooKeeperAccess(sasl=LOGIN)).apply(client, self.refusals)
        self.connection: Any = client._connection
        self.error = 0
        self.sent: list[tuple[bytes, int]] = []
        monkeypatch.setattr(ConnectionHandler, "_connect", self._connect)
        monkeypatch.setattr(secured_connection, "KerberosExchange", Exchange)
        self.connection._submit = self._submit
        self.connection._read_header = self._read_header

    def _connect(self, host: str, hostip: str, port: int) -> tuple[int, int]:
        self.connection._authenticate_with_sasl(host, TIMEOUT_S)
        return 1, 2

    def _submit(self, message: SASL, timeout: float, xid: int) -> None:
        assert timeout == TIMEOUT_S
        self.sent.append((message.challenge, xid))

    def _read_header(self, timeout: float) -> tuple[ReplyHeader, bytes, int]:
        assert timeout == TIMEOUT_S
        xid = self.sent[-1][1]
        return ReplyHeader(xid, 0, self.error), write_buffer(b"reply %d" % xid), 0

    def attempt(self, server: tuple[str, int]) -> None:
        self.connection._connect(server[0], "127.0.0.1", server[1])

    def refused(self) -> str:
        """Why both servers refused; then kazoo's attempts end."""
        with pytest.raises(ConnectionDropped):
            self.attempt(SERVERS[0])
        with pytest.raises(AuthFailedError):
            self.attempt(SERVERS[1])
        assert self.refusals.has_all(SERVERS)
        return self.refusals.last


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    return Session(monkeypatch)


def test_three_messages_log_in_at_the_server_that_is_dialled(session: Session) -> None:
    """The ticket is for its name. Our last message is answered too, unlike by a bookie."""
    session.attempt(SERVERS[0])
    assert session.sent == [(b"token of h1", 1), (b"to reply 1", 2), (b"to reply 2", 3)]
    assert session.refusals.last == ""


def test_a_ticket_that_a_server_refuses_has_its_word(session: Session) -> None:
    """Not that of a password."""
    session.error = -115
    assert session.refused() == NOT_ACCEPTED


@pytest.mark.parametrize("failure", [KerberosFailed("the KDC is down"), ConfigError("no gssapi")])
def test_a_ticket_that_we_do_not_have_ends_the_attempts(
    session: Session, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    """Nothing is sent, and nobody waits for the time-out."""
    monkeypatch.setattr(Exchange, "failure", failure)
    assert session.refused() == f"no login with Kerberos: {failure}"
    assert session.sent == []


def test_a_kdc_that_is_away_is_no_refusal_and_is_asked_again(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No server refused: kazoo goes on, and the reason stands until a server lets us in."""
    monkeypatch.setattr(Exchange, "failure", KdcUnreachable("no KDC answered"))
    for server in (*SERVERS, *SERVERS):
        with pytest.raises(ConnectionDropped):
            session.attempt(server)
    assert session.refusals.last == "no Kerberos ticket for zookeeper/h2: no KDC answered"
    assert session.refusals.needs_kdc
    assert not any(session.refusals.has_all([server]) for server in SERVERS)
    assert session.sent == []
    monkeypatch.setattr(Exchange, "failure", None)
    session.attempt(SERVERS[0])
    assert (session.refusals.last, session.refusals.needs_kdc) == ("", False)


def test_a_refusal_after_a_kdc_was_away_is_a_refusal(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said is the newest."""
    monkeypatch.setattr(Exchange, "failure", KdcUnreachable("no KDC answered"))
    with pytest.raises(ConnectionDropped):
        session.attempt(SERVERS[0])
    monkeypatch.setattr(Exchange, "failure", None)
    session.error = -115
    assert session.refused() == NOT_ACCEPTED
    assert not session.refusals.needs_kdc


def test_a_server_that_never_ends_the_login_is_left(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of messages is bounded."""
    monkeypatch.setattr(Exchange, "rounds", 100)
    assert session.refused() == NO_KERBEROS
    assert len(session.sent) == 2 * ROUNDS_MAX

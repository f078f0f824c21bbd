"""What is kept of the reasons for which servers refuse, and when waiting is of no use."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped, NoAuthError, SessionClosedRequireSaslError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.connection import ConnectionHandler, ReplyHeader
from kazoo.protocol.serialization import write_buffer

from auditor.config.access import SaslLogin, SecretSource, ZooKeeperAccess
from auditor.errors import StoreUnavailable
from auditor.wire.digest_md5 import DigestUser, answer_challenge
from auditor.zookeeper import secured_connection
from auditor.zookeeper.multi_read import AUTH_FAILED, CONNECTION_LOSS, SASL_REQUIRED
from auditor.zookeeper.secured_connection import (
    NO_DIGEST,
    NO_PROOF,
    SERVICE,
    WANTS_SASL,
    WRONG_LOGIN,
    Credentials,
    Refusals,
    await_unless_refused,
    is_refusal,
)

ONE, TWO = ("h1", 2281), ("h2", 2281)


def test_only_refusals_of_every_server_end_the_wait() -> None:
    """One server may have a bad certificate; what may pass does not count."""
    refusals = Refusals()
    refusals.note(ONE, "first")
    refusals.suspect("perhaps")
    assert (refusals.last, refusals.has_all([ONE, TWO]), refusals.has_all([])) == ("perhaps", False, False)
    refusals.note(TWO, "second")
    assert (refusals.last, refusals.has_all([ONE, TWO])) == ("second", True)
    assert not await_unless_refused(threading.Event(), refusals, [ONE, TWO], 1_000)
    refusals.clear()
    assert (refusals.last, refusals.has_all([ONE])) == ("", False)


def test_a_connection_that_stands_ends_the_wait_too() -> None:
    """And time does."""
    live = threading.Event()
    assert not await_unless_refused(live, Refusals(), [ONE], 0.05)
    live.set()
    assert await_unless_refused(live, Refusals(), [ONE], 1_000)


def test_a_refused_session_is_what_its_lost_reads_say() -> None:
    """A refused request is not: NoAuth is about one znode."""
    refusals = Refusals()
    refusals.note_error(NoAuthError())
    assert (refusals.last, refusals.loss_code) == ("", CONNECTION_LOSS)
    refusals.note_error(SessionClosedRequireSaslError())
    assert (refusals.last, refusals.loss_code) == (WANTS_SASL, SASL_REQUIRED)
    refusals.clear()
    assert refusals.loss_code == CONNECTION_LOSS
    refusals.note_error(AuthFailedError())
    assert (refusals.last, refusals.loss_code) == (WRONG_LOGIN, AUTH_FAILED)
    refusals.note(ONE, "why")
    refusals.note_error(AuthFailedError())
    assert refusals.last == "why"
    errors = (AuthFailedError(), SessionClosedRequireSaslError(), NoAuthError())
    assert [is_refusal(error) for error in errors] == [True, True, False]


def test_credentials_that_cannot_be_read_make_the_store_unavailable() -> None:
    """In a task of Spark that is an error which ends the job with its sentence."""
    missing = SecretSource("the digest", "AUDITOR_X", file="/no/such/file")
    with pytest.raises(StoreUnavailable, match="our credentials for ZooKeeper could not be read: the file with the digest"):
        Credentials(ZooKeeperAccess(digest=missing))


CHALLENGE = b'realm="r",nonce="n",algorithm=md5-sess'
DROP = ConnectionDropped("gone")
REFUSAL = ReplyHeader(2, 0, -115)
"""AUTHFAILED to the second message, which is what a server answers to a wrong password."""


class Login:
    """One client of two servers. `attempt` logs in to one of them, which sends `replies` or raises them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / "pw").write_text("pw")
        access = ZooKeeperAccess(sasl=SaslLogin("u", SecretSource("the password", "AUDITOR_X", file=str(tmp_path / "pw"))))
        self.refusals = Refusals()
        client = KazooClient(hosts="h1:2281,h2:2281")
        Credentials(access).apply(client, self.refusals)
        self.connection: Any = client._connection
        self._replies: list[Any] = []
        self._sent = b""
        monkeypatch.setattr(ConnectionHandler, "_connect", self._connect)
        monkeypatch.setattr(secured_connection.secrets, "token_hex", lambda size: "c")
        self.connection._submit = lambda request, timeout, xid: None
        self.connection._read_header = self._read_header

    def _connect(self, host: str, hostip: str, port: int) -> tuple[int, int]:
        self.connection._authenticate_with_sasl(host, 1.0)
        return 1, 1

    def _read_header(self, timeout: float) -> tuple[ReplyHeader, bytes, int]:
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return (reply, b"", 0) if isinstance(reply, ReplyHeader) else (ReplyHeader(*reply[:3]), write_buffer(reply[3]), 0)

    def attempt(self, server: tuple[str, int], *replies: Any) -> None:
        self._replies = list(replies)
        self.connection._connect(server[0], "127.0.0.1", server[1])


FIRST = (1, 0, 0, CHALLENGE)
PROOF = answer_challenge(CHALLENGE, DigestUser("u", "pw", SERVICE), "c").expected_reply


@pytest.fixture
def login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Login:
    return Login(monkeypatch, tmp_path)


@pytest.mark.parametrize("loss", [DROP, KazooTimeoutError()])
def test_a_connection_lost_at_the_first_message_is_no_refusal(login: Login, loss: Exception) -> None:
    """A server that restarts drops it. However often: the next server may let us in."""
    for server in (ONE, TWO, ONE, TWO):
        with pytest.raises(type(loss)):
            login.attempt(server, loss)
    assert not login.refusals.has_all([ONE, TWO])
    assert "SASL switched off" in login.refusals.last
    login.attempt(ONE, FIRST, (2, 0, 0, PROOF))
    assert login.refusals.last == ""


def test_a_server_that_refuses_a_login_is_left_for_another_one(login: Login) -> None:
    """One server of three may lack the user in its JAAS file."""
    with pytest.raises(ConnectionDropped):
        login.attempt(ONE, FIRST, REFUSAL)
    assert login.refusals.last == WRONG_LOGIN
    login.attempt(TWO, FIRST, (2, 0, 0, PROOF))
    assert login.refusals.last == ""


@pytest.mark.parametrize(
    ("replies", "why"),
    [
        ((FIRST, REFUSAL), WRONG_LOGIN),
        (((1, 0, 0, b"gssapi"),), NO_DIGEST),
        ((FIRST, (2, 0, 0, b"rspauth=0")), NO_PROOF),
        ((ReplyHeader(1, 0, -115),), WRONG_LOGIN),
    ],
)
def test_a_login_that_every_server_refuses_ends_the_attempts(login: Login, replies: Any, why: str) -> None:
    """AuthFailedError is what ends kazoo's loop."""
    with pytest.raises(ConnectionDropped):
        login.attempt(ONE, *replies)
    with pytest.raises(AuthFailedError):
        login.attempt(TWO, *replies)
    assert (login.refusals.last, login.refusals.has_all([ONE, TWO])) == (why, True)


def test_a_server_that_drops_the_second_message_twice_refuses_the_login(login: Login) -> None:
    """Once may be a restart; a time-out is a slow server."""
    for loss in (KazooTimeoutError(), KazooTimeoutError(), DROP):
        with pytest.raises(type(loss)):
            login.attempt(ONE, FIRST, loss)
    assert not login.refusals.has_all([ONE])
    with pytest.raises(ConnectionDropped):
        login.attempt(ONE, FIRST, DROP)
    assert login.refusals.has_all([ONE])
    assert login.refusals.last == WRONG_LOGIN
    with pytest.raises(ConnectionDropped):
        login.attempt(TWO, FIRST, DROP)
    with pytest.raises(AuthFailedError):
        login.attempt(TWO, FIRST, DROP)

"""What is kept of the reasons for which servers refuse, and when waiting is of no use."""

from __future__ import annotations

import ssl
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionDropped,
    NoAuthError,
    SessionClosedRequireSaslError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.connection import ConnectionHandler, ReplyHeader
from kazoo.protocol.serialization import SASL, write_buffer
from kazoo.retry import KazooRetry
from support.pki import Pki

from auditor.config.access import SaslLogin, SecretSource, TlsFiles, ZooKeeperAccess
from auditor.credentials.tls import CertificateDates
from auditor.errors import StoreUnavailable
from auditor.wire.digest_md5 import DigestUser, answer_challenge
from auditor.zookeeper import secured_connection
from auditor.zookeeper.multi_read import AUTH_FAILED, CONNECTION_LOSS, SASL_REQUIRED
from auditor.zookeeper.secured_connection import (
    LOST_LOGIN,
    NO_DIGEST,
    NO_PROOF,
    NONCE_BYTES,
    NOT_TLS,
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
    assert (refusals.last, refusals.needs_kdc) == ("", False)
    refusals.note(ONE, "first")
    refusals.suspect("perhaps")
    assert (refusals.last, refusals.has_all([ONE, TWO]), refusals.has_all([])) == (
        "perhaps",
        False,
        False,
    )
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
    with pytest.raises(
        StoreUnavailable,
        match="our credentials for ZooKeeper could not be read: the file with the digest",
    ):
        Credentials(ZooKeeperAccess(digest=missing))


def test_credentials_are_read_once_and_given_to_each_client(tmp_path: Path) -> None:
    """A client without a login has no SASL options, so kazoo does not log in."""
    pki = Pki(tmp_path / "pki")
    ours = pki.issue("ours")
    (tmp_path / "digest").write_text("super:secret")
    (tmp_path / "pw").write_text("pw")
    digest = SecretSource("the digest", "AUDITOR_X", file=str(tmp_path / "digest"))
    tls = TlsFiles(
        "zookeeper", ca=str(pki.ca()), certificate=str(ours.certificate), key=str(ours.key)
    )
    with_tls = Credentials(ZooKeeperAccess(tls=tls, digest=digest))
    assert isinstance(with_tls.context, ssl.SSLContext)
    assert (with_tls.auth_data, with_tls.login, with_tls.has_certificate) == (
        [("digest", "super:secret")],
        None,
        True,
    )
    assert not Credentials(
        ZooKeeperAccess(tls=TlsFiles("zookeeper", ca=str(pki.ca())))
    ).has_certificate
    with_login = Credentials(
        ZooKeeperAccess(
            sasl=SaslLogin(
                "u", SecretSource("the password", "AUDITOR_X", file=str(tmp_path / "pw"))
            )
        )
    )
    assert (with_login.context, with_login.auth_data, with_login.has_certificate) == (
        None,
        [],
        False,
    )
    assert with_login.login == DigestUser("u", "pw", "zookeeper/zk-sasl-md5")
    for credentials, options in ((with_tls, None), (with_login, {})):
        client, refusals = KazooClient(hosts="h1:2281"), Refusals()
        credentials.apply(client, refusals)
        connection: Any = client._connection
        assert (connection.client, connection.logger, connection.sasl_options) == (
            client,
            client.logger,
            options,
        )
        assert (connection.credentials, connection.refusals) == (credentials, refusals)
        assert isinstance(connection.retry_sleeper, KazooRetry)
        assert connection.retry_sleeper is not client._conn_retry


CHALLENGE = b'realm="r",nonce="n",algorithm=md5-sess'
DROP = ConnectionDropped("gone")
REFUSAL = ReplyHeader(2, 0, -115)
"""AUTHFAILED to the second message, which is what a server answers to a wrong password."""


class Login:
    """One client of two servers. `attempt` logs in to one of them, which sends `replies` or raises
    them.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / "pw").write_text("pw")
        access = ZooKeeperAccess(
            sasl=SaslLogin(
                "u", SecretSource("the password", "AUDITOR_X", file=str(tmp_path / "pw"))
            )
        )
        self.refusals = Refusals()
        client = KazooClient(hosts="h1:2281,h2:2281")
        Credentials(access).apply(client, self.refusals)
        self.connection: Any = client._connection
        self._replies: list[Any] = []
        self.submitted: list[tuple[Any, ...]] = []
        self.connected: list[tuple[Any, ...]] = []
        self.nonce_sizes: list[int] = []
        monkeypatch.setattr(ConnectionHandler, "_connect", self._connect)
        monkeypatch.setattr(secured_connection.secrets, "token_hex", self._token_hex)
        self.connection._submit = lambda *given: self.submitted.append(given)
        self.connection._read_header = self._read_header

    def _token_hex(self, size: int) -> str:
        self.nonce_sizes.append(size)
        return "c"

    def _connect(self, host: str, hostip: str, port: int) -> tuple[int, int]:
        self.connected.append((host, hostip, port))
        if self._replies and isinstance(self._replies[0], ssl.SSLError):
            raise ConnectionDropped("socket error") from self._replies[0]
        self.connection._authenticate_with_sasl(host, 1.5)
        return 1, 2

    def _read_header(self, timeout: float) -> tuple[ReplyHeader, bytes, int]:
        assert timeout == 1.5
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return (
            (reply, b"", 0)
            if isinstance(reply, ReplyHeader)
            else (ReplyHeader(*reply[:3]), write_buffer(reply[3]), 0)
        )

    def attempt(self, server: tuple[str, int], *replies: Any) -> Any:
        self._replies = list(replies)
        return self.connection._connect(server[0], "127.0.0.1", server[1])


FIRST = (1, 0, 0, CHALLENGE)
PROOF = answer_challenge(CHALLENGE, DigestUser("u", "pw", SERVICE), "c").expected_reply


@pytest.fixture
def login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Login:
    return Login(monkeypatch, tmp_path)


@pytest.mark.parametrize("loss", [DROP, KazooTimeoutError()])
def test_a_connection_lost_at_the_first_message_is_no_refusal(
    login: Login, loss: Exception
) -> None:
    """A server that restarts drops it. However often: the next server may let us in."""
    for server in (ONE, TWO, ONE, TWO):
        with pytest.raises(type(loss)):
            login.attempt(server, loss)
    assert not login.refusals.has_all([ONE, TWO])
    assert "SASL switched off" in login.refusals.last
    login.attempt(ONE, FIRST, (2, 0, 0, PROOF))
    assert login.refusals.last == ""


def test_a_login_is_two_messages_and_their_answers(login: Login) -> None:
    """Nothing at first, then the answer to the challenge; each with its own number. kazoo goes on
    as it would.
    """
    assert login.attempt(ONE, FIRST, (2, 0, 0, PROOF)) == (1, 2)
    answer = answer_challenge(CHALLENGE, DigestUser("u", "pw", SERVICE), "c").response
    assert login.submitted == [(SASL(b""), 1.5, 1), (SASL(answer), 1.5, 2)]
    assert (login.connected, login.nonce_sizes) == ([(ONE[0], "127.0.0.1", ONE[1])], [NONCE_BYTES])


def test_a_reply_to_something_else_is_a_lost_login(login: Login) -> None:
    """Not a refusal: the connection is of no use any more, and the next one may be."""
    with pytest.raises(ConnectionDropped, match="a reply to request 7 during the login"):
        login.attempt(ONE, (7, 0, 0, CHALLENGE))
    assert (login.refusals.last, login.refusals.has_all([ONE])) == (LOST_LOGIN, False)


@pytest.mark.parametrize("challenge", [None, CHALLENGE + b',qop="auth-conf"'])
def test_a_challenge_that_we_cannot_answer_is_a_refusal(
    login: Login, challenge: bytes | None
) -> None:
    """Nothing at all, or a protection that we do not speak."""
    with pytest.raises(ConnectionDropped):
        login.attempt(ONE, (1, 0, 0, challenge))
    assert login.refusals.last.startswith(NO_DIGEST)
    assert login.refusals.has_all([ONE])


def test_a_login_in_between_clears_what_was_dropped_before(login: Login) -> None:
    """Two restarts of one server in a long run are no refusal."""
    for _ in range(3):
        with pytest.raises(ConnectionDropped):
            login.attempt(ONE, FIRST, DROP)
        assert (login.refusals.last, login.refusals.has_all([ONE])) == (LOST_LOGIN, False)
        login.attempt(ONE, FIRST, (2, 0, 0, PROOF))


def test_an_authentication_that_fails_without_a_word_is_a_wrong_login(
    login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kazoo raises it so where a server refuses digest credentials."""

    def refuse(*_: object) -> None:
        raise AuthFailedError

    monkeypatch.setattr(ConnectionHandler, "_connect", refuse)
    with pytest.raises(AuthFailedError):
        login.attempt(ONE)
    assert (login.refusals.last, login.refusals.has_all([ONE])) == (WRONG_LOGIN, True)


def alert(reason: str) -> ssl.SSLError:
    """What OpenSSL raises for an alert of the peer."""
    error = ssl.SSLError(1, reason)
    error.reason = reason
    return error


@pytest.mark.parametrize("port", [2281, "2281"])
def test_a_handshake_that_fails_has_its_reason(login: Login, port: Any) -> None:
    """Each server once: it will be the same. An end without a word may pass, and is no TLS port
    perhaps.
    """
    required = alert("CERTIFICATE_REQUIRED")
    with pytest.raises(ConnectionDropped):
        login.attempt((ONE[0], port), required)
    assert "give --zookeeper-tls-certificate" in login.refusals.last
    assert login.refusals.has_all([ONE])
    login.connection.credentials.has_certificate = True
    login.connection._note(ONE, required)
    assert "it refused our certificate" in login.refusals.last
    assert (login.refusals.has_all([ONE]), login.refusals.has_all([TWO])) == (True, False)
    with pytest.raises(ConnectionDropped):
        login.attempt(TWO, ssl.SSLEOFError())
    assert (login.refusals.last, login.refusals.has_all([ONE, TWO])) == (NOT_TLS, False)
    login.refusals.clear()
    with pytest.raises(ConnectionDropped):
        login.attempt(TWO, ssl.SSLZeroReturnError())
    assert (login.refusals.last, login.refusals.has_all([ONE, TWO])) == (NOT_TLS, False)


def test_a_certificate_of_ours_that_has_expired_is_why_a_server_refuses_us(login: Login) -> None:
    """Whatever alert it sends, or none at all."""
    then = datetime(2020, 1, 1, tzinfo=UTC)
    login.connection.credentials.dates = CertificateDates("ours.pem", then, then)
    expired = "our certificate has expired: it was valid until 2020-01-01 00:00:00 UTC"
    login.connection._note(ONE, alert("CERTIFICATE_UNKNOWN"))
    assert login.refusals.last.startswith(f"it refused us (CERTIFICATE_UNKNOWN), and {expired}")
    login.connection._note(TWO, ssl.SSLEOFError())
    assert login.refusals.last.startswith(
        f"it closed the connection in the TLS handshake, and {expired}"
    )
    assert (login.refusals.has_all([ONE]), login.refusals.has_all([TWO])) == (True, False)


def test_a_failure_of_tls_is_found_behind_others(login: Login) -> None:
    """kazoo raises its own error while it handles that of the socket."""
    for chain in ("cause", "context"):
        error, behind = ConnectionDropped("outer"), OSError("between")
        setattr(error, f"__{chain}__", behind)
        setattr(behind, f"__{chain}__", alert("UNKNOWN_CA"))
        login.refusals.clear()
        login.connection._note(ONE, error)
        assert "UNKNOWN_CA" in login.refusals.last, chain
    login.refusals.clear()
    login.connection._note(ONE, ConnectionDropped("reset"))
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
def test_a_login_that_every_server_refuses_ends_the_attempts(
    login: Login, replies: Any, why: str
) -> None:
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

"""TLS, SASL and digest logins of a ZooKeeper session, and why a server refused one.

kazoo reports most refusals as lost connections and retries for ever. `Refusals` keeps what each
server really said.
"""

from __future__ import annotations

import secrets
import ssl
import threading
import time
from collections.abc import Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped, SessionClosedRequireSaslError
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import SASL

from auditor.clock import utc_now
from auditor.config.access import KerberosLogin, SaslLogin, ZooKeeperAccess
from auditor.credentials.kerberos import KerberosExchange, KerberosFailed
from auditor.credentials.secret_reading import read_digest, read_secret
from auditor.credentials.tls import (
    client_context,
    explain_tls_failure,
    find_tls_error,
    read_certificate_dates,
)
from auditor.errors import ConfigError, KdcUnreachable, PeerProtocolError, StoreUnavailable
from auditor.wire.digest_md5 import DigestUser, answer_challenge, is_challenge, proves_password
from auditor.zookeeper.multi_read import AUTH_FAILED, CONNECTION_LOSS, SASL_REQUIRED

SERVICE = "zookeeper/zk-sasl-md5"
"""The digest-uri of every ZooKeeper server (SecurityUtils)."""
NONCE_BYTES = 16
"""Random bytes in our half of a DIGEST-MD5 exchange."""
REFUSAL_POLL_S = 0.1
"""How often we check whether every server refused us while a connection is made, in seconds."""

WRONG_LOGIN = (
    "it refused the user name or password (--zookeeper-sasl-username,"
    " --zookeeper-sasl-password-file), or has SASL switched off: the user must be in the section"
    " Server of its JAAS file"
)
WANTS_SASL = "it serves sessions with a SASL login only: set --zookeeper-sasl digest-md5 or gssapi"
NO_KERBEROS = "it does not offer SASL GSSAPI"
NOT_ACCEPTED = (
    "it refused our Kerberos ticket: its clock may differ from ours by more than 5 minutes, its key"
    " tab may lack the newest key of its principal, or it does not offer SASL GSSAPI"
)
ROUNDS_MAX = 4
"""Messages of ours in a login with Kerberos. Three is what it takes."""
NO_DIGEST = "it does not offer SASL DIGEST-MD5"
NO_PROOF = "it could not prove that it knows the password: it may be another server in its place"
NOT_TLS = (
    "it closed the connection in the TLS handshake: is this its secureClientPort, and does it"
    " accept our certificate?"
)
CLOSED = "it closed the connection in the TLS handshake, and {fault}"

LOST_LOGIN = (
    "it ended the login, or did not answer it in time: it may be restarting, have SASL switched"
    " off, or refuse the user name or password"
)

Server = tuple[str, int]


class Refusals:
    """Which servers refused us, and the last reason. kazoo's thread writes them.

    `loss_code` is the KeeperException code for a read that got no reply in the end: the refusal of
    the whole session, if there was one.
    """

    def __init__(self) -> None:
        self._final: set[Server] = set()
        self._dropped: set[Server] = set()
        self._last = ""
        self.needs_kdc = False
        """Whether the last reason is that no KDC answered: then no server refused us."""
        self.loss_code = CONNECTION_LOSS

    def note(self, server: Server, why: str) -> None:
        """Note a refusal that asking the server again would not change."""
        self._final.add(server)
        self.suspect(why)

    def suspect(self, why: str) -> None:
        """Note a reason that may be a refusal, but may also pass."""
        self._last, self.needs_kdc = why, False

    def await_kdc(self, why: str) -> None:
        """Note that no login was tried at a server, because no KDC answered."""
        self._last, self.needs_kdc = why, True

    def note_drop(self, server: Server) -> None:
        """Note that a server dropped the connection on our password proof; the second time is a
        refusal.
        """
        if server in self._dropped:
            self.note(server, WRONG_LOGIN)
        else:
            self._dropped.add(server)
            self.suspect(LOST_LOGIN)

    def note_error(self, error: Exception) -> None:
        """Note an error of a request if it says that the session as a whole is refused."""
        if isinstance(error, SessionClosedRequireSaslError):
            self.suspect(WANTS_SASL)
            self.loss_code = SASL_REQUIRED
        elif isinstance(error, AuthFailedError):
            self.suspect(self._last or WRONG_LOGIN)
            self.loss_code = AUTH_FAILED

    def clear(self) -> None:
        self._final.clear()
        self._dropped.clear()
        self.suspect("")
        self.loss_code = CONNECTION_LOSS

    @property
    def last(self) -> str:
        """The last reason as a sentence about "it", or ""."""
        return self._last

    def has_all(self, servers: Sequence[Server]) -> bool:
        """Return whether every server refused us for good."""
        return bool(servers) and all(server in self._final for server in servers)


def await_unless_refused(
    live: threading.Event, refusals: Refusals, servers: Sequence[Server], timeout_s: float
) -> bool:
    """Wait for `live`, the time-out, or the last server's refusal. Return whether `live` was
    set.
    """
    until = time.monotonic() + timeout_s
    while time.monotonic() < until and not refusals.has_all(servers):
        if live.wait(REFUSAL_POLL_S):
            return True
    return False


class Credentials:
    """What is needed to secure sessions, read once from files, variables and commands."""

    def __init__(self, access: ZooKeeperAccess) -> None:
        """Read the credentials. Raises StoreUnavailable if a file, variable or command does not
        give them.
        """
        try:
            self.context = None if access.tls is None else client_context(access.tls)
            self.login = None if access.sasl is None else _login(access.sasl)
            self.auth_data = (
                [] if access.digest is None else [("digest", read_digest(access.digest))]
            )
        except ConfigError as error:
            raise StoreUnavailable(
                f"our credentials for ZooKeeper could not be read: {error}"
            ) from None
        self.dates = read_certificate_dates(access.tls)
        self.has_certificate = access.tls is not None and access.tls.certificate is not None

    def apply(self, client: KazooClient, refusals: Refusals) -> None:
        """Let this new client log in, and note refusals."""
        connection = _Connection(client, client._conn_retry.copy(), logger=client.logger)
        connection.credentials, connection.refusals = self, refusals
        if self.login is not None:
            connection.sasl_options = {}  # kazoo logs in where there are some.
        client._connection = connection


def _login(sasl: SaslLogin | KerberosLogin) -> DigestUser | KerberosLogin:
    if isinstance(sasl, KerberosLogin):
        return sasl
    return DigestUser(sasl.username, read_secret(sasl.password), SERVICE)


class _LoginRefused(ConnectionDropped):  # type: ignore[misc]  # kazoo has no types
    """One server refused our login: kazoo tries the next one."""


class _ProofDropped(ConnectionDropped):  # type: ignore[misc]
    """One server dropped the connection instead of answering our proof of the password."""


class _Connection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's connection, with a SASL login of ours and with refusals noted."""

    credentials: Credentials
    refusals: Refusals

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        server = host, int(port)
        try:
            timeouts = super()._connect(host, hostip, port)
        except (AuthFailedError, _LoginRefused) as error:
            self._note_refusal(server, error)
            raise
        except _ProofDropped:
            self.refusals.note_drop(server)
            self._end_if_all_refused()
            raise
        except Exception as error:
            self._note(server, error)
            raise
        self.refusals.clear()
        return timeouts

    def _note_refusal(self, server: Server, error: Exception) -> None:
        """Note that a server refused our login. Raises AuthFailedError if all have done so."""
        self.refusals.note(server, str(error) or WRONG_LOGIN)
        self._end_if_all_refused()

    def _end_if_all_refused(self) -> None:
        """Raise AuthFailedError if all refused us for good: it ends kazoo's attempts."""
        if self.refusals.has_all(self.client.hosts):
            raise AuthFailedError(self.refusals.last) from None

    def _note(self, server: Server, error: BaseException) -> None:
        """Note a TLS failure as the reason, if TLS failed and dropped the connection."""
        failure = find_tls_error(error)
        if failure is None:
            return
        fault = self.credentials.dates.fault_at(utc_now())
        if isinstance(failure, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            self.refusals.suspect(CLOSED.format(fault=fault) if fault else NOT_TLS)
            return
        why = explain_tls_failure(
            failure,
            "zookeeper",
            has_certificate=self.credentials.has_certificate,
            own_fault=fault,
        )
        if why:
            self.refusals.note(server, why)

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        """Log in. Raises _LoginRefused, or what ended the connection."""
        login = self.credentials.login
        assert login is not None, "sasl_options are set only with a login"
        if isinstance(login, KerberosLogin):
            self._log_in_with_ticket(KerberosExchange(login, host), timeout)
        else:
            self._log_in_with_password(login, timeout)

    def _log_in_with_ticket(self, exchange: KerberosExchange, timeout: float) -> None:
        """Log in with GSSAPI, in kazoo's thread. If no KDC answers, kazoo tries again."""
        try:
            token = exchange.start()
            for xid in range(1, ROUNDS_MAX + 1):
                reply = self._exchange(token, xid, timeout, NOT_ACCEPTED)
                if exchange.is_complete:
                    return
                token = exchange.respond(reply)
        except KdcUnreachable as error:
            self.refusals.await_kdc(f"no Kerberos ticket for {exchange.server}: {error}")
            raise ConnectionDropped(str(error)) from None
        except (KerberosFailed, ConfigError) as error:
            raise _LoginRefused(f"no login with Kerberos: {error}") from None
        raise _LoginRefused(NO_KERBEROS)

    def _log_in_with_password(self, user: DigestUser, timeout: float) -> None:
        """Log in with DIGEST-MD5."""
        challenge = self._exchange(b"", 1, timeout)
        if not is_challenge(challenge):
            raise _LoginRefused(NO_DIGEST)
        try:
            answer = answer_challenge(challenge, user, secrets.token_hex(NONCE_BYTES))
        except PeerProtocolError as error:
            raise _LoginRefused(f"{NO_DIGEST}: {error}") from None
        try:
            reply = self._exchange(answer.response, 2, timeout)
        except _LoginRefused:
            raise
        except ConnectionDropped as error:
            raise _ProofDropped(str(error)) from None
        if not proves_password(reply, answer):
            raise _LoginRefused(NO_PROOF)

    def _exchange(
        self, token: bytes, xid: int, timeout: float, refusal: str = WRONG_LOGIN
    ) -> bytes:
        """Send one SASL message and return the server's, which is an error if it refuses ours."""
        try:
            self._submit(SASL(token), timeout, xid)
            header, buffer, offset = self._read_header(timeout)
        except (ConnectionDropped, self.handler.timeout_exception):
            self.refusals.suspect(LOST_LOGIN)
            raise
        if header.err:
            raise _LoginRefused(refusal)
        if header.xid != xid:
            self.refusals.suspect(LOST_LOGIN)
            raise ConnectionDropped(f"a reply to request {header.xid} during the login")
        reply, _ = SASL.deserialize(buffer, offset)
        return reply or b""


def is_refusal(error: Exception) -> bool:
    """Return whether a server refused a session as a whole, and not one request."""
    return isinstance(error, AuthFailedError | SessionClosedRequireSaslError)

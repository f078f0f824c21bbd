"""Open connections to one bookie, with TLS and SASL if the settings say so.

The bookie is asked for TLS first (START_TLS) and for authentication inside it. A secured connection
then asks GET_BOOKIE_INFO. With TLS 1.3 only that shows whether our certificate was accepted. With
SASL only that distinguishes a refused password, to which a bookie says nothing, from a slow answer.
"""

from __future__ import annotations

import asyncio
import ssl

from auditor.bookie.link import Link, Listener, open_link
from auditor.bookie.logins import (
    SERVICE,
    DigestLogin,
    GssapiLogin,
    Login,
    Lost,
    Replies,
    check_admitted,
    require_ok,
)
from auditor.clock import utc_now
from auditor.config import BookieLimits
from auditor.config.access import KerberosLogin, SaslLogin, TlsFiles
from auditor.credentials.secret_reading import read_secret
from auditor.credentials.tls import (
    ALWAYS_VALID,
    explain_lost_handshake,
    explain_tls_failure,
    read_certificate_dates,
    shared_context,
)
from auditor.errors import (
    AuditorError,
    BookieRefused,
    BookieUnreachable,
    ConfigError,
    PeerProtocolError,
)
from auditor.local_faults import exhaustion, local_fault
from auditor.wire.digest_md5 import DigestUser
from auditor.wire.frames import Status

AUTH_TIMEOUT_MAX_S = 5.0
"""Longest wait for one response while a connection is made secure, in seconds. A bookie whose
plug-in is not SASL never answers AUTH.
"""

NO_TLS = {
    "bookie": "the bookie offers no TLS, and with --bookie-tls on it is not asked in clear: give"
    " it tlsProviderFactoryClass, or set --bookie-tls off",
    "lister": "the lister offers no TLS, and with --lister-tls on it is not asked in clear: give"
    " it --listen-tls on, or set --lister-tls off",
}
WANTS_ROLE = (
    "EUA: the bookie wants more than TLS: a client certificate with one of its authorizedRoles"
    " (--bookie-tls-certificate), or SASL (--bookie-sasl digest-md5 or gssapi)"
)
LOST_AFTER_HANDSHAKE = "the connection was lost in or after the TLS handshake"


class Dialler:
    """Opens links to the bookie at one address. It reads certificates and secrets once.

    `awaits_first_ticket`: no connection was tried yet, because no KDC has given us a ticket. A
    conversation that ends then says nothing about the bookie.
    """

    def __init__(self, address: tuple[str, int], limits: BookieLimits) -> None:
        self._host, self._port = address
        self._limits = limits
        self._context: ssl.SSLContext | None = None
        self._dates = ALWAYS_VALID
        self._login: Login | None = None
        self._failures = 0
        self.awaits_first_ticket = self._has_dialled = False

    async def open(self, listener: Listener) -> Link:
        """Return a link on which `listener` may ask.

        Raises BookieUnreachable if it is worth trying again, BookieRefused if it is not, and
        LocalFault if this host is at fault.
        """
        access, timeout_s = self._limits.access, self._limits.bookie_connect_timeout_ms / 1000
        if not access.is_secured:
            return await open_link(
                listener, self._host, self._port, self._limits.frame_bytes_max, timeout_s
            )
        try:
            if self._context is None and self._login is None:
                # In a thread: a command may take COMMAND_TIMEOUT_S.
                await asyncio.to_thread(self._read_credentials, access.tls, access.sasl)
        except ConfigError as error:
            if (fault := local_fault(error)) is not None:
                raise fault from None
            raise BookieRefused(f"we could not read our own credentials: {error}") from None
        if self._login is not None:
            self.awaits_first_ticket = not self._has_dialled
            await self._login.prepare()
        self.awaits_first_ticket, self._has_dialled = False, True
        replies = Replies(min(AUTH_TIMEOUT_MAX_S, self._limits.rpc_timeout_ms / 1000))
        link = await open_link(
            replies, self._host, self._port, self._limits.frame_bytes_max, timeout_s
        )
        try:
            await self._secure(link, replies, timeout_s)
        except BookieUnreachable as error:
            link.abort()
            raise self._unless_too_often(error, replies) from None
        except BaseException:
            link.abort()
            raise
        link.listener = listener
        self._failures = 0
        return link

    def _unless_too_often(
        self, error: BookieUnreachable, replies: Replies
    ) -> BookieUnreachable | BookieRefused:
        """Return the error, or a refusal if the bookie answers but fails to become secure each
        time.

        Such a bookie is not silent: losing the connection may be its way to refuse our certificate.
        """
        self._failures += replies.has_answered
        if self._failures < self._limits.bookie_connect_attempts:
            return error
        return BookieRefused(f"{error} ({self._failures} attempts)")

    def _read_credentials(
        self, tls: TlsFiles | None, sasl: SaslLogin | KerberosLogin | None
    ) -> None:
        context = None if tls is None else shared_context(tls)
        self._dates = read_certificate_dates(tls)
        login: Login | None = None
        if isinstance(sasl, KerberosLogin):
            login = GssapiLogin(sasl, self._host)
        elif sasl is not None:
            login = DigestLogin(DigestUser(sasl.username, read_secret(sasl.password), SERVICE))
        self._context, self._login = context, login

    async def _secure(self, link: Link, replies: Replies, timeout_s: float) -> None:
        try:
            if self._context is not None:
                await self._start_tls(link, replies, self._context, timeout_s)
            if self._login is not None:
                await self._login.log_in(link, replies)
            else:
                await check_admitted(link, replies, WANTS_ROLE)
            replies.raise_failure()  # It may have come after the last answer.
        except PeerProtocolError as error:
            raise BookieUnreachable(
                f"the bookie broke the protocol while TLS or a login was set up: {error}"
            ) from None
        except Lost as lost:
            raise self._after_loss(link.error or lost) from None

    async def _start_tls(
        self, link: Link, replies: Replies, context: ssl.SSLContext, timeout_s: float
    ) -> None:
        txn_id, frame = link.wire.ask_start_tls()
        replies.pauses_at = txn_id
        link.send(frame)
        answer = await replies.next()
        if answer.status == Status.EBADREQ:
            raise BookieRefused(NO_TLS[self._limits.access.peer])
        require_ok(answer)
        if replies.failure or link.wire.unfinished_bytes:
            raise PeerProtocolError(
                f"it sent more behind its answer to START_TLS ({replies.failure or 'in clear'})"
            )
        try:
            await link.start_tls(context, self._host, timeout_s)
        except OSError as error:
            raise self._after_loss(error) from None

    def _after_loss(self, error: Exception) -> AuditorError:
        """Return what to raise after `error` ended a connection that was being secured."""
        if (own_fault := exhaustion(error)) is not None:
            return own_fault
        tls = self._limits.access.tls
        if tls is None:
            return BookieUnreachable(f"the connection was lost during the login: {error}")
        has_certificate = tls.certificate is not None
        fault = self._dates.fault_at(utc_now())
        why = explain_tls_failure(error, tls.what, has_certificate=has_certificate, own_fault=fault)
        if why:
            return BookieRefused(f"no TLS with {self._host}:{self._port}: {why}")
        why = explain_lost_handshake(tls.what, has_certificate=has_certificate, own_fault=fault)
        return BookieUnreachable(f"{LOST_AFTER_HANDSHAKE} ({error}), {why}")

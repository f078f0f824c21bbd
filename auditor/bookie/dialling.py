"""Open connections to one bookie, with TLS and SASL if the settings say so.

The bookie is asked for TLS first (START_TLS) and for authentication inside it. A secured connection
then asks GET_BOOKIE_INFO. With TLS 1.3 only that shows whether our certificate was accepted.

Logins are SASL DIGEST-MD5, or SASL GSSAPI with a Kerberos ticket. A bookie does not answer a wrong
password or a ticket that it does not accept. It never answers our last message, whether it admits
us or not. EUA in reply to the request that follows tells a refusal from a slow answer. While a
connection is made secure, responses are awaited one by one (`Replies`).
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from auditor.bookie.link import Link, Listener, open_link
from auditor.clock import utc_now
from auditor.config import BookieLimits
from auditor.config.access import KerberosLogin, SaslLogin, TlsFiles
from auditor.credentials.kerberos import KerberosExchange, KerberosFailed
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
    KdcUnreachable,
    PeerProtocolError,
)
from auditor.local_faults import exhaustion, local_fault, local_fault_in
from auditor.model.availability import NOT_DIALLED
from auditor.wire.bookie_connection import Answered, AnswerTooLarge
from auditor.wire.digest_md5 import (
    DigestAnswer,
    DigestUser,
    answer_challenge,
    is_challenge,
    proves_password,
)
from auditor.wire.frames import Operation, Status, status_name


class Login(Protocol):
    """Logs in at one bookie, on one connection after another."""

    async def prepare(self) -> None:
        """Do what each connection needs before it is made.

        Raises BookieRefused, or BookieUnreachable if it is worth trying again.
        """

    async def log_in(self, link: Link, replies: Replies) -> None:
        """Return when the bookie admits us. Raises BookieRefused or BookieUnreachable."""


NO_LOGIN_PLUGIN = b"AuthDisabledPlugin"
"""The plug-in that answers AUTH on a bookie without an authentication provider, with an empty
answer."""
PLUGIN_BYTES_SHOWN = 60
"""How much of another plug-in's name is shown, in bytes."""
STILL_UNAUTHORISED = "EUA: the bookie accepted the login and still does not let this client ask"


class AuthUnanswered(BookieRefused):
    """The bookie says nothing to AUTH, and answers other requests."""


async def _ask_first_challenge(
    link: Link, replies: Replies, token: bytes, not_offered: str
) -> bytes | None:
    """Send the first AUTH, and return the bookie's answer, or None if it requires no login.

    `not_offered` begins the sentence about a bookie that does not know the mechanism. Raises
    BookieRefused with that sentence, or BookieUnreachable if the bookie may be slow or starting.
    """
    _, frame = link.wire.ask_auth(token)
    link.send(frame)
    try:
        challenge = await replies.next()
    except BookieUnreachable:
        # A bookie that answers GET_BOOKIE_INFO is silent to AUTH alone.
        answer = await ask_info(link, replies)
        if answer.operation != Operation.GET_BOOKIE_INFO:
            raise BookieUnreachable("the bookie was slow to answer AUTH") from None
        raise AuthUnanswered(f"{not_offered}: it did not answer AUTH") from None
    if challenge.status == Status.EUA:
        raise BookieRefused(f"{not_offered} (EUA to AUTH)")
    require_ok(challenge)
    if challenge.payload:
        return challenge.payload
    if challenge.extra != NO_LOGIN_PLUGIN:
        plugin = challenge.extra[:PLUGIN_BYTES_SHOWN].decode("utf-8", "replace")
        raise BookieRefused(
            f"{not_offered}: its plug-in {plugin!a} answered AUTH without a challenge"
        )
    return None


async def ask_info(link: Link, replies: Replies) -> Answered:
    """Send GET_BOOKIE_INFO, and return its response or one that came before it."""
    _, info = link.wire.ask_info()
    link.probes += 1
    link.send(info)
    return await replies.next()


async def check_admitted(link: Link, replies: Replies, refusal: str) -> None:
    """Raise BookieRefused with `refusal` if the bookie answers GET_BOOKIE_INFO with EUA."""
    if (await ask_info(link, replies)).status == Status.EUA:
        raise BookieRefused(refusal)


def require_ok(answer: Answered) -> None:
    """Raise BookieUnreachable if the status is not EOK: the bookie may be starting or busy."""
    if answer.status != Status.EOK:
        what = "START_TLS" if answer.operation == Operation.START_TLS else "AUTH"
        raise BookieUnreachable(f"the bookie answered {status_name(answer.status)} to {what}")


class Lost(Exception):
    """The connection ended while a response was awaited."""


class Replies:
    """Takes the responses of a link until it is handed over. Responses are awaited one by one.

    After the response to the transaction `pauses_at` nothing more is read. `failure` ended the
    link. `has_answered`: at least one response came.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._answers: deque[Answered] = deque()
        self.failure: BaseException | None = None
        self._wake = asyncio.Event()
        self.pauses_at = 0
        self.has_answered = False

    async def next(self) -> Answered:
        """Return the next response. Raises BookieUnreachable if none comes in time, or Lost."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._take()
        except TimeoutError:
            raise BookieUnreachable(
                f"no answer within {self._timeout_s:g} s while the connection was secured"
            ) from None

    async def _take(self) -> Answered:
        while not self._answers:
            self.raise_failure()
            self._wake.clear()
            await self._wake.wait()
        return self._answers.popleft()

    def raise_failure(self) -> None:
        """Raise what ended the link, if anything did: PeerProtocolError or Lost."""
        if self.failure is not None:
            raise self.failure

    def on_answers(self, link: Link, events: Sequence[Answered | AnswerTooLarge]) -> None:
        self.has_answered = True
        for event in events:
            if isinstance(event, AnswerTooLarge):
                self._fail(
                    PeerProtocolError(
                        f"an answer of {event.length} bytes while the connection was secured"
                    )
                )
                return
            self._answers.append(event)
            if event.txn_id == self.pauses_at:
                link.stop_reading()
        self._wake.set()

    def send_more(self) -> None:
        """Do nothing: the dialler sends by itself."""

    def decode_pending(self) -> None:
        """Do nothing: there is nothing to decode."""

    def on_lost(self, link: Link, why: str, *, breach: bool) -> None:
        self._fail(PeerProtocolError(why) if breach else Lost(why))

    def on_failed(self, error: BaseException) -> None:
        self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self.failure = self.failure or error
        self._wake.set()


NONCE_BYTES = 16
"""Random bytes in our half of a DIGEST-MD5 exchange."""
SERVICE = "bookkeeper/bookkeeper"
"""The digest-uri of every bookie (SaslConstants)."""

WRONG_LOGIN = (
    "the bookie refused the user name or password (--bookie-sasl-username,"
    " --bookie-sasl-password-file): the user must be in the section Bookie of its JAAS file and"
    " match its saslJaasClientAllowedIds"
)
NO_DIGEST = "the bookie does not offer SASL DIGEST-MD5"
NO_PROOF = (
    "the bookie could not prove that it knows the password: it may be another server in its place"
)


class DigestLogin:
    """Logs in as one user. Only `user` has the password."""

    def __init__(self, user: DigestUser) -> None:
        self._user = user

    async def prepare(self) -> None:
        """Do nothing: the bookie speaks first."""

    async def log_in(self, link: Link, replies: Replies) -> None:
        """Return when the bookie admits us. Raises BookieRefused or BookieUnreachable."""
        challenge = await _ask_first_challenge(link, replies, b"", NO_DIGEST)
        if challenge is None:
            await check_admitted(link, replies, STILL_UNAUTHORISED)
            return
        if not is_challenge(challenge):
            raise BookieRefused(f"{NO_DIGEST}: its challenge is of another mechanism")
        try:
            proof = answer_challenge(challenge, self._user, secrets.token_hex(NONCE_BYTES))
        except PeerProtocolError as error:
            raise BookieRefused(f"{NO_DIGEST} as we speak it: {error}") from None
        await self._prove(link, replies, proof)

    async def _prove(self, link: Link, replies: Replies, answer: DigestAnswer) -> None:
        """Answer the challenge, then send a request that reveals a silent refusal."""
        _, response = link.wire.ask_auth(answer.response)
        _, info = link.wire.ask_info()
        link.probes += 1
        link.send(response + info)
        reply = await replies.next()
        # To AUTH, or to the request behind it: then AUTH gets no answer.
        if reply.status == Status.EUA:
            raise BookieRefused(WRONG_LOGIN)
        require_ok(reply)
        if reply.operation != Operation.AUTH or not proves_password(reply.payload, answer):
            raise BookieRefused(NO_PROOF)
        if (await replies.next()).status == Status.EUA:
            raise BookieRefused(STILL_UNAUTHORISED)


TICKET_TIMEOUT_S = 30.0
"""Longest wait for a ticket, in seconds. libkrb5 gives up a silent KDC after some 25 s."""
ROUNDS_MAX = 4
"""At most this many tokens of a bookie are answered. A login takes two."""

NO_KERBEROS = "the bookie does not offer SASL GSSAPI"
OFFERS_DIGEST = f"{NO_KERBEROS}, but DIGEST-MD5 (--bookie-sasl digest-md5)"
NOT_ACCEPTED = (
    "the bookie did not accept our ticket for {server}, and does not say why: its clock may differ"
    " from ours by more than 5 minutes, its key tab may lack the newest key of {server}, or it may"
    " not offer SASL GSSAPI"
)
NOT_ALLOWED = (
    "the bookie accepted our ticket, and refuses our principal (--bookie-sasl-principal): it must"
    " match its saslJaasClientAllowedIds"
)


class GssapiLogin:
    """Logs in at the bookie at `host` with a ticket for it."""

    _exchange: KerberosExchange
    _first_token: bytes
    """Both are set by `prepare`, anew for each connection."""

    def __init__(self, login: KerberosLogin, host: str) -> None:
        self._login, self._host = login, host

    @property
    def _not_accepted(self) -> str:
        return NOT_ACCEPTED.format(server=self._exchange.server)

    async def prepare(self) -> None:
        """Make the first token, in a thread: it may ask the KDC.

        Raises BookieRefused, BookieUnreachable with NOT_DIALLED if no KDC answered, and LocalFault.
        """
        self._exchange = KerberosExchange(self._login, self._host)
        try:
            async with asyncio.timeout(TICKET_TIMEOUT_S):
                self._first_token = await _call_in_thread(self._exchange.start)
        except TimeoutError:
            raise self._not_dialled(
                f"the KDC of the realm did not answer within {TICKET_TIMEOUT_S:g} s"
            ) from None
        except (KdcUnreachable, KerberosFailed, ConfigError) as error:
            fault = local_fault(error) or local_fault_in(str(error))
            if fault is not None:
                raise fault from None
            raise self._without_ticket(error) from None

    def _without_ticket(self, error: Exception) -> BookieRefused | BookieUnreachable:
        """Return what to raise for an error that left us without a ticket."""
        if isinstance(error, KdcUnreachable):
            return self._not_dialled(str(error))
        if isinstance(error, KerberosFailed):
            return BookieRefused(f"no Kerberos ticket for this bookie: {error}")
        return BookieRefused(str(error))

    def _not_dialled(self, why: str) -> BookieUnreachable:
        return BookieUnreachable(
            f"{NOT_DIALLED}no Kerberos ticket for {self._exchange.server}: {why}"
        )

    async def log_in(self, link: Link, replies: Replies) -> None:
        """Return when the bookie admits us. Raises BookieRefused or BookieUnreachable."""
        try:
            token = await _ask_first_challenge(link, replies, self._first_token, NO_KERBEROS)
        except AuthUnanswered:
            raise BookieRefused(self._not_accepted) from None
        if token is None:
            await check_admitted(link, replies, STILL_UNAUTHORISED)
            return
        if is_challenge(token):  # DIGEST-MD5 answers any first message with a challenge.
            raise BookieRefused(OFFERS_DIGEST)
        for _ in range(ROUNDS_MAX):
            response = self._respond(token)
            if self._exchange.is_complete:
                await self._finish(link, replies, response)
                return
            link.send(link.wire.ask_auth(response)[1])
            answer = await replies.next()
            if answer.status == Status.EUA:
                raise BookieRefused(self._not_accepted)
            require_ok(answer)
            token = answer.payload
        raise BookieRefused(f"{NO_KERBEROS}: it answered {ROUNDS_MAX} times and came to no end")

    def _respond(self, token: bytes) -> bytes:
        try:
            return self._exchange.respond(token)
        except KerberosFailed as error:
            raise BookieRefused(f"the login to the bookie failed: {error}") from None

    async def _finish(self, link: Link, replies: Replies, response: bytes) -> None:
        """Send our last message, which is never answered, and a request that shows if we are
        admitted.
        """
        link.send(link.wire.ask_auth(response)[1])
        answer = await ask_info(link, replies)
        if answer.operation == Operation.AUTH:
            require_ok(answer)
            answer = await replies.next()
        if answer.status == Status.EUA:
            raise BookieRefused(NOT_ALLOWED)


async def _call_in_thread(work: Callable[[], bytes]) -> bytes:
    """Return what `work` returns, or raise what it raises, without holding up the event loop.

    The thread is a daemon: neither the loop nor the process waits for it after a time-out.
    """
    future: Future[bytes] = Future()
    future.set_running_or_notify_cancel()  # The thread sets the result even if nobody waits.

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, name="kerberos", daemon=True).start()
    return await asyncio.wrap_future(future)


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

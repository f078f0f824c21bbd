"""Opens connections to one bookie, with TLS and SASL where the settings say so.

The bookie is asked for TLS first (START_TLS) and for authentication inside it. A secured connection
then asks GET_BOOKIE_INFO: with TLS 1.3 only that shows whether our certificate was accepted, and
with SASL only that tells a refused password, to which a bookie says nothing, from a slow answer.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections import deque
from collections.abc import Sequence

from auditor.bookie.link import Link, Listener, open_link
from auditor.config import BookieLimits
from auditor.config.access import SaslLogin, TlsFiles
from auditor.credentials.secret_reading import read_secret
from auditor.credentials.tls_context import shared_context
from auditor.credentials.tls_failures import explain_tls_failure
from auditor.errors import BookieRefused, BookieUnreachable, ConfigError, PeerProtocolError
from auditor.wire.bookie_connection import Answered, AnswerTooLarge
from auditor.wire.digest_md5 import (
    DigestAnswer,
    DigestUser,
    answer_challenge,
    is_challenge,
    proves_password,
)
from auditor.wire.frames import Operation, Status, status_name

AUTH_TIMEOUT_MAX_S = 5.0
"""Longest wait for one response while a connection is made secure, in seconds. A bookie whose
plug-in is not SASL never answers AUTH.
"""
NONCE_BYTES = 16
"""Random bytes in our half of a DIGEST-MD5 exchange."""
SERVICE = "bookkeeper/bookkeeper"
"""The digest-uri of every bookie (SaslConstants)."""

NO_LOGIN_PLUGIN = b"AuthDisabledPlugin"
"""The plug-in that answers AUTH where a bookie has no authentication provider. Its answer is
empty.
"""
PLUGIN_BYTES_SHOWN = 60
"""How much of another plug-in's name is shown, in bytes."""

NO_TLS = (
    "the bookie offers no TLS, and with --bookie-tls on it is not asked in clear: give it"
    " tlsProviderFactoryClass, or set --bookie-tls off"
)
WRONG_LOGIN = (
    "the bookie refused the user name or password (--bookie-sasl-username,"
    " --bookie-sasl-password-file): the user must be in the section Bookie of its JAAS file and"
    " match its saslJaasClientAllowedIds"
)
NO_DIGEST = "the bookie does not offer SASL DIGEST-MD5"
NO_PROOF = (
    "the bookie could not prove that it knows the password: it may be another server in its place"
)
WANTS_SASL = (
    "EUA: the bookie wants authentication that it was not given: set --bookie-sasl digest-md5"
)
WANTS_ROLE = (
    "EUA: the bookie wants more than TLS: a client certificate with one of its authorizedRoles"
    " (--bookie-tls-certificate), or SASL (--bookie-sasl digest-md5)"
)
STILL_UNAUTHORISED = "EUA: the bookie accepted the login and still does not let this client ask"
LOST_AFTER_HANDSHAKE = "as one is that refuses a client certificate or its absence"


class Dialler:
    """Opens links to the bookie at one address. It reads certificates and secrets once."""

    def __init__(self, address: tuple[str, int], limits: BookieLimits) -> None:
        self._host, self._port = address
        self._limits = limits
        self._context: ssl.SSLContext | None = None
        self._user: DigestUser | None = None
        self._failures = 0

    async def open(self, listener: Listener) -> Link:
        """Return a link on which `listener` may ask.

        Raises BookieUnreachable if it is worth trying again, and BookieRefused if it is not.
        """
        access, timeout_s = self._limits.access, self._limits.connect_timeout_ms / 1000
        if not access.is_secured:
            return await open_link(
                listener, self._host, self._port, self._limits.frame_bytes_max, timeout_s
            )
        try:
            if (
                self._context is None and self._user is None
            ):  # In a thread: a command may take COMMAND_TIMEOUT_S.
                await asyncio.to_thread(self._read_credentials, access.tls, access.sasl)
        except ConfigError as error:
            raise BookieRefused(f"we could not read our own credentials: {error}") from None
        replies = _Replies(min(AUTH_TIMEOUT_MAX_S, self._limits.rpc_timeout_ms / 1000))
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
        self, error: BookieUnreachable, replies: _Replies
    ) -> BookieUnreachable | BookieRefused:
        """Return the error, or a refusal if a bookie that answers fails to become secure each time.

        Such a bookie is not silent. A lost connection may be all that it says of our certificate.
        """
        self._failures += replies.has_answered
        if self._failures < self._limits.connect_attempts_max:
            return error
        return BookieRefused(f"{error} ({self._failures} attempts)")

    def _read_credentials(self, tls: TlsFiles | None, sasl: SaslLogin | None) -> None:
        context = None if tls is None else shared_context(tls)
        user = (
            None if sasl is None else DigestUser(sasl.username, read_secret(sasl.password), SERVICE)
        )
        self._context, self._user = context, user

    async def _secure(self, link: Link, replies: _Replies, timeout_s: float) -> None:
        try:
            if self._context is not None:
                await self._start_tls(link, replies, self._context, timeout_s)
            if self._user is not None:
                await self._log_in(link, replies, self._user)
            else:
                await self._check_admitted(link, replies)
            replies.raise_failure()  # It may have come behind the last answer.
        except PeerProtocolError as error:
            raise BookieUnreachable(
                f"the bookie broke the protocol while TLS or a login was set up: {error}"
            ) from None
        except _Lost as lost:
            raise self._after_loss(link.error or lost) from None

    async def _start_tls(
        self, link: Link, replies: _Replies, context: ssl.SSLContext, timeout_s: float
    ) -> None:
        txn_id, frame = link.wire.ask_start_tls()
        replies.pauses_at = txn_id
        link.send(frame)
        answer = await replies.next()
        if answer.status == Status.EBADREQ:
            raise BookieRefused(NO_TLS)
        _require_ok(answer)
        if replies.failure or link.wire.unfinished_bytes:
            raise PeerProtocolError(
                f"it sent more behind its answer to START_TLS ({replies.failure or 'in clear'})"
            )
        try:
            await link.start_tls(context, self._host, timeout_s)
        except OSError as error:
            raise self._after_loss(error) from None

    def _after_loss(self, error: Exception) -> BookieRefused | BookieUnreachable:
        """Return what to raise after `error` ended a connection that was being secured."""
        tls = self._limits.access.tls
        if tls is None:
            return BookieUnreachable(f"the connection was lost during the login: {error}")
        why = explain_tls_failure(error, tls.what, has_certificate=tls.certificate is not None)
        if why:
            return BookieRefused(f"no TLS with {self._host}:{self._port}: {why}")
        return BookieUnreachable(
            f"the connection was lost in or after the TLS handshake ({error}),"
            f" {LOST_AFTER_HANDSHAKE}"
        )

    async def _log_in(self, link: Link, replies: _Replies, user: DigestUser) -> None:
        _, frame = link.wire.ask_auth(b"")
        link.send(frame)
        try:
            challenge = await replies.next()
        except BookieUnreachable:
            answer = await self._ask_info(link, replies)  # Silent to everything, or to AUTH alone?
            if answer.operation != Operation.GET_BOOKIE_INFO:
                raise BookieUnreachable("the bookie was slow to answer AUTH") from None
            raise BookieRefused(f"{NO_DIGEST}: it did not answer AUTH") from None
        if challenge.status == Status.EUA:
            raise BookieRefused(f"{NO_DIGEST} (EUA to AUTH)")
        _require_ok(challenge)
        if not challenge.payload:
            if challenge.extra != NO_LOGIN_PLUGIN:
                plugin = challenge.extra[:PLUGIN_BYTES_SHOWN].decode("utf-8", "replace")
                raise BookieRefused(
                    f"{NO_DIGEST}: its plug-in {plugin!a} answered AUTH without a challenge"
                )
            await self._check_admitted(link, replies)
            return
        if not is_challenge(challenge.payload):
            raise BookieRefused(f"{NO_DIGEST}: its challenge is of another mechanism")
        try:
            proof = answer_challenge(challenge.payload, user, secrets.token_hex(NONCE_BYTES))
        except PeerProtocolError as error:
            raise BookieRefused(f"{NO_DIGEST} as we speak it: {error}") from None
        await self._prove(link, replies, proof)

    async def _prove(self, link: Link, replies: _Replies, answer: DigestAnswer) -> None:
        """Send the answer to the challenge, and behind it a request that tells a silent refusal."""
        _, response = link.wire.ask_auth(answer.response)
        _, info = link.wire.ask_info()
        link.probes += 1
        link.send(response + info)
        reply = await replies.next()
        if (
            reply.status == Status.EUA
        ):  # To AUTH, or to the request behind it: then AUTH gets no answer.
            raise BookieRefused(WRONG_LOGIN)
        _require_ok(reply)
        if reply.operation != Operation.AUTH or not proves_password(reply.payload, answer):
            raise BookieRefused(NO_PROOF)
        if (await replies.next()).status == Status.EUA:
            raise BookieRefused(STILL_UNAUTHORISED)

    async def _check_admitted(self, link: Link, replies: _Replies) -> None:
        if (await self._ask_info(link, replies)).status == Status.EUA:
            raise BookieRefused(
                WANTS_ROLE if self._context is not None and self._user is None else WANTS_SASL
            )

    async def _ask_info(self, link: Link, replies: _Replies) -> Answered:
        _, info = link.wire.ask_info()
        link.probes += 1
        link.send(info)
        return await replies.next()


def _require_ok(answer: Answered) -> None:
    """Raise BookieUnreachable for a status that is no refusal: the bookie may be starting or
    busy.
    """
    if answer.status != Status.EOK:
        what = "START_TLS" if answer.operation == Operation.START_TLS else "AUTH"
        raise BookieUnreachable(f"the bookie answered {status_name(answer.status)} to {what}")


class _Lost(Exception):
    """The connection ended while a response was awaited."""


class _Replies:
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
        """Return the next response. Raises BookieUnreachable if none comes in time, or _Lost."""
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
        """Raise what ended the link, if anything did: PeerProtocolError or _Lost."""
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

    def go_on(self) -> None:
        """Send nothing: the dialler sends by itself."""

    def make_out(self) -> None:
        """Decode nothing."""

    def on_lost(self, link: Link, why: str, *, breach: bool) -> None:
        self._fail(PeerProtocolError(why) if breach else _Lost(why))

    def on_failed(self, error: BaseException) -> None:
        self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self.failure = self.failure or error
        self._wake.set()

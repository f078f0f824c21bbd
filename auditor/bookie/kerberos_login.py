"""The login to a bookie by SASL GSSAPI, with a Kerberos ticket.

A bookie does not answer a ticket that it does not accept. It never answers our last message,
whether it admits us or not: the answer to a further request shows which.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future

from auditor.bookie.link import Link
from auditor.bookie.replies import (
    STILL_UNAUTHORISED,
    AuthUnanswered,
    Replies,
    ask_first_challenge,
    ask_info,
    check_admitted,
    require_ok,
)
from auditor.config.access import KerberosLogin
from auditor.credentials.kerberos import KerberosExchange, KerberosFailed
from auditor.errors import BookieRefused, BookieUnreachable, ConfigError, KdcUnreachable
from auditor.local_faults import local_fault, local_fault_in
from auditor.model.availability import NOT_DIALLED
from auditor.wire.digest_md5 import is_challenge
from auditor.wire.frames import Operation, Status

TICKET_TIMEOUT_S = 30.0
"""Longest wait for a ticket, in seconds. The library gives up a silent KDC after some 25 s."""
ROUNDS_MAX = 4
"""Most tokens of a bookie that are answered. A login takes two."""

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
    """Both are of `prepare`, new for each connection."""

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
            token = await ask_first_challenge(link, replies, self._first_token, NO_KERBEROS)
        except AuthUnanswered:
            raise BookieRefused(self._not_accepted) from None
        if token is None:
            await check_admitted(link, replies, STILL_UNAUTHORISED)
            return
        if is_challenge(token):  # It takes any first message for a request of one.
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
        """Send our last message, which is never answered, and a request whose answer shows whether
        we are admitted.
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
    future.set_running_or_notify_cancel()  # Who gives up does not end the thread, which sets it.

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, name="kerberos", daemon=True).start()
    return await asyncio.wrap_future(future)

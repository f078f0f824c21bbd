"""Await the responses of a bookie one by one while its connection is made secure."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from auditor.bookie.link import Link
from auditor.errors import BookieRefused, BookieUnreachable, PeerProtocolError
from auditor.wire.bookie_connection import Answered, AnswerTooLarge
from auditor.wire.frames import Operation, Status, status_name

NO_LOGIN_PLUGIN = b"AuthDisabledPlugin"
"""The plug-in that answers AUTH on a bookie without an authentication provider. Its answer is
empty.
"""
PLUGIN_BYTES_SHOWN = 60
"""How much of another plug-in's name is shown, in bytes."""
STILL_UNAUTHORISED = "EUA: the bookie accepted the login and still does not let this client ask"


class AuthUnanswered(BookieRefused):
    """The bookie says nothing to AUTH, and answers other requests."""


async def ask_first_challenge(
    link: Link, replies: Replies, token: bytes, not_offered: str
) -> bytes | None:
    """Send the first AUTH, and return the bookie's answer; None if it requires no login.

    `not_offered` begins the sentence about a bookie that does not know the mechanism. Raises
    BookieRefused with it, and BookieUnreachable if the bookie may be slow or starting.
    """
    _, frame = link.wire.ask_auth(token)
    link.send(frame)
    try:
        challenge = await replies.next()
    except BookieUnreachable:
        answer = await ask_info(link, replies)  # Silent to everything, or only to AUTH?
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
    """Return the response to GET_BOOKIE_INFO, or one that came before it."""
    _, info = link.wire.ask_info()
    link.probes += 1
    link.send(info)
    return await replies.next()


async def check_admitted(link: Link, replies: Replies, refusal: str) -> None:
    """Raise BookieRefused with `refusal` if the bookie answers GET_BOOKIE_INFO with EUA."""
    if (await ask_info(link, replies)).status == Status.EUA:
        raise BookieRefused(refusal)


def require_ok(answer: Answered) -> None:
    """Raise BookieUnreachable for a status that is not a refusal: the bookie may be starting or
    busy.
    """
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

    def go_on(self) -> None:
        """Do nothing: the dialler sends by itself."""

    def make_out(self) -> None:
        """Do nothing: there is nothing to decode."""

    def on_lost(self, link: Link, why: str, *, breach: bool) -> None:
        self._fail(PeerProtocolError(why) if breach else Lost(why))

    def on_failed(self, error: BaseException) -> None:
        self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self.failure = self.failure or error
        self._wake.set()

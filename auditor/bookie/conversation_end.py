"""Why a conversation with a bookie ended, in the words of the evidence."""

from __future__ import annotations

from typing import NamedTuple, Self

from auditor.bookie.exchange import FRUITLESS_MAX
from auditor.config import BookieLimits
from auditor.errors import BookieRefused
from auditor.model.availability import NOT_ADMITTED, NOT_DIALLED, Greeting, LanePace

NOT_AUTHORISED = (
    "EUA: the bookie does not let this client ask (not authorised). It may want a login"
    " (--bookie-sasl), or a client certificate (--bookie-tls)"
)


class End(NamedTuple):
    """Why the conversation is over: the bookie's greeting, and the status and detail of every
    question that has no outcome yet."""

    greeting: Greeting
    status: str
    detail: str

    @classmethod
    def refusal(cls, detail: str) -> Self:
        """Return the end of a conversation in which the bookie, or whoever listens there, must not
        be asked.
        """
        return cls(Greeting.REFUSED, "refused", detail)

    @classmethod
    def not_admitted(cls, error: BookieRefused) -> Self:
        """Return the end of a conversation in which the bookie refused our certificate or login."""
        return cls.refusal(f"{NOT_ADMITTED}{error}")

    @classmethod
    def not_authorised(cls) -> Self:
        """Return the end of a conversation in which the bookie answered EUA."""
        return cls.refusal(NOT_AUTHORISED)

    @classmethod
    def without_ticket(cls, limits: BookieLimits) -> Self:
        """Return the end of a conversation that waited for a KDC all its time."""
        return cls(
            Greeting.SILENT,
            "silent",
            f"{NOT_DIALLED}no KDC gave us a Kerberos ticket before the conversation's deadline of"
            f" {limits.deadline_ms} ms passed",
        )

    @classmethod
    def deadline_passed(cls, limits: BookieLimits, pace: LanePace, *, has_answered: bool) -> Self:
        """Return the end of a conversation that used up its whole time."""
        greeting = Greeting.ANSWERED if has_answered else Greeting.SILENT
        detail = f"the conversation's deadline of {limits.deadline_ms} ms passed"
        if pace.is_low:
            detail += (
                f", at the end with {pace.inflight} requests outstanding: the bookie refused"
                " requests, closed connections or became slow"
            )
        return cls(greeting, "silent", detail)

    @classmethod
    def unreachable(cls, trouble: str, attempts: int) -> Self:
        """Return the end of a conversation without a connection. `trouble` says how the last
        attempt failed.
        """
        return cls(Greeting.SILENT, "silent", f"{trouble} ({attempts} attempts)")

    @classmethod
    def barred(cls, trouble: str, attempts: int) -> Self:
        """Return the end of a conversation to which our own host has no way. `trouble` says how the
        last attempt failed.
        """
        said = f"{trouble} ({attempts} attempts)"
        return cls(Greeting.AUDITOR_LIMITED, "auditor_limited", said)

    @classmethod
    def greeting_unanswered(cls, limits: BookieLimits) -> Self:
        """Return the end of a conversation in which GET_BOOKIE_INFO had no reply within its
        time-out.
        """
        within = f"within {limits.rpc_timeout_ms} ms"
        detail = f"connected, but GET_BOOKIE_INFO was not answered {within}"
        return cls(Greeting.SILENT, "silent", detail)

    @classmethod
    def connections_lost(cls, why: str, *, breach: bool) -> Self:
        """Return the end of a conversation that lost FRUITLESS_MAX connections in a row.

        `breach`: the last one by an answer that breaks the protocol.
        """
        detail = (
            f"{FRUITLESS_MAX} connections in a row were lost before a question was answered: {why}"
        )
        return cls(Greeting.ANSWERED, "invalid" if breach else "silent", detail)

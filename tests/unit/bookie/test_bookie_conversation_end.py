"""Why a conversation ended: what stands in the evidence of each question without an outcome."""

from __future__ import annotations

import pytest

from auditor.bookie.conversation import NOT_AUTHORISED, End
from auditor.config import BookieLimits
from auditor.errors import BookieRefused
from auditor.model.availability import NOT_ADMITTED, NOT_DIALLED, Greeting, LanePace

LIMITS = BookieLimits()


@pytest.mark.parametrize(
    ("end", "greeting", "status", "says"),
    [
        (
            End.not_admitted(BookieRefused("no login")),
            Greeting.REFUSED,
            "refused",
            f"{NOT_ADMITTED}no login",
        ),
        (
            End.not_authorised(),
            Greeting.REFUSED,
            "refused",
            NOT_AUTHORISED,
        ),
        (
            End.deadline_passed(LIMITS, LanePace(64, 0.0, is_low=False), has_answered=True),
            Greeting.ANSWERED,
            "silent",
            f"the conversation's deadline of {LIMITS.bookie_deadline_ms} ms passed",
        ),
        (
            End.deadline_passed(LIMITS, LanePace(8, 250.0, is_low=True), has_answered=False),
            Greeting.SILENT,
            "silent",
            f"the conversation's deadline of {LIMITS.bookie_deadline_ms} ms passed, at the end with"
            " 8 requests outstanding: the bookie refused requests, closed connections or became"
            " slow",
        ),
        (End.unreachable("reset", 3), Greeting.SILENT, "silent", "reset (3 attempts)"),
        (
            End.greeting_unanswered(LIMITS),
            Greeting.SILENT,
            "silent",
            f"connected, but GET_BOOKIE_INFO was not answered within {LIMITS.rpc_timeout_ms} ms",
        ),
        (
            End.connections_lost("reset", breach=False),
            Greeting.ANSWERED,
            "silent",
            "20 connections in a row were lost before a question was answered: reset",
        ),
        (
            End.connections_lost("no frame", breach=True),
            Greeting.ANSWERED,
            "invalid",
            "20 connections in a row were lost before a question was answered: no frame",
        ),
    ],
)
def test_each_end_says_how_the_bookie_greeted_and_what_becomes_of_questions(
    end: End, greeting: Greeting, status: str, says: str
):
    """Only a bookie that replied counts as answered; only a breach makes questions invalid."""
    assert (greeting, status, says) == end


@pytest.mark.parametrize(
    ("pace", "more"),
    [
        (LanePace(64, 0.0, is_low=False), ""),
        (LanePace(8, 250.0, is_low=True), ", at the end with 8 requests outstanding: the bookie"),
    ],
)
def test_a_deadline_names_the_pace_where_it_is_below_the_limits(pace: LanePace, more: str) -> None:
    """Otherwise nobody learns that the bookie was slow, and not the auditor."""
    end = End.deadline_passed(LIMITS, pace, has_answered=True)
    begins = f"the conversation's deadline of {LIMITS.bookie_deadline_ms} ms passed"
    assert end.detail.startswith(begins + more) and (bool(more) or end.detail == begins)


def test_who_waits_for_a_kdc_all_the_time_does_not_dial() -> None:
    """Only the detail distinguishes it from a bookie that is silent."""
    says = (
        f"{NOT_DIALLED}no KDC gave us a Kerberos ticket before the conversation's deadline of"
        f" {LIMITS.bookie_deadline_ms} ms passed"
    )
    assert (Greeting.SILENT, "silent", says) == End.without_ticket(LIMITS)

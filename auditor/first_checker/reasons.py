"""The reason that an answer or a read gives a ledger if it says nothing about the entries."""

from __future__ import annotations

from collections.abc import Iterable

from auditor.model.availability import AnswerStatus, ReadStatus
from auditor.model.verdict import Unknown

REASON_OF_ANSWER: dict[AnswerStatus, Unknown] = {
    AnswerStatus.SILENT: Unknown.BOOKIE_SILENT,
    AnswerStatus.UNREGISTERED: Unknown.BOOKIE_SILENT,
    AnswerStatus.TIMED_OUT: Unknown.ANSWER_TIMEOUT,
    AnswerStatus.REFUSED: Unknown.BOOKIE_REFUSED,
    AnswerStatus.FAILED: Unknown.BOOKIE_REFUSED,
    AnswerStatus.INVALID: Unknown.ANSWER_INVALID,
    AnswerStatus.TOO_LARGE: Unknown.ANSWER_TOO_LARGE,
    AnswerStatus.UNSUPPORTED: Unknown.BOOKIE_UNSUPPORTED,
    AnswerStatus.ADDRESS_UNKNOWN: Unknown.ADDRESS_UNKNOWN,
    AnswerStatus.AUDITOR_LIMITED: Unknown.AUDITOR_LIMITED,
}
"""Every answer except the two valid ones."""

REASON_OF_READ: dict[ReadStatus, Unknown] = {
    ReadStatus.SILENT: Unknown.BOOKIE_SILENT,
    ReadStatus.UNREGISTERED: Unknown.BOOKIE_SILENT,
    ReadStatus.TIMED_OUT: Unknown.ANSWER_TIMEOUT,
    ReadStatus.REFUSED: Unknown.BOOKIE_REFUSED,
    ReadStatus.FAILED: Unknown.BOOKIE_REFUSED,
    ReadStatus.INVALID: Unknown.ANSWER_INVALID,
    ReadStatus.CORRUPT: Unknown.ANSWER_INVALID,
    ReadStatus.TOO_LARGE: Unknown.ANSWER_TOO_LARGE,
    ReadStatus.ADDRESS_UNKNOWN: Unknown.ADDRESS_UNKNOWN,
    ReadStatus.AUDITOR_LIMITED: Unknown.AUDITOR_LIMITED,
    ReadStatus.NOT_ASKED: Unknown.BOOKIE_SILENT,
}
"""Every read except the one that brings an entry and the two that prove its absence. A corrupt copy
is not a good copy, but it is not absent either."""


def in_order(reasons: Iterable[Unknown]) -> tuple[Unknown, ...]:
    """Return each of the reasons once, in the catalogue's order."""
    given = set(reasons)
    return tuple(reason for reason in Unknown if reason in given)

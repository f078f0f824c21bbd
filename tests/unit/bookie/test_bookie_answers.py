"""What an event on the wire says as evidence, field by field, without a network."""

from __future__ import annotations

import itertools

import pytest
from support.lanes import LOOK, NOW_MS

from auditor.bookie.questions import Ask, Evidence, ListQuestion, ReadQuestion
from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.wire.bookie_connection import LENGTH_BYTES, Answered, AnswerTooLarge
from auditor.wire.frames import Operation, Status

LEDGER, ENTRY = 7, 3
ASKED_AT_MS = 5
EARLIER_BYTES = 100
"""What a try before this one has brought."""
UNKNOWN_STATUS = 999


def evidence() -> Evidence:
    """A clock that goes on with each look at it."""
    return Evidence("b1", LOOK, 10, 2**20, itertools.count(NOW_MS).__next__)


def ask(question: ListQuestion | ReadQuestion, *, asked_at_ms: int = ASKED_AT_MS) -> Ask:
    """A question on its second try."""
    made = Ask(question)
    made.asked_at_ms, made.requests, made.received_bytes = asked_at_ms, 2, EARLIER_BYTES
    return made


def answered(operation: Operation, status: int, payload: bytes = b"") -> Answered:
    return Answered(1, int(operation), status, payload, 50, False)


def list_event(status: int, payload: bytes = b"") -> Answered:
    return answered(Operation.GET_LIST_OF_ENTRIES_OF_LEDGER, status, payload)


def the_answer(
    status: AnswerStatus, detail: str, received_bytes: int = EARLIER_BYTES + 50
) -> Answer:
    return Answer("b1", LEDGER, LOOK, ASKED_AT_MS, status, b"", detail, 2, 1, received_bytes)


def the_read(
    status: ReadStatus, detail: str, received_bytes: int = EARLIER_BYTES + 50
) -> EntryRead:
    return EntryRead("b1", LEDGER, ENTRY, LOOK, ASKED_AT_MS, status, detail, 2, 1, received_bytes)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (Status.ENOLEDGER, the_answer(AnswerStatus.NO_SUCH_LEDGER, "")),
        (Status.EIO, the_answer(AnswerStatus.FAILED, "EIO: the bookie's storage failed")),
        (Status.EFENCED, the_answer(AnswerStatus.REFUSED, "EFENCED")),
        (UNKNOWN_STATUS, the_answer(AnswerStatus.REFUSED, "status 999")),
    ],
)
def test_a_status_is_an_answer_without_entries(status: int, expected: Answer) -> None:
    """With BookKeeper's word for it, and what it means where we know more; bytes of all tries are
    counted.
    """
    assert expected == evidence().from_event(ask(ListQuestion(LEDGER)), list_event(status))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (Status.ENOENTRY, the_read(ReadStatus.NO_ENTRY, "")),
        (Status.ENOLEDGER, the_read(ReadStatus.NO_LEDGER, "")),
        (Status.EUA, the_read(ReadStatus.REFUSED, "EUA")),
        (Status.EIO, the_read(ReadStatus.FAILED, "EIO: the bookie's storage failed")),
        (
            Status.EOK,
            the_read(ReadStatus.INVALID, "what was read, 0 bytes, is not this entry: too short"),
        ),
    ],
)
def test_a_status_is_a_read_without_an_entry(status: int, expected: EntryRead) -> None:
    """The detail is empty where the status says it all."""
    assert expected == evidence().from_event(
        ask(ReadQuestion(LEDGER, ENTRY)), answered(Operation.READ_ENTRY, status)
    )


def test_what_is_too_large_is_counted_beside_what_came_before() -> None:
    """Its length and the four bytes that say so; for a list and for a read."""
    too_large = AnswerTooLarge(1, 11, 2_000_000, False)
    received, why = (
        EARLIER_BYTES + 2_000_000 + LENGTH_BYTES,
        "the answer has 2000000 bytes, frame_bytes_max accepts 1048576",
    )
    assert the_answer(AnswerStatus.TOO_LARGE, why, received) == evidence().from_event(
        ask(ListQuestion(LEDGER)), too_large
    )
    expected = the_read(ReadStatus.TOO_LARGE, why, received)
    assert expected == evidence().from_event(ask(ReadQuestion(LEDGER, ENTRY)), too_large)


@pytest.mark.parametrize("question", [ListQuestion(LEDGER), ReadQuestion(LEDGER, ENTRY)])
def test_what_was_never_sent_is_dated_now(question: ListQuestion | ReadQuestion) -> None:
    """By the wall clock, asked once; what was sent keeps its date."""
    assert NOW_MS == evidence().without(ask(question, asked_at_ms=0), "silent", "").asked_at_ms
    assert ASKED_AT_MS == evidence().without(ask(question), "silent", "").asked_at_ms

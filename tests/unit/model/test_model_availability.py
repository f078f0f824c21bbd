"""The statuses of answers and reads."""

from dataclasses import FrozenInstanceError

import pytest

from auditor.model.availability import (
    ABSENT_READS,
    VALID_ANSWERS,
    Answer,
    AnswerStatus,
    EntryRead,
    ReadStatus,
)


def test_two_answers_tell_what_is_held() -> None:
    """They are a list, and that the ledger is unknown. Silence, refusals and all others say
    nothing.
    """
    assert {AnswerStatus.HELD, AnswerStatus.NO_SUCH_LEDGER} == VALID_ANSWERS


def test_two_reads_prove_absence() -> None:
    """They are ENOENTRY and ENOLEDGER. A time-out, an unknown status or a closed connection is
    never absence.
    """
    assert {ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER} == ABSENT_READS


def test_what_was_heard_cannot_be_changed_afterwards() -> None:
    """Evidence is written once."""
    answer = Answer("b", 7, 0, 0, AnswerStatus.HELD)
    read = EntryRead("b", 7, 4, 0, 0, ReadStatus.PRESENT)
    with pytest.raises(FrozenInstanceError):
        answer.status = AnswerStatus.SILENT  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        read.status = ReadStatus.NO_ENTRY  # type: ignore[misc]

"""Which looks count for the second checker, and which word of a bookie is its newest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.stories import GRACE_MS, LEDGER, NOW_MS

from auditor.model.availability import NO_COOKIE, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.evidence import Look, Terms
from auditor.model.ledger import LedgerRecord, RecordStatus, ZnodeStamp
from auditor.sandbox.cluster import ledger
from auditor.second_checker.looks import newest_statements

TERMS = Terms(NOW_MS, GRACE_MS, 16, 5)
METADATA = ledger("e2 w2 a1 0:[b1 b2] closed 9")
COPY = ("b1", 4)


def look(
    number: int,
    *,
    version: int = 0,
    answer: AnswerStatus = AnswerStatus.HELD,
    read: ReadStatus | None = None,
) -> Look:
    """Return a look at which b1 gave this answer, and entry 4 was read with this result."""
    record = LedgerRecord(
        LEDGER, number, NOW_MS, RecordStatus.FOUND, ZnodeStamp(1, version, 0), METADATA
    )
    reads = {} if read is None else {COPY: EntryRead("b1", LEDGER, 4, number, NOW_MS, read)}
    return Look(record, {"b1": Answer("b1", LEDGER, number, NOW_MS, answer)}, reads)


def test_what_was_heard_of_other_metadata_does_not_count() -> None:
    """The ledger was written between the looks, and no bookie answered at the second one."""
    before, after = (
        look(1, read=ReadStatus.NO_ENTRY),
        look(2, version=1, answer=AnswerStatus.SILENT),
    )
    heard = newest_statements([before, after], TERMS)
    assert (after,) == heard.looks
    assert (AnswerStatus.SILENT, {}) == (heard.answers["b1"].status, heard.reads)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (AnswerStatus.HELD, AnswerStatus.SILENT, AnswerStatus.HELD),
        (AnswerStatus.SILENT, AnswerStatus.HELD, AnswerStatus.HELD),
        (AnswerStatus.HELD, AnswerStatus.NO_SUCH_LEDGER, AnswerStatus.NO_SUCH_LEDGER),
        (AnswerStatus.REFUSED, AnswerStatus.SILENT, AnswerStatus.SILENT),
    ],
)
def test_no_failure_takes_back_an_answer(
    first: AnswerStatus, second: AnswerStatus, expected: AnswerStatus
) -> None:
    """The newest conclusive word counts; without one, the newest word."""
    assert (
        expected
        is newest_statements([look(1, answer=first), look(2, answer=second)], TERMS)
        .answers["b1"]
        .status
    )


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ((AnswerStatus.HELD, None), (AnswerStatus.UNREGISTERED, True)),
        ((AnswerStatus.UNSUPPORTED, None), (AnswerStatus.UNREGISTERED, True)),
        ((AnswerStatus.HELD, None, AnswerStatus.SILENT), (AnswerStatus.SILENT, False)),
        ((None, AnswerStatus.UNREGISTERED), (AnswerStatus.UNREGISTERED, False)),
        (
            (AnswerStatus.HELD, None, AnswerStatus.NO_SUCH_LEDGER),
            (AnswerStatus.NO_SUCH_LEDGER, False),
        ),
    ],
)
def test_a_bookie_that_is_gone_takes_its_lists_along(
    said: tuple[AnswerStatus | None, ...], expected: tuple[AnswerStatus, bool]
) -> None:
    """A gone bookie has neither registration nor cookie. Its earlier lists count no longer, but its
    later ones do.
    """
    looks = [look(at, answer=one or AnswerStatus.UNREGISTERED) for at, one in enumerate(said)]
    for one, status in zip(looks, said, strict=True):
        if status is None:
            one.answers["b1"] = replace(one.answers["b1"], detail=NO_COOKIE)
    found = newest_statements(looks, replace(TERMS, probe_entries=1)).answers["b1"]
    assert expected == (found.status, found.is_gone)


@pytest.mark.parametrize(
    ("reads", "expected"),
    [
        ([ReadStatus.CORRUPT], set()),
        ([ReadStatus.CORRUPT, ReadStatus.CORRUPT], {COPY}),
        ([ReadStatus.CORRUPT, ReadStatus.PRESENT], set()),
        ([ReadStatus.CORRUPT, ReadStatus.CORRUPT, ReadStatus.PRESENT], set()),
        ([ReadStatus.CORRUPT, ReadStatus.PRESENT, ReadStatus.CORRUPT], set()),
        ([ReadStatus.PRESENT, ReadStatus.CORRUPT, ReadStatus.CORRUPT], {COPY}),
        ([ReadStatus.CORRUPT, ReadStatus.TIMED_OUT, ReadStatus.CORRUPT], {COPY}),
        ([ReadStatus.TIMED_OUT, ReadStatus.CORRUPT], set()),
        ([ReadStatus.NO_ENTRY, ReadStatus.NO_ENTRY], set()),
    ],
)
def test_a_wrong_digest_accuses_when_two_looks_read_it(
    reads: list[ReadStatus], expected: set[tuple[str, int]]
) -> None:
    """It must not have been read correctly since."""
    assert (
        expected
        == newest_statements(
            [look(number, read=read) for number, read in enumerate(reads)], TERMS
        ).corrupt
    )

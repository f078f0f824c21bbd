"""The evidence that a loss needs before it is reported, made by hand: the property fails for
anything less, whatever the product does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from struct import pack

import pytest
from support.model.engines import Judged
from support.model.properties import hasty
from support.stories import GRACE_MS, NOW_MS

from auditor.judging.settle import Step, Todo, settle
from auditor.model.availability import NO_COOKIE, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.finding import Kind
from auditor.model.ledger import LedgerRecord, Mark, RecordStatus, ZnodeStamp
from auditor.sandbox.cluster import ledger

TERMS = Terms(NOW_MS, GRACE_MS, 16, 5)
LEDGER = 7
METADATA = ledger("e2 w2 a2 0:[b1 b2] closed 2")
ALL, WITHOUT_1 = "0 1 2", "0 2"
NOTHING: Mapping[int, ReadStatus] = {}
READ = {1: ReadStatus.NO_ENTRY}

Said = AnswerStatus | str
"""Return an answer: a status, or the entries that a list names."""


def look(
    number: int, said: Said | None, reads: Mapping[int, ReadStatus] = NOTHING, *, version: int = 0
) -> Look:
    """Return a look at which b1 has all entries, and b2 gave these answers; None: no bookie was
    asked.
    """
    record = LedgerRecord(
        LEDGER, number, NOW_MS + number, RecordStatus.FOUND, ZnodeStamp(1, version, 0), METADATA
    )
    if said is None:
        return Look(record)
    answers = {"b1": answer("b1", number, ALL), "b2": answer("b2", number, said)}
    read = {
        ("b2", entry): EntryRead("b2", LEDGER, entry, number, NOW_MS + number, how)
        for entry, how in reads.items()
    }
    return Look(record, answers, read)


def answer(bookie: str, number: int, said: Said) -> Answer:
    listed = [] if isinstance(said, AnswerStatus) else [int(entry) for entry in said.split()]
    status = said if isinstance(said, AnswerStatus) else AnswerStatus.HELD
    groups = b"".join(pack(">qqii", entry, entry, 1, 0) for entry in listed)
    return Answer(
        bookie, LEDGER, number, NOW_MS + number, status, groups, received_bytes=64 + len(groups)
    )


FOUNDED = (look(1, WITHOUT_1, READ), look(2, WITHOUT_1, READ), look(3, None))
VERDICT = settle(LedgerEvidence(LEDGER, FOUNDED), TERMS).verdict
"""A row in which b2 lacks entry 1."""


def said_of(*looks: Look) -> list[str]:
    """Return what is wrong with reporting, on these looks, that b2 lacks entry 1."""
    return list(
        hasty(LEDGER, Judged(LedgerEvidence(LEDGER, looks), Step(VERDICT, Todo.NOTHING), TERMS))
    )


def test_a_loss_that_is_founded_is_not_hasty():
    """Two lists and two reads, and the metadata read again after them, are enough."""
    assert [Kind.ENTRY_BELOW_ACK_QUORUM] == [one.kind for one in VERDICT.findings]
    assert [] == said_of(*FOUNDED)


SILENT = AnswerStatus.SILENT


@pytest.mark.parametrize(
    "first_two",
    [
        (look(1, SILENT), look(2, WITHOUT_1, READ)),
        (look(1, WITHOUT_1, {1: ReadStatus.TIMED_OUT}), look(2, WITHOUT_1, READ)),
        (look(1, ALL), look(2, AnswerStatus.NO_SUCH_LEDGER, {1: ReadStatus.NO_LEDGER})),
        (look(1, WITHOUT_1, {1: ReadStatus.PRESENT}), look(2, WITHOUT_1, READ)),
        (look(1, WITHOUT_1, READ), look(2, WITHOUT_1, READ), look(3, WITHOUT_1, READ)),
    ],
)
def test_the_newest_word_of_each_bookie_counts(first_two: tuple[Look, ...]):
    """Earlier words, or silence, do not count."""
    assert [] == said_of(*first_two, look(4, None))


WRITTEN_SINCE = look(2, WITHOUT_1, READ, version=1), look(3, None, version=1)


@pytest.mark.parametrize(
    ("sentence", "looks"),
    [
        ("asked at 1 look of the same metadata", (look(1, WITHOUT_1, READ), look(2, None))),
        ("asked at 1 look of the same metadata", (look(1, WITHOUT_1, READ), *WRITTEN_SINCE)),
        ("not read again behind the answers", FOUNDED[:2]),
        ("it never said what it holds", (look(1, SILENT), look(2, SILENT), look(3, None))),
        (
            "it never said what it holds",
            (look(1, SILENT, READ), look(2, AnswerStatus.UNREGISTERED), look(3, None)),
        ),
        (
            "it listed [1] and [] could be read",
            (look(1, WITHOUT_1, READ), look(2, ALL), look(3, None)),
        ),
        (
            "it listed [1] and [] could be read",
            (look(1, ALL, READ), look(2, SILENT), look(3, None)),
        ),
        (
            "it listed [] and [1] could be read",
            (look(1, WITHOUT_1, READ), look(2, WITHOUT_1, {1: ReadStatus.PRESENT}), look(3, None)),
        ),
        ("no read there says so", (look(1, WITHOUT_1), look(2, WITHOUT_1), look(3, None))),
        (
            "no read there says so",
            (look(1, WITHOUT_1), look(2, WITHOUT_1, {1: ReadStatus.TIMED_OUT}), look(3, None)),
        ),
        (
            "no read there says so",
            (
                look(1, WITHOUT_1, READ),
                look(2, WITHOUT_1, version=1),
                look(3, WITHOUT_1, version=1),
                look(4, None, version=1),
            ),
        ),
        (
            "no read of 1, the worst entry",
            (look(1, WITHOUT_1, {2: ReadStatus.NO_ENTRY}), look(2, WITHOUT_1), look(3, None)),
        ),
    ],
)
def test_a_loss_that_is_not_founded_is_hasty(sentence: str, looks: tuple[Look, ...]):
    """It was asked too rarely, about other metadata, in vain, or without reads."""
    assert any(sentence in one for one in said_of(*looks)), said_of(*looks)


def test_a_bookie_that_was_not_asked_twice_is_not_accused():
    """That other bookies were asked twice is not enough."""
    first, second, closing = FOUNDED
    others = replace(second, answers={"b1": second.answers["b1"]}, reads={})
    assert ["of ledger 7 b2 is said to lack entries, and it was asked at 1 look"] == said_of(
        first, others, closing
    )


def test_what_a_bookie_held_that_is_gone_is_lost():
    """It had neither registration nor cookie, so it could not be asked. A bookie that is only
    unregistered may hold the entry.
    """
    gone = replace(answer("b2", 1, AnswerStatus.UNREGISTERED), detail=NO_COOKIE)
    bare = [look(1, gone.status), look(2, gone.status), look(3, None)]
    looks = [
        replace(one, answers={**one.answers, "b2": gone}) if one.answers else one for one in bare
    ]
    marked = [replace(one, record=replace(one.record, mark=Mark(NOW_MS))) for one in looks]
    assert [] == said_of(*marked) == said_of(*looks)
    assert ["of ledger 7 b2 is said to lack entries, and it never said what it holds"] == said_of(
        *bare
    )

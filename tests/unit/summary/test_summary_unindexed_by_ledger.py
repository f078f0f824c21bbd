"""Entries that a bookie sends although its index lacks them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.model.availability import LISTER_CONTRADICTED, Answer, AnswerStatus, MissingLog
from auditor.model.evidence import LedgerEvidence, Look
from auditor.model.ledger import LedgerRecord, RecordStatus, ZnodeStamp
from auditor.summary.doubted_lists import FLUSHED_AFTER_MS, denying_bookies, unindexed_on

NOBODY: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (Answer("b1", 7, 1, FLUSHED_AFTER_MS + 5, AnswerStatus.HELD, read_unlisted=(9, 4)),
        {"b1": 4}),
        (Answer("b1", 7, 1, FLUSHED_AFTER_MS + 4, AnswerStatus.HELD, read_unlisted=(9, 4)), {}),
        (Answer("b1", 7, 1, FLUSHED_AFTER_MS + 5, AnswerStatus.HELD), {}),
        (
            Answer(
                "b1", 7, 1, FLUSHED_AFTER_MS + 5, AnswerStatus.HELD,
                missing_logs=(MissingLog("x", 1, ((4, 4),)),), read_unlisted=(4,),
            ),
            {},
        ),
    ],
)  # fmt: skip
def test_they_are_reported_once_the_bookie_must_have_flushed(
    answer: Answer, found: dict[str, int]
) -> None:
    """The time counts from the last write of the metadata. Entries in a missing log are indexed."""
    record = LedgerRecord(7, 1, 0, RecordStatus.FOUND, ZnodeStamp(1, 0, 0, 5))
    assert found == unindexed_on(LedgerEvidence(7, (Look(record, {"b1": answer}, {}),)), NOBODY)


def test_the_lowest_of_all_looks_is_reported() -> None:
    """Bookies are sorted by id. The time counts from the newest write of the metadata."""
    sent = {("b2", 1): (4, 9), ("b2", 2): (9,), ("b1", 2): (7,), ("b3", 1): (1,)}
    looks = []
    for look, written_ms in ((1, 0), (2, 5)):
        at_ms = FLUSHED_AFTER_MS + 5
        answers = {
            bookie: Answer(
                bookie, 7, look, at_ms - (bookie == "b3"), AnswerStatus.HELD, read_unlisted=unlisted
            )
            for (bookie, seen_at), unlisted in sent.items()
            if seen_at == look
        }
        record = LedgerRecord(7, look, 0, RecordStatus.FOUND, ZnodeStamp(1, 0, 0, written_ms))
        looks.append(Look(record, answers, {}))
    found = unindexed_on(LedgerEvidence(7, tuple(looks)), NOBODY)
    assert [("b1", 7), ("b2", 4)] == list(found.items())


def test_without_metadata_nothing_is_known_of_its_age() -> None:
    """No entry is reported."""
    answer = Answer("b1", 7, 1, 10 * FLUSHED_AFTER_MS, AnswerStatus.HELD, read_unlisted=(4,))
    record = LedgerRecord(7, 1, 0, RecordStatus.GONE)
    assert {} == unindexed_on(LedgerEvidence(7, (Look(record, {"b1": answer}, {}),)), NOBODY)


def test_a_bookie_that_contradicted_its_lister_is_not_reported() -> None:
    """Its lister may read the index of another directory. It does not matter on which ledger or at
    which look that showed.
    """
    sent = Answer("b1", 7, 1, FLUSHED_AFTER_MS, AnswerStatus.UNSUPPORTED, read_unlisted=(4,))
    denied = Answer("b1", 8, 2, 0, AnswerStatus.INVALID, detail=f"{LISTER_CONTRADICTED}so")
    record = LedgerRecord(7, 1, 0, RecordStatus.FOUND, ZnodeStamp(1, 0, 0, 0))
    hit = LedgerEvidence(7, (Look(record, {"b1": sent, "b2": replace(sent, bookie_id="b2")}, {}),))
    other = LedgerEvidence(8, (Look(record, {}, {}), Look(record, {"b1": denied}, {})))
    assert frozenset() == denying_bookies([hit])
    assert {"b1"} == denying_bookies([hit, other])
    assert ["b1", "b2"] == list(unindexed_on(hit, denying_bookies([hit])))
    assert ["b2"] == list(unindexed_on(hit, denying_bookies([hit, other])))

"""The field `unindexed` of a summary: entries that a bookie sends although its index lacks them."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from support.tables_in_memory import Tables

from auditor.evidence.rows import answer_row, greeting_row, ledger_row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, LEDGERS
from auditor.model.availability import (
    LISTER_CONTRADICTED,
    Answer,
    AnswerStatus,
    Greeting,
    MissingLog,
)
from auditor.model.codec import encode
from auditor.model.ledger import LedgerRecord, RecordStatus, ZnodeStamp
from auditor.summary.assurance import BOOKIES_NAMED_MAX
from auditor.summary.doubted_lists import FLUSHED_AFTER_MS, LEDGERS_NAMED_MAX, unindexed_bookies

SENT = Answer("b1", 7, 1, FLUSHED_AFTER_MS + 5, AnswerStatus.HELD, read_unlisted=(9, 4))
READ = LedgerRecord(7, 1, 0, RecordStatus.FOUND, ZnodeStamp(1, 0, 0, 5))


def run(*answers: Answer, ledgers: tuple[LedgerRecord, ...] = (READ,)) -> Place:
    """Return a run with a greeting, these answers, and these looks at ledgers."""
    rows = [greeting_row("b1", 1, 0, Greeting.ANSWERED, ""), *map(answer_row, answers)]
    made = Tables()
    made.write_table("evidence/answers", table(ANSWERS, rows), "all")
    made.write_table("evidence/ledgers", table(LEDGERS, list(map(ledger_row, ledgers))), "all")
    return cast(Place, made)


def test_each_bookie_has_its_ledgers_with_the_lowest_entry() -> None:
    """Answers of all looks count. Bookies and ledgers are sorted."""
    answers = [
        replace(SENT, bookie_id="b2"),
        replace(SENT, look=2, read_unlisted=(5,)),
        SENT,
        replace(SENT, ledger_id=3),
    ]
    expected = [
        {"bookie_id": "b1", "ledgers": 2, "some": [[3, 4], [7, 4]]},
        {"bookie_id": "b2", "ledgers": 1, "some": [[7, 4]]},
    ]
    ledgers = (READ, replace(READ, ledger_id=3))
    assert expected == encode(unindexed_bookies(run(*answers, ledgers=ledgers)))
    assert expected == encode(unindexed_bookies(run(*reversed(answers), ledgers=ledgers)))


def test_only_a_bookie_that_must_have_flushed_is_named() -> None:
    """The time counts from the newest write of the metadata. Without metadata nothing is known."""
    later = replace(READ, look=2, stamp=ZnodeStamp(1, 1, 0, 6))
    gone = LedgerRecord(7, 3, 0, RecordStatus.GONE)
    assert [] == encode(unindexed_bookies(run(replace(SENT, asked_at_ms=FLUSHED_AFTER_MS + 4))))
    assert [] == encode(unindexed_bookies(run(SENT, ledgers=(later, READ))))
    assert (
        []
        == encode(unindexed_bookies(run(SENT, ledgers=(gone,))))
        == encode(unindexed_bookies(run(SENT, ledgers=())))
    )
    assert 1 == len(
        encode(
            unindexed_bookies(
                run(replace(SENT, asked_at_ms=FLUSHED_AFTER_MS + 6), ledgers=(gone, later, READ))
            )
        )
    )


def test_what_lies_in_a_missing_log_is_indexed() -> None:
    """The index names the log. An answer without unlisted entries does not count either."""
    assert [] == encode(
        unindexed_bookies(run(replace(SENT, missing_logs=(MissingLog("x", 1, ((4, 4),)),))))
    )
    assert [] == encode(unindexed_bookies(run(replace(SENT, read_unlisted=()))))


def test_a_bookie_that_contradicted_its_lister_is_not_named() -> None:
    """The lister may read the index of another directory. The contradiction may come at any
    look.
    """
    made = run(SENT, replace(SENT, bookie_id="b2"))
    denied = greeting_row("b1", 2, 0, Greeting.ANSWERED, f"{LISTER_CONTRADICTED}it lists entry 3")
    made.write_table("evidence/answers", table(ANSWERS, [denied]), "second")
    assert ["b2"] == [one["bookie_id"] for one in encode(unindexed_bookies(made))]


def test_bookies_and_ledgers_are_bounded() -> None:
    """The first ones are named, and all ledgers of a bookie are counted."""
    bookies, ledgers = (
        [f"b{n:02}" for n in range(BOOKIES_NAMED_MAX + 1)],
        range(LEDGERS_NAMED_MAX + 1),
    )
    answers = [replace(SENT, bookie_id=bookie, ledger_id=n) for bookie in bookies for n in ledgers]
    objects = encode(
        unindexed_bookies(run(*answers, ledgers=tuple(replace(READ, ledger_id=n) for n in ledgers)))
    )
    assert bookies[:BOOKIES_NAMED_MAX] == [one["bookie_id"] for one in objects]
    assert {LEDGERS_NAMED_MAX + 1} == {one["ledgers"] for one in objects}
    assert [[n, 4] for n in range(LEDGERS_NAMED_MAX)] == objects[0]["some"]

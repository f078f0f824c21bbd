"""Lost entry logs as they are read from the evidence of a run."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import cast

import pytest
from support.tables_in_memory import Tables

from auditor.evidence.rows import answer_row, greeting_row, read_row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, READS
from auditor.findings.lost_logs import judge_lost_logs, lost_logs
from auditor.model.availability import (
    LISTED_BY_LISTER,
    Answer,
    AnswerStatus,
    EntryRead,
    Greeting,
    MissingLog,
    ReadStatus,
)
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.facts import EntryLogLostFacts, LostLog
from auditor.model.finding import Finding, Kind

UP = BookieRecord("b1", 1, 0, Registration.WRITABLE, "h", 3181, True, "", Greeting.ANSWERED)
RECORDS = [replace(UP, bookie_id=bookie, look=look) for bookie in ("b1", "b2") for look in (1, 2)]
LOG = MissingLog("/data/1f.log", 4, ((4, 7),))
LISTED = Answer(
    "b1", 7, 1, 10, AnswerStatus.HELD, detail=f"{LISTED_BY_LISTER}h:1", missing_logs=(LOG,)
)
EIO = EntryRead("b1", 7, 4, 1, 10, ReadStatus.FAILED, "EIO: x")
LISTS = [replace(LISTED, bookie_id=bookie, look=look) for bookie in ("b1", "b2") for look in (1, 2)]
READ = [replace(EIO, bookie_id=bookie, look=look) for bookie in ("b1", "b2") for look in (1, 2)]
FACTS = EntryLogLostFacts(
    "writable", "h:3181", "h:1", 1, 1, 4, (LostLog(LOG.path, 1, 4, ((7, 4, 7),), 2),)
)


def evidence(answers: list[Answer], reads: list[EntryRead]) -> Tables:
    """Return the evidence in random order, with a greeting, and a list and a read that do not
    concern lost logs.
    """
    table_rows = [
        greeting_row("b1", 1, 0, Greeting.ANSWERED, ""),
        answer_row(replace(LISTED, ledger_id=1, missing_logs=())),
    ]
    table_rows += map(answer_row, answers)
    read = [read_row(one) for one in (*reads, EntryRead("b1", 1, 5, 1, 0, ReadStatus.PRESENT))]
    for rows in (table_rows, read):
        Random("lost logs").shuffle(rows)
    run = Tables()
    run.write_table("evidence/answers", table(ANSWERS, table_rows), "all")
    run.write_table("evidence/reads", table(READS, read), "all")
    return run


def judge(
    answers: list[Answer],
    reads: list[EntryRead],
    records: list[BookieRecord] = RECORDS,
    away: frozenset[str] = frozenset(),
) -> list[Finding]:
    """Return the findings on lost entry logs."""
    run = cast(Place, evidence(answers, reads))
    looks = [{one.bookie_id: one for one in records if one.look == look} for look in (1, 2)]
    return judge_lost_logs(looks, lost_logs(run), away)


def test_each_bookie_that_lost_a_log_is_found() -> None:
    """A bookie's own lists and reads count. A doubt about one bookie does not affect another."""
    both = [Finding(Kind.ENTRY_LOG_LOST, FACTS, bookie_id=bookie) for bookie in ("b1", "b2")]
    assert both == judge(LISTS, READ)
    assert both[1:] == judge(LISTS, [*READ, replace(EIO, entry_id=5, status=ReadStatus.PRESENT)])
    assert both[1:] == judge([replace(LISTS[0], read_unlisted=(4,)), *LISTS[1:]], READ)
    assert both[:1] == judge(
        LISTS,
        READ,
        [*RECORDS[:2], *(replace(one, registration=Registration.NONE) for one in RECORDS[2:])],
    )


def test_a_read_of_a_search_does_not_count_for_a_log() -> None:
    """It was not made because a list lacks the entry."""
    brought = replace(EIO, entry_id=5, status=ReadStatus.PRESENT, is_search=True)
    assert FACTS == judge(LISTS[:2], [*READ, brought])[0].facts
    assert [] == judge(LISTS[:2], [READ[0], replace(READ[1], is_search=True)])


def test_the_lister_is_that_of_the_newest_list() -> None:
    """Lists are ordered by look, then by time, then by ledger."""
    late = replace(LISTED, ledger_id=3, look=2, asked_at_ms=20, detail=f"{LISTED_BY_LISTER}h:3")
    others = [
        replace(LISTED, ledger_id=4, look=1, asked_at_ms=90, detail=f"{LISTED_BY_LISTER}h:4"),
        replace(LISTED, ledger_id=9, look=2, asked_at_ms=19, detail=f"{LISTED_BY_LISTER}h:5"),
        replace(LISTED, ledger_id=2, look=2, asked_at_ms=20, detail=f"{LISTED_BY_LISTER}h:6"),
    ]
    (found,) = judge([late, *others, *LISTS[:2]], READ)
    assert replace(FACTS, lister="h:3") == found.facts


def test_each_log_of_a_list_counts() -> None:
    """One answer may name several missing logs."""
    other = MissingLog("/data/20.log", 3, ((9, 9), (11, 12)))
    lists = [replace(one, missing_logs=(other, LOG)) for one in LISTS[:2]]
    (found,) = judge(lists, [*READ, *(replace(one, entry_id=12) for one in READ)])
    assert isinstance(found.facts, EntryLogLostFacts)
    assert (*FACTS.some_logs, LostLog(other.path, 1, 3, ((7, 9, 9),), 2)) == found.facts.some_logs


@pytest.mark.parametrize(
    ("records", "away"),
    [
        (RECORDS, frozenset({"b1", "b2"})),
        ([replace(one, greeting=Greeting.REFUSED) for one in RECORDS], frozenset[str]()),
        ([], frozenset[str]()),
    ],
)
def test_nothing_is_found_in_maintenance_or_where_nobody_serves(
    records: list[BookieRecord], away: frozenset[str]
) -> None:
    """A bookie that no look saw has no finding either."""
    assert [] == judge(LISTS, READ, records, away)


def test_a_run_without_missing_logs_does_not_scan_the_reads() -> None:
    """In a healthy cluster only the answers are scanned."""
    run = evidence([], [])
    assert {} == lost_logs(cast(Place, run))
    assert ["evidence/answers"] == run.asked

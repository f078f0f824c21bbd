"""Entry logs that are not on a bookie's disk: reported, nearly reported, and their witness."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.findings.lost_logs import judge_lost_logs, logs_of, withheld_lost_logs
from auditor.model.availability import (
    LISTED_BY_LISTER,
    Answer,
    AnswerStatus,
    EntryRead,
    Greeting,
    MissingLog,
    ReadStatus,
)
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.facts import EntryLogLostFacts, LostLog
from auditor.model.finding import Finding, Kind, Severity
from auditor.witness.finding_lines import bookie_testimony
from auditor.witness.next_commands import sort_steps

CLUSTER = ClusterFacts("zk://h/ledgers", ("h",), "/ledgers", "hierarchical", "id", False, None)
UP = BookieRecord("b1", 1, 0, Registration.WRITABLE, "h", 3181, greeting=Greeting.ANSWERED)
LOOKS = [{"b1": UP}, {"b1": replace(UP, look=2)}]
LOG = MissingLog("/data/current/1f.log", 40, ((10, 29), (50, 69)))
HELD = Answer(
    "b1", 7, 1, 0, AnswerStatus.HELD, detail=f"{LISTED_BY_LISTER}h:3182", missing_logs=(LOG,)
)
EIO = EntryRead("b1", 7, 10, 1, 0, ReadStatus.FAILED, "EIO: the bookie's storage failed")
TWICE = (HELD, replace(HELD, look=2))
FAILED = (EIO, replace(EIO, look=2, entry_id=69))


def found(
    answers: tuple[Answer, ...] = TWICE,
    reads: tuple[EntryRead, ...] = FAILED,
    away: frozenset[str] = frozenset(),
) -> list[Finding]:
    return judge_lost_logs(LOOKS, logs_of(answers, reads), away)


def test_a_log_that_is_missing_at_two_looks_and_fails_reads_is_lost() -> None:
    """The finding has the file, the ledgers, the entries and the reads; it is critical, and on the
    bookie.
    """
    other = replace(HELD, ledger_id=8, missing_logs=(MissingLog(LOG.path, 3, ((0, 2),)),))
    once = replace(HELD, ledger_id=9)
    (one,) = found((*TWICE, other, replace(other, look=2), once))
    facts = EntryLogLostFacts(
        "writable",
        "h:3181",
        "h:3182",
        1,
        2,
        43,
        (LostLog(LOG.path, 2, 43, ((7, 10, 29), (8, 0, 2)), 2),),
    )
    assert Finding(Kind.ENTRY_LOG_LOST, facts, bookie_id="b1") == one
    assert Severity.CRITICAL is one.severity


@pytest.mark.parametrize(
    "reads",
    [
        (),
        FAILED[:1],
        (EIO, replace(EIO, entry_id=11)),
        (EIO, replace(FAILED[1], entry_id=30)),
        (EIO, replace(FAILED[1], ledger_id=8)),
        (EIO, replace(FAILED[1], bookie_id="b2")),
        (EIO, replace(FAILED[1], detail="EUA: not authorised")),
        (EIO, replace(FAILED[1], status=ReadStatus.TIMED_OUT)),
        (EIO, replace(FAILED[1], status=ReadStatus.NO_ENTRY, detail="")),
        (*FAILED, replace(EIO, entry_id=12, status=ReadStatus.PRESENT, detail="")),
        (*FAILED, replace(EIO, entry_id=12, status=ReadStatus.CORRUPT, detail="")),
    ],
)
def test_the_bookie_itself_must_fail_to_read_it_at_two_looks(reads: tuple[EntryRead, ...]) -> None:
    """Reads of an entry in that log must fail with EIO, and none may return one: a lister that
    looks in the wrong place accuses nobody.
    """
    assert [] == found(reads=reads)


def test_what_was_read_behind_the_list_counts_too() -> None:
    """The lister said that the log is gone, but the bookie sent an entry."""
    assert [] == found((replace(HELD, read_unlisted=(29,)), TWICE[1]))
    assert 1 == len(found((replace(HELD, read_unlisted=(30,)), TWICE[1])))


@pytest.mark.parametrize(
    "answers",
    [
        TWICE[:1],
        (HELD, replace(TWICE[1], missing_logs=(replace(LOG, path="/data/current/20.log"),))),
        (HELD, replace(TWICE[1], ledger_id=8)),
    ],
)
def test_the_same_log_must_be_missing_at_two_looks(answers: tuple[Answer, ...]) -> None:
    """A log that was collected during the search is not a loss."""
    assert [] == found(answers)


def test_nothing_is_found_on_a_bookie_in_maintenance_or_not_registered() -> None:
    """The same holds if no bookie answered."""
    assert [] == found(away=frozenset({"b1"}))
    logs = logs_of(TWICE, FAILED)
    gone = replace(UP, look=2, registration=Registration.NONE, greeting=Greeting.UNREGISTERED)
    assert [] == judge_lost_logs([LOOKS[0], {"b1": gone}], logs)
    refusing = {"b1": replace(UP, greeting=Greeting.REFUSED)}
    assert [] == judge_lost_logs([refusing, refusing], logs)


def test_a_bookie_is_reported_as_it_was_last_seen() -> None:
    """The finding has the bookie as registered at the last look that has it, wherever it is now."""
    moved = replace(UP, look=3, registration=Registration.READONLY, port=3182)
    unregistered = replace(UP, look=2, registration=Registration.NONE)
    (one,) = judge_lost_logs(
        [LOOKS[0], {"b1": unregistered}, {"b1": moved}, {"b2": UP}], logs_of(TWICE, FAILED)
    )
    assert isinstance(one.facts, EntryLogLostFacts)
    assert ("readonly", "h:3182") == (one.facts.registration, one.facts.address)


@pytest.mark.parametrize(
    ("reads", "why"),
    [
        (FAILED[:1], "not confirmed at two looks"),
        ((*FAILED, replace(EIO, entry_id=12, status=ReadStatus.PRESENT)), "could be read"),
    ],
)
def test_what_is_not_confirmed_is_said(reads: tuple[EntryRead, ...], why: str) -> None:
    """A log that is not confirmed as lost is named in a sentence."""
    (sentence,) = withheld_lost_logs(logs_of(TWICE, reads), [])
    assert why in sentence and LOG.path in sentence and "b1" in sentence


def test_keys_of_a_deleted_ledger_are_not_worth_a_sentence() -> None:
    """Such keys stay in the index for a while after their log. No read failed, and none returned an
    entry, so no sentence is written.
    """
    gone = replace(EIO, status=ReadStatus.NO_LEDGER, detail="")
    assert [] == withheld_lost_logs(logs_of(TWICE, (gone,)), [])
    assert [] == withheld_lost_logs(logs_of(TWICE, FAILED), found())


def test_a_bookie_without_a_sentence_hides_no_other() -> None:
    """The first bookie was reported, the second has keys of a deleted ledger, the third is not
    confirmed: the third has a sentence.
    """
    answers = [replace(HELD, bookie_id=bookie) for bookie in ("b1", "b2", "b3")]
    reads = (EIO, replace(EIO, bookie_id="b3"))
    (sentence,) = withheld_lost_logs(logs_of(answers, reads), found())
    assert "bookie b3" in sentence


def test_a_stronger_finding_is_named() -> None:
    """A bookie has at most one finding of its family; the sentence names it."""
    lost = replace(found()[0], kind=Kind.BOOKIE_LOST_CONTENT)
    (sentence,) = withheld_lost_logs(logs_of(TWICE, FAILED), [lost])
    assert "BOOKIE_LOST_CONTENT explains it" in sentence


def test_the_witness_names_the_file_and_what_lies_in_it() -> None:
    """The witness has the file and its contents, and what to run: the file is put back before
    anything is copied.
    """
    (one,) = found()
    testimony = bookie_testimony(one, [UP, UP], CLUSTER)
    assert (
        "/data/current/1f.log: at least 40 entries are indexed there, such as entries 10 to 29 of"
        " ledger 7; 2 reads of them ended in EIO and none brought one." in testimony.witness
    )
    assert "At least 40 entries of 1 ledger lie in what is missing." in testimony.witness
    assert "ls -l /data/current/1f.log" == sort_steps(testimony.next).look[0]
    assert ["put the file back", "bookkeeper shell recover -l 7 b1"] == [
        command.removeprefix("CHANGES THE CLUSTER: ").partition(":")[0]
        for command in testimony.next
        if command.startswith("CHANGES")
    ]

"""Which bookies the second checker counts as searched for entries without a copy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.stories import groups

from auditor.first_checker.coverage import Answers, Reads
from auditor.model.availability import NO_COOKIE, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.cluster import Surroundings
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.facts import EntryFacts, Search
from auditor.model.finding import Kind
from auditor.model.ledger import LedgerRecord, RecordStatus, ZnodeStamp
from auditor.sandbox.cluster import ledger
from auditor.second_checker.opinion import judge_entry_by_entry

LEDGER, NOW_MS = 7, 10_000
AROUND = Surroundings(writable=frozenset({"b1", "b2", "x1"}))
TERMS = Terms(NOW_MS, 1_000, 16, 5, stranded_entries_max=16, around=AROUND)
UNASKED = Answer("b1", LEDGER, 1, NOW_MS, AnswerStatus.UNREGISTERED, detail=NO_COOKIE)


@pytest.mark.parametrize("status", [ReadStatus.UNREGISTERED, None])
def test_a_bookie_that_is_gone_is_not_looked_at(status: ReadStatus | None) -> None:
    """It was registered when the run began, and is gone now. It does not matter whether a read was
    tried.
    """
    answers = {b: replace(UNASKED, bookie_id=b) for b in ("b1", "b2")}
    said = {("x1", 0): ReadStatus.NO_LEDGER} | ({("b2", 0): status} if status else {})
    reads = {
        (bookie, entry): EntryRead(bookie, LEDGER, entry, 1, NOW_MS, word, is_search=True)
        for (bookie, entry), word in said.items()
    }
    assert Search(4, 0, 0, 0, ("x1",)) == search(answers, reads)


def test_a_bookie_that_registered_since_the_run_began_is_looked_at_by_its_list() -> None:
    """Its list names an entry that belongs on another bookie."""
    terms = replace(TERMS, around=Surroundings(writable=frozenset({"b2"})))
    lists = {"b1": groups({1}), "b2": groups(set())}
    answers = {
        b: Answer(b, LEDGER, 1, NOW_MS, AnswerStatus.HELD, held) for b, held in lists.items()
    }
    absent = dict.fromkeys((("b1", 0), ("b1", 2), ("b2", 1), ("b2", 3)), ReadStatus.NO_ENTRY)
    reads = {
        (bookie, entry): EntryRead(bookie, LEDGER, entry, 1, NOW_MS, word)
        for (bookie, entry), word in absent.items()
    }
    expected = Search(4, 1, 0, 0, ("b1", "b2"), ("b1",), found_first=(1,))
    assert expected == search(answers, reads, terms)


def test_only_reads_of_entries_without_a_copy_are_a_search() -> None:
    """What a bookie without a list returns of other entries proves nothing about those."""
    answers = {
        "b1": UNASKED,
        "b2": Answer("b2", LEDGER, 1, NOW_MS, AnswerStatus.HELD, groups({1, 3})),
    }
    said = {0: ReadStatus.NO_ENTRY, 1: ReadStatus.PRESENT, 9: ReadStatus.PRESENT}
    reads = {
        ("x1", entry): EntryRead("x1", LEDGER, entry, 1, NOW_MS, word, is_search=True)
        for entry, word in said.items()
    }
    assert Search(1, 0, 0, 1, ("b2", "x1")) == search(answers, reads)


def test_a_bookie_without_a_list_is_searched_if_its_reads_were_answered() -> None:
    """Five bookies: one did not answer, one returned a wrong entry, one was not asked because of
    the limit, one does not know the ledger, and one has the entry.
    """
    answers = {
        "b1": UNASKED,
        "b2": Answer("b2", LEDGER, 1, NOW_MS, AnswerStatus.HELD, groups({1, 3})),
    }
    said = {
        "x1": ReadStatus.TIMED_OUT,
        "x2": ReadStatus.CORRUPT,
        "x3": ReadStatus.NOT_ASKED,
        "x4": ReadStatus.NO_LEDGER,
        "x5": ReadStatus.PRESENT,
    }
    reads = {
        (bookie, 0): EntryRead(bookie, LEDGER, 0, 1, NOW_MS, word, is_search=True)
        for bookie, word in said.items()
    }
    terms = replace(TERMS, around=Surroundings(writable=frozenset({"b1", "b2", *said})))
    assert Search(
        1,
        1,
        1,
        1,
        searched=("b2", "x2", "x4", "x5"),
        found_on=("x5",),
        found_unnamed=("x5",),
        corrupt_on=("x2",),
        unheard=("x1",),
        not_asked=("x3",),
        found_first=(0,),
    ) == search(answers, reads, terms)


def search(
    answers: Answers,
    reads: Reads,
    terms: Terms = TERMS,
    text: str = "e2 w1 a1 0:[b1 b2] closed 3",
) -> Search | None:
    """Return the search in a ledger of four entries on b1 and b2, some of which were lost."""
    metadata, stamp = ledger(text), ZnodeStamp(1, 0, NOW_MS)
    record = LedgerRecord(LEDGER, 1, NOW_MS, RecordStatus.FOUND, stamp, metadata)
    looks = (Look(record, answers, reads),) * 2
    findings = judge_entry_by_entry(LedgerEvidence(LEDGER, looks), terms).findings
    (found,) = (one for one in findings if one.kind is not Kind.ENTRIES_BEYOND_END)
    assert isinstance(found.facts, EntryFacts)
    return found.facts.search

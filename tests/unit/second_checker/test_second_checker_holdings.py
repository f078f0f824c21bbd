"""The second checker's reading of one bookie: a list with the reads behind it, reads alone, or
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import pack

import pytest
from support.entry_words import list_testimony_of, words_of
from support.stories import LEDGER, NOW_MS, groups

from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.verdict import Unknown
from auditor.second_checker.holdings import (
    ABSENT,
    HELD,
    UNKNOWN,
    reads_testimony,
)

PRESENT, NO_ENTRY, NO_LEDGER = ReadStatus.PRESENT, ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER
TIMED_OUT, CORRUPT = ReadStatus.TIMED_OUT, ReadStatus.CORRUPT

Read = tuple[int, ReadStatus]
"""The look, and the result of the read."""


def reads_of(reads: Mapping[int, Read]) -> dict[int, EntryRead]:
    return {
        entry: EntryRead("b1", LEDGER, entry, number, NOW_MS, status)
        for entry, (number, status) in reads.items()
    }


def listing(
    *of: tuple[int, int, int, int], received: int = 0, status: AnswerStatus = AnswerStatus.HELD
) -> Answer:
    """Return an answer of these groups: first, last, size, period."""
    return Answer(
        "b1",
        LEDGER,
        0,
        NOW_MS,
        status,
        b"".join(pack(">qqii", *one) for one in of),
        received_bytes=received,
    )


@pytest.mark.parametrize(
    ("reads", "words", "why"),
    [
        ({}, {}, set()),
        ({1: (0, PRESENT), 2: (0, NO_ENTRY)}, {1: HELD, 2: ABSENT}, set()),
        ({1: (0, PRESENT), 2: (0, TIMED_OUT)}, {1: HELD, 2: UNKNOWN}, {Unknown.ANSWER_TIMEOUT}),
        ({1: (0, TIMED_OUT)}, {1: UNKNOWN}, {Unknown.ANSWER_TIMEOUT}),
        ({1: (0, CORRUPT)}, {1: UNKNOWN}, {Unknown.ANSWER_INVALID}),
        ({1: (1, NO_LEDGER), 2: (1, PRESENT)}, {1: ABSENT, 2: HELD}, set()),
        ({1: (1, NO_LEDGER), 2: (2, PRESENT)}, {1: ABSENT, 2: HELD}, set()),
        ({1: (1, NO_LEDGER), 2: (2, NO_ENTRY)}, {1: ABSENT, 2: ABSENT}, set()),
        ({1: (1, NO_LEDGER), 2: (1, CORRUPT)}, {1: ABSENT, 2: UNKNOWN}, {Unknown.ANSWER_INVALID}),
    ],
)
@pytest.mark.parametrize("all_due", [True, False])
def test_what_was_not_read_counts_as_held_when_all_that_is_due_was_read(
    reads: Mapping[int, Read], words: Mapping[int, int], why: set[Unknown], all_due: bool
) -> None:
    """At least one of the reads must be conclusive. Otherwise the rest is unknown; if reads are
    missing, because the bookie cannot list.
    """
    found = reads_testimony(reads_of(reads), all_due_were_made=all_due)
    says_something = {HELD, ABSENT} & set(words.values())
    rest = HELD if all_due and says_something else UNKNOWN
    assert (words, rest) == (found.by_entry, found.rest)
    assert [words.get(entry, rest) for entry in range(4)] == words_of(found, 0, 3)
    assert (why | (set() if all_due else {Unknown.BOOKIE_UNSUPPORTED})) == found.why
    assert {
        entry for entry, (_, status) in reads.items() if status is not TIMED_OUT
    } == found.answered


@pytest.mark.parametrize(
    "reads",
    [
        {1: (1, NO_LEDGER)},
        {1: (2, NO_LEDGER), 2: (1, PRESENT)},
        {1: (2, NO_LEDGER), 2: (1, CORRUPT)},
        {1: (2, NO_LEDGER), 2: (2, NO_ENTRY), 3: (3, TIMED_OUT)},
    ],
)
@pytest.mark.parametrize("all_due", [True, False])
def test_an_unknown_ledger_speaks_for_every_entry(reads: Mapping[int, Read], all_due: bool) -> None:
    """Only the newest answered look can contradict it with an entry. A look without an answer
    changes nothing.
    """
    found = reads_testimony(reads_of(reads), all_due_were_made=all_due)
    assert (ABSENT, {}, set()) == (found.rest, found.by_entry, found.why)
    assert {
        entry for entry, (_, status) in reads.items() if status is not TIMED_OUT
    } == found.answered


HONEST_LAST = {1024: (0, PRESENT), 7: (0, NO_ENTRY)}
INVALID, TIMEOUT = {Unknown.ANSWER_INVALID}, {Unknown.ANSWER_TIMEOUT}


@pytest.mark.parametrize(
    ("highest", "reads", "rest", "why"),
    [
        (9, {}, UNKNOWN, TIMEOUT),
        (9, {7: (0, NO_ENTRY)}, ABSENT, TIMEOUT),
        (9, {7: (0, NO_LEDGER)}, ABSENT, TIMEOUT),
        (9, {7: (0, NO_ENTRY), 8: (0, TIMED_OUT)}, UNKNOWN, TIMEOUT),
        (9, {7: (0, NO_ENTRY), 8: (0, ReadStatus.REFUSED)}, UNKNOWN, {Unknown.BOOKIE_REFUSED}),
        (9, {8: (0, PRESENT)}, UNKNOWN, INVALID),
        (9, {7: (0, NO_ENTRY), 8: (0, PRESENT)}, UNKNOWN, INVALID),
        (1024, HONEST_LAST, ABSENT, TIMEOUT),
        (2048, HONEST_LAST, UNKNOWN, INVALID),
        (1024, {8: (0, PRESENT), **HONEST_LAST}, UNKNOWN, INVALID),
        (1025, {1025: (0, PRESENT), 7: (0, NO_ENTRY)}, UNKNOWN, INVALID),
        (9, {5: (0, CORRUPT)}, UNKNOWN, INVALID),
        (9, {5: (0, CORRUPT), 7: (0, NO_ENTRY)}, ABSENT, INVALID),
        (9, {7: (0, NO_ENTRY), 8: (0, CORRUPT)}, UNKNOWN, INVALID),
        (9, {5: (0, NO_ENTRY)}, UNKNOWN, TIMEOUT),
    ],
)
def test_what_a_list_lacks_is_absent_where_every_read_was_in_vain(
    highest: int, reads: Mapping[int, Read], rest: int, why: set[Unknown]
) -> None:
    """Only entry 5 is listed. The highest entry may be missing from the list if it is the first one
    of its page.
    """
    answer = Answer("b1", LEDGER, 0, NOW_MS, AnswerStatus.HELD, groups({5}))
    found = list_testimony_of(answer, 3, highest, reads_of(reads))
    assert (rest, why) == (found.rest, found.why)
    assert sum(status is PRESENT for _, status in reads.values()) == found.present_unlisted
    words = {PRESENT: HELD, NO_ENTRY: ABSENT, NO_LEDGER: ABSENT}
    expected = {
        e: words.get(status, UNKNOWN)
        for e, (_, status) in reads.items()
        if e != 5 or status is CORRUPT
    }
    assert expected == found.by_entry


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("gap", [0, 1, 2])
def test_every_small_group_is_written_out_in_every_block(size: int, gap: int) -> None:
    """One to five runs, touching or apart, from entry 3 on, agree with the definition of a
    group.
    """
    for runs in range(1, 6):
        period = size + gap if runs > 1 else 0
        named = {3 + run * period + place for run in range(runs) for place in range(size)}
        said = list_testimony_of(listing((3, 3 + (runs - 1) * period, size, period)), 3, -1, {})
        for low in range(max(named) + 1):
            for high in range(low, max(named) + 3):
                assert [entry in named for entry in range(low, high + 1)] == [
                    word == HELD for word in words_of(said, low, high)
                ]


def test_what_was_read_far_behind_costs_what_the_block_costs() -> None:
    """Three entries are at the far end of a ledger, and two of them were read."""
    last = 2**62
    reads = reads_of({last - 1: (0, PRESENT), last: (0, NO_ENTRY)})
    assert [UNKNOWN, HELD, ABSENT] == words_of(
        reads_testimony(reads, all_due_were_made=False), last - 2, last
    )

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
    gone_testimony,
    reads_testimony,
    unheard_testimony,
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


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, Unknown.BOOKIE_SILENT),
        (AnswerStatus.SILENT, Unknown.BOOKIE_SILENT),
        (AnswerStatus.TIMED_OUT, Unknown.ANSWER_TIMEOUT),
        (AnswerStatus.REFUSED, Unknown.BOOKIE_REFUSED),
        (AnswerStatus.INVALID, Unknown.ANSWER_INVALID),
    ],
)
def test_a_bookie_without_an_answer_is_unknown_for_a_reason(
    status: AnswerStatus | None, expected: Unknown
) -> None:
    """It was not asked, or did not answer."""
    found = unheard_testimony(None if status is None else Answer("b1", LEDGER, 0, NOW_MS, status))
    assert (UNKNOWN, {expected}, {}) == (found.rest, found.why, found.by_entry)


def test_a_bookie_that_is_gone_holds_nothing() -> None:
    """Every entry is absent."""
    assert [ABSENT, ABSENT] == words_of(gone_testimony(), 3, 4)


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


def test_a_bookie_that_knows_no_such_ledger_and_shows_its_entry_0_contradicts_itself() -> None:
    """A list may omit entry 0; but here there is no list."""
    found = list_testimony_of(
        listing(status=AnswerStatus.NO_SUCH_LEDGER),
        3,
        0,
        reads_of({0: (0, PRESENT), 3: (0, NO_ENTRY)}),
    )
    assert (UNKNOWN, INVALID) == (found.rest, found.why)


@pytest.mark.parametrize(
    ("entry", "is_named"),
    [
        (4, False),
        (5, True),
        (6, True),
        (7, False),
        (9, True),
        (14, True),
        (15, False),
        (19, False),
        (20, True),
        (22, True),
        (23, False),
    ],
)
def test_a_list_names_the_entries_of_its_runs(entry: int, is_named: bool) -> None:
    """Three runs of two from 5 on, four apart; and one run from 20 to 22."""
    found = list_testimony_of(
        listing((5, 13, 2, 4), (20, 20, 3, 0)), 3, 22, reads_of({entry: (0, PRESENT)})
    )
    assert (0 if is_named else 1) == found.present_unlisted


def strange(runs: int, period: int = 7, size: int = 1, first: int = 0) -> tuple[int, int, int, int]:
    """Return a list of so many runs, so far apart."""
    return first, first + (runs - 1) * period, size, period


@pytest.mark.parametrize(
    ("answer", "is_believed"),
    [
        (listing(strange(10_000)), True),
        (listing(strange(10_001)), False),
        (listing(strange(10_050), received=24 * 10_050), True),
        (listing(strange(10_050), received=24 * 10_050 - 1), False),
        (listing(strange(6_000), strange(6_000, first=50_000)), False),
        (listing(strange(10_001, period=48)), True),
        (listing(strange(10_001, period=51)), False),
        (listing(strange(10_001, period=49)), False),
        (listing(strange(10_001, size=7)), True),
        (listing(*(strange(16, first=1_000 * n) for n in range(700))), True),
        (listing(*(strange(17, first=1_000 * n) for n in range(700))), False),
        (listing(*(strange(2, first=20 * n) for n in range(10_001))), True),
        (listing((0, 0, 2**31 - 1, 0)), True),
        (listing((0, 0, 1, 0), strange(10_001, first=2)), False),
    ],
)
def test_a_list_may_tell_only_so_many_runs_in_a_way_that_no_ledger_has(
    answer: Answer, is_believed: bool
) -> None:
    """With an ensemble of three, runs 3 to 48 apart are usual, and so are runs that touch; fewer
    than 17 are few.
    """
    found = list_testimony_of(answer, 3, -1, {})
    assert found.rest == UNKNOWN
    assert (TIMEOUT if is_believed else INVALID, is_believed) == (found.why, bool(found.listed))


def test_what_was_read_at_the_ends_of_a_block_is_reported_and_what_is_beyond_is_not() -> None:
    """Entries 2 to 5 were read; the block is 3 to 4."""
    found = list_testimony_of(
        listing(),
        3,
        9,
        reads_of({2: (0, PRESENT), 3: (0, NO_ENTRY), 4: (0, PRESENT), 5: (0, NO_ENTRY)}),
    )
    assert [ABSENT, HELD] == words_of(found, 3, 4)


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


def test_every_group_that_reaches_into_a_block_is_written_out() -> None:
    """Of four single entries the first and the last are outside the block of 3 to 7."""
    said = list_testimony_of(listing(*((entry, entry, 1, 0) for entry in (1, 3, 5, 9))), 3, -1, {})
    assert [HELD, UNKNOWN, HELD, UNKNOWN, UNKNOWN] == words_of(said, 3, 7)

"""The second checker piece by piece: where entries belong, what a list names, which entries of a
long ledger are looked at.
"""

from __future__ import annotations

import itertools
from random import Random

import pytest
from support.entry_by_entry import in_groups
from support.entry_words import list_testimony_of, words_of
from support.stories import GRACE_MS, LEDGER, NOW_MS, groups

from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus, SequenceGroup
from auditor.model.evidence import Terms
from auditor.model.identity import ENTRY_ID_MAX
from auditor.sandbox.cluster import ledger
from auditor.second_checker.blocks import POINTS_MAX, blocks, stretches
from auditor.second_checker.holdings import ABSENT, HELD, UNKNOWN
from auditor.wire.entry_availability import canonical

TERMS = Terms(NOW_MS, GRACE_MS, 16, 5)


@pytest.mark.parametrize(
    ("entry", "bookies"),
    [
        (0, ("b1", "b2")),
        (1, ("b2", "b3")),
        (2, ("b3", "b1")),
        (7, ("b2", "b3")),
        (12, ("b4", "b2")),
    ],
)
def test_an_entry_is_written_to_the_positions_from_its_own_id_on(
    entry: int, bookies: tuple[str, ...]
) -> None:
    """The position is that of RoundRobinDistributionSchedule with the absolute entry id, also
    behind an ensemble change at 10.
    """
    parts = stretches(ledger("e3 w2 a2 0:[b1 b2 b3] 10:[b4 b2 b3] closed 19"))
    (mine,) = (part for part in parts if part.first <= entry <= part.last)
    assert bookies == mine.bookies_of(entry)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("e3 w2 a2 0:[b1 b2 b3] closed 19", [(0, 19)]),
        ("e3 w2 a2 0:[b1 b2 b3] 10:[b4 b2 b3] closed 19", [(0, 9), (10, 19)]),
        ("e3 w2 a2 0:[b1 b2 b3] 20:[b4 b2 b3] closed 19", [(0, 19)]),
        ("e3 w2 a2 0:[b1 b2 b3] 10:[b4 b2 b3] closed 10", [(0, 9), (10, 10)]),
        ("e3 w2 a2 0:[b1 b2 b3] 10:[b4 b2 b3] 20:[b1 b2 b3] closed 5", [(0, 5)]),
        ("e3 w2 a2 0:[b1 b2 b3] 10:[b4 b2 b3] closed", [(0, 9)]),
        ("e3 w2 a2 0:[b1 b2] 10:[b4 b2 b3] closed 19", [(10, 19)]),
        ("e1 w1 a1 0:[b1] closed 19", [(0, 19)]),
        ("e3 w2 a2 0:[b1 b2 b3] closed -1", []),
        ("e3 w2 a2 0:[b1 b2 b3] open", []),
    ],
)
def test_entries_are_judged_where_their_end_is_clear(
    text: str, expected: list[tuple[int, int]]
) -> None:
    """These are the segments of a closed ledger that hold an entry, except one with an ensemble of
    another size.
    """
    assert expected == [(part.first, part.last) for part in stretches(ledger(text))]


@pytest.mark.parametrize("seed", range(200))
def test_a_list_is_written_out_as_its_groups_say(seed: int) -> None:
    """Any block of any list agrees with the definition of a group."""
    draw = Random(seed)
    single = [
        SequenceGroup(at, at, 1, 0) for at in sorted(draw.sample(range(300), draw.randint(0, 150)))
    ]
    start, period = 400, draw.randint(2, 9)
    size, runs = draw.randint(1, period), draw.randint(2, 40)
    whole = SequenceGroup(start, start + (runs - 1) * period, size, period)
    answer = Answer("b1", LEDGER, 0, NOW_MS, AnswerStatus.HELD, canonical([*single, whole]))
    low = draw.randint(0, 500)
    high = low + draw.randint(0, 300)
    said = words_of(list_testimony_of(answer, 3, -1, {}), low, high)
    assert [in_groups(answer.groups, entry) for entry in range(low, high + 1)] == [
        word == HELD for word in said
    ]


def test_a_list_that_speaks_of_more_entries_than_there_is_time_costs_what_is_looked_at() -> None:
    """Two groups name 2^62 entries, and five of them are requested."""
    size = 2**31 - 1
    answer = Answer(
        "b1",
        LEDGER,
        0,
        NOW_MS,
        AnswerStatus.HELD,
        canonical([SequenceGroup(0, size * 2**31, size, size + 1)]),
    )
    said = words_of(list_testimony_of(answer, size + 1, -1, {}), size - 2, size + 2)
    assert [HELD, HELD, UNKNOWN, HELD, HELD] == said


def test_of_a_long_ledger_a_bounded_number_of_entries_is_looked_at() -> None:
    """The number is bounded, however many edges the lists have. The entries that the first checker
    claims are included.
    """
    parts = stretches(ledger(f"e3 w2 a2 0:[b1 b2 b3] closed {ENTRY_ID_MAX}"))
    claimed = [2**40 + 7]
    chosen, is_whole = blocks(LEDGER, parts, {"b1": range(0, 10**7, 50)}, claimed, TERMS)
    assert not is_whole
    assert sum(block.high - block.low + 1 for block in chosen) <= 7 * (POINTS_MAX + 100)
    assert [(0, ENTRY_ID_MAX)] == [(chosen[0].low, chosen[-1].high)]
    assert any(block.low <= claimed[0] <= block.high for block in chosen)
    assert all(before.high + 1 < after.low for before, after in itertools.pairwise(chosen))


@pytest.mark.parametrize(
    ("status", "word"),
    [(ReadStatus.PRESENT, HELD), (ReadStatus.NO_LEDGER, ABSENT), (ReadStatus.REFUSED, UNKNOWN)],
)
def test_what_was_read_goes_before_what_was_listed(status: ReadStatus, word: int) -> None:
    """A list lacks entry 7, but it reads back."""
    answer = Answer("b1", LEDGER, 0, NOW_MS, AnswerStatus.HELD, groups({6}))
    read = EntryRead("b1", LEDGER, 7, 0, NOW_MS, status)
    assert [HELD, word] == words_of(list_testimony_of(answer, 3, 7, {7: read}), 6, 7)

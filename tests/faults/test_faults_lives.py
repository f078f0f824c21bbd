"""The detector finds what happened to which ledger in runs of two lives with superfluous
questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from faults.detector import Breach, Sort
from faults.frames import Said
from faults.harm import Log
from faults.lives import Life, Question, breaches_of_lives
from faults.reported import Heard, Judged, Read, Reported

SHARD_LEDGERS = 6
SHARDS = (range(1, 7), range(7, 13))
LATER = (4, 7, 10)
"""Ledgers that are looked at twice."""
BOOKIES = ("b1", "b2")
OWED = {ledger: frozenset({Judged("sound")}) for shard in SHARDS for ledger in shard}
FIRST = [Question("b1", 1, ledger) for ledger in SHARDS[0]] + [
    Question("b2", 1, ledger) for ledger in SHARDS[0]
]
"""What the first life committed; it was killed among the lists of the second shard."""
CUT = [Question("b1", 1, ledger) for ledger in (7, 8, 9)] + [
    Question("b2", 1, ledger) for ledger in (7, 8)
]
SECOND = [
    *(Question(bookie, 1, ledger) for bookie in BOOKIES for ledger in SHARDS[1]),
    Question("b1", 1, 7, 3),
    *(Question(bookie, 2, ledger) for bookie in BOOKIES for ledger in LATER),
    Question("b1", 2, 7, 3),
]


def held(ledger: int) -> frozenset[int]:
    """Return what a bookie holds of a ledger. No two ledgers have the same."""
    return frozenset(range(ledger))


def found(
    first: Sequence[Question], second: Sequence[Question], committed: Sequence[Question] = FIRST
) -> list[Breach]:
    """Return what the detector finds if this was asked in the two lives and the run's outputs are
    right.
    """
    log = Log()
    for number, asked in enumerate((first, second)):
        if number:
            log.mark("gone on with")
        for txn_id, one in enumerate(asked):
            operation = "list" if one.entry_id is None else "read"
            said = Said(operation, txn_id, one.ledger_id, one.entry_id)
            if one.entry_id is None:
                reply = replace(said, status="held", entries=held(one.ledger_id))
            else:
                reply = replace(said, status="no_entry")
            log.add(one.bookie, number, said, said, "passed", reply=False)
            log.add(one.bookie, number, reply, reply, "passed", reply=True)
    lists = [one for one in (*FIRST, *SECOND) if one.entry_id is None]
    answers = [
        (one.bookie, one.look, (one.ledger_id,), Heard("held", held(one.ledger_id)))
        for one in lists
    ]
    reads = [
        (one.bookie, one.look, (one.ledger_id, one.entry_id), Read("no_entry"))
        for one in SECOND
        if one.entry_id is not None
    ]
    reported = Reported(answers, [(ledger, Judged("sound")) for ledger in OWED], False, reads)
    ends = (committed, [one for one in (*FIRST, *SECOND) if one not in set(committed)])
    lives = [Life(seen, mine) for seen, mine in zip(log.epochs(), ends, strict=True)]
    return breaches_of_lives(lives, reported, OWED, SHARD_LEDGERS)


def test_the_stage_that_was_cut_down_may_be_asked_again():
    """Only the questions of the killed stage may be repeated."""
    assert [] == found([*FIRST, *CUT], SECOND)
    assert [] == found(FIRST, SECOND)


ASKED: Mapping[str, tuple[Sequence[Question], Sequence[Question], set[tuple[Sort, int]]]] = {
    "a committed list when it goes on": (
        [*FIRST, *CUT],
        [FIRST[3], *SECOND],
        {(Sort.DUPLICATION, 4)},
    ),
    "a committed list at the end": ([*FIRST, *CUT], [*SECOND, FIRST[3]], {(Sort.DUPLICATION, 4)}),
    "a committed shard": (
        [*FIRST, *CUT],
        [*FIRST, *SECOND],
        {(Sort.DUPLICATION, ledger) for ledger in SHARDS[0]},
    ),
    "a read twice when it goes on": (
        [*FIRST, *CUT],
        [*SECOND, SECOND[-1]],
        {(Sort.DUPLICATION, 7)},
    ),
    "a list twice in the stage that was cut down": (
        [*FIRST, *CUT, CUT[0]],
        SECOND,
        {(Sort.DUPLICATION, 7)},
    ),
    "a list twice in a stage that was over": (
        [FIRST[0], *FIRST, *CUT],
        SECOND,
        {(Sort.DUPLICATION, 1)},
    ),
    "more than one shard not committed": (
        [*FIRST, *(Question("b1", 1, ledger) for ledger in (7, 8, 9, 10, 11, 12, 1))],
        [*SECOND],
        {(Sort.DUPLICATION, 1)},
    ),
    "a list that no stage ever had": ([*FIRST, Question("b1", 1, 700)], SECOND, {(Sort.LOSS, 700)}),
    "a committed list never": ([*FIRST[1:], *CUT], SECOND, {(Sort.CORRUPTION, 1)}),
    "a list that was cut down never again": (
        [*FIRST, *CUT],
        [SECOND[0], *SECOND[2:]],
        {(Sort.CORRUPTION, 8)},
    ),
}


@pytest.mark.parametrize("what", ASKED)
def test_planted_among_questions(what: str):
    """Each is reported with its sort and its ledger, and nothing else is."""
    first, second, expected = ASKED[what]
    assert expected == {(breach.sort, breach.ledger_id) for breach in found(first, second)}


def test_the_window_shows_what_went_before():
    """It has the last four questions of that bookie in that life, up to the superfluous one."""
    (breach,) = found([*FIRST, *CUT], [*SECOND, FIRST[3]])
    assert ("b1 in life 2, lists", (7, 10, 7, 4)) == (breach.sequence, breach.window)

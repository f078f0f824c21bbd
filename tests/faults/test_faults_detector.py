"""The detector is shown each of the four, planted into outputs and into the log, and tells them apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from faults.detector import WINDOW, Breach, Heard, Judged, Row, Sort, Told, breaches
from faults.frames import Said
from faults.harm import Log

LEDGERS = range(1, 13)
BOOKIES = ("b1", "b2")
LATER = (4, 7, 10)
"""Ledgers that are looked at twice."""
Verdicts = list[tuple[int, Judged]]


def held(ledger: int) -> frozenset[int]:
    """What a bookie holds of a ledger: of none the same as of another."""
    return frozenset(range(ledger))


def verdict(ledger: int) -> Judged:
    return Judged("violated", ("ENTRY_WITHOUT_REPLICA",)) if ledger in LATER else Judged("sound")


def log() -> Log:
    """Each bookie asked about each ledger at the first look, and about some at the second."""
    seen = Log()
    for look, ledgers in ((1, LEDGERS), (2, LATER)):
        if look == 2:
            seen.mark("pause 1")
        for bookie in BOOKIES:
            for ledger in ledgers:
                asked, said = Said("list", ledger, ledger), Said("list", ledger, ledger, None, "held", held(ledger))
                seen.add(bookie, 0, asked, asked, "passed", reply=False)
                seen.add(bookie, 0, said, said, "passed", reply=True)
    return seen


def told() -> Told:
    """Outputs that say what the log says."""
    answers = [
        (bookie, look, ledger, Heard("held", held(ledger)))
        for look, ledgers in ((1, LEDGERS), (2, LATER))
        for bookie in BOOKIES
        for ledger in ledgers
    ]
    return Told(answers, [(ledger, verdict(ledger)) for ledger in LEDGERS], in_order=True)


def found(outputs: Told) -> list[Breach]:
    return breaches(log(), outputs, {ledger: frozenset({verdict(ledger)}) for ledger in LEDGERS})


def swapped(rows: list[tuple[int, Judged]], one: int, other: int) -> list[tuple[int, Judged]]:
    """The two rows in each other's place."""
    order = {one: other, other: one}
    by_ledger = dict(rows)
    return [(order.get(ledger, ledger), by_ledger[order.get(ledger, ledger)]) for ledger, _ in rows]


VERDICTS: Mapping[str, tuple[Sort, Callable[[Verdicts], Verdicts]]] = {
    "no verdict on 7": (Sort.LOSS, lambda rows: [row for row in rows if row[0] != 7]),
    "no verdict on the last": (Sort.LOSS, lambda rows: rows[:-1]),
    "two verdicts on 7": (Sort.DUPLICATION, lambda rows: [*rows, rows[6]]),
    "4 and 7 in each other's place": (Sort.REORDERING, lambda rows: swapped(rows, 4, 7)),
    "4 and 1 with each other's verdict": (
        Sort.REORDERING,
        lambda rows: [(n, verdict({4: 1, 1: 4}.get(n, n))) for n, _ in rows],
    ),
    "7 with nobody's verdict": (Sort.CORRUPTION, lambda rows: [(n, Judged("exempt") if n == 7 else one) for n, one in rows]),
    "7 sound against its loss": (Sort.CORRUPTION, lambda rows: [(n, Judged("sound") if n == 7 else one) for n, one in rows]),
    "a ledger that nobody asked about": (Sort.CORRUPTION, lambda rows: [*rows, (700, Judged("sound"))]),
}


@pytest.mark.parametrize("what", VERDICTS)
def test_planted_among_verdicts(what: str):
    """One sort of breach is told, and it is the planted one."""
    sort, plant = VERDICTS[what]
    outputs = told()
    assert {sort} == {breach.sort for breach in found(replace(outputs, verdicts=plant(list(outputs.verdicts))))}


def at(rows: list[Row], bookie: str, look: int, ledger: int) -> int:
    return next(n for n, row in enumerate(rows) if row[:3] == (bookie, look, ledger))


def exchanged(rows: list[Row], one: int, other: int, *, states: bool) -> list[Row]:
    """b2's rows of the first look on two ledgers in each other's place, or with each other's answer."""
    first, second = at(rows, "b2", 1, one), at(rows, "b2", 1, other)
    changed = list(rows)
    if states:
        changed[first], changed[second] = (*rows[first][:3], rows[second][3]), (*rows[second][:3], rows[first][3])
    else:
        changed[first], changed[second] = rows[second], rows[first]
    return changed


def without(rows: list[Row], bookie: str, look: int, ledger: int) -> list[Row]:
    place = at(rows, bookie, look, ledger)
    return rows[:place] + rows[place + 1 :]


def said_of(rows: list[Row], ledger: int, heard: Heard) -> list[Row]:
    place = at(rows, "b2", 1, ledger)
    return [*rows[:place], ("b2", 1, ledger, heard), *rows[place + 1 :]]


ANSWERS: Mapping[str, tuple[Sort, Callable[[list[Row]], list[Row]]]] = {
    "no row on 7": (Sort.LOSS, lambda rows: without(rows, "b2", 1, 7)),
    "no row of the second look": (Sort.LOSS, lambda rows: without(rows, "b1", 2, 10)),
    "two rows on 7": (Sort.DUPLICATION, lambda rows: [*rows, rows[at(rows, "b2", 1, 7)]]),
    "7 before 4": (Sort.REORDERING, lambda rows: exchanged(rows, 4, 7, states=False)),
    "4 with the answer on 7 and 7 with that on 4": (Sort.REORDERING, lambda rows: exchanged(rows, 4, 7, states=True)),
    "an entry more on 7": (Sort.CORRUPTION, lambda rows: said_of(rows, 7, Heard("held", held(7) | {99}))),
    "an entry less on 7": (Sort.CORRUPTION, lambda rows: said_of(rows, 7, Heard("held", held(7) - {0}))),
    "7 is unknown there": (Sort.CORRUPTION, lambda rows: said_of(rows, 7, Heard("no_such_ledger", frozenset()))),
    "an answer that was never asked for": (Sort.CORRUPTION, lambda rows: [*rows, ("b1", 1, 700, Heard("held", held(7)))]),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_planted_among_answers(what: str):
    """The same for each bookie's answers, look by look, in the order that its proxy saw."""
    sort, plant = ANSWERS[what]
    outputs = told()
    assert {sort} == {breach.sort for breach in found(replace(outputs, answers=plant(list(outputs.answers))))}


def test_nothing_planted_is_nothing_found():
    """Outputs that say what was seen are no breach."""
    assert [] == found(told())


def test_an_answer_that_was_not_heard_is_no_breach():
    """Silence may follow any request: what a ledger is owed then is the plan's affair."""
    assert [] == found(replace(told(), answers=said_of(list(told().answers), 7, Heard("timed_out"))))


def test_a_window_shows_what_went_before():
    """The last four of the part that the ledger is in, up to it."""
    outputs = told()
    (breach,) = found(replace(outputs, verdicts=[*outputs.verdicts, (10, verdict(10))]))
    assert (Sort.DUPLICATION, 10, (1, 4, 7, 10), WINDOW) == (breach.sort, breach.ledger_id, breach.window, len(breach.window))

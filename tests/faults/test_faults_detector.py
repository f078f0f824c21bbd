"""The detector finds each of the four sorts of breach, planted into outputs and into the log, and
distinguishes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import pytest
from faults.detector import Breach, Sort, breaches
from faults.frames import Said
from faults.harm import Log
from faults.planting import exchange, harmed, held
from faults.reported import Heard, Judged, Loss, Read, Reported, Row
from faults.windows import WINDOW

LEDGERS = (5, 2, 1, 4, 7, 10, 3, 6, 9, 8, 11, 12)
"""Ledgers in the order in which they are read and asked about, which is not that of their ids."""
BOOKIES = ("b1", "b2")
LATER = (4, 7, 10)
"""Ledgers looked at twice; 4 is looked at a third time after the same pause. At each look b2 is
read for two entries of each.
"""
LOOKS = (LEDGERS, LATER, (4,))
ENTRIES = (7, 8)
STORED = b"the entry as it is stored"
Verdicts = list[tuple[int, Judged]]


def verdict(ledger: int) -> Judged:
    """Return a verdict. No two ledgers with a loss have the same."""
    if ledger not in LATER:
        return Judged("sound")
    runs = ((ledger, ledger),)
    return Judged(
        "violated",
        losses=(Loss("ENTRY_WITHOUT_REPLICA", runs, (("b2", runs),), (0, 20), (1, 1, 0, 0)),),
    )


def log(first_look: Callable[[Log], object] = lambda seen: None) -> Log:
    """Return a log in which the metadata of each ledger is read and both bookies are asked; later
    looks too, with one pause, before the second.

    `first_look` is added after the other questions of the first look.
    """
    seen = Log()
    for look, ledgers in enumerate(LOOKS, start=1):
        if look == 2:
            first_look(seen)
            seen.mark("pause 1")
        named = tuple(ledgers)
        read = Said("multi_read", look, metadata_of=named, marks_of=named)
        seen.add("zookeeper", 0, read, read, "passed", reply=False)
        for bookie in BOOKIES:
            for ledger in ledgers:
                asked = Said("list", ledger + 100 * look, ledger)
                exchange(seen, bookie, asked, replace(asked, status="held", entries=held(ledger)))
        for ledger, entry in read_of(ledgers):
            asked = Said("read", ledger * 10 + entry + 1000 * look, ledger, entry)
            status, body = ("present", STORED) if entry == ENTRIES[1] else ("no_entry", b"")
            exchange(seen, "b2", asked, replace(asked, status=status, body=body))
    return seen


def read_of(ledgers: Iterable[int]) -> list[tuple[int, int]]:
    return [(ledger, entry) for ledger in ledgers if ledger in LATER for entry in ENTRIES]


def reported() -> Reported:
    """Return outputs that agree with the log."""
    answers = [
        (bookie, look, (ledger,), Heard("held", held(ledger)))
        for look, ledgers in enumerate(LOOKS, start=1)
        for bookie in BOOKIES
        for ledger in ledgers
    ]
    reads = [
        ("b2", look, key, Read("present" if key[1] == ENTRIES[1] else "no_entry"))
        for look, ledgers in enumerate(LOOKS, start=1)
        for key in read_of(ledgers)
    ]
    return Reported(answers, [(ledger, verdict(ledger)) for ledger in LEDGERS], True, reads)


def found(outputs: Reported, seen: Log | None = None) -> list[Breach]:
    return breaches(
        seen or log(), outputs, {ledger: frozenset({verdict(ledger)}) for ledger in sorted(LEDGERS)}
    )


def swapped(rows: Verdicts, one: int, other: int) -> Verdicts:
    """Return the rows with two of them in each other's place."""
    order = {one: other, other: one}
    by_ledger = dict(rows)
    return [(order.get(ledger, ledger), by_ledger[order.get(ledger, ledger)]) for ledger, _ in rows]


def said_as(rows: Verdicts, **verdicts: Judged) -> Verdicts:
    return [(n, verdicts.get(f"of_{n}", one)) for n, one in rows]


def changed(ledger: int, **other: object) -> Judged:
    """Return the verdict with a part of its loss changed."""
    one = verdict(ledger)
    return replace(one, losses=(replace(one.losses[0], **other),))  # type: ignore[arg-type]


VERDICTS: Mapping[str, tuple[Sort, Callable[[Verdicts], Verdicts]]] = {
    "no verdict on 7": (Sort.LOSS, lambda rows: [row for row in rows if row[0] != 7]),
    "no verdict on the last": (Sort.LOSS, lambda rows: rows[:-1]),
    "two verdicts on 7": (Sort.DUPLICATION, lambda rows: [*rows, (7, verdict(7))]),
    "4 and 7 in each other's place": (Sort.REORDERING, lambda rows: swapped(rows, 4, 7)),
    "in the order of the ids": (Sort.REORDERING, lambda rows: sorted(rows, key=lambda row: row[0])),
    "4 and 1 with each other's verdict": (
        Sort.REORDERING,
        lambda rows: said_as(rows, of_4=verdict(1), of_1=verdict(4)),
    ),
    "4 and 7 with each other's loss": (
        Sort.REORDERING,
        lambda rows: said_as(rows, of_4=verdict(7), of_7=verdict(4)),
    ),
    "7 with nobody's verdict": (
        Sort.CORRUPTION,
        lambda rows: said_as(rows, of_7=Judged("exempt", "open")),
    ),
    "7 sound against its loss": (Sort.CORRUPTION, lambda rows: said_as(rows, of_7=Judged("sound"))),
    "another entry of 7 lost": (
        Sort.CORRUPTION,
        lambda rows: said_as(rows, of_7=changed(7, entries=((8, 8),))),
    ),
    "7 lost on another bookie": (
        Sort.CORRUPTION,
        lambda rows: said_as(rows, of_7=changed(7, missing_on=(("b9", ((7, 7),)),))),
    ),
    "7 lost in another segment": (
        Sort.CORRUPTION,
        lambda rows: said_as(rows, of_7=changed(7, segment=(7, 20))),
    ),
    "more copies of 7": (
        Sort.CORRUPTION,
        lambda rows: said_as(rows, of_7=changed(7, copies=(1, 1, 1, 0))),
    ),
    "a reason why 7 is unknown": (
        Sort.CORRUPTION,
        lambda rows: said_as(rows, of_7=replace(verdict(7), unknowns=("poison",))),
    ),
    "two losses of 7": (
        Sort.CORRUPTION,
        lambda rows: said_as(rows, of_7=replace(verdict(7), losses=verdict(7).losses * 2)),
    ),
    "a ledger that nobody asked about": (
        Sort.CORRUPTION,
        lambda rows: [*rows, (700, Judged("sound"))],
    ),
}


@pytest.mark.parametrize("what", VERDICTS)
def test_planted_among_verdicts(what: str):
    """One sort of breach is reported, and it is the planted one."""
    sort, plant = VERDICTS[what]
    outputs = reported()
    assert {sort} == {
        breach.sort for breach in found(replace(outputs, verdicts=plant(list(outputs.verdicts))))
    }


Place = tuple[str, int, tuple[int, ...]]
"""Bookie, look, and subject of the question."""
FIRST, THIRD = ("b2", 1, (7,)), ("b2", 3, (4,))


def at(rows: list[Row], place: Place) -> int:
    return next(n for n, row in enumerate(rows) if row[:3] == place)


def exchanged(rows: list[Row], one: Place, other: Place, *, states: bool) -> list[Row]:
    """Return the rows with two in each other's place, or with each other's answer."""
    first, second = at(rows, one), at(rows, other)
    mixed = list(rows)
    if states:
        mixed[first], mixed[second] = (
            (*rows[first][:3], rows[second][3]),
            (*rows[second][:3], rows[first][3]),
        )
    else:
        mixed[first], mixed[second] = rows[second], rows[first]
    return mixed


def without(rows: list[Row], place: Place) -> list[Row]:
    return [row for row in rows if row[:3] != place]


def said_of(rows: list[Row], place: Place, heard: Heard | Read) -> list[Row]:
    return [(*row[:3], heard) if row[:3] == place else row for row in rows]


FOUR = ("b2", 1, (4,))
ANSWERS: Mapping[str, tuple[Sort, Callable[[list[Row]], list[Row]]]] = {
    "no row on 7": (Sort.LOSS, lambda rows: without(rows, FIRST)),
    "no row of the second look": (Sort.LOSS, lambda rows: without(rows, ("b1", 2, (10,)))),
    "no row of the third look": (Sort.LOSS, lambda rows: without(rows, THIRD)),
    "two rows on 7": (Sort.DUPLICATION, lambda rows: [*rows, rows[at(rows, FIRST)]]),
    "two rows of the third look": (Sort.DUPLICATION, lambda rows: [*rows, rows[at(rows, THIRD)]]),
    "7 before 4": (Sort.REORDERING, lambda rows: exchanged(rows, FOUR, FIRST, states=False)),
    "7 before 4 at the second look": (
        Sort.REORDERING,
        lambda rows: exchanged(rows, ("b2", 2, (4,)), ("b2", 2, (7,)), states=False),
    ),
    "4 with the answer on 7 and 7 with that on 4": (
        Sort.REORDERING,
        lambda rows: exchanged(rows, FOUR, FIRST, states=True),
    ),
    "an entry more on 7": (
        Sort.CORRUPTION,
        lambda rows: said_of(rows, FIRST, Heard("held", held(7) | {99})),
    ),
    "an entry less on 7": (
        Sort.CORRUPTION,
        lambda rows: said_of(rows, FIRST, Heard("held", held(7) - {0})),
    ),
    "an entry more at the third look": (
        Sort.CORRUPTION,
        lambda rows: said_of(rows, THIRD, Heard("held", held(7) | {99})),
    ),
    "7 is unknown there": (
        Sort.CORRUPTION,
        lambda rows: said_of(rows, FIRST, Heard("no_such_ledger", frozenset())),
    ),
    "an answer that was never asked for": (
        Sort.CORRUPTION,
        lambda rows: [*rows, ("b1", 1, (700,), Heard("held", held(7)))],
    ),
    "an answer at a look that was none": (
        Sort.CORRUPTION,
        lambda rows: [*rows, ("b1", 4, (4,), Heard("held", held(4)))],
    ),
    "an answer of a bookie that nobody asked": (
        Sort.CORRUPTION,
        lambda rows: [*rows, ("b9", 1, (4,), Heard("held", held(4)))],
    ),
    "the answer of another look": (
        Sort.CORRUPTION,
        lambda rows: [*rows, ("b1", 3, (7,), Heard("held", held(7)))],
    ),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_planted_among_answers(what: str):
    """The same holds for each bookie's answers, look by look, in the order that its proxy saw."""
    sort, plant = ANSWERS[what]
    outputs = reported()
    assert {sort} == {
        breach.sort for breach in found(replace(outputs, answers=plant(list(outputs.answers))))
    }


READ = ("b2", 1, (7, 7))
READS: Mapping[str, tuple[Sort, Callable[[list[Row]], list[Row]]]] = {
    "no row of an entry": (Sort.LOSS, lambda rows: without(rows, READ)),
    "no row at the third look": (Sort.LOSS, lambda rows: without(rows, ("b2", 3, (4, 7)))),
    "two rows of an entry": (Sort.DUPLICATION, lambda rows: [*rows, rows[at(rows, READ)]]),
    "the second entry before the first": (
        Sort.REORDERING,
        lambda rows: exchanged(rows, READ, ("b2", 1, (7, 8)), states=False),
    ),
    "one entry's answer on the other": (
        Sort.REORDERING,
        lambda rows: exchanged(rows, READ, ("b2", 1, (7, 8)), states=True),
    ),
    "an entry that is there": (Sort.CORRUPTION, lambda rows: said_of(rows, READ, Read("present"))),
    "an entry that is not there": (
        Sort.CORRUPTION,
        lambda rows: said_of(rows, ("b2", 2, (7, 8)), Read("no_entry")),
    ),
    "no such ledger": (Sort.CORRUPTION, lambda rows: said_of(rows, READ, Read("no_ledger"))),
    "a wrong digest that nobody sent": (
        Sort.CORRUPTION,
        lambda rows: said_of(rows, ("b2", 1, (7, 8)), Read("corrupt")),
    ),
    "an entry that nobody read": (
        Sort.CORRUPTION,
        lambda rows: [*rows, ("b2", 1, (7, 9), Read("no_entry"))],
    ),
}


@pytest.mark.parametrize("what", READS)
def test_planted_among_reads(what: str):
    """The same holds for each entry that was read, look by look."""
    sort, plant = READS[what]
    outputs = reported()
    assert {sort} == {
        breach.sort for breach in found(replace(outputs, reads=plant(list(outputs.reads))))
    }


def test_an_entry_that_changed_on_the_way_is_not_there():
    """Reported as corrupt, or as not heard, it is not a breach; reported as present, it is."""
    asked = Said("read", 99, 12, 3)
    said = replace(asked, status="present", body=STORED)
    seen = log(
        lambda seen: exchange(seen, "b1", asked, said, replace(said, body=STORED[:-1] + b"?"))
    )
    outputs = reported()

    def breached(status: str) -> list[Sort]:
        row = ("b1", 1, (12, 3), Read(status))
        return [
            breach.sort for breach in found(replace(outputs, reads=[*outputs.reads, row]), seen)
        ]

    assert ([Sort.CORRUPTION], [], []) == (
        breached("present"),
        breached("corrupt"),
        breached("invalid"),
    )


def test_an_answer_about_something_else_was_not_delivered():
    """A list that arrives with another ledger's id says nothing of either ledger."""
    seen, outputs = log(), reported()
    asked = Said("list", 99, 12)
    said = replace(asked, status="held", entries=held(5))
    exchange(seen, "b3", asked, said, replace(said, ledger_id=11))
    rows = [*outputs.answers, ("b3", 1, (12,), Heard("held", held(5)))]
    assert [Sort.CORRUPTION] == [
        breach.sort for breach in found(replace(outputs, answers=rows), seen)
    ]


def test_metadata_that_is_read_again_before_anything_is_asked_begins_no_look():
    """It is a retry: the answers still belong to the look that it was made for."""
    seen = Log()
    for txn_id in (1, 2):
        again = Said("multi_read", txn_id, metadata_of=(4,))
        seen.add("zookeeper", 0, again, again, "passed", reply=False)
    asked = Said("list", 1, 4)
    exchange(seen, "b1", asked, replace(asked, status="held", entries=held(4)))
    outputs = Reported([("b1", 1, (4,), Heard("held", held(4)))], [(4, verdict(4))], in_order=True)
    assert [] == breaches(seen, outputs, {4: frozenset({verdict(4)})})


def test_metadata_that_is_read_without_its_mark_begins_no_look():
    """A run sees so that nothing has changed, before it reads more on bookies in doubt."""
    seen = Log()
    read = Said("multi_read", 1, metadata_of=(4,))
    for txn_id in (1, 2):
        seen.add("zookeeper", 0, read, read, "passed", reply=False)
        asked = Said("read", txn_id, 4, txn_id)
        exchange(seen, "b1", asked, replace(asked, status="no_entry"))
    reads = [("b1", 1, (4, entry), Read("no_entry")) for entry in (1, 2)]
    outputs = Reported([], [(4, verdict(4))], in_order=True, reads=reads)
    assert [] == breaches(seen, outputs, {4: frozenset({verdict(4)})})


def test_nothing_planted_is_nothing_found():
    """Outputs that agree with the log are not a breach."""
    assert [] == found(reported())


def log_with_fault(look: int, *, heals: bool) -> Log:
    """Return the log with a fault before b2 that first hits at a look: 1, or 2 after the pause."""
    seen = Log()
    for number, epoch in enumerate(log().epochs(), start=1):
        if number > 1:
            seen.mark("pause 1", heals=heals)
        if number == look:
            harmed(seen, "b2")
        for one in epoch:
            seen.add(one.proxy, one.connection, one.said, one.sent, one.fate, reply=one.reply)
    return seen


UNHEARD_AT: Mapping[str, tuple[Log, set[int]]] = {
    "no fault": (log(), set()),
    "a fault of the first look": (log_with_fault(1, heals=True), {1}),
    "a fault that stays": (log_with_fault(1, heals=False), {1, 2, 3}),
    "a fault behind the pause": (log_with_fault(2, heals=False), {2, 3}),
}
"""The log, and the looks at which an answer of b2 may be missing."""


@pytest.mark.parametrize("fault", UNHEARD_AT)
@pytest.mark.parametrize("bookie", BOOKIES)
def test_an_answer_is_missing_only_in_the_window_of_a_fault(fault: str, bookie: str):
    """Silence before the fault, after it, and of another bookie is a corruption, although each row
    looks the same.
    """
    seen, looks = UNHEARD_AT[fault]
    for look in (1, 2, 3):
        silent = replace(
            reported(),
            answers=said_of(list(reported().answers), (bookie, look, (4,)), Heard("timed_out")),
        )
        expected = [] if bookie == "b2" and look in looks else [Sort.CORRUPTION]
        assert expected == [breach.sort for breach in found(silent, seen)], look
        if bookie == "b2":
            unread = replace(
                reported(),
                reads=said_of(list(reported().reads), (bookie, look, (4, 7)), Read("timed_out")),
            )
            assert expected == [breach.sort for breach in found(unread, seen)], look


def test_an_answer_that_nobody_asked_for_is_missing_once_and_in_the_window_of_a_fault():
    """While the fault is on there may be one such row, because the bookie was out of reach; without
    a fault none.
    """
    row = ("b2", 2, (3,), Heard("silent"))
    one, two = (
        replace(reported(), answers=[*reported().answers, *[row] * times]) for times in (1, 2)
    )
    faulty, calm = UNHEARD_AT["a fault that stays"][0], UNHEARD_AT["a fault of the first look"][0]
    assert ([], [Sort.DUPLICATION], [Sort.CORRUPTION]) == tuple(
        [breach.sort for breach in found(outputs, seen)]
        for outputs, seen in ((one, faulty), (two, faulty), (one, calm))
    )


def test_each_window_is_held_to_what_is_expected():
    """Two verdicts in each other's place are two breaches, and a wrong one before a right one is
    found.
    """
    outputs = reported()
    turned = swapped(swapped(list(outputs.verdicts), 1, 4), 7, 10)
    assert [(Sort.REORDERING, 1), (Sort.REORDERING, 7)] == [
        (breach.sort, breach.ledger_id) for breach in found(replace(outputs, verdicts=turned))
    ]
    twice = [(7, Judged("sound")), *outputs.verdicts]
    assert (
        {Sort.DUPLICATION, Sort.CORRUPTION, Sort.REORDERING}
        >= {
            breach.sort
            for breach in found(replace(outputs, verdicts=twice))
            if breach.ledger_id == 7
        }
        >= {Sort.DUPLICATION, Sort.CORRUPTION}
    )


def test_a_window_shows_what_went_before():
    """It has the last four of the ledger's part, up to the ledger."""
    outputs = reported()
    (breach,) = found(replace(outputs, verdicts=[*outputs.verdicts, (10, verdict(10))]))
    assert (Sort.DUPLICATION, 10, (4, 7, 10, 10), WINDOW) == (
        breach.sort,
        breach.ledger_id,
        breach.window,
        len(breach.window),
    )
    (breach,) = found(replace(outputs, verdicts=[row for row in outputs.verdicts if row[0] != 7]))
    assert (Sort.LOSS, 7, (0, 1, 4, 10)) == (breach.sort, breach.ledger_id, breach.window)

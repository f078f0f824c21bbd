"""The detector is shown each of the four, planted into outputs and into the log, and tells them apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import pytest
from faults.detector import WINDOW, Breach, Sort, breaches
from faults.frames import Said
from faults.harm import Log
from faults.scene import ALL, owed
from faults.scene import LEDGERS as SCENE
from faults.told import Heard, Judged, Loss, Read, Row, Told, of_command

LEDGERS = (5, 2, 1, 4, 7, 10, 3, 6, 9, 8, 11, 12)
"""In the order in which they are read and asked about, which is not that of their ids."""
BOOKIES = ("b1", "b2")
LATER = (4, 7, 10)
"""Ledgers looked at twice, and 4 a third time behind the same pause. At each look b2 is read two entries of each."""
LOOKS = (LEDGERS, LATER, (4,))
ENTRIES = (7, 8)
STORED = b"the entry as it is stored"
Verdicts = list[tuple[int, Judged]]


def held(ledger: int) -> frozenset[int]:
    """What a bookie holds of a ledger: of none the same as of another."""
    return frozenset(range(ledger))


def verdict(ledger: int) -> Judged:
    """Of none of those with a loss the same as of another."""
    if ledger not in LATER:
        return Judged("sound")
    runs = ((ledger, ledger),)
    return Judged("violated", losses=(Loss("ENTRY_WITHOUT_REPLICA", runs, (("b2", runs),), (0, 20), (1, 1, 0, 0)),))


def log() -> Log:
    """The metadata of each ledger read and both bookies asked; at later looks too, with a pause before the second alone."""
    seen = Log()
    for look, ledgers in enumerate(LOOKS, start=1):
        if look == 2:
            seen.mark("pause 1")
        read = Said("multi_read", look, metadata_of=tuple(ledgers))
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


def exchange(seen: Log, bookie: str, asked: Said, said: Said, sent: Said | None = None) -> None:
    """A question and its answer, which may be another where it arrives."""
    seen.add(bookie, 0, asked, asked, "passed", reply=False)
    seen.add(bookie, 0, said, sent or said, "passed", reply=True)


def told() -> Told:
    """Outputs that say what the log says."""
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
    return Told(answers, [(ledger, verdict(ledger)) for ledger in LEDGERS], True, reads)


def found(outputs: Told, seen: Log | None = None) -> list[Breach]:
    return breaches(seen or log(), outputs, {ledger: frozenset({verdict(ledger)}) for ledger in sorted(LEDGERS)})


def swapped(rows: Verdicts, one: int, other: int) -> Verdicts:
    """The two rows in each other's place."""
    order = {one: other, other: one}
    by_ledger = dict(rows)
    return [(order.get(ledger, ledger), by_ledger[order.get(ledger, ledger)]) for ledger, _ in rows]


def said_as(rows: Verdicts, **verdicts: Judged) -> Verdicts:
    return [(n, verdicts.get(f"of_{n}", one)) for n, one in rows]


def changed(ledger: int, **other: object) -> Judged:
    """Its verdict with a part of its loss changed."""
    one = verdict(ledger)
    return replace(one, losses=(replace(one.losses[0], **other),))  # type: ignore[arg-type]


VERDICTS: Mapping[str, tuple[Sort, Callable[[Verdicts], Verdicts]]] = {
    "no verdict on 7": (Sort.LOSS, lambda rows: [row for row in rows if row[0] != 7]),
    "no verdict on the last": (Sort.LOSS, lambda rows: rows[:-1]),
    "two verdicts on 7": (Sort.DUPLICATION, lambda rows: [*rows, (7, verdict(7))]),
    "4 and 7 in each other's place": (Sort.REORDERING, lambda rows: swapped(rows, 4, 7)),
    "in the order of the ids": (Sort.REORDERING, lambda rows: sorted(rows, key=lambda row: row[0])),
    "4 and 1 with each other's verdict": (Sort.REORDERING, lambda rows: said_as(rows, of_4=verdict(1), of_1=verdict(4))),
    "4 and 7 with each other's loss": (Sort.REORDERING, lambda rows: said_as(rows, of_4=verdict(7), of_7=verdict(4))),
    "7 with nobody's verdict": (Sort.CORRUPTION, lambda rows: said_as(rows, of_7=Judged("exempt", "open"))),
    "7 sound against its loss": (Sort.CORRUPTION, lambda rows: said_as(rows, of_7=Judged("sound"))),
    "another entry of 7 lost": (Sort.CORRUPTION, lambda rows: said_as(rows, of_7=changed(7, entries=((8, 8),)))),
    "7 lost on another bookie": (Sort.CORRUPTION, lambda rows: said_as(rows, of_7=changed(7, missing_on=(("b9", ((7, 7),)),)))),
    "7 lost in another segment": (Sort.CORRUPTION, lambda rows: said_as(rows, of_7=changed(7, segment=(7, 20)))),
    "more copies of 7": (Sort.CORRUPTION, lambda rows: said_as(rows, of_7=changed(7, copies=(1, 1, 1, 0)))),
    "a reason why 7 is unknown": (Sort.CORRUPTION, lambda rows: said_as(rows, of_7=replace(verdict(7), unknowns=("poison",)))),
    "two losses of 7": (Sort.CORRUPTION, lambda rows: said_as(rows, of_7=replace(verdict(7), losses=verdict(7).losses * 2))),
    "a ledger that nobody asked about": (Sort.CORRUPTION, lambda rows: [*rows, (700, Judged("sound"))]),
}


@pytest.mark.parametrize("what", VERDICTS)
def test_planted_among_verdicts(what: str):
    """One sort of breach is told, and it is the planted one."""
    sort, plant = VERDICTS[what]
    outputs = told()
    assert {sort} == {breach.sort for breach in found(replace(outputs, verdicts=plant(list(outputs.verdicts))))}


Place = tuple[str, int, tuple[int, ...]]
"""Bookie, look, and what was asked about."""
FIRST, THIRD = ("b2", 1, (7,)), ("b2", 3, (4,))


def at(rows: list[Row], place: Place) -> int:
    return next(n for n, row in enumerate(rows) if row[:3] == place)


def exchanged(rows: list[Row], one: Place, other: Place, *, states: bool) -> list[Row]:
    """Two rows in each other's place, or with each other's answer."""
    first, second = at(rows, one), at(rows, other)
    mixed = list(rows)
    if states:
        mixed[first], mixed[second] = (*rows[first][:3], rows[second][3]), (*rows[second][:3], rows[first][3])
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
    "4 with the answer on 7 and 7 with that on 4": (Sort.REORDERING, lambda rows: exchanged(rows, FOUR, FIRST, states=True)),
    "an entry more on 7": (Sort.CORRUPTION, lambda rows: said_of(rows, FIRST, Heard("held", held(7) | {99}))),
    "an entry less on 7": (Sort.CORRUPTION, lambda rows: said_of(rows, FIRST, Heard("held", held(7) - {0}))),
    "an entry more at the third look": (Sort.CORRUPTION, lambda rows: said_of(rows, THIRD, Heard("held", held(7) | {99}))),
    "7 is unknown there": (Sort.CORRUPTION, lambda rows: said_of(rows, FIRST, Heard("no_such_ledger", frozenset()))),
    "an answer that was never asked for": (Sort.CORRUPTION, lambda rows: [*rows, ("b1", 1, (700,), Heard("held", held(7)))]),
    "an answer at a look that was none": (Sort.CORRUPTION, lambda rows: [*rows, ("b1", 4, (4,), Heard("held", held(4)))]),
    "an answer of a bookie that nobody asked": (Sort.CORRUPTION, lambda rows: [*rows, ("b9", 1, (4,), Heard("held", held(4)))]),
    "the answer of another look": (Sort.CORRUPTION, lambda rows: [*rows, ("b1", 3, (7,), Heard("held", held(7)))]),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_planted_among_answers(what: str):
    """The same for each bookie's answers, look by look, in the order that its proxy saw."""
    sort, plant = ANSWERS[what]
    outputs = told()
    assert {sort} == {breach.sort for breach in found(replace(outputs, answers=plant(list(outputs.answers))))}


READ = ("b2", 1, (7, 7))
READS: Mapping[str, tuple[Sort, Callable[[list[Row]], list[Row]]]] = {
    "no row of an entry": (Sort.LOSS, lambda rows: without(rows, READ)),
    "no row at the third look": (Sort.LOSS, lambda rows: without(rows, ("b2", 3, (4, 7)))),
    "two rows of an entry": (Sort.DUPLICATION, lambda rows: [*rows, rows[at(rows, READ)]]),
    "the second entry before the first": (Sort.REORDERING, lambda rows: exchanged(rows, READ, ("b2", 1, (7, 8)), states=False)),
    "one entry's answer on the other": (Sort.REORDERING, lambda rows: exchanged(rows, READ, ("b2", 1, (7, 8)), states=True)),
    "an entry that is there": (Sort.CORRUPTION, lambda rows: said_of(rows, READ, Read("present"))),
    "an entry that is not there": (Sort.CORRUPTION, lambda rows: said_of(rows, ("b2", 2, (7, 8)), Read("no_entry"))),
    "no such ledger": (Sort.CORRUPTION, lambda rows: said_of(rows, READ, Read("no_ledger"))),
    "a wrong digest that nobody sent": (Sort.CORRUPTION, lambda rows: said_of(rows, ("b2", 1, (7, 8)), Read("corrupt"))),
    "an entry that nobody read": (Sort.CORRUPTION, lambda rows: [*rows, ("b2", 1, (7, 9), Read("no_entry"))]),
}


@pytest.mark.parametrize("what", READS)
def test_planted_among_reads(what: str):
    """The same for each entry that was read, look by look."""
    sort, plant = READS[what]
    outputs = told()
    assert {sort} == {breach.sort for breach in found(replace(outputs, reads=plant(list(outputs.reads))))}


def test_an_entry_that_changed_on_the_way_is_not_there():
    """Told as corrupt, or as not heard, it is no breach; told as there, it is one."""
    seen, outputs = log(), told()
    asked = Said("read", 99, 12, 3)
    said = replace(asked, status="present", body=STORED)
    exchange(seen, "b1", asked, said, replace(said, body=STORED[:-1] + b"?"))

    def breached(status: str) -> list[Sort]:
        row = ("b1", 1, (12, 3), Read(status))
        return [breach.sort for breach in found(replace(outputs, reads=[*outputs.reads, row]), seen)]

    assert ([Sort.CORRUPTION], [], []) == (breached("present"), breached("corrupt"), breached("invalid"))


def test_an_answer_about_something_else_was_not_delivered():
    """A list whose ledger is another where it arrives says nothing of either."""
    seen, outputs = log(), told()
    asked = Said("list", 99, 12)
    said = replace(asked, status="held", entries=held(5))
    exchange(seen, "b3", asked, said, replace(said, ledger_id=11))
    rows = [*outputs.answers, ("b3", 1, (12,), Heard("held", held(5)))]
    assert [Sort.CORRUPTION] == [breach.sort for breach in found(replace(outputs, answers=rows), seen)]


def test_metadata_that_is_read_again_before_anything_is_asked_begins_no_look():
    """A retry: the answers still belong to the look that it was made for."""
    seen = Log()
    for txn_id in (1, 2):
        again = Said("multi_read", txn_id, metadata_of=(4,))
        seen.add("zookeeper", 0, again, again, "passed", reply=False)
    asked = Said("list", 1, 4)
    exchange(seen, "b1", asked, replace(asked, status="held", entries=held(4)))
    outputs = Told([("b1", 1, (4,), Heard("held", held(4)))], [(4, verdict(4))], in_order=True)
    assert [] == breaches(seen, outputs, {4: frozenset({verdict(4)})})


def test_nothing_planted_is_nothing_found():
    """Outputs that say what was seen are no breach."""
    assert [] == found(told())


def test_an_answer_that_was_not_heard_is_no_breach():
    """Silence may follow any request: what a ledger is owed then is the plan's affair."""
    assert [] == found(replace(told(), answers=said_of(list(told().answers), FIRST, Heard("timed_out"))))
    assert [] == found(replace(told(), reads=said_of(list(told().reads), READ, Read("timed_out"))))


def test_a_window_shows_what_went_before():
    """The last four of the part that the ledger is in, up to it."""
    outputs = told()
    (breach,) = found(replace(outputs, verdicts=[*outputs.verdicts, (10, verdict(10))]))
    assert (Sort.DUPLICATION, 10, (1, 4, 7, 10), WINDOW) == (breach.sort, breach.ledger_id, breach.window, len(breach.window))


def report(**others: Judged) -> dict[str, object]:
    """What `auditor ledger` would say of the scene; of some ledgers, as `of_9`, something else."""
    said = {ledger: others.get(f"of_{ledger}", planted.truth) for ledger, planted in SCENE.items()}
    words = ("write_quorum", "ack_quorum", "confirmed", "unknown")
    standings = [one.standing for one in said.values()]
    return {
        "summary": {"ledgers": {"listed": len(said), **{word: standings.count(word) for word in standings}}},
        "ledgers": [
            {
                "ledger_id": ledger,
                "standing": one.standing,
                "exempt": one.exempt,
                "unknowns": list(one.unknowns),
                "assurance": one.assurance,
            }
            for ledger, one in said.items()
        ],
        "findings": [
            {
                "ledger_id": ledger,
                "kind": loss.kind,
                "entries": loss.entries,
                "missing_on": dict(loss.missing_on),
                "segment": dict(zip(("first_entry_id", "last_entry_id"), loss.segment or (), strict=True)),
                "copies": dict(zip(words, loss.copies or (), strict=True)),
            }
            for ledger, one in said.items()
            for loss in one.losses
        ],
    }


def of_scene(due: frozenset[int] = ALL, *, sampled: bool = False, **others: Judged) -> dict[int, Sort]:
    """The breaches in such a report, by ledger."""
    may_be = owed(due, sampled=sampled)
    return {breach.ledger_id: breach.sort for breach in breaches(Log(), of_command(report(**others)), may_be)}


def test_the_truth_about_the_scene_is_no_breach():
    """Told in the words of a report."""
    assert {} == of_scene()


def test_each_loss_of_the_scene_is_told_with_its_own_entries_and_bookies():
    """Made up entries on a made up bookie are a corruption of each of them."""
    runs = ((1_000_000, 2_000_000),)
    lossy = {ledger: planted.truth for ledger, planted in SCENE.items() if planted.truth.losses}
    for made_up in ({"entries": runs}, {"missing_on": (("b9", runs),)}):
        others = {f"of_{n}": replace(one, losses=(replace(one.losses[0], **made_up),)) for n, one in lossy.items()}  # type: ignore[arg-type]
        assert dict.fromkeys(lossy, Sort.CORRUPTION) == of_scene(**others)


@pytest.mark.parametrize("pair", [(9, 12), (10, 17), (11, 15), (13, 14)])
def test_ledgers_of_the_same_standing_cannot_swap_their_verdicts(pair: tuple[int, int]):
    """No loss and no exemption of the scene is another's: a reordering in one part modulo M, a corruption across two."""
    one, other = pair
    sort = Sort.REORDERING if one % 3 == other % 3 else Sort.CORRUPTION
    swapped = {f"of_{one}": SCENE[other].truth, f"of_{other}": SCENE[one].truth}
    assert dict.fromkeys(pair, sort) == of_scene(**swapped)


@pytest.mark.parametrize("reason", ["poison", "checkers_disagree", "metadata_unreadable", "unsettled"])
def test_what_is_not_owed_is_unknown_for_what_was_not_heard_alone(reason: str):
    """A bookie that is silent is a reason; a fault of the auditor's own is none, and neither is none at all."""
    silent = Judged("indeterminate", unknowns=("bookie_silent",))
    assert {} == of_scene(frozenset(), of_2=silent)
    assert {2: Sort.CORRUPTION} == of_scene(of_2=silent)
    assert {2: Sort.CORRUPTION} == of_scene(frozenset(), of_2=Judged("indeterminate", unknowns=(reason,)))
    assert {2: Sort.CORRUPTION} == of_scene(frozenset(), of_2=Judged("indeterminate", unknowns=("bookie_silent", reason)))
    assert {2: Sort.CORRUPTION} == of_scene(frozenset(), of_2=Judged("indeterminate"))


def test_a_loss_that_is_not_owed_is_told_as_far_as_it_was_heard():
    """Ledger 11 lost both copies of entry 4: with b4 unheard one of them may be there, and of b3 nothing else may be said."""
    (whole,) = SCENE[11].truth.losses
    part = replace(whole, kind="ENTRY_BELOW_ACK_QUORUM", missing_on=(("b3", ((4, 4),)),), copies=(2, 2, 0, 1))
    silent = Judged("violated", unknowns=("bookie_silent",), losses=(part,))
    assert {} == of_scene(frozenset(), of_11=silent)
    for wrong in (
        replace(part, kind="ENTRY_WITHOUT_REPLICA"),
        replace(part, entries=((4, 5),)),
        replace(part, missing_on=(("b1", ((4, 4),)),)),
        replace(part, copies=(2, 2, 0, 0)),
    ):
        assert {11: Sort.CORRUPTION} == of_scene(frozenset(), of_11=replace(silent, losses=(wrong,)))
    assert {11: Sort.CORRUPTION} == of_scene(frozenset(), of_11=replace(silent, unknowns=()))


def test_a_sample_stands_for_what_is_not_owed_where_a_bookie_cannot_list():
    """It may miss entries, and say so; it can show none that is there, and is no verdict that is owed."""
    sound = Judged("sound", assurance="probed")
    (whole,) = SCENE[12].truth.losses
    some = ((0, 1), (7, 7), (32, 32))
    part = replace(whole, entries=some, missing_on=(("b2", some),))
    shown = Judged("violated", losses=(part,), assurance="probed")
    assert {} == of_scene(frozenset(), sampled=True, of_9=sound, of_12=shown, of_1=sound)
    assert {9: Sort.CORRUPTION, 12: Sort.CORRUPTION} == of_scene(frozenset(), of_9=sound, of_12=shown)
    assert {9: Sort.CORRUPTION, 12: Sort.CORRUPTION} == of_scene(sampled=True, of_9=sound, of_12=shown)
    more = ((0, 1), (33, 33))
    for wrong in (
        replace(shown, assurance="listed"),
        replace(shown, losses=(replace(part, entries=more, missing_on=(("b2", more),)),)),
        replace(shown, losses=(replace(part, missing_on=(("b4", some),)),)),
        replace(shown, losses=(part, part)),
        Judged("sound"),
    ):
        assert {12: Sort.CORRUPTION} == of_scene(frozenset(), sampled=True, of_12=wrong)

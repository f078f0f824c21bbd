"""Which gone bookies are looked for under another name, by which ledgers, and what the answers
show.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.rename_evidence import DUE, WRITTEN, greeting, listed, needs, read, run_with, states

from auditor.evidence.run_directory import Place
from auditor.first_checker.renaming import RENAME_LEDGERS_MAX, RENAMES_MAX, Renamed
from auditor.model.availability import AnswerStatus
from auditor.sandbox.notation import ledger
from auditor.summary.cluster.renames import CANDIDATES_MAX, rename_cases, renames


def cases(run: Place, *known: str) -> list[tuple[str, list[int]]]:
    return [(one.gone, [*one.ledgers]) for one in rename_cases(run, known)]


@pytest.mark.parametrize(
    ("expected", "answers"),
    [
        ([("g", [1])], needs(1)),
        ([], needs(1, detail="it left, and its cookie is there")),
        ([], needs(1, status=AnswerStatus.SILENT)),
        ([("a", [1]), ("g", [1])], needs(1) + needs(1, bookie="a")),
    ],
)
def test_a_bookie_without_registration_and_cookie_is_looked_for(
    expected: list[Any], answers: list[Any]
) -> None:
    """Bookies that left a cookie may come back under their own name."""
    assert expected == cases(run_with(answers=answers, ledgers=states(1)))


def test_a_bookie_that_is_back_is_not_looked_for() -> None:
    """`known` are those that are registered, or have a cookie, by now."""
    run = run_with(answers=needs(1) + needs(1, bookie="a"), ledgers=states(1))
    assert [("g", [1])] == cases(run, "a", "x")


def test_only_so_many_bookies_are_looked_for() -> None:
    """Those that sort first."""
    names = [f"g{n:02}" for n in range(RENAMES_MAX + 2)]
    written = ledger(f"e{len(names)} w2 a2 0:[{' '.join(names)}] closed 99")
    answers = [row for name in reversed(names) for row in needs(1, bookie=name)]
    run = run_with(answers=answers, ledgers=states(1, written=written))
    assert [(name, [1]) for name in names[:RENAMES_MAX]] == cases(run)


def test_the_lowest_ledgers_are_compared() -> None:
    """So many, with the metadata that says what the bookie should hold."""
    (case,) = rename_cases(
        run_with(answers=needs(9, 7, 2, 4, 3), ledgers=states(9, 7, 2, 4, 3)), ()
    )
    assert ("g", dict.fromkeys((2, 3, 4), WRITTEN)) == (case.gone, case.ledgers)
    assert RENAME_LEDGERS_MAX == len(case.ledgers)


@pytest.mark.parametrize(
    "now",
    [
        "e3 w2 a2 0:[a b c] closed 9",
        "e3 w2 a2 0:[a g c] open",
        "e3 w2 a2 0:[a g c] closed -1",
        None,
    ],
)
def test_a_ledger_that_the_bookie_should_hold_nothing_of_is_not_compared(now: str | None) -> None:
    """It was re-replicated, is open or empty, or was deleted: what counts is how it was read last,
    in whatever order.
    """
    later = states(1, look=2, written=None if now is None else ledger(now))
    for ledger_states in (states(1) + later, later + states(1)):
        assert [("g", [2])] == cases(
            run_with(answers=needs(1, 2), ledgers=ledger_states + states(2))
        )
        assert [] == cases(run_with(answers=needs(1), ledgers=ledger_states))


def test_only_so_many_ledgers_are_looked_at_for_some_to_compare() -> None:
    """A bookie whose first ledgers were all re-replicated is not looked for any further."""
    ids = range(1, CANDIDATES_MAX + 2)
    moved = ledger("e3 w2 a2 0:[a b c] closed 9")
    few = states(*ids[:-2], written=moved) + states(*ids[-2:])
    assert [("g", [CANDIDATES_MAX])] == cases(run_with(answers=needs(*ids), ledgers=few))
    none = states(*ids[:-1], written=moved) + states(*ids[-1:])
    assert [] == cases(run_with(answers=needs(*ids), ledgers=none))


def found(*rows: Any, ledgers: list[Any] | None = None) -> dict[str, Renamed]:
    return renames(
        run_with(
            renames=[greeting("new"), *rows], ledgers=states(1, 2) if ledgers is None else ledgers
        )
    )


def test_where_nobody_was_asked_no_bookie_has_another_name() -> None:
    """There is no table then."""
    assert {} == renames(run_with(ledgers=states(1)))


def test_the_bookie_that_holds_what_the_gone_one_should_is_its_new_name() -> None:
    """With the ledgers that were compared; by its lists, or by the entries that its lists leave
    out.
    """
    assert {"g": Renamed("new", (1,))} == found(listed("new", 1, *DUE), listed("other", 1, 0))
    assert {"g": Renamed("new", (1, 2))} == found(listed("new", 2, *DUE), listed("new", 1, *DUE))
    assert {} == found(listed("new", 1, *DUE), listed("new", 2, 0))
    assert {"g": Renamed("new", (1,))} == found(
        listed("new", 1, *DUE[1:]), *read("new", 1, {0: "present"})
    )
    assert {} == found(listed("new", 1, *DUE[1:]), *read("new", 1, {0: "no_entry"}))
    assert {} == found(listed("new", 1, *DUE[1:]), *read("other", 1, {0: "present"}))


def test_a_bookie_that_cannot_list_is_known_by_entries_that_were_read() -> None:
    """The first, the middle and the last of what the gone one should hold."""
    cannot = listed("new", 1, can_list=False)
    assert {"g": Renamed("new", (1,))} == found(
        cannot, *read("new", 1, dict.fromkeys((0, 4, 9), "present"))
    )
    assert {} == found(cannot, *read("new", 1, dict.fromkeys((0, 9), "present")))


def test_each_gone_bookie_is_compared_by_its_own_ledgers() -> None:
    """A ledger that changed since is about none; the names are in order."""
    both = ledger("e4 w2 a2 0:[a g h c] closed 9")
    rows = [listed("new", 1, *range(10), gone=("h", "g")), listed("new", 2, 0, gone=())]
    renamed = found(*rows, ledgers=states(1, 2, written=both))
    assert [("g", Renamed("new", (1,))), ("h", Renamed("new", (1,)))] == [*renamed.items()]


def test_where_every_ledger_changed_meanwhile_nothing_is_compared() -> None:
    """What was asked is about no gone bookie then."""
    assert {} == found(listed("new", 1, *DUE, gone=()))


def test_a_ledger_that_is_gone_by_now_shows_nothing() -> None:
    """Neither alone nor beside one that is there."""
    ledger_states = states(1, 2) + states(1, look=2, written=None)
    assert {"g": Renamed("new", (2,))} == found(
        listed("new", 1, 0), listed("new", 2, *DUE), ledgers=ledger_states
    )
    assert {} == found(listed("new", 1, *DUE), ledgers=ledger_states)

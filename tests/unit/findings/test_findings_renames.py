"""Which gone bookies are looked for under another name, by which ledgers, and what the answers
show.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.rename_evidence import DUE, WRITTEN, greeting, listed, needs, read, run_with, states

from auditor.evidence.run_directory import Place
from auditor.findings.renaming import (
    CANDIDATES_MAX,
    RENAME_LEDGERS_MAX,
    RENAMES_MAX,
    Renamed,
    rename_cases,
    renames,
)
from auditor.model.availability import AnswerStatus
from auditor.sandbox.cluster import ledger


def cases(run: Place, *known: str) -> list[tuple[str, list[int]]]:
    return [(one.gone, [*one.ledgers]) for one in rename_cases(run, known)]


@pytest.mark.parametrize(
    ("expected", "answers"),
    [
        ([("g", [1])], needs(1)),
        ([("g", [1])], needs(1, detail="it left, and its cookie is there")),
        ([], needs(1, status=AnswerStatus.SILENT)),
        ([("a", [1]), ("g", [1])], needs(1) + needs(1, bookie="a")),
    ],
)
def test_a_bookie_without_registration_is_looked_for(
    expected: list[Any], answers: list[Any]
) -> None:
    """Also one that left a cookie: its folders may have been started under another id."""
    assert expected == cases(run_with(answers=answers, ledgers=states(1)))


def test_a_bookie_that_is_back_is_not_looked_for() -> None:
    """`known` are the bookies that are registered by now."""
    run = run_with(answers=needs(1) + needs(1, bookie="a"), ledgers=states(1))
    assert [("g", [1])] == cases(run, "a", "x")


def test_the_number_of_bookies_looked_for_is_bounded() -> None:
    """The first RENAMES_MAX by name are looked for."""
    names = [f"g{n:02}" for n in range(RENAMES_MAX + 2)]
    written = ledger(f"e{len(names)} w2 a2 0:[{' '.join(names)}] closed 99")
    answers = [row for name in reversed(names) for row in needs(1, bookie=name)]
    run = run_with(answers=answers, ledgers=states(1, written=written))
    assert [(name, [1]) for name in names[:RENAMES_MAX]] == cases(run)


def test_the_lowest_ledgers_are_compared() -> None:
    """RENAME_LEDGERS_MAX ledgers are compared, by the metadata that says what the bookie should
    hold.
    """
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
def test_a_ledger_that_does_not_need_the_bookie_is_not_compared(now: str | None) -> None:
    """It was re-replicated, is open or empty, or was deleted. The last read decides, in whatever
    order it was written.
    """
    later = states(1, look=2, written=None if now is None else ledger(now))
    for ledger_states in (states(1) + later, later + states(1)):
        assert [("g", [2])] == cases(
            run_with(answers=needs(1, 2), ledgers=ledger_states + states(2))
        )
        assert [] == cases(run_with(answers=needs(1), ledgers=ledger_states))


def test_only_the_first_ledgers_are_tried_for_a_comparison() -> None:
    """If the first CANDIDATES_MAX ledgers were all re-replicated, the bookie is not looked for."""
    ids = range(1, CANDIDATES_MAX + 2)
    moved = ledger("e3 w2 a2 0:[a b c] closed 9")
    few = states(*ids[:-2], written=moved) + states(*ids[-2:])
    assert [("g", [CANDIDATES_MAX])] == cases(run_with(answers=needs(*ids), ledgers=few))
    none = states(*ids[:-1], written=moved) + states(*ids[-1:])
    assert [] == cases(run_with(answers=needs(*ids), ledgers=none))


def find_renames(*rows: Any, ledgers: list[Any] | None = None) -> dict[str, Renamed]:
    return renames(
        run_with(
            renames=[greeting("new"), *rows], ledgers=states(1, 2) if ledgers is None else ledgers
        )
    )


def test_where_no_bookie_was_asked_none_has_another_name() -> None:
    """The run has no table of renames."""
    assert {} == renames(run_with(ledgers=states(1)))


def test_the_bookie_that_holds_what_the_gone_one_should_is_its_new_name() -> None:
    """The result names the compared ledgers. Lists count, and reads of entries that the lists
    lack.
    """
    assert {"g": Renamed("new", (1,))} == find_renames(
        listed("new", 1, *DUE), listed("other", 1, 0)
    )
    assert {"g": Renamed("new", (1, 2))} == find_renames(
        listed("new", 2, *DUE), listed("new", 1, *DUE)
    )
    assert {} == find_renames(listed("new", 1, *DUE), listed("new", 2, 0))
    assert {"g": Renamed("new", (1,))} == find_renames(
        listed("new", 1, *DUE[1:]), *read("new", 1, {0: "present"})
    )
    assert {} == find_renames(listed("new", 1, *DUE[1:]), *read("new", 1, {0: "no_entry"}))
    assert {} == find_renames(listed("new", 1, *DUE[1:]), *read("other", 1, {0: "present"}))


def test_a_bookie_that_cannot_list_is_known_by_entries_that_were_read() -> None:
    """It must have sent the first, the middle and the last entry that the gone bookie should
    hold.
    """
    cannot = listed("new", 1, can_list=False)
    assert {"g": Renamed("new", (1,))} == find_renames(
        cannot, *read("new", 1, dict.fromkeys((0, 4, 9), "present"))
    )
    assert {} == find_renames(cannot, *read("new", 1, dict.fromkeys((0, 9), "present")))


def test_each_gone_bookie_is_compared_by_its_own_ledgers() -> None:
    """Answers on a ledger that changed since count for no bookie. The result is sorted by name."""
    both = ledger("e4 w2 a2 0:[a g h c] closed 9")
    rows = [listed("new", 1, *range(10), gone=("h", "g")), listed("new", 2, 0, gone=())]
    renamed = find_renames(*rows, ledgers=states(1, 2, written=both))
    assert [("g", Renamed("new", (1,))), ("h", Renamed("new", (1,)))] == [*renamed.items()]


def test_where_every_ledger_changed_meanwhile_nothing_is_compared() -> None:
    """The answers count for no gone bookie."""
    assert {} == find_renames(listed("new", 1, *DUE, gone=()))


def test_a_ledger_that_is_gone_by_now_shows_nothing() -> None:
    """This holds for a single ledger and beside a ledger that still exists."""
    ledger_states = states(1, 2) + states(1, look=2, written=None)
    assert {"g": Renamed("new", (2,))} == find_renames(
        listed("new", 1, 0), listed("new", 2, *DUE), ledgers=ledger_states
    )
    assert {} == find_renames(listed("new", 1, *DUE), ledgers=ledger_states)

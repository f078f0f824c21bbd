"""Which ledgers still name an unregistered bookie, and whether they are marked, ledger by
ledger."""

from __future__ import annotations

import pytest

from auditor.second_checker.lost_ledgers import (
    LOWEST_MAX,
    NamingLedgers,
    Need,
    State,
    naming_ledgers,
)


def states(marks: str, ledger: int = 5, *, last: State | None = None) -> list[State]:
    """Return a closed ledger at looks 1, 2, ...: "m" where it is marked."""
    history = [
        State(ledger, look, "found", (1, 0), "CLOSED", 9, mark == "m")
        for look, mark in enumerate(marks, 1)
    ]
    return [*history[:-1], last] if last else history


def counted(needed_at: tuple[int, ...], history: list[State]) -> NamingLedgers:
    found = naming_ledgers([Need(5, look, "b1") for look in needed_at], history)
    return found.get("b1", NamingLedgers())


@pytest.mark.parametrize(
    ("marks", "needed_at", "unmarked", "always", "since"),
    [
        ("---", (1, 2), 1, 0, 0),
        ("---", (2,), 0, 0, 0),
        ("--m", (1, 2), 0, 0, 1),
        ("mmm", (1, 2), 0, 1, 0),
        ("m-m", (1, 2), 0, 1, 0),
        ("mm-", (1, 2), 0, 0, 0),
    ],
)
def test_a_ledger_counts_by_its_marks(
    marks: str, needed_at: tuple[int, ...], unmarked: int, always: int, since: int
) -> None:
    """An unmarked ledger is marked at no look and needed at two. One whose mark was removed does
    not count.
    """
    found = counted(needed_at, states(marks))
    assert (unmarked, always, since) == (found.unmarked, found.marked_always, found.marked_since)


@pytest.mark.parametrize(
    "last",
    [
        State(5, 3, "found", (1, 1), "CLOSED", 9, False),
        State(5, 3, "gone", (None, None), None, None, False),
        State(5, 3, "malformed", (1, 0), None, None, False),
        State(5, 3, "found", (1, 0), "OPEN", None, False),
        State(5, 3, "found", (1, 0), "IN_RECOVERY", None, False),
        State(5, 3, "found", (1, 0), "CLOSED", -1, False),
    ],
)
def test_a_ledger_that_no_longer_names_it_counts_nowhere(last: State) -> None:
    """It was written since, deleted, or is not a closed ledger with entries."""
    assert NamingLedgers() == counted((1, 2), states("---", last=last))


def test_each_bookie_has_its_own_ledgers_and_the_lowest_are_named() -> None:
    """Ledgers that were never read do not count, nor do states of ledgers that need no such
    bookie.
    """
    ledgers = range(1, 30)
    needs = [
        Need(ledger, look, bookie)
        for ledger in ledgers
        for look in (1, 2)
        for bookie in ("b1", "b2")
    ]
    needs = [one for one in needs if one.bookie_id == "b1" or one.ledger_id > 20]
    history = [state for ledger in ledgers if ledger % 2 for state in states("--", ledger)]
    found = naming_ledgers(needs, [*states("--", 0), *history, *states("--", 99)])
    assert {"b1": (15, list(range(1, 20, 2))), "b2": (5, [21, 23, 25, 27, 29])} == {
        name: (one.unmarked, one.lowest) for name, one in found.items()
    }
    assert LOWEST_MAX == len(found["b1"].lowest)


def test_the_write_that_needed_the_bookie_last_is_the_one_that_must_stand() -> None:
    """Earlier writes do not matter."""
    first, *later = states("---")
    assert 1 == counted((1, 2), [first._replace(stamp=(1, -1)), *later]).unmarked


def test_a_ledger_without_the_state_that_needed_the_bookie_counts_nowhere() -> None:
    """It is unknown whether it was written since."""
    assert NamingLedgers() == counted((1, 3), states("--"))


def test_the_marked_ledgers_of_a_bookie_are_added_up() -> None:
    """Ledgers marked all along and those marked since are added."""
    marks = {1: "mm", 2: "mm", 3: "-m", 4: "-m", 5: "-m"}
    found = naming_ledgers(
        [Need(ledger, 1, "b1") for ledger in marks],
        [state for ledger, history in marks.items() for state in states(history, ledger)],
    )
    assert (2, 3) == (found["b1"].marked_always, found["b1"].marked_since)


def test_ledgers_beyond_the_last_state_count_nowhere() -> None:
    """This holds for any number of ledgers."""
    needs = [Need(ledger, look, "b1") for ledger in (5, 6, 7, 8) for look in (1, 2)]
    assert [5] == naming_ledgers(needs, states("--"))["b1"].lowest

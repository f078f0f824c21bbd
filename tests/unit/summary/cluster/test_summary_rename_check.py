"""The new name of a gone bookie, as the second checker finds it in the evidence."""

from __future__ import annotations

from typing import Any

import pytest
from support.rename_evidence import DUE, greeting, listed, read, run_with, states

from auditor.sandbox.notation import ledger
from auditor.second_checker.blocks import ENUMERATED_ENTRIES_MAX
from auditor.summary.cluster.rename_check import new_name_of
from auditor.wire.entry_availability import HEADER_BYTES, encode_runs

ALL = range(10)


def name_of_g(*rows: Any, ledgers: list[Any] | None = None) -> str | None:
    ledger_states = states(1, 2) if ledgers is None else ledgers
    return new_name_of(run_with(renames=[greeting("new"), *rows], ledgers=ledger_states), "g")


def test_where_no_bookie_was_asked_none_has_another_name() -> None:
    """The run has no table of renames."""
    assert new_name_of(run_with(ledgers=states(1)), "g") is None


def test_the_bookie_that_holds_what_the_gone_one_should_is_its_new_name() -> None:
    """It must hold these entries of each compared ledger. Its lists count, and reads of entries
    that its lists lack.
    """
    assert "new" == name_of_g(listed("new", 1, *DUE), listed("other", 1, 0))
    assert "new" == name_of_g(listed("new", 2, *DUE), listed("new", 1, *DUE))
    assert name_of_g(listed("new", 1, *DUE), listed("new", 2, 0)) is None
    assert "new" == name_of_g(*read("new", 1, {0: "present"}), listed("new", 1, *DUE[1:]))
    assert name_of_g(listed("new", 1, *DUE[1:]), *read("new", 1, {0: "no_entry"})) is None
    assert name_of_g(listed("new", 1, *DUE[1:]), *read("other", 1, {0: "present"})) is None
    assert name_of_g(listed("new", 1, *DUE[1:]), *read("new", 2, {0: "present"})) is None


def test_a_bookie_that_cannot_list_is_known_by_entries_that_were_read() -> None:
    """It must have sent the first, the middle and the last entry that the gone bookie should
    hold.
    """
    cannot = listed("new", 1, can_list=False)
    assert "new" == name_of_g(cannot, *read("new", 1, dict.fromkeys((0, 4, 9), "present")))
    assert name_of_g(cannot, *read("new", 1, dict.fromkeys((0, 9), "present"))) is None


def test_a_gone_bookie_is_compared_by_its_own_ledgers() -> None:
    """Answers for another gone bookie do not count, nor those on ledgers that changed since."""
    other = listed("new", 2, 0, gone=("h",)), listed("new", 2, 0, gone=())
    assert "new" == name_of_g(listed("new", 1, *DUE, gone=("h", "g")), *other)
    assert name_of_g(listed("new", 1, *DUE, gone=("h",))) is None


@pytest.mark.parametrize("is_later_first", [False, True])
def test_the_metadata_that_was_read_last_counts(is_later_first: bool) -> None:
    """The order of the rows does not matter. A ledger that was gone at the last look is not
    compared.
    """
    moved = states(1, look=2, written=ledger("e3 w2 a2 0:[g a c] closed 9"))
    ledger_states = moved + states(1) if is_later_first else states(1) + moved
    assert name_of_g(listed("new", 1, *DUE), ledgers=ledger_states) is None
    assert "new" == name_of_g(listed("new", 1, *ALL), ledgers=ledger_states)
    gone = states(1, look=2, written=None)
    ledger_states = gone + states(1) if is_later_first else states(1) + gone
    assert name_of_g(listed("new", 1, *DUE), ledgers=ledger_states) is None
    assert "new" == name_of_g(
        listed("new", 1, 0), listed("new", 2, *DUE), ledgers=ledger_states + states(2)
    )


def test_ledgers_too_long_to_count_are_left_to_the_first_checker() -> None:
    """The second checker takes its word that a bookie holds such a ledger, or that none does."""
    last = 2 * ENUMERATED_ENTRIES_MAX
    vast = states(1, written=ledger(f"e1 w1 a1 0:[g] closed {last}"))
    row = listed("new", 1)
    for held, name in ((last + 1, "new"), (last - 9, None)):
        groups = encode_runs([(0, held)])[HEADER_BYTES:]
        assert name == name_of_g((*row[:6], groups, *row[7:]), ledgers=vast)

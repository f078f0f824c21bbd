"""When the auditor itself is at fault."""

from __future__ import annotations

from auditor.summary.outcome import is_fault


def test_one_ledger_on_which_the_checkers_differ_is_a_fault_of_ours() -> None:
    """Without such a ledger there is no fault. Poison ledgers are not one by themselves."""
    assert [True, False, False] == [
        is_fault(one) for one in ({"checkers_disagree": 1}, {"checkers_disagree": 0}, {"poison": 9})
    ]

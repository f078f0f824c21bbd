"""When the auditor itself is wrong."""

from __future__ import annotations

from auditor.summary.outcome import is_fault


def test_one_ledger_on_which_the_checkers_differ_is_a_fault_of_ours() -> None:
    """None is not, and nothing else is."""
    assert [True, False, False] == [
        is_fault(one) for one in ({"checkers_disagree": 1}, {"checkers_disagree": 0}, {"poison": 9})
    ]

"""What `auditor run` says of an unforeseen error."""

from __future__ import annotations

import pytest

from auditor.commands import run as run_command


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (AssertionError(), "AssertionError"),
        (ValueError("no such look\n  at all"), "ValueError: no such look"),
    ],
)
def test_an_unforeseen_error_is_named_with_its_first_line(error: Exception, expected: str) -> None:
    """An error without words is shown by its type alone: no brackets, no quotes."""
    assert expected == run_command._first_line(error)
